"""MemGPT: an agent that manages its own memory (Packer et al., arXiv 2310.08560), in the loop of `pbai`.

With the memory `native`, the agent has MemGPT's core memory and summarised queue of turns. Any other memory replaces
both (CGDP section 6.2).
"""

from typing import Unpack

from langgraph.types import Checkpointer

from certigraph.graphs.pbai import SearchGraph, SearchOperators, build_search_loop
from certigraph.nodes.beliefs import DECIDE_WITH_BELIEF
from certigraph.nodes.react import MEMGPT_DEFAULTS
from certigraph.nodes.search import manage
from certigraph.state.run import ReActState as State
from certigraph.state.search import search_ending as ending

__all__ = ["State", "build", "ending", "graph"]


def build(checkpointer: Checkpointer = None, **operators: Unpack[SearchOperators]) -> SearchGraph:
    """Build MemGPT's graph, with your own operator in every slot that a keyword names.

    For example `build(memory="freeform")` replaces MemGPT's memory by notes in plain text.

    Raises:
        TypeError: a keyword names no slot.
        UnknownName: there is no memory of that name.
    """
    return build_search_loop(
        "memgpt",
        manage(),
        operators,
        rounds=MEMGPT_DEFAULTS.rounds,
        checkpointer=checkpointer,
        deciding=DECIDE_WITH_BELIEF,
    )


graph = build()
