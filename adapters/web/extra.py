"""The packages of the extra `web`, imported when first used."""

from importlib import import_module
from typing import Any

from certigraph.state.endings import Fault


def package(name: str) -> Any:
    """A package that reading pages needs. Raises Fault ("environment") with the command that brings it."""
    try:
        return import_module(name)
    except ImportError as error:
        missing = f"reading pages needs {name}, missing here: pip install 'certigraph[web]'"
        raise Fault("environment", missing) from error
