"""Supervise: after every action, how one sub-task stands (TDP section 3.2)."""

from typing import Any, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel

from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import prompt, quoted, shown
from certigraph.nodes.special import specialised
from certigraph.state.subtask import Progress, SuperviseView


class Judgement(BaseModel):
    """The model's answer."""

    reason: str
    status: Literal["needs_more_steps", "completed", "failed"]
    off_plan: bool
    guidance: str
    result: str


@specialised
async def supervise(state: SuperviseView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model whether the sub-task is completed."""
    question = f"{state['assignment']}\n{quoted(shown(state['turns']))}"
    answer = await ask(prompt(runtime, question), Judgement, role="validator", runtime=runtime)
    return {"progress": Progress(**answer.model_dump())}
