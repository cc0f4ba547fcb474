"""What holds of every reader: nothing but its documented errors comes out, and soon."""

import os
import time
import warnings

from fuzzing.target import Target

SLOW = 1.0
"""Seconds of this thread that 100 kB may take; shorter inputs as well, for a few bytes must not cost more."""

UNIT = 100_000


class FindingError(AssertionError):
    """A reader did what it must not do; the message has the input."""


def check(target: Target, data: bytes, *, patience: float = 1.0) -> None:
    """Read once. Raises FindingError for another error than the documented ones, or for taking too long.

    Args:
        target: the reader.
        data: what it reads.
        patience: how many times as long it may take, for a reader that is watched by a fuzzer.
    """
    began = time.thread_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.read(data)
    except target.errors:
        pass
    except Exception as error:
        raise FindingError(f"{target.name} raised {type(error).__name__}: {error!s:.200}{_input(data)}") from error
    taken, allowed = time.thread_time() - began, SLOW * max(1.0, len(data) / UNIT) * patience
    if taken > allowed:
        raise FindingError(f"{target.name} took {taken:.1f} s, {allowed:.1f} are allowed{_input(data)}")


def _input(data: bytes) -> str:
    shown = repr(data) if len(data) <= 2_000 else f"{data[:1_000]!r} ... {data[-500:]!r} ({len(data)} bytes)"
    return (
        f"\ninput{' of ' + os.environ['PYTEST_CURRENT_TEST'] if 'PYTEST_CURRENT_TEST' in os.environ else ''}: {shown}"
    )
