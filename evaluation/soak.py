"""The soak: thousands of episodes in one process."""

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
from certigraph.adapters.blocksworld.expert import respond
from certigraph.adapters.episodes import EPISODES
from certigraph.adapters.models.scripted import CHARS_PER_TOKEN, TEXT
from certigraph.adapters.models.usage import Call
from certigraph.adapters.protocols import Benchmark, Context
from certigraph.runtime.registry import AnyGraph, build_graph
from certigraph.runtime.result import Result
from certigraph.runtime.run import arun
from certigraph.runtime.storage import drop_checkpoints
from certigraph.state.records import Interrupted, Record
from certigraph.state.trajectory import read_trajectory

# A slow OpenAI-compatible endpoint in a process of its own, so that what it costs is not counted.
#
# It gives the BlocksWorld expert's answer to every question, late, in JSON schema mode.

WAITING = 1_024
"""Connections that may wait to be taken: as many as there are runs begin at once."""


@contextmanager
def slow_endpoint(delay: float) -> Iterator[str]:
    """Serve on a loopback port for the length of a block, every reply `delay` seconds late; yields the base URL."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_process, args=(theirs, delay), daemon=True)
    process.start()
    theirs.close()  # ours to close too, or its death would go unnoticed
    try:
        with closing(ours):
            yield f"http://127.0.0.1:{ours.recv()}/v1"
    finally:
        process.join()


def _process(theirs: Connection, delay: float) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; this process ends with the pipe
    asyncio.run(_serve(theirs, delay))


async def _serve(theirs: Connection, delay: float) -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(theirs.fileno(), over.set)
    server = await asyncio.start_server(partial(_exchange, delay), "127.0.0.1", 0, backlog=WAITING)
    theirs.send(server.sockets[0].getsockname()[1])
    await over.wait()
    server.close()


async def _exchange(delay: float, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One request a connection, as certigraph's own client asks."""
    with closing(writer):
        body = await _body(reader)
        asked = perf_counter()
        reply = json.dumps(_completion(json.loads(body))).encode()
        await asyncio.sleep(delay - (perf_counter() - asked))
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(reply)}\r\n"
        writer.write(f"{head}Connection: close\r\n\r\n".encode() + reply)
        await writer.drain()


async def _body(reader: asyncio.StreamReader) -> bytes:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    return await reader.readexactly(int(head.partition("content-length:")[2].split("\r\n")[0]))


def _completion(asked: dict[str, Any]) -> dict[str, Any]:
    prompt = "\n\n".join(str(message["content"]) for message in asked["messages"])
    form = asked.get("response_format")
    value = respond(prompt, form["json_schema"]["schema"] if form else TEXT)
    text = json.dumps(value) if form else str(value)
    read, written = len(prompt) // CHARS_PER_TOKEN, len(text) // CHARS_PER_TOKEN
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    named = {"id": "soak", "object": "chat.completion", "created": 0, "model": asked["model"]}
    return {**named, "choices": [choice], "usage": usage}


# What this process holds: memory, files, threads, live worlds.

MEGABYTE = 1e6


class Held(Record):
    """A reading of the process: seconds of processor time, resident memory in MB (now, and the most so far), counts."""

    cpu: float
    memory: float
    peak: float
    files: int
    threads: int
    worlds: int
    """Live episodes that nobody closed yet."""


def held() -> Held:
    """What the process holds now."""
    return Held(
        cpu=time.process_time(),
        memory=memory(),
        peak=_peak(),
        files=len(list(Path("/proc/self/fd").iterdir())) - 1,  # the listing itself is an open file
        threads=threading.active_count(),
        worlds=len(EPISODES),
    )


def memory() -> float:
    """Resident memory in MB; it costs some ten microseconds."""
    resident = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(resident) * os.sysconf("SC_PAGE_SIZE") / MEGABYTE


def _peak() -> float:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    kilobytes = next(line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(kilobytes) * 1_024 / MEGABYTE


# What a soak is made of: its plan, a line for each run, and the figures.


class Plan(NamedTuple):
    """A soak: how many episodes, how many of them at once, and how many seconds late the endpoint replies."""

    episodes: int
    at_once: int
    delay: float


class Row(Record):
    """One run that ended: when and how, and what it took."""

    number: int
    graph: str
    run: str
    """Its folder's name; empty where it raised, which no run should."""
    ending: str
    seconds: float
    """Wall-clock from its call to its result."""
    calls: tuple[float, ...]
    """Seconds that each model call took, as the caller saw it."""
    cpu: float
    """Processor time of the whole process at its end."""
    memory: float
    """Resident MB of the process at its end."""


class Window(Record):
    """Consecutive episodes in the order in which they ended, from 0."""

    first: int
    end: int
    cpu_each: float
    """Milliseconds of processor time per episode."""
    memory: float
    """Resident MB at its end."""


class Overhead(Record):
    """Milliseconds that are added to what the endpoint takes: by certigraph, by its client, by waiting for both."""

    p50: float
    p99: float
    most: float


class Disk(Record):
    """What lies in the runs' folders: the runs that have a footer, megabytes of trajectories and of all else."""

    finished: frozenset[str]
    trajectories: float
    rest: float


class Soak(Record):
    """What a soak came to."""

    episodes: int
    at_once: int
    delay: float
    """Seconds that the endpoint took for every reply."""
    begun: int
    ended: int
    lost: int
    """Runs that ended and have no footer on disk."""
    endings: dict[str, dict[str, int]]
    """Runs by graph and ending."""
    seconds: float
    busy: float
    """The part of a processor that the process used."""
    load: tuple[float, float, float]
    """The machine's load average over the last 1, 5 and 15 minutes; the endpoint's own process is in it."""
    windows: tuple[Window, ...]
    flat: float
    """Processor time per episode of the last window in which all places were taken, to that of the second one."""
    grown: float
    """Resident memory at the end to that after the warm-up, less 1."""
    most_grown: float
    """The same of the most that any later episode left."""
    run: Overhead
    """Of a whole run."""
    call: Overhead
    """Of a model call."""
    trajectories: float
    """Megabytes that the runs' trajectories take on disk."""
    rest: float
    """Megabytes of all else in their folders."""
    start: Held
    """Before the first run, its graph built."""
    end: Held


# The runs of a soak: many at once on one event loop, each with a line in a file when it ended.

GRAPHS = ("sdp", "react", "tdp", "step", "plan_and_act", "plan_and_solve", "cot", "reflexion", "clin")
"""The mixture: the methods that need no encoder, whose weights would hide what a leak adds."""

MODEL = "openai:expert"
BLOCKS = 3

TOLD = 20
"""How often progress is told."""


class Soaking:
    """Episodes under way. `begun` counts them; those that ended have their lines in `rows`."""

    def __init__(self, plan: Plan, folder: Path, rows: IO[str], said: Callable[[str], None]) -> None:
        self.plan, self.begun, self.ended = plan, 0, 0
        self._folder, self._rows, self._said = folder, rows, said
        self._graphs: Mapping[str, AnyGraph] = {name: build_graph(name) for name in GRAPHS}
        self._benchmark: Benchmark = load_benchmark("blocksworld")

    async def all(self) -> None:
        """Run every episode, as many at once as planned."""
        numbers = iter(range(self.plan.episodes))
        async with asyncio.TaskGroup() as group:
            for place in range(self.plan.at_once):
                group.create_task(self._one_by_one(place, numbers))

    async def _one_by_one(self, place: int, numbers: Iterator[int]) -> None:
        # begun one after another: all at once is what no server sees, and would be the slowest calls of the soak
        await asyncio.sleep(place * self.plan.delay / self.plan.at_once)
        for number in numbers:
            self.begun += 1
            self._note(await self._episode(number))

    def _note(self, row: Row) -> None:
        self._rows.write(row.model_dump_json() + "\n")
        self._rows.flush()
        self.ended += 1
        if self.ended % max(self.plan.episodes // TOLD, 1) == 0:
            self._said(
                f"{self.ended:,} of {self.plan.episodes:,} episodes, {row.memory:.0f} MB, {row.cpu:.0f} s of CPU"
            )

    async def _episode(self, number: int) -> Row:
        name, began = GRAPHS[number % len(GRAPHS)], time.perf_counter()
        told: dict[str, Any]
        try:
            result = await self._run(self._graphs[name], f"{BLOCKS}-{number}")
            told = {"run": result.folder.name, "ending": result.ending, "calls": latencies(result)}
        except Exception as error:  # noqa: BLE001 - it is counted as lost, and the others go on
            told = {"run": "", "ending": f"raised {type(error).__name__}: {error}", "calls": ()}
        seconds = time.perf_counter() - began
        return Row(number=number, graph=name, seconds=seconds, cpu=time.process_time(), memory=memory(), **told)

    async def _run(self, graph: AnyGraph, task: str) -> Result:
        context = Context(model=MODEL)
        chosen = self._benchmark.task(task)
        result = await arun(graph, self._benchmark, chosen, context=context, out=self._folder, on_error="ignore")
        await drop_checkpoints(result.folder, result.ending, context)
        return result


def latencies(result: Result) -> tuple[float, ...]:
    """Seconds that each model call of a run took."""
    return tuple(Call.model_validate(call).seconds for event in result.trajectory.events for call in event.calls)


@contextmanager
def endpoint(url: str) -> Iterator[None]:
    """Have `openai:` models asked at a URL, without a key of anybody's, for the length of a block."""
    before = dict(os.environ)
    os.environ.update(CERTIGRAPH_BASE_URL=url, OPENAI_API_KEY="none")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


# The figures of a soak, from the lines of its runs and what they left on disk.

PARTS = 10
"""Windows of a soak; memory is to stay as it is after the first."""


def figures(plan: Plan, begun: int, rows: Sequence[Row], disk: Disk, held: tuple[Held, Held], seconds: float) -> Soak:
    """The figures; `held` are the readings before the first run and after the last. At least one run has ended."""
    start, end = held
    windows = tuple(_windows(_ends(plan, len(rows)), start.cpu, rows))
    warm = min(plan.episodes // PARTS, len(rows) - 1)
    base = rows[warm - 1].memory
    return Soak(
        **plan._asdict(),
        begun=begun,
        ended=len(rows),
        lost=sum(row.run not in disk.finished for row in rows),
        endings=_endings(rows),
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


def _ends(plan: Plan, ended: int) -> list[int]:
    """Where windows end: after the first hundredth, every tenth, and where no new run takes a place that falls free."""
    size = max(plan.episodes // PARTS, 1)
    full = max(ended - plan.at_once, 0)
    tenths = [end for end in range(size, full, size) if end <= full - size // 2]
    return sorted(end for end in {max(size // PARTS, 1), *tenths, full, ended} if 0 < end <= ended)


def _windows(ends: Sequence[int], cpu: float, rows: Sequence[Row]) -> Iterator[Window]:
    used = [cpu, *(row.cpu for row in rows)]
    for first, end in pairwise([0, *ends]):
        each = 1_000 * (used[end] - used[first]) / (end - first)
        yield Window(first=first, end=end, cpu_each=each, memory=rows[end - 1].memory)


def _endings(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    counts = Counter((row.graph, row.ending) for row in rows)
    graphs = dict.fromkeys(row.graph for row in sorted(rows, key=lambda row: row.number))
    return {graph: {ending: n for (of, ending), n in counts.most_common() if of == graph} for graph in graphs}


def _overhead(seconds: Sequence[float]) -> Overhead:
    cuts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else [*seconds] * 99
    return Overhead(p50=1_000 * cuts[49], p99=1_000 * cuts[98], most=1_000 * max(seconds))


# The figures of a soak, for people.


def table(done: Soak) -> Group:
    """What ran, what it cost, and what it left."""
    head = (
        f"{done.ended:,} of {done.episodes:,} episodes ended, {done.lost} lost, {done.at_once} at once, "
        f"{done.seconds:,.0f} s; the endpoint took {done.delay:g} s a reply; "
        f"{done.busy:.0%} of a processor, load {done.load[0]:.1f}"
    )
    return Group(
        head,
        "",
        _ending_lines(done),
        "",
        _window_lines(done),
        "",
        _overheads(done),
        "",
        _held(done),
        "",
        _verdict(done),
    )


def _ending_lines(done: Soak) -> Table:
    shown = Table("graph", "runs", "endings", box=None)
    for graph, counts in done.endings.items():
        told = ", ".join(f"{ending} {n:,}" for ending, n in counts.items())
        shown.add_row(graph, f"{sum(counts.values()):,}", told)
    return shown


def _window_lines(done: Soak) -> Table:
    shown = Table("episodes", "CPU ms each", "memory MB", box=None)
    for window in done.windows:
        shown.add_row(f"{window.first:,} to {window.end:,}", f"{window.cpu_each:.1f}", f"{window.memory:.1f}")
    return shown


def _overheads(done: Soak) -> Table:
    shown = Table("overhead, ms", "p50", "p99", "most", box=None)
    for name, overhead in (("of a model call", done.call), ("of a run", done.run)):
        shown.add_row(name, *_milliseconds(overhead))
    return shown


def _milliseconds(overhead: Overhead) -> list[str]:
    return [f"{ms:,.0f}" for ms in (overhead.p50, overhead.p99, overhead.most)]


def _held(done: Soak) -> Table:
    shown = Table("", "memory MB", "most MB", "open files", "threads", "live worlds", box=None)
    for name, held in (("at the start", done.start), ("at the end", done.end)):
        counts = map(str, (held.files, held.threads, held.worlds))
        shown.add_row(name, f"{held.memory:.1f}", f"{held.peak:.1f}", *counts)
    return shown


def _verdict(done: Soak) -> str:
    return (
        f"After the first tenth memory grew by {done.grown:+.1%} (at most {done.most_grown:+.1%}); "
        f"the last episodes cost {done.flat:.2f} of the first.\n"
        f"Trajectories take {done.trajectories:,.1f} MB, all else {done.rest:,.1f} MB."
    )


# `certigraph bench --soak N`: N episodes of mixed graphs in one process, hundreds at once, against a slow endpoint.
#
# Every figure is read off the lines that the runs leave in a file, and off the runs' own folders.

AT_ONCE, DELAY = 200, 3.0
"""Runs at once, and seconds that the endpoint takes for a reply: what a large model takes for a short one. With these
one processor is not asked for more than it has, and a call's overhead is no queue for it."""


def soak(plan: Plan, out: Path, *, said: Callable[[str], None]) -> Soak:
    """Run a soak; Ctrl-C ends it early, and what was measured by then counts.

    Args:
        plan: how many episodes, how many at once, and how late the endpoint replies.
        out: a folder for `runs.jsonl`, a line a run, and `soak.json`; the runs' own folders are deleted at the end.
        said: takes progress, a line at a time.

    Raises:
        Interrupted: before any run had ended.
    """
    out.mkdir(parents=True)
    with TemporaryDirectory(dir=out) as runs, (out / "runs.jsonl").open("w", encoding="utf-8") as lines:
        with slow_endpoint(plan.delay) as url, endpoint(url):
            soaking = Soaking(plan, Path(runs), lines, said)
            before, began = held(), perf_counter()
            try:
                asyncio.run(soaking.all())
            except KeyboardInterrupt:
                said("interrupted: what was measured so far")
            after, seconds = held(), perf_counter() - began
        rows = read_rows(out / "runs.jsonl")
        if not rows:
            raise Interrupted(f"no run had ended; begin again with: certigraph bench --soak {plan.episodes}")
        done = figures(plan, soaking.begun, rows, on_disk(Path(runs)), (before, after), seconds)
    (out / "soak.json").write_text(json.dumps(done.as_json(), indent=1), encoding="utf-8")
    return done


def read_rows(file: Path) -> list[Row]:
    """The lines of the runs that ended, in that order."""
    return [Row.model_validate_json(line) for line in file.read_text(encoding="utf-8").splitlines()]


def on_disk(runs: Path) -> Disk:
    """What the runs left; a run is finished when its trajectory can be read and has a footer."""
    sizes = {file: file.stat().st_size for file in runs.rglob("*") if file.is_file()}
    told = [file for file in sizes if file.name == "trajectory.jsonl"]
    trajectories = sum(sizes[file] for file in told) / MEGABYTE
    return Disk(
        finished=frozenset(file.parent.name for file in told if read_trajectory(file).footer),
        trajectories=trajectories,
        rest=sum(sizes.values()) / MEGABYTE - trajectories,
    )


def print_soak(done: Soak, *, as_json: bool) -> None:
    """One JSON object, or tables."""
    if as_json:
        typer.echo(json.dumps(done.as_json()))
    else:
        Console().print(table(done))
