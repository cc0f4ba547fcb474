"""STEP's Planner: the next subtask, or another way where the last one failed, with the insights that matter to it."""

from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.bounds import Cut, Within
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import listed, numbered, prompt, quoted, shown
from certigraph.nodes.situation import MOST_VIEW
from certigraph.nodes.special import specialised
from certigraph.state.step import PlannerView, Subtask


class Next(BaseModel):
    """The model's answer: why, what next, and the numbers of the insights that the Executor is to see."""

    rationale: Annotated[str, Cut(200)]
    subtask: Annotated[str, Field(min_length=1), Within(200)]
    insights: Annotated[list[int], Cut(6)]


@specialised
async def planner(state: PlannerView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the next subtask, or for a refinement of the one that failed (Algorithm 1, lines 5-10)."""
    question = QUESTION.format(
        task=state["task"].goal,
        strategy=numbered(state["strategy"]),
        insights=numbered(state["insights"]),
        done=listed(s.text for s in state["subtasks"] if s.status == "completed"),
        count=len(state["turns"]),
        turns=quoted(shown(state["turns"])),
        view=quoted(state["evidence"].view, MOST_VIEW),
        order=_order(state),
    )
    answer = await ask(prompt(runtime, question), Next, role="planner", runtime=runtime)
    relevant = (state["insights"][n - 1] for n in dict.fromkeys(answer.insights) if 0 < n <= len(state["insights"]))
    return {"subtask": Subtask(text=answer.subtask, insights=tuple(relevant))}


async def none(state: PlannerView, runtime: Runtime[Context]) -> dict[str, Any]:
    """No Planner: the Executor gets the task itself and all insights (the paper's ablation, section 4.2.3)."""
    return {"subtask": Subtask(text=state["task"].goal, insights=tuple(state["insights"]), whole=True)}


def _order(state: PlannerView) -> str:
    last = state["subtasks"][-1] if state["subtasks"] else None
    if last and last.status == "failed":
        return REFINE.format(subtask=last.text, reason=last.reason)
    return NEXT


QUESTION = """\
Task: {task}

Strategy that an earlier episode suggests:
{strategy}

Insights of earlier episodes:
{insights}

Subtasks completed in this episode:
{done}

Done so far ({count} actions), the latest with the world's answers:
{turns}

The world now:
{view}

{order}
Also give the numbers of the insights that matter for it, no others.
"""

NEXT = """\
Give the next subtask on the way to the task: one thing that a few actions can reach. Whoever carries it out sees this
subtask and not the task, so name the things and places that it is about."""

REFINE = """\
The subtask "{subtask}" failed: {reason}
Say in the rationale why, then give a smaller subtask or one that gets there by another way. Whoever carries it out
sees this subtask and not the task, so name the things and places that it is about."""
