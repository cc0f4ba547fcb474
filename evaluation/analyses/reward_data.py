"""Building of RewardPrediction's pairs."""

import json
import os
import re
import shlex
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeVar, cast

import typer
from pydantic import BaseModel, Field, ValidationError
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from certigraph.adapters.benchmarks import load_benchmark, usable
from certigraph.adapters.files import MOST_SETTINGS, checked, file_bytes, read_rows, whole_file
from certigraph.adapters.rewardprediction.dataset import PUBLISHED, Demonstrated, Domain, Pair, paired
from certigraph.evaluation.compare import spoken
from certigraph.runtime.html import clipped, counted, shortened
from certigraph.state.records import Fault, Interrupted, Record, Stopped, Task, UnknownName, drop_torn_line, json_value

# Which tasks pairs are built of: drawn with a seed, and as many of each kind as of any other.

Queues = dict[str, list[Task]]
"""By kind, the tasks that are left, the next one first."""


def kind_of(task: Task, domain: Domain) -> str:
    """The task's kind by its id; empty where all are of one."""
    found = re.match(domain.kind, task.id) if domain.kind else None
    return found[1] if found else ""


def queues(tasks: Sequence[Task], domain: Domain, seed: int) -> Queues:
    """All tasks in a drawn order, kinds too, the same for the same seed; without the kinds that are left out."""
    drawn, found = Random(seed), defaultdict[str, list[Task]](list)
    by_id = {task.id: task for task in tasks}
    for task_id in drawn.sample(sorted(by_id), len(by_id)):
        if (kind := kind_of(by_id[task_id], domain)) not in domain.without:
            found[kind].append(by_id[task_id])
    return found


def levelled(left: Queues, have: Mapping[str, int], missing: int) -> list[Task]:
    """Take so many tasks off the queues, always of the kind that there are fewest of; fewer where they run out.

    Args:
        left: what there is to take; shortened by what is taken.
        have: by kind, tasks that were taken before and served.
        missing: how many are wanted.
    """
    count, taken = Counter(have), list[Task]()
    while len(taken) < missing and (some := [kind for kind, queue in left.items() if queue]):
        kind = min(some, key=lambda one: count[one])
        count[kind] += 1
        taken.append(left[kind].pop(0))
    return taken


# Work in several processes, of which any may die without costing more than its own piece.

Given = TypeVar("Given")
Outcome = TypeVar("Outcome")


def in_processes(
    work: Callable[[Given], Outcome], given: Sequence[Given], at_once: int
) -> Iterator[tuple[Given, Outcome | None]]:
    """Each piece of work with its outcome, as they come; None where its process died twice.

    Raises whatever `work` raises. No process outlives this one, nor the loop over the outcomes.
    """
    workers = _Workers()
    threads = ThreadPoolExecutor(min(at_once, len(given)) or 1)
    try:
        futures = {threads.submit(workers.done, work, piece): piece for piece in given}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        workers.close()


def _one_thread() -> None:
    """Before torch is there: the threads of several processes would wait for each other more than they work."""
    os.environ["OMP_NUM_THREADS"] = "1"


def _prepared(lifeline: Connection) -> None:
    """In a new process: one thread for the work, one that ends the process with the one that began it."""
    _one_thread()
    threading.Thread(target=_until_cut, args=(lifeline,), daemon=True).start()


def _until_cut(lifeline: Connection) -> None:
    """Wait until nobody holds the other end, which a process that is killed closes too."""
    with suppress(EOFError):
        lifeline.recv()
    os._exit(1)


class _Workers:
    """A process for each thread that asks; a new one where it died. One pool of them all would die with any."""

    def __init__(self) -> None:
        self._own = threading.local()
        self._all: list[tuple[ProcessPoolExecutor, Connection]] = []
        self._closed = False

    def done(self, work: Callable[[Given], Outcome], piece: Given) -> Outcome | None:
        """The outcome; None where the process died, and the next one too, or where all were ended."""
        for _ in range(2):
            if self._closed:
                break
            try:
                return self._executor().submit(work, piece).result()
            except BrokenProcessPool:
                del self._own.executor
        return None

    def close(self) -> None:
        """End the processes; what they are at is lost."""
        self._closed = True
        for executor, lifeline in self._all:
            lifeline.close()
            executor.shutdown(wait=False, cancel_futures=True)

    def _executor(self) -> ProcessPoolExecutor:
        if not hasattr(self._own, "executor"):
            context = get_context("spawn")
            theirs, ours = context.Pipe(duplex=False)
            self._own.executor = ProcessPoolExecutor(1, context, _prepared, (theirs,))
            self._all.append((self._own.executor, ours))
        executor: ProcessPoolExecutor = self._own.executor
        return executor


# Attempts at pairs, in this process or in several: whatever goes wrong with a task is a reason to drop it.

MOST_SECONDS = 120
"""For one task, where it has a process of its own: ALFWorld's planner may need hours and gigabytes for two objects."""

REASON = 160
"""Characters of a reason that are kept."""


class Dropped(Record):
    """A task of which no pair was built."""

    domain: str
    task: str
    reason: str


class Overdue(Exception):
    """A task took too long."""


def attempt(benchmark: str, data: str | None, seed: int, task: Task) -> Pair | Dropped:
    """The task's pair, or why there is none."""
    try:
        return paired(cast(Demonstrated, load_benchmark(benchmark, data)), task, seed)
    except Stopped as stopped:
        return _dropped(benchmark, task, str(stopped))
    except Exception as error:  # noqa: BLE001 - a world is anybody's code: its failure costs one pair, not the rest
        return _dropped(benchmark, task, f"{type(error).__name__}: {error}")


def attempts(
    benchmark: str, data: str | None, seed: int, tasks: Sequence[Task], at_once: int = 1
) -> Iterator[Pair | Dropped]:
    """The outcome of each task, as they come. A simulator may crash or hang: it gets a process of its own."""
    work = partial(attempt, benchmark, data, seed)
    if at_once == 1 and getattr(load_benchmark(benchmark, data), "instant", False):
        yield from map(work, tasks)
        return
    for task, outcome in in_processes(partial(_in_time, work), tasks, at_once):
        yield outcome if outcome is not None else _dropped(benchmark, task, "its process died")


def _in_time(work: Callable[[Task], Pair | Dropped], task: Task) -> Pair | Dropped:
    signal.signal(signal.SIGALRM, _overdue)
    signal.alarm(MOST_SECONDS)
    try:
        return work(task)
    finally:
        signal.alarm(0)


def _overdue(*_: Any) -> None:
    raise Overdue(f"not done after {MOST_SECONDS} s")


def _dropped(benchmark: str, task: Task, reason: str) -> Dropped:
    return Dropped(domain=benchmark, task=task.id, reason=shortened(" ".join(reason.split()), REASON))


# The files of a built dataset: pairs a line, dropped tasks a line, and the counts.

M = TypeVar("M", bound=BaseModel)

COUNTS, DROPPED = "counts.json", "dropped.jsonl"


class Count(Record):
    """What became of a domain."""

    domain: str
    published: int | None
    """Pairs of the paper; None where it has none of that domain."""
    wanted: int = 0
    seed: int
    splits: tuple[str, ...]
    built: int = 0
    kinds: dict[str, int] = Field(default_factory=dict)
    dropped: dict[str, int] = Field(default_factory=dict)
    """Tasks that were tried in vain, by the reason."""
    failed: str = ""
    """What kept the whole domain from being built."""

    @property
    def out(self) -> int:
        """How many tasks were tried in vain."""
        return sum(self.dropped.values())


def pairs_in(folder: Path, domain: str) -> list[Pair]:
    """The pairs that were built."""
    return read_lines(folder / f"{domain}.jsonl", Pair)


def dropped_in(folder: Path, domain: str) -> list[Dropped]:
    """The tasks that were dropped."""
    return [one for one in read_lines(folder / DROPPED, Dropped) if one.domain == domain]


def keep(folder: Path, outcome: Pair | Dropped) -> None:
    """Add a line to the file that it belongs in."""
    name = f"{outcome.domain}.jsonl" if isinstance(outcome, Pair) else DROPPED
    append(folder / name, outcome)


def append(path: Path, line: BaseModel) -> None:
    """Add a line to a file, in one write."""
    with path.open("a", encoding="utf-8") as file:
        file.write(line.model_dump_json() + "\n")


def sort_pairs(folder: Path, domain: str, pairs: Iterable[Pair]) -> None:
    """Write the pairs in an order that does not depend on which came first."""
    with whole_file(folder / f"{domain}.jsonl") as draft:
        lines = (pair.model_dump_json() + "\n" for pair in sorted(pairs, key=lambda pair: pair.task))
        draft.write_text("".join(lines), encoding="utf-8")


def read_counts(folder: Path) -> dict[str, Count]:
    """The counts by domain; none where nothing was built. Raises Fault where the file is none of ours."""
    path = folder / COUNTS
    if not path.is_file():
        return {}
    try:
        found = [Count.model_validate(one) for one in json_value(file_bytes(path, MOST_SETTINGS))]
    except (ValueError, TypeError, ValidationError) as error:
        raise Fault("data", f"{path} is no list of counts: delete it, and build again in that folder") from error
    return {count.domain: count for count in found}


def write_count(folder: Path, count: Count) -> None:
    """Put a domain's count in the place of its last one."""
    counts = {**read_counts(folder), count.domain: count}
    with whole_file(folder / COUNTS) as draft:
        draft.write_text(json.dumps([one.model_dump() for one in counts.values()], indent=1), encoding="utf-8")


def settle(folder: Path, count: Count) -> None:
    """Begin a domain, or make sure that the folder's was begun in the same way.

    Raises:
        Fault: it was begun otherwise; the message says how, and what to do.
    """
    folder.mkdir(parents=True, exist_ok=True)
    there = read_counts(folder).get(count.domain)
    if there is None:
        write_count(folder, count)
        return
    for name in ("seed", "wanted", "splits"):
        if (before := getattr(there, name)) != (now := getattr(count, name)):
            told = f"{folder} holds {count.domain} with {name} {before}, not {now}"
            raise Fault("data", f"{told}: go on with that, or build in another folder")


def reasons(dropped: Sequence[Dropped]) -> dict[str, int]:
    """How often each reason was given, the commonest first."""
    return dict(Counter(one.reason for one in dropped).most_common())


def read_lines(path: Path, model: type[M]) -> list[M]:
    """The lines of a file; one that was cut off is taken away, so that the next one starts a line."""
    if not path.is_file():
        return []
    drop_torn_line(path)
    return [checked(model, row) for row in read_rows(path)]


# `certigraph rewards build`: pairs of a domain, as many as published, in a folder that can be gone on with.

PairOutcome = Pair | Dropped

Told = Callable[[Count], None]
"""Called after each attempt with the domain's count so far."""


class Asked(NamedTuple):
    """What is to be built of a domain."""

    domain: str
    seed: int = 0
    pairs: int = 0
    """0: as many as published; of a domain that is not, as there are tasks."""
    splits: tuple[str, ...] = ()
    """None: those that the paper drew from, as near as the benchmark has them."""
    data: str | None = None


def build(asked: Asked, folder: Path, *, at_once: int = 1, told: Told | None = None) -> Count:
    """Build what is left of a domain. Of the same tasks and seed the same file comes out, whatever interrupted it.

    A benchmark that lacks its data has a count that says so: it does not keep other domains from being built.

    Raises:
        UnknownName: no such benchmark or split, or one that shows no demonstrations.
        Fault: the folder was begun otherwise.
    """
    domain = _domain(asked)
    count = Count(domain=asked.domain, seed=asked.seed, splits=domain.splits, published=_published(asked))
    try:
        tasks = _tasks(asked, domain)
    except Fault as fault:
        return count.model_copy(update={"failed": str(fault)})
    count = count.model_copy(update={"wanted": asked.pairs or domain.pairs or len(tasks)})
    settle(folder, count)
    found: list[PairOutcome] = []
    kinds = {task.id: kind_of(task, domain) for task in tasks}
    for outcome in _outcomes(asked, folder, queues(tasks, domain, asked.seed), kinds, count.wanted, at_once):
        found.append(outcome)
        count = _counted(count, found, kinds)
        if told:
            told(count)
    sort_pairs(folder, asked.domain, _pairs(found))
    write_count(folder, count)
    return count


def _outcomes(
    asked: Asked, folder: Path, left: dict[str, list[Task]], kinds: dict[str, str], wanted: int, at_once: int
) -> Iterator[PairOutcome]:
    """As many tasks as are wanted, then as many as were dropped, until there are enough pairs or no more tasks.

    What the folder has of them is not built again.
    """
    known: dict[str, PairOutcome] = {pair.task: pair for pair in pairs_in(folder, asked.domain)}
    known |= {one.task: one for one in dropped_in(folder, asked.domain)}
    have = Counter[str]()
    while batch := levelled(left, have, wanted - have.total()):
        new = [task for task in batch if task.id not in known]
        for outcome in attempts(asked.domain, asked.data, asked.seed, new, at_once):
            keep(folder, outcome)
            known[outcome.task] = outcome
            yield outcome
        yield from (known[task.id] for task in batch if task not in new)
        have.update(kinds[task.id] for task in batch if isinstance(known[task.id], Pair))


def _domain(asked: Asked) -> Domain:
    known = PUBLISHED.get(asked.domain, Domain(0))
    return known._replace(splits=asked.splits or known.splits)


def _published(asked: Asked) -> int | None:
    known = PUBLISHED.get(asked.domain)
    return known.pairs if known else None


def _tasks(asked: Asked, domain: Domain) -> list[Task]:
    benchmark = load_benchmark(asked.domain, asked.data)
    usable(benchmark)
    if not hasattr(benchmark, "demonstration"):
        raise UnknownName(
            f"{asked.domain} shows no demonstrations, of which pairs are built; {', '.join(PUBLISHED)} do"
        )
    return [task for split in domain.splits for task in benchmark.tasks(split)]


def _counted(count: Count, found: Sequence[PairOutcome], kinds: dict[str, str]) -> Count:
    built = _pairs(found)
    spread = dict(sorted(Counter(kinds[pair.task] for pair in built).items()))
    dropped = reasons([one for one in found if isinstance(one, Dropped)])
    return count.model_copy(update={"built": len(built), "kinds": spread, "dropped": dropped})


def _pairs(found: Sequence[PairOutcome]) -> list[Pair]:
    return [one for one in found if isinstance(one, Pair)]


def chosen_domains(names: Sequence[str]) -> tuple[str, ...]:
    """The domains that are asked for, each once; all published ones where none is."""
    return tuple(dict.fromkeys(names)) or tuple(PUBLISHED)


# What a long command says while it goes on: a bar in a terminal, else a line now and then, with a forecast.

OFTEN = 20.0
"""Seconds between two lines where there is no terminal."""


class Teller:
    """Counts what is done; lines go where the bar does not, to standard error."""

    def __init__(self, name: str, total: int, console: Console, progress: Progress) -> None:
        self.name, self.total, self.console, self.progress = name, total, console, progress
        self.bar = progress.add_task(name, total=total)
        self.began = self.told = time.monotonic()
        self.first: int | None = None

    def __call__(self, done: int, more: str = "") -> None:
        """So many of all are done now; `more` is said beside it."""
        first = self.first = done - 1 if self.first is None else self.first  # what an earlier start did took no time
        self.progress.update(self.bar, completed=done)
        now = time.monotonic()
        if done < self.total and (self.console.is_terminal or now - self.told < OFTEN):
            return
        self.told = now
        pace = (now - self.began) / max(1, done - first)
        left = spoken(pace * (self.total - done)) if done < self.total else f"{now - self.began:.0f} s"
        self.console.print(" · ".join(filter(None, (f"{self.name}: {done} of {self.total}", more, left))), markup=False)


@contextmanager
def telling(name: str, total: int, *, silent: bool = False) -> Iterator[Teller]:
    """A teller of `total` things to do."""
    console = Console(stderr=True, highlight=False, soft_wrap=True, quiet=silent)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True, disable=silent or not console.is_terminal) as progress:
        yield Teller(name, total, console, progress)


# What `certigraph rewards build` does between its options and its table.

MOST_REASONS = 2
"""Reasons of a domain that are printed; counts.json has all."""

MOST_LETTERS = 72
"""Of a reason that are printed."""

MOST_KINDS = 8
"""Kinds that are named; ScienceWorld has 28."""


def build_all(asked: Sequence[Asked], folder: Path, *, at_once: int, as_json: bool) -> int:
    """Build domain after domain and print the counts; exit status 1 where a domain has fewer pairs than wanted.

    Raises:
        Interrupted: by Ctrl-C; the message is the command that goes on.
        UnknownName, Fault: as `build` does.
    """
    try:
        counts = [_built(one, folder, at_once=at_once, silent=as_json) for one in asked]
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; go on with: {command_of(asked, folder)}") from None
    if as_json:
        typer.echo(json.dumps([count.model_dump() for count in counts]))
    else:
        print_counts(counts)
    return 1 if any(count.failed or count.built < count.wanted for count in counts) else 0


def command_of(asked: Sequence[Asked], folder: Path) -> str:
    """The command that builds the same: with another seed, split or number of pairs the folder would refuse it."""
    first = asked[0]
    words = ["certigraph", "rewards", "build", str(folder), *(f"--domain={one.domain}" for one in asked)]
    words += [f"--split={split}" for split in first.splits]
    words += [f"--pairs={first.pairs}"] * bool(first.pairs) + [f"--seed={first.seed}"] * bool(first.seed)
    return shlex.join([*words, *([f"--data={first.data}"] if first.data else [])])


def count_cells(count: Count) -> tuple[str, ...]:
    """A line of the table of counts: domain, published, wanted, built, kinds, dropped and why."""
    named = [f"{kind} {n}" for kind, n in count.kinds.items() if kind]
    kinds = ", ".join(named) if len(named) <= MOST_KINDS else f"{len(named)} kinds"
    why = [f"{clipped(reason, MOST_LETTERS)} ({n})" for reason, n in count.dropped.items()]
    more = [f"and {counted(len(why) - MOST_REASONS, 'more reason')}"] if len(why) > MOST_REASONS else []
    told = count.failed or "; ".join([*why[:MOST_REASONS], *more])
    published = "none" if count.published is None else str(count.published)
    return count.domain, published, str(count.wanted), str(count.built), kinds, str(count.out), told


BUILD_COUNTS = ("domain", "published", "wanted", "built", "by kind", "dropped", "why")


def print_counts(counts: Sequence[Count]) -> None:
    """The counts as a table."""
    table = Table(*BUILD_COUNTS, box=None)
    for count in counts:
        table.add_row(*map(escape, count_cells(count)))
    Console(highlight=False).print(table, markup=False)


def _built(asked: Asked, folder: Path, *, at_once: int, silent: bool) -> Count:
    with telling(asked.domain, asked.pairs, silent=silent) as teller:

        def told(count: Count) -> None:
            teller.total = count.wanted
            teller(count.built, f"{count.out} dropped")

        return build(asked, folder, at_once=at_once, told=told)
