"""Work in several processes, of which any may die without costing more than its own piece."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import TypeVar

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
