"""STEP's Evaluator after an action: is the subtask completed?"""

from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel

from certigraph.adapters.bounds import Cut
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import prompt, quoted, shown
from certigraph.nodes.situation import MOST_VIEW
from certigraph.nodes.special import specialised
from certigraph.state.step import AssessView

TURNS = 4
"""Latest turns that the Evaluator sees."""


class Completion(BaseModel):
    """The model's answer."""

    reason: Annotated[str, Cut(160)]
    completed: bool


@specialised
async def assess(state: AssessView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model whether the subtask is completed, by what was done for it and what the world shows."""
    question = QUESTION.format(
        subtask=state["subtask"].text,
        count=len(state["turns"]),
        turns=quoted(shown(state["turns"], most=TURNS)),
        view=quoted(state["evidence"].view, MOST_VIEW),
    )
    answer = await ask(prompt(runtime, question), Completion, role="validator", runtime=runtime)
    changes = {"status": "completed", "reason": answer.reason} if answer.completed else {}
    return {"subtask": state["subtask"].model_copy(update=changes)}


QUESTION = """\
Subtask: {subtask}

Done for it ({count} actions), the latest with the world's answers:
{turns}

The world now:
{view}

Is the subtask completed?
"""
