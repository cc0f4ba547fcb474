"""STEP's Evaluator before an action: does a rule of earlier episodes forbid it? (Section 3, Algorithm 1, line 14.)"""

from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel

from certigraph.adapters.bounds import Cut
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import numbered, prompt
from certigraph.nodes.special import specialised
from certigraph.state.step import AlignView, Approval


class Ruling(BaseModel):
    """The model's answer."""

    reason: Annotated[str, Cut(160)]
    forbidden: bool


@specialised
async def align(state: AlignView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model whether a rule forbids the action; by the rules alone, not by its own view of what is useful."""
    question = QUESTION.format(rules=numbered(state["rules"]), subtask=state["subtask"], action=state["action"].text)
    answer = await ask(prompt(runtime, question), Ruling, role="validator", runtime=runtime)
    return {"approval": Approval(approved=not answer.forbidden, reason=answer.reason if answer.forbidden else "")}


QUESTION = """\
Rules, each learnt from an episode that failed:
{rules}

Work at hand: {subtask}
Action that is considered: {action}

Does one of the rules speak of exactly this action and say that it does not help here? Judge by the rules alone. A rule
about focusing on one thing forbids focusing on that thing and nothing else.
"""
