"""The frame of the methods that try a task several times: what precedes an episode, and what follows it."""

from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.context import Context
from certigraph.state.endings import GOAL
from certigraph.state.lessons import TrialState


def after_learning(state: TrialState, runtime: Runtime[Context]) -> str:
    """`again` while episodes are left and none reached the goal, else `finished`."""
    solved = state["trials"][-1].ending == GOAL
    left = state["trial"] < limits_of(state["task"], runtime).trials
    return "again" if left and not solved else "finished"


def frame_episodes(builder: StateGraph[Any, Context, Any, Any], *, first: str, learn: str) -> None:
    """Add the edges begin -> reset -> recall -> `first`, and conclude -> `learn` -> the next episode or the end."""
    builder.add_edge(START, "begin")
    builder.add_edge("begin", "reset")
    builder.add_edge("reset", "recall")
    builder.add_edge("recall", first)
    builder.add_edge("conclude", learn)
    builder.add_conditional_edges(learn, after_learning, {"again": "reset", "finished": END})
