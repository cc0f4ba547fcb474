"""What a benchmark's gold says of a question, as far as the study asks: which passages bear the answer out."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from certigraph.state.records import Task


class Truth(NamedTuple):
    """Titles of the gold passages by id, none where the benchmark names none; whether the corpus has an answer."""

    support: Mapping[str, str]
    answerable: bool = True

    @property
    def hops(self) -> int | None:
        """How many passages the answer takes."""
        return len(self.support) or None


def truth_of(benchmark: Any, task: Task) -> Truth:
    """The truth about a task, from the gold of a search benchmark; one without unanswerable questions says nothing."""
    gold: Any = benchmark.gold(task)
    support = {hop.passage.id: hop.passage.title for hop in gold.hops}
    return Truth(support, bool(getattr(gold, "answerable", True)))
