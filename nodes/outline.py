"""Outline: the whole plan, written once before the first action (plan-and-solve)."""

from typing import Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import prompt, quoted
from certigraph.nodes.situation import MOST_VIEW
from certigraph.nodes.special import specialised
from certigraph.state.acting import OutlineView


class Steps(BaseModel):
    """The model's answer: steps in the order in which they are to be taken."""

    steps: list[str] = Field(min_length=1, max_length=12)


@specialised
async def outline(state: OutlineView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the steps of the whole task."""
    question = QUESTION.format(task=state["task"].goal, view=quoted(state["evidence"].view, MOST_VIEW))
    answer = await ask(prompt(runtime, question), Steps, role="planner", runtime=runtime)
    return {"outline": tuple(f"Plan, step {n}: {step[:120]}" for n, step in enumerate(answer.steps, 1))}


QUESTION = """\
Task: {task}

The world now:
{view}

Understand the task, then write the plan that solves it: short steps, each one action or a few, in their order.
"""
