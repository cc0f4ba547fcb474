"""The packages of the extra `web`, imported when first used."""

from typing import Any

from certigraph.adapters.extras import library


def package(module: str) -> Any:
    """A module that reading pages needs. Raises Fault ("environment") with the command that brings it."""
    return library(module, "reading pages needs", "web", "environment")
