"""The user's own lines: those that warnings point to, and those in which an exception was raised."""

import sys
import sysconfig
import traceback
import warnings
from functools import cache
from pathlib import Path

PACKAGE = __name__.partition(".")[0]


class CallWarning(UserWarning):
    """Warning about what a function of certigraph was given."""


def warn_user(message: str, category: type[Warning] = CallWarning) -> None:
    """Warn, and name the line outside certigraph from which its function was called.

    Args:
        message: the warning, with what fixes it.
        category: class of the warning.
    """
    warnings.warn(message, category, stacklevel=_user_level() + 1)


def _user_level() -> int:
    """Return how many frames above `warn_user` the first one outside certigraph is."""
    level, frame = 0, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == PACKAGE:
        level, frame = level + 1, frame.f_back
    return level


def is_users_file(filename: str) -> bool:
    """Return whether a file is none of the standard library and of no installed package."""
    return not filename.startswith(_library_folders())


@cache
def _library_folders() -> tuple[str, ...]:
    return tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def error_location(error: BaseException) -> str:
    """Return the last line outside of installed packages at which an exception was raised, where it is corrected.

    The file has its name only, because trajectories hold no paths: `tools.py:12 in reset`.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if is_users_file(frame.filename)]
    frame = (own or frames)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}"


__all__ = ["CallWarning", "error_location", "is_users_file", "warn_user"]
