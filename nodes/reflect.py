"""What an episode teaches: Reflexion's prose, CLIN's causal insights, STEP's insights and strategy."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel

from certigraph.adapters.bounds import Cut, Within
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask, ask_text
from certigraph.adapters.prompting import clipped, listed, numbered, prompt, quoted, shown
from certigraph.nodes.recall import keep
from certigraph.nodes.special import specialised
from certigraph.state.acting import Turn, acts
from certigraph.state.lessons import Lesson, ReflectView, Trial

MOST_TURNS = 60

MOST_EPISODE = 6_000
"""Characters of an episode in a prompt, its end rather than its beginning: with the lessons before, 3,000 tokens."""

MOST_REFLECTION = 600
MOST_INSIGHT = 160
MOST_SUBTASK = 120

BANDS = (
    (1.0, "The task was completed."),
    (0.9, "Nearly all of the task was done."),
    (0.5, "More than half of the task was done."),
    (0.2, "Some of the task was done."),
    (0.01, "Little of the task was done."),
    (-1.0, "Nothing that counts was done."),
)
FATAL = "The episode was lost by an action that must not be taken."


class Insights(BaseModel):
    """CLIN's causal abstractions. What is longer than asked for is cut, not refused."""

    insights: Annotated[list[Annotated[str, Within(MOST_INSIGHT)]], Cut(12)]


class Strategy(BaseModel):
    """STEP's suggested strategy: subtasks in order."""

    subtasks: Annotated[list[Annotated[str, Within(MOST_SUBTASK)]], Cut(10)]


@specialised
async def reflect(state: ReflectView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Reflexion: what went wrong and what to do otherwise, in prose."""
    question = EPISODE.format(**_episode(state, state["turns"]), earlier=_earlier(state)) + REFLECTION
    text = await ask_text(prompt(runtime, question), role="memory", runtime=runtime)
    return await _learnt(state, runtime, reflection=clipped(text, MOST_REFLECTION))


@specialised
async def gain_insights(state: ReflectView, runtime: Runtime[Context]) -> dict[str, Any]:
    """CLIN: the causal insights that hold after this episode, in place of those before it."""
    return await _learnt(state, runtime, insights=await _insights(state, runtime))


@specialised
async def memorise(state: ReflectView, runtime: Runtime[Context]) -> dict[str, Any]:
    """STEP: CLIN's insights, and a strategy made of the episode's subtasks and rewarded actions."""
    insights = await _insights(state, runtime)
    rewarded = [turn.action for turn in state["turns"] if turn.reward > 0]
    question = EPISODE.format(**_episode(state, acts(state["turns"])), earlier="(none)") + STRATEGY.format(
        rewarded=quoted(listed(rewarded))
    )
    answer = await ask(prompt(runtime, question), Strategy, role="memory", runtime=runtime)
    strategy = tuple(clipped(text, MOST_SUBTASK) for text in answer.subtasks)
    return await _learnt(state, runtime, insights=insights, strategy=strategy)


async def _insights(state: ReflectView, runtime: Runtime[Context]) -> tuple[str, ...]:
    question = EPISODE.format(**_episode(state, acts(state["turns"])), earlier=_earlier(state)) + INSIGHTS
    answer = await ask(prompt(runtime, question), Insights, role="memory", runtime=runtime)
    return tuple(clipped(text, MOST_INSIGHT) for text in answer.insights)


async def _learnt(state: ReflectView, runtime: Runtime[Context], **taught: Any) -> dict[str, Any]:
    trial = state["trial"]
    lesson = Lesson(trial=trial.number, report=report(trial), **taught)
    await keep(lesson, state["task"], runtime)
    return {"lessons": (*state["lessons"], lesson)}


def report(trial: Trial) -> str:
    """How an episode went, in a sentence (CLIN's evaluation report)."""
    value, raw = trial.scores.value, trial.scores.parts.get("raw")
    told = FATAL if raw is not None and raw < 0 else next(text for least, text in BANDS if value >= least)
    return f"Score {100 * value:.0f} of 100. {told}"


def _episode(state: ReflectView, turns: Sequence[Turn]) -> dict[str, str]:
    told = shown(turns, most=MOST_TURNS, characters=80, within=MOST_EPISODE)
    return {"task": state["task"].goal, "turns": quoted(told), "report": report(state["trial"])}


def _earlier(state: ReflectView) -> str:
    return "\n".join(_told(lesson) for lesson in state["lessons"]) or "(none)"


def _told(lesson: Lesson) -> str:
    learnt: Iterable[str] = lesson.insights or filter(None, [lesson.reflection])
    return f"Episode {lesson.trial}: {lesson.report}\n{numbered(learnt)}"


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
