"""CLIN: ReAct with a memory of causal insights that every episode rewrites (Majumder et al., arXiv 2310.10134)."""

from typing import TypedDict, Unpack

from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer

from certigraph.adapters.protocols import Operator
from certigraph.graphs.reflexion import LearningGraph, build_react_in_episodes, without_store
from certigraph.nodes import react as slots
from certigraph.nodes.lessons import gain_insights
from certigraph.state.step import TrialState as State
from certigraph.state.step import trials_ending as ending
from certigraph.state.step import trials_message as message

__all__ = ["State", "build", "ending", "graph", "message"]


class ClinOperators(TypedDict, total=False):
    """Keywords of `build`, one for each slot."""

    begin: Operator
    reset: Operator
    recall: Operator
    decide: Operator
    act: Operator
    gate: Operator
    conclude: Operator
    memory: Operator


def build(
    checkpointer: Checkpointer = None, store: BaseStore | None = None, **operators: Unpack[ClinOperators]
) -> LearningGraph:
    """Build CLIN's graph, with your own operator in every slot that a keyword names.

    Args:
        checkpointer: a LangGraph checkpointer; without one a run cannot be resumed.
        store: a LangGraph store for the insights; the default keeps them in memory.
        **operators: operators by slot.

    Raises:
        TypeError: a keyword names no slot.
    """
    return build_react_in_episodes(
        "clin", slots.MEMORY, gain_insights, operators, checkpointer=checkpointer, store=store
    )


graph = without_store(build())
