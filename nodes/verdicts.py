"""The question that SDP's operators ask a model about progress: how many conditions of the plan hold by now."""

import re
from collections.abc import Sequence
from typing import Annotated, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.models.calls import ask, profile_of
from certigraph.adapters.models.prompts import (
    Prompt,
    build_prompt,
    format_facts,
    format_history,
    format_view,
    numbered_list,
    one_line,
    paragraphs,
    quote,
    quote_history,
    unquote_line,
    view_repeats_answers,
)
from certigraph.adapters.models.schemas import Reasoning, Requested
from certigraph.adapters.models.scripts import collect_citations
from certigraph.adapters.protocols import Context
from certigraph.state.records import CHECK, Predicate, Verdict
from certigraph.state.run import Turn
from certigraph.state.sdp import ValidateView

MAX_JUDGED_CONDITIONS, MAX_PLAIN_CONDITIONS = 100, 10
"""Maximum number of conditions in a prompt, and in the SDP paper's; if more hold at once, they take two steps."""


VerdictForm = Literal["claimed", "full", "plain"]


class Holds(BaseModel):
    """Answer schema for a verdict as in the SDP paper: a reason, and how many conditions hold."""

    reason: Reasoning
    holds: int = Field(ge=0, le=MAX_PLAIN_CONDITIONS, strict=True)


class ClaimedHolds(BaseModel):
    """Answer schema for a verdict on what an agent claims: a reason, what it rests on, since when how many hold."""

    reason: Reasoning
    evidence: Annotated[str, Requested] = ""
    reachable: Annotated[bool, Requested] = True
    holds: int = Field(ge=0, le=MAX_JUDGED_CONDITIONS, strict=True)
    since: Annotated[list[int], Requested] = []


class FullHolds(BaseModel):
    """Answer schema for a verdict: a reason, what it rests on, what else was learned, how many conditions hold."""

    reason: Reasoning
    evidence: Annotated[str, Requested] = ""
    established: Annotated[list[str], Requested] = []
    outdated: Annotated[list[int], Requested] = []
    reachable: Annotated[bool, Requested] = True
    holds: int = Field(ge=0, le=MAX_JUDGED_CONDITIONS, strict=True)


async def ask_verdict(
    state: ValidateView,
    runtime: Runtime[Context],
    *,
    tail: Sequence[Predicate] | None = None,
    notes: str = "",
    form: VerdictForm = "claimed",
) -> Verdict:
    """Ask a model how many of the plan's next conditions hold now, counted from the target on without a gap.

    Args:
        state: the view of Validate.
        runtime: the run's runtime.
        tail: the conditions to be judged; None for the rest of the plan.
        notes: what the world reports besides its answer, such as the score.
        form: what is asked: `claimed` is about what the agent claims, which notes itself what it learned; `full` also
            asks what was learned; `plain` is that of the SDP paper: a reason and a count, by the last action and its
            answer alone.
    """
    judged = (state["tail"] if tail is None else tail)[:MAX_JUDGED_CONDITIONS]
    with collect_citations() as cited:
        if form == "plain":
            verdict = await _ask_plain_verdict(state, judged[:MAX_PLAIN_CONDITIONS], notes, runtime)
        else:
            prompt = await _verdict_prompt(state, judged, notes, form, runtime)
            schema: type[ClaimedHolds | FullHolds] = FullHolds if form == "full" else ClaimedHolds
            answer = await ask(prompt, schema, role="validator", runtime=runtime)
            verdict = _to_verdict(answer, len(judged), state)
    return verdict.model_copy(update={"decided_by": "oracle", "evidence": cited[-1]}) if cited else verdict


def _to_verdict(answer: ClaimedHolds | FullHolds, most: int, state: ValidateView) -> Verdict:
    # Evidence that the world did not show is not evidence.
    turns = state["trace"] if isinstance(answer, ClaimedHolds) else state["turns"]
    shown = (state["evidence"].view, *(text for turn in turns for text in (turn.observation, turn.seen)))
    facts, depth = dict(enumerate(state["facts"], 1)), min(answer.holds, most)
    verdict = Verdict(
        depth=depth,
        reason=answer.reason,
        evidence=_select_quotations(answer.evidence, shown),
        decided_by="model",
        unreachable=not answer.reachable and answer.holds < most,
    )
    if isinstance(answer, ClaimedHolds):
        return verdict.model_copy(update={"since": _read_since(answer.since[:depth], state)})
    return verdict.model_copy(
        update={
            "facts": tuple(filter(None, map(unquote_line, answer.established))),
            "outdated": tuple(facts[number].text for number in answer.outdated if number in facts),
        }
    )


def _read_since(numbers: Sequence[int], state: ValidateView) -> tuple[int, ...]:
    return tuple(number if 0 < number <= len(state["trace"]) else 0 for number in numbers)


def _select_quotations(evidence: str, shown: Sequence[str]) -> str:
    """Return the words that the world showed; of several passages, those that it showed."""
    texts = [one_line(text).lower() for text in shown]
    for passages in ([evidence], evidence.splitlines(), re.split(r"[;\n]|\.\.\.", evidence)):
        quoted = [one_line(passage).strip("\"' ") if len(passages) > 1 else one_line(passage) for passage in passages]
        if found := [one for one in quoted if one and any(one.lower() in text for text in texts)]:
            return " ... ".join(found)
    return ""


async def _ask_plain_verdict(
    state: ValidateView, judged: Sequence[Predicate], notes: str, runtime: Runtime[Context]
) -> Verdict:
    question = PLAIN_VERDICT_QUESTION.format(
        task=state["task"].goal,
        conditions=numbered_list(p.text for p in judged),
        action=quote(state["action"].text),
        observation=quote(state["observation"].text),
        notes=notes.strip() and f"{notes.strip()}\n",
    )
    prompt = build_prompt(runtime, question, role=VALIDATOR)
    answer = await ask(prompt, Holds, role="validator", runtime=runtime)
    return Verdict(depth=min(answer.holds, len(judged)), reason=answer.reason, decided_by="model")


async def _verdict_prompt(
    state: ValidateView, judged: Sequence[Predicate], notes: str, form: VerdictForm, runtime: Runtime[Context]
) -> Prompt:
    """Return the prompt for a verdict.

    Args:
        state: the view of Validate.
        judged: the conditions to be judged.
        notes: what the world reports besides its answer.
        form: `claimed` or `full`, as for `ask_verdict`.
        runtime: the run's runtime.
    """
    profile, view = await profile_of("validator", runtime), state["evidence"].view
    question = VERDICT_QUESTION.format(learned=LEARNED if form == "full" else "", since="" if form == "full" else SINCE)
    before = paragraphs(question, f"Task, for orientation: {state['task'].goal}")
    facts = format_facts(state["facts"]) if form == "full" else ""  # else they are words of the agent that is judged
    turns = state["turns"] if form == "full" else state["trace"]
    conditions = f"Conditions, in order; the first one is the target:\n{numbered_list(p.text for p in judged)}"
    if later := len(state["tail"]) - len(judged):
        conditions += f"\n(The plan has {later} more after these, not judged here.)"
    world = format_view(view, runtime, turns=turns, profile=profile) if view else ""
    if view and view_repeats_answers(runtime):  # it only grows
        before = paragraphs(before, f"{ALL_ANSWERS}:\n{quote(view)}")
        turns = [_without_shown_answer(turn, view) for turn in turns]
    closing = _closing_of(judged)
    if state["action"].kind == CHECK:
        notes = paragraphs(notes, CLAIM.format(action=quote(state["action"].text)))
    rest = paragraphs(VALIDATOR, before, facts, conditions, world, notes, closing)
    history = format_history(turns, rest, profile)
    heading = WINDOW_HEADING if form == "full" else TRACE_HEADING.format(first=len(turns) - len(state["turns"]) + 1)
    shown = f"{heading}\n{quote_history(history)}"
    request = paragraphs(before, facts, conditions, shown, world, notes, closing)
    return build_prompt(runtime, request, role=VALIDATOR, cut=history.cut)


def _closing_of(judged: Sequence[Predicate]) -> str:
    if not judged:
        return ""
    return (VERDICT_CLOSING if len(judged) > 1 else TARGET_CLOSING).format(target=judged[0].text)


def _without_shown_answer(turn: Turn, view: str) -> Turn:
    lines = [line.strip() for line in turn.observation.splitlines() if line.strip()]
    is_shown = lines and all(line in view for line in lines)  # answers to several calls stand apart in the view
    return turn.model_copy(update={"observation": SHOWN_ABOVE}) if is_shown else turn


SHOWN_ABOVE = "(stands above)"
"""Text in place of an answer that a prompt shows above."""

ALL_ANSWERS = "All answers so far, in their order; what an earlier one says may have changed since"
"""Heading of a view that consists of the answers."""

VALIDATOR = """\
You check progress in a world that you know by text alone. You get the conditions of a plan in the order in which they
should come true, what was done last, and what the world answered. Judge by what the world shows, and by what it showed
before where nothing since has changed it. That an action was meant to achieve something is no evidence that it did;
where an answer says that an action was carried out, the action's own words show what was done. A condition that you
count is taken as proven from then on, so count none that is merely likely."""

PLAIN_VERDICT_QUESTION = """\
Count how many of the conditions below hold now, from the first one on, without a gap. If the first one does not hold,
the count is 0.

Task, for orientation: {task}

Conditions, in order; the first one is the target:
{conditions}

The last action:
{action}
The world answered:
{observation}
{notes}
How many of the conditions hold now?
"""

WINDOW_HEADING = "The latest actions, which are to be judged, and the world's answers:"

TRACE_HEADING = "Actions and the world's answers, the latest last; those from {first} on have not been judged:"

CLAIM = "In place of an action the agent says, which the answers have to bear out:\n{action}"

TARGET_CLOSING = "Target: {target}\nDoes it hold?"
VERDICT_CLOSING = "Target: {target}\nDoes it hold, and which of the conditions after it hold too?"

VERDICT_QUESTION = """\
Give, in this order:
- reason: what the world shows about the target, then about each condition after it as far as they hold too. A condition
  may hold for longer already; what was met on the way counts too. Draw the plain conclusions: what is inside a thing
  goes where the thing goes, and what the world lists in a place is there. Name conditions by their words: others who
  read this number them differently.
- evidence: the words of the world, copied exactly (its line breaks and spaces do not matter), that show each condition
  that you count, each passage on a line of its own; empty if the target does not hold.
{learned}\
- reachable: false only if the world showed that the first condition that does not hold cannot come true any more as it
  is worded: what it names does not exist or is broken, or a way to it is closed for good. Then the rest is planned
  again. Otherwise true.
- holds: how many conditions have come true by now, counted from the target on without a gap; 0 if the target has not.
  One about something that happens and passes (was read, was sent, was in focus) counts once it has been shown that it
  happened; one about how things are has to hold now, or to have given way to a later one of the conditions that has
  come true.
{since}"""

LEARNED = """\
- established: what the answers show that later steps may need when it is out of sight: exact names, figures, contents,
  places, what is done, what is missing or broken. One short statement each, as it is now; an empty list if there is
  nothing new.
- outdated: the numbers of the established facts below that are no longer true.
"""

SINCE = """\
- since: for each of the conditions that you count, in their order, the number of the action after which it first held.
"""
