"""Requests to an agent: whose words they are, and what others wrote that the agent has seen."""

from certigraph.state.records import Record


class SourcedText(Record):
    """A text that was not written by the person for whom an agent works."""

    text: str
    tools: tuple[str, ...] = ()
    """The tools that may have written it; empty if nobody knows."""
    is_answer: bool = True
    """Whether it is the answer of a tool itself, and not a model's account of answers."""


class Provenance(Record):
    """Origin of what an agent knows when a turn begins."""

    handed_on: bool = False
    """Whether another agent or graph gave the task. Values in it are then not those of a person."""
    words: str = ""
    """What the person wrote to the outermost graph, if the task was handed on; else that is the task itself."""
    heard: tuple[SourcedText, ...] = ()
    """What stands in the conversation besides, and what tools answered in earlier turns, with the origin of each."""
