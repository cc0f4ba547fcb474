"""The questions of a benchmark, split by split."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Generic, TypeVar

from certigraph.adapters.hints import unknown_task
from certigraph.adapters.searching.questions import Question
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.passages import Passage

Q = TypeVar("Q", bound=Question)

SPLITS = ("dev", "train")
"""The default first. An id names one question over both."""


class QuestionBank(Generic[Q]):
    """Reads a split when it is first asked for.

    Args:
        name: of the benchmark, for messages.
        read: the questions of a split by id; raises Fault ("data") where its file is missing or malformed.
    """

    def __init__(self, name: str, read: Callable[[str], Mapping[str, Q]]) -> None:
        self.name = name
        self._read = cache(read)

    def split(self, name: str = "") -> Sequence[Q]:
        """The questions of a split; dev where none is named. Raises UnknownName listing the splits."""
        if name and name not in SPLITS:
            raise UnknownName(f"{self.name} has no split {name!r}; known: {', '.join(SPLITS)}")
        return tuple(self._read(name or SPLITS[0]).values())

    def question(self, id_: str) -> Q:
        """One question, of any split. Raises UnknownName whose message lists some valid ids."""
        splits = self._readable()
        for questions in splits.values():
            if id_ in questions:
                return questions[id_]
        split, known = next(iter(splits.items()))
        raise unknown_task(self.name, id_, f"those of the question file, here {len(known)} in {split}", known)

    def all(self) -> Iterator[Q]:
        """The questions of all splits there are."""
        for questions in self._readable().values():
            yield from questions.values()

    def passages(self) -> dict[str, Passage]:
        """The distinct paragraphs of all splits there are, by id."""
        return {passage.id: passage for question in self.all() for passage in question.passages}

    def _readable(self) -> Mapping[str, Mapping[str, Q]]:
        read, missing = {}, []
        for split in SPLITS:
            try:
                read[split] = self._read(split)
            except Fault as fault:
                if not isinstance(fault.__cause__, FileNotFoundError):  # one split alone is a whole benchmark
                    raise
                missing.append(fault)
        if not read:
            raise missing[0]
        return read
