"""SDP's operators for research on the web (appendix A.4): plans, searches, findings, verdicts, forced answers."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.runtime import Runtime
from pydantic import JsonValue

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.json_lines import parse_json
from certigraph.adapters.models.calls import ask, profile_of
from certigraph.adapters.models.prompts import (
    bullet_list,
    format_history,
    format_notes,
    quote,
    quote_history,
    unquote_line,
)
from certigraph.adapters.protocols import Context, Operator, OperatorFactory
from certigraph.benchmarks.research import plans
from certigraph.benchmarks.research.findings import (
    format_findings,
    format_tries,
    tries_of,
)
from certigraph.benchmarks.research.plans import (
    FORCE_ACCEPT,
    FORCE_PASS,
    GOAL,
    MAX_PAGES,
    MAX_QUERIES,
    Answers,
    ResearchTools,
    Shown,
    StepTools,
    closing_predicates,
    create_decomposition_form,
    format_results,
    goal_of,
    is_step,
    step_predicate,
    unread_urls,
)
from certigraph.benchmarks.research.verdicts import (
    answer_weakness,
    build_research_prompt,
    evidence_characters,
    format_pages,
    judge_observation,
    prompt_sizes,
    read_pages,
    weakness_of,
)
from certigraph.nodes.operators import call_operator
from certigraph.nodes.sdp import validate
from certigraph.nodes.slots import factory, prefer_benchmark_operator
from certigraph.state.endings import UnknownName
from certigraph.state.records import Action, Attempt, Observation, Predicate, Verdict
from certigraph.state.run import ANSWER, shown_advice
from certigraph.state.sdp import ProposeView, RealizeView, SDPReplanView, ValidateView
from certigraph.state.search import (
    EXTRACT,
    AnswerView,
    note_answer,
    research_step,
    submit_answer,
    unique_texts,
)

# Propose and Replan (SDP Eqs. 1 and 4) for research: narrowing steps, then other queries and unread pages.


async def propose_plan(state: ProposeView, runtime: Runtime[Context]) -> list[Predicate]:
    """Ask the model for a plan: one predicate per step, then those of the answer and the goal.

    If the model gives no step, the question itself is the only one.
    """
    task = state["task"].goal
    most = limits_of(state["task"], runtime).subqueries
    instruction = plans.DECOMPOSE.format(task=task, most=most)
    prompt = build_research_prompt(runtime, instruction, plans.PLANNER)
    answer = await ask(prompt, create_decomposition_form(most), role="planner", runtime=runtime)
    steps = [(str(step.kind), goal) for step in answer.steps[:most] if (goal := unquote_line(step.goal))]
    return [
        *(step_predicate(n, kind, goal) for n, (kind, goal) in enumerate(steps or [(EXTRACT, task)], 1)),
        *closing_predicates(),
    ]


async def replan_step(state: SDPReplanView, runtime: Runtime[Context]) -> list[Predicate]:
    """Ask the model for new queries and unread pages, and return the rest of the plan with these in its first step.

    The step keeps the refused attempts at it and what they established. The list is empty if the model gives none, or
    if the answer was refused, where replanning cannot help; the closest answer is then submitted.
    """
    target, *rest = state["plan"][state["head"] :]
    if not is_step(target):
        return []
    queries, urls = await _ask_alternatives(state, target, runtime)
    if not (queries or urls):
        return []
    tries = _tries_so_far(target, _attempts_at_head(state))
    args = {**target.args, "queries": [*queries], "urls": [*urls], "tries": tries}
    return [target.model_copy(update={"args": args}), *rest]


def _attempts_at_head(state: SDPReplanView) -> list[Attempt]:
    """Return the attempts at the present target; those of earlier plans at the same position are in its arguments."""
    target = state["plan"][state["head"]]
    return [one for one in state["attempts"] if one.position == state["head"] and one.target == target]


def _tries_so_far(target: Predicate, attempts: Sequence[Attempt]) -> list[JsonValue]:
    """Return the refused tries at a step: those before a replan, which its arguments have, and the attempts since."""
    earlier = target.args.get("tries")
    return [*(earlier if isinstance(earlier, list) else ()), *tries_of(attempts)]


async def _ask_alternatives(
    state: SDPReplanView, target: Predicate, runtime: Runtime[Context]
) -> tuple[Sequence[str], Sequence[str]]:
    """Ask the model for queries that were not used for the step and pages that were not read."""
    sizes = await prompt_sizes("planner", runtime)
    failed_attempts = [attempt for attempt in state["attempts"] if attempt.position == state["head"]]
    results = format_results(state["evidence"], sizes.results)
    known = format_findings(state["certified"].known, sizes.findings, quotes=False)
    instruction = plans.RETHINK.format(
        task=state["task"].goal,
        known=known.text,
        kind=target.kind,
        goal=goal_of(target),
        failed=format_tries(tries_of(failed_attempts)),
        view=results.text,
        queries=MAX_QUERIES,
        pages=MAX_PAGES,
    )
    prompt = build_research_prompt(runtime, instruction, plans.SEARCHER, cut=(*known.cut, *results.cut))
    answer = await ask(prompt, ResearchTools, role="planner", runtime=runtime)
    used = {query for attempt in failed_attempts for query in unique_texts(attempt.action.args.get("queries"))}
    unread_pages = unread_urls(state["evidence"])
    return chosen_queries(answer, used), [
        url for url in chosen_pages(answer, state["evidence"].sources) if url in unread_pages
    ]


def chosen_queries(answer: ResearchTools, spent: set[str]) -> list[str]:
    """Return the queries in a model's answer without those in `spent`; case is ignored."""
    lowered = {query.lower() for query in spent}
    queries = dict.fromkeys(text for query in answer.queries if (text := unquote_line(query)))
    return [query for query in queries if query.lower() not in lowered]


def chosen_pages(answer: ResearchTools, urls: Sequence[str]) -> list[str]:
    """Return the URLs of the pages that a model's answer names by their numbers, from 1; ignore invalid numbers."""
    return [urls[number - 1] for number in dict.fromkeys(answer.pages) if 1 <= number <= len(urls)]


# Realize (SDP Eq. 2) for research: the searches and pages of a step, and the answer from the findings.

REJECTIONS = 2
"""Number of consecutive refusals of a step's findings with which the last one passes uncertified (`pass_refused`).

If it has no content, the next attempt uses the second search provider too (SDP, appendix A.4).
"""

RETRY_TEMPERATURE = 0.3
"""Sampling temperature when an answer is requested again (SDP, appendix A.4)."""


async def choose_step_action(state: RealizeView, runtime: Runtime[Context]) -> Action:
    """Return the action of a step: searches and pages to read.

    The first attempt takes those that Replan put into the plan, if any; else the model chooses them.
    """
    rejected, args = len(state["attempts"]), state["target"].args
    queries, urls = unique_texts(args.get("queries")), unique_texts(args.get("urls"))
    tries, standing = _tries_so_far(state["target"], state["attempts"]), ""
    if rejected or not (queries or urls):
        queries, urls, standing = await _ask_searches(state, tries, runtime)
    return research_step(
        goal_of(state["target"]),
        queries,
        urls,
        state["certified"].known,
        rejected=rejected,
        elsewhere=rejected >= REJECTIONS,
        characters=await evidence_characters(runtime),
        tries=tries,
        standing=standing,
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
    refused = format_tries(tries_of(state["attempts"]))
    failed = Shown(f"\nRefused answers, and why:\n{refused}\n" if again else "")
    text = await ask_answer(state, failed, runtime, closest=again)
    return submit_answer(text, known) if final else note_answer(text, known)


async def ask_answer(
    state: RealizeView | AnswerView, failed: Shown, runtime: Runtime[Context], *, closest: bool
) -> str:
    """Ask the model for the answer that follows from the findings and from all evidence behind them (Finalize in A.4).

    Args:
        state: what the operator reads.
        failed: earlier attempts, or what was done, formatted for the prompt with a heading; may be empty.
        runtime: the run's LangGraph runtime.
        closest: whether to ask for the closest match or best estimate, at a higher temperature.
    """
    known, sizes = state["certified"].known, await prompt_sizes("executor", runtime)
    findings = format_findings(known, sizes.findings)
    results = format_results(state["evidence"], sizes.results)
    pages = format_pages(state["turns"], sizes.pages)
    instruction = plans.CONCLUDE.format(
        task=state["task"].goal,
        known=findings.text,
        pages=plans.PAGES.format(pages=pages.text) if pages.text else "",
        results=results.text,
        failed=failed.text,
        notes=_format_notes(state),
        closest=(plans.CLOSEST if known else plans.NOTHING_FOUND) if closest else "",
    )
    cut = (*findings.cut, *pages.cut, *results.cut, *failed.cut)
    request = build_research_prompt(runtime, instruction, plans.CONCLUDER, cut=cut)
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


async def _ask_searches(
    state: RealizeView, tries: Sequence[JsonValue], runtime: Runtime[Context]
) -> tuple[list[str], list[str], str]:
    sizes = await prompt_sizes("executor", runtime)
    results = format_results(state["evidence"], sizes.results)
    ahead = [goal_of(predicate) for predicate in state["ahead"] if is_step(predicate)]
    known = format_findings(state["certified"].known, sizes.findings, quotes=False)
    instruction = plans.TOOLS.format(
        task=state["task"].goal,
        known=known.text,
        view=results.text,
        failed=format_tries([*tries]),
        notes=_format_notes(state),
        kind=state["target"].kind,
        goal=goal_of(state["target"]),
        ahead=f"Steps after it:\n{bullet_list(ahead)}\n" if ahead else "",
        kept=plans.KEPT if tries else "",
        queries=MAX_QUERIES,
        pages=MAX_PAGES,
    )
    prompt = build_research_prompt(runtime, instruction, plans.SEARCHER, cut=(*known.cut, *results.cut))
    answer = await ask(prompt, StepTools, role="executor", runtime=runtime)
    standing = "" if answer.standing == "look up" else f"nothing: {answer.standing}"
    return chosen_queries(answer, set()), chosen_pages(answer, state["evidence"].sources), standing


def _format_notes(state: RealizeView | AnswerView) -> str:
    advice = shown_advice(state)
    reminders = f"To keep in mind:\n{quote(bullet_list(advice))}" if advice else ""
    return "".join(f"\n{part}\n" for part in (format_notes(state["belief"].text), reminders) if part)


# Policies that end a research task with some answer instead of none. What they accept is marked as forced: it is not
# certified.


def pass_refused(verdict: Verdict, observation: Observation, rejections: int) -> Verdict:
    """Accept a refused finding, marked as forced, if it is at least the `rejections`-th of its step in a row.

    The finding must have a text and a source. How many were refused before is taken from the observation, because
    Validate does not see the attempts.
    """
    before, finding = observation.data.get("rejected"), verdict.finding
    if verdict.depth or finding is None or not isinstance(before, int) or before + 1 < rejections:
        return verdict
    if not finding.sources or weakness_of(finding):
        return verdict
    return verdict.model_copy(update={"depth": 1, "forced": FORCE_PASS, "decided_by": ""})


@prefer_benchmark_operator
async def unforced(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Validate as the benchmark does, but without its policy that lets refused findings pass after some refusals."""
    return await validate(state, runtime)


@factory
def force_pass(validate: Operator = unforced, *, rejections: int = REJECTIONS) -> Operator:
    """Let a refused finding pass, uncertified, if it is the `rejections`-th of its step in a row (SDP, appendix A.4).

    Raises:
        UnknownName: `rejections` is not an integer of at least 1.
    """
    if not isinstance(rejections, int) or rejections < 1:
        problem = f"force_pass(rejections={rejections!r}): rejections must be an integer of at least 1"
        raise UnknownName(f"{problem}, as in validate=assistantbench.force_pass:rejections=3")

    async def force_pass(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
        update = await call_operator(validate, state, runtime)
        return {**update, "verdict": pass_refused(update["verdict"], state["observation"], rejections)}

    return force_pass


async def force_accept(state: AnswerView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Submit the best available answer: the closest one, or if that is weak, the last finding.

    The closest answer is the one that the model gives when it is asked for the closest match. The node that calls this
    operator marks the answer as forced.
    """
    known = state["certified"].known
    state = {**state, "turns": state["turns"] or state["trace"]}
    text = await ask_answer(state, await _format_done(state, runtime), runtime, closest=True)
    if answer_weakness(text) and known:
        last = known[-1].finding
        text = join_answers([item.name for item in last.items]) or last.text
    return {"action": submit_answer(text, known, policy=FORCE_ACCEPT)}


HISTORY_SHARE = 2
"""One part in so many of a prompt may be the turns of the episode."""


async def _format_done(state: AnswerView, runtime: Runtime[Context]) -> Shown:
    """Format what was done before a forced answer: the actions, with their answers unless pages are shown anyway."""
    done = await _format_actions(state, runtime) if state["turns"] else Shown("")
    return Shown(f"\nWhat was done:\n{done.text}\n" if done.text else "", done.cut)


async def _format_actions(state: AnswerView, runtime: Runtime[Context]) -> Shown:
    profile, turns = await profile_of("executor", runtime), state["turns"]
    if read_pages(turns):
        return Shown(quote(bullet_list(turn.action for turn in turns)))
    sizes = await prompt_sizes("executor", runtime)
    findings = format_findings(state["certified"].known, sizes.findings, quotes=False).text
    history = format_history(turns, findings, profile, most_tokens=profile.prompt_tokens // HISTORY_SHARE)
    return Shown(quote_history(history), history.cut)


# SDP's operators for research on the web (SDP, appendix A.4).
#
# A plan has at most five steps, each of which narrows down what the one before left, then the answer and the goal.
# Realize chooses a step's searches and pages, the world carries them out, and Validate asks for a finding from the
# results and judges it. The second refusal in a row lets the finding pass uncertified (`pass_refused`); if it has no
# content, the next try uses a second search provider too. After three weak answers the closest one is submitted, also
# uncertified (`force_accept`). Replan tries other words and unread pages.


def create_operators(*, checks_answers: bool = True) -> Mapping[str, Operator | OperatorFactory]:
    """Return SDP's operators for research by slot; `unforced` is Validate without the policy `pass_refused`.

    Args:
        checks_answers: whether a model checks an answer against the findings, which the SDP paper does not have.
    """

    async def judge_unforced(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
        return {"verdict": await judge_observation(state, runtime, checks_answers=checks_answers)}

    async def judge(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
        verdict = await judge_observation(state, runtime, checks_answers=checks_answers)
        return {"verdict": pass_refused(verdict, state["observation"], REJECTIONS)}

    return {
        "propose": _propose,
        "realize": _realize,
        "validate": judge,
        "unforced": judge_unforced,
        "force_pass": force_pass,
        "replan": _replan,
        "answer": force_accept,
    }


async def _propose(state: ProposeView, runtime: Runtime[Context]) -> dict[str, Any]:
    return {"plan": await propose_plan(state, runtime)}


async def _realize(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
    act = choose_step_action if is_step(state["target"]) else choose_closing_action
    return {"action": await act(state, runtime)}


async def _replan(state: SDPReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
    return {"plan": await replan_step(state, runtime)}
