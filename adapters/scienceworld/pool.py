"""The simulators of this process: a bounded pool, lent to one world at a time."""

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from certigraph.adapters.episodes import current_run
from certigraph.adapters.files import cache_folder, whole_file
from certigraph.adapters.processes import raise_if_cancelled
from certigraph.adapters.scienceworld.simulator import VERSION, JavaSimulator, Simulator
from certigraph.state.records import Fault

# The simulators of this process: at most so many at once, lent to one world at a time, and closed when idle.
#
# Starting a JVM takes longer than most short episodes, so that one that comes back is kept for a few seconds. Where
# all are lent, the next borrower waits in a queue. A world that has not used its simulator for a while may lose it to
# those who wait: it replays its actions in another one when it is used again.

VARIABLE = "CERTIGRAPH_SIMULATORS"
"""The setting: how many simulators may run at once in one process."""

MEMORY = 512 * 1024**2
"""Bytes of a simulator's largest heap; it begins with about 200 MB and takes more from episode to episode."""

LINGER = 3.0
"""Seconds for which a simulator that nobody has is kept for the next episode."""

IDLE = 60.0
"""Seconds after which a world that is not used loses its simulator, as of a graph that waits for a person's answer."""

PATIENCE = 10.0
"""A waiting run takes the simulator of another one when the seconds waited and those unused are together so many."""

UNUSED = 0.5
"""Seconds without a call before another run may take a simulator: less is the time between two steps."""

WAIT = 600.0
"""Seconds after which a borrower gives up."""


def simulator_limit() -> int:
    """How many simulators may run at once: CERTIGRAPH_SIMULATORS, else 8, or as many as half of the memory holds.

    Raises:
        Fault: ("environment") the variable is no whole number from 1 on.
    """
    given = os.environ.get(VARIABLE, "")
    if not given:
        return max(1, min(8, _memory() // 2 // MEMORY))
    if not (given.isascii() and given.isdigit() and int(given) > 0):
        raise Fault(
            "environment", f"{VARIABLE}={given!r} is no whole number from 1 on: export {VARIABLE}=8, or unset it"
        )
    return int(given)


class Holder(Protocol):
    """A world that has a simulator."""

    run: object
    """The run that it belongs to; None outside of runs."""
    used: float
    """When it last used its simulator, in seconds of the monotonic clock."""

    def suspend(self) -> Simulator | None:
        """Hand over the simulator, to replay in another one when it is used again; None while it is in use."""
        ...


class Pool:
    """Simulators for any number of threads.

    Args:
        start: makes one more.
        most: how many may be kept without a borrower; what comes back beyond them is closed.
        limit: how many may run at once; None: `simulator_limit`.
        linger: seconds for which one is kept.
        idle: seconds after which a world that is not used loses its own; None: never.
        patience: see PATIENCE.
        wait: seconds after which a borrower gives up.
    """

    def __init__(
        self,
        start: Callable[[], Simulator] = JavaSimulator,
        most: int | None = None,
        *,
        limit: int | None = None,
        linger: float = LINGER,
        idle: float | None = IDLE,
        patience: float = PATIENCE,
        wait: float = WAIT,
    ) -> None:
        self._start = start
        self._most = most if most is not None else os.cpu_count() or 1
        self._limit, self._linger, self._idle, self._patience, self._wait = limit, linger, idle, patience, wait
        self._free: list[tuple[Simulator, float]] = []
        self._lent: dict[Simulator, Holder | None] = {}
        self._starting = 0
        self._queue: list[object] = []
        self._changed = threading.Condition()
        self._tended = self._closes_at_exit = False

    def borrow(self, holder: Holder | None = None) -> Simulator:
        """A simulator of one's own, which is given back with `give_back`. Waits where as many run as may.

        Args:
            holder: who has it, if it can be suspended.

        Raises:
            Fault: ("environment") as `JavaSimulator`; or none came free in time: says what to set.
            CancelledError: the caller was cancelled.
        """
        simulator = self._turn(holder)
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

    def give_back(self, simulator: Simulator) -> None:
        """Let the next one have it; a broken one is closed."""
        with self._changed:
            if simulator.alive and len(self._free) < self._most:
                self._lent.pop(simulator, None)
                self._free.append((simulator, time.monotonic()))
                self._tend()
                self._changed.notify_all()
                return
        self._end(simulator)

    @contextmanager
    def lend(self) -> Iterator[Simulator]:
        """A simulator for the length of a block."""
        simulator = self.borrow()
        try:
            yield simulator
        finally:
            self.give_back(simulator)

    def close(self) -> None:
        """Close those that nobody has. Those lent out end with the process, or some seconds after they come back."""
        with self._changed:
            free, self._free = self._free, []
        for simulator, _ in free:
            simulator.close()

    def _turn(self, holder: Holder | None) -> Simulator | None:
        """Wait for one's turn in the queue: a simulator that runs, or None where one more may be started."""
        limit, run = self._limit or simulator_limit(), current_run()
        began, ticket = time.monotonic(), object()
        with self._changed:
            self._close_at_exit()
            self._queue.append(ticket)
            try:
                while True:
                    raise_if_cancelled()
                    waited = time.monotonic() - began
                    if self._queue[0] is ticket:
                        if simulator := self._unused() or self._taken(run, waited, limit):
                            self._lend(simulator, holder)
                            return simulator
                        if self._running() < limit:
                            self._starting += 1
                            return None
                    if waited > self._wait:
                        raise Fault("environment", _too_long(waited, limit))
                    self._changed.wait(0.2)
            finally:
                self._queue.remove(ticket)
                self._changed.notify_all()

    def _unused(self) -> Simulator | None:
        """One that nobody has."""
        while self._free:
            simulator, _ = self._free.pop()
            if simulator.alive:
                return simulator
            simulator.close()
        return None

    def _taken(self, run: object, waited: float, limit: int) -> Simulator | None:
        """Where no more may be started: one that its world, the longest unused first, can do without."""
        if self._running() < limit:
            return None
        now = time.monotonic()
        for holder in sorted(filter(None, self._lent.values()), key=lambda holder: holder.used):
            unused = now - holder.used
            due = unused >= UNUSED and unused + waited >= self._patience
            if (due or (run is not None and holder.run is run)) and (simulator := holder.suspend()):
                if simulator.alive:
                    return simulator
                del self._lent[simulator]
                simulator.close()
                return None
        return None

    def _running(self) -> int:
        return len(self._free) + len(self._lent) + self._starting

    def _lend(self, simulator: Simulator, holder: Holder | None) -> None:
        self._lent[simulator] = holder
        self._tend()

    def _end(self, simulator: Simulator) -> None:
        """Close a simulator, which counts until it is gone."""
        with self._changed:
            self._lent[simulator] = None
        try:
            simulator.close()
        finally:
            with self._changed:
                del self._lent[simulator]
                self._changed.notify_all()

    def _tend(self) -> None:
        """Have a thread close what is idle, as long as there is something that may become idle."""
        if not self._tended and self._deadlines():
            self._tended = True
            threading.Thread(target=self._close_idle, name="certigraph-simulators", daemon=True).start()

    def _deadlines(self) -> list[float]:
        """When those that run now will have been idle for too long, unless they are used before."""
        free = [since + self._linger for _, since in self._free]
        held = [holder.used + self._idle for holder in self._lent.values() if holder] if self._idle else []
        return free + held

    def _close_idle(self) -> None:
        while True:
            with self._changed:
                deadlines = self._deadlines()
                if not deadlines:
                    self._tended = False
                    return
                now = time.monotonic()
                if min(deadlines) > now:
                    self._changed.wait(min(deadlines) - now)
                    continue
                over = self._expired(now)
                if not over:  # a world that is in the middle of a long call
                    self._changed.wait(0.5)
            for simulator in over:
                self._end(simulator)

    def _expired(self, now: float) -> list[Simulator]:
        over = [simulator for simulator, since in self._free if since + self._linger <= now]
        self._free = [(simulator, since) for simulator, since in self._free if since + self._linger > now]
        self._lent.update(dict.fromkeys(over))
        for holder in list(filter(None, self._lent.values())):
            if self._idle and holder.used + self._idle <= now and (simulator := holder.suspend()):
                over.append(simulator)
        return over

    def _close_at_exit(self) -> None:
        if not self._closes_at_exit:
            self._closes_at_exit = True
            atexit.register(self.close)


def _too_long(waited: float, limit: int) -> str:
    return (
        f"no ScienceWorld simulator came free in {waited:.0f} s: {limit} run at once and all are in use; allow more, "
        f"up to 600 MB each: export {VARIABLE}={2 * limit}; or run fewer tasks at once (--max-samples)"
    )


def _memory() -> int:
    """Bytes of physical memory; where the system does not tell, enough for two simulators."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 4 * MEMORY


POOL = Pool()
"""The process's own. No JVM runs before the first episode."""


# The tasks in words. Only the simulator knows them, so each is asked for once and then kept on disk.


def describe(task: str, variation: int, simplification: str, pool: Pool = POOL) -> str:
    """The goal of a variation ("Your task is to ..."); the first time from the simulator, about a second.

    Raises:
        Fault: ("environment") it is not on disk yet and the simulator does not start.
    """
    name = f"{task}-{variation}{'-' if simplification else ''}{simplification.replace(',', '-')}.txt"
    path = cache_folder() / f"scienceworld-{VERSION}" / name
    if path.is_file():
        return path.read_text(encoding="utf-8")
    with pool.lend() as simulator:
        simulator.load(task, variation, simplification)
        goal = simulator.description()
    with whole_file(path) as unfinished:
        unfinished.write_text(goal, encoding="utf-8")
    return goal
