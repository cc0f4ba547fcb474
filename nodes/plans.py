"""Operators that plan and supervise a sub-task (TDP section 3.3), and the one-time plan of plan-and-solve.

Plan-and-Act and plan-and-solve use the same prompts and answer schemas for a complete task.

Over tools `plan` and `supervise` ask the model only where the answer can change something. `plan_always` and
`supervise_always` are the paper's in every world.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.benchmarks import benchmark_of, context_of, limits_of
from certigraph.adapters.models.calls import ask, profile_of
from certigraph.adapters.models.prompts import (
    History,
    build_prompt,
    bullet_list,
    format_history,
    format_steps,
    format_view,
    format_world,
    numbered_list,
    paragraphs,
    quote,
    quote_history,
    unquote_line,
)
from certigraph.adapters.models.schemas import FirstReasoning, Reasoning, Requested, bounded_list
from certigraph.adapters.protocols import Context
from certigraph.nodes import react
from certigraph.nodes.own_tools import has_tools
from certigraph.nodes.slots import Slot, Update, asks_among_equals, prefer_benchmark_operator
from certigraph.state.records import Task
from certigraph.state.run import ANSWER_ACTIONS, DecideView, OutlineView, count_repeats, without_thoughts
from certigraph.state.subtask import (
    AssignmentView,
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
from certigraph.state.tools import ANSWER_ARGUMENT

# The slots of the graphs of a sub-task, of Plan-and-Act and of plan-and-solve.

DELIVER_GUIDANCE = "The world waits for what settles the task: hand it in."

FOUND_GUIDANCE = " What was found:\n{result}"
"""What is added to DELIVER_GUIDANCE if the supervisor gave a result, which would be lost otherwise."""

OUTLINE_KEYS = {"outline": Sequence[str]}
"""Keys, with their types, that an operator which writes a plan must return."""


def _start_subtask(state: SubtaskState, update: Update, runtime: Runtime[Context]) -> Update:
    update = react.RESET.record(state, update, runtime)
    entry = context_of(runtime).entry
    position = {"known": entry.known if entry else (), "last": bool(entry and entry.last)}
    size = {name: True for name in ("whole", "single") if entry and getattr(entry, name)}
    return {**update, **position, **size, "outline": (), "progress": Progress(), "replanned": 0}


def _execute_view(state: SubtaskState) -> DecideView:
    """Return the Executor's view with the results of other sub-tasks as advice.

    The results are marked as quotations, because they may contain text from the world.
    """
    view, known = execute_view(state), state["known"]
    results = (format_known(known),) if known else ()
    return {**view, "advice": (*results, *view["advice"]), "lasting": len(results) + view.get("lasting", 0)}


def _execute_replanned_view(state: SubtaskState) -> DecideView:
    """Return the Executor's view where a new plan comes after every action, so that no plan lasts."""
    view = _execute_view(state)
    return {**view, "lasting": view.get("lasting", 0) - len(state["outline"])}


def _count_replan(state: SubtaskState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "replanned": state["replanned"] + 1}


def _require_delivery(state: SubtaskState, update: Update, runtime: Runtime[Context]) -> Update:
    """Keep the last sub-task open until the answer or result is handed in, if the task ends by handing one in."""
    progress: Progress = update["progress"]
    must_hand_in = state["last"] and _ends_by_delivery(state, runtime) and not state["observation"].done
    if must_hand_in and progress.status == "completed":
        found = FOUND_GUIDANCE.format(result=quote(progress.result)) if progress.result else ""
        guidance = f"{DELIVER_GUIDANCE}{found}"
        done = max(0, len(state.get("outline", ())) - 1)  # all but what hands the result in
        progress = Progress(status="needs_more_steps", done=done, reason=progress.reason, guidance=guidance)
    return {"progress": progress}


def _evident_progress(state: SubtaskState, runtime: Runtime[Context]) -> Update | None:
    """Return the sub-task's progress where no model is needed to judge it; None where one is.

    If the world has ended, the sub-task is completed if the world signals success or accepted what was handed in;
    otherwise it failed. While the world only asks which of several equal things is meant, progress stays as it was.
    """
    observation = state["observation"]
    if not observation.done:
        before = state["progress"].model_copy(update={"off_plan": False})
        return {"progress": before} if asks_among_equals(observation) else None
    completed = observation.solved or (observation.accepted and _ends_by_delivery(state, runtime))
    return {"progress": Progress(status="completed" if completed else "failed", reason=observation.text)}


def _ends_by_delivery(state: SubtaskState, runtime: Runtime[Context]) -> bool:
    benchmark = benchmark_of(state["task"], runtime)
    return benchmark.answers or benchmark.delivers


RESET = react.RESET._replace(record=_start_subtask)
PLAN = Slot("plan", OUTLINE_KEYS, plan_view)
EXECUTE = react.DECIDE._replace(name="execute", view=_execute_view)
EXECUTE_REPLANNED = EXECUTE._replace(view=_execute_replanned_view)
SUPERVISE = Slot(
    "supervise",
    {"progress": Progress},
    supervise_view,
    _require_delivery,
    _evident_progress,
)
REPLAN = Slot("replan", OUTLINE_KEYS, subtask_replan_view, _count_replan, react.require_steps)


# Plan: write the steps of a sub-task, and replan what is left of it (TDP section 3.3).


class Plan(BaseModel):
    """Answer schema for a plan: its steps in the order in which they are to be taken."""

    reasoning: FirstReasoning = ""
    steps: list[str]


@prefer_benchmark_operator
async def plan(state: PlanView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the steps of a sub-task, given its specification and the results that it needs.

    Over tools no model is asked where one action is enough, or where the task was not divided: the plan is then empty.
    """
    if has_tools(benchmark_of(state["task"], runtime)) and (state["whole"] or state["single"]):
        return {"outline": ()}
    return await plan_always(state, runtime)


async def plan_always(state: PlanView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the steps of a sub-task, whatever its size and the world (TDP section 3.3)."""
    question = PLAN_QUESTION.format(
        most=limits_of(state["task"], runtime).plan, handing=_delivery_instruction(state["task"], runtime)
    )
    request = paragraphs(
        question,
        format_world(state["evidence"].view),
        format_assignment(state),
        format_steps(state["task"], runtime, state["steps"]),
        PLAN_CLOSING,
    )
    return await _ask_outline(request, state["task"], runtime)


# Not @prefer_benchmark_operator: the `replan` of benchmarks is SDP's, which reads another state.
async def replan(state: SubtaskReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model to replan what is left of a sub-task, given the actions so far and the world's answers."""
    profile = await profile_of("planner", runtime)
    question = REPLAN_QUESTION.format(
        most=limits_of(state["task"], runtime).plan, handing=_delivery_instruction(state["task"], runtime)
    )
    before = paragraphs(question, format_assignment(state))
    after = paragraphs(
        f"The plan until now:\n{numbered_list(state['outline'])}",
        format_view(state["evidence"].view, runtime, turns=state["turns"], profile=profile),
        f"What speaks against the plan:\n{quote(state['reason'])}" if state["reason"] else "",
        format_steps(state["task"], runtime, state["steps"]),
        REPLAN_CLOSING,
    )
    trace = await format_trace(state, before + after, "planner", runtime)
    request = paragraphs(before, f"{DONE_SO_FAR}{trace.text}", after)
    return await _ask_outline(request, state["task"], runtime, cut=trace.cut)


def format_assignment(state: AssignmentView) -> str:
    """Format what all prompts about a sub-task show: its specification and the results of earlier sub-tasks."""
    known = format_known(state["known"]) if state["known"] else ""
    return paragraphs(f"Assignment: {state['assignment']}", known)


def format_known(results: Sequence[str]) -> str:
    """Format the results of the sub-tasks that a sub-task needs, in the order in which they ran."""
    return f"{KNOWN_HEADING}:\n{quote(bullet_list(results))}"


KNOWN_HEADING = "Known from before, the latest last"


async def format_trace(
    state: SubtaskReplanView | SuperviseView, rest: str, role: str, runtime: Runtime[Context]
) -> History:
    """Format the turns (actions and observations) of a sub-task that its memory leaves visible, then its belief.

    All that fits into the model's window is shown (`format_history`). `rest` is everything else in the prompt.
    """
    notes = f"\n\nNotes from before:\n{quote(state['belief'].text)}" if state["belief"].text else ""
    whole = format_history(state["turns"], rest + notes, await profile_of(role, runtime))
    return History(quote_history(whole) + notes, whole.cut)


async def _ask_outline(
    request: str, task: Task, runtime: Runtime[Context], *, cut: Sequence[str] = ()
) -> dict[str, Any]:
    maximum = limits_of(task, runtime).plan
    prompt = build_prompt(runtime, request, role=PLANNER_ROLE, cut=cut)
    answer = await ask(prompt, steps_form(maximum), role="planner", runtime=runtime)
    return {"outline": to_outline(answer.steps, maximum)}


@lru_cache(maxsize=16)
def steps_form(most: int) -> type[Plan]:
    """Create the answer schema for a plan of 1 to `most` steps. Longer plans are parsed too; `to_outline` cuts them."""
    steps = bounded_list(most, Annotated[str, Field(min_length=1)], least=1)
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
    delivery = "\nDeliver nothing that the assignment does not ask for: a delivery ends the work on it."
    return (
        f"{delivery * benchmark.delivers}\nWhoever judges the work writes down what came of it: plan no step for that."
    )


CUT_NOTE = "(the plan was cut after {most} steps; find the rest of the way without it)"

PLANNER_ROLE = """\
You plan the work on one assignment in a world known by text alone. Whoever carries the plan out sees the assignment,
the plan, and what the world answers, and may have to choose each action from a list that you do not see: a step says
what is to be done, not how the action is worded. Plan what the assignment asks for and no more."""

DONE_SO_FAR = "Done for it so far, with the world's answers:\n"

PLAN_QUESTION = """\
Think first: what does the assignment ask for, what of it is known already, and what has to be found out or done? Then
give the steps in their order, at most {most}, each one action or a few. What is known already needs no
step.{handing}"""

PLAN_CLOSING = "Which steps fulfil the assignment?"

REPLAN_QUESTION = """\
Think first: what is done, and what did the answers show that the plan did not expect? Then give what is left of the
plan, changed by what was observed: the steps in their order, at most {most}, each one action or a few. Leave out what
is done, and go another way where one did not work.{handing}"""

REPLAN_CLOSING = "What is left of the plan?"


# Outline: write the complete plan once, before the first action (plan-and-solve).


@prefer_benchmark_operator
async def outline(state: OutlineView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model, once, for the steps of the complete task (plan-and-solve)."""
    used = format_steps(state["task"], runtime, state["steps"])
    world = format_world(state["evidence"].view)
    request = OUTLINE_QUESTION.format(task=state["task"].goal, world=world, used=used)
    maximum = limits_of(state["task"], runtime).plan
    answer = await ask(build_prompt(runtime, request), steps_form(maximum), role="planner", runtime=runtime)
    steps = to_outline(answer.steps, maximum)
    return {"outline": tuple(f"Plan, step {n}: {step}" for n, step in enumerate(steps, 1))}


OUTLINE_QUESTION = """\
Understand the task, then write the plan that solves it: short steps, each one action or a few, in their order.

Task: {task}

{world}
{used}
Which steps solve the task?
"""


# Supervise: judge the progress of a sub-task after every action (TDP section 3.2).
#
# An agent with tools hands in the result of its sub-task itself. The Supervisor then judges that result, and before
# only work that may have left its plan: it stands still, or takes more actions than the plan has steps.

LEAST_ACTIONS = 3
"""Number of actions over tools that a sub-task may take before the length of its plan counts."""

STANDSTILL = 2
"""Number of actions in a row that failed, or were equal and answered equally, after which work stands still."""


class ResultJudgement(BaseModel):
    """The model's answer about a result that was handed in over tools."""

    reason: Reasoning
    status: Literal["needs_more_steps", "completed", "failed"]
    guidance: Annotated[str, Requested] = ""


class SupervisorJudgement(BaseModel):
    """The model's answer. It is asked for after every action: what does not apply need not be written."""

    reason: Reasoning
    status: Literal["needs_more_steps", "completed", "failed"]
    off_plan: bool = False
    done: Annotated[int, Requested] = 0
    guidance: str = ""
    result: str = ""


@prefer_benchmark_operator
async def supervise(state: SuperviseView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model whether the sub-task is completed, failed or continues, and whether its plan still fits.

    Over tools the model is asked when the result of a part is handed in, and when the work may have left its plan. The
    result that was handed in is that of the sub-task.
    """
    if not has_tools(benchmark_of(state["task"], runtime)):
        return await supervise_always(state, runtime)
    if state["action"].kind in ANSWER_ACTIONS:
        return {"progress": await _judge_result(state, runtime)}
    if state["whole"] or not _may_have_left_plan(state):
        return {"progress": state["progress"].model_copy(update={"off_plan": False})}
    return {"progress": await _judge(state, runtime, JUDGE_ROLE)}


async def _judge_result(state: SuperviseView, runtime: Runtime[Context]) -> Progress:
    """Ask the model whether the result that was handed in completes the sub-task. It sees no thoughts and no plan."""
    before = paragraphs(RESULT_QUESTION, format_assignment(state))
    shown: SuperviseView = {**state, "turns": without_thoughts(state["turns"])}
    trace = await format_trace(shown, before + RESULT_CLOSING, "validator", runtime)
    request = paragraphs(before, f"{DONE_SO_FAR}{trace.text}", RESULT_CLOSING)
    prompt = build_prompt(runtime, request, role=JUDGE_ROLE, cut=trace.cut)
    answer = await ask(prompt, ResultJudgement, role="validator", runtime=runtime)
    result = str(state["action"].args.get(ANSWER_ARGUMENT, "")) if answer.status == "completed" else ""
    texts = {"reason": unquote_line(answer.reason), "guidance": unquote_line(answer.guidance)}
    return Progress(status=answer.status, done=state["progress"].done, result=result, **texts)


def _may_have_left_plan(state: SuperviseView) -> bool:
    if state["failures"] >= STANDSTILL or count_repeats(state["turns"]) >= STANDSTILL:
        return True
    planned = max(len(state["outline"]), LEAST_ACTIONS)
    return state["taken"] > planned and state["taken"] % planned == 1


async def supervise_always(state: SuperviseView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model after every action how the sub-task stands, whatever the world (TDP section 3.2)."""
    return {"progress": await _judge(state, runtime, SUPERVISOR_ROLE)}


async def _judge(state: SuperviseView, runtime: Runtime[Context], role: str) -> Progress:
    plan = f"Its plan:\n{numbered_list(state['outline'])}"
    before = paragraphs(SUPERVISE_QUESTION, format_assignment(state), plan)
    profile = await profile_of("validator", runtime)
    view = format_view(state["evidence"].view, runtime, turns=state["turns"], profile=profile)
    after = paragraphs(view, SUPERVISE_CLOSING)
    trace = await format_trace(state, before + after, "validator", runtime)
    request = paragraphs(before, f"{DONE_SO_FAR}{trace.text}", after)
    prompt = build_prompt(runtime, request, role=role, cut=trace.cut)
    answer = await ask(prompt, SupervisorJudgement, role="validator", runtime=runtime)
    # A sub-task that is not completed has a reason but no result, because others would build on the result.
    texts = {"result": unquote_line(answer.result) if answer.status == "completed" else ""}
    texts |= {"reason": unquote_line(answer.reason), "guidance": unquote_line(answer.guidance)}
    return Progress(status=answer.status, off_plan=answer.off_plan, done=answer.done, **texts)


SUPERVISOR_ROLE = """\
You watch the work on one assignment in a world known by text alone, after every action. Rely on what the world
answered, not on what an action was meant to do."""

JUDGE_ROLE = """\
You judge the work on one assignment of an agent that calls tools, when its result is handed in and when the work may
have left its plan. Rely on what the tools answered, not on what a call was meant to do."""

RESULT_QUESTION = """\
The latest action hands in the result of the assignment. What it says is all that others will know of the work.
reason: what the assignment asks for, and which answers bear out each part of the result.
status: completed if the answers bear the result out and nothing is missing that the assignment asks for; failed if they
show that the assignment cannot be fulfilled; else needs_more_steps.
guidance: if it needs more steps, what is missing or wrong; else empty.
"""

RESULT_CLOSING = "Is the assignment completed?"

SUPERVISE_QUESTION = """\
Say how the assignment stands after the latest answer.
reason: what that answer shows for the assignment.
status: completed once what was observed fulfils all that the assignment asks for, also where the plan has steps left
that are not needed any more; failed if it cannot be fulfilled; else needs_more_steps.
off_plan: true if the answers depart so far from what the plan expected that its next steps no longer lead to what the
assignment asks for: a step cannot be done, or it brought something else than what later steps build on. False if
completed, and for a detour, a delay, or a detail that the plan leaves room for.
done: how many steps of its plan, from the first on, are done or no longer needed.
guidance: what to do next, in general terms; empty if completed.
result: if completed, everything that others who build on it must know, with names, places and figures copied as they
stand; else empty.
"""

SUPERVISE_CLOSING = "How does the assignment stand after the latest answer?"
