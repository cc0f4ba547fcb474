"""Audit of the rules that certify ScienceWorld's conditions, against the simulator's object tree.

The paths are the gold path of each of the thirty tasks, and copies of it with one wrong action: to a wrong room, with a
wrong object, a wrong focus, or an action that the world denies. After every action each rule decides conditions about
everything in the world.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence

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

MAX_PERTURBED_STEPS = 25
"""Maximum number of actions of a perturbed path."""

MAX_SAMPLED = 10
"""Maximum number of things, besides those that an action names, about which it is asked where they are."""

KINDS = ("wrong room", "wrong object", "wrong focus", "denied action")


def list_tasks() -> list[str]:
    """Return the names of the thirty tasks."""
    return sorted({task_id.partition("/")[2].partition(":")[0] for task_id in list_ids("gold")})


def conditions_about(world: WorldState, goal: str, action: str) -> Iterator[str]:
    """Yield conditions about everything that exists, about the task's own things, and about the last action."""
    names = sorted({thing.name for thing in world.objects})
    places = sorted({holder for thing in world.objects for holder in thing.holders} | {*ROOMS})
    yield from draft_conditions(goal)
    for room in (*ROOMS, f"{ROOMS[0]} and the stove is on"):
        yield f"The agent is in the {room}."
    for name in names:
        yield f"The location of the {name} is known."
        yield f"The {name} is in focus."
        yield f"The inventory contains the {name}."
        yield f"The {name} has been made."
        yield f"The {name.split()[-1]} is in focus."
        yield f"The inventory contains the {name.split()[-1]}."
        yield f"The {name} is turned on."
        yield f"The {name} is turned off."
    mentioned = [name for name in names if name in action]
    sampled = random.Random(f"{action} {len(names)}").sample(names, min(MAX_SAMPLED, len(names)))
    for name in dict.fromkeys([*mentioned, *sampled]):
        for place in places:
            yield f"The {name} is in the {place}."


def perturb(gold: Sequence[str], kind: str, draw: random.Random, names: Sequence[str]) -> list[str]:
    """Return a copy of a path with one wrong action in it."""
    at = draw.randrange(min(len(gold), MAX_PERTURBED_STEPS - 1))
    wrong = {
        "wrong room": f"teleport to {draw.choice(ROOMS)}",
        "wrong object": f"pick up {draw.choice(names)}",
        "wrong focus": f"focus on {draw.choice(names)}",
        "denied action": draw.choice(["sing a song", f"open {draw.choice(names)}", "go to the moon", ""]),
    }[kind]
    return [*gold[:at], wrong, *gold[at:]][:MAX_PERTURBED_STEPS]


def audit_task(task: str, perturbed: int) -> list[Audit]:
    """Audit the gold path of a task's first variation and perturbed copies of it, in one simulator."""
    simulator = JavaSimulator()
    try:
        gold = load_gold_recording(task, 0, "easy")
        setting = SPLITS["gold"].setting(task, 0).model_copy(update={"simplification": "easy"})
        audits = [_walk(f"{task} gold", gold.actions, gold.desc, setting, simulator)]
        names = sorted({thing.name for thing in read_world(simulator.object_tree()).objects})
        for number in range(perturbed):
            kind = KINDS[number % len(KINDS)]
            path = perturb(gold.actions, kind, random.Random(f"{task} {number}"), names)
            audits.append(_walk(f"{task} {kind}", path, gold.desc, setting, simulator))
        return audits
    finally:
        simulator.close()


def _walk(path: str, actions: Sequence[str], goal: str, setting: object, simulator: JavaSimulator) -> Audit:
    world = ScienceWorld(setting, SimulatorPool(lambda: simulator))  # type: ignore[arg-type]
    observation, focus = world.reset(), ""
    counts, false = Counter[str](), list[str]()
    for action in actions:
        if observation.done:
            break
        observation = world.step(Action(text=action))
        if observation.text.startswith("You focus on the "):
            focus = observation.text.removeprefix("You focus on the ").rstrip(".")
        truth = read_world(simulator.object_tree(), focus)
        view = world.view()
        for text in dict.fromkeys(conditions_about(truth, goal, action)):
            decision, condition = decide_condition(text, observation, view), parse_condition(text)
            if decision is None:
                counts["undecided"] += 1
                continue
            holds = truth.holds(condition) if condition else None
            counts["decided"] += 1
            counts["certified"] += decision.holds
            if decision.holds != holds:
                counts["false"] += 1
                false.append(f"{action!r} -> {observation.text[:80]!r}: {text} {decision}, the tree says {holds}")
    return Audit(path, counts, tuple(false))
