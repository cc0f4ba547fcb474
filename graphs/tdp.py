"""TDP, task-decoupled planning (TDP paper, section 3, Algorithm 1).

The Supervisor decomposes the task into a graph of sub-tasks. Those that are ready are dispatched together, each to a
graph that sees its own specification, the outcomes of what it needs, and its own trace. When all of the batch have
ended, Self-Revision mends and sharpens what is still to come, at most `Limits.revisions` times.

The schedule is level-synchronous: LangGraph ends a superstep when the slowest of its nodes has ended. Starting each
node as soon as it can would save about 5 % of the makespan of graphs of 3 to 8 nodes, as a task has, and 29 to 56 % of
those of 20 to 200 (simulated, `tests/graphs/test_tdp_eager.py`), so it is not built.

A world that may be stepped in parallel gives every node a copy, in which what all its ancestors did is repeated first;
`gather` repeats in the run's own world what a batch did. In any other world, and in one that a caller handed in, one
ready node runs at a time, in the world itself. A batch divides what is left of calls, tokens and dollars equally. A
node that spent its part is set aside; when no other is ready it begins again by itself, with all that is left. Only
there, or between batches, does the budget end the run, which goes on from there with a larger one. The steps that a
node may take are dealt out too: it fails when it has used them up. Where none are left for what is pending, the run
ends `limit:steps`.
"""

from typing import Any, TypedDict, Unpack

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Checkpointer, Send

from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Operator
from certigraph.graphs.assembly import assemble
from certigraph.graphs.solving import as_solver, solve
from certigraph.nodes import tdp_slots as slots
from certigraph.nodes.act import reset
from certigraph.nodes.decompose import decompose
from certigraph.nodes.gather import gather
from certigraph.nodes.revise import revise
from certigraph.state.run import RunInput
from certigraph.state.tdp import TDPState as State
from certigraph.state.tdp import ending, message

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
