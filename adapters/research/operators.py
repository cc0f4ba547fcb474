"""SDP's operators for research on the web (SDP appendix A.4)."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from langgraph.runtime import Runtime
from pydantic import JsonValue

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.models.calls import ask, bullet_list, clipped, prompt, quoted, shown, unquoted
from certigraph.adapters.protocols import Context, Operator
from certigraph.adapters.qa.operators import no_answer
from certigraph.adapters.research import plans
from certigraph.adapters.research.plans import (
    FORCE_ACCEPT,
    FORCE_PASS,
    GOAL,
    MOST_PAGES,
    MOST_QUERIES,
    Adequacy,
    Answers,
    Found,
    Tools,
    closing,
    decomposition_form,
    failures,
    goal_of,
    is_step,
    results,
    step_predicate,
    told,
    unread,
)
from certigraph.adapters.research.world import NUMBER
from certigraph.state.records import Action, Finding, Observation, Predicate, Task, Verdict, json_value
from certigraph.state.run import ANSWER, Known
from certigraph.state.sdp import ProposeView, RealizeView, ReplanView, ValidateView
from certigraph.state.search import COMPUTE, EXTRACT, FILTER, AnswerView, findings_of, handed_in, noted, research, texts

# What of a finding no text bears out, as far as code can tell: its numbers.

NUMBERS = re.compile(r"\d+(?:[.,]\d+)*")


def unseen_numbers(text: str, shown: Iterable[str]) -> list[str]:
    """The numbers of a text that stand in none of the texts shown; 1,010 is 1010, 07 is 7, and 4.50 is 4.5."""
    seen = {_plain(number) for one in shown for number in NUMBERS.findall(one)}
    seen |= {_plain(part) for one in shown for part in re.findall(r"\d+", one)}
    return [number for number in dict.fromkeys(NUMBERS.findall(text)) if _plain(number) not in seen]


def _plain(number: str) -> str:
    whole, point, part = number.replace(",", "").partition(".")
    return (whole.lstrip("0") or "0") + (point + part).rstrip("0").rstrip(".")


# Propose and Replan (SDP Eqs. 1 and 4) for research: narrowing steps; other queries and unread pages.


async def proposed(state: ProposeView, runtime: Runtime[Context]) -> list[Predicate]:
    """One predicate a step, then answer and goal; a plan without steps looks for the question itself."""
    task = state["task"].goal
    most = limits_of(state["task"], runtime).subqueries
    instruction = plans.DECOMPOSE.format(task=task, most=most)
    said = await ask(prompt(runtime, instruction), decomposition_form(most), role="planner", runtime=runtime)
    steps = [(str(step.kind), goal) for step in said.steps[:most] if (goal := unquoted(step.goal))]
    return [
        *(step_predicate(n, kind, goal) for n, (kind, goal) in enumerate(steps or [(EXTRACT, task)], 1)),
        *closing(),
    ]


async def replanned(state: ReplanView, runtime: Runtime[Context]) -> list[Predicate]:
    """The same tail, its step with new queries and unread pages to begin with; none where there is no other way.

    An answer that was refused to the end is no matter of planning: nothing is left but to hand in the closest one.
    """
    target, *rest = state["plan"][state["head"] :]
    if not is_step(target):
        return []
    queries, urls = await _another_way(state, target, runtime)
    if not (queries or urls):
        return []
    return [target.model_copy(update={"args": {**target.args, "queries": [*queries], "urls": [*urls]}}), *rest]


async def _another_way(
    state: ReplanView, target: Predicate, runtime: Runtime[Context]
) -> tuple[Sequence[str], Sequence[str]]:
    """Queries that were not asked and pages that were not read."""
    room = limits_of(state["task"], runtime).context // 4
    here = [attempt for attempt in state["attempts"] if attempt.position == state["head"]]
    instruction = plans.RETHINK.format(
        task=state["task"].goal,
        known=told(state["certified"].known, room),
        kind=target.kind,
        goal=goal_of(target),
        failed=failures(here),
        view=results(state["evidence"], room),
        queries=MOST_QUERIES,
        pages=MOST_PAGES,
    )
    said = await ask(prompt(runtime, instruction), Tools, role="planner", runtime=runtime)
    spent = {query for attempt in here for query in texts(attempt.action.args.get("queries"))}
    left = unread(state["evidence"])
    return chosen_queries(said, spent), [url for url in chosen_pages(said, state["evidence"].sources) if url in left]


def chosen_queries(said: Tools, spent: set[str]) -> list[str]:
    """The queries that a model chose, without those that were spent."""
    plain = {query.lower() for query in spent}
    queries = dict.fromkeys(text for query in said.queries if (text := unquoted(query)))
    return [query for query in queries if query.lower() not in plain]


def chosen_pages(said: Tools, urls: Sequence[str]) -> list[str]:
    """The pages that a model chose by number, from 1; a number that is none of theirs names no page."""
    return [urls[number - 1] for number in dict.fromkeys(said.pages) if 1 <= number <= len(urls)]


# Realize (SDP Eq. 2) for research: which searches and pages a step takes, and what answer the findings give.

REJECTIONS = 2
"""Refusals of a step's findings after which the second source of evidence is asked too (SDP paper, appendix A.4)."""

WARMER = 0.3
"""Temperature at which an answer is asked for again (appendix A.4)."""


async def step_action(state: RealizeView, runtime: Runtime[Context]) -> Action:
    """What a step takes: what Replan found for it first, else what the model chooses."""
    rejected, args = len(state["attempts"]), state["target"].args
    queries, urls = texts(args.get("queries")), texts(args.get("urls"))
    if rejected or not (queries or urls):
        queries, urls = await _chosen(state, runtime)
    return research(
        goal_of(state["target"]),
        queries,
        urls,
        state["certified"].known,
        rejected=rejected,
        elsewhere=rejected >= REJECTIONS,
    )


async def closing_action(state: RealizeView, runtime: Runtime[Context]) -> Action:
    """An answer for the predicate `answer`; for the goal, where it was not certified with it, that answer handed in.

    Asked for again, the model is warmer and told to settle for the closest matches.
    """
    known = state["certified"].known
    certified = [str(a.args["answer"]) for a in state["certified"].actions if a.kind == ANSWER]
    final, again = state["target"].kind == GOAL, bool(state["attempts"])
    if final and certified:
        return handed_in(certified[-1], known)
    text = await concluded(state, failures(state["attempts"]), runtime, closest=again)
    return handed_in(text, known) if final else noted(text, known)


async def concluded(state: RealizeView | AnswerView, failed: str, runtime: Runtime[Context], *, closest: bool) -> str:
    """The answer that what was found gives; with `closest`, by a warmer model, at least the closest one."""
    room = limits_of(state["task"], runtime).context // 3
    instruction = plans.CONCLUDE.format(
        task=state["task"].goal,
        known=told(state["certified"].known, room),
        view=results(state["evidence"], room),
        failed=failed,
        notes=_notes(state),
    )
    question = prompt(runtime, instruction + (plans.CLOSEST if closest else ""))
    temperature = WARMER if closest else None
    said = await ask(question, Answers, role="executor", runtime=runtime, temperature=temperature)
    return as_text(said.answers)


def as_text(answers: Sequence[str]) -> str:
    """An answer as it is handed in: one text as it is, several as a JSON list, JSON objects as a list of objects."""
    texts = [text for answer in answers if (text := unquoted(answer))]
    objects = [_object(text) for text in texts]
    if texts and all(one is not None for one in objects):
        return json.dumps(objects, ensure_ascii=False)
    return texts[0] if len(texts) == 1 else json.dumps(texts, ensure_ascii=False) if texts else ""


def _object(text: str) -> JsonValue:
    """The JSON object that a text is; None where it is none."""
    try:
        value: JsonValue = json_value(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


async def _chosen(state: RealizeView, runtime: Runtime[Context]) -> tuple[list[str], list[str]]:
    room = limits_of(state["task"], runtime).context // 4
    instruction = plans.TOOLS.format(
        task=state["task"].goal,
        known=told(state["certified"].known, room),
        view=results(state["evidence"], room),
        failed=failures(state["attempts"]),
        notes=_notes(state),
        kind=state["target"].kind,
        goal=goal_of(state["target"]),
        queries=MOST_QUERIES,
        pages=MOST_PAGES,
    )
    said = await ask(prompt(runtime, instruction), Tools, role="executor", runtime=runtime)
    return chosen_queries(said, set()), chosen_pages(said, state["evidence"].sources)


def _notes(state: RealizeView | AnswerView) -> str:
    told = [*state["belief"].text.splitlines(), *cast(Sequence[str], state.get("advice", ()))]
    return f"\nTo keep in mind:\n{quoted(bullet_list(told))}\n" if told else ""


# Validate (SDP Eq. 3) for research: a finding from the evidence, a verdict on it, and answers that are none.
#
# The tools were run by `act`; what they brought up, with the findings that the action carried along, is the
# observation. A finding names its sources by number, so that it can rest on no page that was not shown. Those that a
# model calls contradicting are kept with it.

NO_SOURCE = "no source at hand and no finding before it bears this out"

EMPTY = re.compile(r"[\s\[\]{}\"',.:;-]*")
"""An answer that is nothing but brackets and marks."""


async def verdict_on(state: ValidateView, runtime: Runtime[Context]) -> Verdict:
    """The verdict on what the world answered, which carries the action's own arguments in its `data`."""
    seen, target = state["observation"], state["tail"][0]
    if target.kind == GOAL:
        delivered = Verdict(depth=int(seen.accepted and seen.done), reason="an answer is handed in once")
        return _forced_by(delivered, findings_of(seen.data))
    if not seen.accepted:
        return Verdict(depth=0, reason=" ".join(seen.text.split())[:160])
    if is_step(target):
        return await _on_step(state["task"], target, seen, runtime)
    return _on_answer(state["tail"], seen)


async def _on_step(task: Task, target: Predicate, seen: Observation, runtime: Runtime[Context]) -> Verdict:
    known = findings_of(seen.data)
    finding = await _found(task, target, seen, known, runtime)
    if rejected := no_answer(finding.text) if finding.text else "nothing was established":
        return Verdict(depth=0, reason=rejected, finding=finding)
    if not finding.sources:
        return Verdict(depth=0, reason=NO_SOURCE, finding=finding)
    said = await _adequate(task, target, finding, seen, runtime)
    verdict = Verdict(depth=int(said.adequate), reason=said.reason, evidence=finding.sources[0], finding=finding)
    derived = target.kind in (FILTER, COMPUTE) or not {*finding.sources} & {*seen.sources}
    return _forced_by(verdict, known) if derived else verdict


async def _found(
    task: Task, target: Predicate, seen: Observation, known: Sequence[Known], runtime: Runtime[Context]
) -> Finding:
    """What the evidence says. What it is drawn from findings alone rests on their sources."""
    context = limits_of(task, runtime).context
    evidence, shown = _shown(seen, context // 2)
    instruction = plans.FIND.format(
        task=task.goal,
        known=told(known, context // 4),
        evidence=quoted(evidence, context),
        kind=target.kind,
        goal=goal_of(target),
    )
    said = await ask(prompt(runtime, instruction), Found, role="extractor", runtime=runtime)
    cited = _named(said.supported_by, shown)
    against = [url for url in _named(said.contradicted_by, shown) if url not in cited]
    before = dict.fromkeys(url for one in known for url in one.finding.sources if url not in against)
    return Finding(
        about=goal_of(target),
        text=unquoted(said.finding),
        sources=tuple(cited or before),
        against=tuple(against),
        dispute=unquoted(said.dispute) if against else "",
    )


async def _adequate(
    task: Task, target: Predicate, finding: Finding, seen: Observation, runtime: Runtime[Context]
) -> Adequacy:
    known = findings_of(seen.data)
    shown = [task.goal, goal_of(target), seen.text, *(one.finding.text for one in known)]
    unseen = [] if target.kind == COMPUTE else unseen_numbers(finding.text, shown)
    instruction = plans.JUDGE.format(
        kind=target.kind,
        goal=goal_of(target),
        known=told(known, limits_of(task, runtime).context // 4),
        finding=quoted(finding.text),
        unseen=f"Numbers in it that nothing shown has: {', '.join(unseen)}\n" if unseen else "",
        sources=quoted(bullet_list(finding.sources)),
        dispute=f"Some sources say otherwise: {quoted(finding.dispute)}\n" if finding.dispute else "",
    )
    return await ask(prompt(runtime, instruction), Adequacy, role="validator", runtime=runtime)


def _on_answer(tail: Sequence[Predicate], seen: Observation) -> Verdict:
    """The answer, and with it the goal where that comes next."""
    answer = str(seen.data.get("answer") or "").strip()
    if weak := weakness(answer):
        return Verdict(depth=0, reason=weak)
    final = len(tail) > 1 and tail[1].kind == GOAL
    return _forced_by(Verdict(depth=1 + final, reason="no check speaks against it"), findings_of(seen.data))


def weakness(answer: str) -> str:
    """Why an answer is weak: empty, null or a refusal; empty where it may be one."""
    return "it is empty" if EMPTY.fullmatch(answer) else no_answer(answer)


def _forced_by(verdict: Verdict, known: Sequence[Known]) -> Verdict:
    """What is drawn from a finding that was forced is itself not certified."""
    forced = next((one.forced for one in known if one.forced), "")
    if not (forced and verdict.depth):
        return verdict
    return verdict.model_copy(
        update={"forced": forced, "reason": f"it rests on an uncertified finding; {verdict.reason}"}
    )


def _shown(seen: Observation, most: int) -> tuple[str, Sequence[str]]:
    """What the world answered, cut where it is too long, and the sources that are left."""
    text = clipped(seen.text, most)
    return text, seen.sources if text == seen.text else seen.sources[: len(NUMBER.findall(text))]


def _named(numbers: Sequence[int], sources: Sequence[str]) -> list[str]:
    """The sources of some numbers, from 1; a number that is none of theirs names no source."""
    return [sources[number - 1] for number in dict.fromkeys(numbers) if 1 <= number <= len(sources)]


# The policies that end a research with something rather than nothing. What they let through is certified by nobody.


def let_pass(verdict: Verdict, seen: Observation, after: int) -> Verdict:
    """Let a refused finding pass that says something and rests on a source, once `after` others were refused.

    The refusals are those that the action counts: Validate sees no attempts.
    """
    rejected, finding = seen.data.get("rejected"), verdict.finding
    if verdict.depth or finding is None or not isinstance(rejected, int) or rejected < after:
        return verdict
    if not finding.sources or not finding.text or no_answer(finding.text):
        return verdict
    return verdict.model_copy(update={"depth": 1, "forced": FORCE_PASS})


async def force_accept(state: AnswerView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Hand in the best answer at hand, whatever it is worth: the closest one, else what was found last.

    The slot marks it as forced.
    """
    room, known = limits_of(state["task"], runtime).context // 3, state["certified"].known
    done = quoted(shown(state["turns"], characters=room // 6, within=room))
    text = await concluded(state, done, runtime, closest=True)
    if weakness(text) and known:
        text = known[-1].finding.text
    return {"action": handed_in(text, known, policy=FORCE_ACCEPT)}


# SDP's operators for research on the web (SDP paper, appendix A.4).
#
# A plan is at most five narrowing steps, then the answer and the goal. Realize plans a step's searches and pages, the
# world runs them, Validate draws a finding from what they brought up and judges it. Two refusals bring in a second
# source of evidence, a third lets the finding pass uncertified (`force_pass`); three weak answers end in the closest
# one, which is handed in uncertified too (`force_accept`). Replan looks for the same in other words and on pages not
# read yet.


def operators() -> Mapping[str, Operator]:
    """The operators by slot; `unforced` validates without a policy."""
    return {
        "propose": _propose,
        "realize": _realize,
        "validate": _validate,
        "unforced": _unforced,
        "replan": _replan,
        "answer": force_accept,
    }


async def _propose(state: ProposeView, runtime: Runtime[Context]) -> dict[str, Any]:
    return {"plan": await proposed(state, runtime)}


async def _realize(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
    act = step_action if is_step(state["target"]) else closing_action
    return {"action": await act(state, runtime)}


async def _unforced(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    return {"verdict": await verdict_on(state, runtime)}


async def _validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    verdict = await verdict_on(state, runtime)
    return {"verdict": let_pass(verdict, state["observation"], REJECTIONS)}


async def _replan(state: ReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
    return {"plan": await replanned(state, runtime)}
