"""STEP's operators (STEP paper, section 3): Planner, Evaluator (`align`, `assess`) and Memory.

The memory operators are shared by all agents that learn between episodes: `recall` reads lessons from LangGraph's
store; `reflect` (Reflexion), `gain_insights` (CLIN) and `memorise` (STEP) write them. The Executor is in `react.py`.
"""

import math
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore, SearchItem
from langgraph.types import Overwrite
from pydantic import BaseModel, Field

from certigraph.adapters.benchmarks import benchmark_of, context_of, limits_of
from certigraph.adapters.models.calls import ask, ask_text
from certigraph.adapters.models.prompts import build_prompt, bullet_list, clip, format_turns, numbered_list, quote
from certigraph.adapters.models.schemas import Bounded, Truncated
from certigraph.adapters.processes import run_in_thread
from certigraph.adapters.protocols import Context
from certigraph.nodes import react
from certigraph.nodes.react import MAX_VIEW
from certigraph.nodes.slots import Slot, Update, prefer_benchmark_operator
from certigraph.state.records import Action, Fault, Task
from certigraph.state.run import Turn, without_thoughts
from certigraph.state.step import (
    SHOWN_LESSONS,
    AlignView,
    Approval,
    AssessView,
    Lesson,
    PlannerView,
    RecallView,
    ReflectView,
    StepState,
    StepSubtask,
    Trial,
    align_view,
    assess_view,
    executor_view,
    planner_view,
)

# The slots of STEP's graph, with its guards against loops (further limits: `Limits` in adapters/protocols.py).

MAX_REFUSALS = 3
"""Maximum number of actions in a row that the Evaluator may refuse; the next one is taken."""

MAX_UNACHIEVABLE = 3
"""Number of times that the world refuses the same action after which the subtask fails and is refined."""


def _clear_subtasks(state: StepState, update: Update, runtime: Runtime[Context]) -> Update:
    update = react.RESET_TRIAL.record(state, update, runtime)
    return {**update, "subtasks": Overwrite([]), "begun": 0, "refusals": ()}


def _start_subtask(state: StepState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "begun": len(state["turns"]), "refusals": ()}


def _record_ruling(state: StepState, update: Update, runtime: Runtime[Context]) -> Update:
    approval: Approval = update["approval"]
    refused = () if approval.approved else (f"{state['action'].text}: {approval.reason}",)
    return {**update, "refusals": (*state["refusals"], *refused)}


def _skip_alignment(state: StepState, runtime: Runtime[Context]) -> Update | None:
    rules = state["lessons"][-1].rules if state["lessons"] else ()
    return None if rules and len(state["refusals"]) < MAX_REFUSALS else {"approval": Approval()}


def _record_action(state: StepState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**react.ACT.record(state, update, runtime), "refusals": ()}


def _guard_against_loops(state: StepState, update: Update, runtime: Runtime[Context]) -> Update:
    subtask: StepSubtask = update["subtask"]
    if subtask.status == "open" and (reason := _stuck_reason(state, runtime)) and not subtask.whole:
        subtask = subtask.model_copy(update={"status": "failed", "reason": reason})
    return {"subtask": subtask, "subtasks": [subtask] if subtask.status != "open" else []}


def _stuck_reason(state: StepState, runtime: Runtime[Context]) -> str:
    """Return why the subtask should be refined; empty if it may continue."""
    turns, maximum = state["turns"][state["begun"] :], limits_of(state["task"], runtime).substeps
    refused = Counter(turn.action for turn in turns if not turn.accepted)
    if refused and max(refused.values()) >= MAX_UNACHIEVABLE:
        return f"the world refused {refused.most_common(1)[0][0]!r} {MAX_UNACHIEVABLE} times"
    return f"it was not reached in {maximum} actions" if len(turns) >= maximum else ""


def _skip_assessment(state: StepState, runtime: Runtime[Context]) -> Update | None:
    unassessed = state["subtask"].whole or state["observation"].done
    return {"subtask": state["subtask"], "subtasks": []} if unassessed else None


def is_over(state: StepState, runtime: Runtime[Context]) -> bool:
    """Return whether the episode is over: finished, out of steps or subtasks, or too long (`Limits.gold`)."""
    reached = react.episode_limit(state, runtime)
    gold = limits_of(state["task"], runtime).gold
    return react.is_finished(state, runtime) or reached is not None or _is_past_gold(state, gold, runtime)


def _is_past_gold(state: StepState, times: float, runtime: Runtime[Context]) -> bool:
    # A rule of the paper's public code. It leaks the length of the solution, so `Limits.gold` is 0 by default.
    if not times:
        return False
    length = benchmark_of(state["task"], runtime).gold_length(state["task"])
    return length is not None and len(state["history"]) >= times * length


RESET = react.RESET_TRIAL._replace(record=_clear_subtasks)
PLANNER = Slot("planner", {"subtask": StepSubtask}, planner_view, _start_subtask)
EXECUTOR = Slot("executor", {"action": Action, "thought": str}, executor_view)
ALIGN = Slot("align", {"approval": Approval}, align_view, _record_ruling, _skip_alignment)
ACT = react.ACT._replace(record=_record_action)
ASSESS = Slot("assess", {"subtask": StepSubtask}, assess_view, _guard_against_loops, _skip_assessment)


# STEP's Planner: give the next subtask, or another way if the last one failed, with the insights that matter to it.


class Next(BaseModel):
    """The model's answer: why, what next, and the numbers of the insights that the Executor is to see."""

    rationale: Annotated[str, Truncated(200)]
    subtask: Annotated[str, Field(min_length=1), Bounded(200)]
    insights: Annotated[list[int], Truncated(6)]


@prefer_benchmark_operator
async def planner(state: PlannerView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the next subtask, or for a refinement of the one that failed (STEP Algorithm 1, lines 5-10)."""
    request = PLANNER_QUESTION.format(
        task=state["task"].goal,
        strategy=numbered_list(state["strategy"]),
        insights=numbered_list(state["insights"]),
        done=bullet_list(s.text for s in state["subtasks"] if s.status == "completed"),
        count=len(state["turns"]),
        turns=quote(format_turns(state["turns"])),
        view=quote(state["evidence"].view, MAX_VIEW),
        order=_planner_instruction(state),
    )
    answer = await ask(build_prompt(runtime, request), Next, role="planner", runtime=runtime)
    relevant = (state["insights"][n - 1] for n in dict.fromkeys(answer.insights) if 0 < n <= len(state["insights"]))
    return {"subtask": StepSubtask(text=answer.subtask, insights=tuple(relevant))}


async def none(state: PlannerView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Give the Executor the complete task and all insights, without a Planner (STEP's ablation, section 4.2.3)."""
    return {"subtask": StepSubtask(text=state["task"].goal, insights=tuple(state["insights"]), whole=True)}


def _planner_instruction(state: PlannerView) -> str:
    last = state["subtasks"][-1] if state["subtasks"] else None
    if last and last.status == "failed":
        return REFINE_INSTRUCTION.format(subtask=last.text, reason=last.reason)
    return NEXT_INSTRUCTION


PLANNER_QUESTION = """\
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

NEXT_INSTRUCTION = """\
Give the next subtask on the way to the task: one thing that a few actions can reach. Whoever carries it out sees this
subtask and not the task, so name the things and places that it is about."""

REFINE_INSTRUCTION = """\
The subtask "{subtask}" failed: {reason}
Say in the rationale why, then give a smaller subtask or one that gets there by another way. Whoever carries it out
sees this subtask and not the task, so name the things and places that it is about."""


# STEP's Evaluator before an action: check it against the rules of earlier episodes (section 3, Algorithm 1, line 14).


class Ruling(BaseModel):
    """The model's answer."""

    reason: Annotated[str, Truncated(160)]
    forbidden: bool


@prefer_benchmark_operator
async def align(state: AlignView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model whether a rule learned in earlier episodes forbids the action, useful or not."""
    request = ALIGN_QUESTION.format(
        rules=numbered_list(state["rules"]), subtask=state["subtask"], action=state["action"].text
    )
    answer = await ask(build_prompt(runtime, request), Ruling, role="validator", runtime=runtime)
    return {"approval": Approval(approved=not answer.forbidden, reason=answer.reason if answer.forbidden else "")}


ALIGN_QUESTION = """\
Rules, each learnt from an episode that failed:
{rules}

Work at hand: {subtask}
Action that is considered: {action}

Does one of the rules speak of exactly this action and say that it does not help here? Judge by the rules alone. A rule
about focusing on one thing forbids focusing on that thing and nothing else.
"""


# STEP's Evaluator after an action: judge whether the subtask is completed.

ASSESSED_TURNS = 4
"""Number of latest turns that the Evaluator sees."""


class Completion(BaseModel):
    """The model's answer."""

    reason: Annotated[str, Truncated(160)]
    completed: bool


@prefer_benchmark_operator
async def assess(state: AssessView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model whether the subtask is completed, given the latest actions, observations and the world's view."""
    request = ASSESS_QUESTION.format(
        subtask=state["subtask"].text,
        count=len(state["turns"]),
        turns=quote(format_turns(state["turns"], most=ASSESSED_TURNS)),
        view=quote(state["evidence"].view, MAX_VIEW),
    )
    answer = await ask(build_prompt(runtime, request), Completion, role="validator", runtime=runtime)
    changes = {"status": "completed", "reason": answer.reason} if answer.completed else {}
    return {"subtask": state["subtask"].model_copy(update=changes)}


ASSESS_QUESTION = """\
Subtask: {subtask}

Done for it ({count} actions), the latest with the world's answers:
{turns}

The world now:
{view}

Is the subtask completed?
"""


# The memory of agents that learn between episodes: lessons in LangGraph's store, one item an episode.

Namespace = tuple[str, ...]

PAGE_SIZE = 1000
"""Number of items that are read from a store at a time."""


async def recall(state: RecallView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Read the latest lessons about the task from the run's LangGraph store, oldest first.

    Lessons in the state that are not in the store come last: your own memory operator need not store what it returns.

    Raises:
        Fault: ("data") the store holds an item that is not a lesson.
    """
    items = await _read_items(store_of(runtime), namespace_of(state["task"], runtime))
    run = _run_id(runtime)
    # The store may be ahead of the checkpoint from which this run was resumed. Such later lessons of the run itself are
    # left out: it will learn them again.
    try:
        past = [item.value for item in items if item.value["run"] != run or item.value["trial"] < state["trial"]]
        stored = [_to_lesson(value) for value in sorted(past, key=lambda value: (value["written"], value["trial"]))]
    except (KeyError, TypeError, ValueError) as error:
        message = f"the memory holds an item that is not a lesson ({type(error).__name__}: {error!s:.200})"
        raise Fault("data", f"{' '.join(message.split())}: remove it, or name another memory") from error
    unstored = [lesson for lesson in state["lessons"] if lesson not in stored]
    return {"lessons": (*stored, *unstored)[-SHOWN_LESSONS:]}


async def store_lesson(lesson: Lesson, task: Task, runtime: Runtime[Context]) -> None:
    """Write a lesson to the store. A lesson of the same episode, written before a crash, is replaced."""
    run, space, store = _run_id(runtime), namespace_of(task, runtime), store_of(runtime)
    key = f"{run}/{lesson.trial:04d}"
    previous = await run_in_thread(store.get, space, key)
    written = _written_time(previous.value) if previous else None
    if written is None:
        times = [_written_time(item.value) or 0.0 for item in await _read_items(store, space)]
        # Later than all others, even if this machine's clock is behind that of the machine that wrote them.
        written = max(time.time(), math.nextafter(max(times, default=0.0), math.inf))
    value = {**lesson.as_json(), "run": run, "written": written}
    await run_in_thread(store.put, space, key, value, False)


async def _read_items(store: BaseStore, space: Namespace) -> list[SearchItem]:
    """Read every item of a namespace, page by page. The order depends on the store."""
    # Collected by key, because items that another run writes in the meantime may move others to a later page.
    items, start = dict[str, SearchItem](), 0
    while True:
        # The blocking methods work for sync and async stores, if they are called from a worker thread.
        page = await run_in_thread(store.search, space, limit=PAGE_SIZE, offset=start)
        items |= {item.key: item for item in page}
        if len(page) < PAGE_SIZE:
            return list(items.values())
        start += PAGE_SIZE


def _written_time(value: dict[str, Any]) -> float | None:
    written = value.get("written")
    return written if isinstance(written, (int, float)) else None


def namespace_of(task: Task, runtime: Runtime[Context]) -> Namespace:
    """Return the store's namespace for a task's lessons: one for each run, unless the context names a shared memory."""
    # LangGraph forbids dots in labels.
    labels = ("lessons", context_of(runtime).memory or _thread_id(runtime) or "run", task.benchmark, task.id)
    return tuple(label.replace(".", "_") for label in labels)


def store_of(runtime: Runtime[Context]) -> BaseStore:
    """Return the store of the run.

    Raises:
        Fault: ("operator") the graph was compiled without one.
    """
    if runtime.store is None:
        raise Fault("operator", "this graph needs a LangGraph store, for example build(store=InMemoryStore())")
    return runtime.store


def _run_id(runtime: Runtime[Context]) -> str:
    """Return the id under which a run stores its lessons: that of its thread or, without a thread, another one."""
    return _thread_id(runtime) or (uuid.uuid4().hex if context_of(runtime).memory else "run")


def _thread_id(runtime: Runtime[Context]) -> str | None:
    return runtime.execution_info.thread_id if runtime.execution_info else None


def _to_lesson(value: dict[str, Any]) -> Lesson:
    return Lesson.model_validate({name: value[name] for name in Lesson.model_fields if name in value})


# The lessons of an episode: Reflexion's prose, CLIN's causal insights, STEP's insights and strategy.

MAX_TURNS = 60
"""Maximum number of turns of an episode in a prompt; the latest ones are shown."""

MAX_EPISODE = 6_000
"""Maximum number of characters of an episode in a prompt, counted from the end of the episode.

With the earlier lessons the prompt has about 3,000 tokens.
"""

MAX_REFLECTION = 600
"""Maximum number of characters of a reflection."""

MAX_INSIGHT = 160
"""Maximum number of characters of an insight."""

MAX_SUBTASK = 120
"""Maximum number of characters of a subtask in a strategy."""

SCORE_REPORTS = (
    (1.0, "The task was completed."),
    (0.9, "Nearly all of the task was done."),
    (0.5, "More than half of the task was done."),
    (0.2, "Some of the task was done."),
    (0.01, "Little of the task was done."),
    (-1.0, "Nothing that counts was done."),
)
"""Pairs of a minimum score and the sentence that reports scores from it to the next higher one (CLIN)."""

FATAL_REPORT = "The episode was lost by an action that must not be taken."
"""Report of an episode with a negative raw score."""


class Insights(BaseModel):
    """CLIN's causal abstractions. What is longer than asked for is cut, not refused."""

    insights: Annotated[list[Annotated[str, Bounded(MAX_INSIGHT)]], Truncated(12)]


class Strategy(BaseModel):
    """STEP's suggested strategy: subtasks in order."""

    subtasks: Annotated[list[Annotated[str, Bounded(MAX_SUBTASK)]], Truncated(10)]


@prefer_benchmark_operator
async def reflect(state: ReflectView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model what went wrong and what to do differently next time, in prose (Reflexion)."""
    request = (
        EPISODE_TEMPLATE.format(**_episode_fields(state, state["turns"]), earlier=_format_lessons(state))
        + REFLECTION_INSTRUCTION
    )
    text = await ask_text(build_prompt(runtime, request), role="memory", runtime=runtime)
    return await _store_and_return(state, runtime, reflection=clip(text, MAX_REFLECTION))


@prefer_benchmark_operator
async def gain_insights(state: ReflectView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the causal insights that hold after this episode; they replace the earlier ones (CLIN)."""
    return await _store_and_return(state, runtime, insights=await _ask_insights(state, runtime))


@prefer_benchmark_operator
async def memorise(state: ReflectView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for CLIN's insights and for a strategy from the episode's subtasks and rewarded actions (STEP)."""
    insights = await _ask_insights(state, runtime)
    rewarded = [turn.action for turn in state["turns"] if turn.reward > 0]
    request = EPISODE_TEMPLATE.format(
        **_episode_fields(state, without_thoughts(state["turns"])), earlier="(none)"
    ) + STRATEGY_INSTRUCTION.format(rewarded=quote(bullet_list(rewarded)))
    answer = await ask(build_prompt(runtime, request), Strategy, role="memory", runtime=runtime)
    strategy = tuple(clip(text, MAX_SUBTASK) for text in answer.subtasks)
    return await _store_and_return(state, runtime, insights=insights, strategy=strategy)


async def _ask_insights(state: ReflectView, runtime: Runtime[Context]) -> tuple[str, ...]:
    request = (
        EPISODE_TEMPLATE.format(
            **_episode_fields(state, without_thoughts(state["turns"])), earlier=_format_lessons(state)
        )
        + INSIGHTS_INSTRUCTION
    )
    answer = await ask(build_prompt(runtime, request), Insights, role="memory", runtime=runtime)
    return tuple(clip(text, MAX_INSIGHT) for text in answer.insights)


async def _store_and_return(state: ReflectView, runtime: Runtime[Context], **content: Any) -> dict[str, Any]:
    trial = state["trial"]
    lesson = Lesson(trial=trial.number, report=format_report(trial), **content)
    await store_lesson(lesson, state["task"], runtime)
    return {"lessons": (*state["lessons"], lesson)}


def format_report(trial: Trial) -> str:
    """Format the result of an episode as two sentences (CLIN's evaluation report)."""
    value, raw = trial.scores.value, trial.scores.parts.get("raw")
    sentence = (
        FATAL_REPORT
        if raw is not None and raw < 0
        else next(text for minimum, text in SCORE_REPORTS if value >= minimum)
    )
    return f"Score {100 * value:.0f} of 100. {sentence}"


def _episode_fields(state: ReflectView, turns: Sequence[Turn]) -> dict[str, str]:
    text = format_turns(turns, most=MAX_TURNS, characters=80, within=MAX_EPISODE)
    return {"task": state["task"].goal, "turns": quote(text), "report": format_report(state["trial"])}


def _format_lessons(state: ReflectView) -> str:
    return "\n".join(_format_lesson(lesson) for lesson in state["lessons"]) or "(none)"


def _format_lesson(lesson: Lesson) -> str:
    content: Iterable[str] = lesson.insights or filter(None, [lesson.reflection])
    return f"Episode {lesson.trial}: {lesson.report}\n{numbered_list(content)}"


EPISODE_TEMPLATE = """\
Task: {task}

An episode of it has ended. What was done, with the world's answers:
{turns}

How it went: {report}

What earlier episodes taught:
{earlier}

"""

REFLECTION_INSTRUCTION = """\
Say in two or three sentences, as plain text and not as JSON, what kept the episode from a full score and what to do
otherwise next time.
"""

INSIGHTS_INSTRUCTION = """\
Write what is now known about this world, for a next try at the same task: keep what still holds, correct what does
not. Each insight is one line in one of these forms, the capitals included:
X MAY BE NECESSARY to Y
X SHOULD BE NECESSARY to Y
X MAY CONTRIBUTE to Y
X DOES NOT CONTRIBUTE to Y
X and Y are concrete actions, things or places.
"""

STRATEGY_INSTRUCTION = """\
Actions that were rewarded:
{rewarded}

Write the strategy for a next try at the same task: a few subtasks in order. Keep what earned reward or prepared it,
leave out detours and repetitions. A subtask says what is to be reached, not every action.
"""
