"""Warnings that point to the user's own line, whatever number of certigraph's functions lie between."""

import sys
import warnings

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


__all__ = ["CallWarning", "warn_user"]
