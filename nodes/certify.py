"""Certify: turn a verdict into a certificate and move the cursor. The one writer of certified state."""

from collections.abc import Sequence
from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.state.certified import certified_states
from certigraph.state.records import RESTORE, Certificate, Predicate
from certigraph.state.sdp import SDPState


async def certify(state: SDPState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Discharge the predicates that the verdict counted; they must be in the plan."""
    head, history = state["head"], state["history"]
    targets = tuple(state["plan"][head : head + state["verdict"].depth])
    certificate = Certificate(
        step=max(len(history), 1),
        position=head,
        targets=targets,
        action=state["action"],
        digest=state["attempts"][-1].digest,
        evidence=state["verdict"].evidence,
        restores=_restored(targets),
        finding=state["verdict"].finding,
        forced=state["verdict"].forced,
    )
    # Neither a return, nor what is done again after it, nor what was forced refills the replan budget.
    replans = 0 if _gains([*state["certificates"], certificate]) else state["replans"]
    return {"certificates": [certificate], "head": head + len(targets), "tried": 0, "replans": replans}


def _gains(certificates: Sequence[Certificate]) -> bool:
    """Whether the latest certificate goes beyond everything that was certified before."""
    if all(c.restores is None for c in certificates):
        return not certificates[-1].forced
    *before, after = (len(s.predicates) for s in certified_states(certificates))
    return after > max(before)


def _restored(targets: tuple[Predicate, ...]) -> int | None:
    to = targets[0].args.get("to") if targets[0].kind == RESTORE else None
    return to if isinstance(to, int) else None
