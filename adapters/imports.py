"""Import of a user's own objects, by `module:attribute` or by an entry point of an installed distribution.

Operators, benchmarks and graphs are imported here and nowhere else. Importing a module runs its code: callers that read
a name from a file must not import it unless the user started that file's run (see SECURITY.md).
"""

import sys
from collections.abc import Iterable
from functools import cache, reduce
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import PurePath
from pkgutil import iter_modules
from typing import Any

from certigraph.adapters.own_modules import name_own_module, own_modules
from certigraph.adapters.user_warnings import warn_user
from certigraph.state.endings import UnknownName

BENCHMARK_GROUP = "certigraph.benchmarks"
"""Group of entry points by which a distribution offers benchmarks; certigraph's own are in the package of this name."""

IMPORT_ADVICE = "it must be at the top level of a module that Python can import from the current directory"
"""Advice in the message about a name that cannot be imported."""


def import_named(name: str, kind: str) -> Any:
    """Import an object by `module:attribute`, or a module by its name.

    Args:
        name: the name; the attribute may have dots, as in `module:Class.method`.
        kind: what the object is, for messages: `operator`, `benchmark`, `graph`.

    Raises:
        UnknownName: the module or attribute is missing, or the code of the module raised an exception.
    """
    module, _, attribute = name.partition(":")
    if module.endswith(".py"):
        dotted = ".".join(part for part in PurePath(module[:-3]).parts if part not in (".", ".."))
        raise UnknownName(f"{kind} {name!r} names a file: name the module instead, {dotted}:{attribute or 'NAME'}")
    name_own_module(module)
    try:
        return reduce(getattr, attribute.split("."), import_module(module)) if attribute else import_module(module)
    except (Exception, SystemExit) as error:  # the module is user code, which may raise anything
        raise _import_error(f"{kind} {name!r} cannot be imported ({_format_reason(error)})", error, module) from error


def _import_error(message: str, error: BaseException, module: str) -> UnknownName:
    if isinstance(error, AttributeError):
        known = [name for name in dir(error.obj) if not name.startswith("_")]
        return UnknownName(message, str(error.name), known, IMPORT_ADVICE)
    if not isinstance(error, ImportError):
        return UnknownName(f"{message}: correct the module {module}")
    missing = str(error.name)
    if not f"{module}.".startswith(f"{missing}."):
        return UnknownName(f"{message}: install {missing}, or correct the import of it")
    package, dot, _ = missing.rpartition(".")
    own = own_modules()
    top = [*sys.path, own.folder] if own else None
    folders = getattr(sys.modules.get(package), "__path__", ()) if package else top
    known = [f"{package}{dot}{one.name}" for one in iter_modules(folders)]
    return UnknownName(message, missing, known, IMPORT_ADVICE)


def import_installed(entry: EntryPoint, kind: str) -> Any:
    """Import the object of an entry point. Raises UnknownName as `import_named` does."""
    try:
        return entry.load()
    except (Exception, SystemExit) as error:
        source = f"{entry.value}, of {distribution_of(entry)}"
        fix = "repair or uninstall that distribution"
        raise UnknownName(
            f"{kind} {entry.name!r} ({source}) cannot be imported ({_format_reason(error)}): {fix}"
        ) from error


def installed(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name. The search takes some 20 ms, once for each `sys.path`."""
    return _entry_points(group, tuple(sys.path))


def distribution_of(entry: EntryPoint) -> str:
    """Return name and version of the distribution that an entry point comes from."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown distribution"


def warn_if_hidden(name: str, group: str, kind: str) -> None:
    """Warn, once, that a shipped object hides an installed one of the same name."""
    if entry := installed(group).get(name):
        _warn_hidden(name, f"{kind} {name!r} is certigraph's own; {distribution_of(entry)} has one of that name", entry)


def unknown_name(name: str, kind: str, known: Iterable[str], example: str) -> UnknownName:
    """Create the error for an unknown name, with how to name one's own.

    Args:
        name: the unknown name.
        kind: what it should name: `benchmark`, `graph`.
        known: the known names.
        example: a name of the form `module:attribute`.
    """
    own = f"`certigraph list {kind}s` shows all; or name your own as module:attribute, for example {example}"
    return UnknownName(f"unknown {kind} {name!r}", name, sorted(known), own)


def check_names(names: Iterable[Any], known: Iterable[str], problem: str) -> None:
    """Raise UnknownName for the first name that is not known; `problem` is what the message says before the name."""
    names_known = list(known)
    for name in map(str, names):
        if name not in names_known:
            raise UnknownName(f"{problem} {name!r}", name, names_known)


def _format_reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@cache
def _entry_points(group: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:
    # `path` is the cache's key only. Of two distributions with the same name, the first on the path counts.
    return {entry.name: entry for entry in reversed(entry_points(group=group))}


@cache
def _warn_hidden(name: str, message: str, entry: EntryPoint) -> None:
    warn_user(f"{message}: name that one as {entry.value}")
