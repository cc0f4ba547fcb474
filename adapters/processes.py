"""Threads, locks, child processes and optional packages."""

import asyncio
import os
import re
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from functools import partial
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any, ParamSpec, TypeVar

from certigraph.state.records import Boundary, Fault

# The packages of optional extras, imported when first used.


def library(module: str, needs: str, extra: str, boundary: Boundary = "data") -> Any:
    """A module of an extra; `needs` begins the error: `reading pages needs`. Raises Fault as `lacking` makes it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0].replace("_", "-")
        raise lacking(needs, [package], extra, boundary) from error


def require(needs: str, packages: Sequence[str], extra: str, boundary: Boundary = "data") -> None:
    """Make sure that packages are installed, without importing them. Raises Fault as `lacking` makes it."""
    if missing := [name for name in packages if find_spec(name) is None]:
        raise lacking(needs, missing, extra, boundary)


def extra_of(module: str) -> str | None:
    """The extra of certigraph that brings a module; None where none does."""
    package = DISTRIBUTIONS.get(module, module).replace("_", "-").lower()
    try:
        requirements = metadata.requires("certigraph") or []
    except metadata.PackageNotFoundError:  # run from a checkout that was never installed
        return None
    named = (re.match(r"([\w.-]+).*extra == ['\"]([\w-]+)['\"]", text) for text in requirements)
    extras = [found[2] for found in named if found and found[1].replace("_", "-").lower() == package]
    return min(extras, key=lambda extra: extra in ("all", "dev"), default=None)


DISTRIBUTIONS = {"yaml": "pyyaml"}
"""Distributions whose name differs from that of the module."""


def lacking(needs: str, packages: Sequence[str], extra: str, boundary: Boundary = "data") -> Fault:
    """The fault of packages that are not installed, with the command that brings them."""
    return Fault(boundary, f"{needs} {', '.join(packages)}, missing here: pip install 'certigraph[{extra}]'")


# The packages of the extra `web`, imported when first used.


def package(module: str) -> Any:
    """A module that reading pages needs. Raises Fault ("environment") with the command that brings it."""
    return library(module, "reading pages needs", "web", "environment")


# The optional packages of an evaluation, asked for before anything imports them.

TABLES = ("scipy", "statsmodels", "pandas", "matplotlib")
"""What tables with intervals and their figures are made with."""


def equipped(what: str, *packages: str) -> None:
    """Make sure that packages are there. Raises Fault with the command that brings those that are missing."""
    require(f"{what} need", packages, "eval")


# Where coroutines and blocking calls run: a graph serves `invoke` and `ainvoke` and never holds up a server.

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


# Locks for libraries that are not thread-safe, shared by every benchmark that uses them.

TEXTWORLD = threading.RLock()
"""Held around every call into textworld, by ALFWorld and TextWorld alike.

Its parsers are one TatSu object a module (`textworld.logic`, `textworld.envs.pddl`, `textworld.textgen`), whose stack
two threads corrupt; its translator of PDDL keeps options in globals and replaces sys.argv and sys.stdout; its generator
draws from a global generator of random numbers. Threads would gain little without the lock: all of it is Python and
waits for the interpreter lock. The planner's search, which is C++ in a library of the game's own, needs no lock.
"""


# Child processes: the environment that a program started by certigraph gets.

KEPT = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TZ", "LANG", "LANGUAGE", "TMPDIR", "TEMP", "TMP", "JAVA_HOME"),
        *("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "FONTCONFIG_PATH", "FONTCONFIG_FILE", "XDG_CACHE_HOME"),
        *("SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "USERPROFILE", "APPDATA", "LOCALAPPDATA"),
    }
)
"""Variables that programs need to start, to find their libraries and to write texts. None of them holds a key."""


def child_environment(*names: str) -> dict[str, str]:
    """The variables of this process that a child process may see: KEPT, LC_*, and those of `names`.

    Keys, passwords and addresses of services stay here: a program does not need them to do its work, and whoever can
    read its environment could read them.
    """
    allowed = KEPT | {name.upper() for name in names}
    return {name: value for name, value in os.environ.items() if name.upper() in allowed or name.startswith("LC_")}
