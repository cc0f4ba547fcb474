"""The two channel types beyond "last value wins": append-only logs and plans, both of flat checkpoint cost."""

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from langgraph.channels import DeltaChannel

from certigraph.state.records import Predicate

T = TypeVar("T")

SNAPSHOT_EVERY = 5000
"""Writes between full copies of a channel: a small number makes the stored history quadratic."""


def _extend(log: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    return [*log, *(entry for write in writes for entry in write)]


def _last(plan: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    return list(writes[-1]) if writes else plan


# One alias for every append-only log, so that the beta channel behind it can be exchanged in one place.
Log = Annotated[list[T], DeltaChannel(_extend, snapshot_frequency=SNAPSHOT_EVERY)]

Plan = Annotated[list[Predicate], DeltaChannel(_last, snapshot_frequency=SNAPSHOT_EVERY)]
