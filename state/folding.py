"""The state that a run's updates add up to."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic import TypeAdapter

from certigraph.state.channels import growth_of
from certigraph.state.states import state_type


class Change(NamedTuple):
    """What one node returned, and which of its keys took the place of what was there."""

    update: Mapping[str, Any]
    replaced: Sequence[str] = ()


def folded_state(graph: str, begun: Mapping[str, Any], changes: Iterable[Change]) -> Any:
    """The state of a graph, from what it began with and what its nodes returned, in order.

    Raises:
        TypeError, ValueError: an update is none of such a graph.
    """
    kind = state_type(graph)
    growth = growth_of(kind)
    folded: dict[str, Any] = {**{name: [] for name in growth.lists}, **begun}
    for change in changes:
        _apply(folded, change, growth.logs)
    return _validator(kind).validate_python(folded)


def _apply(folded: dict[str, Any], change: Change, logs: frozenset[str]) -> None:
    """Fold one change into lists and values of its own: nothing that it holds is changed."""
    growing = logs - {*change.replaced}
    for key, value in change.update.items():
        if key in growing:
            folded[key].extend(value)
        else:
            folded[key] = list(value) if key in logs else value


@lru_cache(maxsize=32)
def _validator(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
