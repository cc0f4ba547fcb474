"""The loop of the reward predictors that keep no world state: `monotonic`, `reward_judge` and `reward_head`."""

from typing import TypedDict

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Checkpointer

from certigraph.adapters.protocols import Context, Operator
from certigraph.graphs.assembly import assemble
from certigraph.nodes import rewards as slots
from certigraph.nodes.world import act, reset
from certigraph.state.rewards import RewardState as State
from certigraph.state.run import RunInput

RewardGraph = CompiledStateGraph[State, Context, RunInput, State]

SLOTS = (slots.RESET.filled(reset), slots.RATE, slots.DELIVER.filled(act))


class PredictorOperators(TypedDict, total=False):
    """Keywords of `build` in the graphs of this loop, one for each slot."""

    reset: Operator
    rate: Operator
    deliver: Operator


def build_predictor(
    name: str, rate: Operator, checkpointer: Checkpointer, operators: PredictorOperators
) -> RewardGraph:
    """Build the graph of that name, which rates each step with `rate` unless `operators` replaces it.

    Raises:
        TypeError: a keyword names no slot.
    """
    builder = assemble(State, RunInput, SLOTS, {"rate": rate, **operators})
    builder.add_edge(START, "reset")
    for node in ("reset", "rate"):
        builder.add_conditional_edges(node, after_rating, {"next": "rate", "over": "deliver"})
    builder.add_edge("deliver", END)
    return builder.compile(checkpointer=checkpointer, name=name)


def after_rating(state: State, runtime: Runtime[Context]) -> str:
    """Return `next` while steps are left, else `over`."""
    return "next" if state["position"] < len(state["steps"]) else "over"
