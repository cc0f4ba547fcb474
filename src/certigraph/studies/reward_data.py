"""Builds the data of the benchmark RewardPrediction (`certigraph rewards build`; StateFactory paper).

A pair is a positive and a negative recorded trajectory of the same task, with rewards. Tasks are drawn with a seed and
balanced over kinds; each is tried in a process of its own. The pairs, the dropped tasks and the counts are files of a
folder, which a later call completes.
"""

import json
import os
import re
import signal
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeVar, cast

import pandas as pd
from pydantic import BaseModel, Field, ValidationError

from certigraph.adapters.benchmarks import check_ready, load_benchmark
from certigraph.adapters.files import MAX_SETTINGS_BYTES, read_bytes, read_rows, replace_text, validate_row
from certigraph.adapters.json_lines import drop_incomplete_line, parse_json
from certigraph.adapters.own_modules import SpawnedProcesses
from certigraph.adapters.protocols import TaskDemonstrator
from certigraph.benchmarks.rewardprediction.dataset import (
    PUBLISHED_DOMAINS,
    DemonstratedBenchmark,
    RewardDomain,
    TrajectoryPair,
    require_pair,
)
from certigraph.evaluation.progress_display import ProgressDisplay, show_progress
from certigraph.runtime.texts import clip_text, format_count, shorten_text
from certigraph.state.endings import Fault, Interrupted, Stopped, UnknownName
from certigraph.state.records import Record, Task

# Selection of tasks: drawn with a seed, and balanced over kinds.

TaskQueues = dict[str, list[Task]]
"""Tasks that are left, by kind; the next task of a kind is the first of its list."""


def kind_of(task: Task, domain: RewardDomain) -> str:
    """Return the kind of a task, which is part of its id; empty if the domain has no kinds of tasks."""
    match = re.match(domain.kind, task.id) if domain.kind else None
    return match[1] if match else ""


def create_queues(tasks: Sequence[Task], domain: RewardDomain, seed: int) -> TaskQueues:
    """Shuffle the tasks with a seed and group them by kind, without the kinds that the domain excludes."""
    random, by_kind = Random(seed), defaultdict[str, list[Task]](list)
    by_id = {task.id: task for task in tasks}
    for task_id in random.sample(sorted(by_id), len(by_id)):
        if (kind := kind_of(by_id[task_id], domain)) not in domain.without:
            by_kind[kind].append(by_id[task_id])
    return by_kind


def take_balanced(left: TaskQueues, have: Mapping[str, int], missing: int) -> list[Task]:
    """Take tasks from the queues, each time of the kind that has the fewest tasks so far.

    Fewer tasks than `missing` are returned if the queues run out.

    Args:
        left: the queues; the taken tasks are removed.
        have: number of successful tasks so far, by kind.
        missing: number of tasks to take.
    """
    count, taken = Counter(have), list[Task]()
    while len(taken) < missing and (kinds := [kind for kind, queue in left.items() if queue]):
        kind = min(kinds, key=lambda one: count[one])
        count[kind] += 1
        taken.append(left[kind].pop(0))
    return taken


# Work in several processes; a process that dies loses only its own item.

RecordT = TypeVar("RecordT", bound=BaseModel)
WorkInput = TypeVar("WorkInput")
WorkResult = TypeVar("WorkResult")


def map_in_processes(
    work: Callable[[WorkInput], WorkResult], items: Sequence[WorkInput], at_once: int
) -> Iterator[tuple[WorkInput, WorkResult | None]]:
    """Call `work` on every item in separate processes; yield each item with its result as soon as it is finished.

    The result is None if the process of the item died twice. An exception of `work` is raised here. The worker
    processes end when this process ends, or when the caller stops iterating.
    """
    workers = _ThreadWorkers()
    threads = ThreadPoolExecutor(min(at_once, len(items)) or 1)
    try:
        futures = {threads.submit(workers.call, work, item): item for item in items}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        workers.close()


def _initialize_worker(lifeline: Connection) -> None:
    """Initialise a worker process: one computing thread, and a thread that ends the process with its parent."""
    # before torch is imported; with more threads several processes would mostly wait for each other
    os.environ["OMP_NUM_THREADS"] = "1"
    threading.Thread(target=_exit_with_parent, args=(lifeline,), daemon=True).start()


def _exit_with_parent(lifeline: Connection) -> None:
    # returns when the other end of the pipe is closed, which happens even when the parent is killed
    with suppress(EOFError):
        lifeline.recv()
    os._exit(1)


class _ThreadWorkers:
    """Worker processes, one per calling thread; a process that dies is replaced.

    One common pool of processes would break if any process died.
    """

    def __init__(self) -> None:
        self._own = threading.local()
        self._all: list[tuple[SpawnedProcesses, Connection]] = []
        self._closed = False

    def call(self, work: Callable[[WorkInput], WorkResult], item: WorkInput) -> WorkResult | None:
        """Call `work` in the process of the current thread; return None if the process died twice, or after `close`."""
        for _ in range(2):
            if self._closed:
                break
            try:
                return self._executor().submit(work, item).result()
            except BrokenProcessPool:
                del self._own.executor
        return None

    def close(self) -> None:
        """End the processes; their unfinished items are lost."""
        self._closed = True
        for executor, lifeline in self._all:
            lifeline.close()
            executor.shutdown(wait=False, cancel_futures=True)

    def _executor(self) -> SpawnedProcesses:
        if not hasattr(self._own, "executor"):
            receiver, sender = Pipe(duplex=False)
            self._own.executor = SpawnedProcesses(1, _initialize_worker, (receiver,))
            self._all.append((self._own.executor, sender))
        executor: SpawnedProcesses = self._own.executor
        return executor


# Attempts at pairs, in this process or in several; any failure is a reason to drop the task.

MAX_SECONDS = 120
"""Maximum number of seconds for building the pair of a task in a process of its own.

ALFWorld's planner may need hours for a task with two objects.
"""


class DroppedTask(Record):
    """A task for which no pair of trajectories could be built, and the reason."""

    domain: str
    task: str
    reason: str


PairOutcome = TrajectoryPair | DroppedTask


def build_pair(benchmark: str, data: str | None, seed: int, task: Task) -> PairOutcome:
    """Build the pair of trajectories of a task; if that fails, return the task with the reason."""
    try:
        return require_pair(cast(DemonstratedBenchmark, load_benchmark(benchmark, data)), task, seed)
    except Stopped as stopped:
        return _dropped_task(benchmark, task, str(stopped))
    except Exception as error:  # noqa: BLE001 - a world may be third-party code: its failure drops only this pair
        return _dropped_task(benchmark, task, f"{type(error).__name__}: {error}")


def build_pairs(
    benchmark: str, data: str | None, seed: int, tasks: Sequence[Task], at_once: int = 1
) -> Iterator[PairOutcome]:
    """Build the pairs of trajectories of several tasks; yield each pair or dropped task as soon as it is finished.

    Benchmarks with a simulator run in processes of their own, because a simulator may crash or hang.
    """
    work = partial(build_pair, benchmark, data, seed)
    if at_once == 1 and load_benchmark(benchmark, data).instant:
        yield from map(work, tasks)
        return
    for task, outcome in map_in_processes(partial(_call_with_timeout, work), tasks, at_once):
        yield outcome if outcome is not None else _dropped_task(benchmark, task, "its process died")


def _call_with_timeout(work: Callable[[Task], PairOutcome], task: Task) -> PairOutcome:
    def stop(*_: Any) -> None:
        raise TimeoutError(f"not done after {MAX_SECONDS} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(MAX_SECONDS)
    try:
        return work(task)
    finally:
        signal.alarm(0)


def _dropped_task(benchmark: str, task: Task, reason: str) -> DroppedTask:
    return DroppedTask(domain=benchmark, task=task.id, reason=shorten_text(" ".join(reason.split()), 160))


# The files of a dataset: pairs and dropped tasks as JSON lines, and the counts.

COUNTS_FILE, DROPPED_FILE = "counts.json", "dropped.jsonl"


class DomainCount(Record):
    """Numbers of pairs and dropped tasks of a domain (a benchmark that pairs are built from), and the settings."""

    domain: str
    published: int | None
    """Number of pairs in the StateFactory paper; None if the paper does not have the domain."""
    wanted: int = 0
    seed: int
    splits: tuple[str, ...]
    built: int = 0
    kinds: dict[str, int] = Field(default_factory=dict)
    dropped: dict[str, int] = Field(default_factory=dict)
    """Number of dropped tasks by reason."""
    failed: str = ""
    """Reason why no pair of the domain could be built."""

    @property
    def out(self) -> int:
        """Number of dropped tasks, for which no pair could be built."""
        return sum(self.dropped.values())


def first_of_each_domain(pairs: Iterable[TrajectoryPair], limit: int | None) -> list[TrajectoryPair]:
    """Return the first `limit` pairs of each domain, or all with 0 or None, domain by domain."""
    domains = defaultdict[str, list[TrajectoryPair]](list)
    for pair in pairs:
        domains[pair.domain].append(pair)
    return [pair for of_domain in domains.values() for pair in of_domain[: limit or None]]


def append_line(path: Path, line: BaseModel) -> None:
    """Append a record to a file as a JSON line, in one write."""
    with path.open("a", encoding="utf-8") as file:
        file.write(line.model_dump_json() + "\n")


def read_counts(folder: Path) -> dict[str, DomainCount]:
    """Read the counts of the domains in a folder; none if nothing was built there.

    Raises:
        Fault: ("data") the file is not a list of counts.
    """
    path = folder / COUNTS_FILE
    if not path.is_file():
        return {}
    try:
        counts = [DomainCount.model_validate(one) for one in parse_json(read_bytes(path, MAX_SETTINGS_BYTES))]
    except (ValueError, TypeError, ValidationError) as error:
        raise Fault("data", f"{path} is not a list of counts: delete it, and build again in that folder") from error
    return {count.domain: count for count in counts}


def write_count(folder: Path, count: DomainCount) -> None:
    """Write the counts of a domain, which replace its earlier counts."""
    counts = {**read_counts(folder), count.domain: count}
    replace_text(folder / COUNTS_FILE, json.dumps([one.model_dump() for one in counts.values()], indent=1))


def start_domain(folder: Path, count: DomainCount) -> None:
    """Save the settings of a domain in a folder, or check that the folder has the domain with the same settings.

    Raises:
        Fault: the settings differ; the message names the difference and the fix.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stored = read_counts(folder).get(count.domain)
    if stored is None:
        write_count(folder, count)
    for name in ("seed", "wanted", "splits"):
        if stored and (old := getattr(stored, name)) != (new := getattr(count, name)):
            difference = f"{folder} holds {count.domain} with {name} {old}, not {new}"
            raise Fault("data", f"{difference}: continue with that value, or build in another folder")


def read_lines(path: Path, model: type[RecordT]) -> list[RecordT]:
    """Read the records in a file of JSON lines.

    An incomplete last line is removed from the file, so that the next record starts a new line.
    """
    if not path.is_file():
        return []
    drop_incomplete_line(path)
    return [validate_row(model, row) for row in read_rows(path)]


# The pairs of a domain, by default as many as published, in a folder that a later call resumes.


class BuildRequest(NamedTuple):
    """Request to build the pairs of trajectories of a domain."""

    domain: str
    seed: int = 0
    pairs: int = 0
    """Number of pairs; 0: as many as in the StateFactory paper, or one per task for a domain that it does not have."""
    splits: tuple[str, ...] = ()
    """Splits of the tasks; empty: the benchmark's splits that correspond to those of the StateFactory paper."""
    data: str | None = None


def build_domain(
    request: BuildRequest,
    folder: Path,
    *,
    at_once: int = 1,
    progress: Callable[[DomainCount], None] = lambda count: None,
) -> DomainCount:
    """Build the missing pairs of a domain, and return the counts; `progress` is called after each task.

    The same tasks and seed give the same file, even after interruptions. If the benchmark's data is missing, the counts
    have the reason in `failed`, so that other domains can still be built.

    Raises:
        UnknownName: the benchmark or split is unknown, or the benchmark has no demonstrations.
        Fault: the folder has the domain with other settings.
    """
    domain = PUBLISHED_DOMAINS.get(request.domain, RewardDomain(0))
    splits, published = request.splits or domain.splits, domain.pairs or None
    count = DomainCount(domain=request.domain, seed=request.seed, splits=splits, published=published)
    try:
        benchmark = load_benchmark(request.domain, request.data)
        check_ready(benchmark)
        if not isinstance(benchmark, TaskDemonstrator):
            known = ", ".join(PUBLISHED_DOMAINS)
            raise UnknownName(f"{request.domain} has no demonstrations, from which pairs are built; {known} have them")
        tasks = [task for split in splits for task in benchmark.tasks(split)]
    except Fault as fault:
        return count.model_copy(update={"failed": str(fault)})
    count = count.model_copy(update={"wanted": request.pairs or domain.pairs or len(tasks)})
    start_domain(folder, count)
    pairs, reasons = list[TrajectoryPair](), Counter[str]()
    kinds = {task.id: kind_of(task, domain) for task in tasks}
    for outcome in _outcomes(request, folder, create_queues(tasks, domain, request.seed), kinds, count.wanted, at_once):
        if isinstance(outcome, TrajectoryPair):
            pairs.append(outcome)
        else:
            reasons[outcome.reason] += 1
        of_kinds = dict(sorted(Counter(kinds[pair.task] for pair in pairs).items()))
        dropped = dict(reasons.most_common())
        count = count.model_copy(update={"built": len(pairs), "kinds": of_kinds, "dropped": dropped})
        progress(count)
    # sorted, so that the file does not depend on which was finished first
    lines = [pair.model_dump_json() + "\n" for pair in sorted(pairs, key=lambda pair: pair.task)]
    replace_text(folder / f"{request.domain}.jsonl", "".join(lines))
    write_count(folder, count)
    return count


def _outcomes(
    request: BuildRequest, folder: Path, left: dict[str, list[Task]], kinds: dict[str, str], wanted: int, at_once: int
) -> Iterator[PairOutcome]:
    """Yield pairs and dropped tasks until there are `wanted` pairs or no more tasks.

    As many tasks as wanted are tried first, then as many as were dropped. Tasks whose pair or reason is in the folder
    already are not tried again.
    """
    pairs, dropped = folder / f"{request.domain}.jsonl", folder / DROPPED_FILE
    known: dict[str, PairOutcome] = {pair.task: pair for pair in read_lines(pairs, TrajectoryPair)}
    known |= {one.task: one for one in read_lines(dropped, DroppedTask) if one.domain == request.domain}
    have = Counter[str]()
    while batch := take_balanced(left, have, wanted - have.total()):
        new = [task for task in batch if task.id not in known]
        for outcome in build_pairs(request.domain, request.data, request.seed, new, at_once):
            append_line(pairs if isinstance(outcome, TrajectoryPair) else dropped, outcome)
            known[outcome.task] = outcome
            yield outcome
        yield from (known[task.id] for task in batch if task not in new)
        have.update(kinds[task.id] for task in batch if isinstance(known[task.id], TrajectoryPair))


def select_domains(names: Sequence[str]) -> tuple[str, ...]:
    """Return the requested domains without duplicates; all domains of the StateFactory paper if none is requested."""
    return tuple(dict.fromkeys(names)) or tuple(PUBLISHED_DOMAINS)


# Several domains, and their counts as a table.


def build_datasets(
    requests: Sequence[BuildRequest], folder: Path, *, at_once: int, silent: bool = False
) -> list[DomainCount]:
    """Build the pairs of several domains, show the progress unless `silent`, and return the counts.

    Raises:
        Interrupted: by Ctrl-C; a later call continues.
        UnknownName: as in `build_domain`.
        Fault: as in `build_domain`.
    """
    counts = []
    try:
        for request in requests:
            with show_progress(request.domain, request.pairs, silent=silent) as display:

                def report(count: DomainCount, display: ProgressDisplay = display) -> None:
                    display.total = count.wanted
                    display.report(count.domain, count.built, f"{count.out} dropped")

                counts.append(build_domain(request, folder, at_once=at_once, progress=report))
    except KeyboardInterrupt:
        raise Interrupted("interrupted; resume with: the same command") from None
    return counts


def count_table(counts: Sequence[DomainCount]) -> pd.DataFrame:
    """Prepare counts for reading: at most 8 kinds of tasks by name, and 2 reasons why tasks were dropped."""
    lines = []
    for count in counts:
        named = [f"{kind} {n}" for kind, n in count.kinds.items() if kind]
        kinds = ", ".join(named) if len(named) <= 8 else f"{len(named)} kinds"
        reasons = [f"{clip_text(reason, 72)} ({n})" for reason, n in count.dropped.items()]
        more = [f"and {format_count(len(reasons) - 2, 'more reason')}"] if len(reasons) > 2 else []
        why = count.failed or "; ".join([*reasons[:2], *more])
        published = "none" if count.published is None else count.published
        lines.append((count.domain, published, count.wanted, count.built, kinds, count.out, why))
    return pd.DataFrame(lines, columns=["domain", "published", "wanted", "built", "by kind", "dropped", "why"])
