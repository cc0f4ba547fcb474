"""IRCoT: retrieval interleaved with a chain of thought (Trivedi et al., arXiv 2212.10509), as a PBAI loop."""

from typing import Unpack

from langgraph.types import Checkpointer

from certigraph.graphs.pbai import Operators, SearchGraph, search_loop
from certigraph.nodes.react import IRCOT
from certigraph.nodes.search import reason
from certigraph.state.run import ActingState as State
from certigraph.state.search import ending

__all__ = ["State", "build", "ending", "graph"]


def build(checkpointer: Checkpointer = None, **operators: Unpack[Operators]) -> SearchGraph:
    """IRCoT's graph, with operators of your own where a keyword names a slot: `build(memory="freeform")`.

    Raises:
        TypeError: a keyword names no slot.
        UnknownName: no memory condition of that name.
    """
    return search_loop("ircot", reason(), operators, rounds=IRCOT.rounds, checkpointer=checkpointer)


graph = build()
