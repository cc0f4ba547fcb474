"""The episodes of a run, folded from its events as they come."""

from collections.abc import Mapping
from typing import Any

from certigraph.evaluation.report.episode import Episode, Group, Refused, Taken
from certigraph.state.acting import Turn
from certigraph.state.lessons import Lesson, Trial
from certigraph.state.states import state_type
from certigraph.state.step import Subtask
from certigraph.state.trajectory import Event, Trajectory


class Episodes:
    """All episodes of a run.

    `acting`: its graph acts without predicates; `learning`: it does so in several episodes; `graded`: its world
    reports a score.
    """

    def __init__(self, graph: str = "") -> None:
        channels = state_type(graph).__annotations__
        self.acting, self.learning = not channels.keys().isdisjoint({"turns", "branches"}), "trials" in channels
        self.graded = False
        self.all: list[Episode] = []
        self._action = ""

    @property
    def steps(self) -> int:
        """World steps of all episodes together."""
        return sum(len(episode.scores) for episode in self.all)

    @property
    def now(self) -> Episode:
        """The latest episode."""
        if not self.all:
            self.all.append(Episode(1))
        return self.all[-1]

    @property
    def scored(self) -> bool:
        """Whether a score is known before the end: the world told one or rewarded steps, or episodes were scored."""
        return self.graded or any(episode.trial or any(episode.scores) for episode in self.all)

    def count(self, status: str) -> int:
        """How many subtasks of all episodes have the status."""
        return sum(episode.count(status) for episode in self.all)

    def take(self, event: Event) -> None:
        """Fold one event; those of graphs inside a node are another task's."""
        if event.scope:
            return
        update: dict[str, Any] = {**(event.update or {})}
        self.acting |= "turns" in update
        self.learning |= "trials" in update
        if "history" in event.replaced:
            start = _told(update.get("observation", {}))
            self.all.append(Episode(update.get("trial", len(self.all) + 1), start or 0.0))
        self._assign(update)
        self._rule(update)
        if "history" not in event.replaced:
            self._act(update)
        self._learn(update)
        if self.all:
            self.now.gathering.take(len(self.now.scores), update)
            self.now.prospects.take(len(self.now.scores), event)
            self.now.supervision.take(len(self.now.scores), update)

    def _assign(self, update: Mapping[str, Any]) -> None:
        if "subtask" not in update:
            return
        subtask = Subtask.model_validate(update["subtask"])
        if "subtasks" in update:  # the books of `assess`: the same subtask, judged
            self.now.group().subtask = subtask
        else:
            self.now.groups.append(Group(subtask))

    def _rule(self, update: Mapping[str, Any]) -> None:
        self._action = update.get("action", {}).get("text", self._action)
        approval = update.get("approval", {})
        if not approval.get("approved", True):
            self.now.group().entries.append(Refused(self._action, approval.get("reason", "")))

    def _act(self, update: Mapping[str, Any]) -> None:
        if not update.get("history"):
            return
        observation, episode = update.get("observation", {}), self.now
        told, before = _told(observation), episode.reported
        self.graded |= told is not None
        episode.scores.append(before + 100 * observation.get("reward", 0.0) if told is None else told)
        for turn in update.get("turns", ()):
            points = episode.reported - before
            episode.group().entries.append(Taken(len(episode.scores), Turn.model_validate(turn), points))

    def _learn(self, update: Mapping[str, Any]) -> None:
        for trial in update.get("trials", ()):
            self.now.trial = Trial.model_validate(trial)
        lessons = update.get("lessons")
        if lessons and self.all and lessons[-1]["trial"] == self.now.number and self.now.trial:
            self.now.lesson = Lesson.model_validate(lessons[-1])


def read_episodes(trajectory: Trajectory) -> Episodes:
    """Fold a trajectory."""
    episodes = Episodes(trajectory.header.graph)
    for event in trajectory.events:
        episodes.take(event)
    return episodes


def _told(observation: Mapping[str, Any]) -> float | None:
    score = observation.get("data", {}).get("score")
    return float(score) if isinstance(score, int | float) else None
