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
from certigraph.adapters.models.calls import ask, ask_text, bullet_list, clipped, numbered, prompt, quoted, shown
from certigraph.adapters.models.schemas import Cut, Within
from certigraph.adapters.processes import off_loop
from certigraph.adapters.protocols import Context
from certigraph.nodes import react
from certigraph.nodes.react import MOST_VIEW
from certigraph.nodes.slots import Slot, Update, specialised
from certigraph.state.records import Fault, Task
from certigraph.state.run import Turn, acts
from certigraph.state.step import (
    KEPT,
    AlignView,
    Approval,
    AssessView,
    Lesson,
    PlannerView,
    RecallView,
    ReflectView,
    StepState,
    Subtask,
    Trial,
    align_view,
    assess_view,
    executor_view,
    planner_view,
)

# The slots of STEP's graph, with its guards against loops (further limits: `Limits` in adapters/protocols.py).

MOST_REFUSALS = 3
"""Maximum number of actions in a row that the Evaluator may refuse; the next one is taken."""

MOST_UNACHIEVABLE = 3
"""Maximum number of times that the world may refuse the same action before its subtask is refined."""


def _no_subtasks(state: StepState, update: Update, runtime: Runtime[Context]) -> Update:
    update = react.RESET_TRIAL.record(state, update, runtime)
    return {**update, "subtasks": Overwrite([]), "begun": 0, "refusals": ()}


def _begun(state: StepState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "begun": len(state["turns"]), "refusals": ()}


def _ruled(state: StepState, update: Update, runtime: Runtime[Context]) -> Update:
    approval: Approval = update["approval"]
    refused = () if approval.approved else (f"{state['action'].text}: {approval.reason}",)
    return {**update, "refusals": (*state["refusals"], *refused)}


def _nothing_to_rule(state: StepState, runtime: Runtime[Context]) -> Update | None:
    rules = state["lessons"][-1].rules if state["lessons"] else ()
    return None if rules and len(state["refusals"]) < MOST_REFUSALS else {"approval": Approval()}


def _acted(state: StepState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**react.ACT.record(state, update, runtime), "refusals": ()}


def _guarded(state: StepState, update: Update, runtime: Runtime[Context]) -> Update:
    subtask: Subtask = update["subtask"]
    if subtask.status == "open" and (reason := _stuck(state, runtime)) and not subtask.whole:
        subtask = subtask.model_copy(update={"status": "failed", "reason": reason})
    return {"subtask": subtask, "subtasks": [subtask] if subtask.status != "open" else []}


def _stuck(state: StepState, runtime: Runtime[Context]) -> str:
    """Return why the subtask should be refined; empty if it may continue."""
    turns, maximum = state["turns"][state["begun"] :], limits_of(state["task"], runtime).substeps
    refused = Counter(turn.action for turn in turns if not turn.accepted)
    if refused and max(refused.values()) >= MOST_UNACHIEVABLE:
        return f"the world refused {refused.most_common(1)[0][0]!r} {MOST_UNACHIEVABLE} times"
    return f"it was not reached in {maximum} actions" if len(turns) >= maximum else ""


def _nothing_to_assess(state: StepState, runtime: Runtime[Context]) -> Update | None:
    unassessed = state["subtask"].whole or state["observation"].done
    return {"subtask": state["subtask"], "subtasks": []} if unassessed else None


def over(state: StepState, runtime: Runtime[Context]) -> bool:
    """Whether the episode is over: finished, out of steps or subtasks, or too long for its task (`Limits.gold`)."""
    reached = react.episode_reached(state, runtime)
    gold = limits_of(state["task"], runtime).gold
    return react.finished(state, runtime) or reached is not None or _past_gold(state, gold, runtime)


def _past_gold(state: StepState, times: float, runtime: Runtime[Context]) -> bool:
    # A rule of the paper's public code. It leaks the length of the solution, so `Limits.gold` is 0 by default.
    if not times:
        return False
    length = getattr(benchmark_of(state["task"], runtime), "gold_length", None)
    return length is not None and len(state["history"]) >= times * length(state["task"])


RESET = react.RESET_TRIAL._replace(record=_no_subtasks)
PLANNER = Slot("planner", frozenset({"subtask"}), planner_view, _begun)
EXECUTOR = Slot("executor", frozenset({"action", "thought"}), executor_view)
ALIGN = Slot("align", frozenset({"approval"}), align_view, _ruled, _nothing_to_rule)
ACT = react.ACT._replace(record=_acted)
ASSESS = Slot("assess", frozenset({"subtask"}), assess_view, _guarded, _nothing_to_assess)


# STEP's Planner: give the next subtask, or another way if the last one failed, with the insights that matter to it.


class Next(BaseModel):
    """The model's answer: why, what next, and the numbers of the insights that the Executor is to see."""

    rationale: Annotated[str, Cut(200)]
    subtask: Annotated[str, Field(min_length=1), Within(200)]
    insights: Annotated[list[int], Cut(6)]


@specialised
async def planner(state: PlannerView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the next subtask, or for a refinement of the one that failed (Algorithm 1, lines 5-10)."""
    request = PLANNER_QUESTION.format(
        task=state["task"].goal,
        strategy=numbered(state["strategy"]),
        insights=numbered(state["insights"]),
        done=bullet_list(s.text for s in state["subtasks"] if s.status == "completed"),
        count=len(state["turns"]),
        turns=quoted(shown(state["turns"])),
        view=quoted(state["evidence"].view, MOST_VIEW),
        order=_order(state),
    )
    answer = await ask(prompt(runtime, request), Next, role="planner", runtime=runtime)
    relevant = (state["insights"][n - 1] for n in dict.fromkeys(answer.insights) if 0 < n <= len(state["insights"]))
    return {"subtask": Subtask(text=answer.subtask, insights=tuple(relevant))}


async def none(state: PlannerView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Give the Executor the complete task and all insights, without a Planner (the paper's ablation, section 4.2.3)."""
    return {"subtask": Subtask(text=state["task"].goal, insights=tuple(state["insights"]), whole=True)}


def _order(state: PlannerView) -> str:
    last = state["subtasks"][-1] if state["subtasks"] else None
    if last and last.status == "failed":
        return REFINE.format(subtask=last.text, reason=last.reason)
    return NEXT


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

NEXT = """\
Give the next subtask on the way to the task: one thing that a few actions can reach. Whoever carries it out sees this
subtask and not the task, so name the things and places that it is about."""

REFINE = """\
The subtask "{subtask}" failed: {reason}
Say in the rationale why, then give a smaller subtask or one that gets there by another way. Whoever carries it out
sees this subtask and not the task, so name the things and places that it is about."""


# STEP's Evaluator before an action: check it against the rules of earlier episodes (section 3, Algorithm 1, line 14).


class Ruling(BaseModel):
    """The model's answer."""

    reason: Annotated[str, Cut(160)]
    forbidden: bool


@specialised
async def align(state: AlignView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model whether a rule of earlier episodes forbids the action. Only the rules count, not its usefulness."""
    request = ALIGN_QUESTION.format(
        rules=numbered(state["rules"]), subtask=state["subtask"], action=state["action"].text
    )
    answer = await ask(prompt(runtime, request), Ruling, role="validator", runtime=runtime)
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

TURNS = 4
"""Number of latest turns that the Evaluator sees."""


class Completion(BaseModel):
    """The model's answer."""

    reason: Annotated[str, Cut(160)]
    completed: bool


@specialised
async def assess(state: AssessView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model whether the subtask is completed, given its latest turns and the world's view."""
    request = ASSESS_QUESTION.format(
        subtask=state["subtask"].text,
        count=len(state["turns"]),
        turns=quoted(shown(state["turns"], most=TURNS)),
        view=quoted(state["evidence"].view, MOST_VIEW),
    )
    answer = await ask(prompt(runtime, request), Completion, role="validator", runtime=runtime)
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

PAGE = 1000
"""Number of items that are read from a store at a time."""


async def recall(state: RecallView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Read the latest lessons about the task, oldest first.

    Lessons in the state that are not in the store follow: your own memory operator need not store what it returns.

    Raises:
        Fault: ("data") the store holds an item that is not a lesson.
    """
    items = await _items(store_of(runtime), namespace(state["task"], runtime))
    run = _run(runtime)
    # The store may be ahead of the checkpoint from which this run was resumed. Such later lessons of the run itself are
    # left out: it will learn them again.
    try:
        past = [item.value for item in items if item.value["run"] != run or item.value["trial"] < state["trial"]]
        stored = [_lesson(value) for value in sorted(past, key=lambda value: (value["written"], value["trial"]))]
    except (KeyError, TypeError, ValueError) as error:
        message = f"the memory holds an item that is not a lesson ({type(error).__name__}: {error!s:.200})"
        raise Fault("data", f"{' '.join(message.split())}: remove it, or name another memory") from error
    unstored = [lesson for lesson in state["lessons"] if lesson not in stored]
    return {"lessons": (*stored, *unstored)[-KEPT:]}


async def keep(lesson: Lesson, task: Task, runtime: Runtime[Context]) -> None:
    """Write a lesson to the store. A lesson of the same episode, written before a crash, is replaced."""
    run, space, store = _run(runtime), namespace(task, runtime), store_of(runtime)
    key = f"{run}/{lesson.trial:04d}"
    previous = await off_loop(store.get, space, key)
    written = _written(previous.value) if previous else None
    if written is None:
        times = [_written(item.value) or 0.0 for item in await _items(store, space)]
        # Later than all others, even if this machine's clock is behind that of the machine that wrote them.
        written = max(time.time(), math.nextafter(max(times, default=0.0), math.inf))
    value = {**lesson.as_json(), "run": run, "written": written}
    await off_loop(store.put, space, key, value, False)


async def _items(store: BaseStore, space: Namespace) -> list[SearchItem]:
    """Read every item of a namespace, page by page. The order depends on the store."""
    # Collected by key, because items that another run writes in the meantime may move others to a later page.
    items, start = dict[str, SearchItem](), 0
    while True:
        # The blocking methods work for sync and async stores, if they are called from a worker thread.
        page = await off_loop(store.search, space, limit=PAGE, offset=start)
        items |= {item.key: item for item in page}
        if len(page) < PAGE:
            return list(items.values())
        start += PAGE


def _written(value: dict[str, Any]) -> float | None:
    written = value.get("written")
    return written if isinstance(written, (int, float)) else None


def namespace(task: Task, runtime: Runtime[Context]) -> Namespace:
    """Return the store's namespace for a task's lessons: one for each run, unless the context names a shared memory."""
    # LangGraph forbids dots in labels.
    labels = ("lessons", context_of(runtime).memory or _thread(runtime) or "run", task.benchmark, task.id)
    return tuple(label.replace(".", "_") for label in labels)


def store_of(runtime: Runtime[Context]) -> BaseStore:
    """Return the store of the run.

    Raises:
        Fault: ("operator") the graph was compiled without one.
    """
    if runtime.store is None:
        raise Fault("operator", "this graph needs a LangGraph store, for example build(store=InMemoryStore())")
    return runtime.store


def _run(runtime: Runtime[Context]) -> str:
    """Return the id of a run in its memory: its thread's, or a new one, since without a thread no run is resumed."""
    return _thread(runtime) or (uuid.uuid4().hex if context_of(runtime).memory else "run")


def _thread(runtime: Runtime[Context]) -> str | None:
    return runtime.execution_info.thread_id if runtime.execution_info else None


def _lesson(value: dict[str, Any]) -> Lesson:
    return Lesson.model_validate({name: value[name] for name in Lesson.model_fields if name in value})


# The lessons of an episode: Reflexion's prose, CLIN's causal insights, STEP's insights and strategy.

MOST_TURNS = 60
"""Maximum number of turns of an episode in a prompt, the latest."""

MOST_EPISODE = 6_000
"""Maximum number of characters of an episode in a prompt, from its end.

With the earlier lessons the prompt has about 3,000 tokens.
"""

MOST_REFLECTION = 600
"""Maximum number of characters of a reflection."""

MOST_INSIGHT = 160
"""Maximum number of characters of an insight."""

MOST_SUBTASK = 120
"""Maximum number of characters of a subtask in a strategy."""

BANDS = (
    (1.0, "The task was completed."),
    (0.9, "Nearly all of the task was done."),
    (0.5, "More than half of the task was done."),
    (0.2, "Some of the task was done."),
    (0.01, "Little of the task was done."),
    (-1.0, "Nothing that counts was done."),
)
"""Minimum score, and the sentence that reports it (CLIN)."""

FATAL = "The episode was lost by an action that must not be taken."
"""Report of an episode with a negative raw score."""


class Insights(BaseModel):
    """CLIN's causal abstractions. What is longer than asked for is cut, not refused."""

    insights: Annotated[list[Annotated[str, Within(MOST_INSIGHT)]], Cut(12)]


class Strategy(BaseModel):
    """STEP's suggested strategy: subtasks in order."""

    subtasks: Annotated[list[Annotated[str, Within(MOST_SUBTASK)]], Cut(10)]


@specialised
async def reflect(state: ReflectView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model what went wrong and what to do differently next time, in prose (Reflexion)."""
    request = EPISODE.format(**_episode(state, state["turns"]), earlier=_earlier(state)) + REFLECTION
    text = await ask_text(prompt(runtime, request), role="memory", runtime=runtime)
    return await _learnt(state, runtime, reflection=clipped(text, MOST_REFLECTION))


@specialised
async def gain_insights(state: ReflectView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the causal insights after this episode, which replace the earlier ones (CLIN)."""
    return await _learnt(state, runtime, insights=await _insights(state, runtime))


@specialised
async def memorise(state: ReflectView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for CLIN's insights and for a strategy from the episode's subtasks and rewarded actions (STEP)."""
    insights = await _insights(state, runtime)
    rewarded = [turn.action for turn in state["turns"] if turn.reward > 0]
    request = EPISODE.format(**_episode(state, acts(state["turns"])), earlier="(none)") + STRATEGY.format(
        rewarded=quoted(bullet_list(rewarded))
    )
    answer = await ask(prompt(runtime, request), Strategy, role="memory", runtime=runtime)
    strategy = tuple(clipped(text, MOST_SUBTASK) for text in answer.subtasks)
    return await _learnt(state, runtime, insights=insights, strategy=strategy)


async def _insights(state: ReflectView, runtime: Runtime[Context]) -> tuple[str, ...]:
    request = EPISODE.format(**_episode(state, acts(state["turns"])), earlier=_earlier(state)) + INSIGHTS
    answer = await ask(prompt(runtime, request), Insights, role="memory", runtime=runtime)
    return tuple(clipped(text, MOST_INSIGHT) for text in answer.insights)


async def _learnt(state: ReflectView, runtime: Runtime[Context], **content: Any) -> dict[str, Any]:
    trial = state["trial"]
    lesson = Lesson(trial=trial.number, report=report(trial), **content)
    await keep(lesson, state["task"], runtime)
    return {"lessons": (*state["lessons"], lesson)}


def report(trial: Trial) -> str:
    """Format the result of an episode as two sentences (CLIN's evaluation report)."""
    value, raw = trial.scores.value, trial.scores.parts.get("raw")
    sentence = FATAL if raw is not None and raw < 0 else next(text for minimum, text in BANDS if value >= minimum)
    return f"Score {100 * value:.0f} of 100. {sentence}"


def _episode(state: ReflectView, turns: Sequence[Turn]) -> dict[str, str]:
    text = shown(turns, most=MOST_TURNS, characters=80, within=MOST_EPISODE)
    return {"task": state["task"].goal, "turns": quoted(text), "report": report(state["trial"])}


def _earlier(state: ReflectView) -> str:
    return "\n".join(_told(lesson) for lesson in state["lessons"]) or "(none)"


def _told(lesson: Lesson) -> str:
    content: Iterable[str] = lesson.insights or filter(None, [lesson.reflection])
    return f"Episode {lesson.trial}: {lesson.report}\n{numbered(content)}"


EPISODE = """\
Task: {task}

An episode of it has ended. What was done, with the world's answers:
{turns}

How it went: {report}

What earlier episodes taught:
{earlier}

"""

REFLECTION = """\
Say in two or three sentences, as plain text and not as JSON, what kept the episode from a full score and what to do
otherwise next time.
"""

INSIGHTS = """\
Write what is now known about this world, for a next try at the same task: keep what still holds, correct what does
not. Each insight is one line in one of these forms, the capitals included:
X MAY BE NECESSARY to Y
X SHOULD BE NECESSARY to Y
X MAY CONTRIBUTE to Y
X DOES NOT CONTRIBUTE to Y
X and Y are concrete actions, things or places.
"""

STRATEGY = """\
Actions that were rewarded:
{rewarded}

Write the strategy for a next try at the same task: a few subtasks in order. Keep what earned reward or prepared it,
leave out detours and repetitions. A subtask says what is to be reached, not every action.
"""
