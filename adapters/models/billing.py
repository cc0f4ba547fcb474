"""Where a node's bill goes: to the driver that runs the graph, past LangGraph's stream.

A custom stream would do, but with one LangGraph runs every node as a task of its own, at a third more time a superstep.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from certigraph.adapters.models.meter import Call
from certigraph.state.records import Usage


class Place(NamedTuple):
    """Where a node ran: in the graph itself, or in one that solved a node of it."""

    scope: str = ""
    """LangGraph's namespace of the inner graph; empty in the outer one."""
    subtask: str = ""
    """Id of the node that the inner graph solved; of nested ones the ids on the way, with slashes."""


class Bill(NamedTuple):
    """What one execution of a node cost, and the model calls that it made."""

    superstep: int
    usage: Usage
    calls: list[Call]
    place: Place = Place()
    update: Mapping[str, Any] | None = None
    """What the node returned; None where it raised."""


Payer = Callable[[Bill], None]

_PAYER: ContextVar[Payer | None] = ContextVar("certigraph_payer", default=None)


@contextmanager
def billed_to(payer: Payer | None) -> Iterator[None]:
    """Hand the bill of every node that runs inside the block to `payer`, of one that failed too; None: to nobody."""
    token = _PAYER.set(payer)
    try:
        yield
    finally:
        _PAYER.reset(token)


@contextmanager
def noting_failed(failed: list[Bill]) -> Iterator[None]:
    """Note the bills of nodes that raise inside the block; all bills go where they went."""
    payer = _PAYER.get()

    def note(bill: Bill) -> None:
        failed.extend([bill] if bill.update is None else [])
        if payer:
            payer(bill)

    with billed_to(note):
        yield


def send_bill(bill: Bill) -> None:
    """Hand in a bill; without a payer it is in the graph's state alone."""
    if payer := _PAYER.get():
        payer(bill)
