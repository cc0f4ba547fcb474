"""Lessons between episodes (STEP section 3, CLIN, Reflexion): reading, writing and storing them.

`recall` reads lessons from LangGraph's store; `reflect` (Reflexion), `gain_insights` (CLIN) and `memorise` (STEP) write
them. After the last episode nothing is learned, unless a shared memory (`Context.memory`) keeps it for other runs.
"""

import math
import re
import time
import uuid
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from langgraph.config import get_config
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore, SearchItem
from pydantic import BaseModel

from certigraph.adapters.benchmarks import context_of, limits_of
from certigraph.adapters.models.calls import ask, ask_text, profile_of
from certigraph.adapters.models.prompts import (
    Prompt,
    build_prompt,
    bullet_list,
    format_action,
    format_history,
    numbered_list,
    quote,
    quote_history,
)
from certigraph.adapters.models.schemas import FirstReasoning, Truncated
from certigraph.adapters.processes import run_in_thread
from certigraph.adapters.protocols import Context
from certigraph.adapters.tools.memory import namespace_label
from certigraph.adapters.tools.world import Tools
from certigraph.nodes.slots import prefer_benchmark_operator
from certigraph.state.endings import GAVE_UP, GOAL, WORLD_ENDED, Fault
from certigraph.state.records import Task
from certigraph.state.run import Turn, count_repeats, without_thoughts
from certigraph.state.step import SHOWN_LESSONS, Lesson, RecallView, ReflectView, Trial

# Lessons in LangGraph's store, one item an episode.

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


async def no_lessons(state: RecallView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Begin the episode without lessons of other runs, so that no store is needed."""
    return {"lessons": tuple(state["lessons"])}


async def learn_nothing(state: ReflectView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Keep the lessons as they are after an episode."""
    return _keep_lessons(state)


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
    """Read every item of a namespace, page by page. The order depends on the store.

    Stores search by the beginning of a namespace, so that items of a longer one are left out.
    """
    # Collected by key, because items that another run writes in the meantime may move others to a later page.
    items, start = dict[str, SearchItem](), 0
    while True:
        # The blocking methods work for sync and async stores, if they are called from a worker thread.
        page = await run_in_thread(store.search, space, limit=PAGE_SIZE, offset=start)
        items |= {item.key: item for item in page if tuple(item.namespace) == space}
        if len(page) < PAGE_SIZE:
            return list(items.values())
        start += PAGE_SIZE


def _written_time(value: dict[str, Any]) -> float | None:
    written = value.get("written")
    return written if isinstance(written, (int, float)) else None


def namespace_of(task: Task, runtime: Runtime[Context]) -> Namespace:
    """Return the store's namespace for a task's lessons: one for each run, unless the context names a shared memory.

    That of an agent over tools begins with its name and the labels of `agent(lessons=...)`.

    Raises:
        Fault: ("data") the configuration of the run lacks a value for a label.
    """
    owner = [context_of(runtime).memory or _thread_id(runtime) or "run"]
    if template := _template_of(runtime):
        kept = task.constants.get(OWNER)  # whoever resumes a turn does not take it over
        owner = [*map(str, kept)] if isinstance(kept, list) else _fill(template)
    return tuple(map(namespace_label, ("lessons", *owner, task.benchmark, task.id)))


OWNER = "lessons"
"""Key in the constants of an agent's task: name and labels under which the turn keeps lessons."""


def _template_of(runtime: Runtime[Context]) -> Sequence[str]:
    """Return the name of an agent and the labels under which it keeps lessons; empty for every other run."""
    benchmark = context_of(runtime).benchmark
    return benchmark.lessons if isinstance(benchmark, Tools) else ()


def _fill(template: Sequence[str]) -> list[str]:
    configurable, filled = get_config().get("configurable", {}), list(template[:1])
    for label in template[1:]:
        field = PLACEHOLDER.fullmatch(label)
        value = configurable.get(field[1]) if field else label
        if not isinstance(value, str) or not value.strip():
            fix = f'a text that differs from user to user, config={{"configurable": {{"{label[1:-1]}": "..."}}}}'
            raise Fault("data", f"lessons are kept under {label}, which is {value!r:.50} in this run: give {fix}")
        filled.append(value)
    return filled


PLACEHOLDER = re.compile(r"\{(\w+)\}")
"""A label in whose place the configuration's value of that name is put, as in LangMem."""


def check_template(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the labels of a namespace of lessons, checked.

    Raises:
        TypeError: it is not a sequence of texts.
        ValueError: there is no label, one is empty, or one holds a brace and is not a single name in braces.
    """
    form = 'give labels such as ("{user_id}",), where {user_id} is a key of the configuration'
    if isinstance(labels, str) or not all(isinstance(label, str) for label in labels):
        raise TypeError(f"lessons={labels!r:.100} is not a sequence of texts: {form}")
    strange = [label for label in labels if not label or (set("{}") & set(label) and not PLACEHOLDER.fullmatch(label))]
    if strange or not labels:
        raise ValueError(f"lessons={tuple(labels)!r:.100} names no namespace: {form}")
    return tuple(labels)


def find_owner(runtime: Runtime[Context]) -> dict[str, Any]:
    """Return, when a turn begins, the constants of its task that say under which labels it keeps lessons.

    Empty for an agent that keeps none.

    Raises:
        Fault: ("operator") there is no store; ("data") the configuration lacks a value.
    """
    template = _template_of(runtime)
    if not template:
        return {}
    store_of(runtime)
    return {OWNER: _fill(template)}


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
    is_shared = context_of(runtime).memory or _template_of(runtime)
    return _thread_id(runtime) or (uuid.uuid4().hex if is_shared else "run")


def _thread_id(runtime: Runtime[Context]) -> str | None:
    return runtime.execution_info.thread_id if runtime.execution_info else None


def _to_lesson(value: dict[str, Any]) -> Lesson:
    return Lesson.model_validate({name: value[name] for name in Lesson.model_fields if name in value})


# The lessons of an episode: Reflexion's prose, CLIN's causal insights, STEP's insights and strategy.

SCORE_REPORTS = (
    (1.0, "The task was completed."),
    (0.9, "Nearly all of the task was done."),
    (0.5, "More than half of the task was done."),
    (0.2, "Some of the task was done."),
    (0.01, "Little of the task was done."),
    (-1.0, "No point was given, which does not say that every step was wrong."),
)
"""Pairs of a minimum score and the sentence that reports scores from it to the next higher one (CLIN)."""

ENDING_REPORTS = {
    "limit:steps": " It ended because all of its actions were used.",
    "limit:subtasks": " It ended because the number of its subtasks was used up.",
    WORLD_ENDED: " The world ended it.",
}
"""Ending of an episode -> the sentence that reports it."""

FATAL_REPORT = "The episode was lost by its last action, which must not be taken there."
"""Report of an episode with a negative raw score."""

FATAL_NOTE = "[This action lost the episode.]"
"""Note after the world's answer to the last action of such an episode."""


class Insights(BaseModel):
    """CLIN's causal abstractions. What is longer than asked for is cut, not refused."""

    reasoning: FirstReasoning = ""
    insights: Annotated[list[str], Truncated(60)]


class Strategy(BaseModel):
    """STEP's suggested strategy: subtasks in order."""

    reasoning: FirstReasoning = ""
    subtasks: Annotated[list[str], Truncated(60)]


@prefer_benchmark_operator
async def reflect(state: ReflectView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model what went wrong and what to do differently next time, in prose (Reflexion)."""
    if not _is_lesson_used(state, runtime):
        return _keep_lessons(state)
    instruction = REFLECTION_INSTRUCTION + WRITING_INSTRUCTION * any(turn.written for turn in state["turns"])
    prompt = await _episode_prompt(state, state["turns"], _format_earlier(state), instruction, runtime)
    text = await ask_text(prompt, role="memory", runtime=runtime)
    return await _store_and_return(state, runtime, reflection=text)


@prefer_benchmark_operator
async def gain_insights(state: ReflectView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the causal insights that hold after this episode; they replace the earlier ones (CLIN)."""
    if not _is_lesson_used(state, runtime):
        return _keep_lessons(state)
    return await _store_and_return(state, runtime, insights=await _ask_insights(state, runtime))


@prefer_benchmark_operator
async def memorise(state: ReflectView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for CLIN's insights, then for a strategy from them and the rewarded actions (STEP)."""
    if not _is_lesson_used(state, runtime):
        return _keep_lessons(state)
    insights = await _ask_insights(state, runtime)
    rewarded = [
        f"{format_action(turn)} [{100 * turn.reward:+.0f} points]" for turn in state["turns"] if turn.reward > 0
    ]
    earlier = state["lessons"][-1].strategy if state["lessons"] else ()
    shown = {"rewarded": quote(bullet_list(rewarded)), "earlier": quote(numbered_list(earlier))}
    instruction = STRATEGY_INSTRUCTION.format(**shown)
    learned = f"Learned from this episode and those before:\n{quote(numbered_list(insights))}"
    prompt = await _episode_prompt(state, without_thoughts(state["turns"]), learned, instruction, runtime)
    answer = await ask(prompt, Strategy, role="memory", runtime=runtime)
    return await _store_and_return(state, runtime, insights=insights, strategy=tuple(answer.subtasks))


def _is_lesson_used(state: ReflectView, runtime: Runtime[Context]) -> bool:
    """Return whether another episode may use what this one teaches.

    That is an episode of another run if they share a memory, and else the next one of this run, also if the run stops
    by a limit of the method first and is resumed.
    """
    trial, limits = state["trial"], limits_of(state["task"], runtime)
    follows = trial.ending != GOAL and (trial.number < limits.trials or trial.cut)
    return follows or bool(context_of(runtime).memory or _template_of(runtime))


def _keep_lessons(state: ReflectView) -> dict[str, Any]:
    return {"lessons": tuple(state["lessons"])}


async def _ask_insights(state: ReflectView, runtime: Runtime[Context]) -> tuple[str, ...]:
    turns = without_thoughts(state["turns"])
    prompt = await _episode_prompt(state, turns, _format_earlier(state), INSIGHTS_INSTRUCTION, runtime)
    answer = await ask(prompt, Insights, role="memory", runtime=runtime)
    return tuple(answer.insights)


async def _store_and_return(state: ReflectView, runtime: Runtime[Context], **content: Any) -> dict[str, Any]:
    trial = state["trial"]
    lesson = Lesson(trial=trial.number, report=format_report(trial), **content)
    await store_lesson(lesson, state["task"], runtime)
    return {"lessons": (*state["lessons"], lesson)}


def format_report(trial: Trial) -> str:
    """Format the result of an episode as two sentences (CLIN's evaluation report)."""
    value = trial.scores.value
    sentence = FATAL_REPORT if _is_lost(trial) else next(text for least, text in SCORE_REPORTS if value >= least)
    return f"Score {100 * value:.0f} of 100. {sentence}"


def _describe_ending(state: ReflectView) -> str:
    """Say what ended an episode that did not reach the goal, as far as the trace does not show it."""
    ending, repeats = state["trial"].ending, count_repeats(state["turns"])
    if ending == GAVE_UP and repeats > 1:
        return f" It was ended because {repeats} equal actions in a row had equal answers."
    return ENDING_REPORTS.get(ending, "")


def _is_lost(trial: Trial) -> bool:
    raw = trial.scores.parts.get("raw")
    return raw is not None and raw < 0


def _mark_fatal_action(turns: Sequence[Turn], trial: Trial) -> Sequence[Turn]:
    """Show the action that lost an episode as such, and not by points that contradict the episode's score."""
    if not turns or not _is_lost(trial):
        return turns
    last = turns[-1]
    lost = last.model_copy(update={"reward": 0.0, "observation": f"{last.observation.rstrip()} {FATAL_NOTE}"})
    return (*turns[:-1], lost)


async def _episode_prompt(
    state: ReflectView, turns: Sequence[Turn], earlier: str, instruction: str, runtime: Runtime[Context]
) -> Prompt:
    """Build a prompt about an episode that has ended: its trace, its result, what was known before, an instruction."""
    profile = await profile_of("memory", runtime)
    before = f"Task: {state['task'].goal}\n\n"
    report = format_report(state["trial"]) + _describe_ending(state)
    after = EPISODE_REPORT.format(report=report, earlier=earlier) + instruction
    turns = _mark_fatal_action(turns, state["trial"])
    history = format_history(turns, MEMORY_ROLE + before + after, profile, most_tokens=TRACE_TOKENS)
    if history.cut:  # rather all actions with their answers alone than the latest with what was in sight
        bare = [turn.model_copy(update={"seen": ""}) for turn in turns]
        history = format_history(bare, MEMORY_ROLE + before + after, profile, most_tokens=TRACE_TOKENS)
    shown = f"An episode has ended. What was done, with the world's answers:\n{quote_history(history)}\n\n"
    return build_prompt(runtime, before + shown + after, role=MEMORY_ROLE, cut=history.cut)


def _format_earlier(state: ReflectView) -> str:
    lessons = "\n".join(map(_format_lesson, state["lessons"])) or "(none)"
    return f"What earlier episodes taught, with how each went:\n{quote(lessons)}"


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

{earlier}

"""

REFLECTION_INSTRUCTION = """\
Say in two or three sentences, as plain text, what kept the episode from a full score, with the actions and things that
mattered, and what to do differently next time. Go by what the record shows, and call a guess a guess.
"""

WRITING_INSTRUCTION = """\
Where another action was taken than the one that was written, say how to write it so that the world takes what is meant.
"""

INSIGHTS_INSTRUCTION = """\
Write what is now known about this world and this task: keep what earlier episodes taught and this one did not
contradict, correct what it did. Learn from what the world answered and from when points were won or lost, and not from
what was intended. Where another action was taken than the one that was written, the insight is about the action that
was taken. Think first: which actions brought points or made later ones possible, which failed and why, where were
things found, and what ended the episode? Each insight is one line in one of these forms, the capitals included:
X MAY BE NECESSARY to Y - once X came before Y
X SHOULD BE NECESSARY to Y - X came before Y more than once, or Y failed without X
X MAY CONTRIBUTE to Y - X seemed to help
X DOES NOT CONTRIBUTE to Y - X was tried for Y and did not help, or did harm
X and Y are concrete actions, things or places, named as the world names them. The last form becomes a rule that later
actions are held against: use it for what was tried, and not for what was merely left out.
"""

STRATEGY_INSTRUCTION = """\
Strategy that this episode was given:
{earlier}

Actions that were rewarded:
{rewarded}

Write the strategy for a next try at the same task: subtasks in the order of the task. Think first: how far did the
episode come, what earned reward or prepared it, what was a detour, and what was missing for a full score? Keep the
first, leave out the second, and add the third, with the names and places that are known by now. A subtask says what is
to be reached, not every action.
"""
