"""Operators that plan and supervise a sub-task (TDP section 3.3), and the one-time plan of plan-and-solve.

Plan-and-Act and plan-and-solve use the same prompts and answer schemas for a complete task.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.benchmarks import benchmark_of, context_of, limits_of
from certigraph.adapters.models.calls import ask
from certigraph.adapters.models.prompts import (
    build_prompt,
    bullet_list,
    format_turns,
    numbered_list,
    quote,
    unquote_line,
)
from certigraph.adapters.models.schemas import Bounded, Truncated, bounded_list
from certigraph.adapters.protocols import Context
from certigraph.nodes import react
from certigraph.nodes.react import MAX_VIEW, format_transcript
from certigraph.nodes.slots import Slot, Update, prefer_benchmark_operator
from certigraph.state.records import Task
from certigraph.state.run import DecideView, OutlineView
from certigraph.state.tdp import (
    PlanView,
    Progress,
    SubtaskReplanView,
    SubtaskState,
    SuperviseView,
    execute_view,
    plan_view,
    subtask_replan_view,
    supervise_view,
)

# The slots of the graphs of a sub-task, of Plan-and-Act and of plan-and-solve.

DELIVER_GUIDANCE = "The world waits for what settles the task: hand it in."

OUTLINE_KEYS = {"outline": Sequence[str]}
"""Keys, with their types, that an operator which writes a plan must return."""


def _start_subtask(state: SubtaskState, update: Update, runtime: Runtime[Context]) -> Update:
    update = react.RESET.record(state, update, runtime)
    entry = context_of(runtime).entry
    position = {"known": entry.known if entry else (), "last": bool(entry and entry.last)}
    return {**update, **position, "outline": (), "progress": Progress(), "replanned": 0}


def _execute_view(state: SubtaskState) -> DecideView:
    """Return the Executor's view with the results of other sub-tasks as advice.

    The results are marked as quotations, because they may contain text from the world.
    """
    view, known = execute_view(state), state["known"]
    results = (f"Known from before:\n{quote(bullet_list(known))}",) if known else ()
    return {**view, "advice": (*results, *view["advice"])}


def _count_replan(state: SubtaskState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "replanned": state["replanned"] + 1}


def _require_delivery(state: SubtaskState, update: Update, runtime: Runtime[Context]) -> Update:
    """Keep the last sub-task open until the answer or result is handed in, if the task ends by handing one in."""
    progress: Progress = update["progress"]
    must_hand_in = state["last"] and _ends_by_delivery(state, runtime) and not state["observation"].done
    if must_hand_in and progress.status == "completed":
        progress = Progress(status="needs_more_steps", guidance=DELIVER_GUIDANCE)
    return {"progress": progress}


def _progress_at_end(state: SubtaskState, runtime: Runtime[Context]) -> Update | None:
    """Return the sub-task's progress without a model call if the world has ended; None if it has not.

    The sub-task is completed if the world signals success or accepted what was handed in; otherwise it failed.
    """
    observation = state["observation"]
    if not observation.done:
        return None
    completed = observation.solved or (observation.accepted and _ends_by_delivery(state, runtime))
    return {"progress": Progress(status="completed" if completed else "failed", reason=observation.text)}


def _ends_by_delivery(state: SubtaskState, runtime: Runtime[Context]) -> bool:
    benchmark = benchmark_of(state["task"], runtime)
    return benchmark.answers or benchmark.delivers


RESET = react.RESET._replace(record=_start_subtask)
PLAN = Slot("plan", OUTLINE_KEYS, plan_view)
EXECUTE = react.DECIDE._replace(name="execute", view=_execute_view)
SUPERVISE = Slot(
    "supervise",
    {"progress": Progress},
    supervise_view,
    _require_delivery,
    _progress_at_end,
)
REPLAN = Slot("replan", OUTLINE_KEYS, subtask_replan_view, _count_replan, react.require_steps)


# Plan: write the steps of a sub-task, and replan what is left of it (TDP section 3.3).


class Plan(BaseModel):
    """Answer schema for a plan: its steps in the order in which they are to be taken."""

    steps: list[str]


@prefer_benchmark_operator
async def plan(state: PlanView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the steps of a sub-task, given its specification and the results that it needs."""
    request = format_assignment(state) + PLAN_QUESTION.format(
        view=quote(state["evidence"].view, MAX_VIEW),
        most=limits_of(state["task"], runtime).plan,
        handing=_delivery_instruction(state["task"], runtime),
    )
    return await _ask_outline(request, state["task"], runtime)


# Not @prefer_benchmark_operator: the `replan` of benchmarks is SDP's, which reads another state.
async def replan(state: SubtaskReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model to replan what is left of a sub-task, given the actions so far and the world's answers."""
    request = format_assignment(state) + REPLAN_QUESTION.format(
        trace=format_trace(state, runtime),
        outline=numbered_list(state["outline"]),
        view=quote(state["evidence"].view, MAX_VIEW),
        reason=f"What speaks against the plan: {state['reason']}\n" if state["reason"] else "",
        most=limits_of(state["task"], runtime).plan,
        handing=_delivery_instruction(state["task"], runtime),
    )
    return await _ask_outline(request, state["task"], runtime)


def format_assignment(state: PlanView) -> str:
    """Format the beginning of all prompts about a sub-task: its specification and the results of earlier sub-tasks."""
    known = f"Known from before:\n{quote(bullet_list(state['known']))}\n\n" if state["known"] else ""
    return f"Assignment: {state['assignment']}\n\n{known}"


def format_trace(state: SubtaskReplanView | SuperviseView, runtime: Runtime[Context]) -> str:
    """Format the turns (actions and observations) of a sub-task that its memory leaves visible, then its belief.

    Turns beyond `Limits.context` characters are dropped, oldest first.
    """
    limits, turns = limits_of(state["task"], runtime), state["turns"]
    if benchmark_of(state["task"], runtime).answers:
        trace = format_transcript(turns, limits) or "(nothing)"
    else:
        trace = format_turns(turns, most=len(turns), characters=limits.excerpt, within=limits.context)
    notes = f"\n\nNotes from before:\n{quote(state['belief'].text)}" if state["belief"].text else ""
    return quote(trace, limits.context) + notes


async def _ask_outline(request: str, task: Task, runtime: Runtime[Context]) -> dict[str, Any]:
    maximum = limits_of(task, runtime).plan
    answer = await ask(build_prompt(runtime, request), steps_form(maximum), role="planner", runtime=runtime)
    return {"outline": to_outline(answer.steps, maximum)}


@lru_cache(maxsize=16)
def steps_form(most: int) -> type[Plan]:
    """Create the answer schema for a plan of 1 to `most` steps. Longer plans are parsed too; `to_outline` cuts them."""
    steps = bounded_list(most, Annotated[str, Field(min_length=1), Bounded(120)], least=1)
    return create_model("Plan", __base__=Plan, steps=(Annotated[steps, Field(min_length=1)], ...))


def to_outline(steps: Sequence[str], most: int) -> tuple[str, ...]:
    """Return the first `most` steps, followed by a note for the executor if there were more."""
    kept = tuple(map(unquote_line, steps[:most]))
    return (*kept, CUT_NOTE.format(most=most)) if len(steps) > most else kept


def _delivery_instruction(task: Task, runtime: Runtime[Context]) -> str:
    """Return the part of the prompt that says what ends the work on a sub-task: the Planner does not see the task."""
    benchmark = benchmark_of(task, runtime)
    if benchmark.answers:
        return "\nThe last step is finish[...]: it hands in the answer to the assignment, nothing larger."
    if benchmark.delivers:
        return "\nDeliver nothing that the assignment does not ask for: a delivery ends the work on it."
    return ""


CUT_NOTE = "(the plan was cut after {most} steps; find the rest of the way without it)"

PLAN_QUESTION = """\
The world now:
{view}

Plan how to carry out this assignment, no more: short steps in their order, each one action or a few, as few as will do
and at most {most}. What is known from before needs no step.{handing}
"""

# Parts that only grow come before parts that change every time, so that prefix caches hit.
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


# Outline: write the complete plan once, before the first action (plan-and-solve).


@prefer_benchmark_operator
async def outline(state: OutlineView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model, once, for the steps of the complete task (plan-and-solve)."""
    request = OUTLINE_QUESTION.format(task=state["task"].goal, view=quote(state["evidence"].view, MAX_VIEW))
    maximum = limits_of(state["task"], runtime).plan
    answer = await ask(build_prompt(runtime, request), steps_form(maximum), role="planner", runtime=runtime)
    steps = to_outline(answer.steps, maximum)
    return {"outline": tuple(f"Plan, step {n}: {step}" for n, step in enumerate(steps, 1))}


OUTLINE_QUESTION = """\
Task: {task}

The world now:
{view}

Understand the task, then write the plan that solves it: short steps, each one action or a few, in their order.
"""


# Supervise: judge the progress of a sub-task after every action (TDP section 3.2).

MAX_RESULT = 600
"""Maximum number of characters of a sub-task's result. Sub-tasks that depend on the result see all of it."""


class SupervisorJudgement(BaseModel):
    """The model's answer. It is asked for after every action: what does not apply need not be written."""

    reason: Annotated[str, Truncated(160)]
    status: Literal["needs_more_steps", "completed", "failed"]
    off_plan: bool = False
    guidance: Annotated[str, Truncated(160)] = ""
    result: Annotated[str, Truncated(MAX_RESULT)] = ""


@prefer_benchmark_operator
async def supervise(state: SuperviseView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model whether the sub-task is completed, failed or continues, and whether its plan still fits."""
    request = format_assignment(state) + SUPERVISE_QUESTION.format(
        outline=numbered_list(state["outline"]),
        trace=format_trace(state, runtime),
        view=quote(state["evidence"].view, MAX_VIEW),
    )
    answer = await ask(build_prompt(runtime, request), SupervisorJudgement, role="validator", runtime=runtime)
    # A sub-task that is not completed has a reason but no result, because others would build on the result.
    texts = {"result": unquote_line(answer.result) if answer.status == "completed" else ""}
    texts |= {"reason": unquote_line(answer.reason), "guidance": unquote_line(answer.guidance)}
    return {"progress": Progress(status=answer.status, off_plan=answer.off_plan, **texts)}


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
