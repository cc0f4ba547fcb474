"""Passages: the pieces of text that search agents find. They stay outside graph state, named by id."""

from certigraph.state.records import Record


class Passage(Record):
    """One paragraph, dialogue turn or piece of a file. Ids are unique within a corpus."""

    id: str
    title: str
    text: str
