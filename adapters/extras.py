"""The packages of optional extras, imported when first used."""

import re
from collections.abc import Sequence
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any

from certigraph.state.endings import Boundary, Fault


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
