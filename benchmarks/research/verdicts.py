"""Validate of SDP's operators for research (SDP appendix A.4): findings from evidence, and verdicts.

`judge_observation` returns the verdict on an observation. The module also has what all of the operators' prompts share:
the sizes of their parts, and their opening.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from langgraph.runtime import Runtime

from certigraph.adapters.models.calls import ask, profile_of
from certigraph.adapters.models.profiles import CHARACTERS_PER_TOKEN
from certigraph.adapters.models.prompts import (
    Prompt,
    build_prompt,
    bullet_list,
    clip,
    one_line,
    quote,
    unquote_line,
)
from certigraph.adapters.protocols import Context
from certigraph.adapters.retrieval.bm25 import words
from certigraph.benchmarks.qa.operators import answer_problem, find_unseen_quotes
from certigraph.benchmarks.research import plans
from certigraph.benchmarks.research.findings import (
    format_findings,
    format_judged,
    format_partial_findings,
    items_problem,
    resolve_items,
)
from certigraph.benchmarks.research.plans import (
    GOAL,
    Adequacy,
    AnswerCheck,
    Found,
    Quotation,
    Shown,
    goal_of,
    is_step,
)
from certigraph.benchmarks.research.world import SOURCE_NUMBER
from certigraph.state.certified_states import KnownFinding
from certigraph.state.records import Finding, Observation, Predicate, Task, Verdict
from certigraph.state.run import Turn
from certigraph.state.sdp import ValidateView
from certigraph.state.search import COMPUTE, FILTER, findings_of

# Sizes of the parts of prompts, by the context window of the model.

RESULTS_SHARE, EVIDENCE_SHARE, FINDINGS_SHARE, PAGES_SHARE = 4, 2, 4, 3
"""One part in so many of a prompt may be search results, the evidence of one step, earlier findings, and the pages that
were read for all steps."""


class PromptSizes(NamedTuple):
    """Maximum characters of parts of a prompt: findings, search results, and the pages that were read."""

    findings: int
    results: int
    pages: int


async def prompt_sizes(role: str, runtime: Runtime[Context]) -> PromptSizes:
    """Return the sizes for a role's model."""
    characters = int((await profile_of(role, runtime)).prompt_tokens * CHARACTERS_PER_TOKEN)
    return PromptSizes(*(characters // share for share in (FINDINGS_SHARE, RESULTS_SHARE, PAGES_SHARE)))


async def evidence_characters(runtime: Runtime[Context]) -> int:
    """Return how many characters of sources the extractor and the validator can read."""
    tokens = min([(await profile_of(role, runtime)).prompt_tokens for role in ("extractor", "validator")])
    return int(tokens * CHARACTERS_PER_TOKEN) // EVIDENCE_SHARE


def build_research_prompt(runtime: Runtime[Context], instruction: str, role: str, *, cut: Sequence[str] = ()) -> Prompt:
    """Build a prompt of an operator, which writes no actions as text: `plans.WEB` replaces the benchmark's briefing."""
    return build_prompt(runtime, instruction, role=role, briefing=plans.WEB, cut=cut)


# Numbers in a finding that no source shows: the part of a finding's support that can be checked without a model.

NUMBER_PATTERN = re.compile(r"\d+(?:[.,]\d+)*")
"""A number in a text."""


def find_unseen_numbers(text: str, shown: Iterable[str]) -> list[str]:
    """Return the numbers in a text that occur in none of the texts in `shown`.

    Numbers are compared by value: 1,010 equals 1010, 07 equals 7, and 4.50 equals 4.5.
    """
    seen = {_normalise_number(number) for shown_text in shown for number in NUMBER_PATTERN.findall(shown_text)}
    seen |= {_normalise_number(part) for shown_text in shown for part in re.findall(r"\d+", shown_text)}
    return [number for number in dict.fromkeys(NUMBER_PATTERN.findall(text)) if _normalise_number(number) not in seen]


def _normalise_number(number: str) -> str:
    integer, point, fraction = number.replace(",", "").partition(".")
    return (integer.lstrip("0") or "0") + (point + fraction).rstrip("0").rstrip(".")


# Validate (SDP Eq. 3) for research: a finding from the evidence, a verdict on it, and a check of answers.
#
# The node `act` runs the tools; the observation has their results, and the earlier findings that the action contained.
# The model names the sources of a finding by number, so that it cannot cite a page that was not shown. Sources that
# contradict a finding are stored with it.

NO_SOURCE = "no source at hand and no finding before it bears this out"

EMPTY_PATTERN = re.compile(r"[\s\[\]{}\"',.:;-]*")
"""An answer that consists of brackets and punctuation only."""


async def judge_observation(state: ValidateView, runtime: Runtime[Context], *, checks_answers: bool = True) -> Verdict:
    """Return the verdict on an observation, whose `data` contains the arguments of the action.

    Args:
        state: what Validate reads.
        runtime: the run's LangGraph runtime.
        checks_answers: whether a model checks an answer against the findings.
    """
    observation, target = state["observation"], state["tail"][0]
    if target.kind == GOAL:
        delivered = Verdict(
            depth=int(observation.accepted and observation.done),
            reason="an answer is handed in once",
            decided_by="code",
        )
        return _mark_forced(delivered, findings_of(observation.data))
    if not observation.accepted:
        return Verdict(depth=0, reason=" ".join(observation.text.split()), decided_by="code")
    if is_step(target):
        return await _judge_step(state["task"], target, observation, runtime)
    return await _judge_answer(state, checks_answers, runtime)


async def _judge_step(task: Task, target: Predicate, observation: Observation, runtime: Runtime[Context]) -> Verdict:
    known = findings_of(observation.data)
    finding, problem = await _ask_finding(task, target, observation, known, runtime)
    if rejected := weakness_of(finding) or problem or ("" if finding.sources else NO_SOURCE):
        return Verdict(depth=0, reason=rejected, finding=finding, decided_by="code")
    answer = await _ask_adequacy(task, target, finding, observation, runtime)
    verdict = Verdict(
        depth=int(answer.adequate),
        reason=name_sources(answer.reason, observation.sources),
        evidence=" | ".join(finding.quotes) or finding.sources[0],
        decided_by="model",
        finding=finding,
    )
    derived = target.kind in (FILTER, COMPUTE) or not {*finding.sources} & {*observation.sources}
    return _mark_forced(verdict, known) if derived else verdict


_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+")


def finding_weakness(text: str) -> str:
    """Return the reason why a text establishes nothing; empty if at least one of its sentences may.

    A finding on several things may say of one of them that nothing was found.
    """
    reasons = [answer_problem(sentence) for sentence in _SENTENCE_END.split(text) if sentence.strip()]
    return reasons[0] if reasons and all(reasons) else ""


def weakness_of(finding: Finding) -> str:
    """Return the reason why a finding establishes nothing; empty if it has an item, or a sentence that may."""
    if finding.items:
        return ""
    return finding_weakness(finding.text) if finding.text else "nothing was established"


class _Extracted(NamedTuple):
    """A finding, and the reason if the words quoted for it are in no source."""

    finding: Finding
    problem: str


async def _ask_finding(
    task: Task, target: Predicate, observation: Observation, known: Sequence[KnownFinding], runtime: Runtime[Context]
) -> _Extracted:
    """Ask the model what the evidence establishes for a step, and return it as a finding.

    The model quotes the sources that it cites: a source counts only with words that are in it. Of a list it gives every
    item with a source and words of that.
    """
    sizes = await prompt_sizes("extractor", runtime)
    earlier, evidence = format_findings(known, sizes.findings), observation.text
    partial = format_partial_findings(observation.data.get("tries"))
    instruction = plans.FIND.format(
        task=task.goal,
        known=earlier.text,
        evidence=quote(evidence, len(evidence)),
        kind=target.kind,
        goal=goal_of(target),
        partial=partial and plans.PARTIAL.format(partial=partial),
    )
    cut = (*earlier.cut, *_page_cuts(observation))
    prompt = build_research_prompt(runtime, instruction, plans.EXTRACTOR, cut=cut)
    answer = await ask(prompt, Found, role="extractor", runtime=runtime)
    finding = _to_finding(answer, goal_of(target), observation.sources, known)
    listed = items_problem(answer.items, source_texts(observation.text), known, derived=target.kind == COMPUTE)
    return _Extracted(finding, listed or _quotes_problem(answer, observation))


def _to_finding(answer: Found, about: str, shown: Sequence[str], known: Sequence[KnownFinding]) -> Finding:
    """Convert an extractor's answer to a finding.

    Args:
        answer: the answer, which names sources by number.
        about: goal of the step.
        shown: URLs of the sources, in order.
        known: the findings so far. If the answer cites no source, those of its items are taken, else all of theirs.
    """
    cited = _sources_by_number([*answer.supported_by, *(item.source for item in answer.items)], shown)
    # a source that supports one part may dispute another one; `dispute` then tells what
    disputed = unquote_line(answer.dispute)
    against = [url for url in _sources_by_number(answer.contradicted_by, shown) if disputed or url not in cited]
    items = resolve_items(answer.items, shown, known)
    kept = dict.fromkeys(item.source for item in items if item.source and item.source not in against)
    earlier = dict.fromkeys(url for one in known for url in one.finding.sources if url not in against)
    text, missing = (name_sources(unquote_line(part), shown) for part in (answer.finding, answer.missing))
    text = text or (f"A list of {len(items)} items" if items else "")
    return Finding(
        about=about,
        text=f"{text} (not established: {missing})" if text and missing else text,
        sources=tuple(cited or kept or earlier),
        against=tuple(against),
        dispute=name_sources(disputed, shown) if against else "",
        quotes=_format_quotes(answer.quotes, shown),
        items=items,
    )


NUMBERED_SOURCE = re.compile(r"\[(\d{1,3})\]")
"""Matches a source that a sentence names by its number, such as [3]."""


def name_sources(text: str, sources: Sequence[str]) -> str:
    """Replace the numbers of sources in a text, such as [3], by their URLs: other prompts number them differently."""

    def name(found: re.Match[str]) -> str:
        number = int(found[1])
        return f"[{sources[number - 1]}]" if 1 <= number <= len(sources) else found[0]

    return NUMBERED_SOURCE.sub(name, text)


def _quotes_problem(answer: Found, observation: Observation) -> str:
    """Return why the quotations do not show that the cited sources support the finding; empty if they do."""
    texts = source_texts(observation.text)
    for quoted in answer.quotes:
        if find_unseen_quotes([quoted.words], texts.get(quoted.source, "")):
            known = 1 <= quoted.source <= len(observation.sources)
            place = observation.sources[quoted.source - 1] if known else f"a source {quoted.source}"
            return f"the words {quoted.words!r}, quoted for it, are not in {place}"
    valid = {number for number in answer.supported_by if 1 <= number <= len(observation.sources)}
    quoted_sources = {one.source for one in answer.quotes if words(one.words)}
    quoted_sources |= {item.source for item in answer.items if words(item.words)}
    if valid and not valid & quoted_sources:
        return "no words of the sources that it cites were quoted for it"
    return ""


def source_texts(text: str) -> dict[int, str]:
    """Return the text of each source in an observation by its number."""
    starts = [*SOURCE_NUMBER.finditer(text)]
    ends = [*(match.start() for match in starts), len(text)][1:]
    return {int(match[1]): text[match.end() : end] for match, end in zip(starts, ends, strict=True)}


def read_pages(turns: Iterable[Turn]) -> list[str]:
    """Return the pages that the steps of a plan read, each excerpt once, in the order of reading."""
    texts = chain.from_iterable(source_texts(turn.observation).values() for turn in turns)
    return [*dict.fromkeys(text.strip() for text in texts if _is_page(text))]


def format_pages(turns: Iterable[Turn], most: int) -> Shown:
    """Format the pages that the steps of a plan read; the first ones are left out beyond `most` characters."""
    pages = read_pages(turns)
    count, length = len(pages), sum(len(page) + 2 for page in pages)
    while len(pages) > 1 and length > most:
        length -= len(pages.pop(0)) + 2
    text = clip("\n\n".join(pages), most)
    left_out = f"the first {count - len(pages)} of {count} pages that were read"
    cut = [left_out] if len(pages) < count else []
    cut += ["the end of the latest page"] if pages and length > most else []
    return Shown("".join(f"({part} is left out)\n" for part in cut) + (quote(text, most) if text else ""), (*cut,))


def _is_page(text: str) -> bool:
    """Return whether the text of a source is a page: a search result is one line, which notes may follow."""
    return "\n" in text.strip() and (text.endswith("\n") or "\n\n" in text)


def _format_quotes(quotes: Sequence[Quotation], sources: Sequence[str]) -> tuple[str, ...]:
    return tuple(
        f"{one_line(quoted.words)!r} ({sources[quoted.source - 1]})"
        for quoted in quotes
        if 1 <= quoted.source <= len(sources) and words(quoted.words)
    )


def _page_cuts(observation: Observation) -> tuple[str, ...]:
    excerpts = observation.data.get("excerpts")
    count = len(excerpts) if isinstance(excerpts, list) else 0
    return (f"paragraphs of {count} long pages",) if count else ()


async def _ask_adequacy(
    task: Task, target: Predicate, finding: Finding, observation: Observation, runtime: Runtime[Context]
) -> Adequacy:
    """Ask the model whether a finding settles a step by the sources that were looked up for it."""
    known, sizes = findings_of(observation.data), await prompt_sizes("validator", runtime)
    earlier = format_findings(known, sizes.findings)
    shown = [task.goal, goal_of(target), observation.text, *(one.finding.whole for one in known)]
    # a list is counted, which no source does
    shown += [str(len(finding.items))] if finding.items else []
    unseen = [] if target.kind == COMPUTE else find_unseen_numbers(finding.whole, shown)
    evidence, judged = quote(observation.text, len(observation.text)), format_judged(finding)
    rests_on = bullet_list(finding.sources)
    instruction = plans.JUDGE.format(
        task=task.goal,
        kind=target.kind,
        goal=goal_of(target),
        known=earlier.text,
        evidence=evidence,
        finding=quote(judged, len(judged)),
        unseen=f"Numbers in it that nothing shown has: {', '.join(unseen)}\n" if unseen else "",
        sources=quote(rests_on, len(rests_on)),
        dispute=f"Some sources say otherwise: {quote(finding.dispute)}\n" if finding.dispute else "",
    )
    cut = (*earlier.cut, *_page_cuts(observation))
    prompt, about = build_research_prompt(runtime, instruction, plans.VALIDATOR, cut=cut), {"finding": finding}
    return await ask(prompt, Adequacy, role="validator", runtime=runtime, about=about)


async def _judge_answer(state: ValidateView, checks_answers: bool, runtime: Runtime[Context]) -> Verdict:
    """Return the verdict on an answer. An accepted answer also certifies the goal if that is the next predicate.

    In SDP (appendix A.4) only weak answers are refused, by their words. These cannot decide whether an answer follows
    from the findings, so that is left to them in the paper's configuration only.
    """
    task, tail, observation = state["task"], state["tail"], state["observation"]
    answer, known = str(observation.data.get("answer") or "").strip(), findings_of(observation.data)
    if problem := answer_weakness(answer):
        return Verdict(depth=0, reason=problem, decided_by="code")
    depth = 1 + (len(tail) > 1 and tail[1].kind == GOAL)
    if not checks_answers:
        verdict = Verdict(depth=depth, reason="no check speaks against it", decided_by="code")
        return _mark_forced(verdict, known)
    sizes = await prompt_sizes("validator", runtime)
    findings, shown = format_findings(known, sizes.findings), quote(answer, len(answer))
    instruction = plans.CHECK_ANSWER.format(task=task.goal, known=findings.text, answer=shown)
    prompt = build_research_prompt(runtime, instruction, plans.VALIDATOR, cut=findings.cut)
    check = await ask(prompt, AnswerCheck, role="validator", runtime=runtime)
    if not check.consistent:
        reason = check.reason or "it does not follow from what was found"
        return Verdict(depth=0, reason=reason, decided_by="model")
    evidence = " | ".join(one.finding.whole for one in known)
    return _mark_forced(Verdict(depth=depth, reason=check.reason, evidence=evidence, decided_by="model"), known)


def answer_weakness(answer: str) -> str:
    """Return the reason why an answer is weak: it is empty, or says that nothing was found. Else the text is empty."""
    return "it is empty" if EMPTY_PATTERN.fullmatch(answer) else answer_problem(answer)


def _mark_forced(verdict: Verdict, known: Sequence[KnownFinding]) -> Verdict:
    """Mark a verdict as forced if one of the findings in `known`, on which it is based, was forced.

    What rests on an uncertified finding is not certified either.
    """
    forced = next((item.forced for item in known if item.forced), "")
    if not (forced and verdict.depth):
        return verdict
    return verdict.model_copy(
        update={"forced": forced, "reason": f"it rests on an uncertified finding; {verdict.reason}"}
    )


def _sources_by_number(numbers: Sequence[int], sources: Sequence[str]) -> list[str]:
    """Return the sources with these numbers, counted from 1; ignore invalid numbers."""
    return [sources[number - 1] for number in dict.fromkeys(numbers) if 1 <= number <= len(sources)]
