"""Speed and memory of retrieval engines on generated abstracts of about 100 words.

    python scripts/retrieval_speed.py --passages 84000 --json      # results/retrieval-speed/84000.json
    python scripts/retrieval_speed.py --passages 5200000 --json    # 14 minutes, 3.4 GB of disk

Each engine is measured in processes of its own. From 500,000 passages on only tantivy is, whose index stays on disk:
rank-bm25 and bm25s would take tens of gigabytes at five million. It needs the extra `retrieval`.
"""

import argparse
import importlib
import json
import multiprocessing
import resource
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from itertools import count, product
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from certigraph.adapters.retrieval.bm25 import STOPWORDS, PassagePool, Retriever, terms
from certigraph.adapters.retrieval.index import WRITER_BYTES, WRITER_THREADS, build_index, open_corpus
from certigraph.state.endings import Fault
from certigraph.state.search import Passage

# Generated abstracts: any number, deterministic for a seed, in blocks.
#
# Words follow a Zipf-Mandelbrot law, p(r) ~ 1 / (r + 2.7)^1.05, with certigraph's stopwords as the most frequent ones;
# lengths are log-normal about 100 words; titles have two words. The tail is heavier than that of real text.

BLOCK_SIZE = 10_000
TITLE_WORDS = 200_000
MAX_VOCABULARY, WORDS_PER_PASSAGE = 2_000_000, 25
QUERY_WORDS = 8
QUERY_STOPWORDS = ("what", "is", "the", "of", "and", "in", "which", "was")


class GeneratedQuery(NamedTuple):
    """Two queries made of words from the title and text of one abstract, and the id of this abstract.

    `bare` has no stopwords, `laden` has the same words and up to eight stopwords.
    """

    bare: str
    laden: str
    id: str


class GeneratedAbstracts:
    """Corpus of `size` generated passages that look like abstracts; deterministic for a seed."""

    def __init__(self, size: int, seed: int = 0) -> None:
        self.size, self._seed = size, seed
        self._words = _generate_vocabulary(min(MAX_VOCABULARY, WORDS_PER_PASSAGE * size + 1_000))
        self._ranks = _ranks_by_chance(len(self._words))

    def __iter__(self) -> Iterator[Passage]:
        """Yield all passages in order."""
        for block in range(-(-self.size // BLOCK_SIZE)):
            yield from self.block(block)

    def block(self, number: int) -> Iterator[Passage]:
        """Generate the passages of one block, which has at most BLOCK_SIZE passages, independently of other blocks."""
        random = np.random.default_rng([self._seed, number])
        first, length = number * BLOCK_SIZE, min(BLOCK_SIZE, self.size - number * BLOCK_SIZE)
        ends = random.lognormal(4.53, 0.4, length).clip(20, 400).astype(int).cumsum()
        ranks = self._ranks[random.integers(0, len(self._ranks), ends[-1])].tolist()
        titles = random.integers(len(STOPWORDS), min(TITLE_WORDS, len(self._words)), (length, 2)).tolist()
        word = self._words.__getitem__
        for index, (begin, end) in enumerate(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)):
            title = " ".join(map(word, titles[index])).title()
            yield Passage(id=str(first + index), title=title, text=" ".join(map(word, ranks[begin:end])))

    def queries(self, number: int) -> list[GeneratedQuery]:
        """Generate at most `number` queries, from passages spread over the corpus."""
        blocks = -(-self.size // BLOCK_SIZE)
        chosen = range(0, blocks, max(1, blocks // 20))
        each = -(-number // len(chosen))
        return [query for block in chosen for query in _generate_queries(list(self.block(block)), each)][:number]


def _ranks_by_chance(words: int) -> "np.ndarray[Any, Any]":
    """Build a table of eight entries per word: a random entry is the rank of a word with the probability of that word.

    A draw then needs only one look-up.
    """
    chances = (np.arange(1, words + 1) + 2.7) ** -1.05
    draws = (np.arange(8 * words) + 0.5) / (8 * words)
    return np.searchsorted(np.cumsum(chances / chances.sum()), draws).clip(max=words - 1).astype(np.uint32)


def _generate_queries(passages: list[Passage], number: int) -> Iterator[GeneratedQuery]:
    for passage in passages[:: max(1, len(passages) // number)][:number]:
        content = list(dict.fromkeys(word for word in passage.text.split() if word not in STOPWORDS))[:QUERY_WORDS]
        half = len(content) // 2
        bare = [*content[:half], passage.title, *content[half:]]
        mixed = [word for pair in zip(QUERY_STOPWORDS, bare, strict=False) for word in pair]
        yield GeneratedQuery(" ".join(bare), " ".join(mixed + bare[len(QUERY_STOPWORDS) :]), passage.id)


def _generate_vocabulary(size: int) -> list[str]:
    """Generate a vocabulary: the stopwords, then artificial words of two syllables, of three, and so on."""
    syllables = ["".join(pair) for pair in product("bdfgklmnprstvz", "aeiou")]
    vocabulary = sorted(STOPWORDS)
    words = ("".join(parts) for length in count(2) for parts in product(syllables, repeat=length))
    while len(vocabulary) < size:
        if (word := next(words)) not in STOPWORDS:
            vocabulary.append(word)
    return vocabulary


# The engines that are compared.

SearchFunction = Callable[[str, int], list[str]]
"""Function that takes a query and k and returns the ids of the k best passages, the best first."""


class Engine(NamedTuple):
    """A retrieval engine that is measured.

    `build` writes an index to a folder, which `open` reads. An engine without `build` indexes the passages in `open`.
    """

    package: str
    open: Callable[[Path, Iterable[Passage]], SearchFunction]
    build: Callable[[Iterable[Passage], Path], object] | None = None
    shares: str = ""
    """Name of the engine whose index this engine reads; empty: its own."""
    queries: int = 200
    """Maximum number of queries. It is small for rank-bm25, which needs half a second for a query."""
    peer: bool = False
    """Whether the engine is another library for comparison, left out if it is not installed or the corpus too large."""


def _search_function_of(retriever: Retriever) -> SearchFunction:
    return lambda query, k: [hit.passage.id for hit in retriever.search(query, k)]


def _build_bm25s(passages: Iterable[Passage], folder: Path) -> None:
    engine = importlib.import_module("bm25s").BM25(method="lucene", backend="numpy")
    engine.index([terms(f"{passage.title} {passage.text}") for passage in passages], show_progress=False)
    engine.save(str(folder))


def _open_bm25s(folder: Path, passages: Iterable[Passage]) -> SearchFunction:
    engine: Any = importlib.import_module("bm25s").BM25.load(str(folder), mmap=True)

    def search(query: str, k: int) -> list[str]:
        found, _ = engine.retrieve([terms(query)], k=k, show_progress=False)
        return list(map(str, found[0].tolist()))

    return search


def _build_plain(passages: Iterable[Passage], folder: Path) -> None:
    library: Any = importlib.import_module("tantivy")
    builder = library.SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field("title", stored=True)
    builder.add_text_field("text", stored=True)
    folder.mkdir()
    writer = library.Index(builder.build(), str(folder)).writer(WRITER_BYTES, WRITER_THREADS)
    for passage in passages:
        writer.add_document(library.Document(id=[passage.id], title=[passage.title], text=[passage.text]))
    writer.commit()
    writer.wait_merging_threads()


def _open_plain(folder: Path, passages: Iterable[Passage]) -> SearchFunction:
    index = importlib.import_module("tantivy").Index.open(str(folder))
    searcher = index.searcher()

    def search(query: str, k: int) -> list[str]:
        found = searcher.search(index.parse_query(query.lower(), ["title", "text"]), k).hits
        return [searcher.doc(address)["id"][0] for _, address in found]

    return search


ENGINES = {
    "tantivy": Engine(
        "tantivy", lambda folder, _: _search_function_of(open_corpus(folder, boost_titles=False)), build_index
    ),
    "tantivy, two-stage": Engine(
        "tantivy", lambda folder, _: _search_function_of(open_corpus(folder)), shares="tantivy"
    ),
    "tantivy alone": Engine("tantivy", _open_plain, _build_plain, peer=True),
    "bm25s": Engine("bm25s", _open_bm25s, _build_bm25s, peer=True),
    "rank-bm25": Engine(
        "rank_bm25",
        lambda _, passages: _search_function_of(PassagePool(list(passages), boost_titles=False)),
        queries=5,
        peer=True,
    ),
}
"""The engines by name. All index the same tokens of the same passages; `rank-bm25` is certigraph's `PassagePool`.

`tantivy alone` is the library with its own tokenizer and nothing around it: no stopwords, no title keys, no resuming.
"""


# The work of one process: build an index, or open one and answer queries.

TOP_K = 10


def build_engine(name: str, size: int, folder: Path) -> tuple[dict[str, float], None]:
    """Build an engine's index of `size` generated passages in a folder, and measure the cost.

    `seconds` include the seconds for `generating` the passages; `peak` is the maximum memory and `disk` the size of the
    index, both in megabytes. The second value is None: nothing must stay in memory for `run_in_processes`.
    """
    spent, start = [0.0], perf_counter()
    write = ENGINES[name].build
    if write:
        write(_timed(GeneratedAbstracts(size), spent), folder)
    seconds = perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    disk = sum(file.stat().st_size for file in folder.rglob("*")) / 1e6
    return {"seconds": seconds, "generating": spent[0], "peak": peak, "disk": disk}, None


def _timed(passages: Iterable[Passage], spent: list[float]) -> Iterator[Passage]:
    source = iter(passages)
    while True:
        start = perf_counter()
        passage = next(source, None)
        spent[0] += perf_counter() - start
        if passage is None:
            return
        yield passage


def search_engine(
    name: str, size: int, folder: Path, queries: Sequence[GeneratedQuery]
) -> tuple[dict[str, Any], SearchFunction]:
    """Open an index, and measure milliseconds to open it and to answer a query without and with stopwords.

    `bare` and `laden` are median and 95th percentile; `found` is the share of queries whose own passage is among the
    ten best. The opened engine is returned too, so that it stays in memory.
    """
    engine = ENGINES[name]
    passages = () if engine.build or engine.shares else list(GeneratedAbstracts(size))
    start = perf_counter()
    answer = engine.open(folder, passages)
    opening = 1_000 * (perf_counter() - start)
    found = sum(query.id in answer(query.bare, TOP_K) for query in queries) / len(queries)
    bare, laden = (_latencies(answer, [query[column] for query in queries]) for column in (0, 1))
    return {"opening": opening, "bare": bare, "laden": laden, "found": found}, answer


def _latencies(answer: SearchFunction, queries: Sequence[str]) -> tuple[float, float]:
    milliseconds = []
    for query in queries:
        start = perf_counter()
        answer(query, TOP_K)
        milliseconds.append(1_000 * (perf_counter() - start))
    cuts = quantiles(milliseconds, n=100, method="inclusive")
    return cuts[49], cuts[94]


def read_memory() -> dict[str, float]:
    """Read the private megabytes of this process, and its proportional set size, which divides shared pages."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    megabytes = {line.split(":")[0]: int(line.split()[1]) / 1_024 for line in lines}
    return {"private": megabytes["Private_Clean"] + megabytes["Private_Dirty"], "proportional": megabytes["Pss"]}


# Jobs in new processes, so that no engine is affected by what another one loaded.


def run_in_processes(
    number: int, job: Callable[..., tuple[Any, object]], *arguments: Any
) -> list[tuple[Any, dict[str, float]]]:
    """Call a job in several new processes at the same time.

    Args:
        number: number of processes.
        job: function that returns its result, and an object that must stay in memory while memory is measured.
        *arguments: arguments of the job.

    Returns:
        The result of each process, and the memory of each process, measured after all have finished.

    Raises:
        Fault: a process died.
    """
    context = multiprocessing.get_context("spawn")
    pairs = [context.Pipe() for _ in range(number)]
    children = [context.Process(target=_run_job, args=(child_end, job, arguments)) for _, child_end in pairs]
    for child, (_, child_end) in zip(children, pairs, strict=True):
        child.start()
        child_end.close()  # the parent's copy, else the death of a process would not be detected
    try:
        results = [parent_end.recv() for parent_end, _ in pairs]
        memories = []
        for parent_end, _ in pairs:
            parent_end.send("memory")
            memories.append(parent_end.recv())
        return list(zip(results, memories, strict=True))
    except EOFError as error:
        about = f"a process of {job.__name__}{arguments[:2]} died; its error message is above"
        raise Fault("operator", about) from error
    finally:
        for (parent_end, _), child in zip(pairs, children, strict=True):
            parent_end.close()
            child.join()


def _run_job(connection: Connection, job: Callable[..., tuple[Any, object]], arguments: tuple[Any, ...]) -> None:
    result, kept = job(*arguments)
    connection.send(result)
    connection.recv()
    connection.send(read_memory())
    # wait until all have answered: the pages that `kept` maps are shared only while all processes live
    connection.poll(None)
    del kept


# The measurement of all engines.

SEARCH_PROCESSES = 2
"""Number of processes that search the same files at the same time, so that shared pages do not count as private."""

BIG = 500_000
"""Number of passages from which only tantivy is measured."""


def measure_engines(passages: int, queries: int = 200) -> dict[str, Any]:
    """Measure every engine; of the processes that search at the same time, the slowest times and the largest memory.

    Raises:
        Fault: tantivy is missing, or a process died.
    """
    generated = GeneratedAbstracts(passages).queries(queries)
    missing = {name for name, engine in ENGINES.items() if engine.peer and find_spec(engine.package) is None}
    large = {name for name, engine in ENGINES.items() if engine.peer and passages >= BIG} - missing
    left_out = [f"{name} is not installed: pip install {ENGINES[name].package}" for name in sorted(missing)]
    left_out += [f"{name} was not measured: it is not for corpora this large" for name in sorted(large)]
    with TemporaryDirectory() as folder:
        chosen = [name for name in ENGINES if name not in missing | large]
        rows = [_measure_engine(name, passages, generated, Path(folder)) for name in chosen]
    return {"passages": passages, "queries": len(generated), "rows": rows, "left_out": left_out}


def _measure_engine(name: str, size: int, queries: list[GeneratedQuery], folder: Path) -> dict[str, Any]:
    print(f"{name}: {size:,} passages", file=sys.stderr)
    engine = ENGINES[name]
    index = folder / (engine.shares or name)
    built = run_in_processes(1, build_engine, name, size, index)[0][0] if engine.build else None
    processes = SEARCH_PROCESSES if built or engine.shares else 1
    done = run_in_processes(processes, search_engine, name, size, index, queries[: engine.queries])
    searched = max((figures for figures, _ in done), key=lambda figures: figures["bare"])
    memory = max((memory for _, memory in done), key=lambda memory: memory["private"])
    return {"engine": name, "built": built, "searched": searched, "memory": memory}


def main() -> None:
    """Measure, and print a table or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=84_000, help="number of generated passages")
    parser.add_argument("--queries", type=int, default=200, help="number of queries of ten words from one abstract")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    done = measure_engines(options.passages, options.queries)
    if options.json:
        print(json.dumps(done, indent=4))
        return
    rows = [{**row, "built": row["built"] or {}} for row in done["rows"]]
    print(pd.json_normalize(rows).round(2).to_string(index=False, na_rep=""))
    print(*done["left_out"], sep="\n")


if __name__ == "__main__":
    main()
