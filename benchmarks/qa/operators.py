"""SDP's operators for multi-hop questions: checks of words, Realize and Validate (SDP appendices A.5, A.6)."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.models.calls import ask
from certigraph.adapters.models.prompts import Prompt, bullet_list, format_attempts, quote, unquote_line
from certigraph.adapters.models.schemas import FirstReasoning, Reasoning, Requested
from certigraph.adapters.protocols import Context, Operator
from certigraph.adapters.retrieval.bm25 import words
from certigraph.benchmarks.qa import prompts
from certigraph.benchmarks.qa.planning import (
    GOAL,
    HOP,
    MAX_HOPS,
    MIN_HOPS,
    build_question_prompt,
    create_chain_answer,
    create_hop_claim,
    format_chain,
    hops_from_id,
    needs_retrieval,
    next_query,
    propose_plan,
    queries_at,
    replan_hops,
    resolve_placeholders,
)
from certigraph.nodes.passages import PassageSource, load_page, load_passages
from certigraph.state.records import Action, Arguments, Attempt, Observation, Task, Verdict
from certigraph.state.run import ANSWER, CLAIM, SEARCH, finish, search
from certigraph.state.sdp import ProposeView, RealizeView, SDPReplanView, ValidateView
from certigraph.state.search import HopFinding, Passage, certified_hops, chain_argument, chain_of

# Findings and answers that are rejected because of their words, without a model (SDP appendices A.5 and A.6).

MAX_ANSWER_WORDS = 15
"""Maximum number of words of a MuSiQue answer."""

_UNABLE = r"\b(?:cannot|can't|could not|couldn't|unable to)"
NEGATION = re.compile(
    r"\b(?:do|does|did)(?: not|n't) "
    r"(?:provide|mention|specify|state|say|give|contain|name|tell|indicate|identify|answer)\b"
    r"|\b(?:is|are|was|were|been|be)(?: not|n't) (?:explicitly |directly |clearly )?"
    r"(?:mentioned|specified|provided|stated|given|named|listed|available|indicated|identified|disclosed)\b"
    r"|\b(?:never|nowhere|not) (?:explicitly |directly )?(?:mentioned|specified|provided|stated|available)\b"
    r"|\bno (?:information|mention|evidence|answer|details?|data|passages?|paragraphs?)\b"
    rf"|{_UNABLE} be (?:found|determined|answered|inferred|established)\b"
    rf"|{_UNABLE} (?:determine|answer|infer|tell|find (?:an?|any|the) (?:answer|info))"
)
"""Phrases with which a finding or an answer says that nothing was found."""

GARBAGE = re.compile(
    r"(?:un(?:known|clear|certain|available|determined|specified|answerable)|not (?:applicable|sure|known)|n a|none"
    r"|nothing|no (?:idea|answer)|null|nan|i (?:do not|don t) know|it is unknown|tbd|string"
    r"|(?:the )?(?:answer|finding|entity))?"
)
"""Complete texts that answer nothing, such as "unknown"; some repeat the field names of the answer schema."""

_ARTICLES = ("a", "an", "the")
_LEAD = r"(?:(?:in|on|at|by|of|for|about|during|since|until) )?"
_TIME = re.compile(_LEAD + r"(?:when|(?:what|which) (?:exact )?(?:year|date|day|month|decade|century))\b")
_COUNT = re.compile(_LEAD + r"how (?:many|much|old|long|far|tall)\b")
_POLAR = re.compile(r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)\b")
_DATED = re.compile(
    r"\d|\b(?:(?:january|february|march|april|may|june|july|august|september|october|november|december)|"
    r"(?:spring|summer|autumn|fall|winter)|(?:centur|decade|week|month|year|season|era\b|today|tonight|never))"
)
_COUNTED = re.compile(
    r"\d|\b(?:zero|no|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen|twenty|thirty|forty|fifty|"
    r"sixty|seventy|eighty|ninety|hundreds?|thousands?|millions?|billions?|half|dozens?|both|once|twice|several)\b"
)


def finding_problem(text: str) -> str:
    """Return the reason why a text cannot be a finding; an empty text if it may be one."""
    return answer_problem(text) if text.strip() else "no finding: the paragraphs shown do not answer this"


def answer_problem(text: str) -> str:
    """Return the reason why a text cannot be an answer; an empty text if it may be one."""
    if GARBAGE.fullmatch(" ".join(words(text))):
        return f"{text.strip()!r} answers nothing"
    negated = NEGATION.search(text.lower())
    return f"it says that nothing was found ({negated[0]!r})" if negated else ""


def short_answer_problem(question: str, answer: str, chain: Sequence[HopFinding]) -> str:
    """Return the reason why a text cannot be an answer to a MuSiQue question; an empty text if it may be one.

    All 308 gold answers in our sample of MuSiQue pass this check.
    """
    if len(answer.split()) > MAX_ANSWER_WORDS:
        return f"{len(answer.split())} words, where an answer has at most {MAX_ANSWER_WORDS}"
    answer_words = _content_words(answer)
    if _contains_sequence(_content_words(question), answer_words):
        return f"{answer!r} stands in the question itself"
    *before, last = [_content_words(hop.entity) for hop in chain] or [[]]
    if answer_words in before and answer_words != last:
        return f"{answer!r} is an entity on the way, not the end of the chain"
    return _type_problem(question.lower().strip(), answer.lower())


def _type_problem(question: str, answer: str) -> str:
    """Return the reason if an answer is not of the type that the first words of the question ask for, such as a time.

    Both texts are in lower case. The result is empty if the type fits.
    """
    if _TIME.match(question) and not _DATED.search(answer):
        return "the question asks for a time, and the answer names none"
    if _COUNT.match(question) and not _COUNTED.search(answer):
        return "the question asks for a number, and the answer names none"
    if _POLAR.match(question) and " or " not in question and words(answer)[:1] not in (["yes"], ["no"]):
        return "the question asks for yes or no"
    return ""


def _content_words(text: str) -> list[str]:
    return [word for word in words(text) if word not in _ARTICLES]


def _contains_sequence(whole: Sequence[str], part: Sequence[str]) -> bool:
    return any(whole[start : start + len(part)] == part for start in range(len(whole) - len(part) + 1))


# Realize (SDP Eq. 2) for hops: search if passages have to be retrieved, else claim what the visible passages say.

AGAIN_ARGUMENT = "again"
"""Argument of a search whose previous action was a search for the same hop.

It means that the previous search did not help, so that this one counts as an attempt.
"""


class QuestionFinding(BaseModel):
    """What the model found for a sub-question. The title is in its words: the world resolves it."""

    reasoning: FirstReasoning = ""
    found: bool
    title: str
    finding: str
    entity: str


NO_FINDING = QuestionFinding(found=False, title="", finding="", entity="")
"""The model's answer when nothing was found."""


async def choose_hop_action(state: RealizeView, runtime: Runtime[Context]) -> Action:
    """Return the next action for a hop: a search, or the claim of a finding.

    If all passages come with the question, it is always a claim. Else a claim follows a search if the model has found
    an answer in the visible passages; otherwise there is another search, until all queries are used up. Then the claim
    is empty, which is rejected.
    """
    searching = needs_retrieval(state["task"], runtime)
    finding = None if searching and not _has_unread_results(state) else await _ask_finding(state, runtime)
    if searching and not (finding and finding.found) and (query := await next_query(state, runtime)):
        again: Arguments = {AGAIN_ARGUMENT: True} if _last_was_search(state["attempts"]) else {}
        return search(query, k=limits_of(state["task"], runtime).passages, **again)
    answer = finding or await _ask_finding(state, runtime)
    hop = HopFinding(_question_of(state), answer.finding, answer.entity)
    return create_hop_claim(int(str(state["target"].args["index"])), hop, answer.title)


def _has_unread_results(state: RealizeView) -> bool:
    """Return whether the last search, which may belong to the previous plan, has results that no model has read."""
    return _last_was_search(state["attempts"]) or (not state["attempts"] and "queries" in state["target"].args)


def _last_was_search(attempts: Sequence[Attempt]) -> bool:
    return bool(attempts) and attempts[-1].action.kind == SEARCH


def _question_of(state: RealizeView) -> str:
    return resolve_placeholders(str(state["target"].args["question"]), certified_hops(state["certified"]))


async def _ask_finding(state: RealizeView, runtime: Runtime[Context]) -> QuestionFinding:
    """Ask the model for a finding in the visible passages.

    If its answer has only a finding or only an entity, that text is used for both.
    """
    if not state["evidence"].sources:
        return NO_FINDING
    prompt = await _finding_prompt(state, runtime)
    answer = await ask(prompt, QuestionFinding, role="executor", runtime=runtime)
    finding, entity = unquote_line(answer.finding), unquote_line(answer.entity)
    if not answer.found or not (finding or entity):
        return NO_FINDING
    return QuestionFinding(
        found=True, title=unquote_line(answer.title), finding=finding or entity, entity=entity or finding[:100]
    )


async def _finding_prompt(state: RealizeView, runtime: Runtime[Context]) -> Prompt:
    question, claims = _question_of(state), [a for a in state["attempts"] if a.action.kind == CLAIM]
    queries = queries_at(state["target"], state["attempts"])[-1:]
    empty_claims = sum(not claim.action.args.get("finding") for claim in claims)
    page = await load_page(empty_claims, [*queries, question], state["evidence"].sources, state["task"], runtime)
    chain = format_chain([*certified_hops(state["certified"]).values()])
    instruction = prompts.FIND.format(
        task=state["task"].goal,
        passages=quote(page.text, len(page.text)),
        chain=quote(chain),
        notes=_format_notes(state),
        failed=_format_failures(claims),
        question=question,
    )
    return build_question_prompt(state["task"], runtime, instruction, prompts.READER, cut=page.cut)


def _format_notes(state: RealizeView) -> str:
    return f"\nNotes:\n{quote(state['belief'].text)}\n" if state["belief"].text else ""


def _format_failures(claims: Sequence[Attempt]) -> str:
    return bullet_list(
        f"{claim.action.args.get('finding') or '(nothing found)'}: {claim.verdict.reason or 'not accepted'}"
        for claim in claims
    )


# Realize (SDP Eq. 2) for the end of a plan: answer from the certified hops, then submit that answer.


class Conclusion(BaseModel):
    """The model's answer to the question."""

    reasoning: FirstReasoning = ""
    answer: Annotated[str, Field(min_length=1)]


async def choose_closing_action(state: RealizeView, runtime: Runtime[Context]) -> Action:
    """Return the action for the end of a plan: note an answer, or for the goal, submit the certified answer.

    If the goal comes next and no answer was certified, the model is asked for one, which is submitted.
    """
    chain = [*certified_hops(state["certified"]).values()]
    certified = [a.args["answer"] for a in state["certified"].actions if a.kind == ANSWER]
    if state["target"].kind == GOAL and certified:
        return finish(str(certified[-1]), **chain_argument(chain))
    failed = format_attempts(state["attempts"])
    instruction = prompts.CONCLUDE.format(task=state["task"].goal, chain=quote(format_chain(chain)), failed=failed)
    prompt = build_question_prompt(state["task"], runtime, instruction, prompts.CONCLUDER)
    answer = await ask(prompt, Conclusion, role="executor", runtime=runtime)
    text = unquote_line(answer.answer)
    return finish(text, **chain_argument(chain)) if state["target"].kind == GOAL else create_chain_answer(text, chain)


# Validate (SDP Eq. 3) for multi-hop question answering: a finding is verified with up to two paragraphs, an answer is
# checked by its words and then by a model.
#
# In SDP (appendix A.5) the words alone decide on HotpotQA's answers. They cannot decide whether an answer follows from
# the findings.

_ELLIPSIS = re.compile(r"\[?(?:\.\.\.|\u2026)\]?")


def find_unseen_quotes(quotes: Sequence[str], text: str) -> list[str]:
    """Return the quotations that are not in a text; blanks, case, accents and punctuation are ignored.

    Of a quotation with an ellipsis, each part must be in the text.
    """
    spaced = f" {' '.join(words(text))} "

    def is_seen(quoted: str) -> bool:
        return all(f" {' '.join(words(part))} " in spaced for part in _ELLIPSIS.split(quoted) if words(part))

    return [quoted for quoted in quotes if not is_seen(quoted)]


class Support(BaseModel):
    """The verifier's answer on a finding."""

    reason: Reasoning
    quotes: Annotated[list[str], Requested] = []
    supported: bool


class Consistency(BaseModel):
    """The verifier's answer on a final answer."""

    reason: Reasoning
    consistent: bool


async def judge_observation(
    state: ValidateView, strict: bool, runtime: Runtime[Context], *, checks_answers: bool = True
) -> Verdict:
    """Return the verdict on an observation, whose `data` contains the arguments of the action.

    Args:
        state: what Validate reads.
        strict: whether an answer gets MuSiQue's further checks.
        runtime: the run's LangGraph runtime.
        checks_answers: whether a model checks an answer against the chain without `strict` too.
    """
    observation, target = state["observation"], state["tail"][0]
    if target.kind == GOAL:
        return Verdict(
            depth=int(observation.accepted and observation.done),
            reason="an answer is handed in only once",
            decided_by="code",
        )
    if target.kind == HOP and observation.data.get("tool") == SEARCH:
        # The first search only gathers evidence. One that follows a search without a result counts as a try, so that
        # the number of tries is bounded.
        looked = not observation.data.get(AGAIN_ARGUMENT)
        return Verdict(depth=0, reason=_format_search(observation), decided_by="code", looked=looked)
    if not observation.accepted:
        return Verdict(depth=0, reason=" ".join(observation.text.split()), decided_by="code")
    if target.kind == HOP:
        return await _judge_claim(state["task"], observation, runtime)
    return await _judge_answer(state, strict, checks_answers, runtime)


async def _judge_claim(task: Task, observation: Observation, runtime: Runtime[Context]) -> Verdict:
    """Verify a claim with the paragraph whose title it cites, then with the best other paragraph (SDP appendix A.5)."""
    if rejected := finding_problem(_text_of(observation, "finding")) or answer_problem(_text_of(observation, "entity")):
        return Verdict(depth=0, reason=rejected, decided_by="code")
    reasons = []
    for passage in await load_passages(observation.sources, task, runtime):
        answer = await _ask_support(passage, observation, task, runtime)
        if answer.supported:
            reason = _format_support(answer, passage, observation)
            return Verdict(depth=1, reason=reason, evidence=passage.id, decided_by="model")
        reasons.append(f"{passage.title}: {answer.reason}")
    if not reasons:
        reason = "no paragraph at hand has that title or a word of the finding"
        return Verdict(depth=0, reason=reason, decided_by="code")
    return Verdict(depth=0, reason="; ".join(reasons), decided_by="model")


async def _ask_support(passage: Passage, observation: Observation, task: Task, runtime: Runtime[Context]) -> Support:
    """Ask the model whether a passage supports a finding. Without words of the passage that show it, it does not."""
    shown = f"{passage.title}: {passage.text}"
    instruction = prompts.VERIFY.format(
        passage=quote(shown, len(shown)),
        question=_text_of(observation, "subquestion"),
        finding=_text_of(observation, "finding"),
        entity=_text_of(observation, "entity"),
    )
    prompt, about = build_question_prompt(task, runtime, instruction, prompts.VERIFIER), {"passage": passage}
    answer = await ask(prompt, Support, role="validator", runtime=runtime, about=about)
    if not answer.supported or not (problem := _quotes_problem(answer.quotes, shown)):
        return answer
    return Support(reason=f"{problem}; {answer.reason}", supported=False)


def _quotes_problem(quotes: Sequence[str], shown: str) -> str:
    if not any(words(quoted) for quoted in quotes):
        return "no words of the passage were quoted for it"
    unseen = find_unseen_quotes(quotes, shown)
    return f"words that are not in the passage were quoted for it: {'; '.join(unseen)}" if unseen else ""


def _format_support(answer: Support, passage: Passage, observation: Observation) -> str:
    cited = _text_of(observation, "title")
    corrected = not observation.data.get("resolved") or passage.id != observation.sources[0]
    quoted = f"{' | '.join(map(repr, answer.quotes))}: " if answer.quotes else ""
    place = f"in {passage.title!r} and not in {cited!r}: " if corrected else ""
    return f"{place}{quoted}{answer.reason}"


async def _judge_answer(state: ValidateView, strict: bool, checks_answers: bool, runtime: Runtime[Context]) -> Verdict:
    """Return the verdict on an answer. An accepted answer also certifies the goal if that is the next predicate."""
    task, tail, observation = state["task"], state["tail"], state["observation"]
    answer, chain = _text_of(observation, "answer"), chain_of(observation.data)
    rejected = answer_problem(answer) or (strict and short_answer_problem(task.goal, answer, chain))
    if rejected:
        return Verdict(depth=0, reason=rejected, decided_by="code")
    final = len(tail) > 1 and tail[1].kind == GOAL
    if not strict and not checks_answers:
        return Verdict(depth=1 + final, reason="no check speaks against it", decided_by="code")
    instruction = prompts.CONSISTENT.format(task=task.goal, chain=quote(format_chain(chain)), answer=answer)
    prompt = build_question_prompt(task, runtime, instruction, prompts.VERIFIER)
    check = await ask(prompt, Consistency, role="validator", runtime=runtime)
    if not check.consistent:
        reason = check.reason or "it does not follow from what is established"
        return Verdict(depth=0, reason=reason, decided_by="model")
    evidence = " | ".join(f"{hop.question} {hop.entity}" for hop in chain)
    return Verdict(depth=1 + final, reason=check.reason, evidence=evidence, decided_by="model")


def _format_search(observation: Observation) -> str:
    return f"{len(observation.sources)} passages" if observation.accepted else " ".join(observation.text.split())[:160]


def _text_of(observation: Observation, argument: str) -> str:
    return str(observation.data.get(argument) or "").strip()


# SDP's operators for multi-hop question answering (SDP paper, appendices A.5 HotpotQA and A.6 MuSiQue).
#
# A plan has one predicate per sub-question (hop), one for the answer and one for the goal. Each hop is realized by
# searches, if passages have to be retrieved, and by a claim: a finding, the title of its paragraph, and the entity that
# replaces "#1" in later sub-questions. The world finds the paragraph with that title. Validate shows it to a verifier,
# then the best other one. The answer is noted, and certified together with the goal.


def create_operators(
    benchmark: PassageSource, *, strict: bool = False, hops: bool = False, checks_answers: bool = True
) -> Mapping[str, Operator]:
    """Create SDP's four operators for multi-hop questions, by slot.

    Args:
        benchmark: the source of the passages. Its world must repeat the action's arguments in the `data` of its
            observations, because Validate sees nothing else of the action.
        strict: whether to use MuSiQue's variant, with two to four hops and further checks of the answer; else that of
            HotpotQA, with two hops.
        hops: whether to take the number of hops from the task's id, which is a label leak.
        checks_answers: as in `judge_observation`.
    """

    def bounds(task: Task) -> tuple[int, int]:
        return (hops_from_id(task),) * 2 if hops else (MIN_HOPS, MAX_HOPS if strict else MIN_HOPS)

    async def propose(state: ProposeView, runtime: Runtime[Context]) -> dict[str, Any]:
        return {"plan": await propose_plan(state, *bounds(state["task"]), runtime)}

    async def realize(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
        act = choose_hop_action if state["target"].kind == HOP else choose_closing_action
        return {"action": await act(state, runtime)}

    async def validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
        return {"verdict": await judge_observation(state, strict, runtime, checks_answers=checks_answers)}

    async def replan(state: SDPReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
        return {"plan": await replan_hops(state, bounds(state["task"])[1], runtime)}

    return {"propose": propose, "realize": realize, "validate": validate, "replan": replan}
