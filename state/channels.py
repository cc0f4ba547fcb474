"""Channel types of graph state besides LangGraph's default (last value wins): append-only logs and plans.

A checkpoint stores only what changed, so its size does not grow with the length of the run.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

from langgraph.channels import DeltaChannel

from certigraph.state.records import Predicate

T = TypeVar("T")

SNAPSHOT_EVERY = 5000
"""Number of writes between two full copies of a channel.

Frequent copies make the stored history quadratic in length.
"""


def _extend_log(log: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    return [*log, *(entry for write in writes for entry in write)]


def _last_write(plan: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    return list(writes[-1]) if writes else plan


# One alias for every append-only log, so that LangGraph's beta DeltaChannel can be replaced in one place.
Log = Annotated[list[T], DeltaChannel(_extend_log, snapshot_frequency=SNAPSHOT_EVERY)]

Plan = Annotated[list[Predicate], DeltaChannel(_last_write, snapshot_frequency=SNAPSHOT_EVERY)]


class ListChannels(NamedTuple):
    """How the list channels of a state take an update.

    In every other channel the last value replaces the one before.
    """

    lists: frozenset[str]
    """Names of the channels that are empty lists before their first update."""
    logs: frozenset[str]
    """Names of those of `lists` that append an update to the list that they hold; the others replace it."""


@lru_cache(maxsize=32)
def list_channels_of(state: Any) -> ListChannels:
    """Return the list channels of a state, which is given as its TypedDict."""
    hints = get_type_hints(state, include_extras=True)
    channels = {
        name: annotation
        for name, hint in hints.items()
        for annotation in getattr(hint, "__metadata__", ())
        if _is_delta_channel(annotation)
    }
    return ListChannels(
        frozenset(channels),
        frozenset(name for name, annotation in channels.items() if annotation.reducer is _extend_log),
    )


def _is_delta_channel(mark: Any) -> bool:
    return isinstance(mark, DeltaChannel)
