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
from certigraph.adapters.models.calls import ask, ask_text, profile_of
from certigraph.adapters.models.prompts import (
    History,
    Prompt,
    build_prompt,
    bullet_list,
    clip,
    format_history,
    format_turns,
    numbered_list,
    quote,
)
from certigraph.adapters.models.schemas import Bounded, Truncated
from certigraph.adapters.processes import run_in_thread
from certigraph.adapters.protocols import Context
from certigraph.nodes import react
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
    insights: Annotated[list[int], Truncated(6, full=100)]


@prefer_benchmark_operator
async def planner(state: PlannerView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the next subtask, or for a refinement of the one that failed (STEP Algorithm 1, lines 5-10)."""
    before = f"Task: {state['task'].goal}\n\n"
    after = PLANNER_SITUATION.format(
        strategy=numbered_list(state["strategy"]),
        insights=numbered_list(state["insights"]),
        done=bullet_list(map(_format_subtask, state["subtasks"])),
        view=quote(state["evidence"].view),
        used=len(state["turns"]),
        steps=limits_of(state["task"], runtime).steps,
        order=_planner_instruction(state),
    )
    profile = await profile_of("planner", runtime)
    history = format_history(state["turns"], PLANNER_ROLE + before + after, profile)
    shown = f"Actions so far and the world's answers, the latest last:\n{quote(history.text)}\n\n"
    prompt = build_prompt(runtime, before + shown + after, role=PLANNER_ROLE, cut=history.cut)
    answer = await ask(prompt, Next, role="planner", runtime=runtime)
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


def _format_subtask(subtask: StepSubtask) -> str:
    return f"{subtask.status}: {subtask.text}" + (f" ({subtask.reason})" if subtask.status == "failed" else "")


PLANNER_ROLE = """\
You direct an agent towards a task, one subtask at a time. Whoever carries a subtask out sees the subtask and not the
task. You see the task, everything that was done and answered in this episode, and what earlier episodes of the same
task taught."""

PLANNER_SITUATION = """\
Strategy that an earlier episode suggests, in its order:
{strategy}

Insights of earlier episodes. MAY BE NECESSARY: it helped once; SHOULD BE NECESSARY: it helped repeatedly; MAY
CONTRIBUTE: it seemed to help; DOES NOT CONTRIBUTE: it was tried and did not help.
{insights}

Subtasks of this episode:
{done}

The world now:
{view}

Actions used in this episode: {used} of at most {steps}.

{order}
Also give the numbers of the insights that matter for the subtask, no others.
"""

NEXT_INSTRUCTION = """\
Think first: what of the task is reached, in the order in which the task asks for it? Did the last subtask bring what it
was meant to bring, by what the world answered? What comes next, and can it be reached from here? Then give the next
subtask: one result that a few actions reach, with the names of things and places as the world shows them. If a change
only needs time, the subtask is to wait for it. An action that cannot be undone, such as declaring which thing is the
one asked for, belongs into the subtask at whose time the task wants it, and into no earlier one."""

REFINE_INSTRUCTION = """\
The subtask "{subtask}" failed: {reason}
Think first: why did it fail, by what the world answered? Then give a smaller subtask or one that gets there by another
way, with the names of things and places as the world shows them."""


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
    prompt = build_prompt(runtime, request, role=EVALUATOR_ROLE)
    answer = await ask(prompt, Ruling, role="validator", runtime=runtime)
    return {"approval": Approval(approved=not answer.forbidden, reason=answer.reason if answer.forbidden else "")}


ALIGN_QUESTION = """\
Rules that earlier episodes of this task taught:
{rules}

Work at hand: {subtask}
Action that is considered: {action}

Does one of the rules speak of exactly this action on this thing, and say that it does not help or does harm? Judge by
the rules alone; a rule about another thing or another action does not count.
"""


# STEP's Evaluator after an action: judge whether the subtask is completed.


class Completion(BaseModel):
    """The model's answer."""

    reason: Annotated[str, Truncated(160)]
    completed: bool


@prefer_benchmark_operator
async def assess(state: AssessView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model whether the subtask is completed, given the latest actions, observations and the world's view."""
    profile = await profile_of("validator", runtime)
    before = f"Subtask: {state['subtask'].text}\n\n"
    after = ASSESS_QUESTION.format(view=quote(state["evidence"].view))
    history = format_history(state["turns"], EVALUATOR_ROLE + before + after, profile)
    shown = f"Done for it, with the world's answers, the latest last:\n{quote(history.text)}\n\n"
    prompt = build_prompt(runtime, before + shown + after, role=EVALUATOR_ROLE, cut=history.cut)
    answer = await ask(prompt, Completion, role="validator", runtime=runtime)
    changes = {"status": "completed", "reason": answer.reason} if answer.completed else {}
    return {"subtask": state["subtask"].model_copy(update=changes)}


EVALUATOR_ROLE = """\
You judge the work of an agent that acts in a world known by text alone. Rely on what the world answered and shows, not
on what an action was meant to do."""

ASSESS_QUESTION = """\
The world now:
{view}

Reason first: what does the subtask ask for, and which answer, or which part of what the world shows now, says that it
is so? Then say whether the subtask is completed. If nothing shows it, it is not.
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
"""Maximum number of turns of an episode in the prompt of a small model; the latest ones are shown."""

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

    insights: Annotated[list[Annotated[str, Bounded(MAX_INSIGHT)]], Truncated(12, full=60)]


class Strategy(BaseModel):
    """STEP's suggested strategy: subtasks in order."""

    subtasks: Annotated[list[Annotated[str, Bounded(MAX_SUBTASK)]], Truncated(10, full=60)]


@prefer_benchmark_operator
async def reflect(state: ReflectView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model what went wrong and what to do differently next time, in prose (Reflexion)."""
    prompt = await _episode_prompt(state, state["turns"], _format_lessons(state), REFLECTION_INSTRUCTION, runtime)
    text = await ask_text(prompt, role="memory", runtime=runtime)
    return await _store_and_return(state, runtime, reflection=await _shorten(text, MAX_REFLECTION, runtime))


@prefer_benchmark_operator
async def gain_insights(state: ReflectView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the causal insights that hold after this episode; they replace the earlier ones (CLIN)."""
    return await _store_and_return(state, runtime, insights=await _ask_insights(state, runtime))


@prefer_benchmark_operator
async def memorise(state: ReflectView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for CLIN's insights and for a strategy from the episode's subtasks and rewarded actions (STEP)."""
    insights = await _ask_insights(state, runtime)
    rewarded = [turn.action for turn in state["turns"] if turn.reward > 0]
    instruction = STRATEGY_INSTRUCTION.format(rewarded=quote(bullet_list(rewarded)))
    prompt = await _episode_prompt(state, without_thoughts(state["turns"]), "(none)", instruction, runtime)
    answer = await ask(prompt, Strategy, role="memory", runtime=runtime)
    strategy = tuple([await _shorten(text, MAX_SUBTASK, runtime) for text in answer.subtasks])
    return await _store_and_return(state, runtime, insights=insights, strategy=strategy)


async def _ask_insights(state: ReflectView, runtime: Runtime[Context]) -> tuple[str, ...]:
    turns = without_thoughts(state["turns"])
    prompt = await _episode_prompt(state, turns, _format_lessons(state), INSIGHTS_INSTRUCTION, runtime)
    answer = await ask(prompt, Insights, role="memory", runtime=runtime)
    return tuple([await _shorten(text, MAX_INSIGHT, runtime) for text in answer.insights])


async def _shorten(text: str, most: int, runtime: Runtime[Context]) -> str:
    # What a small model wrote is shown to it again in a small window.
    return clip(text, most) if (await profile_of("memory", runtime)).is_small else text


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


async def _episode_prompt(
    state: ReflectView, turns: Sequence[Turn], earlier: str, instruction: str, runtime: Runtime[Context]
) -> Prompt:
    """Build a prompt about an episode that has ended: its trace, its result, what was known before, an instruction."""
    profile = await profile_of("memory", runtime)
    before = f"Task: {state['task'].goal}\n\n"
    after = EPISODE_REPORT.format(report=format_report(state["trial"]), earlier=earlier) + instruction
    if profile.is_small:
        history = History(format_turns(turns, most=MAX_TURNS, characters=80, within=MAX_EPISODE))
    else:
        history = format_history(turns, MEMORY_ROLE + before + after, profile, most_tokens=TRACE_TOKENS)
    shown = f"An episode has ended. What was done, with the world's answers:\n{quote(history.text)}\n\n"
    return build_prompt(runtime, before + shown + after, role=MEMORY_ROLE, cut=history.cut)


def _format_lessons(state: ReflectView) -> str:
    return "\n".join(_format_lesson(lesson) for lesson in state["lessons"]) or "(none)"


def _format_lesson(lesson: Lesson) -> str:
    content: Iterable[str] = lesson.insights or filter(None, [lesson.reflection])
    return f"Episode {lesson.trial}: {lesson.report}\n{numbered_list(content)}"


TRACE_TOKENS = 6_500
"""Maximum tokens of an episode's trace in the prompts of the memory, as in STEP's public code."""

MEMORY_ROLE = """\
You write down what an agent should remember for its next episode of the same task, which starts from the beginning in
the same world."""

EPISODE_REPORT = """\
How it went: {report}

What earlier episodes taught:
{earlier}

"""

REFLECTION_INSTRUCTION = """\
Say in two or three sentences, as plain text, what kept the episode from a full score, with the actions and things that
mattered, and what to do differently next time.
"""

INSIGHTS_INSTRUCTION = """\
Write what is now known about this world and this task: keep what earlier episodes taught and this one did not
contradict, correct what it did. Learn from what the world answered and from when points were won or lost, and not from
what was intended. Each insight is one line in one of these forms, the capitals included:
X MAY BE NECESSARY to Y - once X came before Y
X SHOULD BE NECESSARY to Y - X came before Y more than once, or Y failed without X
X MAY CONTRIBUTE to Y - X seemed to help
X DOES NOT CONTRIBUTE to Y - X was tried for Y and did not help, or did harm
X and Y are concrete actions, things or places, named as the world names them.
"""

STRATEGY_INSTRUCTION = """\
Actions that were rewarded:
{rewarded}

Write the strategy for a next try at the same task: a few subtasks in the order of the task. Keep what earned reward or
prepared it, leave out detours and repetitions, and add what was missing for a full score. A subtask says what is to be
reached, not every action.
"""
