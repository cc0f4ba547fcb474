"""Supervise: after every action, how one sub-task stands (TDP section 3.2)."""

from typing import Annotated, Any, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel

from certigraph.adapters.bounds import Cut
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import numbered, prompt, quoted, unquoted
from certigraph.nodes.plan import assigned, traced
from certigraph.nodes.situation import MOST_VIEW
from certigraph.nodes.special import specialised
from certigraph.state.subtask import Progress, SuperviseView

MOST_RESULT = 600
"""Characters of a result, of which a sub-task that needs several sees all."""


class Judgement(BaseModel):
    """The model's answer. It is asked for after every action: what does not apply need not be written."""

    reason: Annotated[str, Cut(160)]
    status: Literal["needs_more_steps", "completed", "failed"]
    off_plan: bool = False
    guidance: Annotated[str, Cut(160)] = ""
    result: Annotated[str, Cut(MOST_RESULT)] = ""


@specialised
async def supervise(state: SuperviseView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model whether the sub-task is completed, failed or goes on, and whether its plan still holds."""
    question = assigned(state) + QUESTION.format(
        outline=numbered(state["outline"]),
        trace=traced(state, runtime),
        view=quoted(state["evidence"].view, MOST_VIEW),
    )
    answer = await ask(prompt(runtime, question), Judgement, role="validator", runtime=runtime)
    # What is not completed has a reason to tell and no result: others would build on it.
    told = {"result": unquoted(answer.result) if answer.status == "completed" else ""}
    told |= {"reason": unquoted(answer.reason), "guidance": unquoted(answer.guidance)}
    return {"progress": Progress(status=answer.status, off_plan=answer.off_plan, **told)}


QUESTION = """\
Its plan:
{outline}

Done for it so far, with the world's answers:
{trace}

The world now:
{view}

How does the assignment stand after the latest answer?
reason: what that answer shows, in one short sentence.
status: completed once what was observed fulfils the assignment, failed if it cannot be fulfilled, else
needs_more_steps.
off_plan: true only if what was observed makes the plan impossible to go on with; else left out.
guidance: what to do next, in a few words; left out if completed.
result: if completed, what others must know of it, with names and figures copied as they stand; else left out.
"""
