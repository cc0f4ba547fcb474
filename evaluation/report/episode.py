"""One episode of a run as it is shown: its turns by subtask, its score after every step, and what it taught."""

from collections.abc import Iterator
from typing import NamedTuple

from certigraph.evaluation.report.gathering import Gathering
from certigraph.evaluation.report.prospects import Prospects
from certigraph.evaluation.report.supervision import Supervision
from certigraph.state.acting import Turn
from certigraph.state.lessons import Lesson, Trial
from certigraph.state.step import Subtask


class Taken(NamedTuple):
    """A turn with its number in the episode (from 1) and the points that the score (0 to 100) rose or fell by."""

    number: int
    turn: Turn
    points: float

    @property
    def answer(self) -> str:
        """The first line of the world's answer that is not blank."""
        return next((line.strip() for line in self.turn.observation.splitlines() if line.strip()), "")

    @property
    def scored(self) -> bool:
        """Whether the points are more than the world's own rounding."""
        return abs(self.points) >= 0.5


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
        self.groups: list[Group] = []
        self.trial: Trial | None = None
        self.lesson: Lesson | None = None
        self.gathering = Gathering()
        self.prospects = Prospects()
        self.supervision = Supervision()

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

    @property
    def latest(self) -> Taken | Refused | None:
        """The latest entry for the latest subtask."""
        entries = self.groups[-1].entries if self.groups else []
        return entries[-1] if entries else None

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
