"""Propose candidates for the next action with a model: the top k of those admitted, or k that it writes."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from langgraph.runtime import Runtime
from pydantic import BaseModel, Field, create_model

from certigraph.adapters.benchmarks import benchmark_of, limits_of
from certigraph.adapters.candidates import admissible, candidates
from certigraph.adapters.context import Context
from certigraph.adapters.embeddings import encoder
from certigraph.adapters.loops import off_loop
from certigraph.adapters.matching import ranked
from certigraph.adapters.models.ask import ask
from certigraph.adapters.prompting import listed, prompt, quoted
from certigraph.adapters.protocols import Operator
from certigraph.nodes.candidate_lists import WIDTH
from certigraph.nodes.situation import queries, told
from certigraph.nodes.specs import factory
from certigraph.state.appraising import LookaheadView

MOST_KINDS = 256
"""Forms of answers that are kept, one for each list of options: the schema's own cache goes by them."""


@factory
def propose_actions(*, k: int = WIDTH) -> Operator:
    """One question for the k most promising actions; none where the world lists no more than k.

    Of a long list the model sees those most relevant to its assignment; where the world lists nothing, and for what is
    only imagined, it writes the actions (StateFactory, appendix C.6.2 and C.6.3).

    Args:
        k: candidates; the paper's number is missing in its text, for ScienceWorld it takes more than elsewhere.
    """

    async def propose_actions(state: LookaheadView, runtime: Runtime[Context]) -> dict[str, Any]:
        listing = [] if state["path"] else await admissible(runtime)
        if 0 < len(listing) <= k:
            return {"candidates": tuple(listing)}
        if listing and (len(listing) <= _most(state, runtime) or _shortlists(state, runtime)):
            return {"candidates": await _chosen(state, k, runtime)}
        return {"candidates": await _written(state, listing, k, runtime)}

    return propose_actions


async def _chosen(state: LookaheadView, k: int, runtime: Runtime[Context]) -> tuple[str, ...]:
    offered = await candidates(queries(state), runtime, _most(state, runtime))
    choice = f"Actions to choose from:\n{quoted(listed(offered))}\n{SELECT.format(k=k)}"
    answer = await ask(
        prompt(runtime, told(state, choice)), _picks(tuple(offered), k), role="executor", runtime=runtime
    )
    return _distinct(answer.actions, k)  # type: ignore[attr-defined]


async def _written(state: LookaheadView, listing: Sequence[str], k: int, runtime: Runtime[Context]) -> tuple[str, ...]:
    """Each as the world's list has it, where there is one."""
    answer = await ask(prompt(runtime, told(state, WRITE.format(k=k))), _texts(k), role="executor", runtime=runtime)
    texts: list[str] = answer.actions  # type: ignore[attr-defined]
    synonyms = getattr(benchmark_of(state["task"], runtime), "synonyms", None)
    meant = [await off_loop(_nearest, text, listing, synonyms) for text in texts] if listing else texts
    return _distinct(meant, k)


def _distinct(actions: Sequence[str], k: int) -> tuple[str, ...]:
    return tuple(dict.fromkeys(actions))[:k]


def _nearest(text: str, listing: Sequence[str], synonyms: Mapping[str, str] | None) -> str:
    found = ranked(text, listing, encoder=encoder(), most=1, synonyms=synonyms)
    return found[0].action if found else text


def _most(state: LookaheadView, runtime: Runtime[Context]) -> int:
    return limits_of(state["task"], runtime).options


def _shortlists(state: LookaheadView, runtime: Runtime[Context]) -> bool:
    return bool(getattr(benchmark_of(state["task"], runtime), "shortlists", False))


@lru_cache(maxsize=MOST_KINDS)
def _picks(offered: tuple[str, ...], k: int) -> type[BaseModel]:
    kind: Any = list[Literal[offered]]  # type: ignore[valid-type]
    return create_model("Picks", actions=(kind, _so_many(min(k, len(offered)))))


@lru_cache(maxsize=MOST_KINDS)
def _texts(k: int) -> type[BaseModel]:
    kind: Any = list[str]
    return create_model("Texts", actions=(kind, _so_many(k)))


def _so_many(k: int) -> Any:
    """The model is asked for k; whoever gives fewer, or more, need not be asked again."""
    return Field(min_length=1, json_schema_extra={"minItems": k, "maxItems": k})


SELECT = (
    "Name the {k} different actions that promise most as the next one, the best first. Pass over what had no effect."
)

WRITE = """\
Look first at what is in hand, where you are and what is in reach. Then write, as the world's rules say, {k} different
actions of which each could be taken next, the best first. Pass over what had no effect."""
