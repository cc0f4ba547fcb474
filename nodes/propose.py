"""Propose (SDP Eq. 1): the plan of predicates from the certified state to the goal, without any observation."""

from functools import lru_cache
from typing import Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, create_model

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.bounds import at_most
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import numbered, prompt
from certigraph.nodes.special import specialised
from certigraph.state.records import Predicate, Task
from certigraph.state.sdp import ProposeView, plan_of


class Conditions(BaseModel):
    """The model's answer: conditions in the order in which they should come true, the goal last."""

    conditions: list[str]


@specialised
async def propose(state: ProposeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the plan. An empty plan means giving up."""
    goal = state["task"].condition or state["task"].goal
    instruction = INSTRUCTION.format(
        task=state["task"].goal, certified=numbered(p.text for p in state["certified"].predicates), goal=goal
    )
    return {"plan": await planned(instruction, state["task"], runtime)}


async def planned(instruction: str, task: Task, runtime: Runtime[Context]) -> list[Predicate]:
    """The plan that a model gives: its non-empty conditions, and the task's own goal at the end; no condition, no plan.

    The goal is given with the task (Definition 1): a model that words it too weakly must not decide what is reached.
    """
    most = limits_of(task, runtime).plan
    answer = await ask(prompt(runtime, instruction), conditions_form(most), role="planner", runtime=runtime)
    texts = [stripped for text in answer.conditions if (stripped := text.strip())]
    return plan_of(texts, Predicate(text=task.condition or task.goal, kind="goal"), most)


@lru_cache(maxsize=16)
def conditions_form(most: int) -> type[Conditions]:
    """The form of an answer with `most` conditions; of a longer one more are read, so that it is known to be longer."""
    return create_model("Conditions", __base__=Conditions, conditions=(at_most(most, str), ...))


INSTRUCTION = """\
Task: {task}

Certified so far:
{certified}

List the conditions that lead from here to the goal, in the order in which they should come true. Make each one an
observable change that a single action can bring about. The last condition is the goal itself:
{goal}
"""
