"""CLIN: ReAct with a memory of causal insights that every episode rewrites (Majumder et al., arXiv 2310.10134)."""

from typing import TypedDict, Unpack

from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Checkpointer

from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Operator
from certigraph.graphs.assembly import assemble
from certigraph.graphs.react import after_act
from certigraph.graphs.trials import frame_episodes
from certigraph.nodes import acting_slots as slots
from certigraph.nodes.act import act, conclude, reset
from certigraph.nodes.begin import begin
from certigraph.nodes.decide import decide
from certigraph.nodes.recall import recall
from certigraph.nodes.reflect import gain_insights
from certigraph.state.lessons import TrialState as State
from certigraph.state.lessons import trials_ending as ending
from certigraph.state.run import RunInput

__all__ = ["State", "build", "ending", "graph"]

ClinGraph = CompiledStateGraph[State, Context, RunInput, State]

SLOTS = (
    slots.BEGIN,
    slots.RESET_TRIAL,
    slots.RECALL,
    slots.DECIDE_ADVISED,
    slots.ACT,
    slots.CONCLUDE,
    slots.MEMORY,
)


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
) -> ClinGraph:
    """CLIN's graph, with operators of your own where a keyword names a slot.

    Args:
        checkpointer: a LangGraph saver; without one a run cannot be resumed.
        store: a LangGraph store for the insights; one in memory otherwise.
        **operators: what takes the place of an operator, by slot.

    Raises:
        TypeError: a keyword names no slot.
    """
    defaults = Operators(
        begin=begin, reset=reset, recall=recall, decide=decide, act=act, conclude=conclude, memory=gain_insights
    )
    builder = assemble(State, RunInput, SLOTS, defaults, operators)
    frame_episodes(builder, first="decide", learn="memory")
    builder.add_edge("decide", "act")
    builder.add_conditional_edges("act", after_act, {"continue": "decide", "over": "conclude"})
    return builder.compile(checkpointer=checkpointer, store=store or InMemoryStore(), name="clin")


graph = build()
