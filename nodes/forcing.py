"""Policies that end a research with something rather than nothing (SDP paper, appendix A.4), and how to do without.

AssistantBench's own operators force; `validate=unforced` and `answer=abstain` switch that off. What is forced is marked
in the trajectory, counts as no progress, and makes the run's ending something else than `goal`.
"""

from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Operator
from certigraph.adapters.research.forcing import force_accept, let_pass
from certigraph.adapters.research.tooling import REJECTIONS
from certigraph.nodes.special import specialised
from certigraph.nodes.specs import factory
from certigraph.nodes.validate import validate
from certigraph.state.endings import UnknownName
from certigraph.state.gathering import AnswerView
from certigraph.state.sdp import ValidateView
from certigraph.state.searching import finish

__all__ = ["abstain", "force_accept", "force_pass", "unforced"]


@specialised
async def unforced(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Validate as the benchmark does, without its policy: nothing that it refuses goes on."""
    return await validate(state, runtime)


@factory
def force_pass(validate: Operator = unforced, *, after: int = REJECTIONS) -> Operator:
    """A validator that lets a refused finding pass, uncertified, once `after` others of its step were refused.

    Raises:
        UnknownName: `after` is no whole number from 0.
    """
    if not isinstance(after, int) or after < 0:
        raise UnknownName(f"force_pass(after={after!r}): a whole number from 0, as in validate=force_pass:after=2")

    async def force_pass(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
        update = await validate(state, runtime)
        return {**update, "verdict": let_pass(update["verdict"], state["observation"], after)}

    return force_pass


async def abstain(state: AnswerView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Hand in no answer where none is certified: fewer answers, and more of them right."""
    return {"action": finish("")}
