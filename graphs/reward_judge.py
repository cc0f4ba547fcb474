"""A language model as the judge of progress (StateFactory, section 3.1.2, appendix C.3).

Reset, have the model rate the trajectory up to each step, deliver the rewards.
"""

from typing import Unpack

from langgraph.types import Checkpointer

from certigraph.graphs.prediction import Operators, RewardGraph, predictor
from certigraph.nodes.rewards import judge_reward
from certigraph.state.rewards import RewardState as State
from certigraph.state.rewards import ending

__all__ = ["State", "build", "ending", "graph"]


def build(checkpointer: Checkpointer = None, **operators: Unpack[Operators]) -> RewardGraph:
    """The judge's graph, with operators of your own where a keyword names a slot.

    Args:
        checkpointer: a LangGraph saver; without one a run cannot be resumed.
        **operators: what takes the place of an operator, by slot: `build(rate=judge_reward(stateful=True))`.

    Raises:
        TypeError: a keyword names no slot.
    """
    return predictor("reward_judge", judge_reward(), checkpointer, operators)


graph = build()
