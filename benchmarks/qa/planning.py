"""Plans for multi-hop questions: prompts, Propose, Replan, search queries, pages to read (SDP appendices A.5, A.6)."""

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from functools import lru_cache
from typing import Annotated

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.models.calls import ask
from certigraph.adapters.models.prompts import Prompt, build_prompt, bullet_list, numbered_list, quote
from certigraph.adapters.models.schemas import FirstReasoning, bounded_list
from certigraph.adapters.protocols import Context
from certigraph.adapters.retrieval.bm25 import STOPWORDS, words
from certigraph.benchmarks.qa import prompts
from certigraph.nodes.passages import passage_source_of
from certigraph.state.endings import Fault
from certigraph.state.records import Action, Arguments, Attempt, Predicate, Task, with_args
from certigraph.state.run import ANSWER, SEARCH, answer, claim
from certigraph.state.sdp import ProposeView, RealizeView, SDPReplanView
from certigraph.state.search import HopFinding, certified_hops, chain_argument

# The certified chain of hops: the finding for each sub-question, and its entity, which later sub-questions may need.

PLACEHOLDER = re.compile(r"#(\d+)")
"""Placeholder `#N` in a sub-question for the entity that answers sub-question N, counted from 1 (as in MuSiQue)."""

HOP, GOAL = "hop", "goal"
"""Kinds of predicates in a plan: a sub-question, and the goal. The kind `answer` comes between them."""


def hop_predicate(index: int, question: str, queries: Sequence[str] = ()) -> Predicate:
    """Create the predicate that a sub-question is answered.

    Args:
        index: number of the sub-question, from 1.
        question: the sub-question.
        queries: search queries that earlier plans tried in vain for it.
    """
    args: Arguments = {"index": index, "question": question}
    return Predicate(text=f"Known: {question}", kind=HOP, args={**args, **({"queries": [*queries]} if queries else {})})


def closing_predicates() -> list[Predicate]:
    """Return the two predicates at the end of every plan: the question is answered, and the answer is final."""
    return [
        Predicate(text="The question is answered from what is certified.", kind=ANSWER),
        Predicate(text="The answer is final.", kind=GOAL),
    ]


def create_hop_claim(index: int, hop: HopFinding, title: str) -> Action:
    """Create the action that claims a finding for a sub-question.

    Args:
        index: number of the sub-question, from 1.
        hop: sub-question, finding and entity.
        title: title of the paragraph that supports the finding.
    """
    action = claim(hop.question, finding=hop.finding, title=title, entity=hop.entity)
    return with_args(action, {"hop": index})


def create_chain_answer(text: str, chain: Sequence[HopFinding]) -> Action:
    """Create the action that notes an answer, together with the chain of findings from which it follows."""
    action = answer(text)
    return with_args(action, chain_argument(chain))


def resolve_placeholders(question: str, hops: dict[int, HopFinding]) -> str:
    """Replace the placeholders `#N` of certified sub-questions in a sub-question by the entities found for them."""
    return PLACEHOLDER.sub(lambda match: hops[int(match[1])].entity if int(match[1]) in hops else match[0], question)


def format_chain(chain: Sequence[HopFinding]) -> str:
    """Format a chain of findings for a prompt: one line with sub-question, entity and finding for each hop."""
    return bullet_list(f"{hop.question} Answer: {hop.entity}. Finding: {hop.finding}" for hop in chain)


# Prompts about a question.


def build_question_prompt(
    task: Task, runtime: Runtime[Context], instruction: str, role: str, *, cut: Sequence[str] = ()
) -> Prompt:
    """Build a prompt about a question: what the model does, and what the passages are, but no actions as text.

    Arguments other than the task are those of `build_prompt`.
    """
    return build_prompt(runtime, instruction, role=role, briefing=passage_source_of(task, runtime).material, cut=cut)


def needs_retrieval(task: Task, runtime: Runtime[Context]) -> bool:
    """Return whether the passages of a task have to be searched for, because they do not come with the question."""
    return passage_source_of(task, runtime).retrieves


# The next search query of a hop: one that a model writes, and broader ones after failures (SDP appendix A.6).

ENTITY_QUERIES_AFTER, GUESSES_AFTER = 4, 6
"""Number of failed queries of a hop after which only names in the sub-question are searched for, and number after which
a guessed answer is searched for."""

_NAME = r"[A-Z\d\u00c0-\u00de\u0100-\u017f][\w.'\u2019&-]*"
_SPAN = re.compile(rf"{_NAME}(?: (?:(?:of|the|de|la|van|von) ){{0,2}}{_NAME})*")


class Query(BaseModel):
    """The model's query."""

    reasoning: FirstReasoning = ""
    query: Annotated[str, Field(min_length=1)]


class Guess(BaseModel):
    """What the model takes for the answer of a sub-question."""

    reasoning: FirstReasoning = ""
    guess: Annotated[str, Field(min_length=1)]


async def next_query(state: RealizeView, runtime: Runtime[Context]) -> str:
    """Return a search query that was not tried for this hop; an empty text if all are used up.

    It is a query written by the model, later a name from the sub-question, later the model's guess of the answer.
    """
    failed = queries_at(state["target"], state["attempts"])
    question = resolve_placeholders(str(state["target"].args["question"]), certified_hops(state["certified"]))
    names = [" ".join(extract_entities(question)), *extract_entities(question)]
    if len(failed) < ENTITY_QUERIES_AFTER:
        return _first_untried([await _ask_query(state, question, failed, runtime), question, *names], failed)
    if len(failed) < GUESSES_AFTER and (query := _first_untried(names, failed)):
        return query
    return _first_untried([await _ask_guess(state, question, failed, runtime), *names, question], failed)


def queries_at(target: Predicate, attempts: Sequence[Attempt]) -> list[str]:
    """Return the search queries tried so far for a hop, those of earlier plans first."""
    earlier = target.args.get("queries")
    searched = [str(a.action.args.get("query")) for a in attempts if a.action.kind == SEARCH]
    return [*(map(str, earlier) if isinstance(earlier, list) else ()), *searched]


def extract_entities(question: str) -> list[str]:
    """Return the distinct names (capitalised spans) and numbers of a sub-question.

    A stopword that is capitalised only because it begins the question is left out.
    """
    spans = (_strip_opening_word(match[0], match.start()) for match in _SPAN.finditer(question))
    return list(dict.fromkeys(span for span in spans if span))


def _strip_opening_word(span: str, start: int) -> str:
    first, _, rest = span.partition(" ")
    opens = start == 0 and first.lower() in STOPWORDS
    return rest if opens else span.removesuffix("'s").removesuffix("\u2019s").rstrip(".,")


def normalise_words(text: str) -> str:
    """Return a text as lower-cased words without accents; equal results mean the same query or sub-question."""
    return " ".join(words(text))


def _first_untried(queries: Iterable[str], failed: Sequence[str]) -> str:
    used = {normalise_words(query) for query in failed}
    return next((query for query in queries if normalise_words(query) and normalise_words(query) not in used), "")


async def _ask_query(state: RealizeView, question: str, failed: Sequence[str], runtime: Runtime[Context]) -> str:
    instruction = prompts.QUERY.format(
        task=state["task"].goal,
        chain=quote(format_chain([*certified_hops(state["certified"]).values()])),
        titles=f"\n{quote(state['evidence'].view)}\n",
        failed=bullet_list(failed),
        advice=f"\nTo keep in mind:\n{bullet_list(state['advice'])}\n" if state["advice"] else "",
        question=question,
    )
    prompt = build_question_prompt(state["task"], runtime, instruction, prompts.SEARCHER)
    return (await ask(prompt, Query, role="executor", runtime=runtime)).query.strip()


async def _ask_guess(state: RealizeView, question: str, failed: Sequence[str], runtime: Runtime[Context]) -> str:
    goal, chain = state["task"].goal, quote(format_chain([*certified_hops(state["certified"]).values()]))
    instruction = prompts.GUESS.format(task=goal, chain=chain, failed=bullet_list(failed), question=question)
    prompt = build_question_prompt(state["task"], runtime, instruction, prompts.SEARCHER)
    return (await ask(prompt, Guess, role="executor", runtime=runtime)).guess.strip()


# Propose and Replan (SDP Eqs. 1 and 4) for multi-hop question answering: sub-questions, the answer, the goal.

MIN_HOPS, MAX_HOPS = 2, 4
"""Minimum and maximum number of sub-questions of MuSiQue; HotpotQA always has the minimum."""

_COUNTED = re.compile(r"(?:.*/)?(\d)hop")


class Subquestions(BaseModel):
    """The model's answer."""

    reasoning: FirstReasoning = ""
    subquestions: list[str]


@lru_cache(maxsize=8)
def create_subquestions_form(most: int) -> type[Subquestions]:
    """Return the answer schema for at most `most` sub-questions."""
    return create_model("Subquestions", __base__=Subquestions, subquestions=(bounded_list(most, str), ...))


def hops_from_id(task: Task) -> int:
    """Return the number of hops that a MuSiQue task id states. It is a label leak, which SDP's runs use (appendix A.6).

    Raises:
        Fault: ("data") the id does not begin with a number of hops, as "2hop__1_2" does.
    """
    if not (match := _COUNTED.match(task.id)):
        raise Fault(
            "data", f"task {task.id!r} does not begin with its number of hops, as 2hop__1_2 does: use plain musique"
        )
    return int(match[1])


async def propose_plan(state: ProposeView, least: int, most: int, runtime: Runtime[Context]) -> list[Predicate]:
    """Ask the model for a plan: one predicate per sub-question, then those of the answer and the goal.

    There are `least` to `most` sub-questions. If the model gives none, the question itself is the only one.
    """
    count = str(least) if least == most else f"{least} to {most}"
    instruction = prompts.DECOMPOSE.format(task=state["task"].goal, count=count)
    prompt = build_question_prompt(state["task"], runtime, instruction, prompts.DECOMPOSER)
    answer = await ask(prompt, create_subquestions_form(most), role="planner", runtime=runtime)
    hops = clean_subquestions(answer.subquestions, first=1, most=most) or [state["task"].goal]
    return [*(hop_predicate(index, question) for index, question in enumerate(hops, 1)), *closing_predicates()]


async def replan_hops(state: SDPReplanView, most: int, runtime: Runtime[Context]) -> list[Predicate]:
    """Ask the model for the rest of the plan after the certified hops; an empty list if there is no other way.

    If all passages come with the question, a sub-question that failed would fail again. The original question then
    replaces it as a single hop; if that failed too, the list is empty. If passages are searched for, the first new hop
    keeps the queries tried so far, so that `next_query` continues with broader ones. A plan has at most `most` hops.
    """
    first = 1 + sum(predicate.kind == HOP for predicate in state["certified"].predicates)
    failed_attempts = [attempt for attempt in state["attempts"] if attempt.position == state["head"]]
    hops = await _ask_subquestions_again(state, failed_attempts, first, max(most - first + 1, 1), runtime)
    if not hops or not needs_retrieval(state["task"], runtime):
        hops = _choose_alternative(hops, _failed_questions(failed_attempts, state), state)
    spent = [str(attempt.action.args["query"]) for attempt in failed_attempts if attempt.action.kind == SEARCH]
    tail = [hop_predicate(n, question, () if n > first else spent) for n, question in enumerate(hops, first)]
    return [*tail, *closing_predicates()] if tail else []


def _choose_alternative(hops: Sequence[str], failed: Set[str], state: SDPReplanView) -> list[str]:
    """Return the new hops if the first of them did not fail before.

    Otherwise return the original question as the only hop, or nothing if that failed before, too.
    """
    known = certified_hops(state["certified"])
    ways = (hops, [state["task"].goal])
    return next(
        ([*way] for way in ways if way and normalise_words(resolve_placeholders(way[0], known)) not in failed), []
    )


def clean_subquestions(texts: Sequence[str], *, first: int, most: int) -> list[str]:
    """Clean the sub-questions that a model wrote: drop numbers, repetitions, and those after the first `most`.

    Where a sub-question gets another number because others are dropped, placeholders that refer to it are changed.

    Args:
        texts: the sub-questions as the model wrote them.
        first: number of the first one.
        most: maximum number of sub-questions.
    """
    written = [_strip_number(" ".join(text.split()), n) for n, text in enumerate(texts, first)]
    distinct = [text for text in dict.fromkeys(written) if text][:most]
    moved = {n: first + distinct.index(text) for n, text in enumerate(written, first) if text in distinct}
    return [PLACEHOLDER.sub(lambda match: f"#{moved.get(int(match[1]), match[1])}", text) for text in distinct]


def _strip_number(text: str, number: int) -> str:
    """Remove a number before a sub-question. "#N" is removed only if N is `number`, else it is a placeholder."""
    return re.sub(rf"^(?:#{number}[.:)]?|\d[.:)]) +", "", text)


async def _ask_subquestions_again(
    state: SDPReplanView, attempts: Sequence[Attempt], first: int, most: int, runtime: Runtime[Context]
) -> list[str]:
    known = certified_hops(state["certified"]).values()
    certified = numbered_list(f"{hop.question} {hop.entity}. {hop.finding}" for hop in known)
    failed = bullet_list(_format_failures(attempts))
    instruction = prompts.REDECOMPOSE.format(
        task=state["task"].goal, certified=quote(certified), failed=quote(failed), count=most, first=first
    )
    prompt = build_question_prompt(state["task"], runtime, instruction, prompts.DECOMPOSER)
    answer = await ask(prompt, create_subquestions_form(most), role="planner", runtime=runtime)
    return clean_subquestions(answer.subquestions, first=first, most=most)


def _failed_questions(attempts: Sequence[Attempt], state: SDPReplanView) -> set[str]:
    known = certified_hops(state["certified"])
    questions = (str(attempt.target.args.get("question", "")) for attempt in attempts)
    return {normalise_words(resolve_placeholders(question, known)) for question in questions}


def _format_failures(attempts: Sequence[Attempt]) -> Iterator[str]:
    """Yield one text per target of the attempts: the target, what was searched for, and each claim with its reason."""
    named = [(str(attempt.target.args.get("question") or attempt.target.text), attempt) for attempt in attempts]
    for subquestion in dict.fromkeys(name for name, _ in named):
        tried = [attempt for name, attempt in named if name == subquestion]
        queries = dict.fromkeys(query for attempt in tried for query in queries_at(attempt.target, [attempt]))
        claims = (attempt for attempt in tried if attempt.action.kind != SEARCH)
        refused = dict.fromkeys(
            f"{one.action.args.get('finding') or 'nothing found'}: {one.verdict.reason}" for one in claims
        )
        searched = f"searched for {'; '.join(queries)}. " if queries else ""
        yield f"{subquestion} {searched}{' | '.join(refused) or 'Nothing was found.'}"
