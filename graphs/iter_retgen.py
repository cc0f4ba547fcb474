"""Iter-RetGen: a fixed number of rounds of retrieval by the last generation (Shao et al., arXiv 2305.15294), as PBAI.

It is memoryless: each round sees the passages of the latest search alone.
"""

from typing import Unpack

from langgraph.types import Checkpointer

from certigraph.graphs.pbai import Operators, SearchGraph, search_loop
from certigraph.nodes.beliefs import DECIDE_REMEMBERING, lobotomized
from certigraph.nodes.react import ITER_RETGEN
from certigraph.nodes.search import generate
from certigraph.state.records import UnknownName
from certigraph.state.run import ActingState as State
from certigraph.state.search import ending

__all__ = ["State", "build", "ending", "graph"]


def build(checkpointer: Checkpointer = None, **operators: Unpack[Operators]) -> SearchGraph:
    """Iter-RetGen's graph, with operators of your own where a keyword names a slot: `build(memory="freeform")`.

    Raises:
        TypeError: a keyword names no slot.
        UnknownName: no memory condition of that name, or `lobotomized`, which does not exist for it.
    """
    if operators.get("memory") in ("lobotomized", lobotomized):
        told = "iter_retgen has no memory that could be wiped: it sees the latest passages alone"
        raise UnknownName(f"memory=lobotomized: {told}; take native, structured or freeform")
    return search_loop(
        "iter_retgen",
        generate(),
        operators,
        rounds=ITER_RETGEN.rounds,
        checkpointer=checkpointer,
        deciding=DECIDE_REMEMBERING,
    )


graph = build()
