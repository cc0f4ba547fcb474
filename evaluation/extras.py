"""The optional packages of an evaluation, asked for before anything imports them."""

from importlib.util import find_spec

from certigraph.adapters.extras import lacking

TABLES = ("scipy", "statsmodels", "pandas", "matplotlib")
"""What tables with intervals and their figures are made with."""


def equipped(what: str, *packages: str) -> None:
    """Make sure that packages are there. Raises Fault with the command that brings those that are missing."""
    if missing := [name for name in packages if find_spec(name) is None]:
        raise lacking(f"{what} need", missing, "eval")
