"""Which of the passages at hand the model reads for a hop, within what its prompt has room for."""

from collections.abc import Sequence
from itertools import chain
from typing import Protocol, cast

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import benchmark_of, limits_of
from certigraph.adapters.context import Context
from certigraph.adapters.loops import off_loop
from certigraph.adapters.prompting import clipped
from certigraph.adapters.protocols import Limits
from certigraph.adapters.retrieval.analyzer import terms
from certigraph.adapters.retrieval.pool import Pool
from certigraph.adapters.retrieval.protocol import Retriever
from certigraph.state.passages import Passage
from certigraph.state.records import Task


class Library(Protocol):
    """What these operators need of a benchmark."""

    retrieves: bool
    """Whether passages have to be searched for; False where all of them come with the question."""

    def library(self, task: Task) -> Retriever:
        """Every passage that a task may find, by its id."""
        ...


def room(limits: Limits) -> int:
    """Characters of a prompt that passages may take; a quarter of the context is for question, findings and tries."""
    return limits.context * 3 // 4


async def passages_of(ids: Sequence[str], task: Task, runtime: Runtime[Context]) -> list[Passage]:
    """The passages of some ids, in their order."""
    library = await off_loop(library_of(task, runtime).library, task)
    return await off_loop(lambda: [library.passage(id) for id in ids])


async def page_of(
    number: int, queries: Sequence[str], ids: Sequence[str], task: Task, runtime: Runtime[Context]
) -> str:
    """What the model reads in try `number`, from 0: the page of that number, and after the last the first again."""
    at_hand = await passages_of(ids, task, runtime)
    limits = limits_of(task, runtime)
    pages = paged(await off_loop(best_first, queries, at_hand, limits.passages), limits)
    return "\n".join(pages[number % len(pages)]) if pages else "(none)"


def best_first(queries: Sequence[str], passages: Sequence[Passage], k: int) -> list[Passage]:
    """The passages in the order in which they should be read: for each query its best `k` by BM25, then the rest.

    The latest query comes first: what it brought up is what overlaps it most among all that is at hand.
    """
    if not any(terms(f"{passage.title} {passage.text}") for passage in passages):
        return list(passages)
    pool = Pool(passages)
    found = (hit.passage for query in queries for hit in pool.search(query, k))
    return list({passage.id: passage for passage in chain(found, passages)}.values())


def paged(passages: Sequence[Passage], limits: Limits) -> list[list[str]]:
    """The passages as lines "Title: text", cut into what one question has room for: `limits.passages` at most.

    A try that found nothing is followed by the next page, so that a model with a short context reads everything.
    """
    pages: list[list[str]] = []
    for line in (clipped(f"{passage.title}: {passage.text}", limits.excerpt) for passage in passages):
        full = not pages or len(pages[-1]) == limits.passages
        if full or sum(map(len, pages[-1])) + len(line) > room(limits):
            pages.append([])
        pages[-1].append(line)
    return pages


def retrieves(task: Task, runtime: Runtime[Context]) -> bool:
    """Whether passages have to be searched for."""
    return library_of(task, runtime).retrieves


def library_of(task: Task, runtime: Runtime[Context]) -> Library:
    """The task's benchmark, as one that has passages."""
    return cast(Library, benchmark_of(task, runtime))
