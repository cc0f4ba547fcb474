"""Passages: the pieces of text that search agents find. They stay outside graph state, named by id."""

from collections.abc import Sequence

from certigraph.state.records import Record


class Passage(Record):
    """One paragraph, dialogue turn or piece of a file. Ids are unique within a corpus."""

    id: str
    title: str
    text: str


def listed_lines(text: str, sources: Sequence[str]) -> list[tuple[str, str]] | None:
    """The lines of an observation, each with the source that it shows; None where it is no list of passages."""
    lines = text.splitlines()
    return list(zip(sources, lines, strict=True)) if len(lines) == len(sources) else None
