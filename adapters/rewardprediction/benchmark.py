"""RewardPrediction as a benchmark: a task is a pair of trajectories whose rewards are to be predicted."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, cast

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.limits import PAPER_LIMITS
from certigraph.adapters.protocols import Operator, Responder
from certigraph.adapters.rewardprediction.building import Demonstrated, build_pair
from certigraph.adapters.rewardprediction.rows import Pair
from certigraph.adapters.rewardprediction.world import RewardWorld
from certigraph.state.endings import UnknownName
from certigraph.state.records import Task
from certigraph.state.rewarding import DOMAIN, RECORDINGS
from certigraph.state.trajectory import Footer


class RewardPrediction:
    """Pairs `blocksworld/4-0`: those of the data folder, else a few that are built from generated BlocksWorld tasks."""

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
        """The pairs of a domain, by default of all. Raises UnknownName for a domain that is not there."""
        pairs = [pair for pair in self.pairs.values() if split in ("", pair.domain)]
        if not pairs:
            known = sorted({pair.domain for pair in self.pairs.values()})
            raise UnknownName(f"no split {split!r}; known are {', '.join(known)}")
        return [_task(pair) for pair in pairs]

    def task(self, task_id: str) -> Task:
        """One pair. Raises UnknownName whose message lists some valid ids."""
        if task_id not in self.pairs:
            raise UnknownName(f"no task {task_id!r}; known are {', '.join(list(self.pairs)[:4])}, ...")
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
        for name in ("epic", "epic_each", "epic_raw", "final_positive", "final_negative"):
            means = {d: fmean(cast(float, of[name]) for domain, of in parts if domain == d and of) for d in domains}
            told |= {name: fmean(means.values())} if means else {}
            told |= {f"{name}_{domain}": mean for domain, mean in means.items()} if name == "epic" else {}
        return told

    @cached_property
    def pairs(self) -> dict[str, Pair]:
        """All pairs by id."""
        return {pair.id: pair for pair in _generated()}


def _generated() -> list[Pair]:
    worlds = cast(Demonstrated, load_benchmark("blocksworld"))
    return [pair for task in worlds.tasks() if (pair := build_pair(worlds, task))]


def _task(pair: Pair) -> Task:
    told: Any = [
        [row.model_dump(include={"action", "observation"}) for row in one.trajectory] for one in pair.recordings
    ]
    goal = pair.positive.goal_description
    return Task(benchmark="rewardprediction", id=pair.id, goal=goal, constants={DOMAIN: pair.domain, RECORDINGS: told})
