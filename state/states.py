"""The state of every graph by the graph's name, for those who read a trajectory without the graph."""

from typing import Any

from certigraph.state.acting import ActingState, OutlineState
from certigraph.state.appraising import AppraisingState
from certigraph.state.hypothesising import HypothesesState
from certigraph.state.lessons import TrialState
from certigraph.state.rewarding import RewardState
from certigraph.state.run import RunState
from certigraph.state.sdp import SDPState
from certigraph.state.step import StepState
from certigraph.state.subtask import SubtaskState
from certigraph.state.tdp import TDPState
from certigraph.state.tree import TreeState

STATES: dict[str, Any] = {
    "sdp": SDPState,
    "step": StepState,
    "react": ActingState,
    "react_reward": AppraisingState,
    "mcts": TreeState,
    "plan_and_solve": OutlineState,
    "reflexion": TrialState,
    "clin": TrialState,
    "pbai": ActingState,
    "ircot": ActingState,
    "memgpt": ActingState,
    "iter_retgen": ActingState,
    "hypotheses": HypothesesState,
    "tdp": TDPState,
    "subtask": SubtaskState,
    "plan_and_act": SubtaskState,
    "cot": SubtaskState,
    "monotonic": RewardState,
    "reward_head": RewardState,
    "reward_judge": RewardState,
    "statefactory": RewardState,
}


def state_type(graph: str) -> Any:
    """The TypedDict of a graph's state; of an unknown graph, what all have."""
    return STATES.get(graph, RunState)
