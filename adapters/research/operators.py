"""SDP's operators for research on the web (SDP paper, appendix A.4).

A plan is at most five narrowing steps, then the answer and the goal. Realize plans a step's searches and pages, the
world runs them, Validate draws a finding from what they brought up and judges it. Two refusals bring in a second source
of evidence, a third lets the finding pass uncertified (`force_pass`); three weak answers end in the closest one, which
is handed in uncertified too (`force_accept`). Replan looks for the same in other words and on pages not read yet.
"""

from collections.abc import Mapping
from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Operator
from certigraph.adapters.research.forcing import force_accept, let_pass
from certigraph.adapters.research.judging import verdict_on
from certigraph.adapters.research.planning import proposed, replanned
from certigraph.adapters.research.plans import is_step
from certigraph.adapters.research.tooling import REJECTIONS, closing_action, step_action
from certigraph.state.sdp import ProposeView, RealizeView, ReplanView, ValidateView


def operators() -> Mapping[str, Operator]:
    """The operators by slot; `unforced` validates without a policy."""
    return {
        "propose": _propose,
        "realize": _realize,
        "validate": _validate,
        "unforced": _unforced,
        "replan": _replan,
        "answer": force_accept,
    }


async def _propose(state: ProposeView, runtime: Runtime[Context]) -> dict[str, Any]:
    return {"plan": await proposed(state, runtime)}


async def _realize(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
    act = step_action if is_step(state["target"]) else closing_action
    return {"action": await act(state, runtime)}


async def _unforced(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    return {"verdict": await verdict_on(state, runtime)}


async def _validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    verdict = await verdict_on(state, runtime)
    return {"verdict": let_pass(verdict, state["observation"], REJECTIONS)}


async def _replan(state: ReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
    return {"plan": await replanned(state, runtime)}
