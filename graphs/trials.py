"""The methods that try a task several times: the frame of their episodes, and ReAct in that frame."""

from collections.abc import Mapping
from typing import Any, TypeVar

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Checkpointer

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.protocols import Context, Operator
from certigraph.graphs.assembly import assemble
from certigraph.nodes import react as slots
from certigraph.nodes.react import decide
from certigraph.nodes.slots import Slot
from certigraph.nodes.step import recall
from certigraph.nodes.world import act, begin, conclude, reset
from certigraph.state.records import GOAL
from certigraph.state.run import RunInput
from certigraph.state.step import TrialState

G = TypeVar("G", bound=CompiledStateGraph[Any, Any, Any, Any])

LearningGraph = CompiledStateGraph[TrialState, Context, RunInput, TrialState]


def after_act(state: TrialState, runtime: Runtime[Context]) -> str:
    """`over` when the episode is, by its steps too, else `continue`."""
    return "over" if slots.over(state, runtime) else "continue"


def after_learning(state: TrialState, runtime: Runtime[Context]) -> str:
    """`again` while episodes are left and none reached the goal, else `finished`.

    `again` too where a limit of the method's own ended the last one: without another episode `reset` ends the run by
    that limit's name; resumed with a larger one, it begins an episode more.
    """
    last = state["trials"][-1]
    left = state["trial"] < limits_of(state["task"], runtime).trials
    return "again" if last.ending != GOAL and (left or last.cut) else "finished"


def frame_episodes(builder: StateGraph[Any, Context, Any, Any], *, first: str, learn: str) -> None:
    """Add the edges begin -> reset -> recall -> `first`, and conclude -> `learn` -> the next episode or the end."""
    builder.add_edge(START, "begin")
    builder.add_edge("begin", "reset")
    builder.add_edge("reset", "recall")
    builder.add_edge("recall", first)
    builder.add_edge("conclude", learn)
    builder.add_conditional_edges(learn, after_learning, {"again": "reset", "finished": END})


def react_in_episodes(
    name: str,
    learn: Slot,
    learner: Operator,
    swaps: Mapping[str, object],
    *,
    checkpointer: Checkpointer,
    store: BaseStore | None,
) -> LearningGraph:
    """ReAct's loop in the frame, with one slot in which an episode is learnt from."""
    learning = (slots.BEGIN, slots.RESET_TRIAL, slots.RECALL, slots.DECIDE_ADVISED, slots.ACT, slots.CONCLUDE, learn)
    usual = (begin, reset, recall, decide, act, conclude, learner)
    defaults = {slot.name: operator for slot, operator in zip(learning, usual, strict=True)}
    builder = assemble(TrialState, RunInput, learning, defaults, swaps)
    frame_episodes(builder, first="decide", learn=learn.name)
    builder.add_edge("decide", "act")
    builder.add_conditional_edges("act", after_act, {"continue": "decide", "over": "conclude"})
    return builder.compile(checkpointer=checkpointer, store=store or InMemoryStore(), name=name)


def storeless(graph: G) -> G:
    """The graph as a LangGraph server takes it: the server brings the store, and refuses a graph that has its own."""
    return graph.copy({"store": None})
