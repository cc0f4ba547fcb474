"""Reflexion: ReAct over several episodes, with a reflection in words after each (Shinn et al., arXiv 2303.11366)."""

from typing import TypedDict, Unpack

from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer

from certigraph.adapters.protocols import Operator
from certigraph.graphs.trials import LearningGraph, build_react_in_episodes, without_store
from certigraph.nodes import react as slots
from certigraph.nodes.step import reflect
from certigraph.state.step import TrialState as State
from certigraph.state.step import trials_ending as ending
from certigraph.state.step import trials_message as message

__all__ = ["State", "build", "ending", "graph", "message"]


class ReflexionOperators(TypedDict, total=False):
    """Keywords of `build`, one for each slot."""

    begin: Operator
    reset: Operator
    recall: Operator
    decide: Operator
    act: Operator
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
