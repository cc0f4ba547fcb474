"""The two channel types beyond "last value wins": append-only logs and plans, both of flat checkpoint cost."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

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


class Growth(NamedTuple):
    """How the list channels of a state take an update; of all other channels the last value wins."""

    lists: frozenset[str]
    """Channels that are empty lists before their first update."""
    logs: frozenset[str]
    """Those of them that add an update to what they hold."""


@lru_cache(maxsize=32)
def growth_of(state: Any) -> Growth:
    """The list channels of a state's TypedDict."""
    hints = get_type_hints(state, include_extras=True)
    deltas = {name: mark for name, hint in hints.items() for mark in getattr(hint, "__metadata__", ()) if _grows(mark)}
    return Growth(frozenset(deltas), frozenset(name for name, mark in deltas.items() if mark.reducer is _extend))


def _grows(mark: Any) -> bool:
    return isinstance(mark, DeltaChannel)
