"""Plan and replan one sub-task, or a whole task (TDP section 3.3)."""

from typing import Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import listed, prompt, quoted
from certigraph.nodes.decide import MOST_VIEW
from certigraph.nodes.special import specialised
from certigraph.state.subtask import PlanView, ReplanView


class Plan(BaseModel):
    """The model's answer."""

    steps: list[str] = Field(min_length=1)


@specialised
async def plan(state: PlanView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask for the steps of a sub-task."""
    question = f"{state['assignment']}\n{listed(state['known'])}\n{quoted(state['evidence'].view, MOST_VIEW)}"
    answer = await ask(prompt(runtime, question), Plan, role="planner", runtime=runtime)
    return {"outline": tuple(answer.steps)}


@specialised
async def replan(state: ReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask for other steps."""
    question = f"{state['assignment']}\n{listed(state['known'])}\n{state['reason']}"
    answer = await ask(prompt(runtime, question), Plan, role="planner", runtime=runtime)
    return {"outline": tuple(answer.steps)}
