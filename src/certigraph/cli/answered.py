"""What a question of one's own came to, as lines or as the fields of a JSON object."""

from collections.abc import Iterator
from typing import Any

from pydantic import JsonValue
from rich.console import Console

from certigraph.evaluation.asking import Closing, Cost
from certigraph.evaluation.live.text import clean
from certigraph.evaluation.report.html import counted
from certigraph.evaluation.report.parts import clock
from certigraph.evaluation.report.words import answer_texts, contradiction
from certigraph.state.certified import Known
from certigraph.state.gathering import BY_GATE, BY_METHOD, BY_ROUNDS, BY_STEPS

FORCED = {
    BY_STEPS: "the steps were used up",
    BY_METHOD: "the plan was given up",
    BY_GATE: "the gate ended the search",
    BY_ROUNDS: "the rounds were used up",
}
"""What forced an answer, where it was no policy of that name."""

LONGEST = 4_000
"""Characters of one line: what a page or a model wrote has no end of its own."""


def print_closing(closing: Closing) -> None:
    """The answer, each finding with its sources, what nobody certified, the cost, and how to go on."""
    console = Console(highlight=False, soft_wrap=True, emoji=False)
    for line in closing_lines(closing):
        console.print(line, markup=False)


def closing_fields(closing: Closing) -> dict[str, Any]:
    """The same as JSON values."""
    findings = [{**k.finding.model_dump(), "certified": not k.forced, "forced": k.forced} for k in closing.findings]
    return {**closing.model_dump(mode="json"), "findings": findings}


def closing_lines(closing: Closing) -> Iterator[str]:
    """The summary, line by line."""
    yield from _answer(closing)
    for known in closing.findings:
        yield from _finding(known)
    yield from (clean(f"not settled: {step}", LONGEST) for step in closing.unsettled)
    yield f"cost: {_spent(closing.cost)}"
    yield f"run: {closing.run}"
    if closing.resume:
        yield f"go on with: {closing.resume}"


def delivered_lines(answer: JsonValue) -> Iterator[str]:
    """What a run handed in, a part a line; nothing where it handed in nothing."""
    if isinstance(answer, list) and all(isinstance(part, dict) for part in answer):
        for part in answer:
            told = "; ".join(f"{name}: {value}" for name, value in part.items())  # type: ignore[union-attr]
            yield clean(f"answer: {told}", LONGEST)
    elif not isinstance(answer, dict):  # an object is the world's own record, as of rewards, and nobody's answer
        yield from (f"answer: {clean(text, LONGEST)}" for text in answer_texts(answer) if text)


def _answer(closing: Closing) -> Iterator[str]:
    answers = [clean(text, LONGEST) for text in answer_texts(closing.answer) if text]
    if not answers:
        yield "no answer was given"
    elif closing.answer_certified:
        yield from (f"answer: {text}" for text in answers)
    else:
        reason = FORCED.get(closing.answer_forced, clean(closing.answer_forced))
        forced = f" ({reason})" if reason else ""
        yield from (f"answer, uncertified{forced}: {text}" for text in answers)


def _finding(known: Known) -> Iterator[str]:
    found = known.finding
    mark = f"uncertified ({known.forced})" if known.forced else "certified"
    yield clean(f"{mark}: {found.about} → {found.text}", LONGEST)
    yield from (f"  {clean(url, LONGEST)}" for url in found.sources)
    if told := contradiction(found):
        yield f"  {clean(told, LONGEST)}"


def _spent(cost: Cost) -> str:
    failed = f" ({cost.unreadable} unreadable)" if cost.unreadable else ""
    usd = f"${cost.usd:,.4f}" if 0 < cost.usd < 1 else f"${cost.usd:,.2f}"
    return ", ".join(
        [
            counted(cost.calls, "model call"),
            counted(cost.tokens, "token"),
            usd,
            f"{cost.searches:,} search{'' if cost.searches == 1 else 'es'}",
            f"{counted(cost.pages, 'page')} asked for{failed}",
            clock(cost.seconds),
        ]
    )
