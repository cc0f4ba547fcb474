"""Update of the belief state (CGDP section 5.1, appendix E): what an observation adds, told from b_t and o_t alone."""

from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Operator
from certigraph.nodes.specs import factory
from certigraph.state.gathering import MemoryView

TRIGGER, TARGET = 10, 6
"""Items from beyond which a belief is reorganised, and items it is then left with (appendix E.3)."""


@factory
def structured(*, target: int = TARGET, trigger: int = TRIGGER) -> Operator:
    """Facts with their sources, and open questions."""

    async def structured(state: MemoryView, runtime: Runtime[Context]) -> dict[str, Any]:
        raise NotImplementedError

    return structured


@factory
def freeform(*, target: int = TARGET, trigger: int = TRIGGER) -> Operator:
    """Notes in plain text."""

    async def freeform(state: MemoryView, runtime: Runtime[Context]) -> dict[str, Any]:
        raise NotImplementedError

    return freeform
