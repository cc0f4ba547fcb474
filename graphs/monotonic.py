"""The monotonic baseline: time is progress (StateFactory, section 4.1, appendix C.1).

Reset, rate each step by its place in the trajectory, deliver the rewards.
"""

from typing import Unpack

from langgraph.types import Checkpointer

from certigraph.graphs.prediction import Operators, RewardGraph, predictor
from certigraph.nodes.rewards import monotonic
from certigraph.state.rewards import RewardState as State
from certigraph.state.rewards import ending

__all__ = ["State", "build", "ending", "graph"]


def build(checkpointer: Checkpointer = None, **operators: Unpack[Operators]) -> RewardGraph:
    """The baseline's graph, with operators of your own where a keyword names a slot.

    Args:
        checkpointer: a LangGraph saver; without one a run cannot be resumed.
        **operators: what takes the place of an operator, by slot: `build(rate=constant)`.

    Raises:
        TypeError: a keyword names no slot.
    """
    return predictor("monotonic", monotonic, checkpointer, operators)


graph = build()
