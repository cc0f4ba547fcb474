"""A supervised reward model: a small network (head) trained on frozen sentence vectors (StateFactory, section 3.1.1).

The graph opens the task, rates a recorded trajectory up to each of its steps with the head, and delivers the rewards
(appendix C.2). `certigraph rewards train` trains a head.
"""

from typing import Unpack

from langgraph.types import Checkpointer

from certigraph.graphs.statefactory import PredictorOperators, RewardGraph, build_predictor
from certigraph.nodes.rewards import supervised
from certigraph.state.rewards import RewardState as State
from certigraph.state.rewards import reward_ending as ending

__all__ = ["State", "build", "ending", "graph"]


def build(checkpointer: Checkpointer = None, **operators: Unpack[PredictorOperators]) -> RewardGraph:
    """Build the graph of a trained reward head, with your own operator in every slot that a keyword names.

    Args:
        checkpointer: a LangGraph checkpointer; without one a run cannot be resumed.
        **operators: operators by slot, for example `build(rate=supervised(head="head.npz"))`.

    Raises:
        TypeError: a keyword names no slot.
    """
    return build_predictor("reward_head", supervised(), checkpointer, operators)


graph = build()
