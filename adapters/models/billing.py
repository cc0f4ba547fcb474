"""Where a node's bill goes: to the driver that runs the graph, before a checkpoint can hold what the node did.

LangGraph's own stream would tell it after that, so that a kill between the two would lose the line.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from certigraph.adapters.models.meter import Call, Meter
from certigraph.state.records import Usage


class Place(NamedTuple):
    """Where a node ran: in the graph itself, or in one that solved a node of it."""

    scope: str = ""
    """LangGraph's namespace of the inner graph; empty in the outer one."""
    subtask: str = ""
    """Id of the node that the inner graph solved; the namespace tells graphs within graphs apart."""


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
def keeping_failed(failed: list[Bill]) -> Iterator[None]:
    """Keep the bills of nodes that raise inside the block, to be handed in by whoever keeps them; others go on."""
    payer = _PAYER.get()

    def note(bill: Bill) -> None:
        if bill.update is None:
            failed.append(bill)
        elif payer:
            payer(bill)

    with billed_to(note):
        yield


def send_bill(bill: Bill) -> None:
    """Hand in a bill; without a payer it is in the graph's state alone."""
    if payer := _PAYER.get():
        payer(bill)


def settled(failed: Sequence[Bill], meter: Meter, *, went_on: bool) -> float:
    """The seconds of nodes that raised inside a node, which pays for them where it went on; else each has its line.

    So what they cost is in a checkpoint exactly if this node's own update is.
    """
    if not went_on:
        for bill in failed:
            send_bill(bill)
        return 0.0
    for call in (call for bill in failed for call in bill.calls):
        meter.charge(call)
    return sum(bill.usage.seconds for bill in failed)
