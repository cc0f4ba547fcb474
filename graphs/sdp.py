"""SDP, the state-centric decision process (SDP paper, section 3.2, Algorithm 1)."""

from collections.abc import Callable, Mapping
from typing import TypedDict, Unpack

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Checkpointer

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.protocols import Context, Operator
from certigraph.graphs.assembly import Assembly, add_path, assemble
from certigraph.nodes import beliefs as gathering
from certigraph.nodes import sdp as slots
from certigraph.nodes.beliefs import with_memory
from certigraph.nodes.sdp import certify, propose, realize, replan, validate
from certigraph.nodes.search import answer
from certigraph.nodes.slots import Slot
from certigraph.nodes.world import act, reset
from certigraph.state.run import RunInput, stopped
from certigraph.state.sdp import SDPState, ending, extends
from certigraph.state.sdp import SDPState as State

# SDP's edges after Validate, with the optional nodes beyond the paper: `audit` and `revalidate`.
#
# `audit` stands between a verdict that claims the goal and its certificate; `revalidate` between a rejected action
# and the next try. Where neither is used the edges are the paper's.

Router = Callable[[SDPState, Runtime[Context]], str]


def opening_slot(operators: Mapping[str, object], usual_replan: object) -> Slot:
    """The slot of `reset`, which refuses a benchmark whose Replan would not mend what `revalidate` finds.

    Args:
        operators: the swaps, by slot; a Replan among them is not checked.
        usual_replan: the Replan that hands over to the benchmark's own.
    """
    leaves_replan = operators.get("replan", usual_replan) is usual_replan
    return slots.RESET_REVALIDATING if "revalidate" in operators and leaves_replan else slots.RESET


def add_checked_edges(builder: Assembly, after_validate: Router, edges: dict[str, str]) -> None:
    """Add the edges that leave Validate, and those of `audit` and `revalidate` where the graph has these nodes.

    Args:
        builder: the graph, with its nodes.
        after_validate: the router of the paper's graph.
        edges: its edges and where they lead.
    """
    leave = after_validate
    if "revalidate" in builder.nodes:
        edges = {**edges, "retry": "revalidate"}
        builder.add_conditional_edges("revalidate", after_revalidate, {"holds": "realize", "undone": "replan"})
    if "audit" in builder.nodes:
        edges, leave = {**edges, "claimed": "audit"}, _claiming(after_validate)
        audited = {"confirmed": "certify", "denied": "replan", "exhausted": END, "forced": "answer"}
        builder.add_conditional_edges("audit", after_audit, audited)
    builder.add_conditional_edges("validate", leave, edges)


def _claiming(after_validate: Router) -> Router:
    def after_validate_claiming(state: SDPState, runtime: Runtime[Context]) -> str:
        """As `after_validate`, and `claimed` when the verdict covers the goal, which is to be audited first."""
        edge, verdict = after_validate(state, runtime), state["verdict"]
        covered = state["head"] + verdict.depth >= len(state["plan"])
        return "claimed" if edge == "certified" and covered and not verdict.forced else edge

    return after_validate_claiming


def after_audit(state: SDPState, runtime: Runtime[Context]) -> str:
    """`confirmed`, `denied` (the run replans), or `exhausted` and `forced` as after Validate."""
    if state["audits"][-1].confirmed:
        return "confirmed"
    if state["observation"].done or stopped(state):
        return gathering.forced_from("exhausted", state, runtime)
    return gathering.unless_spent("denied", state, runtime)


def after_revalidate(state: SDPState, runtime: Runtime[Context]) -> str:
    """`undone` when the last action was found to have undone a certified predicate (the run replans), else `holds`."""
    found = state.get("invalidations")
    return "undone" if found and found[-1].step == len(state["history"]) else "holds"


# SDP, the state-centric decision process (SDP paper, section 3.2, Algorithm 1).
#
# Propose a chain of predicates; Realize an action for the head; act; Validate how many predicates at the head now
# hold; certify them and advance, or retry, or Replan the tail once the tries at this target are used up.
#
# Beyond the paper, `audit` checks the goal once more before it is certified, and `revalidate` finds certified
# predicates that a failed action undid.

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
