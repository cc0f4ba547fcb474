"""Parallel hypotheses (CGDP appendix B): several searches, each with a direction of its own, and one answer from all.

Each search is a whole harness (a PBAI loop) in a world of its own; they start together, share what is left of the
budget in equal parts, and the answer is delivered once.
"""

from typing import TypedDict, Unpack

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Checkpointer, Send

from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Operator
from certigraph.graphs.assembly import assemble
from certigraph.graphs.exploring import explore
from certigraph.nodes import hypothesising_slots as slots
from certigraph.nodes.act import act, reset
from certigraph.nodes.aggregate import aggregate
from certigraph.nodes.gathering_slots import DELIVER
from certigraph.nodes.hypothesise import hypothesise
from certigraph.state.hypothesising import HypothesesState as State
from certigraph.state.hypothesising import explore_views
from certigraph.state.run import RunInput
from certigraph.state.run import world_ending as ending

__all__ = ["State", "build", "ending", "graph"]

HypothesesGraph = CompiledStateGraph[State, Context, RunInput, State]

SLOTS = (slots.RESET, slots.HYPOTHESISE, slots.EXPLORE, slots.AGGREGATE, DELIVER)


def after_hypothesise(state: State) -> str | list[Send]:
    """One search for each hypothesis; `unanswered` in a world that takes no answer."""
    return [Send("explore", view) for view in explore_views(state)] or "unanswered"


class Operators(TypedDict, total=False):
    """The keywords of `build`."""

    reset: Operator
    hypothesise: Operator
    explore: Operator
    aggregate: Operator
    deliver: Operator


def build(checkpointer: Checkpointer = None, **operators: Unpack[Operators]) -> HypothesesGraph:
    """The graph, with operators of your own where a keyword names a slot: `build(explore=explore(harness="ircot"))`.

    Raises:
        TypeError: a keyword names no slot.
    """
    defaults = Operators(reset=reset, hypothesise=hypothesise(), explore=explore(), aggregate=aggregate, deliver=act)
    builder = assemble(State, RunInput, SLOTS, defaults, operators)
    builder.add_edge(START, "reset")
    builder.add_edge("reset", "hypothesise")
    paths = {"hypothesis": "explore", "unanswered": END}
    builder.add_conditional_edges("hypothesise", after_hypothesise, paths)
    builder.add_edge("explore", "aggregate")
    builder.add_edge("aggregate", "deliver")
    builder.add_edge("deliver", END)
    return builder.compile(checkpointer=checkpointer, name="hypotheses")


graph = build()
