"""Solve: one node of TDP's task graph, worked on by a whole graph that runs inside the node.

TDP's own is `subtask`. Any other will do that can tell that it reached its task: with SDP every sub-task is certified.
"""

from collections.abc import AsyncIterator
from importlib import import_module
from types import ModuleType
from typing import Any

from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import context_of, limits_of
from certigraph.adapters.context import Context
from certigraph.adapters.loops import invoked
from certigraph.adapters.prompting import listed, quoted
from certigraph.adapters.protocols import Operator
from certigraph.graphs.assembly import operators_of, swapped
from certigraph.graphs.outcomes import outcome_of
from certigraph.nodes.sharing import shared
from certigraph.nodes.slots import SUBTASK
from certigraph.nodes.specs import Spec, factory
from certigraph.state.endings import LimitReached, UnknownName
from certigraph.state.records import Task
from certigraph.state.tdp import SolveView

SUBTASK_GRAPH = "subtask"

Graph = CompiledStateGraph[Any, Context, Any, Any]


@factory
def solve(*, graph: str = SUBTASK_GRAPH, **operators: Operator) -> Operator:
    """Solve each node by the graph of that name, with operators of your own where a keyword names a slot of it.

    Raises:
        UnknownName: there is no graph of that name.
        TypeError: a keyword names no slot of that graph, or the graph cannot work on a part of a task.
    """
    try:
        module = import_module(f"certigraph.graphs.{graph}")
    except ModuleNotFoundError:
        told = "subtask, sdp, react and the search agents can work on a sub-task"
        raise UnknownName(f"solve(graph={graph!r}): there is no such graph; {told}") from None
    return _solving(module.build(**operators))


def as_solver(given: Any) -> Operator:
    """The operator of what `tdp.build(solve=...)` takes: an operator, a graph's name or module, or a compiled graph."""
    if isinstance(given, ModuleType):
        given = given.__name__.rpartition(".")[2]
    if isinstance(given, str):
        return solve(graph=given)
    return _remembered(given) if isinstance(given, CompiledStateGraph) else given


def _remembered(graph: Graph) -> Operator:
    """A graph that was built already, under a spec by which it can be built again."""
    usual = operators_of(import_module(f"certigraph.graphs.{graph.name}").graph)
    own = swapped(operators_of(graph), usual)
    operator = _solving(graph)
    operator.spec = Spec(name="solve", args={"graph": graph.name, **own})  # type: ignore[attr-defined]
    return operator


def _solving(graph: Graph) -> Operator:
    if "trial" in graph.channels:
        told = f"{graph.name} begins a task several times, and a sub-task is a part of one episode"
        raise TypeError(f"{told}: solve it by subtask, sdp, react or a search agent")
    shows_known = "known" in graph.channels

    async def solve(state: SolveView, runtime: Runtime[Context]) -> dict[str, Any]:
        task = _task(state, tells_known=not shows_known)
        latest, reached = await _latest(graph, task, state, _context(state, runtime))
        outcome = outcome_of(graph.name, latest, state, reached)
        return {"outcomes": [outcome], "usage": latest.get("usage", []), "spent": latest["spent"]}

    solve.graph = graph  # type: ignore[attr-defined]
    return solve


async def _latest(graph: Graph, task: Task, state: SolveView, context: Context) -> tuple[Any, LimitReached | None]:
    """The latest state of the inner graph, and the limit that cut it off where that need not stop the other nodes."""
    latest: Any = {}
    told: Any = {"metadata": {SUBTASK: state["node"].id}}
    try:
        async for values in _states(graph, {"task": task}, told, context):
            latest = values
    except LimitReached as reached:
        if "spent" not in latest or (not reached.of_method and state["share"] == 1):
            raise
        return latest, reached
    return latest, None


async def _states(graph: Graph, given: Any, told: Any, context: Context) -> AsyncIterator[Any]:
    """The states of the inner graph, which keeps its checkpoints where the outer one does, and in the same way."""
    if invoked():
        for values in graph.stream(given, told, context=context, stream_mode="values"):
            yield values
    else:
        async for values in graph.astream(given, told, context=context, stream_mode="values"):
            yield values


def _task(state: SolveView, *, tells_known: bool) -> Task:
    """The sub-task as a task of its own: whoever works on it sees no other goal."""
    goal, entry = state["node"].task, state["entry"]
    if entry.last:
        goal += f"\nIt settles the whole task: {state['task'].goal}"
    if entry.known and tells_known:
        goal += f"\nKnown from before:\n{quoted(listed(entry.known))}"
    return state["task"].model_copy(update={"goal": goal, "condition": state["node"].task})


def _context(state: SolveView, runtime: Runtime[Context]) -> Context:
    context, entry = context_of(runtime), state["entry"]
    most = {"steps": len(entry.steps) + state["steps"], "trials": 1}
    limits = limits_of(state["task"], runtime).model_copy(update=most)
    apart = {"environment": None} if entry.apart else {}
    own = {"limits": limits, "entry": entry, **apart}
    return shared(context, state["spent"], state["share"]).model_copy(update=own)
