"""The modules of a user's working folder: found where the user named them, and by no other import.

The folder is not on `sys.path`. Libraries try to import packages that may not be installed (`chardet`, `brotli`), and a
file of such a name in a folder that somebody sent would be run.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from multiprocessing import get_context
from threading import Lock
from types import FrameType, ModuleType
from typing import Any, NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class OwnModules(NamedTuple):
    """Where a process looks for its user's modules, in a form that can be sent to another process."""

    folder: str
    names: tuple[str, ...] = ()
    """Names of the modules that the user named, and of those that these imported from the folder."""


class OwnModuleFinder(MetaPathFinder):
    """Finder of the modules of one folder that the user named, and of what these import from it.

    It is asked last: what an installed distribution or the standard library provides is never found here.
    """

    def __init__(self, modules: OwnModules) -> None:
        self.folder, self.named, self.found = modules.folder, {*modules.names}, set[str]()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module that is not part of a package; Python finds the parts by the path of their package."""
        if path is not None or not (fullname in self.named or _importing_module(sys._getframe(1)) in self.found):
            return None
        spec = PathFinder.find_spec(fullname, [self.folder], target)
        if spec is not None:
            self.found.add(fullname)
        return spec


def find_own_modules(modules: OwnModules) -> None:
    """Let this process find the modules of a folder that its user names, in place of those of another folder."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, OwnModuleFinder)]
    sys.meta_path.append(OwnModuleFinder(modules))


def own_modules() -> OwnModules | None:
    """Return where this process looks for its user's modules; None if only on `sys.path`."""
    finder = _current_finder()
    return OwnModules(finder.folder, tuple(sorted(finder.named | finder.found))) if finder else None


def name_own_module(module: str) -> None:
    """Let a module be found in the user's folder, because the user named it; it may be a dotted name."""
    if finder := _current_finder():
        finder.named.add(module.partition(".")[0])


def _current_finder() -> OwnModuleFinder | None:
    return next((finder for finder in sys.meta_path if isinstance(finder, OwnModuleFinder)), None)


def _importing_module(frame: FrameType | None) -> str:
    """Return the top-level name of the module whose code imports, past the frames of Python's own import system."""
    while frame:
        name = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if name not in ("importlib", "_frozen_importlib", "_frozen_importlib_external"):
            return name
        frame = frame.f_back
    return ""


# Python processes.


class SpawnedProcesses(ProcessPoolExecutor):
    """Pool of new Python processes (`spawn`), which find the user's modules as this process does.

    Python itself would look for modules in the working folder, and there first, until a process has started.

    Args:
        workers: number of processes.
        initialize: function that each process calls first, with `arguments`.
    """

    def __init__(
        self, workers: int, initialize: Callable[..., None] | None = None, arguments: Sequence[Any] = ()
    ) -> None:
        safe = os.environ.get(SAFE_PATH)
        with _safe_start():
            super().__init__(
                workers, get_context("spawn"), _start_process, (safe, own_modules(), initialize, arguments)
            )

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Hand a call to a process, which may be started for it."""
        with _safe_start():
            return super().submit(fn, *args, **kwargs)


SAFE_PATH = "PYTHONSAFEPATH"
"""Variable of the environment by which Python looks for no module in the working folder."""

_START_LOCK = Lock()


@contextmanager
def _safe_start() -> Iterator[None]:
    with _START_LOCK:
        before = os.environ.get(SAFE_PATH)
        os.environ[SAFE_PATH] = "1"
        try:
            yield
        finally:
            _restore(before)


def _restore(safe: str | None) -> None:
    if safe is None:
        os.environ.pop(SAFE_PATH, None)
    else:
        os.environ[SAFE_PATH] = safe


def _start_process(
    safe: str | None, modules: OwnModules | None, initialize: Callable[..., None] | None, arguments: Sequence[Any]
) -> None:
    _restore(safe)
    if modules:
        find_own_modules(modules)
    if initialize:
        initialize(*arguments)
