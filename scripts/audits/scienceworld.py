"""Audit of the rules that decide ScienceWorld's conditions, against the simulator's object tree.

The paths are the gold path of each of the thirty tasks, and copies of it with wrong actions: to a wrong room, with a
wrong object, a wrong focus, an action that the world denies, or several that move, open, close and pour what is there.
After every action each rule decides conditions about everything in the world, in all wordings. Counted as decided is
what the tree decides too; it does not tell adult from baby wolves, nor red from green apples.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeVar

from audits import Audit
from certigraph.benchmarks.scienceworld.conditions import ROOMS, decide_condition, parse_condition
from certigraph.benchmarks.scienceworld.objects import WorldState, read_world
from certigraph.benchmarks.scienceworld.operators import draft_conditions
from certigraph.benchmarks.scienceworld.pool import SimulatorPool
from certigraph.benchmarks.scienceworld.recordings import load_gold_recording
from certigraph.benchmarks.scienceworld.simulator import JavaSimulator
from certigraph.benchmarks.scienceworld.splits import SPLITS, list_ids
from certigraph.benchmarks.scienceworld.world import ScienceWorld
from certigraph.state.records import Action

T = TypeVar("T")

MAX_PERTURBED_STEPS = 25
"""Maximum number of actions of a perturbed path."""

MAX_SAMPLED = 10
"""Maximum number of things, besides those that an action names, about which it is asked where they are."""

KINDS = ("wrong room", "wrong object", "wrong focus", "denied action", "wrong moves")

WRONG_MOVES = ("open {1}", "close {1}", "move {0} to {1}", "pour {1} into {2}", "pick up {1}", "activate {0}")

ABOUT_THING = (
    ("The location of the {0} is known.", "{0} is in view", "the location of {0} is known"),
    ("The {0} is in focus.", "{0} is in focus"),
    ("The inventory contains the {0}.", "The agent has a {0}.", "the {0} is in the inventory"),
)
ABOUT_STATE = (
    ("The {0} is turned on.", "{0} is on", "The {0} is activated."),
    ("The {0} is turned off.", "{0} is off", "The {0} is deactivated."),
    ("The {0} is open.", "{0} is open"),
    ("The {0} is closed.",),
    ("The {0} is broken.",),
)
ABOUT_PLACE = ("The {0} is in the {1}.", "The {0} is on the {1}", "{0} is in {1}", "The {1} contains {0}.")
"""Wordings of conditions; those of one row mean the same."""

CLAIMING_MORE = (
    "It is not true that {0}", "{0} or the stove is hot", "{0} and everything is well", "{0} if the sink is on",
    "Either {0} or not", "{0} no longer",
)  # fmt: skip
"""Sentences that contain a condition but claim something else: no rule may decide them."""

SHOWN = re.compile(r"\b(?:an?|called) ([\w' -]+?)(?= \(|[.,;:)]|$)", re.MULTILINE)
"""Pattern of the names of things in a view."""


def list_tasks() -> list[str]:
    """Return the names of the thirty tasks."""
    return sorted({task_id.partition("/")[2].partition(":")[0] for task_id in list_ids("gold")})


def conditions_about(world: WorldState, goal: str, action: str, view: str) -> Iterator[str]:
    """Yield conditions about everything that exists, about the task's own things, and about the last action."""
    names = sorted({thing.name for thing in world.objects} | {name.lower() for name in SHOWN.findall(view)})
    places = sorted({holder for thing in world.objects for holder in thing.holders} | {*ROOMS})
    draw = random.Random(f"{action} {len(names)}")
    yield from draft_conditions(goal)
    yield from (f"The agent is in the {room}." for room in ROOMS)
    simple = [f"the agent is in the {draw.choice(ROOMS)}"]
    for name in names:
        for wordings in ABOUT_THING:
            yield draw.choice(wordings).format(_vary(name, draw))
        yield f"The {name.split()[-1]} is in focus."
        yield f"The inventory contains the {name.split()[-1]}."
    devices = [thing.name for thing in world.objects if {*thing.properties} - {"solid", "liquid", "gas"}]
    for name in dict.fromkeys([*devices, *_sample(names, draw)]):
        yield from (draw.choice(wordings).format(_vary(name, draw)) for wordings in ABOUT_STATE)
    asked = list(dict.fromkeys([name for name in names if name in action] + _sample(names, draw)))
    asked += [f"{one.name} in {one.place}" for one in _sample(world.objects, draw) if one.room == world.room]
    asked += [f"{one.place} containing {one.name}" for one in _sample(world.objects, draw) if one.room == world.room]
    for name in asked:
        yield from (f"The location of the {name} is known.", f"The {name} has been made.")
        simple += [draw.choice(ABOUT_PLACE).format(_vary(name, draw), place).rstrip(".") for place in places]
    yield from simple
    yield from (f"{one} and {other}." for one, other in zip(_sample(simple, draw), _sample(simple, draw), strict=True))
    pairs = zip(_sample(names, draw), _sample(names, draw), strict=True)
    yield from (f"The inventory contains the {one} and the {other}." for one, other in pairs)


def _sample(items: Sequence[T], draw: random.Random) -> list[T]:
    return draw.sample(items, min(MAX_SAMPLED, len(items)))


def _vary(name: str, draw: random.Random) -> str:
    """Return a name as somebody may write it: as it is, with other capitals, or in the plural."""
    return draw.choice([name, name, name.capitalize(), name.upper(), f"{name}s"])


def perturb(gold: Sequence[str], kind: str, draw: random.Random, world: WorldState) -> list[str]:
    """Return a copy of a path with wrong actions in it."""
    at = draw.randrange(min(len(gold), MAX_PERTURBED_STEPS - 1))
    names = sorted({thing.name for thing in world.objects})
    places = sorted({holder for thing in world.objects for holder in thing.holders})
    wrong = {
        "wrong room": [f"teleport to {draw.choice(ROOMS)}"],
        "wrong object": [f"pick up {draw.choice(names)}"],
        "wrong focus": [f"focus on {draw.choice(names)}"],
        "denied action": [draw.choice(["sing a song", f"open {draw.choice(names)}", "go to the moon", ""])],
        "wrong moves": [
            draw.choice(WRONG_MOVES).format(draw.choice(names), draw.choice(places), draw.choice(places))
            for _ in range(8)
        ],
    }[kind]
    return [*gold[:at], *wrong, *gold[at:]][:MAX_PERTURBED_STEPS]


def audit_task(task: str, perturbed: int) -> list[Audit]:
    """Audit the gold path of a task's first variation and perturbed copies of it, in one simulator."""
    simulator = JavaSimulator()
    try:
        gold = load_gold_recording(task, 0, "easy")
        setting = SPLITS["gold"].setting(task, 0).model_copy(update={"simplification": "easy"})
        audits = [_walk(f"{task} gold", gold.actions, gold.desc, setting, simulator)]
        world = read_world(simulator.object_tree())
        for number in range(perturbed):
            kind = KINDS[number % len(KINDS)]
            path = perturb(gold.actions, kind, random.Random(f"{task} {number}"), world)
            audits.append(_walk(f"{task} {kind}", path, gold.desc, setting, simulator))
        return audits
    finally:
        simulator.close()


def _walk(path: str, actions: Sequence[str], goal: str, setting: object, simulator: JavaSimulator) -> Audit:
    world = ScienceWorld(setting, SimulatorPool(lambda: simulator))  # type: ignore[arg-type]
    observation = world.reset()
    counts, false = Counter[str](), list[str]()
    for action in actions:
        if observation.done:
            break
        observation = world.step(Action(text=action))
        truth, view = read_world(simulator.object_tree(), world.focus), world.view()
        texts = list(dict.fromkeys(conditions_about(truth, goal, action, view)))
        claims = random.Random(action).choices(texts, k=len(CLAIMING_MORE))
        more = [form.format(claim.rstrip(".")) for form, claim in zip(CLAIMING_MORE, claims, strict=True)]
        for text in (*texts, *more):
            decision, condition = decide_condition(text, observation, view), parse_condition(text)
            if decision is None:
                counts["undecided"] += 1
                continue
            holds = truth.holds(condition) if condition and text not in more else None
            if holds is None and text not in more:
                counts["unchecked"] += 1
                continue
            counts["decided"] += 1
            counts["certified"] += decision.holds
            if decision.holds != holds:
                counts["false"] += 1
                counts["false yes" if decision.holds else "false no"] += 1
                false.append(f"{action!r} -> {observation.text[:80]!r}: {text} {decision}, the tree says {holds}")
    return Audit(path, counts, tuple(false))
