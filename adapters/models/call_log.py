"""Where a model call is recorded before its request is sent, so that a process that is killed leaves it on record."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from certigraph.state.trajectory import CallBegun

CallLog = Callable[[CallBegun], int]
"""Records a call that begins and returns its id. Raises LimitReached where the run has no call left."""

_LOG: ContextVar[CallLog | None] = ContextVar("certigraph_call_log", default=None)


@contextmanager
def logged_by(log: CallLog) -> Iterator[None]:
    """Have `log` record every call that begins inside the block, in graphs inside nodes and in threads as well."""
    token = _LOG.set(log)
    try:
        yield
    finally:
        _LOG.reset(token)


def begin_call(call: CallBegun) -> int:
    """The id under which a call that begins is recorded; 0 where no run is recorded.

    Raises:
        LimitReached: the calls of all parts of the run together, those lost in a crash included, use up its budget.
    """
    log = _LOG.get()
    return log(call) if log else 0
