"""SDP, the state-centric decision process (SDP paper, section 3.2, Algorithm 1).

Propose a chain of predicates; Realize an action for the head; act; Validate how many predicates at the head now
hold; certify them and advance, or retry, or Replan the tail once the tries at this target are used up.

Beyond the paper, `audit` checks the goal once more before it is certified, and `revalidate` finds certified predicates
that a failed action undid.
"""

from typing import TypedDict, Unpack

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Checkpointer

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Operator
from certigraph.graphs.assembly import add_path, assemble
from certigraph.graphs.goal_checks import add_checked_edges, opening_slot
from certigraph.nodes import gathering_slots as gathering
from certigraph.nodes import sdp_slots as slots
from certigraph.nodes.act import act, reset
from certigraph.nodes.answer import answer
from certigraph.nodes.certify import certify
from certigraph.nodes.memory import with_memory
from certigraph.nodes.propose import propose
from certigraph.nodes.realize import realize
from certigraph.nodes.replan import replan
from certigraph.nodes.validate import validate
from certigraph.state.beliefs import stopped
from certigraph.state.run import RunInput
from certigraph.state.sdp import SDPState as State
from certigraph.state.sdp import ending, extends

__all__ = ["State", "build", "ending", "graph"]

SDPGraph = CompiledStateGraph[State, Context, RunInput, State]

SLOTS = (
    slots.PROPOSE,
    slots.REALIZE,
    slots.ACT,
    gathering.MEMORY,
    gathering.GATE,
    slots.VALIDATE,
    slots.AUDIT,
    slots.REVALIDATE,
    slots.CERTIFY,
    slots.REPLAN,
    gathering.ANSWER,
    gathering.DELIVER,
)


def after_planning(state: State, runtime: Runtime[Context]) -> str:
    """`planned` when there is a target with all its tries left, else `gave_up`; `forced` as in `after_validate`."""
    if state["head"] < len(state["plan"]) and not state["tried"]:
        return gathering.unless_spent("planned", state, runtime)
    return gathering.forced_from("gave_up", state, runtime)


def after_validate(state: State, runtime: Runtime[Context]) -> str:
    """`certified`, `retry` the target, `stuck` (tries used up) or `exhausted` (no try can help any more).

    `forced` where the world takes an answer and its steps are used up, or nothing can help: one is given uncertified.
    """
    refused_for_good = state["observation"].done and not state["observation"].accepted
    if state["verdict"].depth > 0 and not refused_for_good:
        return "certified"
    if state["verdict"].exhausted or state["observation"].done or stopped(state):
        return gathering.forced_from("exhausted", state, runtime)
    tries_left = state["tried"] < limits_of(state["task"], runtime).attempts
    return gathering.unless_spent("retry" if tries_left else "stuck", state, runtime)


def after_certify(state: State, runtime: Runtime[Context]) -> str:
    """`goal` when the last predicate of the plan is certified, else `advance`; `forced` as in `after_validate`.

    `extend` where nothing but the goal is left of a plan that was cut, and the world goes on.
    """
    if state["head"] >= len(state["plan"]):
        return "goal"
    more = extends(state) and not state["observation"].done
    return gathering.unless_spent("extend" if more else "advance", state, runtime)


class Operators(TypedDict, total=False):
    """The keywords of `build`.

    `memory` and `gate` (CGDP), `audit` and `revalidate` are optional nodes: without them the graph is the paper's.
    `revalidate` needs a benchmark whose Replan plans undone conditions again (`Benchmark.replans_undone`).
    """

    reset: Operator
    propose: Operator
    realize: Operator
    act: Operator
    memory: Operator | str
    gate: Operator
    validate: Operator
    audit: Operator
    revalidate: Operator
    certify: Operator
    replan: Operator
    answer: Operator
    deliver: Operator


def build(checkpointer: Checkpointer = None, **operators: Unpack[Operators]) -> SDPGraph:
    """SDP's graph, with operators of your own where a keyword names a slot.

    Args:
        checkpointer: a LangGraph saver; without one a run cannot be resumed.
        **operators: what takes the place of an operator, by slot: `build(validate=always_pass)`.

    Raises:
        TypeError: a keyword names no slot.
    """
    defaults = Operators(
        reset=reset,
        propose=propose,
        realize=realize,
        act=act,
        validate=validate,
        certify=certify,
        replan=replan,
        answer=answer,
        deliver=act,
    )
    opening = opening_slot(operators, replan)
    builder = assemble(State, RunInput, (opening, *SLOTS), defaults, with_memory(operators))
    builder.add_edge(START, "reset")
    builder.add_edge("reset", "propose")
    builder.add_conditional_edges("propose", after_planning, {"planned": "realize", "gave_up": END, "forced": "answer"})
    add_path(builder, "realize", "act", "memory", "gate", "validate")
    builder.add_conditional_edges(
        "certify", after_certify, {"advance": "realize", "goal": END, "extend": "replan", "forced": "answer"}
    )
    certified = {"certified": "certify", "retry": "realize", "stuck": "replan", "exhausted": END, "forced": "answer"}
    add_checked_edges(builder, after_validate, certified)
    builder.add_conditional_edges("replan", after_planning, {"planned": "realize", "gave_up": END, "forced": "answer"})
    add_path(builder, "answer", "deliver")
    builder.add_edge("deliver", END)
    return builder.compile(checkpointer=checkpointer, name="sdp")


graph = build()
