"""A language model as the judge of progress (StateFactory, section 3.1.2, appendix C.3).

The graph opens the task, asks the model to rate a recorded trajectory up to each step, and delivers the rewards.
"""

from typing import Unpack

from langgraph.types import Checkpointer

from certigraph.graphs.statefactory import PredictorOperators, RewardGraph, build_predictor
from certigraph.nodes.rewards import judge_reward
from certigraph.state.rewards import RewardState as State
from certigraph.state.rewards import reward_ending as ending

__all__ = ["State", "build", "ending", "graph"]


def build(checkpointer: Checkpointer = None, **operators: Unpack[PredictorOperators]) -> RewardGraph:
    """Build the graph of a judge of progress, with your own operator in every slot that a keyword names.

    Args:
        checkpointer: a LangGraph checkpointer; without one a run cannot be resumed.
        **operators: operators by slot, for example `build(rate=judge_reward(stateful=True))`.

    Raises:
        TypeError: a keyword names no slot.
    """
    return build_predictor("reward_judge", judge_reward(), checkpointer, operators)


graph = build()
