"""The slots of SDP's graph: which view each operator gets, and the bookkeeping around its answer."""

from collections.abc import Sequence

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from certigraph.adapters.benchmarks import context_of, limits_of
from certigraph.adapters.context import Context
from certigraph.nodes.slots import ACTED, OPENED, Slot, Update, forgotten
from certigraph.state.certified import predicates_in_force
from certigraph.state.endings import Fault, LimitReached
from certigraph.state.records import RESTORE, Attempt, Audit, Invalidation, Predicate, Revalidation, Verdict
from certigraph.state.sdp import (
    CUT,
    SDPState,
    audit_view,
    extends,
    propose_view,
    realize_view,
    replan_view,
    revalidate_view,
    revalidated,
    validate_view,
)


def _nothing_certified(state: SDPState, update: Update, runtime: Runtime[Context]) -> Update:
    optional = [log for log in ("audits", "invalidations") if state.get(log)]
    logs = {log: Overwrite([]) for log in ("certificates", "attempts", *optional)}
    cursor = {"plan": [], "head": 0, "tried": 0, "replans": 0, "verdict": Verdict(depth=0)}
    return {**update, **forgotten(state), **logs, **cursor}


def _attempted(state: SDPState, update: Update, runtime: Runtime[Context]) -> Update:
    most = _certifiable(state["plan"][state["head"] :])
    verdict = update["verdict"].model_copy(update={"depth": min(update["verdict"].depth, most)})
    attempt = Attempt(
        position=state["head"],
        target=state["plan"][state["head"]],
        action=state["action"],
        digest=state["observation"].digest(),
        verdict=verdict,
    )
    return {"verdict": verdict, "attempts": [attempt], "tried": state["tried"] + (not verdict.looked)}


def _certifiable(tail: Sequence[Predicate]) -> int:
    """How many predicates one verdict may discharge: a return to an earlier state is certified on its own."""
    if tail[0].kind == RESTORE:
        return 1
    return next((n for n, predicate in enumerate(tail) if predicate.kind == RESTORE), len(tail))


def _replanned(state: SDPState, update: Update, runtime: Runtime[Context]) -> Update:
    """The new tail. Raises LimitReached where a plan that was cut gets no rest."""
    kept = state["plan"][: state["head"]]
    if extends(state):
        if not update["plan"]:
            most = int(str(state["plan"][state["head"]].args[CUT]))
            told = f"the plan was cut, {most} of {most} conditions are certified, and replan gave no others"
            raise LimitReached("plan", most, most, happened=f"{told} (an operator that never does needs a new run)")
        return {"plan": [*kept, *update["plan"]]}
    if not update["plan"]:
        return {}
    return {"plan": [*kept, *update["plan"]], "tried": 0, "replans": state["replans"] + 1}


def _audited(state: SDPState, update: Update, runtime: Runtime[Context]) -> Update:
    audit: Audit = update["audit"].model_copy(update={"step": len(state["history"])})
    if audit.confirmed:
        return {"audits": [audit]}
    return {"audits": [audit], "verdict": Verdict(depth=0, reason=f"audit of the goal: {audit.reason}")}


def _invalidated(state: SDPState, update: Update, runtime: Runtime[Context]) -> Update:
    found: Revalidation = update["revalidation"]
    checked, step = revalidated(state), len(state["history"])
    if beyond := [index for index in found.undone if not 0 <= index < len(checked)]:
        told = f"the operator in slot revalidate named predicate {beyond[0]} of {len(checked)}"
        raise Fault("operator", f"{told}; `undone` has indices from 0 into the view's `certified`")
    # A condition that was certified more than once is undone wherever it was.
    undone = {checked[index].predicate.text for index in found.undone}
    in_force = predicates_in_force(state["certificates"], state.get("invalidations", ()))
    lost = [
        Invalidation(**place._asdict(), step=step, reason=found.reason)
        for place in in_force
        if place.predicate.text in undone and place.predicate.kind != RESTORE
    ]
    return {"invalidations": lost} if lost else {}


def _must_replan_undone(state: SDPState, runtime: Runtime[Context]) -> Update | None:
    """Refuse, before the world is opened, a benchmark whose own Replan would leave undone conditions undone."""
    benchmark = context_of(runtime).benchmark
    if benchmark and "replan" in benchmark.operators() and not getattr(benchmark, "replans_undone", False):
        why = f"revalidate cannot be used with {benchmark.name}, whose replan does not plan undone conditions again"
        raise Fault("operator", f"{why}: leave revalidate out, or build the graph with a replan of your own as well")
    return None


def _nothing_to_revalidate(state: SDPState, runtime: Runtime[Context]) -> Update | None:
    """Nothing can have been undone, or no replan is left that could mend it."""
    refused = not state["observation"].accepted
    return {} if refused or _replans_spent(state, runtime) is not None or not revalidated(state) else None


def _replans_spent(state: SDPState, runtime: Runtime[Context]) -> Update | None:
    spent = state["replans"] >= limits_of(state["task"], runtime).replans
    return {} if spent and not extends(state) else None


RESET = Slot("reset", OPENED, record=_nothing_certified, opens_books=True)
RESET_REVALIDATING = RESET._replace(skip=_must_replan_undone)
"""`reset` of a graph with `revalidate` that leaves Replan to the benchmark."""
PROPOSE = Slot("propose", frozenset({"plan"}), propose_view)
REALIZE = Slot("realize", frozenset({"action"}), realize_view)
ACT = Slot("act", ACTED)
VALIDATE = Slot("validate", frozenset({"verdict"}), validate_view, _attempted)
CERTIFY = Slot("certify", frozenset({"certificates", "head", "tried", "replans"}))
AUDIT = Slot("audit", frozenset({"audit"}), audit_view, _audited, types={"audit": Audit})
REVALIDATE = Slot(
    "revalidate",
    frozenset({"revalidation"}),
    revalidate_view,
    _invalidated,
    _nothing_to_revalidate,
    types={"revalidation": Revalidation},
)
REPLAN = Slot("replan", frozenset({"plan"}), replan_view, _replanned, _replans_spent)
