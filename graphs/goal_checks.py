"""SDP's edges after Validate, with the optional nodes beyond the paper: `audit` and `revalidate`.

`audit` stands between a verdict that claims the goal and its certificate; `revalidate` between a rejected action and
the next try. Where neither is used the edges are the paper's.
"""

from collections.abc import Callable, Mapping

from langgraph.graph import END
from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.graphs.assembly import Assembly
from certigraph.nodes import gathering_slots as gathering
from certigraph.nodes import sdp_slots as slots
from certigraph.nodes.slots import Slot
from certigraph.state.beliefs import stopped
from certigraph.state.sdp import SDPState

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
