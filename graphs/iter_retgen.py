"""Iter-RetGen: search with the model's last generation, for a fixed number of rounds (Shao et al., arXiv 2305.15294).

It is the loop of `pbai` without memory: each round sees only the passages of the latest search.
"""

from typing import Unpack

from langgraph.types import Checkpointer

from certigraph.graphs.pbai import SearchGraph, SearchOperators, build_search_loop
from certigraph.nodes.beliefs import DECIDE_WITH_BELIEF, lobotomized
from certigraph.nodes.react import ITER_RETGEN_DEFAULTS
from certigraph.nodes.search import generate
from certigraph.state.endings import UnknownName
from certigraph.state.run import ReActState as State
from certigraph.state.search import search_ending as ending

__all__ = ["State", "build", "ending", "graph"]


def build(checkpointer: Checkpointer = None, **operators: Unpack[SearchOperators]) -> SearchGraph:
    """Build Iter-RetGen's graph, with your own operator in every slot that a keyword names.

    For example `build(memory="freeform")` gives Iter-RetGen a memory of notes in plain text.

    Raises:
        TypeError: a keyword names no slot.
        UnknownName: there is no memory of that name, or it is `lobotomized`, which Iter-RetGen does not have.
    """
    if operators.get("memory") in ("lobotomized", lobotomized):
        reason = "iter_retgen has no memory that could be erased: it sees only the latest passages"
        raise UnknownName(f"memory=lobotomized: {reason}; use native, structured or freeform")
    return build_search_loop(
        "iter_retgen",
        generate(),
        operators,
        rounds=ITER_RETGEN_DEFAULTS.rounds,
        checkpointer=checkpointer,
        deciding=DECIDE_WITH_BELIEF,
    )


graph = build()
