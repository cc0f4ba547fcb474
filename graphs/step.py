"""STEP, stepwise planning (STEP paper, section 3, Algorithm 1).

The Planner gives one subtask at a time, and the Executor acts on it. The Evaluator checks each action against the rules
of earlier episodes before it is taken (`align`), and judges afterwards whether the subtask is completed (`assess`).
Memory writes the lessons of the episode. Episodes 1..K run until one reaches the goal.

`build(**PAPER)` is the paper's loop: one action a call, each checked against the rules before it is taken, and a
judgement after each. By default the Executor may give a few actions at once and says how the subtask stands; the
Evaluator checks actions that a rule names, and judges a subtask where the Executor's word and the Planner's next look
do not settle it. Over tools an action has several calls, the Evaluator is asked where the Executor says that they
fulfil the subtask, and the Planner drafts the answer that is handed in.
"""

from typing import TypedDict, Unpack

from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Checkpointer

from certigraph.adapters.protocols import Context, Operator
from certigraph.graphs.assembly import UNEXTENDED, Assembly, Schemas, add_gate, add_path, assemble
from certigraph.graphs.reflexion import add_episode_edges, without_store
from certigraph.nodes import beliefs, react, step
from certigraph.nodes.approval import APPROVE
from certigraph.nodes.beliefs import with_memory
from certigraph.nodes.call_checks import CHECK
from certigraph.nodes.commitments import COMMIT
from certigraph.nodes.lessons import memorise, recall
from certigraph.nodes.step import align, align_always, assess, assess_when_due, execute_subtask, planner
from certigraph.nodes.world import act, begin, conclude, reset
from certigraph.state.run import RunInput
from certigraph.state.step import StepState as State
from certigraph.state.step import is_handed_back
from certigraph.state.step import trials_ending as ending
from certigraph.state.step import trials_message as message

__all__ = ["PAPER", "State", "build", "builder", "ending", "graph", "message"]

StepGraph = CompiledStateGraph[State, Context, RunInput, State]

SLOTS = (
    react.BEGIN.filled(begin),
    step.RESET.filled(reset),
    COMMIT,
    react.RECALL.filled(recall),
    step.PLANNER.filled(planner),
    step.EXECUTOR.filled(execute_subtask()),
    step.ALIGN.filled(align),
    CHECK,
    APPROVE,
    step.ACT.filled(act),
    beliefs.EXTRACT,
    beliefs.GATE,
    step.ASSESS.filled(assess_when_due()),
    react.CONCLUDE.filled(conclude),
    react.MEMORY.filled(memorise),
)


def after_executor(state: State) -> str:
    """Return `proposed`, or `handed_back`: the Executor takes no action, and says why."""
    return "handed_back" if is_handed_back(state["action"]) else "proposed"


def after_align(state: State, runtime: Runtime[Context]) -> str:
    """Return `approved`, or `refused`: the Executor then runs again, with the reason.

    After too many refusals in a row the subtask has failed: it is `next` or `over` then, as in `after_assess`.
    """
    if state["approval"].approved:
        return "approved"
    return "refused" if state["subtask"].status == "open" else after_assess(state, runtime)


def after_assess(state: State, runtime: Runtime[Context]) -> str:
    """Return `over` if the episode is over, `next` if the subtask is completed or failed, else `continue`."""
    if step.is_over(state, runtime):
        return "over"
    return "continue" if state["subtask"].status == "open" else "next"


class StepOperators(TypedDict, total=False):
    """Keywords of `build`, one for each slot.

    `extract` (a memory operator of CGDP, or its name) and `gate` are optional nodes.
    """

    begin: Operator
    reset: Operator
    commit: Operator
    recall: Operator
    planner: Operator
    executor: Operator
    align: Operator
    check: Operator
    approve: Operator
    act: Operator
    extract: Operator | str
    gate: Operator
    assess: Operator
    conclude: Operator
    memory: Operator


PAPER: StepOperators = {"executor": react.execute, "align": align_always, "assess": assess}
"""The configuration that is the STEP paper's Algorithm 1 word for word: one action, checked before and judged after it.
"""


def builder(schemas: Schemas = UNEXTENDED, **operators: Unpack[StepOperators]) -> Assembly:
    """Return the graph before it is compiled, so that it can be extended: `builder().insert(...)`.

    Args:
        schemas: schemas with which the graph is extended.
        **operators: operators by slot, as in `build`.

    Raises:
        TypeError: a keyword names no slot.
    """
    graph = assemble("step", State, RunInput, SLOTS, with_memory(operators, "extract"), schemas)
    add_episode_edges(graph, first="planner", learn="memory")
    graph.add_edge("planner", "executor")
    graph.add_conditional_edges("executor", after_executor, {"proposed": "align", "handed_back": "assess"})
    approved = next(node for node in ("check", "approve", "act") if node in graph.nodes)
    refused = {"refused": "executor", "next": "planner", "over": "conclude"}
    graph.add_conditional_edges("align", after_align, {"approved": approved, **refused})
    add_path(graph, "check", "approve", "act", "extract", add_gate(graph, "assess", stop="conclude"))
    graph.add_conditional_edges("assess", after_assess, {"continue": "executor", "next": "planner", "over": "conclude"})
    return graph


def build(
    checkpointer: Checkpointer = None, store: BaseStore | None = None, **operators: Unpack[StepOperators]
) -> StepGraph:
    """Build STEP's graph, with your own operator in every slot that a keyword names.

    Args:
        checkpointer: a LangGraph checkpointer; without one a run cannot be resumed.
        store: a LangGraph store for the lessons; the default keeps them in memory. `certigraph.run` passes its own.
        **operators: operators by slot, for example `build(planner=none)`.

    Raises:
        TypeError: a keyword names no slot.
    """
    return builder(**operators).compile(checkpointer=checkpointer, store=store or InMemoryStore(), name="step")


graph = without_store(build())
