"""Whether a run has a verdict at all: a question of one's own is answered, and nobody knows its answer."""

from certigraph.state.endings import GOAL
from certigraph.state.records import Scores
from certigraph.state.trajectory import Footer, Header

ASK = "ask"
"""The benchmark of questions of one's own."""


def is_own(header: Header) -> bool:
    """Whether a run was of a question of one's own."""
    return header.task.benchmark.partition(":")[0] == ASK


def verdict_on(header: Header | None, footer: Footer | None) -> Scores | None:
    """The scores that say how good a run was; None where there are none."""
    return footer.scores if footer and not (header and is_own(header)) else None


def is_solved(scores: Scores | None) -> bool | None:
    """Whether the scorer says that a task is solved, by the full score; None without a score."""
    return None if scores is None else scores.value >= 1


def is_denied(ending: str, solved: bool | None) -> bool:
    """Whether a run ended `goal` and its scorer says that the task is not solved."""
    return ending == GOAL and solved is False
