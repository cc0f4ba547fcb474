"""Passages that a model reads at once, within the size of its prompt."""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple, Protocol, cast

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import benchmark_of, limits_of
from certigraph.adapters.models.calls import profile_of
from certigraph.adapters.models.profiles import CHARACTERS_PER_TOKEN, estimate_tokens
from certigraph.adapters.models.prompts import clip
from certigraph.adapters.processes import run_in_thread
from certigraph.adapters.protocols import Context
from certigraph.adapters.retrieval.bm25 import PassagePool, Retriever, terms
from certigraph.state.records import Task
from certigraph.state.search import Passage


class PassageSource(Protocol):
    """What the operators for multi-hop questions need of a benchmark."""

    retrieves: bool
    """Whether passages have to be searched for; False if all of them come with the question."""
    material: str
    """What the passages are, and what an answer looks like."""

    def library(self, task: Task) -> Retriever:
        """Return the retriever from which every passage of a task can be got by id."""
        ...


PASSAGE_SHARE = (3, 4)
"""Share of a prompt that passages may take, as a fraction; the rest is for the question, findings and attempts."""


async def load_passages(ids: Sequence[str], task: Task, runtime: Runtime[Context]) -> list[Passage]:
    """Return the passages with these ids, in their order."""
    source = await run_in_thread(passage_source_of(task, runtime).library, task)
    return await run_in_thread(lambda: [source.passage(id) for id in ids])


class Page(NamedTuple):
    """Passages that a model reads at once, one per line, and what was left out of them."""

    text: str
    cut: tuple[str, ...] = ()


async def load_page(
    number: int, queries: Sequence[str], ids: Sequence[str], task: Task, runtime: Runtime[Context]
) -> Page:
    """Return the page of passages that the executor reads in its next attempt at a hop.

    It reads all passages whole, in the order in which they were found; only if they do not fit into its window are they
    sorted and split into pages.

    Args:
        number: number of earlier attempts that found nothing. It selects the page; after the last page comes the first.
        queries: search queries of the hop, the latest first, by which the passages are sorted.
        ids: ids of the visible passages.
        task: the task.
        runtime: the run's LangGraph runtime.
    """
    passages = await load_passages(ids, task, runtime)
    limits, profile = limits_of(task, runtime), await profile_of("executor", runtime)
    lines = [_format_passage(passage) for passage in passages]
    tokens = profile.prompt_tokens * PASSAGE_SHARE[0] // PASSAGE_SHARE[1]
    if estimate_tokens("\n".join(lines)) <= tokens:
        return Page("\n".join(lines) or "(none)")
    lines = [_format_passage(p) for p in await run_in_thread(sort_by_queries, queries, passages, limits.passages)]
    pages = _split_lines(lines, len(lines), int(tokens * CHARACTERS_PER_TOKEN))
    page = pages[number % len(pages)]
    return Page("\n".join(page), (f"{len(lines) - len(page)} of {len(lines)} passages",))


def sort_by_queries(queries: Sequence[str], passages: Sequence[Passage], k: int) -> list[Passage]:
    """Sort passages into the order in which a model reads them: the best `k` of each query by BM25, then the rest.

    The first query in `queries` has the first passages; callers put the latest query there.
    """
    if not any(terms(f"{passage.title} {passage.text}") for passage in passages):
        return list(passages)
    pool = PassagePool(passages)
    hits = (hit.passage for query in queries for hit in pool.search(query, k))
    return list({passage.id: passage for passage in chain(hits, passages)}.values())


def _split_lines(lines: Sequence[str], most: int, characters: int) -> list[list[str]]:
    """Split lines into pages of at most `most` lines and `characters` characters; a longer line is clipped."""
    pages: list[list[str]] = []
    for line in (clip(line, characters) for line in lines):
        full = not pages or len(pages[-1]) == most
        if full or sum(map(len, pages[-1])) + len(pages[-1]) + len(line) > characters:
            pages.append([])
        pages[-1].append(line)
    return pages


def _format_passage(passage: Passage) -> str:
    return f"{passage.title}: {passage.text}"


def passage_source_of(task: Task, runtime: Runtime[Context]) -> PassageSource:
    """Return the task's benchmark as a source of passages."""
    return cast(PassageSource, benchmark_of(task, runtime))
