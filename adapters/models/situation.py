"""Where a run stands while a node works: what a scripted mind may know besides the prompt. No model is told."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple


class Situation(NamedTuple):
    """The node at work, the superstep it works in, and the whole graph state before it."""

    node: str
    superstep: int
    state: Mapping[str, Any]


_SITUATION: ContextVar[Situation | None] = ContextVar("certigraph_situation", default=None)


@contextmanager
def situated(situation: Situation) -> Iterator[None]:
    """Let scripted minds that are asked inside the block know the situation."""
    token = _SITUATION.set(situation)
    try:
        yield
    finally:
        _SITUATION.reset(token)


def current_situation() -> Situation | None:
    """The situation of the node that is running; None outside a node."""
    return _SITUATION.get()
