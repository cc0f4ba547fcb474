"""What happens when two make one thing at once, and when one is killed while it makes it."""

import os
import signal
from collections.abc import Callable
from multiprocessing import get_context
from threading import Barrier, Thread
from typing import TypeVar

T = TypeVar("T")


def make_in_two_threads(make: Callable[[Callable[[], int]], T]) -> list[T]:
    """What two threads make; each is given what waits for the other, to be called halfway."""
    halfway, made = Barrier(2, timeout=10), list[T]()
    threads = [Thread(target=lambda: made.append(make(halfway.wait))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return made


def exit_code_when_killed(make: Callable[[Callable[[], None]], object]) -> int:
    """The exit code of a process that makes something; it is given what kills it, to be called halfway."""
    process = get_context("fork").Process(target=make, args=(lambda: os.kill(os.getpid(), signal.SIGKILL),))  # type: ignore[attr-defined]
    process.start()
    process.join(10)
    assert process.exitcode is not None
    return process.exitcode
