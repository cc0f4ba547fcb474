"""The monotonic baseline: predict a reward that grows evenly with each step (StateFactory, section 4.1, appendix C.1).

The graph opens the task, rates each step of a recorded trajectory by its position, and delivers the rewards.
"""

from typing import Unpack

from langgraph.types import Checkpointer

from certigraph.graphs.statefactory import PredictorOperators, RewardGraph, build_predictor
from certigraph.nodes.rewards import monotonic
from certigraph.state.rewards import RewardState as State
from certigraph.state.rewards import reward_ending as ending

__all__ = ["State", "build", "ending", "graph"]


def build(checkpointer: Checkpointer = None, **operators: Unpack[PredictorOperators]) -> RewardGraph:
    """Build the baseline's graph, with your own operator in every slot that a keyword names.

    Args:
        checkpointer: a LangGraph checkpointer; without one a run cannot be resumed.
        **operators: operators by slot, for example `build(rate=constant)`.

    Raises:
        TypeError: a keyword names no slot.
    """
    return build_predictor("monotonic", monotonic, checkpointer, operators)


graph = build()
