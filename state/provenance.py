"""Provenance: whose words a request to an agent is, and where the texts come from that its model may have read."""

from certigraph.state.records import Record


class SourcedText(Record):
    """A text that a model may have read, and the tools that may have written it."""

    text: str
    tools: tuple[str, ...] = ()
    """Empty for a stranger of unknown origin, whom no commitment allows."""
    is_answer: bool = True
    """Whether the text is an answer itself, and not a model's summary of answers, which supplies nothing of its own."""
    given: tuple[str, ...] = ()
    """What the arguments of the call held: a tool that repeats them, as errors do, does not supply them."""


class Provenance(Record):
    """Origin of what an agent knows when a turn begins."""

    handed_on: bool = False
    """Whether another agent or graph gave the task. Values in it are then not those of a person."""
    words: str = ""
    """What the person wrote to the outermost graph, if the task was handed on; else that is the task itself."""
    answered: str = ""
    """Digest of the request of this turn, which is not taken for a new one in the next."""
    heard: tuple[SourcedText, ...] = ()
    """What stands in the conversation besides, and what tools answered in earlier turns, with the origin of each."""
