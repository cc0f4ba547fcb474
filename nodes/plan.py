"""Plan a sub-task, and plan what is left of it anew (TDP section 3.3).

Plan-and-Act and the one-shot plan ask the same of a whole task.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.benchmarks import benchmark_of, limits_of
from certigraph.adapters.bounds import Within, at_most
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import listed, numbered, prompt, quoted, shown, unquoted
from certigraph.nodes.situation import MOST_VIEW
from certigraph.nodes.special import specialised
from certigraph.nodes.transcript import transcript
from certigraph.state.records import Task
from certigraph.state.subtask import PlanView, ReplanView, SuperviseView


class Plan(BaseModel):
    """The model's answer: steps in the order in which they are to be taken."""

    steps: list[str]


@specialised
async def plan(state: PlanView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the steps of a sub-task, from its specification and what it builds on."""
    question = assigned(state) + PLAN.format(
        view=quoted(state["evidence"].view, MOST_VIEW),
        most=limits_of(state["task"], runtime).plan,
        handing=_handing_in(state["task"], runtime),
    )
    return await _outlined(question, state["task"], runtime)


# not @specialised: what benchmarks call replan is SDP's, which reads another state
async def replan(state: ReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the rest of the plan, after what was done for the sub-task and what the world answered."""
    question = assigned(state) + REPLAN.format(
        trace=traced(state, runtime),
        outline=numbered(state["outline"]),
        view=quoted(state["evidence"].view, MOST_VIEW),
        reason=f"What speaks against the plan: {state['reason']}\n" if state["reason"] else "",
        most=limits_of(state["task"], runtime).plan,
        handing=_handing_in(state["task"], runtime),
    )
    return await _outlined(question, state["task"], runtime)


def assigned(state: PlanView) -> str:
    """How the prompts about a sub-task begin: what never changes while it is worked on."""
    known = f"Known from before:\n{quoted(listed(state['known']))}\n\n" if state["known"] else ""
    return f"Assignment: {state['assignment']}\n\n{known}"


def traced(state: ReplanView | SuperviseView, runtime: Runtime[Context]) -> str:
    """What was done for a sub-task, all that its memory leaves; beyond `limits.context` characters without the oldest.

    What its memory holds besides, if it has one, stands below.
    """
    limits, turns = limits_of(state["task"], runtime), state["turns"]
    if getattr(benchmark_of(state["task"], runtime), "answers", False):
        told = transcript(turns, limits) or "(nothing)"
    else:
        told = shown(turns, most=len(turns), characters=limits.excerpt, within=limits.context)
    notes = f"\n\nNotes from before:\n{quoted(state['belief'].text)}" if state["belief"].text else ""
    return quoted(told, limits.context) + notes


async def _outlined(question: str, task: Task, runtime: Runtime[Context]) -> dict[str, Any]:
    most = limits_of(task, runtime).plan
    answer = await ask(prompt(runtime, question), steps_form(most), role="planner", runtime=runtime)
    return {"outline": outline_of(answer.steps, most)}


@lru_cache(maxsize=16)
def steps_form(most: int) -> type[Plan]:
    """The form of an answer with 1 to `most` steps; of a longer one more are read."""
    steps = at_most(most, Annotated[str, Field(min_length=1), Within(120)], least=1)
    return create_model("Plan", __base__=Plan, steps=(Annotated[steps, Field(min_length=1)], ...))


def outline_of(steps: Sequence[str], most: int) -> tuple[str, ...]:
    """At most `most` steps, with a note for whoever follows them where there were more."""
    kept = tuple(map(unquoted, steps[:most]))
    return (*kept, CUT.format(most=most)) if len(steps) > most else kept


def _handing_in(task: Task, runtime: Runtime[Context]) -> str:
    """What ends the work on an assignment, of whose place in a whole task the Planner knows nothing."""
    benchmark = benchmark_of(task, runtime)
    if getattr(benchmark, "answers", False):
        return "\nThe last step is finish[...]: it hands in the answer to the assignment, nothing larger."
    if getattr(benchmark, "delivers", False):
        return "\nDeliver nothing that the assignment does not ask for: a delivery ends the work on it."
    return ""


CUT = "(the plan was cut after {most} steps; find the rest of the way without it)"

PLAN = """\
The world now:
{view}

Plan how to carry out this assignment, no more: short steps in their order, each one action or a few, as few as will do
and at most {most}. What is known from before needs no step.{handing}
"""

# What only grows comes before what changes every time, so that prefix caches hit.
REPLAN = """\
Done for it so far, with the world's answers:
{trace}

The plan until now:
{outline}

The world now:
{view}

{reason}Write what is left of the plan anew, by what was observed: short steps in their order, each one action or a few,
as few as will do and at most {most}. Leave out what is done, and go another way where one did not work.{handing}
"""
