"""The episodes of a run, folded from its events as they come: turns by subtask, the score, and what each taught."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from certigraph.state.acting import Turn
from certigraph.state.lessons import Lesson, Trial
from certigraph.state.states import state_type
from certigraph.state.step import Subtask
from certigraph.state.trajectory import Event, Trajectory


class Taken(NamedTuple):
    """A turn with its number in the episode (from 1) and the points that the score (0 to 100) rose or fell by."""

    number: int
    turn: Turn
    points: float


class Refused(NamedTuple):
    """A candidate that STEP's Evaluator refused before it was taken, and the rule it breaks."""

    action: str
    reason: str


class Group:
    """What was done for one subtask, in order; `subtask` is None for agents that have none."""

    def __init__(self, subtask: Subtask | None) -> None:
        self.subtask = subtask
        self.entries: list[Taken | Refused] = []


class Episode:
    """One episode. `scores` are 0 to 100 (below 0 for a fatal mistake), one after each world step."""

    def __init__(self, number: int, start: float = 0.0) -> None:
        self.number = number
        self.start = start
        self.scores: list[float] = []
        self.outline: list[str] = []
        self.groups: list[Group] = []
        self.trial: Trial | None = None
        self.lesson: Lesson | None = None

    @property
    def score(self) -> float:
        """By the benchmark's rule where the episode was scored, else what the world reported last."""
        return 100 * self.trial.scores.value if self.trial else self.reported

    @property
    def reported(self) -> float:
        """The score after the latest step."""
        return self.scores[-1] if self.scores else self.start

    @property
    def subtask(self) -> Subtask | None:
        """The latest subtask."""
        return self.groups[-1].subtask if self.groups else None

    def count(self, status: str) -> int:
        """How many subtasks are `open`, `completed` or `failed`."""
        return sum(group.subtask is not None and group.subtask.status == status for group in self.groups)

    def entries(self) -> Iterator[Taken | Refused]:
        """The entries of all groups, in order."""
        return (entry for group in self.groups for entry in group.entries)

    def group(self) -> Group:
        """The group that the next entry belongs to."""
        if not self.groups:
            self.groups.append(Group(None))
        return self.groups[-1]


class Episodes:
    """All episodes of a run. `acting`: its graph acts without predicates; `graded`: its world reports a score."""

    def __init__(self, graph: str = "") -> None:
        self.acting = "turns" in state_type(graph).__annotations__
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

    def count(self, status: str) -> int:
        """How many subtasks of all episodes have the status."""
        return sum(episode.count(status) for episode in self.all)

    def take(self, event: Event) -> None:
        """Fold one event."""
        update: dict[str, Any] = {**(event.update or {})}
        self.acting |= "turns" in update
        if "history" in event.replaced:
            start = _told(update.get("observation", {}))
            self.all.append(Episode(update.get("trial", len(self.all) + 1), start or 0.0))
        self.now.outline = update.get("outline", self.now.outline) if self.all else []
        self._assign(update)
        self._rule(update)
        self._act(update)
        self._learn(update)

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
