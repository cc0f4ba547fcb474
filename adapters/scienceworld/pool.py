"""Running simulators, lent to one episode at a time: starting a JVM takes longer than most short episodes."""

import atexit
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from certigraph.adapters.scienceworld.java import JavaSimulator
from certigraph.adapters.scienceworld.simulator import Simulator


class Pool:
    """Simulators that wait for their next episode. Any number of threads may borrow and give back.

    Args:
        start: makes one more.
        most: how many may wait; what comes back beyond them is closed.
    """

    def __init__(self, start: Callable[[], Simulator] = JavaSimulator, most: int | None = None) -> None:
        self._start = start
        self._most = most if most is not None else os.cpu_count() or 1
        self._idle: list[Simulator] = []
        self._lock = threading.Lock()
        self._closes_at_exit = False

    def borrow(self) -> Simulator:
        """A simulator of one's own; a new one where none waits alive. Raises Fault as `JavaSimulator` does."""
        with self._lock:
            self._close_at_exit()
            while self._idle:
                simulator = self._idle.pop()
                if simulator.alive:
                    return simulator
                simulator.close()
        return self._start()

    def give_back(self, simulator: Simulator) -> None:
        """Let the next one have it; a broken one is closed."""
        with self._lock:
            if simulator.alive and len(self._idle) < self._most:
                self._idle.append(simulator)
                return
        simulator.close()

    @contextmanager
    def lend(self) -> Iterator[Simulator]:
        """A simulator for the length of a block."""
        simulator = self.borrow()
        try:
            yield simulator
        finally:
            self.give_back(simulator)

    def close(self) -> None:
        """Close those that wait. Those lent out end with the process, or when they come back and are too many."""
        with self._lock:
            idle, self._idle = self._idle, []
        for simulator in idle:
            simulator.close()

    def _close_at_exit(self) -> None:
        if not self._closes_at_exit:
            self._closes_at_exit = True
            atexit.register(self.close)


POOL = Pool()
"""The process's own. No JVM runs before the first episode."""
