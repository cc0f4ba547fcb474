"""What to search for next at a hop: the model's own query, and wider ones the more queries failed (appendix A.6)."""

import re
from collections.abc import Iterable, Sequence
from typing import Annotated

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.bounds import Within
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.multihop import prompts
from certigraph.adapters.multihop.chain import resolved, told
from certigraph.adapters.prompting import listed, prompt, quoted
from certigraph.adapters.retrieval.analyzer import STOPWORDS, words
from certigraph.state.chains import certified_hops
from certigraph.state.records import Attempt, Predicate
from certigraph.state.sdp import RealizeView
from certigraph.state.searching import SEARCH

BY_ENTITIES, BY_GUESS = 4, 6
"""Failed queries of a hop after which only its entities are searched for, and after which a guess of the answer is."""

_NAME = r"[A-Z\d\u00c0-\u00de\u0100-\u017f][\w.'\u2019&-]*"
_SPAN = re.compile(rf"{_NAME}(?: (?:(?:of|the|de|la|van|von) ){{0,2}}{_NAME})*")


class Query(BaseModel):
    """The model's query."""

    query: Annotated[str, Field(min_length=1), Within(150)]


class Guess(BaseModel):
    """What the model takes for the answer of a sub-question."""

    guess: Annotated[str, Field(min_length=1), Within(100)]


async def next_query(state: RealizeView, runtime: Runtime[Context]) -> str:
    """A query that was not tried at this hop; empty where every way to one is used up."""
    failed = queries_at(state["target"], state["attempts"])
    question = resolved(str(state["target"].args["question"]), certified_hops(state["certified"]))
    names = [" ".join(entities(question)), *entities(question)]
    if len(failed) < BY_ENTITIES:
        return _untried([await _written(state, question, failed, runtime), question, *names], failed)
    if len(failed) < BY_GUESS and (query := _untried(names, failed)):
        return query
    return _untried([await _guessed(state, question, failed, runtime), *names, question], failed)


def queries_at(target: Predicate, attempts: Sequence[Attempt]) -> list[str]:
    """The queries that this hop has used, those of earlier plans first."""
    earlier = target.args.get("queries")
    searched = [str(a.action.args.get("query")) for a in attempts if a.action.kind == SEARCH]
    return [*(map(str, earlier) if isinstance(earlier, list) else ()), *searched]


def entities(question: str) -> list[str]:
    """The capitalised spans and numbers of a sub-question, each once, without the word that only opens it."""
    spans = (_without_opening(match[0], match.start()) for match in _SPAN.finditer(question))
    return list(dict.fromkeys(span for span in spans if span))


def _without_opening(span: str, start: int) -> str:
    first, _, rest = span.partition(" ")
    opens = start == 0 and first.lower() in STOPWORDS
    return rest if opens else span.removesuffix("'s").removesuffix("\u2019s").rstrip(".,")


def plain(text: str) -> str:
    """The words of a text, by which two of them are the same query or sub-question."""
    return " ".join(words(text))


def _untried(queries: Iterable[str], failed: Sequence[str]) -> str:
    used = {plain(query) for query in failed}
    return next((query for query in queries if plain(query) and plain(query) not in used), "")


async def _written(state: RealizeView, question: str, failed: Sequence[str], runtime: Runtime[Context]) -> str:
    instruction = prompts.QUERY.format(
        task=state["task"].goal,
        chain=quoted(told([*certified_hops(state["certified"]).values()])),
        failed=listed(failed),
        advice=f"\nTo keep in mind:\n{listed(state['advice'])}\n" if state["advice"] else "",
        question=question,
    )
    return (await ask(prompt(runtime, instruction), Query, role="executor", runtime=runtime)).query.strip()


async def _guessed(state: RealizeView, question: str, failed: Sequence[str], runtime: Runtime[Context]) -> str:
    instruction = prompts.GUESS.format(task=state["task"].goal, question=question, failed=listed(failed))
    return (await ask(prompt(runtime, instruction), Guess, role="executor", runtime=runtime)).guess.strip()
