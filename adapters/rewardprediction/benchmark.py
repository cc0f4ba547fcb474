"""RewardPrediction as a benchmark: predicted rewards against true ones."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import sqrt
from pathlib import Path
from statistics import correlation, fmean
from typing import Any, cast

from pydantic import JsonValue

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.files import unknown_task
from certigraph.adapters.protocols import PAPER_LIMITS, Operator, Responder
from certigraph.adapters.rewardprediction.dataset import (
    Demonstrated,
    Pair,
    Read,
    Recording,
    build_pair,
    lacking,
    read_pairs,
)
from certigraph.state.records import Action, Fault, Observation, Scores, Task, UnknownName
from certigraph.state.rewards import DOMAIN, RECORDINGS, TRUE_REWARDS, Seen
from certigraph.state.trajectory import Footer

# EPIC distance between predicted and true rewards, in its closed form for rewards of states (StateFactory Eq. 3).

UNCORRELATED = sqrt(0.5)
"""What a constant prediction is worth: 0.7071."""


def epic_distance(predicted: Sequence[float], true: Sequence[float]) -> float:
    """sqrt((1 - r) / 2), r being Pearson's correlation; in [0, 1], 0 for equal rewards up to scale and offset.

    r counts as 0 where either side is constant, and as 1 where both sides are the same numbers (the reference's rules).

    Raises:
        ValueError: the two are not equally long, or empty.
    """
    if len(predicted) != len(true) or not true:
        raise ValueError(f"{len(predicted)} predicted rewards for {len(true)} true ones; give one for each step")
    if list(predicted) == list(true):
        return 0.0
    if 1 in (len(set(predicted)), len(set(true))):  # correlation() would correlate the rounding errors of two constants
        return UNCORRELATED
    return sqrt(max(0.0, 1.0 - correlation(predicted, true)) / 2)


# The world of a pair: it takes predicted rewards and says how far they are from the true ones.

Rewards = Sequence[Sequence[float]]


class RewardWorld:
    """One episode: it ends with the rewards that are handed in, one list for each of the recordings."""

    concurrent = False

    def __init__(self, recordings: Sequence[Recording]) -> None:
        self.recordings = recordings
        self.predicted: Rewards | None = None

    def reset(self) -> Observation:
        """As if nothing had been handed in."""
        self.predicted = None
        return Observation(text=self.view())

    def step(self, action: Action) -> Observation:
        """Take the predicted rewards: `args["rewards"]`, one list for each recording."""
        given = action.args.get("rewards")
        if not isinstance(given, list):
            return Observation(text="Hand in rewards: one list of numbers for each recording.", accepted=False)
        self.predicted = given  # type: ignore[assignment]
        return Observation(text=f"{sum(map(len, self.predicted or ()))} rewards taken.", done=True)

    def view(self) -> str:
        """What is to be rated."""
        return f"{len(self.recordings)} recordings, {sum(len(r.trajectory) for r in self.recordings)} steps."

    def admissible(self) -> None:
        """Rewards are not listed."""

    def score(self) -> Scores:
        """1 minus the pooled EPIC distance from the shaped rewards; its parts have the other figures.

        Nothing, with a value of 0, before rewards are handed in, and where the true ones are not known.
        """
        if self.predicted is None or not self.recordings:
            return Scores(value=0.0)
        parts = figures(self.recordings, self.predicted)
        true: list[JsonValue] = [[row.reward.shaped for row in one.trajectory] for one in self.recordings]
        return Scores(value=1.0 - parts["epic"], parts={**parts}, answer={TRUE_REWARDS: true})

    def close(self) -> None:
        """Nothing to release."""


def figures(recordings: Sequence[Recording], predicted: Rewards) -> dict[str, float]:
    """EPIC distances of one task's predictions, and the rewards that its trajectories end with.

    `epic` pools the recordings of the task before correlating, as the reference code does; `epic_each` is the mean of
    the distances of each recording; those with `raw` are from the world's own rewards instead of the shaped ones.
    """
    shaped = [[row.reward.shaped for row in one.trajectory] for one in recordings]
    raw = [[row.reward.raw for row in one.trajectory] for one in recordings]
    return {
        "epic": epic_distance(_pooled(predicted), _pooled(shaped)),
        "epic_each": _each(predicted, shaped),
        "epic_raw": epic_distance(_pooled(predicted), _pooled(raw)),
        "epic_each_raw": _each(predicted, raw),
        "final_positive": predicted[0][-1],
        "final_negative": fmean(one[-1] for one in predicted[1:]),
    }


def _each(predicted: Rewards, true: Rewards) -> float:
    return fmean(epic_distance(ours, theirs) for ours, theirs in zip(predicted, true, strict=True))


def _pooled(rewards: Rewards) -> list[float]:
    return [reward for one in rewards for reward in one]


# RewardPrediction as a benchmark: a task is a pair of trajectories whose rewards are to be predicted.

FIGURES = ("epic", "epic_each", "epic_raw", "epic_each_raw", "final_positive", "final_negative")
"""What `world.figures` says of one task."""


class RewardPrediction:
    """Pairs `blocksworld/4-0`: those of the data folder, else a few that are built from generated BlocksWorld tasks.

    Args:
        data: a folder that `read_pairs` reads.
    """

    name = "rewardprediction"
    briefing = ""
    instant = True
    configurations: tuple[str, ...] = ()
    limits = PAPER_LIMITS["rewardprediction"]

    def __init__(self, data: Path | None = None, config: str = "") -> None:
        if config:
            raise UnknownName(f"rewardprediction has no configuration {config!r}; name it plainly: rewardprediction")
        self.data = data

    def tasks(self, split: str = "") -> list[Task]:
        """The pairs of a domain, by default of all.

        Raises:
            UnknownName: no such domain is there.
            Fault: ("data") it has positive trajectories only, or negative ones.
        """
        pairs = [pair for pair in self.pairs.values() if split in ("", pair.domain)]
        if not pairs and split in self.unpaired:
            raise Fault("data", f"{self.data} has no pair of {split}: {lacking({split: self.unpaired[split]})}")
        if not pairs:
            known = sorted({pair.domain for pair in self.pairs.values()})
            raise UnknownName(f"no split {split!r}; known are {', '.join(known)}")
        return [_task(pair) for pair in pairs]

    def task(self, task_id: str) -> Task:
        """One pair. Raises UnknownName whose message lists some valid ids."""
        if task_id not in self.pairs:
            more = "a task of your own needs a goal: Task(benchmark=..., id=..., goal=...)"
            raise unknown_task("rewardprediction", task_id, "BENCHMARK/TASK", self.pairs, more)
        return _task(self.pairs[task_id])

    def open(self, task: Task) -> RewardWorld:
        """The world that scores the task's rewards; of a task of one's own it knows no true ones."""
        found = self.pairs.get(task.id)
        return RewardWorld(found.recordings if found else ())

    def operators(self) -> Mapping[str, Operator]:
        """None."""
        return {}

    def expert(self) -> Responder | None:
        """None: no question has a known answer."""
        return None

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """EPIC distances: means over the tasks of each domain, and over domains (`epic`, `epic_each`, ...)."""
        parts = [(id_.partition("/")[0], footer.scores.parts) for id_, footer in runs if footer.scores]
        domains = dict.fromkeys(domain for domain, of in parts if of)
        told: dict[str, float] = {"n": len(runs)}
        for name in FIGURES:
            means = {d: fmean(cast(float, of[name]) for domain, of in parts if domain == d and of) for d in domains}
            told |= {name: fmean(means.values())} if means else {}
            told |= {f"{name}_{domain}": mean for domain, mean in means.items()} if name == "epic" else {}
        return told

    def oracle(self, task: Task) -> list[Seen]:
        """The positive trajectory up to the expert's last step: what an offline goal is read off.

        Raises:
            Fault: ("data") the task is none of the data's.
        """
        if task.id not in self.pairs:
            raise Fault("data", f"no recorded expert for task {task.id!r}: only pairs of the data have one")
        rows = self.pairs[task.id].positive.trajectory
        last = max((place for place, row in enumerate(rows) if row.reward.is_expert), default=len(rows) - 1)
        return [Seen(action=row.action, observation=row.observation) for row in rows[: last + 1]]

    @cached_property
    def pairs(self) -> Mapping[str, Pair]:
        """All pairs by id. Raises Fault as `read_pairs` does."""
        return {pair.id: pair for pair in self._read.pairs}

    @property
    def unpaired(self) -> Mapping[str, int]:
        """By domain, tasks that were left out for want of a positive or a negative trajectory."""
        return self._read.unpaired

    @cached_property
    def _read(self) -> Read:
        return read_pairs(self.data) if self.data else Read(tuple(_generated()), {})


def _generated() -> list[Pair]:
    worlds = cast(Demonstrated, load_benchmark("blocksworld"))
    tasks = [worlds.task(f"{blocks}-{seed}") for blocks in range(3, 7) for seed in range(5)]
    return [pair for task in tasks if (pair := build_pair(worlds, task))]


def _task(pair: Pair) -> Task:
    told: Any = [
        [row.model_dump(include={"action", "observation"}) for row in one.trajectory] for one in pair.recordings
    ]
    goal = pair.positive.goal_description
    return Task(benchmark="rewardprediction", id=pair.id, goal=goal, constants={DOMAIN: pair.domain, RECORDINGS: told})
