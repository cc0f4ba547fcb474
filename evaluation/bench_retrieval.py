"""Speed and memory of retrieval engines on generated abstracts (`certigraph bench --retrieval N`)."""

import importlib
import json
import multiprocessing
import resource
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from itertools import count, product
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import typer
from rich.console import Console, Group
from rich.table import Table

from certigraph.adapters.retrieval.bm25 import STOPWORDS, PassagePool, Retriever, terms
from certigraph.adapters.retrieval.index import build_index, open_corpus
from certigraph.state.records import Fault, Record
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
        self._numpy: Any = importlib.import_module("numpy")
        self._words = _generate_vocabulary(min(MAX_VOCABULARY, WORDS_PER_PASSAGE * size + 1_000))
        self._ranks = self._ranks_by_chance()

    def __iter__(self) -> Iterator[Passage]:
        """Yield all passages in order."""
        for block in range(-(-self.size // BLOCK_SIZE)):
            yield from self.block(block)

    def block(self, number: int) -> Iterator[Passage]:
        """Generate the passages of one block, which has at most BLOCK_SIZE passages, independently of other blocks."""
        random = self._numpy.random.default_rng([self._seed, number])
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
        generated = [query for block in chosen for query in _generate_queries(list(self.block(block)), each)]
        return generated[:number]

    def _ranks_by_chance(self) -> Any:
        """Build a table for drawing words: a random entry is the rank of a word with the probability of that word.

        The table has eight entries per word, so that a draw needs only one look-up.
        """
        numpy = self._numpy
        chances = (numpy.arange(1, len(self._words) + 1) + 2.7) ** -1.05
        bounds = numpy.cumsum(chances / chances.sum())
        draws = (numpy.arange(8 * len(self._words)) + 0.5) / (8 * len(self._words))
        return numpy.searchsorted(bounds, draws).clip(max=len(self._words) - 1).astype(numpy.uint32)


def _generate_queries(passages: list[Passage], number: int) -> Iterator[GeneratedQuery]:
    for passage in passages[:: max(1, len(passages) // number)][:number]:
        content = list(dict.fromkeys(word for word in passage.text.split() if word not in STOPWORDS))[:QUERY_WORDS]
        half = len(content) // 2
        bare = [*content[:half], passage.title, *content[half:]]
        laden = [word for pair in zip(QUERY_STOPWORDS, bare, strict=False) for word in pair] + bare[
            len(QUERY_STOPWORDS) :
        ]
        yield GeneratedQuery(" ".join(bare), " ".join(laden), passage.id)


def _generate_vocabulary(size: int) -> list[str]:
    """Generate a vocabulary: the stopwords, then artificial words of two syllables, of three, and so on."""
    syllables = ["".join(pair) for pair in product("bdfgklmnprstvz", "aeiou")]
    vocabulary = sorted(STOPWORDS)
    for length in count(2):
        for parts in product(syllables, repeat=length):
            word = "".join(parts)
            if word not in STOPWORDS:
                vocabulary.append(word)
            if len(vocabulary) == size:
                return vocabulary
    raise AssertionError


# The engines that are compared.

SearchFunction = Callable[[str, int], list[str]]
"""Function that takes a query and k and returns the ids of the k best passages, the best first."""


class RetrievalEngine(NamedTuple):
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


def _open_plain(folder: Path, passages: Iterable[Passage]) -> SearchFunction:
    return _search_function_of(open_corpus(folder, boost_titles=False))


def _open_two_stage(folder: Path, passages: Iterable[Passage]) -> SearchFunction:
    return _search_function_of(open_corpus(folder))


def _open_pool(folder: Path, passages: Iterable[Passage]) -> SearchFunction:
    return _search_function_of(PassagePool(list(passages), boost_titles=False))


def _search_function_of(retriever: Retriever) -> SearchFunction:
    return lambda query, k: [hit.passage.id for hit in retriever.search(query, k)]


def _build_bm25s(passages: Iterable[Passage], folder: Path) -> None:
    engine = importlib.import_module("bm25s").BM25(method="lucene", backend="numpy")
    engine.index([terms(f"{passage.title} {passage.text}") for passage in passages], show_progress=False)
    engine.save(str(folder))


def _open_bm25s(folder: Path, passages: Iterable[Passage]) -> SearchFunction:
    engine: Any = importlib.import_module("bm25s").BM25.load(str(folder), mmap=True)

    def search(query: str, k: int) -> list[str]:
        results, _ = engine.retrieve([terms(query)], k=k, show_progress=False)
        return list(map(str, results[0].tolist()))

    return search


ENGINES = {
    "tantivy": RetrievalEngine("tantivy", _open_plain, build_index),
    "tantivy, two-stage": RetrievalEngine("tantivy", _open_two_stage, shares="tantivy"),
    "bm25s": RetrievalEngine("bm25s", _open_bm25s, _build_bm25s, peer=True),
    "rank-bm25": RetrievalEngine("rank_bm25", _open_pool, queries=5, peer=True),
}
"""The engines by name. All index the same tokens of the same passages; `rank-bm25` is certigraph's `PassagePool`."""


# The work of one process: build an index, or open one and answer queries.

TOP_K = 10


class EngineBuild(Record):
    """Cost of building an index.

    `seconds` include the seconds for `generating` the passages; `peak` is the maximum memory and `disk` the size of the
    index, both in megabytes.
    """

    seconds: float
    generating: float
    peak: float
    disk: float


class SearchFigures(Record):
    """Milliseconds for opening an index, and for answering a query without and with stopwords.

    `bare` and `laden` are median and 95th percentile. `found` is the share of queries whose own passage is among the
    ten best.
    """

    opening: float
    bare: tuple[float, float]
    laden: tuple[float, float]
    found: float


class ProcessMemory(Record):
    """Private megabytes of a process, and its proportional set size (the kernel's PSS), which divides shared pages."""

    private: float
    proportional: float


def build_engine(name: str, size: int, folder: Path) -> tuple[EngineBuild, None]:
    """Build an engine's index of `size` generated passages in a folder, and measure the cost.

    The second value is None: nothing must stay in memory for `run_in_processes`.
    """
    passages, start = _TimedPassages(GeneratedAbstracts(size)), perf_counter()
    write = ENGINES[name].build
    if write:
        write(passages, folder)
    seconds = perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    disk = sum(file.stat().st_size for file in folder.rglob("*")) / 1e6
    return EngineBuild(seconds=seconds, generating=passages.seconds, peak=peak, disk=disk), None


def search_engine(
    name: str, size: int, folder: Path, queries: Sequence[GeneratedQuery]
) -> tuple[SearchFigures, SearchFunction]:
    """Open an index, answer queries and measure the time; the opened engine is returned too, so it stays in memory."""
    engine = ENGINES[name]
    passages = () if engine.build or engine.shares else list(GeneratedAbstracts(size))
    start = perf_counter()
    answer = engine.open(folder, passages)
    opening = 1_000 * (perf_counter() - start)
    share = sum(query.id in answer(query.bare, TOP_K) for query in queries) / len(queries)
    bare, laden = (_latencies(answer, [query[column] for query in queries]) for column in (0, 1))
    return SearchFigures(opening=opening, bare=bare, laden=laden, found=share), answer


def read_memory() -> ProcessMemory:
    """Read the memory of this process."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]
    megabytes = {line.split(":")[0]: int(line.split()[1]) / 1_024 for line in lines}
    private = megabytes["Private_Clean"] + megabytes["Private_Dirty"]
    return ProcessMemory(private=private, proportional=megabytes["Pss"])


def _latencies(answer: SearchFunction, queries: Sequence[str]) -> tuple[float, float]:
    milliseconds = []
    for query in queries:
        start = perf_counter()
        answer(query, TOP_K)
        milliseconds.append(1_000 * (perf_counter() - start))
    cuts = quantiles(milliseconds, n=100, method="inclusive")
    return cuts[49], cuts[94]


class _TimedPassages:
    """Iterable of passages that measures the seconds for generating them."""

    def __init__(self, passages: Iterable[Passage]) -> None:
        self._passages, self.seconds = passages, 0.0

    def __iter__(self) -> Iterator[Passage]:
        source = iter(self._passages)
        while True:
            start = perf_counter()
            passage = next(source, None)
            self.seconds += perf_counter() - start
            if passage is None:
                return
            yield passage


# Jobs in new processes, so that no engine is affected by what another one loaded.


def run_in_processes(
    number: int, job: Callable[..., tuple[Any, object]], *arguments: Any
) -> list[tuple[Any, ProcessMemory]]:
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
        memories = [_request_memory(parent_end) for parent_end, _ in pairs]
        return list(zip(results, memories, strict=True))
    except EOFError as error:
        raise Fault(
            "operator", f"a process of {job.__name__}{arguments[:2]} died; its error message is above"
        ) from error
    finally:
        for (parent_end, _), child in zip(pairs, children, strict=True):
            parent_end.close()
            child.join()


def _request_memory(connection: Connection) -> ProcessMemory:
    connection.send("memory")
    answer: ProcessMemory = connection.recv()
    return answer


def _run_job(connection: Connection, job: Callable[..., tuple[Any, object]], arguments: tuple[Any, ...]) -> None:
    result, kept = job(*arguments)
    connection.send(result)
    connection.recv()
    connection.send(read_memory())
    # wait until all have answered: the pages that `kept` maps are shared only while all processes live
    connection.poll(None)
    del kept


# The benchmark.

SEARCH_WORKERS = 2
"""Number of processes that search the same files at the same time, so that shared pages do not count as private."""


class EngineResult(Record):
    """Results of one engine: of the processes that searched at the same time, the slowest times and largest memory."""

    engine: str
    built: EngineBuild | None
    searched: SearchFigures
    memory: ProcessMemory


class RetrievalBench(Record):
    """Results of all engines on the same passages and queries, and the reasons why some were left out."""

    passages: int
    queries: int
    rows: tuple[EngineResult, ...]
    left_out: tuple[str, ...] = ()


def bench_retrieval(
    passages: int = 84_000,
    *,
    queries: int = 200,
    big: bool = False,
    progress: Callable[[str], None] = lambda line: None,
) -> RetrievalBench:
    """Measure every engine on generated abstracts of about 100 words, each in processes of its own.

    Args:
        passages: number of passages.
        queries: number of queries of ten words from one abstract, with and without eight stopwords; rank-bm25 gets
            five.
        big: measure only tantivy, whose index stays on disk: rank-bm25 and bm25s take tens of gigabytes at five million
            passages.
        progress: called with a line of progress before each engine.

    Raises:
        Fault: tantivy is missing, or a process died.
    """
    generated = GeneratedAbstracts(passages).queries(queries)
    chosen, left_out = _select_engines(big=big)
    with TemporaryDirectory() as folder:
        rows = tuple(_measure_engine(name, passages, generated, Path(folder), progress) for name in chosen)
    return RetrievalBench(passages=passages, queries=len(generated), rows=rows, left_out=tuple(left_out))


def _select_engines(*, big: bool) -> tuple[list[str], list[str]]:
    missing = {name for name, engine in ENGINES.items() if engine.peer and find_spec(engine.package) is None}
    left_out = [f"{name} is not installed: pip install {ENGINES[name].package}" for name in sorted(missing)]
    large = {name for name, engine in ENGINES.items() if engine.peer and big} - missing
    left_out += [f"{name} was not measured: it is not for corpora this large" for name in sorted(large)]
    return [name for name in ENGINES if name not in missing | large], left_out


def _measure_engine(
    name: str, size: int, queries: list[GeneratedQuery], folder: Path, progress: Callable[[str], None]
) -> EngineResult:
    engine = ENGINES[name]
    index_folder = folder / (engine.shares or name)
    progress(f"{name}: {size:,} passages")
    built: EngineBuild | None = (
        run_in_processes(1, build_engine, name, size, index_folder)[0][0] if engine.build else None
    )
    workers = SEARCH_WORKERS if built or engine.shares else 1
    results = run_in_processes(workers, search_engine, name, size, index_folder, queries[: engine.queries])
    searched = max((figures for figures, _ in results), key=lambda figures: figures.bare)
    largest = max((memory for _, memory in results), key=lambda memory: memory.private)
    return EngineResult(engine=name, built=built, searched=searched, memory=largest)


def print_retrieval(done: RetrievalBench, *, as_json: bool) -> None:
    """Print the results as one JSON object or as tables."""
    if as_json:
        typer.echo(json.dumps(done.as_json()))
    else:
        Console(width=150).print(retrieval_table(done))


def retrieval_table(done: RetrievalBench) -> Group:
    """Format the results as a table. rank-bm25 has no index on disk, so that opening it includes building it."""
    heads = ("engine", "build s", "generating", "peak MB", "disk MB", "open ms", "p50 ms", "p95 ms")
    shown = Table(*heads, "p50 laden", "p95 laden", "found", "private MB", "PSS MB", box=None)
    for row in done.rows:
        shown.add_row(row.engine, *_result_cells(row))
    title = f"{done.passages:,} abstracts, {done.queries} queries of ten words, bare and laden with eight stopwords"
    return Group(title, shown, *done.left_out)


def _result_cells(row: EngineResult) -> Iterator[str]:
    built, searched = row.built, row.searched
    sizes = (built.seconds, built.generating, built.peak, built.disk) if built else ()
    yield from [f"{value:,.1f}" for value in sizes] or [""] * 4
    yield f"{searched.opening:,.1f}"
    yield from (f"{value:,.2f}" for value in (*searched.bare, *searched.laden))
    yield f"{searched.found:.2f}"
    yield from (f"{value:,.0f}" for value in (row.memory.private, row.memory.proportional))
