"""Packages of optional extras: imported when first used; a missing one is named with the pip command."""

import re
from collections.abc import Sequence
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any

from certigraph.state.endings import Boundary, Fault


def import_extra(module: str, needs: str, extra: str, boundary: Boundary = "data") -> Any:
    """Import a module that an optional extra of certigraph installs.

    Args:
        module: name of the module.
        needs: beginning of the error message, such as `reading pages needs`.
        extra: the extra of certigraph that contains the module.
        boundary: value of `Fault.boundary`.

    Raises:
        Fault: the module is not installed; the message has the pip command.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0].replace("_", "-")
        raise missing_packages_fault(needs, [package], extra, boundary) from error


def check_packages(needs: str, packages: Sequence[str], extra: str, boundary: Boundary = "data") -> None:
    """Check that packages are installed, without importing them. Raises Fault as `missing_packages_fault` does."""
    if missing := [name for name in packages if find_spec(name) is None]:
        raise missing_packages_fault(needs, missing, extra, boundary)


def extra_of(module: str) -> str | None:
    """Return the extra of certigraph that contains a module; None if no extra does."""
    package = module.replace("_", "-").lower()
    try:
        requirements = metadata.requires("certigraph") or []
    except metadata.PackageNotFoundError:  # run from a checkout that is not installed
        return None
    matches = (re.match(r"([\w.-]+).*extra == ['\"]([\w-]+)['\"]", requirement) for requirement in requirements)
    extras = [match[2] for match in matches if match and match[1].replace("_", "-").lower() == package]
    return min(extras, key=lambda extra: extra in ("all", "dev"), default=None)


def missing_packages_fault(needs: str, packages: Sequence[str], extra: str, boundary: Boundary = "data") -> Fault:
    """Create the Fault for packages that are not installed, with the pip command."""
    return Fault(boundary, f"{needs} {', '.join(packages)}, missing here: pip install 'certigraph[{extra}]'")


def import_web_package(module: str) -> Any:
    """Import a module of the extra `web`. Raises Fault ("environment") with the pip command if it is not installed."""
    return import_extra(module, "reading pages needs", "web", "environment")


TABLE_PACKAGES = ("scipy", "statsmodels", "pandas", "matplotlib")
"""Packages for tables with confidence intervals, and for plots."""


def check_evaluation_packages(what: str, *packages: str) -> None:
    """Check that packages of the extra `eval` are installed. Raises Fault with the pip command if not.

    Args:
        what: what needs the packages, in the plural: `tables`.
        *packages: names of the packages.
    """
    check_packages(f"{what} need", packages, "eval")
