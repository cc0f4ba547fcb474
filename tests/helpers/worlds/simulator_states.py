"""Episodes of the five worlds of RewardPrediction with what the simulator itself holds after each step.

A fixed expert plays. States and goals are read from the simulator's own records (facts, object tree, page), never from
the texts that agents see. States have the things that texts have named so far. A goal names a thing by its kind until
the texts name one thing of that kind, or an action chooses among several.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from certigraph.adapters.protocols import Environment
from certigraph.benchmarks.alfworld.benchmark import ALFWorld, AlfworldGame, PddlFact
from certigraph.benchmarks.blocksworld.benchmark import BlocksWorld
from certigraph.benchmarks.blocksworld.domain import BlockFact, format_block
from certigraph.benchmarks.scienceworld.objects import HIDDEN
from certigraph.benchmarks.scienceworld.recordings import GoldRecording
from certigraph.benchmarks.scienceworld.simulator import JavaSimulator
from certigraph.benchmarks.textworld.world import GameLibrary, clean_text
from certigraph.benchmarks.webshop.benchmark import WebShop
from certigraph.benchmarks.webshop.products import normalise_value
from certigraph.benchmarks.webshop.world import WebShopWorld
from certigraph.state.records import Action, Task

Facts = dict[str, dict[str, str]]
"""Thing -> attribute -> value."""


class Step(NamedTuple):
    """An action (empty at the start), the world's text, and what the simulator holds after it."""

    action: str
    text: str
    state: Facts
    goal: Facts
    solved: bool


class Episode(NamedTuple):
    """A goal in the world's words, the steps, and the kinds by which the goal names things that were not seen yet."""

    domain: str
    task: str
    goal: str
    steps: tuple[Step, ...]
    kinds: Mapping[str, str]


class _Raw(NamedTuple):
    """A step before things that were not named yet are left out."""

    action: str
    text: str
    state: Facts
    solved: bool


AGENT = "agent"


def names_in(text: str, names: Iterable[str]) -> set[str]:
    """Return the names that a text has as whole words, not followed by a number, nor as a part of a longer name."""
    longest_first = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return set(re.findall(rf"(?<!\w)(?:{longest_first})(?!\w| \d)", text)) if longest_first else set()


def kind_of(name: str) -> str:
    return re.sub(r" \d+$", "", name)


def is_singled_out(name: str, kind: str, text: str, actions: str) -> bool:
    """Whether texts have named no other thing of a kind, or an action has named this one."""
    rivals = set(re.findall(rf"(?<!\w){re.escape(kind)} \d+", text))
    return bool(names_in(actions, [name]) or (names_in(text, [name]) and rivals <= {name}))


def _episode(
    task: Task,
    raw: Sequence[_Raw],
    wanted: Facts,
    kinds: Mapping[str, str],
    is_shown: Callable[[str, str, str], bool] | None = None,
) -> Episode:
    """Leave out of each state what no text has shown.

    `is_shown` says of a thing, an attribute and all texts so far whether it was shown; by default if a text has named
    the thing. A thing of the goal keeps its name once it was singled out.
    """
    steps, text, actions, open_kinds = list[Step](), "", "", dict(kinds)
    names = {AGENT, *(name for one in raw for name in one.state)}
    for one in raw:
        text, actions = f"{text}\n{one.action}\n{one.text}", f"{actions}\n{one.action}"
        named = {AGENT, *names_in(text, names)}
        state = {
            name: {key: value for key, value in has.items() if not is_shown or is_shown(name, key, text)}
            for name, has in one.state.items()
            if is_shown or name in named
        }
        seen = {name: has for name, has in state.items() if has}
        open_kinds = {name: kind for name, kind in open_kinds.items() if not is_singled_out(name, kind, text, actions)}
        steps.append(Step(one.action, one.text, seen, _rename(wanted, open_kinds), one.solved))
    return Episode(task.benchmark, task.id, task.goal, tuple(steps), kinds)


def _rename(facts: Facts, names: Mapping[str, str]) -> Facts:
    def new(text: str) -> str:
        return names.get(text, text)

    return {new(name): {key: new(value) for key, value in has.items()} for name, has in facts.items()}


def _play(world: Environment, actions: Sequence[str], read: Callable[[], Facts]) -> list[_Raw]:
    seen = world.reset()
    raw = [_Raw("", seen.text, read(), seen.solved)]
    for action in actions:
        seen = world.step(Action(text=action))
        raw.append(_Raw(action, seen.text, read(), seen.solved))
    return raw


# BlocksWorld: its facts.


def blocksworld(task_id: str) -> Episode:
    benchmark = BlocksWorld()
    task = benchmark.task(task_id)
    world = benchmark.open(task)
    raw = _play(world, benchmark.demonstration(task), lambda: _blocks(world.state))
    return _episode(task, raw, _blocks(world.instance.goal), {})


def _blocks(facts: Iterable[BlockFact]) -> Facts:
    found: Facts = {}
    for fact in facts:
        names = [format_block(block) for block in fact.args]
        if fact.name == "on":
            found.setdefault(names[0], {})["below"] = names[1]
        elif fact.name in ("ontable", "holding"):
            found.setdefault(names[0], {})["below"] = {"ontable": "table", "holding": "hand"}[fact.name]
        elif fact.name == "clear":
            found.setdefault(names[0], {})["above"] = "nothing"
    return found


# ALFWorld: PDDL facts; what is wanted stands in the name of the task's folder.

_TREATMENTS = {"isclean": ("cleanliness", "clean"), "ishot": ("temperature", "hot"), "iscool": ("temperature", "cool")}
_TREATED = {"pick_clean": "isclean", "pick_heat": "ishot", "pick_cool": "iscool"}


def alfworld(data: Path, task_id: str, actions: Sequence[str]) -> Episode:
    benchmark = ALFWorld(data)
    task, game = benchmark.task(task_id), AlfworldGame(benchmark.games.path(task_id))
    reply, place = game.reset(), ""
    raw = [_Raw("", reply.text, _household(reply.facts, place), reply.won)]
    for action in actions:
        reply = game.step(action)
        place = action.removeprefix("go to ") if action.startswith("go to ") else place
        raw.append(_Raw(action, reply.text, _household(reply.facts, place), reply.won))
    game.close()
    wanted = _household_goal(task_id, raw[-1].state)
    names = [*wanted, *(has["location"] for has in wanted.values())]
    return _episode(task, raw, wanted, {name: kind_of(name) for name in names}, _is_shown_in_household)


def _is_shown_in_household(name: str, key: str, text: str) -> bool:
    if key == "door":
        return re.search(rf"[Tt]he {re.escape(name)} is (open|closed)", text) is not None
    return name == AGENT or bool(names_in(text, [name]))


def _household(facts: Collection[PddlFact], place: str) -> Facts:
    """Read facts; several receptacles can be at the agent's location, and `place` is the one to which it went."""
    found: Facts = {AGENT: {"holding": "nothing", "location": "middle of the room"}}
    at = {fact[2] for fact in facts if fact[0] == "atlocation"}
    if any(fact[0] == "receptacleatlocation" and fact[1] == place and fact[2] in at for fact in facts):
        found[AGENT]["location"] = place
    for name, *args in sorted(facts):
        if name == "inreceptacle":
            found.setdefault(args[0], {})["location"] = args[1]
        elif name == "holds":
            found.setdefault(args[1], {})["location"] = "in hand"
            found[AGENT]["holding"] = args[1]
        elif name == "openable":
            found.setdefault(args[0], {})["door"] = "open" if ("opened", args[0]) in facts else "closed"
        elif name in _TREATMENTS:
            key, value = _TREATMENTS[name]
            found.setdefault(args[0], {})[key] = value
    return found


def _household_goal(task_id: str, final: Facts) -> Facts:
    """The wanted things, treated and in their place, by the names with which the last state fulfils the task."""
    family, target, _, place, _ = task_id.partition("/")[0].lower().split("-")
    treated = next((_TREATMENTS[fact] for prefix, fact in _TREATED.items() if family.startswith(prefix)), None)
    more = dict([treated] if treated else ())
    fits = {
        name: {"location": has["location"], **more}
        for name, has in final.items()
        if kind_of(name) == target and kind_of(has.get("location", "")) == place and more.items() <= has.items()
    }
    return dict(list(fits.items())[: 2 if family.startswith("pick_two") else 1])


# TextWorld: the facts of its logic, and the conditions of the event that wins.


def textworld(name: str) -> Episode:
    engine, generator = import_module("textworld"), import_module("textworld.generator.game")
    game = GameLibrary().game(name)
    description = generator.Game.load(str(game.story.with_name("game.json")))
    [quest] = description.quests
    [event] = quest.win_events
    names = {key: info.name or key for key, info in description.infos.items()}
    wanted = _logic(
        (fact.name, [names.get(one.name, one.name) for one in fact.arguments]) for fact in event.condition.preconditions
    )
    play = engine.start(str(game.story), engine.EnvInfos(facts=True, won=True, description=True, inventory=True))

    def read(action: str, state: Any, text: str) -> _Raw:
        facts = [(str(fact.name), [str(one.name) for one in fact.arguments]) for fact in state.facts]
        return _Raw(action, clean_text(text), _logic(facts), bool(state.won))

    state = play.reset()
    raw = [read("", state, f"{state.description}\n\n{state.inventory}")]
    for command in game.walkthrough:
        state, _, _ = play.step(command)
        raw.append(read(command, state, state.feedback))
    play.close()
    return _episode(Task(benchmark="textworld", id=name, goal=game.objective), raw, wanted, {})


def _logic(facts: Iterable[tuple[str, list[str]]]) -> Facts:
    found: Facts = {}
    for name, args in sorted(facts):
        thing = AGENT if args[0] == "P" else args[0]
        if name in ("at", "in", "on"):
            found.setdefault(thing, {})["location"] = f"{name} {'inventory' if args[1] == 'I' else args[1]}"
        elif name in ("open", "closed", "locked"):
            found.setdefault(thing, {})["door"] = name
        elif name == "eaten":
            found.setdefault(thing, {})["location"] = name
    return found


# ScienceWorld: the object tree, the room's doors, which the tree lacks, and the table of the task's subgoals.

_SUBGOAL = re.compile(r"^\d+\t(true|false)\t\s*\w+\t(.+)$", re.MULTILINE)
_DOOR = re.compile(r"door to the (.+) \(that is (open|closed)\)")
_SHOWN = {
    "power": "{}, which is (turned )?(on|off|activated|deactivated)",
    "door": "{} door is (open|closed)",
    "temperature": "{}, currently reading a temperature|use thermometer.* on {}(?! \\d)",
}
"""Attribute -> the pattern of an action and its text by which it is shown of a thing."""


def scienceworld(simulator: JavaSimulator, recording: GoldRecording) -> Episode:
    text = simulator.load(recording.task, recording.variation, recording.simplification)
    laboratory = _Laboratory(simulator)
    raw = [_Raw("", text, laboratory.read("", text), False)]
    for action in recording.actions:
        text = simulator.step(action)
        raw.append(_Raw(action, text, laboratory.read(action, text), simulator.score() == 100))
    wanted = {name: {"status": "done"} for name in raw[0].state if name.startswith("subgoal ")}
    task = Task(benchmark="scienceworld", id=f"gold/{recording.task}:{recording.variation}", goal=recording.desc)
    return _episode(task, raw, wanted, {}, lambda *_: True)


class _Thing(NamedTuple):
    id: str
    name: str
    room: str
    holder: str
    """Id of what holds it directly; of its room, if nothing else does."""
    visible: bool
    attributes: Mapping[str, str]
    wires: Sequence[str]
    """Ids of the things to which it is connected."""


class _Laboratory:
    """What texts have shown of the simulator's objects.

    A thing is shown when it is visible in the agent's room and a text names it. It is read again as long as the agent
    is in its room. The second of two things with one name is `NAME 2`.
    """

    def __init__(self, simulator: JavaSimulator) -> None:
        self.simulator = simulator
        self.labels: dict[str, str] = {}
        """Id -> name in the state, of things that were shown."""
        self.shown: dict[tuple[str, str], str] = {}
        """Id and attribute -> value when a text last showed it."""
        self.facts: Facts = {}

    def read(self, action: str, text: str) -> Facts:
        """Return what texts have shown until now."""
        tree = self.simulator.object_tree()
        things = {thing.id: thing for thing in _things_in(tree)}
        room = next(thing.room for thing in things.values() if thing.name == AGENT)
        near = [thing for thing in things.values() if thing.room == room and thing.name not in HIDDEN and thing.visible]
        self._show(near, things, f"{action}\n{text}".lower())
        for gone in self.labels.keys() - things:
            self.facts.pop(self.labels[gone], None)
        for thing in near:
            if thing.id in self.labels:
                self.facts[self.labels[thing.id]] = self._facts_of(thing, things)
        self._read_doors(room, action, text)
        self._read_subgoals()
        return {AGENT: {"location": room}, **{name: dict(has) for name, has in self.facts.items()}}

    def _show(self, near: Sequence[_Thing], things: Mapping[str, _Thing], text: str) -> None:
        named = names_in(text, {thing.name for thing in things.values()})
        for thing in near:
            if thing.name not in named:
                continue
            if thing.id not in self.labels and things[thing.holder].name != "inventory":  # what the agent has unseen
                count = sum(things[other].name == thing.name for other in self.labels if other in things)
                self.labels[thing.id] = f"{thing.name} {count + 1}" if count else thing.name
            patterns = {key: pattern.format(*[re.escape(thing.name)] * 2) for key, pattern in _SHOWN.items()}
            for key, pattern in patterns.items():
                if key in thing.attributes and re.search(pattern, text):
                    self.shown[thing.id, key] = thing.attributes[key]

    def _facts_of(self, thing: _Thing, things: Mapping[str, _Thing]) -> dict[str, str]:
        def label(id_: str) -> str:
            return self.labels.get(id_, things[id_].name)

        wires = {"wires": ", ".join(map(label, thing.wires))} if thing.wires else {}
        current = {**thing.attributes, "temperature": self.shown.get((thing.id, "temperature"), "")}  # as last measured
        shown = {key: value for key, value in current.items() if (thing.id, key) in self.shown}
        return {"location": label(thing.holder), **shown, **wires}

    def _read_doors(self, room: str, action: str, text: str) -> None:
        for other, value in _DOOR.findall(self.simulator.look()):
            if f"door to the {other}" in text or action.endswith(f"door to {other}"):
                self.facts[f"door between {' and '.join(sorted([room, other]))}"] = {"door": value}

    def _read_subgoals(self) -> None:
        sequential = self.simulator.progress().partition("Unordered and Optional")[0]
        for number, (done, what) in enumerate(_SUBGOAL.findall(sequential), 1):
            self.facts[f"subgoal {number}: {what.strip()}"] = {"status": "done" if done == "true" else "open"}


def _things_in(tree: Mapping[str, Any]) -> Iterator[_Thing]:
    """Yield rooms and all that is in them."""
    owners = {end["uuid"]: node["uuid"] for node, *_ in _walk(tree, "", True) for end in _parts(node)}
    for room in _parts(tree):
        yield _Thing(room["uuid"], room["name"].lower(), room["name"].lower(), tree["uuid"], False, {}, ())
        for node, holder, visible in _walk(room, "", True):
            if node is not room:
                ends = [
                    end
                    for part in _parts(node)
                    for end in (part["propElectricalConnection"] or {}).get("connectedTo", ())
                ]
                wires = list(dict.fromkeys(owners[end] for end in ends if end in owners))
                name = node["name"].lower()
                yield _Thing(node["uuid"], name, room["name"].lower(), holder, visible, _attributes(node), wires)


def _walk(node: Mapping[str, Any], holder: str, visible: bool) -> Iterator[tuple[Mapping[str, Any], str, bool]]:
    yield node, holder, visible
    is_glass = (node["propMaterial"] or {}).get("substanceName") == "glass"
    is_open = is_glass or (node["propContainer"] or {}).get("isOpen", True)
    for part in _parts(node):
        yield from _walk(part, node["uuid"], visible and is_open)


def _parts(node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [part for part in node["contents"].values() if not part["isDeleted"]]


def _attributes(node: Mapping[str, Any]) -> dict[str, str]:
    device, container, material = (node[key] or {} for key in ("propDevice", "propContainer", "propMaterial"))
    found = {"power": "activated" if device["isActivated"] else "deactivated"} if device else {}
    if container.get("isClosable"):
        found["door"] = "open" if container["isOpen"] else "closed"
    if "temperatureC" in material:
        found["temperature"] = f"{material['temperatureC']:.0f} degrees"
    return found


# WebShop: the page, and what the purchase is judged by.

PAGE, ITEM, PURCHASE = "page", "item", "purchase"


def webshop(task_id: str, data: Path | None = None) -> Episode:
    benchmark = WebShop(data)
    task = benchmark.task(task_id)
    world = benchmark.open(task)
    raw = _play(world, benchmark.demonstration(task), lambda: _shown(world))
    product = world.shop.product(world.goal.asin)
    options = {
        name: value
        for wish in world.goal.values
        for name, values in product.options.items()
        for value in values
        if normalise_value(value) == normalise_value(wish)
    }
    wanted = {PURCHASE: {"product": product.asin, **options}}
    return _episode(task, raw, wanted, {product.asin: "wanted product"}, lambda *_: True)


def _shown(world: WebShopWorld) -> Facts:
    page = world.page
    found = {PAGE: {"kind": page.kind, **({"keywords": page.keywords} if page.keywords else {})}}
    if page.asin:
        found[PURCHASE if page.kind == "bought" else ITEM] = {"product": page.asin, **page.options}
    return found
