"""Propose (SDP Eq. 1): the plan of predicates from the certified state to the goal, without any observation."""

from typing import Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import numbered, prompt
from certigraph.nodes.special import specialised
from certigraph.state.records import Predicate, Task
from certigraph.state.sdp import ProposeView


class Conditions(BaseModel):
    """The model's answer: conditions in the order in which they should come true, the goal last."""

    conditions: list[str] = Field(max_length=40)


@specialised
async def propose(state: ProposeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the plan. An empty plan means giving up."""
    goal = state["task"].condition or state["task"].goal
    instruction = INSTRUCTION.format(
        task=state["task"].goal, certified=numbered(p.text for p in state["certified"].predicates), goal=goal
    )
    answer = await ask(prompt(runtime, instruction), Conditions, role="planner", runtime=runtime)
    return {"plan": as_plan(answer, state["task"])}


def as_plan(answer: Conditions, task: Task) -> list[Predicate]:
    """The non-empty conditions as predicates, and the task's own goal at the end; no condition, no plan.

    The goal is given with the task (Definition 1): a model that words it too weakly must not decide what is reached.
    """
    goal = task.condition or task.goal
    texts = [stripped for text in answer.conditions if (stripped := text.strip()) and stripped != goal]
    if not any(text.strip() for text in answer.conditions):
        return []
    return [*(Predicate(text=text) for text in texts), Predicate(text=goal, kind="goal")]


INSTRUCTION = """\
Task: {task}

Certified so far:
{certified}

List the conditions that lead from here to the goal, in the order in which they should come true. Make each one an
observable change that a single action can bring about. The last condition is the goal itself:
{goal}
"""
