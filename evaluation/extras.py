"""The optional packages of an evaluation, asked for before anything imports them."""

from certigraph.adapters.extras import require

TABLES = ("scipy", "statsmodels", "pandas", "matplotlib")
"""What tables with intervals and their figures are made with."""


def equipped(what: str, *packages: str) -> None:
    """Make sure that packages are there. Raises Fault with the command that brings those that are missing."""
    require(f"{what} need", packages, "eval")
