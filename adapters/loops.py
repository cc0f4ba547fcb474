"""Where coroutines and blocking calls run: a graph serves `invoke` and `ainvoke` and never holds up a server."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from synchronous code: on the thread's own loop, or, where one runs already, in a new thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _on_own_loop(coroutine)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, asyncio.run, coroutine).result()


def wait_for_node(coroutine: Coroutine[Any, Any, T]) -> T:
    """The same for a node of a graph that was invoked and not awaited; the node may ask with `invoked`."""
    token = _INVOKED.set(True)
    try:
        return wait_for(coroutine)
    finally:
        _INVOKED.reset(token)


def invoked() -> bool:
    """Whether the node that is running is of a graph that was invoked: its saver may have no async methods."""
    return _INVOKED.get()


async def off_loop(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do blocking work without holding up the event loop: in a worker thread where others may be waiting on it."""
    return await _off_loop(None, call, *args, **kwargs)


async def off_loop_waiting(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """The same for work that may wait for other work: its threads are its own, so that what it waits for finds one."""
    return await _off_loop(_WAITING, call, *args, **kwargs)


def raise_if_cancelled() -> None:
    """Raise CancelledError in the worker thread of an `off_loop` that was cancelled: nobody awaits its result."""
    cancelled = _CANCELLED.get()
    if cancelled is not None and cancelled.is_set():
        raise asyncio.CancelledError


async def _off_loop(pool: ThreadPoolExecutor | None, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    loop = asyncio.get_running_loop()
    if loop is getattr(_OF_THREAD, "loop", None):
        return call(*args, **kwargs)
    cancelled, context = threading.Event(), copy_context()
    context.run(_CANCELLED.set, cancelled)
    try:
        return await loop.run_in_executor(pool, partial(context.run, call, *args, **kwargs))
    except asyncio.CancelledError:
        cancelled.set()
        raise


_CANCELLED: ContextVar[threading.Event | None] = ContextVar("certigraph_cancelled", default=None)

_WAITING = ThreadPoolExecutor(64, thread_name_prefix="certigraph-waiting")

_OF_THREAD = threading.local()

_INVOKED: ContextVar[bool] = ContextVar("certigraph_invoked", default=False)


def _loop_of_thread() -> asyncio.AbstractEventLoop:
    # Kept for the thread's next call: opening a loop costs as much as a whole superstep.
    if not hasattr(_OF_THREAD, "loop"):
        _OF_THREAD.loop = asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = _OF_THREAD.loop
    return loop


def _on_own_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    loop = _loop_of_thread()
    try:
        return loop.run_until_complete(coroutine)
    except BaseException:
        # Interrupted, the work must not go on when the loop next runs.
        if unfinished := asyncio.all_tasks(loop):
            for task in unfinished:
                task.cancel()
            loop.run_until_complete(asyncio.wait(unfinished))
        raise
