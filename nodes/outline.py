"""Outline: the whole plan, written once before the first action (plan-and-solve)."""

from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import prompt, quoted
from certigraph.nodes.plan import outline_of, steps_form
from certigraph.nodes.situation import MOST_VIEW
from certigraph.nodes.special import specialised
from certigraph.state.acting import OutlineView


@specialised
async def outline(state: OutlineView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the steps of the whole task."""
    question = QUESTION.format(task=state["task"].goal, view=quoted(state["evidence"].view, MOST_VIEW))
    most = limits_of(state["task"], runtime).plan
    answer = await ask(prompt(runtime, question), steps_form(most), role="planner", runtime=runtime)
    steps = outline_of(answer.steps, most)
    return {"outline": tuple(f"Plan, step {n}: {step}" for n, step in enumerate(steps, 1))}


QUESTION = """\
Task: {task}

The world now:
{view}

Understand the task, then write the plan that solves it: short steps, each one action or a few, in their order.
"""
