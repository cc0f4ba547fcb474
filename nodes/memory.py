"""Memory without a model: what an agent keeps of its turns (CGDP section 6.2's conditions), and the way to all four."""

from collections.abc import Callable, Mapping
from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Operator
from certigraph.nodes.extract import freeform, structured
from certigraph.state.beliefs import Belief
from certigraph.state.endings import UnknownName
from certigraph.state.gathering import MemoryView


async def native(state: MemoryView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Leave the agent its own memory: every turn, or what a harness such as MemGPT makes of them."""
    return {"belief": state["belief"]}


async def lobotomized(state: MemoryView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Wipe it: the agent sees the task and the latest observation alone."""
    return {"belief": Belief(form="lobotomized", window=1)}


CONDITIONS: Mapping[str, Callable[[], Operator]] = {
    "native": lambda: native,
    "lobotomized": lambda: lobotomized,
    "structured": structured,
    "freeform": freeform,
}


def with_memory(operators: Mapping[str, object], slot: str = "memory") -> dict[str, object]:
    """Operators by slot, with the memory that is given by name (`native`, `lobotomized`, ...) as an operator.

    Raises:
        UnknownName: no condition has that name; lists them.
    """
    memory = operators.get(slot)
    return {**operators, slot: as_memory(memory)} if isinstance(memory, str) else dict(operators)


def as_memory(memory: Operator | str) -> Operator:
    """A memory that is given by its condition's name, or as it is. Raises UnknownName as `with_memory` does."""
    if not isinstance(memory, str):
        return memory
    if memory not in CONDITIONS:
        raise UnknownName(f"no memory condition {memory!r}; known: {', '.join(CONDITIONS)}, or an operator of your own")
    return CONDITIONS[memory]()
