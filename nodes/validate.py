"""Validate (SDP Eq. 3): how many consecutive predicates at the head of the plan the observation satisfies."""

from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.bounds import Cut
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import numbered, prompt, quoted
from certigraph.adapters.protocols import Operator
from certigraph.nodes.special import specialised
from certigraph.nodes.specs import factory
from certigraph.state.endings import UnknownName
from certigraph.state.records import Verdict
from certigraph.state.sdp import ValidateView

MOST_SHOWN = 10
"""Conditions of the tail shown at once: deeper cascades are certified in two steps."""


class Holds(BaseModel):
    """The model's answer: a short reason first, then the count it supports."""

    reason: Annotated[str, Cut(300)]
    holds: int = Field(ge=0, le=MOST_SHOWN, strict=True)


@specialised
async def validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the verdict."""
    tail = state["tail"][:MOST_SHOWN]
    instruction = INSTRUCTION.format(
        task=state["task"].goal,
        observation=quoted(state["observation"].text),
        conditions=numbered(p.text for p in tail),
    )
    answer = await ask(prompt(runtime, instruction), Holds, role="validator", runtime=runtime)
    return {"verdict": Verdict(depth=min(answer.holds, len(tail)), reason=answer.reason)}


async def always_pass(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Certify the target whatever the world shows (the paper's ablation of Validate, section 4.3)."""
    return {"verdict": Verdict(depth=1, reason="always_pass")}


@factory
def capped(validate: Operator = validate, *, depth: int = 1) -> Operator:
    """A validator whose cascades are cut to `depth` predicates (the paper's ablation of cascade, section 4.3).

    Raises:
        UnknownName: the depth is no whole number from 1.
    """
    if not isinstance(depth, int) or depth < 1:
        raise UnknownName(f"capped(depth={depth!r}): a depth is a whole number from 1, as in validate=capped:depth=1")

    async def capped_validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
        update = await validate(state, runtime)
        verdict: Verdict = update["verdict"]
        return {**update, "verdict": verdict.model_copy(update={"depth": min(verdict.depth, depth)})}

    return capped_validate


INSTRUCTION = """\
Task: {task}

After the last action the world shows:
{observation}

Conditions, in order:
{conditions}

Count how many of them hold now, from the first one on, without a gap. If the first one does not hold, the count is 0.
"""
