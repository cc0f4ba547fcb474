"""MemGPT: an agent that manages its own memory (Packer et al., arXiv 2310.08560), in the loop of `pbai`.

With the memory `native`, the agent has MemGPT's core memory, its archival and recall memory, and its summarised queue
of turns. At any step it may call a memory function instead of a tool of the world: the node `use_memory` carries it out
and leads back to `decide`. Any other memory replaces all of this (CGDP section 6.2), and the graph is that of `pbai`.
"""

from typing import Unpack

from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer
from pydantic import JsonValue

from certigraph.adapters.protocols import Operator
from certigraph.graphs.pbai import SearchGraph, SearchOperators, search_loop_builder
from certigraph.nodes.beliefs import DECIDE_WITH_BELIEF, native, to_memory
from certigraph.nodes.memgpt import MEMORY_SLOTS, USE_MEMORY, manage, use_memory
from certigraph.nodes.react import MEMGPT_DEFAULTS
from certigraph.nodes.slots import spec_of
from certigraph.nodes.specs import Spec
from certigraph.state.memgpt import MemGPTState as State
from certigraph.state.search import search_ending as ending

__all__ = ["MemGPTOperators", "State", "build", "ending", "graph"]


class MemGPTOperators(SearchOperators, total=False):
    """Keywords of `build`, one for each slot; `use_memory` is one only with the memory `native`."""

    use_memory: Operator


def build(
    checkpointer: Checkpointer = None, store: BaseStore | None = None, **operators: Unpack[MemGPTOperators]
) -> SearchGraph:
    """Build MemGPT's graph, with your own operator in every slot that a keyword names.

    For example `build(memory="freeform")` replaces MemGPT's memory by notes in plain text.

    Args:
        checkpointer: a LangGraph checkpointer; without one a run cannot be resumed.
        store: a LangGraph store that gets a copy of archival memory and, if it has an index, ranks its entries. None:
            archival memory is in the graph's state alone.
        **operators: operators by slot.

    Raises:
        TypeError: a keyword names no slot.
        UnknownName: there is no memory of that name.
    """
    own = _is_native(spec_of(to_memory(operators.get("memory", native))))
    slots = {**MEMORY_SLOTS, "use_memory": USE_MEMORY.filled(use_memory())} if own else {"decide": DECIDE_WITH_BELIEF}
    graph = search_loop_builder("memgpt", manage(), operators, rounds=MEMGPT_DEFAULTS.rounds, slots=slots, state=State)
    return graph.compile(checkpointer=checkpointer, store=store, name="memgpt")


def _is_native(memory: Spec | JsonValue) -> bool:
    """Return whether a memory leaves MemGPT's own as it is: `native`, or a wrapper around it such as `grounded`."""
    if isinstance(memory, Spec):
        return memory.name == native.__name__ or _is_native(memory.args.get("memory"))
    return memory == native.__name__


graph = build()
