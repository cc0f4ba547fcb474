"""Operators of search agents: the steps of IRCoT and Iter-RetGen, hypotheses, and the final answer.

The last section has the policies that give an uncertified answer, and the operators that switch them off.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Annotated, Any, TypeVar

from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.benchmarks import benchmark_of
from certigraph.adapters.models.calls import ask
from certigraph.adapters.models.prompts import build_prompt, bullet_list, quote, unquote_line
from certigraph.adapters.models.schemas import FirstReasoning, Truncated
from certigraph.adapters.protocols import Context, Operator
from certigraph.nodes.beliefs import accepts_answer
from certigraph.nodes.operators import call_operator
from certigraph.nodes.passages import load_page
from certigraph.nodes.react import (
    IRCOT_DEFAULTS,
    ITER_RETGEN_DEFAULTS,
    MAX_PARAGRAPHS,
)
from certigraph.nodes.slots import CALL_KEYS, RESET_KEYS, Slot, Update, factory, prefer_benchmark_operator
from certigraph.nodes.transcripts import format_rounds_left, is_first_round, search_prompt
from certigraph.state.endings import UnknownName
from certigraph.state.records import Action, Task, with_args
from certigraph.state.run import RETRIEVED, SEARCH, DecideView, finish, search, search_settings
from certigraph.state.search import (
    AGREED,
    AggregateView,
    AnswerView,
    Branch,
    HypothesesState,
    HypothesiseView,
    aggregate_view,
    certified_hops,
    chain_argument,
    hypothesise_view,
)

# The slots of parallel hypotheses.


def _clear_branches(state: HypothesesState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "branches": Overwrite([]), "hypotheses": ()}


def _skip_without_answer(state: HypothesesState, runtime: Runtime[Context]) -> Update | None:
    return None if accepts_answer(state, runtime) else {"hypotheses": ()}


def _attach_origin(state: HypothesesState, update: Update, runtime: Runtime[Context]) -> Update:
    """Add to the answer what the searches retrieved in worlds of their own, and how many of them gave this answer."""
    action, branches = update["action"], aggregate_view(state)["branches"]
    given = _normalise_answer(str(action.args.get("answer", "")))
    agreed = sum(_normalise_answer(branch.answer) == given for branch in branches)
    sources = chain.from_iterable(branch.retrieved for branch in branches)
    origin = {RETRIEVED: list(dict.fromkeys(sources)), AGREED: f"{agreed} of {len(branches)}"}
    return {**update, "action": with_args(action, origin)}


RESET = Slot("reset", RESET_KEYS, record=_clear_branches, starts_run=True, may_write=CALL_KEYS)
HYPOTHESISE = Slot("hypothesise", {"hypotheses": Sequence[str]}, hypothesise_view, skip=_skip_without_answer)
EXPLORE = Slot("explore", {"branches": Sequence[Branch]})
AGGREGATE = Slot("aggregate", {"action": Action}, aggregate_view, _attach_origin)


# IRCoT's step: write one more sentence of reasoning, which is the next query (Trivedi et al., arXiv 2212.10509).

ANSWER_PATTERN = re.compile(r"\banswer is:?\s*(.+?)\.?\s*$", re.IGNORECASE)
"""Matches the sentence that ends IRCoT; the group is the answer."""


class Sentence(BaseModel):
    """The model's answer."""

    sentence: Annotated[str, Field(min_length=1)]


@factory
def reason(
    *, alpha: float = IRCOT_DEFAULTS.alpha, paragraphs: int = MAX_PARAGRAPHS, rerank: str | None = None
) -> Operator:
    """Ask the model for one more sentence of reasoning, and search with it (IRCoT). The first query is the question.

    Args:
        alpha: weight of BM25 in retrieval, from 0 (vectors only) to 1 (BM25 only).
        paragraphs: maximum number of different paragraphs in the prompt; the latest ones are shown.
        rerank: cross-encoder that reorders the first results of every search; None for none.
    """
    settings = search_settings(alpha=alpha, rerank=rerank)

    async def reason(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        if is_first_round(state):
            return {"thought": "", "action": search(state["assignment"], **settings)}
        benchmark = benchmark_of(state["task"], runtime)
        instruction = REASON_INSTRUCTION.format(task=state["assignment"], style=benchmark.answer_style)
        left = format_rounds_left(state, runtime)
        request = await search_prompt(
            state, instruction, "executor", runtime, shown=left, closing=REASON_CLOSING, paragraphs=paragraphs
        )
        answer = await ask(request, Sentence, role="executor", runtime=runtime)
        sentence = unquote_line(answer.sentence)
        answered = ANSWER_PATTERN.search(sentence)
        query = sentence[: benchmark.longest_query]
        return {"thought": sentence, "action": finish(answered[1]) if answered else search(query, **settings)}

    return reason


REASON_INSTRUCTION = """\
Write the next sentence of the reasoning, from what the passages say; name the entity to look up next. Do not repeat
a sentence. Once the question can be answered, write instead: So the answer is: ({style}).

Question: {task}
"""

REASON_CLOSING = "What is the next sentence?"


# Iter-RetGen's step: generate from the latest passages, then retrieve with the generation (arXiv 2305.15294).


class Generation(BaseModel):
    """The model's answer."""

    generation: Annotated[str, Field(min_length=1)]


@factory
def generate(*, alpha: float = ITER_RETGEN_DEFAULTS.alpha, rerank: str | None = None) -> Operator:
    """Search for the question, then for the question and the model's last generation (Iter-RetGen). Never stops.

    Iter-RetGen remembers only the latest passages and gives the final answer from them. So the belief shows only one
    turn, unless another memory than `native` writes it.

    Args:
        alpha: weight of BM25 in retrieval, from 0 (vectors only) to 1 (BM25 only).
        rerank: cross-encoder that reorders the first results of every search; None for none.
    """
    settings = search_settings(alpha=alpha, rerank=rerank)

    async def generate(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        belief = state["belief"]
        if belief.form == "native":
            belief = belief.model_copy(update={"window": 1})
        if is_first_round(state):
            return {"thought": "", "action": search(state["assignment"], **settings), "belief": belief}
        instruction, left = GENERATE_INSTRUCTION.format(task=state["assignment"]), format_rounds_left(state, runtime)
        request = await search_prompt(state, instruction, "executor", runtime, shown=left, closing=GENERATE_CLOSING)
        answer = await ask(request, Generation, role="executor", runtime=runtime)
        text = unquote_line(answer.generation)
        query = f"{state['assignment']} {text[: benchmark_of(state['task'], runtime).longest_query]}"
        return {"thought": text, "action": search(query, **settings), "belief": belief}

    return generate


GENERATE_INSTRUCTION = """\
Reason from what the passages say, in one or two sentences, and name the answer as far as they give it. It is used as
the next query, so name what it still depends on.

Question: {task}
"""

GENERATE_CLOSING = "What do the passages say about the question?"


# Other search settings for an agent, for the retrieval ablations.


@factory
def retrieving(
    *,
    decide: Operator,
    alpha: float | None = None,
    k: int | None = None,
    rerank: str | None = None,
    candidates: int | None = None,
) -> Operator:
    """Wrap an operator that chooses actions, so that all its searches use the given retrieval settings.

    Args:
        decide: the operator: an agent's for the slot `decide`, or that of SDP for the slot `realize`.
        alpha: weight of BM25 in retrieval, from 0 (vectors only) to 1 (BM25 only); None keeps the agent's setting.
        k: number of passages that a search returns; None keeps the number in the limits.
        rerank: cross-encoder that reorders the first results; None keeps the agent's setting, "" switches it off.
        candidates: number of results that are reranked; None for the default, 50.

    Raises:
        Fault: ("data") `rerank` is not text, or `candidates` not a positive whole number.
    """
    settings = search_settings(alpha=alpha, k=k, rerank=rerank, candidates=candidates)

    async def retrieving(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        update = await call_operator(decide, state, runtime)
        action: Action = update["action"]
        if action.kind != SEARCH:
            return update
        return {**update, "action": with_args(action, settings)}

    return retrieving


# Hypotheses about the answer, each a direction for a search (CGDP section 4.1 and appendix B).

MAX_HYPOTHESES = 6
"""Maximum number of hypotheses for a question."""


class Hypotheses(BaseModel):
    """Answer schema of hypotheses, before the maximum number of them is added."""

    hypotheses: list[Annotated[str, Field(min_length=1)]]


@lru_cache(maxsize=MAX_HYPOTHESES)
def _hypotheses_form(most: int) -> type[Hypotheses]:
    field = Hypotheses.model_fields["hypotheses"].annotation
    return create_model("Hypotheses", __base__=Hypotheses, hypotheses=(Annotated[field, Truncated(most)], ...))  # type: ignore[arg-type]


@factory
def hypothesise(*, number: int = 3) -> Operator:
    """Ask the model for `number` hypotheses about the answer, each a direction to search in; it may give fewer.

    Raises:
        UnknownName: `number` is not between 1 and 6.
    """
    if not 1 <= number <= MAX_HYPOTHESES:
        raise UnknownName(
            f"hypothesise(number={number}): number must be 1 to {MAX_HYPOTHESES}, as in hypothesise:number=3"
        )

    async def hypothesise(state: HypothesiseView, runtime: Runtime[Context]) -> dict[str, Any]:
        directions = await ask_hypotheses(state["task"], runtime, most=number)
        return {"hypotheses": directions or ("",)}

    return hypothesise


async def ask_hypotheses(
    task: Task, runtime: Runtime[Context], *, most: int, known: str = "", tried: Iterable[str] = ()
) -> tuple[str, ...]:
    """Ask the model for hypotheses that fit what is known and were not searched for, the most promising first.

    Several are for searches that take place at the same time.

    Args:
        task: the task, whose goal is the question.
        runtime: the operator's runtime.
        most: maximum number of hypotheses.
        known: what is known so far.
        tried: queries of earlier searches.
    """
    instruction = HYPOTHESISE_QUESTION.format(
        task=task.goal,
        known=quote(known or "(nothing)"),
        tried=quote(bullet_list(tried)),
        most=most,
        parallel=PARALLEL_CLAUSE if most > 1 else "",
    )
    answer = await ask(build_prompt(runtime, instruction), _hypotheses_form(most), role="planner", runtime=runtime)
    return tuple(dict.fromkeys(" ".join(text.split()) for text in answer.hypotheses))


def with_direction(decide: Operator, direction: str) -> Operator:
    """Wrap an agent's operator so that its prompt names a direction to begin in; an empty one changes nothing."""

    async def directed(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        advice, lasting = (DIRECTION.format(direction=direction), *state["advice"]), state.get("lasting", 0) + 1
        return await call_operator(decide, {**state, "advice": advice, "lasting": lasting}, runtime)

    return directed if direction else decide


DIRECTION = "Guess to begin with, which is no evidence; leave it once it was followed or proved wrong: {direction}"

HYPOTHESISE_QUESTION = """\
Say where the answer could lie, in hypotheses that fit what is known and are not yet searched for: at most {most}, the
most promising first, each a short direction for a search: whom or what to look up, and why it may lead to the answer.
{parallel}
Question: {task}

Known so far:
{known}

Searched for already:
{tried}

Where could the answer lie?
"""

PARALLEL_CLAUSE = """\
Each is followed by a search of its own, all of them at the same time and from the start: they should exclude one
another, and none may depend on what another one finds. Where only one is plausible, give that one.
"""


# The final answer of an agent whose search was stopped.


class FinalAnswer(BaseModel):
    """Answer schema of the final answer, before the maximum length of a benchmark's answers is added."""

    answer: str


@prefer_benchmark_operator
async def answer(state: AnswerView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model for the answer that the gathered evidence supports best (CGDP section 5.2)."""
    evidence = await _format_passages(state, runtime) + _format_certified(state)
    instruction = ANSWER_INSTRUCTION.format(task=state["task"].goal, **_answer_wording(state["task"], runtime))
    prompt = await search_prompt(state, instruction, "executor", runtime, shown=evidence, closing=ANSWER_CLOSING)
    final = await ask(prompt, answer_form(state["task"], runtime, FinalAnswer), role="executor", runtime=runtime)
    chain = certified_hops(state["certified"]).values()
    return {"action": finish(unquote_line(final.answer), **chain_argument([*chain]))}


def _answer_wording(task: Task, runtime: Runtime[Context]) -> dict[str, str]:
    benchmark = benchmark_of(task, runtime)
    otherwise = UNKNOWN_ANSWER.format(answer=benchmark.unknown_answer) if benchmark.unknown_answer else GUESS
    return {"style": benchmark.answer_style, "otherwise": otherwise}


async def _format_passages(state: AnswerView, runtime: Runtime[Context]) -> str:
    """Format the retrieved passages that fit the question best, for agents without a transcript of turns."""
    task, ids = state["task"], state["evidence"].sources
    if state["turns"] or not ids:
        return ""
    page = await load_page(0, [task.goal], ids, task, runtime)
    return f"Passages at hand:\n{quote(page.text, len(page.text))}\n"


def _format_certified(state: AnswerView) -> str:
    steps = [f"{a.args.get('subquestion', '')} {a.text}".strip() for a in state["certified"].actions]
    return f"Certified on the way:\n{quote(bullet_list(steps))}\n" if steps else ""


F = TypeVar("F", bound=BaseModel)


def answer_form(task: Task, runtime: Runtime[Context], base: type[F]) -> type[F]:
    """Create the schema of an answer, such as the final one, with the maximum length of the benchmark's answers."""
    return _answer_form_of_length(base, benchmark_of(task, runtime).longest_answer)


@lru_cache(maxsize=16)
def _answer_form_of_length(base: type[F], most: int) -> type[F]:
    text = Annotated[str, Field(min_length=1), Truncated(most)]
    return create_model(base.__name__, __base__=base, answer=(text, ...))


ANSWER_INSTRUCTION = """\
The search is over. Give {style}, from what was found; {otherwise}.

Question: {task}
"""

ANSWER_CLOSING = "What is the answer?"

GUESS = "where that leaves it open, make your best guess"

UNKNOWN_ANSWER = "where that does not tell it, the answer is {answer}, and a guess is worse"


# One answer from several searches (CGDP appendix B): the one that all gave, else a model's choice.


@prefer_benchmark_operator
async def aggregate(state: AggregateView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Give the answer on which all searches agree, case and punctuation aside; else ask a model to choose."""
    return {"action": finish(agreed_answer(state["branches"]) or await _ask_choice(state, runtime))}


def agreed_answer(branches: Sequence[Branch]) -> str:
    """Return the answer of the first search that gave one, if no other search gave another answer, else ""."""
    answers = [branch.answer for branch in branches if branch.answer]
    return answers[0] if len(set(map(_normalise_answer, answers))) == 1 else ""


def _normalise_answer(answer: str) -> str:
    return " ".join(re.findall(r"\w+", answer.casefold())) or answer


class ChosenAnswer(BaseModel):
    """Answer schema of the choice, before the maximum length of a benchmark's answers is added."""

    reasoning: FirstReasoning = ""
    answer: str


async def _ask_choice(state: AggregateView, runtime: Runtime[Context]) -> str:
    reports = "\n\n".join(map(_format_branch, state["branches"]))
    wording = _answer_wording(state["task"], runtime)
    instruction = AGGREGATE_QUESTION.format(branches=quote(reports), task=state["task"].goal, **wording)
    form = answer_form(state["task"], runtime, ChosenAnswer)
    return unquote_line((await ask(build_prompt(runtime, instruction), form, role="planner", runtime=runtime)).answer)


def _format_branch(branch: Branch) -> str:
    answer = branch.answer or "(none)"
    return f"Search {branch.number}: {branch.hypothesis}\nAnswer: {answer}\nFound:\n{branch.belief or '(nothing)'}"


AGGREGATE_QUESTION = """\
Several searches followed different hypotheses. Their answers are not worded alike, and may still mean the same. Give
{style}, from what all of them found; {otherwise}.
In `reasoning`, go through their answers: what that was found leads to each, whichever search found it, and what is only
assumed? An answer to which findings lead counts for more than an assumed one, however many searches gave that.

Question: {task}

The searches, each with its answer and what it found:
{branches}

Which answer is supported best?
"""


async def abstain(state: AnswerView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Give no answer if none is certified, so that there are fewer answers but more of them are right."""
    return {"action": finish("")}
