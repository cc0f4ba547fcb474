"""Reflexion: ReAct over several episodes, with a reflection in words after each (Shinn et al., arXiv 2303.11366)."""

from collections.abc import Mapping
from typing import Any, TypedDict, TypeVar, Unpack

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Checkpointer

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.protocols import Context, Operator
from certigraph.graphs.assembly import Assembly, add_gate, add_path, assemble
from certigraph.nodes import beliefs
from certigraph.nodes import react as slots
from certigraph.nodes.lessons import recall, reflect
from certigraph.nodes.react import decide
from certigraph.nodes.slots import Slot
from certigraph.nodes.world import act, begin, conclude, reset
from certigraph.state.endings import GOAL
from certigraph.state.run import RunInput
from certigraph.state.step import TrialState
from certigraph.state.step import TrialState as State
from certigraph.state.step import trials_ending as ending
from certigraph.state.step import trials_message as message

# The loop of methods that run several episodes of a task (STEP, CLIN, Reflexion), and ReAct in that loop.

G = TypeVar("G", bound=CompiledStateGraph[Any, Any, Any, Any])

LearningGraph = CompiledStateGraph[TrialState, Context, RunInput, TrialState]


def after_act(state: TrialState, runtime: Runtime[Context]) -> str:
    """Return `over` if the episode is over or its steps are used up, else `continue`."""
    return "over" if slots.is_over(state, runtime) else "continue"


def after_learning(state: TrialState, runtime: Runtime[Context]) -> str:
    """Return `again` while episodes are left and none reached the goal, else `finished`.

    It is also `again` if a limit of the method ended the last episode. If no episode is left then, `reset` ends the run
    with that limit as its ending. A run that is resumed with a larger limit starts another episode at this point.
    """
    last = state["trials"][-1]
    episodes_left = state["trial"] < limits_of(state["task"], runtime).trials
    return "again" if last.ending != GOAL and (episodes_left or last.cut) else "finished"


def after_conclude(state: TrialState, runtime: Runtime[Context]) -> str:
    """Return `stop` if a gate ended the episode, and with it the run, else `learn`."""
    return "stop" if beliefs.after_gate(state, runtime) == "stop" else "learn"


def add_episode_edges(builder: Assembly, *, first: str, learn: str) -> None:
    """Add the edges begin -> reset -> recall -> `first`, and conclude -> `learn` -> reset or end.

    An episode that a gate ended ends the run: what brought nothing new is not tried once more.

    Args:
        builder: the graph, with its nodes.
        first: first node of an episode.
        learn: node that learns from an episode.
    """
    builder.add_edge(START, "begin")
    builder.add_edge("begin", "reset")
    add_path(builder, "reset", "commit", "recall")
    builder.add_edge("recall", first)
    if "gate" in builder.nodes:
        builder.add_conditional_edges("conclude", after_conclude, {"learn": learn, "stop": END})
    else:
        builder.add_edge("conclude", learn)
    builder.add_conditional_edges(learn, after_learning, {"again": "reset", "finished": END})


SLOTS = (
    slots.BEGIN.filled(begin),
    slots.RESET_TRIAL.filled(reset),
    slots.RECALL.filled(recall),
    slots.DECIDE_ADVISED.filled(decide()),
    slots.ACT.filled(act),
    beliefs.GATE,
    slots.CONCLUDE.filled(conclude),
)
"""The slots of an episode. Each method adds a slot that learns from the episode."""


def build_react_in_episodes(
    name: str,
    learn: Slot,
    learner: Operator,
    swaps: Mapping[str, object],
    *,
    checkpointer: Checkpointer,
    store: BaseStore | None,
) -> LearningGraph:
    """Build a graph that runs ReAct over several episodes and learns from each.

    Args:
        name: name of the graph.
        learn: slot that learns from an episode.
        learner: default operator of that slot.
        swaps: operators by slot that replace the defaults.
        checkpointer: a LangGraph checkpointer; without one a run cannot be resumed.
        store: a LangGraph store for the lessons; the default keeps them in memory.
    """
    builder = assemble(name, TrialState, RunInput, (*SLOTS, learn.filled(learner)), swaps)
    add_episode_edges(builder, first="decide", learn=learn.name)
    builder.add_edge("decide", "act")
    following = add_gate(builder, "decide", stop="conclude")
    builder.add_conditional_edges("act", after_act, {"continue": following, "over": "conclude"})
    return builder.compile(checkpointer=checkpointer, store=store or InMemoryStore(), name=name)


def without_store(graph: G) -> G:
    """Return the graph without its store, as a LangGraph server requires: the server passes in its own store."""
    return graph.copy({"store": None})


__all__ = ["State", "build", "ending", "graph", "message"]


class ReflexionOperators(TypedDict, total=False):
    """Keywords of `build`, one for each slot."""

    begin: Operator
    reset: Operator
    recall: Operator
    decide: Operator
    act: Operator
    gate: Operator
    conclude: Operator
    reflect: Operator


def build(
    checkpointer: Checkpointer = None, store: BaseStore | None = None, **operators: Unpack[ReflexionOperators]
) -> LearningGraph:
    """Build Reflexion's graph, with your own operator in every slot that a keyword names.

    Args:
        checkpointer: a LangGraph checkpointer; without one a run cannot be resumed.
        store: a LangGraph store for the reflections; the default keeps them in memory.
        **operators: operators by slot.

    Raises:
        TypeError: a keyword names no slot.
    """
    return build_react_in_episodes(
        "reflexion", slots.REFLECT, reflect, operators, checkpointer=checkpointer, store=store
    )


graph = without_store(build())
