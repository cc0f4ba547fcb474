"""Operators that plan, carry out and supervise a sub-task."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.benchmarks import benchmark_of, context_of, limits_of
from certigraph.adapters.models.calls import ask, bullet_list, numbered, prompt, quoted, shown, unquoted
from certigraph.adapters.models.schemas import Cut, Within, at_most
from certigraph.adapters.protocols import Context
from certigraph.nodes import react
from certigraph.nodes.react import MOST_VIEW, transcript
from certigraph.nodes.slots import Slot, Update, specialised
from certigraph.state.records import Task
from certigraph.state.run import DecideView, OutlineView
from certigraph.state.tdp import (
    PlanView,
    Progress,
    ReplanView,
    SubtaskState,
    SuperviseView,
    execute_view,
    plan_view,
    replan_view,
    supervise_view,
)

# The slots of a sub-task's graph, of Plan-and-Act's and of the one-shot plan's.

HAND_IN = "The world waits for what settles the task: hand it in."

OUTLINED = frozenset({"outline"})


def _begun(state: SubtaskState, update: Update, runtime: Runtime[Context]) -> Update:
    update = react.RESET.record(state, update, runtime)
    entry = context_of(runtime).entry
    given = {"known": entry.known if entry else (), "last": bool(entry and entry.last)}
    return {**update, **given, "outline": (), "progress": Progress(), "replanned": 0}


def _execute_view(state: SubtaskState) -> DecideView:
    """What the Executor reads; what other sub-tasks came to is quoted, for it may be the world's own words."""
    seen, known = execute_view(state), state["known"]
    told = (f"Known from before:\n{quoted(bullet_list(known))}",) if known else ()
    return {**seen, "advice": (*told, *seen["advice"])}


def _again(state: SubtaskState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "replanned": state["replanned"] + 1}


def _settled(state: SubtaskState, update: Update, runtime: Runtime[Context]) -> Update:
    """Where the task is settled by handing something in, its goal is completed by that and by nothing said of it."""
    progress: Progress = update["progress"]
    waits = state["last"] and _hands_in(state, runtime) and not state["observation"].done
    if waits and progress.status == "completed":
        progress = Progress(status="needs_more_steps", guidance=HAND_IN)
    return {"progress": progress}


def _world_ended(state: SubtaskState, runtime: Runtime[Context]) -> Update | None:
    """What ended the world needs no judgement: it was handed in, or the world says itself that it is solved."""
    seen = state["observation"]
    if not seen.done:
        return None
    completed = seen.solved or (seen.accepted and _hands_in(state, runtime))
    return {"progress": Progress(status="completed" if completed else "failed", reason=seen.text)}


def _hands_in(state: SubtaskState, runtime: Runtime[Context]) -> bool:
    benchmark = benchmark_of(state["task"], runtime)
    return getattr(benchmark, "answers", False) or getattr(benchmark, "delivers", False)


RESET = react.RESET._replace(record=_begun)
PLAN = Slot("plan", OUTLINED, plan_view)
EXECUTE = react.DECIDE._replace(name="execute", view=_execute_view)
SUPERVISE = Slot(
    "supervise", frozenset({"progress"}), supervise_view, _settled, _world_ended, types={"progress": Progress}
)
REPLAN = Slot("replan", OUTLINED, replan_view, _again, react.require_steps)


# Plan a sub-task, and plan what is left of it anew (TDP section 3.3).
#
# Plan-and-Act and the one-shot plan ask the same of a whole task.


class Plan(BaseModel):
    """The model's answer: steps in the order in which they are to be taken."""

    steps: list[str]


@specialised
async def plan(state: PlanView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the steps of a sub-task, from its specification and what it builds on."""
    question = assigned(state) + PLAN_QUESTION.format(
        view=quoted(state["evidence"].view, MOST_VIEW),
        most=limits_of(state["task"], runtime).plan,
        handing=_handing_in(state["task"], runtime),
    )
    return await _outlined(question, state["task"], runtime)


# not @specialised: what benchmarks call replan is SDP's, which reads another state
async def replan(state: ReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the rest of the plan, after what was done for the sub-task and what the world answered."""
    question = assigned(state) + REPLAN_QUESTION.format(
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
    known = f"Known from before:\n{quoted(bullet_list(state['known']))}\n\n" if state["known"] else ""
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

PLAN_QUESTION = """\
The world now:
{view}

Plan how to carry out this assignment, no more: short steps in their order, each one action or a few, as few as will do
and at most {most}. What is known from before needs no step.{handing}
"""

# What only grows comes before what changes every time, so that prefix caches hit.
REPLAN_QUESTION = """\
Done for it so far, with the world's answers:
{trace}

The plan until now:
{outline}

The world now:
{view}

{reason}Write what is left of the plan anew, by what was observed: short steps in their order, each one action or a few,
as few as will do and at most {most}. Leave out what is done, and go another way where one did not work.{handing}
"""


# Outline: the whole plan, written once before the first action (plan-and-solve).


@specialised
async def outline(state: OutlineView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the steps of the whole task."""
    question = OUTLINE_QUESTION.format(task=state["task"].goal, view=quoted(state["evidence"].view, MOST_VIEW))
    most = limits_of(state["task"], runtime).plan
    answer = await ask(prompt(runtime, question), steps_form(most), role="planner", runtime=runtime)
    steps = outline_of(answer.steps, most)
    return {"outline": tuple(f"Plan, step {n}: {step}" for n, step in enumerate(steps, 1))}


OUTLINE_QUESTION = """\
Task: {task}

The world now:
{view}

Understand the task, then write the plan that solves it: short steps, each one action or a few, in their order.
"""


# Supervise: after every action, how one sub-task stands (TDP section 3.2).

MOST_RESULT = 600
"""Characters of a result, of which a sub-task that needs several sees all."""


class Judgement(BaseModel):
    """The model's answer. It is asked for after every action: what does not apply need not be written."""

    reason: Annotated[str, Cut(160)]
    status: Literal["needs_more_steps", "completed", "failed"]
    off_plan: bool = False
    guidance: Annotated[str, Cut(160)] = ""
    result: Annotated[str, Cut(MOST_RESULT)] = ""


@specialised
async def supervise(state: SuperviseView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model whether the sub-task is completed, failed or goes on, and whether its plan still holds."""
    question = assigned(state) + SUPERVISE_QUESTION.format(
        outline=numbered(state["outline"]),
        trace=traced(state, runtime),
        view=quoted(state["evidence"].view, MOST_VIEW),
    )
    answer = await ask(prompt(runtime, question), Judgement, role="validator", runtime=runtime)
    # What is not completed has a reason to tell and no result: others would build on it.
    told = {"result": unquoted(answer.result) if answer.status == "completed" else ""}
    told |= {"reason": unquoted(answer.reason), "guidance": unquoted(answer.guidance)}
    return {"progress": Progress(status=answer.status, off_plan=answer.off_plan, **told)}


SUPERVISE_QUESTION = """\
Its plan:
{outline}

Done for it so far, with the world's answers:
{trace}

The world now:
{view}

How does the assignment stand after the latest answer?
reason: what that answer shows, in one short sentence.
status: completed once what was observed fulfils the assignment, failed if it cannot be fulfilled, else
needs_more_steps.
off_plan: true only if what was observed makes the plan impossible to go on with; else left out.
guidance: what to do next, in a few words; left out if completed.
result: if completed, what others must know of it, with names and figures copied as they stand; else left out.
"""
