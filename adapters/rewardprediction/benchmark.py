"""RewardPrediction as a benchmark: a task is a pair of trajectories whose rewards are to be predicted."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, cast

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.hints import unknown_task
from certigraph.adapters.limits import PAPER_LIMITS
from certigraph.adapters.protocols import Operator, Responder
from certigraph.adapters.rewardprediction.building import Demonstrated, build_pair
from certigraph.adapters.rewardprediction.reading import Read, lacking, read_pairs
from certigraph.adapters.rewardprediction.rows import Pair
from certigraph.adapters.rewardprediction.world import RewardWorld
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Task
from certigraph.state.rewarding import DOMAIN, RECORDINGS, Seen
from certigraph.state.trajectory import Footer

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
