"""An episode's score by each protocol's rule, its limits, and the figures over several episodes."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from statistics import mean, stdev
from typing import Literal

from certigraph.adapters.scienceworld.setting import Setting
from certigraph.adapters.scienceworld.splits import setting_of
from certigraph.adapters.scienceworld.tasks import FAMILIES
from certigraph.state.records import Arguments, Scores
from certigraph.state.trajectory import Footer

Ended = Literal["", "goal", "failed", "moves", "calls"]


class Tally:
    """What an episode has scored and used up so far. Scores are 0 to 100; -100 is a fatal mistake."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.score = self.moves = self.calls = 0
        self.last_non_negative = self.last_positive = 0

    def count(self, score: int, moves: int) -> float:
        """Take in the simulator's score and moves after an action; its reward, the change in score / 100."""
        reward = (score - self.score) / 100
        self.score, self.moves = score, moves
        self.last_non_negative = score if score >= 0 else self.last_non_negative
        self.last_positive = score if score > 0 else self.last_positive
        return reward

    @property
    def ended(self) -> Ended:
        """Why the episode is over; empty while it is not."""
        if self.score >= 100:
            return "goal"
        if self.score < 0:
            return "failed"
        limit, unit = self.setting.limit, self.setting.unit
        if unit == "moves" and limit is not None and self.moves > limit:
            return "moves"
        return "calls" if self.setting.calls is not None and self.calls >= self.setting.calls else ""

    def data(self) -> Arguments:
        """What an observation reports of it."""
        counted: Arguments = {"score": self.score, "moves": self.moves, "calls": self.calls}
        return {**counted, "ended": self.ended} if self.ended else counted

    def scores(self) -> Scores:
        """The score that counts as a fraction, and what it was chosen from."""
        counting = self.last_positive if self.setting.rule == "last_positive" else self.last_non_negative
        parts: dict[str, float | None] = {
            "raw": self.score,
            "last_non_negative": self.last_non_negative,
            "last_positive": self.last_positive,
            "moves": self.moves,
            "calls": self.calls,
        }
        return Scores(value=counting / 100, parts=parts)


def figures(runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
    """Figures of several runs, each with its task's id, as fractions of the full score; an unscored run counts 0.

    `score` is the mean over runs with its standard error, `solved` the share that reached 100 points. `overall` and the
    groups `short`, `medium`, `long` are unweighted means over tasks of the means over each task's variations
    (SwiftSage).
    """
    values = [footer.scores.value if footer.scores else 0.0 for _, footer in runs]
    tasks = _task_means(zip((task_id for task_id, _ in runs), values, strict=True))
    return {
        "n": len(runs),
        "score": mean(values) if values else 0.0,
        "score_stderr": stdev(values) / sqrt(len(values)) if len(values) > 1 else 0.0,
        "solved": mean(value >= 1 for value in values) if values else 0.0,
        "overall": mean(tasks.values()) if tasks else 0.0,
        **_group_means(tasks),
    }


def _task_means(scored: Iterable[tuple[str, float]]) -> dict[str, float]:
    by_task: dict[str, list[float]] = defaultdict(list)
    for task_id, value in scored:
        by_task[setting_of(task_id)[1].task].append(value)
    return {task: mean(values) for task, values in by_task.items()}


def _group_means(tasks: Mapping[str, float]) -> dict[str, float]:
    groups: dict[str, list[float]] = defaultdict(list)
    for task, value in tasks.items():
        groups[FAMILIES[task].group].append(value)
    return {group: mean(groups[group]) for group in ("short", "medium", "long") if groups[group]}
