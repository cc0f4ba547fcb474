"""A supervised reward model: a trained head on frozen sentence vectors (StateFactory, section 3.1.1, appendix C.2).

Reset, rate the trajectory up to each step by the head, deliver the rewards. `certigraph rewards train` makes a head.
"""

from typing import Unpack

from langgraph.types import Checkpointer

from certigraph.graphs.prediction import Operators, RewardGraph, predictor
from certigraph.nodes.rewards import supervised
from certigraph.state.rewards import RewardState as State
from certigraph.state.rewards import ending

__all__ = ["State", "build", "ending", "graph"]


def build(checkpointer: Checkpointer = None, **operators: Unpack[Operators]) -> RewardGraph:
    """The head's graph, with operators of your own where a keyword names a slot.

    Args:
        checkpointer: a LangGraph saver; without one a run cannot be resumed.
        **operators: what takes the place of an operator, by slot: `build(rate=supervised(head="head.npz"))`.

    Raises:
        TypeError: a keyword names no slot.
    """
    return predictor("reward_head", supervised(), checkpointer, operators)


graph = build()
