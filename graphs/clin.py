"""CLIN: ReAct with a memory of causal insights that every episode rewrites (Majumder et al., arXiv 2310.10134)."""

from typing import TypedDict, Unpack

from langgraph.store.base import BaseStore
from langgraph.types import Checkpointer

from certigraph.adapters.protocols import Operator
from certigraph.graphs.trials import LearningGraph, react_in_episodes, storeless
from certigraph.nodes import react as slots
from certigraph.nodes.step import gain_insights
from certigraph.state.step import TrialState as State
from certigraph.state.step import trials_ending as ending
from certigraph.state.step import trials_message as message

__all__ = ["State", "build", "ending", "graph", "message"]


class Operators(TypedDict, total=False):
    """The keywords of `build`."""

    begin: Operator
    reset: Operator
    recall: Operator
    decide: Operator
    act: Operator
    conclude: Operator
    memory: Operator


def build(
    checkpointer: Checkpointer = None, store: BaseStore | None = None, **operators: Unpack[Operators]
) -> LearningGraph:
    """CLIN's graph, with operators of your own where a keyword names a slot.

    Args:
        checkpointer: a LangGraph saver; without one a run cannot be resumed.
        store: a LangGraph store for the insights; one in memory otherwise.
        **operators: what takes the place of an operator, by slot.

    Raises:
        TypeError: a keyword names no slot.
    """
    return react_in_episodes("clin", slots.MEMORY, gain_insights, operators, checkpointer=checkpointer, store=store)


graph = storeless(build())
