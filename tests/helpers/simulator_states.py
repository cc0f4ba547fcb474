"""Episodes of the five worlds of RewardPrediction with what the simulator itself holds after each step.

A fixed expert plays. States and goals are read from the simulator's own records (facts, object tree, page), never from
the texts that agents see. States have the things that texts have named so far. A goal names a thing by its kind until a
text has named the thing itself.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from certigraph.adapters.alfworld.benchmark import ALFWorld, AlfworldGame, PddlFact
from certigraph.adapters.blocksworld.benchmark import BlocksWorld
from certigraph.adapters.blocksworld.domain import BlockFact, format_block
from certigraph.adapters.protocols import Environment
from certigraph.adapters.scienceworld.recordings import GoldRecording
from certigraph.adapters.scienceworld.simulator import JavaSimulator
from certigraph.adapters.textworld.world import GameLibrary, clean_text
from certigraph.adapters.webshop.benchmark import WebShop
from certigraph.adapters.webshop.products import normalise_value
from certigraph.adapters.webshop.world import WebShopWorld
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


def is_named(name: str, text: str) -> bool:
    """Whether a text has a name as whole words, not followed by a number."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w| \d)", text) is not None


def kind_of(name: str) -> str:
    return re.sub(r" \d+$", "", name)


def _episode(
    task: Task, raw: Sequence[_Raw], wanted: Facts, kinds: Mapping[str, str], always: Container[str] = (AGENT,)
) -> Episode:
    """Leave out of each state what no text has named, except the names in `always`, which no text has."""
    steps, text = list[Step](), ""
    for one in raw:
        text += f"\n{one.action}\n{one.text}"
        unseen = {name: kind for name, kind in kinds.items() if not is_named(name, text)}
        seen = {name: has for name, has in one.state.items() if name in always or is_named(name, text)}
        steps.append(Step(one.action, one.text, seen, _rename(wanted, unseen), one.solved))
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
    reply = game.reset()
    raw = [_Raw("", reply.text, _household(reply.facts), reply.won)]
    for action in actions:
        reply = game.step(action)
        raw.append(_Raw(action, reply.text, _household(reply.facts), reply.won))
    game.close()
    wanted = _household_goal(task_id, raw[-1].state)
    names = [*wanted, *(has["location"] for has in wanted.values())]
    return _episode(task, raw, wanted, {name: kind_of(name) for name in names})


def _household(facts: Collection[PddlFact]) -> Facts:
    found: Facts = {AGENT: {"holding": "nothing"}}
    places = {fact[2]: fact[1] for fact in facts if fact[0] == "receptacleatlocation"}
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
        elif name == "atlocation" and args[1] in places:
            found[AGENT]["location"] = places[args[1]]
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


# ScienceWorld: the object tree, and the table of the task's subgoals.

_SUBGOAL = re.compile(r"^\d+\t(true|false)\t\s*\w+\t(.+)$", re.MULTILINE)


def scienceworld(simulator: JavaSimulator, recording: GoldRecording) -> Episode:
    text = simulator.load(recording.task, recording.variation, recording.simplification)
    raw = [_Raw("", text, _laboratory(simulator), False)]
    for action in recording.actions:
        text = simulator.step(action)
        raw.append(_Raw(action, text, _laboratory(simulator), simulator.score() == 100))
    wanted = {name: {"status": "done"} for name in raw[0].state if name.startswith("subgoal ")}
    task = Task(benchmark="scienceworld", id=recording.id, goal=recording.desc)
    return _episode(task, raw, wanted, {}, {AGENT, *wanted})


def _laboratory(simulator: JavaSimulator) -> Facts:
    world = simulator.read_state("")
    names = Counter(thing.name for thing in world.objects)
    found: Facts = {AGENT: {"location": world.room}}
    for thing in world.objects:
        if names[thing.name] == 1:
            condition = {"condition": ", ".join(thing.properties)} if thing.properties else {}
            wires = {"wires": ", ".join(thing.connected)} if thing.connected else {}
            found[thing.name] = {"location": thing.place, **condition, **wires}
    sequential = simulator.progress().partition("Unordered and Optional")[0]
    for number, (done, what) in enumerate(_SUBGOAL.findall(sequential), 1):
        found[f"subgoal {number}: {what.strip()}"] = {"status": "done" if done == "true" else "open"}
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
        for wish in world.goal.options
        for name, values in product.options.items()
        for value in values
        if normalise_value(value) == normalise_value(wish)
    }
    wanted = {PURCHASE: {"product": product.asin, **options}}
    return _episode(task, raw, wanted, {product.asin: "wanted product"}, {PAGE, ITEM, PURCHASE})


def _shown(world: WebShopWorld) -> Facts:
    page = world.page
    found = {PAGE: {"kind": page.kind, **({"keywords": page.keywords} if page.keywords else {})}}
    if page.asin:
        found[PURCHASE if page.kind == "bought" else ITEM] = {"product": page.asin, **page.options}
    return found
