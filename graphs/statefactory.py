"""StateFactory: rewards from factorised world states (Shen et al., arXiv 2603.09400, section 3.2, Figure 4).

For each step of a recorded trajectory, `extract` describes the world as a state (objects with attributes), `interpret`
describes the goal as such a state, and `route` computes the reward: the share of the goal state that the world's state
fulfils. A model reads both; rules of the world do where they are named, or where a script takes the model's place.
"""

from typing import TypedDict, Unpack

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Checkpointer

from certigraph.adapters.protocols import Context, Operator
from certigraph.graphs.assembly import assemble
from certigraph.nodes import rewards as slots
from certigraph.nodes.factored_states import extract_state, interpret_goal
from certigraph.nodes.rewards import route
from certigraph.nodes.world import act, reset
from certigraph.state.rewards import RewardState as State
from certigraph.state.rewards import reward_ending as ending
from certigraph.state.run import RunInput

# The loop of the reward predictors that keep no world state: `monotonic`, `reward_judge` and `reward_head`.

RewardGraph = CompiledStateGraph[State, Context, RunInput, State]

PREDICTOR_SLOTS = (slots.RESET.filled(reset), slots.RATE, slots.DELIVER.filled(act))


class PredictorOperators(TypedDict, total=False):
    """Keywords of `build` in `monotonic`, `reward_judge` and `reward_head`, one for each slot."""

    reset: Operator
    rate: Operator
    deliver: Operator


def build_predictor(
    name: str, rate: Operator, checkpointer: Checkpointer, operators: PredictorOperators
) -> RewardGraph:
    """Build a graph that rates each step of a recorded trajectory with `rate`, unless `operators` replaces it.

    Raises:
        TypeError: a keyword names no slot.
    """
    builder = assemble(name, State, RunInput, PREDICTOR_SLOTS, {"rate": rate, **operators})
    builder.add_edge(START, "reset")
    for node in ("reset", "rate"):
        builder.add_conditional_edges(node, after_rating, {"next": "rate", "over": "deliver"})
    builder.add_edge("deliver", END)
    return builder.compile(checkpointer=checkpointer, name=name)


def after_rating(state: State, runtime: Runtime[Context]) -> str:
    """Return `next` while steps are left, else `over`."""
    return "next" if state["position"] < len(state["steps"]) else "over"


__all__ = ["State", "build", "ending", "graph"]

SLOTS = (
    slots.RESET.filled(reset),
    slots.EXTRACT.filled(extract_state),
    slots.INTERPRET.filled(interpret_goal),
    slots.ROUTE.filled(route()),
    slots.DELIVER.filled(act),
)


class StateFactoryOperators(TypedDict, total=False):
    """Keywords of `build`, one for each slot."""

    reset: Operator
    extract: Operator
    interpret: Operator
    route: Operator
    deliver: Operator


def build(checkpointer: Checkpointer = None, **operators: Unpack[StateFactoryOperators]) -> RewardGraph:
    """Build StateFactory's graph, with your own operator in every slot that a keyword names.

    Args:
        checkpointer: a LangGraph checkpointer; without one a run cannot be resumed.
        **operators: operators by slot, for example `build(route=route(granularity="textual"))`.

    Raises:
        TypeError: a keyword names no slot.
    """
    builder = assemble("statefactory", State, RunInput, SLOTS, operators)
    builder.add_edge(START, "reset")
    builder.add_conditional_edges("reset", after_rating, {"next": "extract", "over": "deliver"})
    builder.add_edge("extract", "interpret")
    builder.add_edge("interpret", "route")
    builder.add_conditional_edges("route", after_rating, {"next": "extract", "over": "deliver"})
    builder.add_edge("deliver", END)
    return builder.compile(checkpointer=checkpointer, name="statefactory")


graph = build()
