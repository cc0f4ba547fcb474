"""IRCoT: interleave retrieval with a chain of thought (Trivedi et al., arXiv 2212.10509), in the loop of `pbai`."""

from typing import Unpack

from langgraph.types import Checkpointer

from certigraph.graphs.pbai import SearchGraph, SearchOperators, build_search_loop
from certigraph.nodes.react import IRCOT_DEFAULTS
from certigraph.nodes.search import reason
from certigraph.state.run import ReActState as State
from certigraph.state.search import search_ending as ending

__all__ = ["State", "build", "ending", "graph"]


def build(checkpointer: Checkpointer = None, **operators: Unpack[SearchOperators]) -> SearchGraph:
    """Build IRCoT's graph, with your own operator in every slot that a keyword names.

    For example `build(memory="freeform")` replaces IRCoT's memory by notes in plain text.

    Raises:
        TypeError: a keyword names no slot.
        UnknownName: there is no memory of that name.
    """
    return build_search_loop("ircot", reason(), operators, rounds=IRCOT_DEFAULTS.rounds, checkpointer=checkpointer)


graph = build()
