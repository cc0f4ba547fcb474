"""Operators of search agents: IRCoT, MemGPT, Iter-RetGen, hypotheses and answers."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Annotated, Any

from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.benchmarks import benchmark_of, limits_of
from certigraph.adapters.models.calls import ask, bullet_list, prompt, quoted, unquoted
from certigraph.adapters.models.schemas import Cut, longest_answer
from certigraph.adapters.protocols import Context, Limits, Operator
from certigraph.adapters.qa.planning import page_of
from certigraph.adapters.research.operators import REJECTIONS, force_accept, let_pass
from certigraph.nodes.beliefs import answering
from certigraph.nodes.react import (
    CORE,
    IRCOT,
    ITER_RETGEN,
    KEPT,
    MEMGPT,
    PAGE,
    PARAGRAPHS,
    PRESSURE,
    RETURNED,
    gathered,
    tool_used,
    transcript,
    unbegun,
    weight,
    with_tools,
)
from certigraph.nodes.sdp import validate
from certigraph.nodes.slots import OPENED, Slot, Update, factory, specialised
from certigraph.state.records import Action, Task, UnknownName
from certigraph.state.run import RETRIEVED, SEARCH, Belief, DecideView, Fact, finish, search
from certigraph.state.sdp import ValidateView
from certigraph.state.search import (
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


def _unexplored(state: HypothesesState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "branches": Overwrite([]), "hypotheses": ()}


def _unanswerable(state: HypothesesState, runtime: Runtime[Context]) -> Update | None:
    return None if answering(state, runtime) else {"hypotheses": ()}


def _borne_out(state: HypothesesState, update: Update, runtime: Runtime[Context]) -> Update:
    """Hand the answer in with what was retrieved for it, in worlds that this one has not seen."""
    found = chain.from_iterable(branch.retrieved for branch in aggregate_view(state)["branches"])
    action: Action = update["action"]
    retrieved = {RETRIEVED: list(dict.fromkeys(found))}
    return {**update, "action": action.model_copy(update={"args": {**action.args, **retrieved}})}


RESET = Slot("reset", OPENED, record=_unexplored, starts_run=True)
HYPOTHESISE = Slot("hypothesise", frozenset({"hypotheses"}), hypothesise_view, skip=_unanswerable)
EXPLORE = Slot("explore", frozenset({"branches"}))
AGGREGATE = Slot("aggregate", frozenset({"action"}), aggregate_view, _borne_out)


# MemGPT's step: act, note in core memory, and flush the queue when the context fills (Packer et al., 2310.08560).
#
# Its own memory lies in the belief while that is native: `notes` are core memory, the one fact is the summary of what
# left the queue, `window` the turns in it. Under another memory condition that belief is gone, and it keeps none.

EARLIER = "rounds no longer shown"
"""Where a summary stands."""


class ManagedMove(BaseModel):
    """The model's answer, before the world's tools are known. An empty `remember` leaves core memory as it is."""

    thought: Annotated[str, Cut(120)]
    remember: Annotated[str, Cut(200)]
    tool: str
    text: str


class Summary(BaseModel):
    """The model's answer."""

    summary: Annotated[str, Field(min_length=1), Cut(800)]


@factory
def manage(*, alpha: float = MEMGPT.alpha, page: int = PAGE, pressure: float = PRESSURE) -> Operator:
    """Use a tool and note what must not be lost; under memory pressure it is warned, then its queue is flushed.

    Args:
        alpha: weight of BM25 against vectors in the retrieval.
        page: passages that a search returns at most.
        pressure: share of `Limits.context` that counts as pressure.
    """

    async def manage(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        given = limits_of(state["task"], runtime)
        limits = given.model_copy(update={"excerpt": min(given.excerpt, RETURNED // page)})
        own, most = state["belief"].form == "native", pressure * limits.context
        pressed = own and len(state["turns"]) > KEPT and weight(state["turns"], limits) > most
        order = MANAGE_INSTRUCTION.format(task=state["assignment"], warning=WARNING if pressed else "")
        form = with_tools(ManagedMove, state, runtime)
        move = await ask(prompt(runtime, gathered(state, limits) + order), form, role="executor", runtime=runtime)
        belief = remembering(state["belief"], move.remember, len(state["turns"])) if own else state["belief"]
        return {
            "thought": unquoted(move.thought),
            "action": tool_used(move.tool, move.text, alpha=alpha, k=min(page, limits.passages)),
            "belief": await _flushed(belief, state, limits, runtime) if pressed else belief,
        }

    return manage


def remembering(belief: Belief, note: str, turns: int) -> Belief:
    """The belief with a note more, within the bound of core memory, and room for the turn that is about to be."""
    notes = tuple(filter(None, (*belief.notes, unquoted(note))))
    while _size(notes) > CORE:
        notes = notes[1:]
    return belief.model_copy(update={"notes": tuple(dict.fromkeys(notes)), "window": turns + 1})


def _size(notes: Sequence[str]) -> int:
    return sum(map(len, notes)) + len(notes)


async def _flushed(belief: Belief, state: DecideView, limits: Limits, runtime: Runtime[Context]) -> Belief:
    """The belief with all turns but the latest in its summary."""
    leaving = transcript(state["turns"][:-KEPT], limits)
    before = belief.facts[0].text if belief.facts else "(none)"
    order = SUMMARISE.format(before=quoted(before), turns=quoted(leaving, limits.context), task=state["assignment"])
    told = await ask(prompt(runtime, order), Summary, role="memory", runtime=runtime)
    summary = Fact(text=unquoted(told.summary), source=EARLIER)
    changes = {"facts": (summary,), "window": KEPT + 1, "reorganised": belief.reorganised + 1}
    return belief.model_copy(update=changes)


MANAGE_INSTRUCTION = """{warning}
Question: {task}
Think in one short sentence. In `remember`, write what you must not lose sight of, or leave it empty: it stays in your
notes when rounds are no longer shown. Then use one tool. Finish with the shortest answer once the question is settled.
"""

WARNING = """
Your context is nearly full: after this round only a summary of the older rounds is left. Remember what matters now.
"""

SUMMARISE = """\
Summary so far:
{before}

Rounds that are about to leave the context:
{turns}

They were made to answer: {task}
Write one summary in place of both, in a few sentences: what was found, with names, and what led nowhere.
"""


# IRCoT's step: one more sentence of reasoning, which is the next query (Trivedi et al., arXiv 2212.10509).

ANSWERED = re.compile(r"\banswer is:?\s*(.+?)\.?\s*$", re.IGNORECASE)
"""How IRCoT ends."""


class Sentence(BaseModel):
    """The model's answer."""

    sentence: Annotated[str, Field(min_length=1), Cut(300)]


@factory
def reason(*, alpha: float = IRCOT.alpha, paragraphs: int = PARAGRAPHS) -> Operator:
    """Reason one sentence further and search with it; the first search is the question itself.

    Args:
        alpha: weight of BM25 against vectors in the retrieval.
        paragraphs: how many different paragraphs it reads at once, the latest.
    """

    async def reason(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        if unbegun(state):
            return {"thought": "", "action": search(state["assignment"], alpha=alpha)}
        told = gathered(state, limits_of(state["task"], runtime), paragraphs=paragraphs)
        question = prompt(runtime, told + REASON_INSTRUCTION.format(task=state["assignment"]))
        answer = await ask(question, Sentence, role="executor", runtime=runtime)
        sentence = unquoted(answer.sentence)
        answered = ANSWERED.search(sentence)
        return {"thought": sentence, "action": finish(answered[1]) if answered else search(sentence, alpha=alpha)}

    return reason


REASON_INSTRUCTION = """
Question: {task}
Write the next sentence of the reasoning, from what the passages say; name the entity to look up next. Do not repeat
a sentence. Once the question can be answered, write instead: So the answer is: (the shortest answer).
"""


# Iter-RetGen's step: generate from the latest passages, retrieve by the generation (Shao et al., arXiv 2305.15294).


class Generation(BaseModel):
    """The model's answer."""

    generation: Annotated[str, Field(min_length=1), Cut(300)]


@factory
def generate(*, alpha: float = ITER_RETGEN.alpha) -> Operator:
    """Search for the question, and from then on for the question and the last generation; never stop.

    It has no memory beyond the latest passages: that is what its native belief says, so that the author of the final
    answer sees no more either.

    Args:
        alpha: weight of BM25 against vectors in the retrieval.
    """

    async def generate(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        belief = state["belief"]
        if belief.form == "native":
            belief = belief.model_copy(update={"window": 1})
        if unbegun(state):
            return {"thought": "", "action": search(state["assignment"], alpha=alpha), "belief": belief}
        told = gathered(state, limits_of(state["task"], runtime))
        question = prompt(runtime, told + GENERATE_INSTRUCTION.format(task=state["assignment"]))
        answer = await ask(question, Generation, role="executor", runtime=runtime)
        text = unquoted(answer.generation)
        return {"thought": text, "action": search(f"{state['assignment']} {text}", alpha=alpha), "belief": belief}

    return generate


GENERATE_INSTRUCTION = """
Question: {task}
Reason from what the passages say, in one or two sentences, and name the answer as far as they give it. It is used as
the next query, so name what it still depends on.
"""


# An agent whose searches have another depth or other weights than its own: what the retrieval ablations exchange.


@factory
def retrieving(*, decide: Operator, alpha: float | None = None, k: int | None = None) -> Operator:
    """Decide as `decide` does, and search with these settings.

    Args:
        decide: the agent.
        alpha: weight of BM25 against vectors, 0 to 1; None: the agent's own.
        k: passages that a search returns; None: the limits'.
    """
    settings = {name: value for name, value in (("alpha", alpha), ("k", k)) if value is not None}

    async def retrieving(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        update = await decide(state, runtime)
        action: Action = update["action"]
        if action.kind != SEARCH:
            return update
        return {**update, "action": action.model_copy(update={"args": {**action.args, **settings}})}

    return retrieving


# Hypotheses of where the answer may lie: directions for searches to take (CGDP sections 4.1 and appendix B).

MOST = 6
"""Hypotheses that one question may ask for."""


class Hypotheses(BaseModel):
    """The model's answer."""

    hypotheses: Annotated[list[Annotated[str, Field(min_length=1), Cut(200)]], Cut(MOST)]


@factory
def hypothesise(*, number: int = 3) -> Operator:
    """Ask for `number` different directions before anything was searched; fewer come where the model has no more.

    Raises:
        UnknownName: the number is not in 1..6.
    """
    if not 1 <= number <= MOST:
        raise UnknownName(f"hypothesise(number={number}): a number from 1 to {MOST}, as in hypothesise:number=3")

    async def hypothesise(state: HypothesiseView, runtime: Runtime[Context]) -> dict[str, Any]:
        found = await hypotheses(state["task"], runtime, most=number)
        return {"hypotheses": found or ("",)}

    return hypothesise


async def hypotheses(
    task: Task, runtime: Runtime[Context], *, most: int, known: str = "", tried: Iterable[str] = ()
) -> tuple[str, ...]:
    """At most `most` directions that fit what is known and were not tried, the most promising first."""
    order = HYPOTHESISE_QUESTION.format(
        task=task.goal, known=quoted(known or "(nothing)"), tried=quoted(bullet_list(tried)), most=most
    )
    answer = await ask(prompt(runtime, order), Hypotheses, role="planner", runtime=runtime)
    return tuple(dict.fromkeys(" ".join(text.split()) for text in answer.hypotheses))[:most]


def directed(decide: Operator, direction: str) -> Operator:
    """An agent that keeps a direction in mind as the first of its advice."""

    async def directed(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        advice = (f"Direction to take: {direction}", *state["advice"])
        return await decide({**state, "advice": advice}, runtime)

    return directed if direction else decide


HYPOTHESISE_QUESTION = """\
Question: {task}

Known so far:
{known}

Searched for already:
{tried}

Where could the answer lie? Give at most {most} hypotheses that fit what is known and are not yet searched for, the most
promising first, each a short direction for the search: whom or what to look up, and why it may lead to the answer.
"""


# The final answer that is forced from an agent whose search was ended for it.


class FinalAnswer(BaseModel):
    """The model's answer, before it is known how long the benchmark's answers are."""

    answer: str


@specialised
async def answer(state: AnswerView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask for the best answer that what was gathered supports (CGDP section 5.2: from the text of b_t)."""
    told = gathered(state, limits_of(state["task"], runtime)) + await _passages(state, runtime) + _certified(state)
    told += ANSWER_INSTRUCTION.format(task=state["task"].goal)
    form = answer_form(state["task"], runtime)
    answered = await ask(prompt(runtime, told), form, role="executor", runtime=runtime)
    chain = certified_hops(state["certified"]).values()
    return {"action": finish(unquoted(answered.answer), **chain_argument([*chain]))}


async def _passages(state: AnswerView, runtime: Runtime[Context]) -> str:
    """The passages at hand that fit the question best, for agents that keep no turns."""
    task, ids = state["task"], state["evidence"].sources
    if state["turns"] or not ids:
        return ""
    return f"Passages at hand:\n{quoted(await page_of(0, [task.goal], ids, task, runtime))}\n"


def _certified(state: AnswerView) -> str:
    told = [f"{a.args.get('subquestion', '')} {a.text}".strip() for a in state["certified"].actions]
    return f"Certified on the way:\n{quoted(bullet_list(told))}\n" if told else ""


def answer_form(task: Task, runtime: Runtime[Context]) -> type[FinalAnswer]:
    """The form of a final answer, as long as one of the task's benchmark may be."""
    return _form(longest_answer(benchmark_of(task, runtime)))


@lru_cache(maxsize=16)
def _form(most: int) -> type[FinalAnswer]:
    return create_model(
        "FinalAnswer", __base__=FinalAnswer, answer=(Annotated[str, Field(min_length=1), Cut(most)], ...)
    )


ANSWER_INSTRUCTION = """
The search is over. Question: {task}
Answer in as few words as the question allows, from what was found; where that leaves it open, make your best guess.
"""


# One answer from several searches (CGDP appendix B): the majority's, else a model's choice from what each found.


@specialised
async def aggregate(state: AggregateView, runtime: Runtime[Context]) -> dict[str, Any]:
    """The answer that more than half of the searches gave, compared by words; without one, ask a model."""
    return {"action": finish(majority(state["branches"]) or await _chosen(state, runtime))}


def majority(branches: Sequence[Branch]) -> str:
    """The answer of more than half of the searches that gave one, as the first of them words it; empty if none."""
    answers = [branch.answer for branch in branches if branch.answer]
    for alike, votes in Counter(map(_folded, answers)).most_common(1):
        if 2 * votes > len(answers):
            return next(answer for answer in answers if _folded(answer) == alike)
    return ""


def _folded(answer: str) -> str:
    return " ".join(re.findall(r"\w+", answer.casefold())) or answer


async def _chosen(state: AggregateView, runtime: Runtime[Context]) -> str:
    told = "\n\n".join(map(_report, state["branches"]))
    order = AGGREGATE_QUESTION.format(branches=quoted(told), task=state["task"].goal)
    form = answer_form(state["task"], runtime)
    return unquoted((await ask(prompt(runtime, order), form, role="planner", runtime=runtime)).answer)


def _report(branch: Branch) -> str:
    answer = branch.answer or "(none)"
    return f"Search {branch.number}: {branch.hypothesis}\nAnswer: {answer}\nFound:\n{branch.belief or '(nothing)'}"


AGGREGATE_QUESTION = """\
Several searches followed different hypotheses and do not agree:
{branches}

Question: {task}
Give the one answer that what they found supports best, in as few words as the question allows.
"""


# Policies that end a research with something rather than nothing (SDP paper, appendix A.4), and how to do without.
#
# AssistantBench's own operators force; `validate=unforced` and `answer=abstain` switch that off. What is forced is
# marked in the trajectory, counts as no progress, and makes the run's ending something else than `goal`.

__all__ = ["abstain", "force_accept", "force_pass", "unforced"]


@specialised
async def unforced(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Validate as the benchmark does, without its policy: nothing that it refuses goes on."""
    return await validate(state, runtime)


@factory
def force_pass(validate: Operator = unforced, *, after: int = REJECTIONS) -> Operator:
    """A validator that lets a refused finding pass, uncertified, once `after` others of its step were refused.

    Raises:
        UnknownName: `after` is no whole number from 0.
    """
    if not isinstance(after, int) or after < 0:
        raise UnknownName(f"force_pass(after={after!r}): a whole number from 0, as in validate=force_pass:after=2")

    async def force_pass(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
        update = await validate(state, runtime)
        return {**update, "verdict": let_pass(update["verdict"], state["observation"], after)}

    return force_pass


async def abstain(state: AnswerView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Hand in no answer where none is certified: fewer answers, and more of them right."""
    return {"action": finish("")}
