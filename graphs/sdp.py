"""SDP, the state-centric decision process (SDP paper, section 3.2, Algorithm 1).

Propose writes a plan: a chain of predicates that leads to the goal. The first one that is not certified is the target.
Realize chooses an action for it, which is taken in the world. Validate counts how many predicates, from the target on
without a gap, now hold. Certify records these and advances; if none holds, the target is tried again. Once the tries
are used up, Replan writes a new rest of the chain.

Two optional nodes go beyond the SDP paper: `audit` checks the goal once more before it is certified, and `revalidate`
finds certified predicates that a failed action undid. In worlds that take an answer (`Benchmark.answers`) a run that
gives up or runs out of steps still gives its best answer, uncertified. This uses the nodes `answer` and `deliver` and
the edges `forced`, which drawings show for such worlds only.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict, Unpack

from langgraph.graph import END, START
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Checkpointer

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.protocols import Context, Operator
from certigraph.graphs.assembly import UNEXTENDED, Assembly, Schemas, add_gate, add_path, assemble
from certigraph.nodes import beliefs
from certigraph.nodes import sdp as slots
from certigraph.nodes.approval import APPROVE
from certigraph.nodes.beliefs import with_memory
from certigraph.nodes.call_checks import CHECK
from certigraph.nodes.chains import MAX_AHEAD
from certigraph.nodes.commitments import COMMIT
from certigraph.nodes.sdp import certify, propose, realize, realize_one, replan, validate, validate_always
from certigraph.nodes.search import answer
from certigraph.nodes.slots import Slot
from certigraph.nodes.world import act, reset
from certigraph.state.run import RunInput
from certigraph.state.sdp import SDPState, needs_rest_of_plan
from certigraph.state.sdp import SDPState as State
from certigraph.state.sdp import sdp_ending as ending
from certigraph.state.sdp import sdp_message as message
from certigraph.state.tools import is_answered_directly

__all__ = ["State", "build", "builder", "ending", "graph", "message"]

SDPGraph = CompiledStateGraph[State, Context, RunInput, State]

SLOTS = (
    slots.RESET.filled(reset),
    COMMIT,
    slots.PROPOSE.filled(propose),
    slots.REALIZE.filled(realize(ahead=MAX_AHEAD)),
    CHECK,
    APPROVE,
    slots.ACT.filled(act),
    beliefs.MEMORY,
    beliefs.GATE,
    slots.VALIDATE.filled(validate),
    slots.AUDIT,
    slots.REVALIDATE,
    slots.CERTIFY.filled(certify),
    slots.REPLAN.filled(replan),
    beliefs.ANSWER.filled(answer)._replace(answers_only=True),
    beliefs.DELIVER.filled(act)._replace(answers_only=True),
)


PAPER: Mapping[str, Operator] = {"realize": realize_one, "validate": validate_always}
"""The configuration that is the SDP paper's Algorithm 1 word for word: one action, then one verdict of the model.

By default, Realize gives several actions at once, rules look at every answer, and the model judges what is claimed.
"""


def after_planning(state: State, runtime: Runtime[Context]) -> str:
    """Return `planned` if there is a target not tried so far, else `gave_up`; `forced` as in `after_validate`."""
    if state["head"] < len(state["plan"]) and not state["tried"]:
        return beliefs.edge_unless_spent("planned", state, runtime)
    return beliefs.end_or_forced("gave_up", state, runtime)


def after_validate(state: State, runtime: Runtime[Context]) -> str:
    """Return `certified`, `retry`, `stuck` (no tries are left, or none can help) or `exhausted` (no plan can help).

    In a world that takes an answer, `forced` replaces `exhausted`, and also `retry` and `stuck` if no steps are left:
    the run then gives an answer that is not certified.
    """
    refused_at_end = state["observation"].done and not state["observation"].accepted
    if state["verdict"].depth > 0 and not refused_at_end:
        return "certified"
    if state["verdict"].exhausted or state["observation"].done:
        return beliefs.end_or_forced("exhausted", state, runtime)
    tries_left = not state["verdict"].unreachable and state["tried"] < limits_of(state["task"], runtime).attempts
    return beliefs.edge_unless_spent("retry" if tries_left else "stuck", state, runtime)


def after_certify(state: State, runtime: Runtime[Context]) -> str:
    """Return `goal` if the last predicate of the plan is certified, else `advance`; `forced` as in `after_validate`.

    It is `over` if the world, or a tool's answer (`return_direct`), has ended the work before the rest of the plan came
    true. It is `extend` if only the goal is left of a plan that was cut to its maximum length, and `stuck` if the
    verdict says that the next predicate cannot come true.
    """
    if state["head"] >= len(state["plan"]):
        return "goal"
    if is_answered_directly(state["action"], state["history"]):
        return "over"
    if state["observation"].done:
        return beliefs.end_or_forced("over", state, runtime)
    edge = "extend" if needs_rest_of_plan(state) else "stuck" if state["verdict"].unreachable else "advance"
    return beliefs.edge_unless_spent(edge, state, runtime)


class SDPOperators(TypedDict, total=False):
    """Keywords of `build`, one for each slot.

    `memory` and `gate` (from the paper on CGDP), `commit`, `check`, `approve`, `audit` and `revalidate` are optional
    nodes. The SDP paper does not have them. `revalidate` needs a benchmark whose Replan plans again for conditions that
    held and were then made false (`Benchmark.replans_undone`).
    """

    reset: Operator
    commit: Operator
    propose: Operator
    realize: Operator
    check: Operator
    approve: Operator
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


def builder(schemas: Schemas = UNEXTENDED, **operators: Unpack[SDPOperators]) -> Assembly:
    """Return the graph before it is compiled, so that it can be extended: `builder().insert(...)`.

    Args:
        schemas: schemas with which the graph is extended.
        **operators: operators by slot, as in `build`.

    Raises:
        TypeError: a keyword names no slot.
    """
    graph_slots = share_first_request(guard_revalidation(SLOTS, operators), operators)
    graph = assemble("sdp", State, RunInput, graph_slots, with_memory(operators), schemas)
    graph.add_edge(START, "reset")
    add_path(graph, "reset", "commit", "propose")
    graph.add_conditional_edges("propose", after_planning, {"planned": "realize", "gave_up": END, "forced": "answer"})
    add_path(graph, "realize", "check", "approve", "act", "memory", add_gate(graph, "validate", answer="answer"))
    advanced = {"advance": "realize", "extend": "replan", "stuck": "replan", "forced": "answer"}
    graph.add_conditional_edges("certify", after_certify, {**advanced, "goal": END, "over": END})
    certified = {"certified": "certify", "retry": "realize", "stuck": "replan", "exhausted": END, "forced": "answer"}
    add_checked_edges(graph, after_validate, certified)
    graph.add_conditional_edges("replan", after_planning, {"planned": "realize", "gave_up": END, "forced": "answer"})
    add_path(graph, "answer", "deliver")
    graph.add_edge("deliver", END)
    return graph


def build(checkpointer: Checkpointer = None, **operators: Unpack[SDPOperators]) -> SDPGraph:
    """Build SDP's graph, with your own operator in every slot that a keyword names.

    Args:
        checkpointer: a LangGraph checkpointer; without one a run cannot be resumed.
        **operators: operators by slot, for example `build(validate=always_pass)`.

    Raises:
        TypeError: a keyword names no slot.
    """
    return builder(**operators).compile(checkpointer=checkpointer, name="sdp")


# The edges after Validate, with those of the optional nodes `audit` and `revalidate`.
#
# `audit` comes between a verdict that claims the goal and its certificate, `revalidate` between a rejected action and
# the next try.

Router = Callable[[SDPState, Runtime[Context]], str]


def guard_revalidation(graph_slots: Sequence[Slot], operators: Mapping[str, object]) -> list[Slot]:
    """Return the slots; if `revalidate` is used, `reset` refuses benchmarks whose Replan ignores undone conditions.

    Args:
        graph_slots: the slots of the graph.
        operators: operators by slot that replace the defaults. A Replan of the user's own is not checked.
    """
    defaults = {slot.name: slot.default for slot in graph_slots}
    usual_replan = operators.get("replan", defaults["replan"]) is defaults["replan"]
    if "revalidate" not in operators or not usual_replan:
        return list(graph_slots)
    return [slots.RESET_REVALIDATING.filled(s.default) if s.name == "reset" else s for s in graph_slots]


def share_first_request(graph_slots: Sequence[Slot], operators: Mapping[str, object]) -> list[Slot]:
    """Return the slots, so that `propose` and `replan` give the first actions too where the shipped operators are used.

    Args:
        graph_slots: the slots of the graph.
        operators: operators by slot that replace the defaults.
    """
    used = {slot.name: operators.get(slot.name, slot.default) for slot in graph_slots}
    ahead = slots.find_ahead(used["realize"])
    sharing = {name for name, shipped in (("propose", propose), ("replan", replan)) if used[name] is shipped}
    if ahead is None:
        return list(graph_slots)
    return [slots.share_request(slot, ahead) if slot.name in sharing else slot for slot in graph_slots]


def add_checked_edges(builder: Assembly, after_validate: Router, edges: dict[str, str]) -> None:
    """Add the edges after Validate, and those of `audit` and `revalidate` if the graph has these nodes.

    Args:
        builder: the graph, with its nodes.
        after_validate: the router after Validate in a graph without these two nodes.
        edges: the target node for each name that the router returns.
    """
    router = after_validate
    if "revalidate" in builder.nodes:
        edges = {**edges, "retry": "revalidate"}
        builder.add_conditional_edges("revalidate", after_revalidate, {"holds": "realize", "undone": "replan"})
    if "audit" in builder.nodes:
        edges, router = {**edges, "claimed": "audit"}, _claim_goal(after_validate)
        audited = {"confirmed": "certify", "denied": "replan", "exhausted": END, "forced": "answer"}
        builder.add_conditional_edges("audit", after_audit, audited)
    builder.add_conditional_edges("validate", router, edges)


def _claim_goal(after_validate: Router) -> Router:
    def after_validate_claiming(state: SDPState, runtime: Runtime[Context]) -> str:
        """Return the edge of `after_validate`, or `claimed` if the verdict covers the goal, which is audited first."""
        edge, verdict = after_validate(state, runtime), state["verdict"]
        covers_goal = state["head"] + verdict.depth >= len(state["plan"])
        return "claimed" if edge == "certified" and covers_goal and not verdict.forced else edge

    return after_validate_claiming


def after_audit(state: SDPState, runtime: Runtime[Context]) -> str:
    """Return `confirmed`, `denied` (the run replans), or `exhausted` or `forced` as in `after_validate`."""
    if state["audits"][-1].confirmed:
        return "confirmed"
    if state["observation"].done:
        return beliefs.end_or_forced("exhausted", state, runtime)
    return beliefs.edge_unless_spent("denied", state, runtime)


def after_revalidate(state: SDPState, runtime: Runtime[Context]) -> str:
    """Return `undone` if the last action undid a certified predicate (the run replans), else `holds`."""
    invalidations = state.get("invalidations")
    return "undone" if invalidations and invalidations[-1].step == len(state["history"]) else "holds"


graph = build()
