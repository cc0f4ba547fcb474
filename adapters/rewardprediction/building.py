"""Building pairs from live worlds: the four stages of RewardPrediction's pipeline (StateFactory, appendix A.1).

Expert trajectories with random steps at both ends; rewards interpolated along the expert's part and the world's own
elsewhere; random trajectories that share nothing with the expert's; texts and action lists as the worlds give them.
"""

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Protocol

from certigraph.adapters.protocols import Benchmark, Environment
from certigraph.adapters.rewardprediction.rows import Pair, Recording, Reward, Row
from certigraph.state.endings import Fault
from certigraph.state.records import Action, Observation, Task

MOST_PADDING = 2
"""Random steps at each end of a positive trajectory, at most."""

PADDED = 8
"""Draws of random steps before a demonstration; if after none of them it reaches the goal, it stands alone."""

TRIES = 40
"""Draws of a negative trajectory before a task is given up."""


class Demonstrated(Benchmark, Protocol):
    """A benchmark that knows how its tasks are done."""

    def demonstration(self, task: Task, before: Sequence[str] = ()) -> list[str]:
        """Actions that reach the goal from the start, or from where the actions `before` lead.

        Raises:
            Fault: ("data") there are none.
        """
        ...


def build_pair(benchmark: Demonstrated, task: Task, seed: int = 0) -> Pair | None:
    """The pair of a task; None where there is none to be had."""
    try:
        return paired(benchmark, task, seed)
    except Fault:
        return None


def paired(benchmark: Demonstrated, task: Task, seed: int = 0) -> Pair:
    """The pair of a task, the same for the same seed.

    Raises:
        Fault: ("data") no demonstration reaches the goal, or every random trajectory fails the filter; as the world
            and its demonstration raise.
    """
    random = Random(f"{seed}:{benchmark.name}:{task.id}")
    padded = (_positive(benchmark, task, random, MOST_PADDING) for _ in range(PADDED))
    positive = next(filter(None, padded), None) or _positive(benchmark, task, random, 0)
    segments = _segments([row.action for row in positive if row.reward.is_expert])
    wandering = (_negative(benchmark, task, random, len(positive)) for _ in range(TRIES))
    negative = next((rows for rows in wandering if _fails(rows, segments)), None)
    if negative is None:
        raise Fault("data", f"all of {TRIES} random trajectories share a stretch with the expert's or reach the goal")
    told = [Recording(goal_description=task.goal, trajectory=tuple(rows)) for rows in (positive, negative)]
    return Pair(domain=benchmark.name, task=task.id, positive=told[0], negatives=(told[1],))


def _positive(benchmark: Demonstrated, task: Task, random: Random, most: int) -> list[Row]:
    """Random steps, the expert's, random steps; nothing where the first ones kept the expert from the goal.

    Raises:
        Fault: without any random steps before it the demonstration does not get there, or there is none.
    """
    world = benchmark.open(task)
    before: list[Row] = []
    try:
        world.reset()
        before = _wandered(world, random, random.randint(0, most))
        expert = _followed(world, benchmark.demonstration(task, [row.action for row in before]))
        if not expert or expert[-1].reward.raw < 1.0:
            reached = f"{expert[-1].reward.raw:g}" if expert else "no step"
            raise Fault("data", f"its demonstration ends at {reached} of 1")
        shaped = [_worth(row, (place + 1) / len(expert)) for place, row in enumerate(expert)]
        return [*before, *shaped, *_wandered(world, random, random.randint(0, most))]
    except Fault:
        if not before:
            raise
        return []
    finally:
        world.close()


def _followed(world: Environment, actions: Sequence[str]) -> list[Row]:
    """The steps up to the one that reaches the goal: what a demonstration does after it is no progress."""
    rows: list[Row] = []
    for action in actions:
        rows.append(_row(world, action, world.step(Action(text=action))))
        if rows[-1].reward.raw >= 1.0:
            break
    return rows


def _negative(benchmark: Demonstrated, task: Task, random: Random, length: int) -> list[Row]:
    """As many random steps as the positive trajectory has, fewer where the world ends before; all worth nothing."""
    world = benchmark.open(task)
    try:
        world.reset()
        rows = _wandered(world, random, length)
    finally:
        world.close()
    return [row.model_copy(update={"reward": Reward(raw=row.reward.raw)}) for row in rows]


def _segments(expert: Sequence[str]) -> set[tuple[str, ...]]:
    """What a random trajectory must not contain: any two of the expert's actions in a row, or its only one."""
    return set(pairwise(expert)) or {tuple(expert)}


def _fails(rows: Sequence[Row], segments: set[tuple[str, ...]]) -> bool:
    """The strict filter: a failure neither reaches the goal nor has a stretch of the expert's."""
    actions = [row.action for row in rows]
    shared = segments & {*pairwise(actions), *((action,) for action in actions)}
    return bool(rows) and not shared and all(row.reward.raw < 1.0 for row in rows)


def _wandered(world: Environment, random: Random, steps: int) -> list[Row]:
    rows: list[Row] = []
    while len(rows) < steps and (actions := world.admissible()):
        action = random.choice(sorted(actions))
        observation = world.step(Action(text=action))
        if observation.done and not observation.accepted:  # the episode was over before
            break
        rows.append(_row(world, action, observation))
    return rows


def _row(world: Environment, action: str, observation: Observation) -> Row:
    raw = min(1.0, max(0.0, world.score().value))
    return Row(action=action, observation=observation.text, reward=Reward(raw=raw, shaped=raw))


def _worth(row: Row, shaped: float) -> Row:
    return row.model_copy(update={"reward": Reward(raw=row.reward.raw, shaped=shaped, is_expert=True)})
