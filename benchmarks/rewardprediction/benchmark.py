"""RewardPrediction: the distance of predicted from true rewards, the world that scores them, and the benchmark."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import sqrt
from pathlib import Path
from statistics import correlation, fmean
from typing import Any, cast

from pydantic import JsonValue

from certigraph.adapters.benchmarks import check_configuration, load_benchmark
from certigraph.adapters.files import unknown_task_error
from certigraph.adapters.protocols import Benchmark, Environment, Limits
from certigraph.benchmarks.rewardprediction.dataset import (
    DemonstratedBenchmark,
    FolderPairs,
    RewardTrajectory,
    TrajectoryPair,
    describe_missing,
    read_pairs,
    try_build_pair,
)
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Action, Observation, Scores, Task
from certigraph.state.rewards import DOMAIN, RECORDINGS, TRUE_REWARDS, RecordedStep
from certigraph.state.trajectory import Footer

# EPIC distance between predicted and true rewards, in its closed form for rewards of states (StateFactory Eq. 3).

UNCORRELATED_DISTANCE = sqrt(0.5)
"""EPIC distance between a constant prediction and the true rewards: 0.7071."""


def epic_distance(predicted: Sequence[float], true: Sequence[float]) -> float:
    """Return the EPIC distance sqrt((1 - r) / 2), where r is Pearson's correlation (StateFactory, Eq. 3).

    It is between 0 and 1, and 0 for rewards that are equal up to scale and offset. As in the reference code, r is 1 if
    both sequences are the same numbers, and else 0 if either is constant.

    Raises:
        ValueError: the sequences have different lengths, or are empty.
    """
    if len(predicted) != len(true) or not true:
        raise ValueError(f"{len(predicted)} predicted rewards for {len(true)} true ones; give one for each step")
    if list(predicted) == list(true):
        return 0.0
    if 1 in (len(set(predicted)), len(set(true))):  # correlation() would correlate the rounding errors of two constants
        return UNCORRELATED_DISTANCE
    return sqrt(max(0.0, 1.0 - correlation(predicted, true)) / 2)


# The world of a pair: it takes predicted rewards and scores them against the true ones.

RewardLists = Sequence[Sequence[float]]
"""Rewards, one list per recording."""


class RewardWorld(Environment):
    """World of one task: the episode ends when the predicted rewards are submitted."""

    concurrent = False

    def __init__(self, recordings: Sequence[RewardTrajectory]) -> None:
        self.recordings = recordings
        self.predicted: RewardLists | None = None

    def reset(self) -> Observation:
        """Start an episode in which no rewards have been submitted."""
        self.predicted = None
        return Observation(text=self.view())

    def step(self, action: Action) -> Observation:
        """Take the predicted rewards from `action.args["rewards"]`, one list per recording, and end the episode."""
        rewards, steps = action.args.get("rewards"), [len(r.trajectory) for r in self.recordings]
        if not isinstance(rewards, list):
            return Observation(text="Hand in rewards: one list of numbers for each recording.", accepted=False)
        if steps and [len(r) if isinstance(r, list) else -1 for r in rewards] != steps:
            numbers = ", ".join(map(str, steps))
            return Observation(text=f"Hand in one list for each recording, of {numbers} numbers.", accepted=False)
        self.predicted = rewards  # type: ignore[assignment]
        return Observation(text=f"{sum(map(len, self.predicted or ()))} rewards taken.", done=True)

    def view(self) -> str:
        """Return a text with the numbers of recordings and steps to be rated."""
        return f"{len(self.recordings)} recordings, {sum(len(r.trajectory) for r in self.recordings)} steps."

    def admissible(self) -> None:
        """Return None: actions are not listed."""

    def score(self) -> Scores:
        """Return 1 minus the metric `epic` of `reward_figures`; `parts` holds all metrics of that function.

        The value is 0, without parts, before rewards are submitted and if the true rewards are not known.
        """
        if self.predicted is None or not self.recordings:
            return Scores(value=0.0)
        parts = reward_figures(self.recordings, self.predicted)
        true: list[JsonValue] = [[row.reward.shaped for row in recording.trajectory] for recording in self.recordings]
        return Scores(value=1.0 - parts["epic"], parts={**parts}, answer={TRUE_REWARDS: true})

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def reward_figures(recordings: Sequence[RewardTrajectory], predicted: RewardLists) -> dict[str, float]:
    """Return the EPIC distances of one task's predictions, and the last predicted rewards of its trajectories.

    `epic` pools the task's recordings before correlating, as the reference code does; `epic_each` is the mean of the
    distances of the recordings. `epic_raw` and `epic_each_raw` use the world's own rewards instead of the shaped ones
    (see `TrueReward`). `final_positive` is the prediction at the end of the positive trajectory, `final_negative` the
    mean of those at the ends of the negative ones.
    """
    shaped = [[row.reward.shaped for row in recording.trajectory] for recording in recordings]
    raw = [[row.reward.raw for row in recording.trajectory] for recording in recordings]
    return {
        "epic": epic_distance(_flatten(predicted), _flatten(shaped)),
        "epic_each": _mean_distance(predicted, shaped),
        "epic_raw": epic_distance(_flatten(predicted), _flatten(raw)),
        "epic_each_raw": _mean_distance(predicted, raw),
        "final_positive": predicted[0][-1],
        "final_negative": fmean(recording[-1] for recording in predicted[1:]),
    }


def _mean_distance(predicted: RewardLists, true: RewardLists) -> float:
    return fmean(
        epic_distance(predicted_list, true_list) for predicted_list, true_list in zip(predicted, true, strict=True)
    )


def _flatten(rewards: RewardLists) -> list[float]:
    return [reward for recording in rewards for reward in recording]


# The benchmark: a task is a pair of trajectories whose rewards are to be predicted.

FIGURE_NAMES = ("epic", "epic_each", "epic_raw", "epic_each_raw", "final_positive", "final_negative")
"""Names of the metrics that `reward_figures` computes for one task."""


class RewardPrediction(Benchmark):
    """Benchmark whose tasks are pairs of trajectories with rewards to predict, such as `blocksworld/4-0`.

    Args:
        data: Folder with pairs (see `read_pairs`); None for pairs built from 20 generated BlocksWorld tasks.
        config: Must be empty: there are no variants.
    """

    name = "rewardprediction"
    instant = True
    limits = Limits(steps=1)
    published = Path(__file__).with_name("published.json")

    def __init__(self, data: Path | None = None, config: str = "") -> None:
        check_configuration(self.name, config)
        self.data = data

    def tasks(self, split: str = "") -> list[Task]:
        """Return one task for each pair of a domain, by default of all domains.

        Raises:
            UnknownName: there is no such domain.
            Fault: ("data") the domain has only positive or only negative trajectories.
        """
        pairs = [pair for pair in self.pairs.values() if split in ("", pair.domain)]
        if not pairs and split in self.unpaired:
            raise Fault(
                "data", f"{self.data} has no pair of {split}: {describe_missing({split: self.unpaired[split]})}"
            )
        if not pairs:
            known = sorted({pair.domain for pair in self.pairs.values()})
            raise UnknownName(f"no split {split!r}; known are {', '.join(known)}")
        return [_task_of_pair(pair) for pair in pairs]

    def task(self, task_id: str) -> Task:
        """Return the task of one pair.

        Raises:
            UnknownName: there is no such pair; the message lists some valid ids.
        """
        if task_id not in self.pairs:
            more = "a task of your own needs a goal: Task(benchmark=..., id=..., goal=...)"
            raise unknown_task_error("rewardprediction", task_id, "BENCHMARK/TASK", self.pairs, more)
        return _task_of_pair(self.pairs[task_id])

    def open(self, task: Task) -> RewardWorld:
        """Create the world that scores predicted rewards; a user's own task has no true rewards, so its score is 0."""
        pair = self.pairs.get(task.id)
        return RewardWorld(pair.recordings if pair else ())

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """Return each metric of `reward_figures`, averaged within domains and then over domains.

        `epic` is also returned for each domain, as `epic_DOMAIN`.
        """
        parts = [(id_.partition("/")[0], footer.scores.parts) for id_, footer in runs if footer.scores]
        domains = dict.fromkeys(domain for domain, values in parts if values)
        summary: dict[str, float] = {"n": len(runs)}
        for name in FIGURE_NAMES:
            means = {
                d: fmean(cast(float, values[name]) for domain, values in parts if domain == d and values)
                for d in domains
            }
            summary |= {name: fmean(means.values())} if means else {}
            summary |= {f"{name}_{domain}": mean for domain, mean in means.items()} if name == "epic" else {}
        return summary

    def oracle(self, task: Task) -> list[RecordedStep]:
        """Return the steps of the positive trajectory up to the expert's last step.

        A method that may use the recording derives the goal's factored state from it.

        Raises:
            Fault: ("data") the data has no pair for this task.
        """
        if task.id not in self.pairs:
            raise Fault("data", f"no recorded expert for task {task.id!r}: only pairs of the data have one")
        rows = self.pairs[task.id].positive.trajectory
        last = max((index for index, row in enumerate(rows) if row.reward.is_expert), default=len(rows) - 1)
        return [RecordedStep(action=row.action, observation=row.observation) for row in rows[: last + 1]]

    @cached_property
    def pairs(self) -> Mapping[str, TrajectoryPair]:
        """All pairs by id.

        Raises:
            Fault: the same errors as `read_pairs`.
        """
        return {pair.id: pair for pair in self._read.pairs}

    @property
    def unpaired(self) -> Mapping[str, int]:
        """Number of tasks per domain that are left out because a positive or a negative trajectory is missing."""
        return self._read.unpaired

    @cached_property
    def _read(self) -> FolderPairs:
        return read_pairs(self.data) if self.data else FolderPairs(tuple(_generate_pairs()), {})


def _generate_pairs() -> list[TrajectoryPair]:
    benchmark = cast(DemonstratedBenchmark, load_benchmark("blocksworld"))
    tasks = [benchmark.task(f"{blocks}-{seed}") for blocks in range(3, 7) for seed in range(5)]
    return [pair for task in tasks if (pair := try_build_pair(benchmark, task))]


def _task_of_pair(pair: TrajectoryPair) -> Task:
    recordings: Any = [
        [row.model_dump(include={"action", "observation"}) for row in recording.trajectory]
        for recording in pair.recordings
    ]
    goal = pair.positive.goal_description
    return Task(
        benchmark="rewardprediction", id=pair.id, goal=goal, constants={DOMAIN: pair.domain, RECORDINGS: recordings}
    )
