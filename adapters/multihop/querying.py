"""What to search for next at a hop: the model's own query, and wider ones the more queries failed (appendix A.6)."""

import re
from collections.abc import Iterable, Sequence

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field

from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.multihop import prompts
from certigraph.adapters.multihop.chain import certified_hops, resolved, told
from certigraph.adapters.prompting import listed, prompt, quoted
from certigraph.adapters.retrieval.analyzer import STOPWORDS
from certigraph.state.records import Attempt, Predicate
from certigraph.state.sdp import RealizeView
from certigraph.state.searching import SEARCH

BY_ENTITIES, BY_GUESS = 4, 6
"""Failed queries of a hop after which only its entities are searched for, and after which a guess of the answer is."""

_SPAN = re.compile(r"[A-Z\d][\w.'’&-]*(?: (?:(?:of|the|de|la|van|von|and|in|for) ){0,2}[A-Z\d][\w.'’&-]*)*")


class Query(BaseModel):
    """The model's query."""

    query: str = Field(min_length=1, max_length=150)


class Guess(BaseModel):
    """What the model takes for the answer of a sub-question."""

    guess: str = Field(min_length=1, max_length=100)


async def next_query(state: RealizeView, runtime: Runtime[Context]) -> str:
    """A query that was not tried at this hop; empty where every way to one is used up."""
    failed = queries_at(state["target"], state["attempts"])
    question = resolved(str(state["target"].args["question"]), certified_hops(state["certified"]))
    spans = entities(question)
    plain = [" ".join(spans), *spans, question]
    if len(failed) >= BY_GUESS:
        return _untried([await _guessed(state, question, runtime), *plain], failed)
    if len(failed) >= BY_ENTITIES and (query := _untried(plain[:-1], failed)):
        return query
    return _untried([await _written(state, question, failed, runtime), question, *plain], failed)


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
    return rest if opens else span.removesuffix("'s").removesuffix("’s").rstrip(".,")


def _untried(queries: Iterable[str], failed: Sequence[str]) -> str:
    used = {_plain(query) for query in failed}
    return next((query for query in queries if _plain(query) and _plain(query) not in used), "")


def _plain(query: str) -> str:
    return " ".join(re.findall(r"\w+", query.casefold()))


async def _written(state: RealizeView, question: str, failed: Sequence[str], runtime: Runtime[Context]) -> str:
    instruction = prompts.QUERY.format(
        task=state["task"].goal,
        chain=quoted(told([*certified_hops(state["certified"]).values()])),
        failed=listed(failed),
        question=question,
    )
    return (await ask(prompt(runtime, instruction), Query, role="executor", runtime=runtime)).query.strip()


async def _guessed(state: RealizeView, question: str, runtime: Runtime[Context]) -> str:
    instruction = prompts.GUESS.format(task=state["task"].goal, question=question)
    return (await ask(prompt(runtime, instruction), Guess, role="executor", runtime=runtime)).guess.strip()
