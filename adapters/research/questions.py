"""A question that takes research, and, for generated ones, the way to its answer."""

from certigraph.state.records import Finding, Record


class Way(Record):
    """One step of the way to an answer: what to look up, and what is found there."""

    kind: str
    """One of `state.researching.STEPS`."""
    queries: tuple[str, ...]
    pages: tuple[str, ...]
    """URLs that have to be read, a search's first result aside."""
    finding: Finding
    """`about` is the step's goal; `sources` and `against` are URLs."""


class Question(Record):
    """A question; `answer` is its gold in AssistantBench's form, None where nobody knows it."""

    id: str
    text: str
    answer: str | None = None
    difficulty: str = ""
    way: tuple[Way, ...] = ()

    @property
    def answers(self) -> tuple[str, ...]:
        """What a judge holds an answer against: the gold, if there is one."""
        return (self.answer,) if self.answer else ()
