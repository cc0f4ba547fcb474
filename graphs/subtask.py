"""The graph of one TDP sub-task (TDP paper, section 3.3): plan, act on the plan, and judge how the sub-task stands.

If an observation contradicts the plan, only this sub-task is replanned. The operators see the sub-task's
specification, the results of the sub-tasks on which it depends, and its own actions and observations.

In the paper the Executor gives one action, and the Supervisor judges after each. By default the Executor may give
several actions at once, or hand the sub-task back without any, and the Supervisor judges where that can matter.
"""

from typing import TypedDict, Unpack

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Checkpointer

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.protocols import Context, Operator
from certigraph.graphs.assembly import UNEXTENDED, Assembly, Schemas, add_gate, add_path, assemble
from certigraph.nodes import beliefs, react
from certigraph.nodes import plans as slots
from certigraph.nodes.approval import APPROVE
from certigraph.nodes.beliefs import with_memory
from certigraph.nodes.call_checks import CHECK
from certigraph.nodes.plans import execute_plan, plan, replan, supervise
from certigraph.nodes.world import act, reset
from certigraph.state.run import RunInput
from certigraph.state.step import is_handed_back
from certigraph.state.subtask import (
    SubtaskState as State,
)
from certigraph.state.subtask import (
    subtask_ending as ending,
)

__all__ = ["State", "SubtaskOperators", "build", "builder", "ending", "graph"]

SubtaskGraph = CompiledStateGraph[State, Context, RunInput, State]

SLOTS = (
    slots.RESET.filled(reset),
    slots.PLAN.filled(plan),
    slots.EXECUTE.filled(execute_plan()),
    CHECK,
    APPROVE,
    react.ACT.filled(act),
    beliefs.MEMORY,
    beliefs.GATE,
    slots.SUPERVISE.filled(supervise),
    slots.REPLAN.filled(replan),
)


def after_execute(state: State) -> str:
    """Return `acting`, or `handed_back`: the Executor takes no action, and says why."""
    return "handed_back" if is_handed_back(state["action"]) else "acting"


def after_supervise(state: State, runtime: Runtime[Context]) -> str:
    """Return `more` (act on), `off_plan` (replan first) or `done` (completed, failed or out of steps)."""
    progress = state["progress"]
    if progress.status != "needs_more_steps" or react.is_over(state, runtime):
        return "done"
    replans_left = state["replanned"] < limits_of(state["task"], runtime).replans
    return "off_plan" if progress.off_plan and replans_left else "more"


class SubtaskOperators(TypedDict, total=False):
    """Keywords of `build`, one for each slot. `memory` and `gate` are optional nodes (CGDP)."""

    reset: Operator
    plan: Operator
    execute: Operator
    check: Operator
    approve: Operator
    act: Operator
    memory: Operator | str
    gate: Operator
    supervise: Operator
    replan: Operator


def builder(schemas: Schemas = UNEXTENDED, **operators: Unpack[SubtaskOperators]) -> Assembly:
    """Return the graph before it is compiled, so that it can be extended: `builder().insert(...)`.

    Args:
        schemas: schemas with which the graph is extended.
        **operators: operators by slot, as in `build`.

    Raises:
        TypeError: a keyword names no slot.
    """
    graph = assemble("subtask", State, RunInput, SLOTS, with_memory(operators), schemas)
    graph.add_edge(START, "reset")
    add_path(graph, "reset", "plan", "execute")
    first, *_ = add_path(graph, "check", "approve", "act", "memory", add_gate(graph, "supervise"))
    graph.add_conditional_edges("execute", after_execute, {"acting": first, "handed_back": "supervise"})
    paths = {"more": "execute", "off_plan": "replan", "done": END}
    graph.add_conditional_edges("supervise", after_supervise, paths)
    graph.add_edge("replan", "execute")
    return graph


def build(checkpointer: Checkpointer = None, **operators: Unpack[SubtaskOperators]) -> SubtaskGraph:
    """Build the graph of a sub-task, with your own operator in every slot that a keyword names.

    Raises:
        TypeError: a keyword names no slot.
    """
    return builder(**operators).compile(checkpointer=checkpointer, name="subtask")


graph = build()
