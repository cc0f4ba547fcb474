"""TDP, task-decoupled planning (TDP paper, section 3, Algorithm 1)."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, TypedDict, Unpack

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Checkpointer, Send

from certigraph.adapters.benchmarks import context_of, limits_of
from certigraph.adapters.models.calls import bullet_list, clipped, quoted, unquoted
from certigraph.adapters.processes import invoked
from certigraph.adapters.protocols import Context, Operator
from certigraph.graphs.assembly import assemble, operators_of, swapped
from certigraph.nodes import tdp as slots
from certigraph.nodes.slots import SUBTASK, Spec, factory, shared
from certigraph.nodes.tdp import decompose, gather, revise
from certigraph.nodes.world import reset
from certigraph.state.records import GOAL, LimitReached, Step, Task, UnknownName
from certigraph.state.run import ANSWERS, FINISH, CertifiedState, RunInput, belief_of, certified_state
from certigraph.state.tdp import Outcome, SolveView, Status, message
from certigraph.state.tdp import TDPState as State
from certigraph.state.tdp import tdp_ending as ending

# What became of a sub-task, read off the last state of whatever graph worked on it.

MOST_RESULT = 1_000
"""Characters of a result: a node that needs several of them still fits into a small model's context."""

LATEST = 3
"""Certificates that a result tells, the latest ones."""

AGAIN = "; it begins again with all that is left"


def outcome_of(graph: str, latest: Mapping[str, Any], view: SolveView, reached: LimitReached | None = None) -> Outcome:
    """The outcome of a node.

    Args:
        graph: name of the graph that worked on it.
        latest: its last state.
        view: what the node was given.
        reached: the limit that cut it off, if one did: its steps, or its part of the budget.
    """
    ending = import_module(f"certigraph.graphs.{graph}").ending(latest)
    status = _status(latest, ending, reached)
    steps = tuple(latest["history"][len(view["entry"].steps) :])
    ended_copy = latest["observation"].done and view["entry"].apart and not view["entry"].last
    return Outcome(
        node=view["node"].id,
        status=status,
        result=clipped(unquoted(_spent_on(steps, view, status) + _best(latest, reached)), MOST_RESULT),
        ending=ending,
        certified=tuple(p.text for p in _certified(latest).predicates),
        steps=() if status == "pending" else steps[:-1] if ended_copy else steps,
        taken=len(steps),
        observation=latest["observation"],
    )


def _certified(latest: Mapping[str, Any]) -> CertifiedState:
    return certified_state(latest.get("certificates", ()), latest.get("invalidations", ()))


def _status(latest: Mapping[str, Any], ending: str, reached: LimitReached | None) -> Status:
    if reached:
        return "failed" if reached.of_method else "pending"
    handed_in = latest["observation"].done and latest.get("action") and latest["action"].kind == FINISH
    return "completed" if ending == GOAL or handed_in else "failed"


def _spent_on(steps: Sequence[Step], view: SolveView, status: Status) -> str:
    used_up = status == "failed" and len(steps) >= view["steps"]
    return f"not completed in {len(steps)} steps, all that it was given; " if used_up else ""


def _best(latest: Mapping[str, Any], reached: LimitReached | None) -> str:
    return next(filter(None, _told(latest, reached)), "")


def _told(latest: Mapping[str, Any], reached: LimitReached | None) -> Iterator[str]:
    """What may tell the outcome, the best first; some of it may be empty."""
    if reached:
        spent = f"its part of the {reached.kind} was spent"
        yield f"it ended {reached.ending}" if reached.of_method else f"{spent}{AGAIN}"
    action, progress = latest.get("action"), latest.get("progress")
    if action and action.kind in ANSWERS:
        yield f"answer: {action.args.get('answer', '')}"
    yield progress.result if progress else ""
    certified = [c for c in latest.get("certificates", ()) if not c.forced]
    yield "; ".join(f"{c.targets[-1].text} ({c.action.text})" for c in certified[-LATEST:])
    yield belief_of(latest).text  # type: ignore[arg-type]
    yield progress.reason if progress else ""
    yield latest["observation"].text


# Solve: one node of TDP's task graph, worked on by a whole graph that runs inside the node.
#
# TDP's own is `subtask`. Any other will do that can tell that it reached its task: with SDP every sub-task is
# certified.

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
        goal += f"\nKnown from before:\n{quoted(bullet_list(entry.known))}"
    return state["task"].model_copy(update={"goal": goal, "condition": state["node"].task})


def _context(state: SolveView, runtime: Runtime[Context]) -> Context:
    context, entry = context_of(runtime), state["entry"]
    most = {"steps": len(entry.steps) + state["steps"], "trials": 1}
    limits = limits_of(state["task"], runtime).model_copy(update=most)
    apart = {"environment": None} if entry.apart else {}
    own = {"limits": limits, "entry": entry, **apart}
    return shared(context, state["spent"], state["share"]).model_copy(update=own)


# TDP, task-decoupled planning (TDP paper, section 3, Algorithm 1).
#
# The Supervisor decomposes the task into a graph of sub-tasks. Those that are ready are dispatched together, each to
# a graph that sees its own specification, the outcomes of what it needs, and its own trace. When all of the batch
# have ended, Self-Revision mends and sharpens what is still to come, at most `Limits.revisions` times.
#
# The schedule is level-synchronous: LangGraph ends a superstep when the slowest of its nodes has ended. Starting each
# node as soon as it can would save about 5 % of the makespan of graphs of 3 to 8 nodes, as a task has, and 29 to 56 %
# of those of 20 to 200 (simulated, `tests/graphs/test_tdp.py`), so it is not built.
#
# A world that may be stepped in parallel gives every node a copy, in which what all its ancestors did is repeated
# first; `gather` repeats in the run's own world what a batch did. In any other world, and in one that a caller handed
# in, one ready node runs at a time, in the world itself. A batch divides what is left of calls, tokens and dollars
# equally. A node that spent its part is set aside; when no other is ready it begins again by itself, with all that is
# left. Only there, or between batches, does the budget end the run, which goes on from there with a larger one. The
# steps that a node may take are dealt out too: it fails when it has used them up. Where none are left for what is
# pending, the run ends `limit:steps`.

__all__ = ["State", "build", "ending", "graph", "message"]

TDPGraph = CompiledStateGraph[State, Context, RunInput, State]

SLOTS = (slots.RESET, slots.DECOMPOSE, slots.SOLVE, slots.GATHER, slots.REVISE)


def dispatch(state: State, runtime: Runtime[Context]) -> str | list[Send]:
    """The next batch of ready nodes, each by itself; `finished` when no node is or can become ready."""
    return [Send("solve", view) for view in slots.solve_views(state, runtime)] or "finished"


def after_gather(state: State, runtime: Runtime[Context]) -> str:
    """`over` when the world has ended, else `batch_done`."""
    return "over" if state["observation"].done else "batch_done"


class Operators(TypedDict, total=False):
    """The keywords of `build`. From `plan` on they are those of the graph of a sub-task, where `solve` is not given."""

    reset: Operator
    decompose: Operator
    solve: Any
    gather: Operator
    revise: Operator
    plan: Operator
    execute: Operator
    act: Operator
    memory: Operator | str
    gate: Operator
    supervise: Operator
    replan: Operator


def build(checkpointer: Checkpointer = None, **operators: Unpack[Operators]) -> TDPGraph:
    """TDP's graph, with operators of your own where a keyword names a slot.

    Args:
        checkpointer: a LangGraph saver; without one a run cannot be resumed.
        **operators: what takes the place of an operator, by slot. `solve` may be another graph, by name, as a module
            or compiled: `build(solve=sdp)` has every sub-task certified, `build(solve=sdp.build(validate=mine))` too.

    Raises:
        TypeError: a keyword names no slot, or one of a sub-task's while `solve` is another graph.
    """
    own = {slot.name for slot in SLOTS}
    outer: dict[str, Any] = {name: value for name, value in operators.items() if name in own}
    inner: dict[str, Any] = {name: value for name, value in operators.items() if name not in own}
    if unknown := set(inner) - set(Operators.__annotations__):
        known = ", ".join(Operators.__annotations__)
        raise TypeError(f"no operator slot {', '.join(sorted(unknown))!r}; this graph has: {known}")
    if inner and "solve" in outer:
        one = next(iter(inner))
        told = f"{', '.join(inner)}: give them to the graph that solves: solve=THAT.build({one}=...)"
        raise TypeError(f"{told}, on the command line --swap solve=THAT:{one}=...")
    outer["solve"] = as_solver(outer["solve"]) if "solve" in outer else solve(**inner)
    defaults = Operators(reset=reset, decompose=decompose, gather=gather, revise=revise)
    builder = assemble(State, RunInput, SLOTS, defaults, outer)
    builder.add_edge(START, "reset")
    builder.add_edge("reset", "decompose")
    builder.add_conditional_edges("decompose", dispatch, {"ready": "solve"})
    builder.add_edge("solve", "gather")
    builder.add_conditional_edges("gather", after_gather, {"batch_done": "revise", "over": END})
    builder.add_conditional_edges("revise", dispatch, {"ready": "solve", "finished": END})
    return builder.compile(checkpointer=checkpointer, name="tdp")


graph = build()
