"""Decompose: the Supervisor's task graph (TDP section 3.2)."""

from functools import lru_cache
from typing import Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, create_model

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.bounds import at_most
from certigraph.adapters.context import Context
from certigraph.adapters.prompting import clipped, quoted
from certigraph.nodes.dag_forms import MOST_FLAW, Subtask, asked, nodes_of, subtask_form
from certigraph.nodes.situation import MOST_VIEW
from certigraph.nodes.special import specialised
from certigraph.state.dag import Dag, Node
from certigraph.state.mending import flaws, mended
from certigraph.state.tdp import DecomposeView

ASKED_AGAIN = 2
"""How often a model that gave no task graph is asked for another, before what it gave last is mended."""


class Subtasks(BaseModel):
    """The model's answer."""

    nodes: list[Subtask]


@specialised
async def decompose(state: DecomposeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the sub-tasks and what each needs; what is no task graph is refused, at last mended by rule."""
    task, most = state["task"], limits_of(state["task"], runtime).nodes
    said = await asked(
        QUESTION.format(task=task.goal, view=quoted(state["evidence"].view, MOST_VIEW), most=most),
        _form(most),
        lambda answer: flaws(nodes_of(answer.nodes), most),
        again=ASKED_AGAIN,
        runtime=runtime,
    )
    made = mended(nodes_of(said.answer.nodes), goal=task.goal, most=most)
    return {"dag": Dag(nodes=made.nodes), "notes": (*said.notes, *(clipped(note, MOST_FLAW) for note in made.notes))}


async def undivided(state: DecomposeView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Make the task its only sub-task: what decomposing contributes, by leaving it out."""
    return {"dag": Dag(nodes=(Node(id="task", task=state["task"].goal),)), "notes": ()}


@lru_cache(maxsize=16)
def _form(most: int) -> type[Subtasks]:
    ids = [f"n{number}" for number in range(1, most + 1)]
    parts: dict[str, Any] = {"nodes": (at_most(most, subtask_form(ids, ids), least=1), ...)}
    return create_model("Subtasks", __base__=Subtasks, **parts)


QUESTION = """\
The world now:
{view}

Divide the task below into sub-tasks: as few as will do, at most {most}. Each is for somebody who knows nothing but its
text and the results of those it needs, so its text repeats the names, places, dates and numbers that it is about.
`needs`: ids of the sub-tasks whose results it uses, none where it can begin at once. The last one settles the task.

Task: {task}
"""
