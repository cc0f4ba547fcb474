"""The packages of optional extras, imported when first used."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from certigraph.state.endings import Boundary, Fault


def library(module: str, needs: str, extra: str, boundary: Boundary = "data") -> Any:
    """A module of an extra; `needs` begins the error: `reading pages needs`. Raises Fault as `lacking` makes it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0].replace("_", "-")
        raise lacking(needs, [package], extra, boundary) from error


def lacking(needs: str, packages: Sequence[str], extra: str, boundary: Boundary = "data") -> Fault:
    """The fault of packages that are not installed, with the command that brings them."""
    return Fault(boundary, f"{needs} {', '.join(packages)}, missing here: pip install 'certigraph[{extra}]'")
