"""Threads, event loops, context variables, locks and child processes."""

import asyncio
import inspect
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar, Token, copy_context
from functools import cache, partial
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import finalize

# Where coroutines and blocking calls run: a graph serves `invoke` and `ainvoke` without blocking an event loop.

P = ParamSpec("P")
T = TypeVar("T")


class Setting(Generic[T]):
    """Context manager that sets a context variable in its block, and returns the value.

    It takes a third of the time of one that `contextmanager` makes, of which every node enters several.
    """

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[Any], value: T) -> None:
        self._variable, self._value = variable, value
        self._token: Token[Any]

    def __enter__(self) -> T:
        self._token = self._variable.set(self._value)
        return self._value

    def __exit__(self, *_: object) -> None:
        self._variable.reset(self._token)


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from synchronous code: on the thread's own loop, or in a new thread if a loop is running here."""
    with own_loop():
        if not is_loop_running():
            return _run_on_thread_loop(coroutine)
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(copy_context().run, asyncio.run, coroutine).result()


def is_loop_running() -> bool:
    """Return whether an event loop runs in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def own_loop() -> Setting[bool]:
    """Mark the event loop that is started inside as one of ours, which serves a synchronous call (`is_own_loop`)."""
    return Setting(_OWN_LOOP, True)


def is_own_loop() -> bool:
    """Return whether the event loop serves a synchronous call, so that the next call may run on another one.

    Clients whose connections belong to an event loop must not be used on such a loop.
    """
    return _OWN_LOOP.get()


def wait_for_node(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as `wait_for` does, for a node of an invoked graph; inside it `is_invoked()` is true."""
    with Setting(_INVOKED, True):
        return wait_for(coroutine)


def is_invoked() -> bool:
    """Return whether the running graph was called by `invoke`, so that its checkpointer may lack async methods."""
    return _INVOKED.get()


async def run_in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run blocking work in a worker thread; directly if no other task uses this thread's event loop."""
    return await _run_in_pool(None, call, *args, **kwargs)


async def run_in_waiting_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run blocking work as `run_in_thread` does, but in a separate pool of threads.

    It is for work that waits for other work: that other work then finds a free thread in the usual pool.
    """
    return await _run_in_pool(_WAITING_POOL, call, *args, **kwargs)


def is_async_callable(function: Callable[..., Any]) -> bool:
    """Return whether a function, or an object's method `__call__`, is a coroutine function."""
    method = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004 - the method
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(method)


def find_call_problem(function: object, *values: object) -> str:
    """Return why a function cannot be called with so many values by place; empty if it can."""
    if not callable(function):
        return f"{type(function).__name__} is not a function"
    try:
        with suppress(ValueError):  # a builtin may have no signature
            inspect.signature(function).bind(*values)
    except TypeError as error:
        return str(error)
    return ""


async def run_in_lone_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run the user's blocking code in a thread for which neither the event loop nor the process waits when it ends.

    Code that never returns can so be given up.
    """
    outcome: Future[T] = Future()
    outcome.set_running_or_notify_cancel()  # the thread sets the outcome even if nothing waits for it any more
    context = copy_context()

    def work() -> None:
        try:
            outcome.set_result(context.run(call, *args, **kwargs))
        except StopIteration as error:  # no future takes it
            outcome.set_exception(RuntimeError(f"StopIteration: {error}"))
        except BaseException as error:  # noqa: BLE001 - it is raised where the outcome is awaited
            outcome.set_exception(error)

    threading.Thread(target=work, name="certigraph-lone", daemon=True).start()
    return await asyncio.wrap_future(outcome)


def raise_if_cancelled() -> None:
    """Raise CancelledError in a worker thread if the `run_in_thread` call that started the work was cancelled."""
    cancelled = _CANCELLED.get()
    if cancelled is not None and cancelled.is_set():
        raise asyncio.CancelledError


async def _run_in_pool(pool: ThreadPoolExecutor | None, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    loop = asyncio.get_running_loop()
    if loop is getattr(_THREAD_LOCAL, "loop", None):
        return call(*args, **kwargs)
    cancelled, context = threading.Event(), copy_context()
    context.run(_CANCELLED.set, cancelled)
    try:
        return await loop.run_in_executor(pool, partial(context.run, call, *args, **kwargs))
    except asyncio.CancelledError:
        cancelled.set()
        raise


_CANCELLED: ContextVar[threading.Event | None] = ContextVar("certigraph_cancelled", default=None)

_WAITING_POOL = ThreadPoolExecutor(64, thread_name_prefix="certigraph-waiting")

_THREAD_LOCAL = threading.local()

_INVOKED: ContextVar[bool] = ContextVar("certigraph_invoked", default=False)

_OWN_LOOP: ContextVar[bool] = ContextVar("certigraph_own_loop", default=False)


def _loop_of_thread() -> asyncio.AbstractEventLoop:
    # Reused by the thread's next call: creating a loop costs as much as a complete superstep.
    if not hasattr(_THREAD_LOCAL, "loop"):
        _THREAD_LOCAL.loop, _THREAD_LOCAL.owner = asyncio.new_event_loop(), _LoopOwner()
        # LangGraph starts threads for each run, and a loop that is not closed keeps three files open
        finalize(_THREAD_LOCAL.owner, _THREAD_LOCAL.loop.close).atexit = False
    loop: asyncio.AbstractEventLoop = _THREAD_LOCAL.loop
    return loop


class _LoopOwner:
    """Ends with its thread, and the thread's event loop with it."""


def _run_on_thread_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    loop = _loop_of_thread()
    try:
        return loop.run_until_complete(coroutine)
    except BaseException:
        # Cancel unfinished work, or it would continue when the loop next runs.
        if unfinished := asyncio.all_tasks(loop):
            for task in unfinished:
                task.cancel()
            loop.run_until_complete(asyncio.wait(unfinished))
        raise


# Locks for libraries that are not thread-safe.


@cache
def library_lock(name: str) -> AbstractContextManager[object]:
    """Return the lock of a library, held around every call into it by all worlds that use it."""
    return threading.RLock()


# Child processes: the environment variables of a program that certigraph starts.

PASSED_VARIABLES = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "LANG", "LANGUAGE", "TMPDIR", "TEMP", "TMP", "JAVA_HOME"),
        *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "FONTCONFIG_PATH", "FONTCONFIG_FILE", "XDG_CACHE_HOME"),
        *("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "USERPROFILE", "APPDATA", "LOCALAPPDATA"),
    }
)
"""Variables that programs need to start, to find their libraries and to write texts. None of them holds a key."""


def child_environment(*names: str) -> dict[str, str]:
    """Return the variables that a child process may see: PASSED_VARIABLES, LC_*, and those of `names`.

    Keys, passwords and addresses of services are left out: a program does not need them for its work, and anyone who
    can read its environment could read them.
    """
    allowed = PASSED_VARIABLES | {name.upper() for name in names}
    return {name: value for name, value in os.environ.items() if name.upper() in allowed or name.startswith("LC_")}
