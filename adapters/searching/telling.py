"""How search worlds word their answers: a passage a line, and refusals with their reason."""

from collections.abc import Sequence

from pydantic import JsonValue

from certigraph.state.passages import Passage
from certigraph.state.records import Observation


def told(passages: Sequence[Passage], none: str = "", **data: JsonValue) -> Observation:
    """Passages as an observation: one a line, their ids as its sources; `none` where there are none."""
    text = "\n".join(line(f"{p.title}: {p.text}" if p.title else p.text) for p in passages)
    return Observation(text=text or none, sources=tuple(p.id for p in passages), data=data)


def refused(reason: str) -> Observation:
    """The answer to an action that the world did not take."""
    return Observation(text=reason, accepted=False)


def line(text: str) -> str:
    """The text on one line."""
    return " ".join(text.split())


def storable_line(text: str) -> str:
    """The text on one line, without what UTF-8 cannot hold: halves of characters, from a shell or a model."""
    return line(text.encode(errors="ignore").decode())
