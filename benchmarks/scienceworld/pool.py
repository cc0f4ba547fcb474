"""Bounded pool of this process's ScienceWorld simulators, and the goals of tasks cached on disk."""

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from certigraph.adapters.episodes import current_run
from certigraph.adapters.files import cache_folder, replace_file
from certigraph.adapters.processes import raise_if_cancelled
from certigraph.benchmarks.scienceworld.simulator import VERSION, JavaSimulator
from certigraph.state.endings import Fault

# Starting a JVM takes longer than most short episodes, so a returned simulator is kept for some seconds. If all are in
# use, the next borrower waits in a queue. A world that has not used its simulator for a while may lose it to a waiting
# run; it replays its actions in another simulator when it is used again.

LIMIT_VARIABLE = "CERTIGRAPH_SIMULATORS"
"""Environment variable: maximum number of simulators in one process."""

SIMULATOR_MEMORY = 512 * 1024**2
"""Maximum heap of a simulator in bytes; it starts with about 200 MB and grows from episode to episode."""

LINGER_SECONDS = 3.0
"""Seconds for which a free simulator is kept for the next episode."""

IDLE_SECONDS = 60.0
"""Seconds after which an unused world loses its simulator, for example while a graph waits for a person's answer."""

PATIENCE_SECONDS = 10.0
"""Seconds. A waiting run takes over the simulator of another run once the time that it has waited, plus the time for
which the other run has not used the simulator, exceed this."""

MIN_UNUSED_SECONDS = 0.5
"""Seconds without a call before another run may take over a simulator; shorter pauses occur between two steps."""

MAX_WAIT_SECONDS = 600.0
"""Seconds after which a waiting borrower fails."""


def simulator_limit() -> int:
    """Return the maximum number of simulators: CERTIGRAPH_SIMULATORS, else 8, or as many as fit into half the memory.

    Raises:
        Fault: ("environment") the variable is not a positive integer.
    """
    value = os.environ.get(LIMIT_VARIABLE, "")
    if not value:
        return max(1, min(8, _physical_memory() // 2 // SIMULATOR_MEMORY))
    if not (value.isascii() and value.isdigit() and int(value) > 0):
        raise Fault(
            "environment",
            f"{LIMIT_VARIABLE}={value!r} is not a positive integer: export {LIMIT_VARIABLE}=8, or unset it",
        )
    return int(value)


class SimulatorHolder(Protocol):
    """Protocol of a world that has borrowed a simulator and can give it up."""

    run: object
    """Run that the world belongs to; None outside of runs."""
    last_used: float
    """Time of the last use of its simulator, in seconds of the monotonic clock."""

    def suspend(self) -> JavaSimulator | None:
        """Give up the simulator and return it; None while it is in use.

        When the world is used again, it replays its actions in another simulator.
        """
        ...


class SimulatorPool:
    """Thread-safe pool of simulators.

    Args:
        start: Function that starts a simulator.
        max_free: Maximum number of free simulators to keep; further returned ones are closed.
        limit: Maximum number of running simulators; None: `simulator_limit`.
        linger: Seconds for which a free simulator is kept.
        idle: Seconds after which an unused world loses its simulator; None: never.
        patience: See `PATIENCE_SECONDS`.
        wait: Seconds after which a waiting borrower fails.
    """

    def __init__(
        self,
        start: Callable[[], JavaSimulator] = JavaSimulator,
        max_free: int | None = None,
        *,
        limit: int | None = None,
        linger: float = LINGER_SECONDS,
        idle: float | None = IDLE_SECONDS,
        patience: float = PATIENCE_SECONDS,
        wait: float = MAX_WAIT_SECONDS,
    ) -> None:
        self._start = start
        self._max_free = max_free if max_free is not None else os.cpu_count() or 1
        self._limit, self._linger, self._idle, self._patience, self._wait = limit, linger, idle, patience, wait
        self._free: list[tuple[JavaSimulator, float]] = []
        self._lent: dict[JavaSimulator, SimulatorHolder | None] = {}
        self._starting = 0
        self._queue: list[object] = []
        self._changed = threading.Condition()
        self._watched = self._closes_at_exit = False

    def borrow(self, holder: SimulatorHolder | None = None) -> JavaSimulator:
        """Borrow a simulator for exclusive use, to be returned with `give_back`. Waits while the limit is reached.

        Args:
            holder: World that borrows it, if it can be suspended.

        Raises:
            Fault: ("environment") a simulator cannot be started (see `JavaSimulator`), or none became free in time; the
                message then says which setting to change.
            CancelledError: the caller was cancelled.
        """
        simulator = self._wait_for_turn(holder)
        if simulator is None:
            try:
                simulator = self._start()
            finally:
                with self._changed:
                    self._starting -= 1
                    if simulator is not None:
                        self._lend(simulator, holder)
                    self._changed.notify_all()
        return simulator

    def give_back(self, simulator: JavaSimulator) -> None:
        """Return a simulator to the pool; a broken one is closed."""
        with self._changed:
            if simulator.alive and len(self._free) < self._max_free:
                self._lent.pop(simulator, None)
                self._free.append((simulator, time.monotonic()))
                self._watch()
                self._changed.notify_all()
                return
        self._close_one(simulator)

    @contextmanager
    def lend(self) -> Iterator[JavaSimulator]:
        """Borrow a simulator for the duration of a `with` block."""
        simulator = self.borrow()
        try:
            yield simulator
        finally:
            self.give_back(simulator)

    def close(self) -> None:
        """Close the free simulators. Borrowed ones end with the process, or some seconds after their return."""
        with self._changed:
            free, self._free = self._free, []
        for simulator, _ in free:
            simulator.close()

    def _wait_for_turn(self, holder: SimulatorHolder | None) -> JavaSimulator | None:
        # Waits in the queue. Returns a running simulator, or None if the caller may start one.
        limit, run = self._limit or simulator_limit(), current_run()
        started, ticket = time.monotonic(), object()
        with self._changed:
            self._close_at_exit()
            self._queue.append(ticket)
            try:
                while True:
                    raise_if_cancelled()
                    waited = time.monotonic() - started
                    if self._queue[0] is ticket:
                        if simulator := self._take_free() or self._take_over(run, waited, limit):
                            self._lend(simulator, holder)
                            return simulator
                        if self._running() < limit:
                            self._starting += 1
                            return None
                    if waited > self._wait:
                        raise Fault("environment", _format_timeout(waited, limit))
                    self._changed.wait(0.2)
            finally:
                self._queue.remove(ticket)
                self._changed.notify_all()

    def _take_free(self) -> JavaSimulator | None:
        while self._free:
            simulator, _ = self._free.pop()
            if simulator.alive:
                return simulator
            simulator.close()
        return None

    def _take_over(self, run: object, waited: float, limit: int) -> JavaSimulator | None:
        # At the limit: take over a simulator from a world, the longest unused first.
        if self._running() < limit:
            return None
        now = time.monotonic()
        for holder in sorted(filter(None, self._lent.values()), key=lambda holder: holder.last_used):
            unused = now - holder.last_used
            due = unused >= MIN_UNUSED_SECONDS and unused + waited >= self._patience
            if (due or (run is not None and holder.run is run)) and (simulator := holder.suspend()):
                if simulator.alive:
                    return simulator
                del self._lent[simulator]
                simulator.close()
                return None
        return None

    def _running(self) -> int:
        return len(self._free) + len(self._lent) + self._starting

    def _lend(self, simulator: JavaSimulator, holder: SimulatorHolder | None) -> None:
        self._lent[simulator] = holder
        self._watch()

    def _close_one(self, simulator: JavaSimulator) -> None:
        # A simulator counts as running until it is closed.
        with self._changed:
            self._lent[simulator] = None
        try:
            simulator.close()
        finally:
            with self._changed:
                del self._lent[simulator]
                self._changed.notify_all()

    def _watch(self) -> None:
        # Starts the thread that closes idle simulators, if it does not run and there is something to watch.
        if not self._watched and self._deadlines():
            self._watched = True
            threading.Thread(target=self._close_idle, name="certigraph-simulators", daemon=True).start()

    def _deadlines(self) -> list[float]:
        # Times at which simulators expire if they are not used before.
        free = [since + self._linger for _, since in self._free]
        held = [holder.last_used + self._idle for holder in self._lent.values() if holder] if self._idle else []
        return free + held

    def _close_idle(self) -> None:
        while True:
            with self._changed:
                deadlines = self._deadlines()
                if not deadlines:
                    self._watched = False
                    return
                now = time.monotonic()
                if min(deadlines) > now:
                    self._changed.wait(min(deadlines) - now)
                    continue
                expired = self._expired(now)
                if not expired:  # the expired world is in the middle of a long call
                    self._changed.wait(0.5)
            for simulator in expired:
                self._close_one(simulator)

    def _expired(self, now: float) -> list[JavaSimulator]:
        expired = [simulator for simulator, since in self._free if since + self._linger <= now]
        self._free = [(simulator, since) for simulator, since in self._free if since + self._linger > now]
        self._lent.update(dict.fromkeys(expired))
        for holder in list(filter(None, self._lent.values())):
            if self._idle and holder.last_used + self._idle <= now and (simulator := holder.suspend()):
                expired.append(simulator)
        return expired

    def _close_at_exit(self) -> None:
        if not self._closes_at_exit:
            self._closes_at_exit = True
            atexit.register(self.close)


def _format_timeout(waited: float, limit: int) -> str:
    return (
        f"no ScienceWorld simulator came free in {waited:.0f} s: {limit} run at once and all are in use; allow more, "
        f"up to 600 MB each: export {LIMIT_VARIABLE}={2 * limit}; or run fewer tasks at once (--max-samples)"
    )


def _physical_memory() -> int:
    # Physical memory in bytes; if the system does not report it, enough for two simulators.
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 4 * SIMULATOR_MEMORY


DEFAULT_POOL = SimulatorPool()
"""Pool of this process. No JVM is started before the first episode."""


# Texts of tasks. Only the simulator knows them, so each is queried once and cached on disk.


def load_goal(task: str, variation: int, simplification: str, pool: SimulatorPool = DEFAULT_POOL) -> str:
    """Return the goal of a variation ("Your task is to ..."); the first query starts the simulator, about a second.

    Raises:
        Fault: ("environment") the goal is not cached and the simulator does not start.
    """
    name = f"{task}-{variation}{'-' if simplification else ''}{simplification.replace(',', '-')}.txt"
    path = cache_folder() / f"scienceworld-{VERSION}" / name
    if path.is_file():
        return path.read_text(encoding="utf-8")
    with pool.lend() as simulator:
        simulator.load(task, variation, simplification)
        goal = simulator.description()
    with replace_file(path) as unfinished:
        unfinished.write_text(goal, encoding="utf-8")
    return goal
