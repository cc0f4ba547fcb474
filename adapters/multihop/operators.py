"""SDP's operators for multi-hop question answering (SDP paper, appendices A.5 HotpotQA and A.6 MuSiQue).

A plan is one predicate a sub-question, one for the answer and one for the goal. Each hop is realized by searching,
where passages have to be found, and by a claim: a finding, the title that it is taken from, and the bridge entity that
takes the place of "#1" in later sub-questions. The world resolves the title; Validate puts that paragraph, then the
best other one, to a verifier. The answer is noted and certified together with the goal.
"""

from collections.abc import Mapping
from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.adapters.multihop.chain import HOP
from certigraph.adapters.multihop.concluding import closing_action
from certigraph.adapters.multihop.finding import hop_action
from certigraph.adapters.multihop.planning import LEAST, MOST, hops_in, proposed, replanned
from certigraph.adapters.multihop.reading import Library
from certigraph.adapters.multihop.verifying import verdict_on
from certigraph.adapters.protocols import Operator
from certigraph.state.records import Task
from certigraph.state.sdp import ProposeView, RealizeView, ReplanView, ValidateView


def operators(benchmark: Library, *, strict: bool = False, hops: bool = False) -> Mapping[str, Operator]:
    """The four by slot.

    Args:
        benchmark: has `library(task)` and says by `retrieves` whether passages must be searched for. Its world tells
            the action's arguments in the `data` of its observations: Validate sees nothing else of the action.
        strict: MuSiQue's form: two to four hops, and its checks of the answer. Else HotpotQA's: two hops.
        hops: read the number of hops off the task's id, which is a label leak.
    """

    def bounds(task: Task) -> tuple[int, int]:
        return (hops_in(task),) * 2 if hops else (LEAST, MOST if strict else LEAST)

    async def propose(state: ProposeView, runtime: Runtime[Context]) -> dict[str, Any]:
        return {"plan": await proposed(state, *bounds(state["task"]), runtime)}

    async def realize(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
        act = hop_action if state["target"].kind == HOP else closing_action
        return {"action": await act(state, runtime)}

    async def validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
        return {"verdict": await verdict_on(state, strict, runtime)}

    async def replan(state: ReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
        return {"plan": await replanned(state, bounds(state["task"])[1], runtime)}

    return {"propose": propose, "realize": realize, "validate": validate, "replan": replan}
