"""SDP's operators for research on the web (appendix A.4): plans, searches, findings, verdicts, forced answers."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langgraph.runtime import Runtime
from pydantic import JsonValue

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.models.calls import ask
from certigraph.adapters.models.prompts import build_prompt, bullet_list, clip, format_turns, quote, unquote_line
from certigraph.adapters.protocols import Context, Operator
from certigraph.adapters.qa.operators import answer_problem
from certigraph.adapters.research import plans
from certigraph.adapters.research.plans import (
    FORCE_ACCEPT,
    FORCE_PASS,
    GOAL,
    MAX_PAGES,
    MAX_QUERIES,
    Adequacy,
    Answers,
    Found,
    Tools,
    closing_predicates,
    create_decomposition_form,
    format_failures,
    format_findings,
    format_results,
    goal_of,
    is_step,
    step_predicate,
    unread_urls,
)
from certigraph.adapters.research.world import SOURCE_NUMBER
from certigraph.state.records import Action, Finding, Observation, Predicate, Task, Verdict, parse_json
from certigraph.state.run import ANSWER, KnownFinding, shown_advice
from certigraph.state.sdp import ProposeView, RealizeView, SDPReplanView, ValidateView
from certigraph.state.search import (
    COMPUTE,
    EXTRACT,
    FILTER,
    AnswerView,
    findings_of,
    note_answer,
    research_step,
    submit_answer,
    unique_texts,
)

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


# Propose and Replan (SDP Eqs. 1 and 4) for research: narrowing steps, then other queries and unread pages.


async def propose_plan(state: ProposeView, runtime: Runtime[Context]) -> list[Predicate]:
    """Ask the model for a plan: one predicate per step, then those of the answer and the goal.

    If the model gives no step, the question itself is the only one.
    """
    task = state["task"].goal
    most = limits_of(state["task"], runtime).subqueries
    instruction = plans.DECOMPOSE.format(task=task, most=most)
    answer = await ask(
        build_prompt(runtime, instruction), create_decomposition_form(most), role="planner", runtime=runtime
    )
    steps = [(str(step.kind), goal) for step in answer.steps[:most] if (goal := unquote_line(step.goal))]
    return [
        *(step_predicate(n, kind, goal) for n, (kind, goal) in enumerate(steps or [(EXTRACT, task)], 1)),
        *closing_predicates(),
    ]


async def replan_step(state: SDPReplanView, runtime: Runtime[Context]) -> list[Predicate]:
    """Ask the model for new queries and unread pages, and return the rest of the plan with these in its first step.

    The list is empty if the model gives none, or if the answer was refused, where replanning cannot help; the closest
    answer is then submitted.
    """
    target, *rest = state["plan"][state["head"] :]
    if not is_step(target):
        return []
    queries, urls = await _ask_alternatives(state, target, runtime)
    if not (queries or urls):
        return []
    return [target.model_copy(update={"args": {**target.args, "queries": [*queries], "urls": [*urls]}}), *rest]


async def _ask_alternatives(
    state: SDPReplanView, target: Predicate, runtime: Runtime[Context]
) -> tuple[Sequence[str], Sequence[str]]:
    """Ask the model for queries that were not used for the step and pages that were not read."""
    limit = limits_of(state["task"], runtime).context // 4
    failed_attempts = [attempt for attempt in state["attempts"] if attempt.position == state["head"]]
    instruction = plans.RETHINK.format(
        task=state["task"].goal,
        known=format_findings(state["certified"].known, limit),
        kind=target.kind,
        goal=goal_of(target),
        failed=format_failures(failed_attempts),
        view=format_results(state["evidence"], limit),
        queries=MAX_QUERIES,
        pages=MAX_PAGES,
    )
    answer = await ask(build_prompt(runtime, instruction), Tools, role="planner", runtime=runtime)
    used = {query for attempt in failed_attempts for query in unique_texts(attempt.action.args.get("queries"))}
    unread_pages = unread_urls(state["evidence"])
    return chosen_queries(answer, used), [
        url for url in chosen_pages(answer, state["evidence"].sources) if url in unread_pages
    ]


def chosen_queries(answer: Tools, spent: set[str]) -> list[str]:
    """Return the queries in a model's answer without those in `spent`; case is ignored."""
    lowered = {query.lower() for query in spent}
    queries = dict.fromkeys(text for query in answer.queries if (text := unquote_line(query)))
    return [query for query in queries if query.lower() not in lowered]


def chosen_pages(answer: Tools, urls: Sequence[str]) -> list[str]:
    """Return the URLs of the pages that a model's answer names by their numbers, from 1; ignore invalid numbers."""
    return [urls[number - 1] for number in dict.fromkeys(answer.pages) if 1 <= number <= len(urls)]


# Realize (SDP Eq. 2) for research: the searches and pages of a step, and the answer from the findings.

REJECTIONS = 2
"""Number of refused findings of a step after which the second search provider is used too (SDP, appendix A.4).

After so many refusals, a further refused finding passes uncertified (`pass_refused`).
"""

RETRY_TEMPERATURE = 0.3
"""Sampling temperature when an answer is requested again (SDP, appendix A.4)."""


async def choose_step_action(state: RealizeView, runtime: Runtime[Context]) -> Action:
    """Return the action of a step: searches and pages to read.

    The first attempt takes those that Replan put into the plan, if any; else the model chooses them.
    """
    rejected, args = len(state["attempts"]), state["target"].args
    queries, urls = unique_texts(args.get("queries")), unique_texts(args.get("urls"))
    if rejected or not (queries or urls):
        queries, urls = await _ask_searches(state, runtime)
    return research_step(
        goal_of(state["target"]),
        queries,
        urls,
        state["certified"].known,
        rejected=rejected,
        elsewhere=rejected >= REJECTIONS,
    )


async def choose_closing_action(state: RealizeView, runtime: Runtime[Context]) -> Action:
    """Return the action for the end of a plan: note an answer, or for the goal, submit the certified answer.

    If the goal comes next and no answer was certified, the model is asked for one, which is submitted. After a failed
    attempt, the model is asked at a higher temperature for the closest matches.
    """
    known = state["certified"].known
    certified = [str(a.args["answer"]) for a in state["certified"].actions if a.kind == ANSWER]
    final, again = state["target"].kind == GOAL, bool(state["attempts"])
    if final and certified:
        return submit_answer(certified[-1], known)
    text = await ask_answer(state, format_failures(state["attempts"]), runtime, closest=again)
    return submit_answer(text, known) if final else note_answer(text, known)


async def ask_answer(state: RealizeView | AnswerView, failed: str, runtime: Runtime[Context], *, closest: bool) -> str:
    """Ask the model for the answer that follows from the findings.

    Args:
        state: what the operator reads.
        failed: earlier attempts, formatted for the prompt.
        runtime: the run's LangGraph runtime.
        closest: whether to ask for the closest match or best estimate, at a higher temperature.
    """
    limit = limits_of(state["task"], runtime).context // 3
    instruction = plans.CONCLUDE.format(
        task=state["task"].goal,
        known=format_findings(state["certified"].known, limit),
        view=format_results(state["evidence"], limit),
        failed=failed,
        notes=_format_notes(state),
    )
    request = build_prompt(runtime, instruction + (plans.CLOSEST if closest else ""))
    temperature = RETRY_TEMPERATURE if closest else None
    answer = await ask(request, Answers, role="executor", runtime=runtime, temperature=temperature)
    return join_answers(answer.answers)


def join_answers(answers: Sequence[str]) -> str:
    """Join the texts of an answer as it is submitted.

    One text stays unchanged, several become a JSON list of texts, and texts that are JSON objects a list of objects.
    """
    items = [content for answer in answers if (content := unquote_line(answer))]
    objects = [_parse_object(content) for content in items]
    if items and all(item is not None for item in objects):
        return json.dumps(objects, ensure_ascii=False)
    return items[0] if len(items) == 1 else json.dumps(items, ensure_ascii=False) if items else ""


def _parse_object(text: str) -> JsonValue:
    """Parse a text as a JSON object; None if it is not one."""
    try:
        value: JsonValue = parse_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


async def _ask_searches(state: RealizeView, runtime: Runtime[Context]) -> tuple[list[str], list[str]]:
    limit = limits_of(state["task"], runtime).context // 4
    instruction = plans.TOOLS.format(
        task=state["task"].goal,
        known=format_findings(state["certified"].known, limit),
        view=format_results(state["evidence"], limit),
        failed=format_failures(state["attempts"]),
        notes=_format_notes(state),
        kind=state["target"].kind,
        goal=goal_of(state["target"]),
        queries=MAX_QUERIES,
        pages=MAX_PAGES,
    )
    answer = await ask(build_prompt(runtime, instruction), Tools, role="executor", runtime=runtime)
    return chosen_queries(answer, set()), chosen_pages(answer, state["evidence"].sources)


def _format_notes(state: RealizeView | AnswerView) -> str:
    lines = [*state["belief"].text.splitlines(), *shown_advice(state)]
    return f"\nTo keep in mind:\n{quote(bullet_list(lines))}\n" if lines else ""


# Validate (SDP Eq. 3) for research: a finding from the evidence, a verdict on it, and a check of answers.
#
# The node `act` runs the tools; the observation has their results, and the earlier findings that the action contained.
# The model names the sources of a finding by number, so that it cannot cite a page that was not shown. Sources that
# contradict a finding are stored with it.

NO_SOURCE = "no source at hand and no finding before it bears this out"

EMPTY_PATTERN = re.compile(r"[\s\[\]{}\"',.:;-]*")
"""An answer that consists of brackets and punctuation only."""


async def judge_observation(state: ValidateView, runtime: Runtime[Context]) -> Verdict:
    """Return the verdict on an observation, whose `data` contains the arguments of the action."""
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
    return _judge_answer(state["tail"], observation)


async def _judge_step(task: Task, target: Predicate, observation: Observation, runtime: Runtime[Context]) -> Verdict:
    known = findings_of(observation.data)
    finding = await _ask_finding(task, target, observation, known, runtime)
    if rejected := answer_problem(finding.text) if finding.text else "nothing was established":
        return Verdict(depth=0, reason=rejected, finding=finding, decided_by="code")
    if not finding.sources:
        return Verdict(depth=0, reason=NO_SOURCE, finding=finding, decided_by="code")
    answer = await _ask_adequacy(task, target, finding, observation, runtime)
    verdict = Verdict(
        depth=int(answer.adequate),
        reason=answer.reason,
        evidence=finding.sources[0],
        decided_by="model",
        finding=finding,
    )
    derived = target.kind in (FILTER, COMPUTE) or not {*finding.sources} & {*observation.sources}
    return _mark_forced(verdict, known) if derived else verdict


async def _ask_finding(
    task: Task, target: Predicate, observation: Observation, known: Sequence[KnownFinding], runtime: Runtime[Context]
) -> Finding:
    """Ask the model what the evidence establishes for a step, and return it as a finding.

    If the model cites no source, the sources of the earlier findings (`known`) are taken.
    """
    context = limits_of(task, runtime).context
    evidence, shown = _cut_observation(observation, context // 2)
    instruction = plans.FIND.format(
        task=task.goal,
        known=format_findings(known, context // 4),
        evidence=quote(evidence, context),
        kind=target.kind,
        goal=goal_of(target),
    )
    answer = await ask(build_prompt(runtime, instruction), Found, role="extractor", runtime=runtime)
    cited = _sources_by_number(answer.supported_by, shown)
    against = [url for url in _sources_by_number(answer.contradicted_by, shown) if url not in cited]
    earlier = dict.fromkeys(url for item in known for url in item.finding.sources if url not in against)
    return Finding(
        about=goal_of(target),
        text=unquote_line(answer.finding),
        sources=tuple(cited or earlier),
        against=tuple(against),
        dispute=unquote_line(answer.dispute) if against else "",
    )


async def _ask_adequacy(
    task: Task, target: Predicate, finding: Finding, observation: Observation, runtime: Runtime[Context]
) -> Adequacy:
    known = findings_of(observation.data)
    shown = [task.goal, goal_of(target), observation.text, *(item.finding.text for item in known)]
    unseen = [] if target.kind == COMPUTE else find_unseen_numbers(finding.text, shown)
    instruction = plans.JUDGE.format(
        kind=target.kind,
        goal=goal_of(target),
        known=format_findings(known, limits_of(task, runtime).context // 4),
        finding=quote(finding.text),
        unseen=f"Numbers in it that nothing shown has: {', '.join(unseen)}\n" if unseen else "",
        sources=quote(bullet_list(finding.sources)),
        dispute=f"Some sources say otherwise: {quote(finding.dispute)}\n" if finding.dispute else "",
    )
    about = {"finding": finding}
    return await ask(build_prompt(runtime, instruction), Adequacy, role="validator", runtime=runtime, about=about)


def _judge_answer(tail: Sequence[Predicate], observation: Observation) -> Verdict:
    """Return the verdict on an answer. An accepted answer also certifies the goal if that is the next predicate."""
    answer = str(observation.data.get("answer") or "").strip()
    if problem := answer_weakness(answer):
        return Verdict(depth=0, reason=problem, decided_by="code")
    final = len(tail) > 1 and tail[1].kind == GOAL
    verdict = Verdict(depth=1 + final, reason="no check speaks against it", decided_by="code")
    return _mark_forced(verdict, findings_of(observation.data))


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


def _cut_observation(observation: Observation, most: int) -> tuple[str, Sequence[str]]:
    """Return the text of an observation, clipped to `most` characters, and the sources that are left in it."""
    text = clip(observation.text, most)
    return text, observation.sources if text == observation.text else observation.sources[
        : len(SOURCE_NUMBER.findall(text))
    ]


def _sources_by_number(numbers: Sequence[int], sources: Sequence[str]) -> list[str]:
    """Return the sources with these numbers, counted from 1; ignore invalid numbers."""
    return [sources[number - 1] for number in dict.fromkeys(numbers) if 1 <= number <= len(sources)]


# Policies that end a research task with some answer instead of none. What they accept is marked as forced: it is not
# certified.


def pass_refused(verdict: Verdict, observation: Observation, after: int) -> Verdict:
    """Accept a refused finding, marked as forced, after repeated refusals at the same step.

    At least `after` findings of the step must have been refused before, and this one must have a text and a source. The
    number of refusals is taken from the observation, because Validate does not see the attempts.
    """
    rejected, finding = observation.data.get("rejected"), verdict.finding
    if verdict.depth or finding is None or not isinstance(rejected, int) or rejected < after:
        return verdict
    if not finding.sources or not finding.text or answer_problem(finding.text):
        return verdict
    return verdict.model_copy(update={"depth": 1, "forced": FORCE_PASS})


async def force_accept(state: AnswerView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Submit the best available answer: the closest one, or if that is weak, the last finding.

    The closest answer is the one that the model gives when it is asked for the closest match. The node that calls this
    operator marks the answer as forced.
    """
    limit, known = limits_of(state["task"], runtime).context // 3, state["certified"].known
    transcript = quote(format_turns(state["turns"], characters=limit // 6, within=limit))
    text = await ask_answer(state, transcript, runtime, closest=True)
    if answer_weakness(text) and known:
        text = known[-1].finding.text
    return {"action": submit_answer(text, known, policy=FORCE_ACCEPT)}


# SDP's operators for research on the web (SDP, appendix A.4).
#
# A plan has at most five steps, each of which narrows down what the one before left, then the answer and the goal.
# Realize chooses a step's searches and pages, the world carries them out, and Validate asks for a finding from the
# results and judges it. After two refusals a second search provider is used too; after a third the finding passes
# uncertified (`pass_refused`). After three weak answers the closest one is submitted, also uncertified
# (`force_accept`). Replan tries other words and unread pages.


def create_operators() -> Mapping[str, Operator]:
    """Return SDP's operators for research by slot; `unforced` is Validate without the policy `pass_refused`."""
    return {
        "propose": _propose,
        "realize": _realize,
        "validate": _validate,
        "unforced": _unforced,
        "replan": _replan,
        "answer": force_accept,
    }


async def _propose(state: ProposeView, runtime: Runtime[Context]) -> dict[str, Any]:
    return {"plan": await propose_plan(state, runtime)}


async def _realize(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
    act = choose_step_action if is_step(state["target"]) else choose_closing_action
    return {"action": await act(state, runtime)}


async def _unforced(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    return {"verdict": await judge_observation(state, runtime)}


async def _validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    verdict = await judge_observation(state, runtime)
    return {"verdict": pass_refused(verdict, state["observation"], REJECTIONS)}


async def _replan(state: SDPReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
    return {"plan": await replan_step(state, runtime)}
