"""Parallel hypotheses (CGDP appendix B): several searches, each with its own direction."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypedDict, Unpack

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Checkpointer, Send

from certigraph.adapters.benchmarks import context_of
from certigraph.adapters.models.usage import Bill, billed_to, current_meter
from certigraph.adapters.protocols import Context, Operator
from certigraph.graphs.assembly import assemble
from certigraph.nodes import search as slots
from certigraph.nodes.beliefs import DELIVER
from certigraph.nodes.react import decide, pursue
from certigraph.nodes.search import aggregate, directed, generate, hypothesise, manage, reason
from certigraph.nodes.slots import factory, shared
from certigraph.nodes.world import act, reset
from certigraph.state.records import Action, LimitReached, UnknownName
from certigraph.state.run import FINISH, ActingState, RunInput, belief_of
from certigraph.state.run import world_ending as ending
from certigraph.state.search import ExploreView, explore_views
from certigraph.state.search import HypothesesState as State
from certigraph.state.search import ending as search_ending

# Explore: one whole search, run as an operator inside the graph of parallel hypotheses.

AGENTS: Mapping[str, Callable[[], Operator]] = {
    "ircot": reason,
    "iter_retgen": generate,
    "memgpt": manage,
    "pbai": pursue,
    "react": lambda: decide,
}
"""The agent of each harness, which is given the direction."""

UNSAVED: RunnableConfig = {"configurable": {"__pregel_durability": "async"}}
"""A search has no checkpoints; where the graph around it waits for its own, LangGraph would wait for those, too."""


@factory
def explore(*, harness: str = "pbai", memory: Operator | str = "structured", gate: Operator | None = None) -> Operator:
    """Search along one hypothesis, in an episode of its own.

    Args:
        harness: pbai, ircot, react, memgpt or iter_retgen.
        memory: its memory, by condition or as an operator.
        gate: its gate; None: the harness's own.

    Raises:
        UnknownName: no harness or memory condition of that name.
    """
    if harness not in AGENTS:
        raise UnknownName(f"explore(harness={harness!r}): known are {', '.join(AGENTS)}")
    build, agent = import_module(f"certigraph.graphs.{harness}").build, AGENTS[harness]
    swaps = {"memory": memory, **({"gate": gate} if gate else {})}
    build(**swaps)  # what cannot be built is said now, not in the middle of a run

    async def explore(state: ExploreView, runtime: Runtime[Context]) -> dict[str, Any]:
        branch = state["branch"]
        # without a checkpointer of its own: a search that was cut off is made anew, whole
        graph = build(checkpointer=False, decide=directed(agent(), branch.hypothesis), **swaps)
        latest, spent = await _searched(graph, state, _shared(state, context_of(runtime)))
        return {"branches": [branch.model_copy(update={**_found(latest), **({"ending": spent} if spent else {})})]}

    return explore


async def _searched(graph: Any, state: ExploreView, context: Context) -> tuple[Any, str]:
    """The latest state of a search, and the limit that cut it off, whose world is closed with it."""
    latest: Any = {}
    try:
        with billed_to(_pay):
            async for values in graph.astream({"task": state["task"]}, UNSAVED, context=context, stream_mode="values"):
                latest = values
    except LimitReached as reached:
        return latest, reached.ending
    return latest, ""


def _pay(bill: Bill) -> None:
    for call in bill.calls:
        current_meter().charge(call)


def _found(latest: ActingState) -> dict[str, Any]:
    turns, handed_in = latest.get("turns", []), _handed_in(latest)
    thoughts = "\n".join(turn.thought for turn in turns[-3:] if turn.thought)
    return {
        "answer": str(handed_in.args.get("answer", "")) if handed_in else "",
        "belief": belief_of(latest).text or thoughts,
        "retrieved": tuple(dict.fromkeys(source for turn in turns for source in turn.sources)),
        "rounds": len(turns) - bool(handed_in),
        "ending": search_ending(latest),
    }


def _handed_in(latest: ActingState) -> Action | None:
    """The answer that the world took; one that a limit kept from being delivered is none."""
    observation, action = latest.get("observation"), latest.get("action")
    return action if observation and observation.done and action and action.kind == FINISH else None


def _shared(state: ExploreView, context: Context) -> Context:
    """The context of one search: a world of its own, and its part of the budget."""
    return shared(context, state["spent"], state["share"]).model_copy(update={"environment": None, "entry": None})


# Parallel hypotheses (CGDP appendix B): several searches, each with a direction of its own, and one answer from all.
#
# Each search is a whole harness (a PBAI loop) in a world of its own; they start together, share what is left of the
# budget in equal parts, and the answer is delivered once.

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
