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
from certigraph.state.records import Action, Task

MOST_PADDING = 2
"""Random steps at each end of a positive trajectory, at most."""

TRIES = 40
"""Draws of random steps before a task is given up."""


class Demonstrated(Benchmark, Protocol):
    """A benchmark that knows how its tasks are done."""

    def demonstration(self, task: Task, before: Sequence[str] = ()) -> list[str]:
        """Actions that reach the goal from the start, or from where the actions `before` lead."""
        ...


def build_pair(benchmark: Demonstrated, task: Task, seed: int = 0) -> Pair | None:
    """The pair of a task, the same for the same seed; None where no demonstration reached the goal."""
    random = Random(f"{seed}:{benchmark.name}:{task.id}")
    positive = next(filter(None, (_positive(benchmark, task, random, n) for n in range(TRIES))), None)
    if positive is None:
        return None
    expert = [row.action for row in positive if row.reward.is_expert]
    negative = next(
        filter(None, (_negative(benchmark, task, random, expert, len(positive)) for _ in range(TRIES))), None
    )
    if negative is None:
        return None
    told = [Recording(goal_description=task.goal, trajectory=tuple(rows)) for rows in (positive, negative)]
    return Pair(domain=benchmark.name, task=task.id, positive=told[0], negative=told[1])


def _positive(benchmark: Demonstrated, task: Task, random: Random, tried: int) -> list[Row] | None:
    """Random steps, the expert's, random steps; None where the first ones kept the expert from the goal."""
    most = MOST_PADDING if tried < TRIES - 1 else 0  # the last try is the demonstration alone
    world = benchmark.open(task)
    try:
        world.reset()
        before = _wandered(world, random, random.randint(0, most))
        actions = benchmark.demonstration(task, [row.action for row in before])
        expert = [_stepped(world, action) for action in actions]
        if not expert or world.score().value < 1.0:
            return None
        shaped = [_worth(row, (place + 1) / len(expert)) for place, row in enumerate(expert)]
        return [*before, *shaped, *_wandered(world, random, random.randint(0, most))]
    except Fault:
        return None
    finally:
        world.close()


def _negative(
    benchmark: Demonstrated, task: Task, random: Random, expert: Sequence[str], length: int
) -> list[Row] | None:
    """As many random steps as the positive trajectory has; None where they share a stretch with the expert's."""
    world = benchmark.open(task)
    try:
        world.reset()
        rows = _wandered(world, random, length)
    finally:
        world.close()
    shared = set(pairwise(expert)) & set(pairwise(row.action for row in rows))
    if shared or not rows or any(row.reward.raw >= 1.0 for row in rows):
        return None
    return [row.model_copy(update={"reward": Reward(raw=row.reward.raw)}) for row in rows]


def _wandered(world: Environment, random: Random, steps: int) -> list[Row]:
    rows: list[Row] = []
    for _ in range(steps):
        actions = world.admissible()
        if not actions:
            break
        rows.append(_stepped(world, random.choice(sorted(actions))))
    return rows


def _stepped(world: Environment, action: str) -> Row:
    observation = world.step(Action(text=action))
    raw = min(1.0, max(0.0, world.score().value))
    return Row(action=action, observation=observation.text, reward=Reward(raw=raw, shaped=raw))


def _worth(row: Row, shaped: float) -> Row:
    return row.model_copy(update={"reward": Reward(raw=row.reward.raw, shaped=shaped, is_expert=True)})
