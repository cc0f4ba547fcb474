"""Parallel hypotheses (CGDP appendix B): several searches, each with its own direction, and one answer from all.

Each search is a complete search agent (a PBAI loop) in its own world. The searches start together and share what is
left of the budget in equal parts. Their answers are aggregated to one, which is delivered once.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypedDict, Unpack

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Checkpointer, Send

from certigraph.adapters.benchmarks import benchmark_of, context_of
from certigraph.adapters.models.scripts import use_about
from certigraph.adapters.models.usage import UsageReport, current_meter, send_usage_to
from certigraph.adapters.protocols import Benchmark, Context, Operator
from certigraph.adapters.tools.world import Tools
from certigraph.graphs.assembly import assemble
from certigraph.nodes import search as slots
from certigraph.nodes.beliefs import DELIVER
from certigraph.nodes.memgpt import manage
from certigraph.nodes.react import decide, pursue
from certigraph.nodes.search import aggregate, generate, hypothesise, reason, with_direction
from certigraph.nodes.slots import factory, share_context
from certigraph.nodes.world import act, reset
from certigraph.state.endings import Fault, LimitReached, UnknownName
from certigraph.state.records import Action
from certigraph.state.run import FINISH, ReActState, RunInput, belief_of
from certigraph.state.run import world_ending as ending
from certigraph.state.search import ExploreView, explore_views, search_ending
from certigraph.state.search import HypothesesState as State

__all__ = ["State", "build", "ending", "graph"]

HypothesesGraph = CompiledStateGraph[State, Context, RunInput, State]

SLOTS = (
    slots.RESET.filled(reset),
    slots.HYPOTHESISE.filled(hypothesise()),
    slots.EXPLORE,
    slots.AGGREGATE.filled(aggregate),
    DELIVER.filled(act),
)
"""The slots of the graph. The default operator of `explore` is set by `build`."""


def after_hypothesise(state: State) -> str | list[Send]:
    """Start a search for each hypothesis, or return `unanswered` if there is none, as in a world without answers."""
    return [Send("explore", view) for view in explore_views(state)] or "unanswered"


class HypothesesOperators(TypedDict, total=False):
    """Keywords of `build`, one for each slot; `gate` is the gate of each search, and excludes `explore`."""

    reset: Operator
    hypothesise: Operator
    explore: Operator
    gate: Operator
    aggregate: Operator
    deliver: Operator


def build(checkpointer: Checkpointer = None, **operators: Unpack[HypothesesOperators]) -> HypothesesGraph:
    """Build the graph of parallel hypotheses, with your own operator in every slot that a keyword names.

    For example `build(explore=explore(harness="ircot"))` runs IRCoT along each hypothesis.

    Raises:
        TypeError: a keyword names no slot, or `gate` is given together with `explore`.
    """
    if {"gate", "explore"} <= operators.keys():
        raise TypeError("gate: give it to the searches themselves: explore=explore(gate=...)")
    swaps: dict[str, Any] = dict(operators)
    searching = explore(gate=swaps.pop("gate")) if "gate" in swaps else explore()
    builder = assemble("hypotheses", State, RunInput, SLOTS, {"explore": searching, **swaps})
    builder.add_edge(START, "reset")
    builder.add_edge("reset", "hypothesise")
    paths = {"hypothesis": "explore", "unanswered": END}
    builder.add_conditional_edges("hypothesise", after_hypothesise, paths)
    builder.add_edge("explore", "aggregate")
    builder.add_edge("aggregate", "deliver")
    builder.add_edge("deliver", END)
    return builder.compile(checkpointer=checkpointer, name="hypotheses")


# Explore: run a complete search as an operator inside the graph of parallel hypotheses.

AGENT_OPERATORS: Mapping[str, Callable[[], Operator]] = {
    "ircot": reason,
    "iter_retgen": generate,
    "memgpt": manage,
    "pbai": pursue,
    "react": decide,
}
"""For each search agent, the function that creates its operator `decide`."""

NO_CHECKPOINTS: RunnableConfig = {"configurable": {"__pregel_durability": "async"}}
"""LangGraph configuration of one search, which writes no checkpoints.

Without it LangGraph would wait for checkpoints of the search if the outer graph waits for its own.
"""


@factory
def explore(*, harness: str = "pbai", memory: Operator | str = "structured", gate: Operator | None = None) -> Operator:
    """Run a search agent that follows one hypothesis, in an episode of its own.

    Args:
        harness: graph of the search agent: pbai, ircot, react, memgpt or iter_retgen.
        memory: the agent's memory, by name or as an operator.
        gate: the agent's gate; None for the graph's default.

    Raises:
        UnknownName: there is no search agent or memory of that name.
    """
    if harness not in AGENT_OPERATORS:
        raise UnknownName(f"explore(harness={harness!r}): known are {', '.join(AGENT_OPERATORS)}")
    build, agent = import_module(f"certigraph.graphs.{harness}").build, AGENT_OPERATORS[harness]
    swaps = {"memory": memory, **({"gate": gate} if gate else {})}
    drawn = build(**swaps)  # raises errors now instead of during a run

    async def explore(state: ExploreView, runtime: Runtime[Context]) -> dict[str, Any]:
        branch = state["branch"]
        _check_repeatable(benchmark_of(state["task"], runtime))
        # Without a checkpointer: a search that was interrupted starts again from the beginning.
        graph = build(checkpointer=False, decide=with_direction(agent(), branch.hypothesis), **swaps)
        with use_about({"hypothesis": branch.hypothesis}):
            latest, spent = await _run_search(graph, state, _search_context(state, context_of(runtime)))
        return {
            "branches": [branch.model_copy(update={**_branch_fields(latest), **({"ending": spent} if spent else {})})]
        }

    explore.graph = drawn  # type: ignore[attr-defined]
    return explore


def _check_repeatable(benchmark: Benchmark) -> None:
    if not isinstance(benchmark, Tools):
        return
    for name in benchmark.loaded:
        if not benchmark.is_repeatable(name):
            reason = f"a search of hypotheses starts again after a crash, so that {name} might take effect twice"
            fix = f'Tools(..., effects={{"{name}": "repeatable"}})'
            raise Fault("environment", f"{reason}: run pbai, or say that the tool changes nothing: {fix}")


async def _run_search(graph: Any, state: ExploreView, context: Context) -> tuple[Any, str]:
    """Run a search. Return its last state and, if a limit stopped it, its ending (`limit:...`), else ""."""
    latest: Any = {}
    try:
        with send_usage_to(_charge_usage):
            async for values in graph.astream(
                {"task": state["task"]}, NO_CHECKPOINTS, context=context, stream_mode="values"
            ):
                latest = values
    except LimitReached as reached:
        return latest, reached.ending
    return latest, ""


def _charge_usage(report: UsageReport) -> None:
    for call in report.calls:
        current_meter().charge(call)


def _branch_fields(latest: ReActState) -> dict[str, Any]:
    turns, handed_in = latest.get("turns", []), _delivered_answer(latest)
    thoughts = "\n".join(turn.thought for turn in turns[-3:] if turn.thought)
    return {
        "answer": str(handed_in.args.get("answer", "")) if handed_in else "",
        "belief": belief_of(latest).text or thoughts,
        "retrieved": tuple(dict.fromkeys(source for turn in turns for source in turn.sources)),
        "rounds": len(turns) - bool(handed_in),
        "ending": search_ending(latest),
    }


def _delivered_answer(latest: ReActState) -> Action | None:
    """Return the action that handed in the answer of a search; None if a limit stopped the search before."""
    observation, action = latest.get("observation"), latest.get("action")
    return action if observation and observation.done and action and action.kind == FINISH else None


def _search_context(state: ExploreView, context: Context) -> Context:
    """Return the context of one search: a new world, and its part of the budget."""
    return share_context(context, state["spent"], state["share"]).model_copy(
        update={"environment": None, "entry": None}
    )


graph = build()
