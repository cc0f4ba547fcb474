"""MemGPT: an agent that manages its own memory (Packer et al., arXiv 2310.08560), as a PBAI loop.

Core memory and the summarised queue are its native memory; every other condition wipes them (CGDP section 6.2).
"""

from typing import Unpack

from langgraph.types import Checkpointer

from certigraph.graphs.pbai import Operators, SearchGraph, search_loop
from certigraph.nodes.beliefs import DECIDE_REMEMBERING
from certigraph.nodes.react import MEMGPT
from certigraph.nodes.search import manage
from certigraph.state.run import ActingState as State
from certigraph.state.search import ending

__all__ = ["State", "build", "ending", "graph"]


def build(checkpointer: Checkpointer = None, **operators: Unpack[Operators]) -> SearchGraph:
    """MemGPT's graph, with operators of your own where a keyword names a slot: `build(memory="freeform")`.

    Raises:
        TypeError: a keyword names no slot.
        UnknownName: no memory condition of that name.
    """
    return search_loop(
        "memgpt",
        manage(),
        operators,
        rounds=MEMGPT.rounds,
        checkpointer=checkpointer,
        deciding=DECIDE_REMEMBERING,
    )


graph = build()
