"""Decompose: the Supervisor's task graph (TDP section 3.2)."""

from typing import Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import prompt, quoted
from certigraph.nodes.decide import MOST_VIEW
from certigraph.nodes.special import specialised
from certigraph.state.dag import Dag, Node
from certigraph.state.tdp import DecomposeView


class Subtask(BaseModel):
    """A node as the model gives it."""

    id: str = Field(max_length=30)
    task: str = Field(max_length=300)
    needs: list[str]


class Subtasks(BaseModel):
    """The model's answer."""

    nodes: list[Subtask]


@specialised
async def decompose(state: DecomposeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the sub-tasks of the task and what each needs."""
    question = QUESTION.format(task=state["task"].goal, view=quoted(state["evidence"].view, MOST_VIEW))
    answer = await ask(prompt(runtime, question), Subtasks, role="planner", runtime=runtime)
    return {"dag": Dag(nodes=tuple(Node(**n.model_dump()) for n in answer.nodes)), "notes": ()}


QUESTION = """\
Task: {task}

The world now:
{view}

Divide the task into sub-tasks.
"""
