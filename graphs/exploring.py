"""Explore: one whole search, run as an operator inside the graph of parallel hypotheses."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import context_of
from certigraph.adapters.context import Context
from certigraph.adapters.models.billing import Bill, billed_to
from certigraph.adapters.models.meter import current_meter
from certigraph.adapters.protocols import Operator
from certigraph.nodes.decide import decide
from certigraph.nodes.generate import generate
from certigraph.nodes.hypothesise import directed
from certigraph.nodes.manage import manage
from certigraph.nodes.pursue import pursue
from certigraph.nodes.reason import reason
from certigraph.nodes.sharing import shared
from certigraph.nodes.specs import factory
from certigraph.state.acting import ActingState
from certigraph.state.beliefs import belief_of
from certigraph.state.endings import LimitReached, UnknownName
from certigraph.state.gathering import ending as search_ending
from certigraph.state.hypothesising import ExploreView
from certigraph.state.records import Action
from certigraph.state.searching import FINISH

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
