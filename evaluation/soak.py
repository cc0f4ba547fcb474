"""Soak test (`certigraph bench --soak N`): N episodes of various graphs in one process, with a slow model endpoint.

It shows whether runs are lost, memory grows or episodes become slower. All results are computed from a file with one
line per run, and from the folders of the runs.
"""

import asyncio
import json
import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import quantiles
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import IO, Any, NamedTuple

import typer
from rich.console import Console, Group
from rich.table import Table

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.blocksworld.expert import answer_at, read_text
from certigraph.adapters.episodes import EPISODES
from certigraph.adapters.models.scripts import CHARS_PER_TOKEN, TEXT_SCHEMA
from certigraph.adapters.models.usage import Call
from certigraph.adapters.protocols import Benchmark, Context
from certigraph.runtime.graph_sources import AnyGraph
from certigraph.runtime.registry import build_graph
from certigraph.runtime.result import Result
from certigraph.runtime.run import arun
from certigraph.runtime.storage import drop_checkpoints
from certigraph.state.records import Interrupted, Record
from certigraph.state.trajectory import read_trajectory

# A slow OpenAI-compatible endpoint, in a process of its own so that its cost is not counted. It answers with the
# BlocksWorld expert, after a delay, in JSON schema mode.

CONNECTION_BACKLOG = 1_024
"""Maximum number of connections that wait to be accepted; many runs may connect at the same time."""


@contextmanager
def slow_endpoint(delay: float) -> Iterator[str]:
    """Serve an OpenAI-compatible endpoint inside a block and yield its base URL.

    It listens on a loopback port and delays every reply by `delay` seconds.
    """
    context = multiprocessing.get_context("spawn")
    parent_end, child_end = context.Pipe()
    process = context.Process(target=_run_server, args=(child_end, delay), daemon=True)
    process.start()
    child_end.close()  # the parent's copy, else the death of the process would not be detected
    try:
        with closing(parent_end):
            yield f"http://127.0.0.1:{parent_end.recv()}/v1"
    finally:
        process.join()


def _run_server(connection: Connection, delay: float) -> None:
    # Ctrl-C reaches the complete process group; this process ends with the pipe
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(_serve(connection, delay))


async def _serve(connection: Connection, delay: float) -> None:
    closed = asyncio.Event()
    asyncio.get_running_loop().add_reader(connection.fileno(), closed.set)
    server = await asyncio.start_server(partial(_handle_connection, delay), "127.0.0.1", 0, backlog=CONNECTION_BACKLOG)
    connection.send(server.sockets[0].getsockname()[1])
    await closed.wait()
    server.close()


async def _handle_connection(delay: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request and close the connection; certigraph's client sends one request per connection."""
    with closing(writer):
        body = await _read_body(reader)
        received = perf_counter()
        reply = json.dumps(_build_completion(json.loads(body))).encode()
        await asyncio.sleep(delay - (perf_counter() - received))
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(reply)}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode() + reply)
        await writer.drain()


async def _read_body(reader: asyncio.StreamReader) -> bytes:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    return await reader.readexactly(int(head.partition("content-length:")[2].split("\r\n")[0]))


def _build_completion(request: dict[str, Any]) -> dict[str, Any]:
    prompt = "\n\n".join(str(message["content"]) for message in request["messages"])
    form = request.get("response_format")
    value = answer_at(read_text(prompt), form["json_schema"]["schema"] if form else TEXT_SCHEMA)
    text = json.dumps(value) if form else str(value)
    read, written = len(prompt) // CHARS_PER_TOKEN, len(text) // CHARS_PER_TOKEN
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    named = {"id": "soak", "object": "chat.completion", "created": 0, "model": request["model"]}
    return {**named, "choices": [choice], "usage": usage}


# Resources of this process: memory, files, threads, open worlds.

MEGABYTE = 1e6


class ProcessReading(Record):
    """Resources that this process uses: processor seconds, resident memory in MB (current and peak), and counts."""

    cpu: float
    memory: float
    peak: float
    files: int
    threads: int
    worlds: int
    """Number of open worlds, one per running episode."""


def read_process() -> ProcessReading:
    """Measure the resources that this process uses."""
    return ProcessReading(
        cpu=time.process_time(),
        memory=resident_memory(),
        peak=_peak_memory(),
        files=len(list(Path("/proc/self/fd").iterdir())) - 1,  # without the file descriptor of the listing
        threads=threading.active_count(),
        worlds=len(EPISODES),
    )


def resident_memory() -> float:
    """Read the resident memory in MB, which takes about ten microseconds."""
    resident = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(resident) * os.sysconf("SC_PAGE_SIZE") / MEGABYTE


def _peak_memory() -> float:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(kilobytes) * 1_024 / MEGABYTE


# The records of a soak test: its plan, the runs, and the results.


class SoakPlan(NamedTuple):
    """Plan of a soak test: number of episodes, number of concurrent episodes, and delay of the endpoint in seconds."""

    episodes: int
    at_once: int
    delay: float


class SoakRun(Record):
    """One run of a soak test that ended, and the resources that the process used by then."""

    number: int
    graph: str
    run: str
    """Name of the run's folder; empty if the run raised an exception, which no run should do."""
    ending: str
    seconds: float
    """Wall-clock seconds from the start of the run to its result."""
    calls: tuple[float, ...]
    """Seconds of each model call, measured by the client."""
    cpu: float
    """Seconds of processor time that the process had used when the run ended."""
    memory: float
    """Resident memory of the process in MB when the run ended."""


class SoakWindow(Record):
    """Consecutive episodes in the order in which they ended: numbers `first` to `end`, from 0, without `end` itself."""

    first: int
    end: int
    cpu_each: float
    """Milliseconds of processor time per episode."""
    memory: float
    """Resident memory in MB at the end of the window."""


class Overhead(Record):
    """Milliseconds in addition to the endpoint's delay: median, 99th percentile and maximum.

    They are spent in certigraph and its HTTP client, and waiting for both.
    """

    p50: float
    p99: float
    most: float


class DiskUsage(Record):
    """Contents of the runs' folders: names of the runs with a footer, megabytes of trajectories and of other files."""

    finished: frozenset[str]
    trajectories: float
    rest: float


class SoakResult(Record):
    """Results of a soak test."""

    episodes: int
    at_once: int
    delay: float
    """Seconds that the endpoint took for every reply."""
    begun: int
    ended: int
    lost: int
    """Number of runs that ended without a footer on disk."""
    endings: dict[str, dict[str, int]]
    """Number of runs by graph and ending."""
    seconds: float
    busy: float
    """Share of one processor's time that the process used."""
    load: tuple[float, float, float]
    """Load average of the machine over the last 1, 5 and 15 minutes, which includes the endpoint's process."""
    windows: tuple[SoakWindow, ...]
    flat: float
    """Processor time per episode of the last window with full concurrency, divided by that of the second window."""
    grown: float
    """Relative growth of resident memory from the end of the warm-up to the end."""
    most_grown: float
    """Relative growth of resident memory from the end of the warm-up to its later maximum."""
    run: Overhead
    """Overhead of a complete run."""
    call: Overhead
    """Overhead of a model call."""
    trajectories: float
    """Megabytes of the runs' trajectories on disk."""
    rest: float
    """Megabytes of the other files in the runs' folders."""
    start: ProcessReading
    """Reading before the first run, after the graphs are built."""
    end: ProcessReading


# The runs of a soak: many at once on one event loop; each writes a line to a file when it ends.

SOAK_GRAPHS = ("sdp", "react", "tdp", "step", "plan_and_act", "plan_and_solve", "cot", "reflexion", "clin")
"""Graphs that the episodes use. None of them needs a text encoder, whose weights would hide a memory leak."""

SOAK_MODEL = "openai:expert"
SOAK_BLOCKS = 3

PROGRESS_LINES = 20
"""Number of progress messages of a soak test."""


class SoakRunner:
    """Runs the episodes of a soak test and writes a line to the file `rows` for each episode that ends.

    `started` and `ended` count the episodes.
    """

    def __init__(self, plan: SoakPlan, folder: Path, rows: IO[str], progress: Callable[[str], None]) -> None:
        self.plan, self.started, self.ended = plan, 0, 0
        self._folder, self._rows, self._progress = folder, rows, progress
        self._graphs: Mapping[str, AnyGraph] = {name: build_graph(name) for name in SOAK_GRAPHS}
        self._benchmark: Benchmark = load_benchmark("blocksworld")

    async def run_all(self) -> None:
        """Run all episodes, at most `plan.at_once` of them at the same time."""
        numbers = iter(range(self.plan.episodes))
        async with asyncio.TaskGroup() as group:
            for index in range(self.plan.at_once):
                group.create_task(self._run_episodes(index, numbers))

    async def _run_episodes(self, index: int, numbers: Iterator[int]) -> None:
        # staggered starts: a simultaneous start is unrealistic, and would cause the slowest calls of the soak
        await asyncio.sleep(index * self.plan.delay / self.plan.at_once)
        for number in numbers:
            self.started += 1
            self._record(await self._episode(number))

    def _record(self, row: SoakRun) -> None:
        self._rows.write(row.model_dump_json() + "\n")
        self._rows.flush()
        self.ended += 1
        if self.ended % max(self.plan.episodes // PROGRESS_LINES, 1) == 0:
            self._progress(
                f"{self.ended:,} of {self.plan.episodes:,} episodes, {row.memory:.0f} MB, {row.cpu:.0f} s of CPU"
            )

    async def _episode(self, number: int) -> SoakRun:
        name, start = SOAK_GRAPHS[number % len(SOAK_GRAPHS)], time.perf_counter()
        outcome: dict[str, Any]
        try:
            result = await self._run(self._graphs[name], f"{SOAK_BLOCKS}-{number}")
            outcome = {"run": result.folder.name, "ending": result.ending, "calls": call_seconds(result)}
        except Exception as error:  # noqa: BLE001 - counted as lost; the other episodes continue
            outcome = {"run": "", "ending": f"raised {type(error).__name__}: {error}", "calls": ()}
        seconds = time.perf_counter() - start
        return SoakRun(
            number=number, graph=name, seconds=seconds, cpu=time.process_time(), memory=resident_memory(), **outcome
        )

    async def _run(self, graph: AnyGraph, task: str) -> Result:
        context = Context(model=SOAK_MODEL)
        chosen = self._benchmark.task(task)
        result = await arun(graph, self._benchmark, chosen, context=context, out=self._folder, on_error="ignore")
        await drop_checkpoints(result.folder, result.ending, context)
        return result


def call_seconds(result: Result) -> tuple[float, ...]:
    """Return the duration of each model call of a run, in seconds."""
    return tuple(Call.model_validate(call).seconds for event in result.trajectory.events for call in event.calls)


@contextmanager
def use_endpoint(url: str) -> Iterator[None]:
    """Inside a block, send the requests of `openai:` models to a URL, without the user's API key."""
    before = dict(os.environ)
    os.environ.update(CERTIGRAPH_BASE_URL=url, OPENAI_API_KEY="none")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


# The results of a soak test, from the lines of its runs and their folders.

WINDOW_COUNT = 10
"""Number of windows into which the episodes are divided; memory should not grow after the first window."""


def soak_figures(
    plan: SoakPlan,
    begun: int,
    rows: Sequence[SoakRun],
    disk: DiskUsage,
    held: tuple[ProcessReading, ProcessReading],
    seconds: float,
) -> SoakResult:
    """Compute the results of a soak test.

    Args:
        plan: plan of the soak test.
        begun: number of started runs.
        rows: the runs that ended, at least one.
        disk: contents of the runs' folders.
        held: resources of the process before the first run and after the last.
        seconds: wall-clock seconds of the soak test.
    """
    start, end = held
    windows = tuple(_split_windows(_window_ends(plan, len(rows)), start.cpu, rows))
    warm = min(plan.episodes // WINDOW_COUNT, len(rows) - 1)
    base = rows[warm - 1].memory
    return SoakResult(
        **plan._asdict(),
        begun=begun,
        ended=len(rows),
        lost=sum(row.run not in disk.finished for row in rows),
        endings=_count_endings(rows),
        seconds=seconds,
        busy=(end.cpu - start.cpu) / seconds,
        load=os.getloadavg(),
        windows=windows,
        flat=windows[-2].cpu_each / windows[1].cpu_each if len(windows) > 3 else 1.0,
        grown=end.memory / base - 1,
        most_grown=max(row.memory for row in rows[warm:]) / base - 1,
        run=_overhead([row.seconds - plan.delay * len(row.calls) for row in rows]),
        call=_overhead([seconds - plan.delay for row in rows for seconds in row.calls]),
        trajectories=disk.trajectories,
        rest=disk.rest,
        start=start,
        end=end,
    )


def _window_ends(plan: SoakPlan, ended: int) -> list[int]:
    """Return the episode numbers at which windows end.

    They are after a hundredth of the episodes, after every tenth, and where the number of concurrent runs starts to
    fall.
    """
    size = max(plan.episodes // WINDOW_COUNT, 1)
    full = max(ended - plan.at_once, 0)
    tenths = [end for end in range(size, full, size) if end <= full - size // 2]
    return sorted(end for end in {max(size // WINDOW_COUNT, 1), *tenths, full, ended} if 0 < end <= ended)


def _split_windows(ends: Sequence[int], cpu: float, rows: Sequence[SoakRun]) -> Iterator[SoakWindow]:
    used = [cpu, *(row.cpu for row in rows)]
    for first, end in pairwise([0, *ends]):
        each = 1_000 * (used[end] - used[first]) / (end - first)
        yield SoakWindow(first=first, end=end, cpu_each=each, memory=rows[end - 1].memory)


def _count_endings(rows: Sequence[SoakRun]) -> dict[str, dict[str, int]]:
    counts = Counter((row.graph, row.ending) for row in rows)
    graphs = dict.fromkeys(row.graph for row in sorted(rows, key=lambda row: row.number))
    return {graph: {ending: n for (of, ending), n in counts.most_common() if of == graph} for graph in graphs}


def _overhead(seconds: Sequence[float]) -> Overhead:
    cuts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else [*seconds] * 99
    return Overhead(p50=1_000 * cuts[49], p99=1_000 * cuts[98], most=1_000 * max(seconds))


# The results as tables.


def soak_table(done: SoakResult) -> Group:
    """Format the results of a soak test as tables."""
    head = (
        f"{done.ended:,} of {done.episodes:,} episodes ended, {done.lost} lost, {done.at_once} at once, "
        f"{done.seconds:,.0f} s; the endpoint took {done.delay:g} s a reply; "
        f"{done.busy:.0%} of a processor, load {done.load[0]:.1f}"
    )
    return Group(
        head,
        "",
        _endings_table(done),
        "",
        _windows_table(done),
        "",
        _overhead_table(done),
        "",
        _readings_table(done),
        "",
        _summary_text(done),
    )


def _endings_table(done: SoakResult) -> Table:
    shown = Table("graph", "runs", "endings", box=None)
    for graph, counts in done.endings.items():
        text = ", ".join(f"{ending} {n:,}" for ending, n in counts.items())
        shown.add_row(graph, f"{sum(counts.values()):,}", text)
    return shown


def _windows_table(done: SoakResult) -> Table:
    shown = Table("episodes", "CPU ms each", "memory MB", box=None)
    for window in done.windows:
        shown.add_row(f"{window.first:,} to {window.end:,}", f"{window.cpu_each:.1f}", f"{window.memory:.1f}")
    return shown


def _overhead_table(done: SoakResult) -> Table:
    shown = Table("overhead, ms", "p50", "p99", "most", box=None)
    for name, overhead in (("of a model call", done.call), ("of a run", done.run)):
        shown.add_row(name, *_overhead_cells(overhead))
    return shown


def _overhead_cells(overhead: Overhead) -> list[str]:
    return [f"{ms:,.0f}" for ms in (overhead.p50, overhead.p99, overhead.most)]


def _readings_table(done: SoakResult) -> Table:
    shown = Table("", "memory MB", "most MB", "open files", "threads", "live worlds", box=None)
    for name, held in (("at the start", done.start), ("at the end", done.end)):
        counts = map(str, (held.files, held.threads, held.worlds))
        shown.add_row(name, f"{held.memory:.1f}", f"{held.peak:.1f}", *counts)
    return shown


def _summary_text(done: SoakResult) -> str:
    return (
        f"After the first tenth memory grew by {done.grown:+.1%} (at most {done.most_grown:+.1%}); "
        f"the last episodes cost {done.flat:.2f} of the first.\n"
        f"Trajectories take {done.trajectories:,.1f} MB, all else {done.rest:,.1f} MB."
    )


# The command `certigraph bench --soak N`.

DEFAULT_AT_ONCE, DEFAULT_DELAY = 200, 3.0
"""Default number of concurrent runs, and default delay of the endpoint in seconds.

The delay is typical of a short reply by a large model. With these values one processor is not saturated, so that the
overhead of a call includes no waiting for the processor.
"""


def run_soak(plan: SoakPlan, out: Path, *, progress: Callable[[str], None]) -> SoakResult:
    """Run a soak test. Ctrl-C ends it early, with the results of the runs so far.

    Args:
        plan: number of episodes, number of concurrent episodes, and delay of the endpoint.
        out: new folder for `runs.jsonl`, with a line per run, and `soak.json` with the results. The runs' own folders
            are deleted at the end.
        progress: called with each progress message.

    Raises:
        Interrupted: no run had ended before the interrupt.
    """
    out.mkdir(parents=True)
    with TemporaryDirectory(dir=out) as runs, (out / "runs.jsonl").open("w", encoding="utf-8") as lines:
        with slow_endpoint(plan.delay) as url, use_endpoint(url):
            runner = SoakRunner(plan, Path(runs), lines, progress)
            before, start_time = read_process(), perf_counter()
            try:
                asyncio.run(runner.run_all())
            except KeyboardInterrupt:
                progress("interrupted: what was measured so far")
            after, seconds = read_process(), perf_counter() - start_time
        rows = read_soak_runs(out / "runs.jsonl")
        if not rows:
            raise Interrupted(f"no run had ended; start again with: certigraph bench --soak {plan.episodes}")
        done = soak_figures(plan, runner.started, rows, measure_disk(Path(runs)), (before, after), seconds)
    (out / "soak.json").write_text(json.dumps(done.as_json(), indent=1), encoding="utf-8")
    return done


def read_soak_runs(file: Path) -> list[SoakRun]:
    """Read the runs that ended from `runs.jsonl`, in the order in which they ended."""
    return [SoakRun.model_validate_json(line) for line in file.read_text(encoding="utf-8").splitlines()]


def measure_disk(runs: Path) -> DiskUsage:
    """Measure the sizes of the runs' folders, and find the runs whose trajectory has a footer."""
    sizes = {file: file.stat().st_size for file in runs.rglob("*") if file.is_file()}
    logs = [file for file in sizes if file.name == "trajectory.jsonl"]
    trajectories = sum(sizes[file] for file in logs) / MEGABYTE
    return DiskUsage(
        finished=frozenset(file.parent.name for file in logs if read_trajectory(file).footer),
        trajectories=trajectories,
        rest=sum(sizes.values()) / MEGABYTE - trajectories,
    )


def print_soak(done: SoakResult, *, as_json: bool) -> None:
    """Print the results of a soak test as one JSON object or as tables."""
    if as_json:
        typer.echo(json.dumps(done.as_json()))
    else:
        Console().print(soak_table(done))
