"""Realize (SDP Eq. 2) for hops: search where passages have to be found, else claim what the passages at hand say."""

from collections.abc import Sequence
from typing import Annotated

from langgraph.runtime import Runtime
from pydantic import BaseModel

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.bounds import Within
from certigraph.adapters.context import Context
from certigraph.adapters.models.ask import ask
from certigraph.adapters.multihop import prompts
from certigraph.adapters.multihop.chain import hop_claim, resolved, told
from certigraph.adapters.multihop.querying import next_query, queries_at
from certigraph.adapters.multihop.reading import page_of, retrieves
from certigraph.adapters.prompting import clipped, listed, prompt, quoted, unquoted
from certigraph.state.chains import Hop, certified_hops
from certigraph.state.records import Action, Arguments, Attempt
from certigraph.state.sdp import RealizeView
from certigraph.state.searching import CLAIM, SEARCH, search

MOST_FAILURES_SHOWN = 3

MOST_FINDING = 1_000
"""Characters of a finding: it quotes every sentence that it rests on, for support is scored by sentences."""

AGAIN = "again"
"""Argument of a search that follows a search at the same target: the first found nothing, so that it was a try."""


class Finding(BaseModel):
    """What the model found for a sub-question. The title is in its words: the world resolves it."""

    found: bool
    title: Annotated[str, Within(150)]
    finding: Annotated[str, Within(MOST_FINDING)]
    entity: Annotated[str, Within(100)]


NOTHING = Finding(found=False, title="", finding="", entity="")


async def hop_action(state: RealizeView, runtime: Runtime[Context]) -> Action:
    """A search, or a claim.

    Where passages are searched for, a claim needs a search for this target since the last claim, and a finding in what
    is at hand then; else there is another search, until all queries are used up. A claim of nothing is rejected, and so
    the tries at the target end.
    """
    searching = retrieves(state["task"], runtime)
    found = None if searching and not _unread(state) else await _found(state, runtime)
    if searching and not (found and found.found) and (query := await next_query(state, runtime)):
        again: Arguments = {AGAIN: True} if _last_was_search(state["attempts"]) else {}
        return search(query, k=limits_of(state["task"], runtime).passages, **again)
    said = found or await _found(state, runtime)
    hop = Hop(_question(state), said.finding, said.entity)
    return hop_claim(int(str(state["target"].args["index"])), hop, said.title)


def _unread(state: RealizeView) -> bool:
    """Whether a search, of this plan or at the end of the one before, brought up what was not read for this target."""
    return _last_was_search(state["attempts"]) or (not state["attempts"] and "queries" in state["target"].args)


def _last_was_search(attempts: Sequence[Attempt]) -> bool:
    return bool(attempts) and attempts[-1].action.kind == SEARCH


def _question(state: RealizeView) -> str:
    return resolved(str(state["target"].args["question"]), certified_hops(state["certified"]))


async def _found(state: RealizeView, runtime: Runtime[Context]) -> Finding:
    """What the model finds in the passages at hand; a finding without an entity is its own entity, and vice versa."""
    if not state["evidence"].sources:
        return NOTHING
    said = await ask(prompt(runtime, await _instruction(state, runtime)), Finding, role="executor", runtime=runtime)
    finding, entity = unquoted(said.finding), unquoted(said.entity)
    if not said.found or not (finding or entity):
        return NOTHING
    return Finding(found=True, title=unquoted(said.title), finding=finding or entity, entity=entity or finding[:100])


async def _instruction(state: RealizeView, runtime: Runtime[Context]) -> str:
    question, claims = _question(state), [a for a in state["attempts"] if a.action.kind == CLAIM]
    queries = queries_at(state["target"], state["attempts"])[-1:]
    empty = sum(not claim.action.args.get("finding") for claim in claims)
    passages = await page_of(empty, [*queries, question], state["evidence"].sources, state["task"], runtime)
    limits = limits_of(state["task"], runtime)
    return prompts.FIND.format(
        passages=quoted(passages),
        task=state["task"].goal,
        chain=quoted(clipped(told([*certified_hops(state["certified"]).values()]), limits.context // 8)),
        notes=_notes(state),
        failed=clipped(listed(_failure(claim) for claim in claims[-MOST_FAILURES_SHOWN:]), limits.context // 8),
        question=question,
    )


def _notes(state: RealizeView) -> str:
    return f"\nNotes:\n{quoted(state['belief'].text)}\n" if state["belief"].text else ""


def _failure(attempt: Attempt) -> str:
    finding = attempt.action.args.get("finding") or "(nothing found)"
    return f"{finding}: {attempt.verdict.reason or 'not accepted'}"
