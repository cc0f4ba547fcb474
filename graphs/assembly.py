"""Putting operators into slots: the swap by keyword that every graph offers."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langgraph.graph import StateGraph

from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Operator
from certigraph.nodes.slots import Slot, as_node
from certigraph.nodes.specs import spec_of


def assemble(
    state: type[Any],
    given: type[Any],
    slots: Sequence[Slot],
    defaults: Mapping[str, object],
    swaps: Mapping[str, object],
) -> StateGraph[Any, Context, Any, Any]:
    """A graph builder with one node a slot; `swaps` take the place of `defaults`.

    The operator's name and arguments go into the node's metadata.

    Raises:
        TypeError: a swap names no slot; the message lists the slots.
    """
    unknown = set(swaps) - set(defaults)
    if unknown:
        raise TypeError(f"no operator slot {', '.join(sorted(unknown))!r}; this graph has: {', '.join(defaults)}")
    builder = StateGraph(state, context_schema=Context, input_schema=given)
    for slot in slots:
        operator = cast(Operator, swaps.get(slot.name, defaults[slot.name]))
        spec = spec_of(operator).model_dump(mode="json")
        builder.add_node(slot.name, as_node(slot, operator), metadata={"operator": spec}, input_schema=state)
    return builder
