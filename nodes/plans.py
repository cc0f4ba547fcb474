"""Operators that plan, carry out and supervise a sub-task (TDP section 3.3), and the one-time plan of plan-and-solve.

Plan-and-Act and plan-and-solve use the same prompts and answer schemas for a complete task.

The defaults ask the model only where its answer can change something: the Executor gives several actions at once and
says how its assignment stands, and the Supervisor judges what it says, and work that may have left its plan. The
paper's are `plan_always`, `execute` and `supervise_always`.
"""

from collections.abc import Sequence
from functools import lru_cache, partial
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
from certigraph.adapters.protocols import Context, Operator
from certigraph.nodes import react
from certigraph.nodes.chains import MAX_AHEAD
from certigraph.nodes.operators import call_operator
from certigraph.nodes.own_tools import has_tools
from certigraph.nodes.slots import Slot, Update, cut_chain, factory, prefer_benchmark_operator
from certigraph.nodes.step import choose_actions
from certigraph.state.records import Task
from certigraph.state.run import ANSWER_ACTIONS, OutlineView, count_repeats, without_thoughts
from certigraph.state.step import REPORT, is_handed_back, standing_of
from certigraph.state.subtask import (
    AssignmentView,
    ExecuteView,
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

MAX_DENIED = 3
"""Number of times in a row that the Executor may hand a sub-task back and has to go on, after which it fails."""

OUTLINE_KEYS = {"outline": Sequence[str]}
"""Keys, with their types, that an operator which writes a plan must return."""


def _start_subtask(state: SubtaskState, update: Update, runtime: Runtime[Context]) -> Update:
    update = react.RESET.record(state, update, runtime)
    entry = context_of(runtime).entry
    position = {"known": entry.known if entry else (), "last": bool(entry and entry.last)}
    size = {name: True for name in ("whole", "single") if entry and getattr(entry, name)}
    denied = {"denied": 0} if state.get("denied") else {}
    return {**update, **position, **size, **denied, "outline": (), "progress": Progress(), "replanned": 0}


def _execute_view(state: SubtaskState) -> ExecuteView:
    """Return the Executor's view with the results of other sub-tasks as advice.

    The results are marked as quotations, because they may contain text from the world.
    """
    view, known = execute_view(state), state["known"]
    results = (format_known(known),) if known else ()
    view["advice"], view["lasting"] = (*results, *view["advice"]), len(results) + view.get("lasting", 0)
    return view


def _execute_replanned_view(state: SubtaskState) -> ExecuteView:
    """Return the Executor's view where a new plan comes after every action, so that no plan lasts."""
    view = _execute_view(state)
    view["lasting"] = view.get("lasting", 0) - len(state["outline"])
    return view


def _record_replan(state: SubtaskState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "replanned": state["replanned"] + 1, **cut_chain(state)}


def _record_progress(state: SubtaskState, update: Update, runtime: Runtime[Context]) -> Update:
    """Record how a sub-task stands. It fails if the Executor keeps handing it back and it is judged to go on."""
    progress: Progress = _require_delivery(state, update, runtime)["progress"]
    denied = state.get("denied", 0)
    if progress.status != "needs_more_steps" or not is_handed_back(state["action"]):
        return {"progress": progress, **({"denied": 0} if denied else {})}
    if denied + 1 >= MAX_DENIED:
        reason = f"it was handed back {MAX_DENIED} times and judged otherwise: {progress.reason or progress.guidance}"
        progress = progress.model_copy(update={"status": "failed", "reason": reason})
    return {"progress": progress, "denied": denied + 1}


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
    """Return the sub-task's progress once nothing is left to be done in the world; None before.

    The sub-task is completed if the world signals success or accepted what was handed in; otherwise it failed.
    """
    observation = state["observation"]
    if not (observation.done or observation.solved):
        return None
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
    _record_progress,
    _evident_progress,
)
REPLAN = Slot("replan", OUTLINE_KEYS, subtask_replan_view, _record_replan, react.require_steps)


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
    question = PLAN_QUESTION.format(handing=_delivery_instruction(state["task"], runtime))
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
    question = REPLAN_QUESTION.format(handing=_delivery_instruction(state["task"], runtime))
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
give the steps in their order, each one action or a few. What is known already needs no step.{handing}"""

PLAN_CLOSING = "Which steps fulfil the assignment?"

REPLAN_QUESTION = """\
Think first: what is done, and what did the answers show that the plan did not expect? Then give what is left of the
plan, changed by what was observed: the steps in their order, each one action or a few. Leave out what is done, and go
another way where one did not work.{handing}"""

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


# Execute: carry out the plan, and say how the assignment stands (TDP section 3.3).


@factory
def execute_plan(*, ahead: int = MAX_AHEAD) -> Operator:
    """Ask the model for actions that carry out the plan of a sub-task, and for how the sub-task stands.

    Actions are taken one after another until one has no effect. A benchmark's own operator `execute` runs instead, and
    where the task is a question, one action is given as `execute` gives it.

    Args:
        ahead: maximum number of actions after the first one; 0 for one action a call.
    """

    @partial(prefer_benchmark_operator, other="execute")
    async def execute_plan(state: ExecuteView, runtime: Runtime[Context]) -> dict[str, Any]:
        if benchmark_of(state["task"], runtime).answers:
            return await call_operator(react.execute, state, runtime)
        return await choose_actions(state, EXECUTE_QUESTION, ahead, runtime, standing=state["standing"], shown="")

    return execute_plan


EXECUTE_QUESTION = """\
Think first: what do the answers so far establish for the assignment, what is still missing, which step of the plan
comes next, and what would each likely action change? Then give:
- standing: "continues" if the actions are steps on the way; "completes" if the assignment should be fulfilled once they
  have worked; "reached" if the assignment is fulfilled already; "blocked" if it cannot be fulfilled from here, or if
  the answers show that the plan does not lead to it.
- report: for "reached" and "blocked", the words in which the world shows it, and what they mean; else empty.
- {field}: the action to take next. {rule}
{then}"""


# Supervise: judge the progress of a sub-task (TDP section 3.2).
#
# The Supervisor judges what the Executor says: that the sub-task is fulfilled, or that it cannot be. An agent with
# tools hands in the result of its sub-task itself, and that result is judged. Otherwise only work is judged that has
# come to the end of its plan or may have left it: it stands still, or takes more actions than the plan has steps.

LEAST_ACTIONS = 3
"""Number of actions that a sub-task may take before the length of its plan counts."""

ACTIONS_A_STEP = 5
"""Number of actions in a world for each step of a plan after which work is judged in any case."""

STANDSTILL = 2
"""Number of actions in a row that failed, or were equal and answered equally, after which work stands still."""


class ResultJudgement(BaseModel):
    """The model's answer about a result that was handed in over tools."""

    reason: Reasoning
    status: Literal["needs_more_steps", "completed", "failed"]
    guidance: Annotated[str, Requested] = ""


class SupervisorJudgement(BaseModel):
    """The model's answer about a sub-task; what does not apply need not be written."""

    reason: Reasoning
    status: Literal["needs_more_steps", "completed", "failed"]
    off_plan: bool = False
    done: Annotated[int, Requested] = 0
    guidance: str = ""
    result: str = ""


@prefer_benchmark_operator
async def supervise(state: SuperviseView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model how the sub-task stands where it may be fulfilled or may have left its plan.

    It is asked if the Executor says that the sub-task is fulfilled or cannot be, if its work stands still or takes much
    longer than planned, and if its steps are used up. Where the Executor does not say how the sub-task stands, it is
    asked from the end of the plan on. Whether the whole task is done is read from the world, if that reports it.

    Over tools the model is asked when the result of a part is handed in, and when the work may have left its plan. The
    result that was handed in is that of the sub-task.
    """
    if has_tools(benchmark_of(state["task"], runtime)):
        return {"progress": await _supervise_calls(state, runtime)}
    before = state["progress"].model_copy(update={"off_plan": False})
    is_used_up = state["steps"] >= limits_of(state["task"], runtime).steps
    has_left = standing_of(state["action"]) == "blocked" or _may_have_left_plan(state)
    may_end, is_reported = _may_be_fulfilled(state), benchmark_of(state["task"], runtime).signals_goal and state["last"]
    if is_reported and (is_used_up or (may_end and not has_left)):
        status = "failed" if is_used_up else "needs_more_steps"
        unreported = {"status": status, "reason": NOT_REPORTED, "guidance": NOT_REPORTED}
        return {"progress": before.model_copy(update=unreported)}
    if not (has_left or may_end or is_used_up):
        return {"progress": before}
    judged = await _judge(state, runtime, JUDGE_ROLE)
    return {"progress": judged.model_copy(update={"judged": state["taken"]})}


NOT_REPORTED = "the world does not report that the task is done"


def _may_be_fulfilled(state: SuperviseView) -> bool:
    """Return whether the Executor says that the sub-task is fulfilled, or says nothing at the end of its plan."""
    standing, is_cut_off = standing_of(state["action"]), state["failed"] or state["untaken"]
    if standing is None:
        return state["taken"] >= len(state["outline"]) and not (state["upcoming"] or state["options"])
    return standing == "reached" or (standing == "completes" and not (state["upcoming"] or is_cut_off))


def _may_have_left_plan(state: SuperviseView) -> bool:
    """Return whether a world refused the latest actions, or took many more of them than the plan has steps."""
    if state["options"] or state["failures"] >= STANDSTILL:
        return not state["options"]
    many = ACTIONS_A_STEP * max(len(state["outline"]), LEAST_ACTIONS)
    return state["taken"] - state["progress"].judged >= many and not state["upcoming"]


async def _supervise_calls(state: SuperviseView, runtime: Runtime[Context]) -> Progress:
    """Return how a sub-task over tools stands."""
    if state["action"].kind in ANSWER_ACTIONS:
        return await _judge_result(state, runtime)
    taken, planned = state["taken"], max(len(state["outline"]), LEAST_ACTIONS)
    stands_still = state["failures"] >= STANDSTILL or count_repeats(state["turns"]) >= STANDSTILL
    if not state["whole"] and (stands_still or (taken > planned and taken % planned == 1)):
        return await _judge(state, runtime, CALLS_JUDGE_ROLE)
    return state["progress"].model_copy(update={"off_plan": False})


async def _judge_result(state: SuperviseView, runtime: Runtime[Context]) -> Progress:
    """Ask the model whether the result that was handed in completes the sub-task. It does not see the plan."""
    before = paragraphs(RESULT_QUESTION, format_assignment(state))
    shown: SuperviseView = {**state, "turns": without_thoughts(state["turns"])}
    trace = await format_trace(shown, before + RESULT_CLOSING, "validator", runtime)
    request = paragraphs(before, f"{DONE_SO_FAR}{trace.text}", RESULT_CLOSING)
    prompt = build_prompt(runtime, request, role=CALLS_JUDGE_ROLE, cut=trace.cut)
    answer = await ask(prompt, ResultJudgement, role="validator", runtime=runtime)
    result = str(state["action"].args.get(ANSWER_ARGUMENT, "")) if answer.status == "completed" else ""
    texts = {"reason": unquote_line(answer.reason), "guidance": unquote_line(answer.guidance)}
    return Progress(status=answer.status, done=state["progress"].done, result=result, **texts)


async def supervise_always(state: SuperviseView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model after every action how the sub-task stands, whatever the world (TDP section 3.2)."""
    return {"progress": await _judge(state, runtime, SUPERVISOR_ROLE)}


async def _judge(state: SuperviseView, runtime: Runtime[Context], role: str) -> Progress:
    """Ask the model how a sub-task stands. As every judge it sees what was done and answered, and no thoughts."""
    plan = f"Its plan:\n{numbered_list(state['outline'])}"
    before = paragraphs(SUPERVISE_QUESTION, format_assignment(state), plan)
    profile = await profile_of("validator", runtime)
    view = format_view(state["evidence"].view, runtime, turns=state["turns"], profile=profile)
    report = str(state["action"].args.get(REPORT, ""))
    reported = f"Whoever does the work says of it:\n{quote(report)}" if report else ""
    after = paragraphs(view, reported, SUPERVISE_CLOSING)
    shown: SuperviseView = {**state, "turns": without_thoughts(state["turns"])}
    trace = await format_trace(shown, before + after, "validator", runtime)
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
You judge the work on one assignment in a world known by text alone: whether it is fulfilled, and whether it keeps to
its plan. Rely on what the world answered, not on what an action was meant to do or on what is said of it."""

CALLS_JUDGE_ROLE = """\
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
