"""A graph whose module names its endings."""

from typing import Any

from ownagents.graphs import build as build


def ending(state: Any) -> str:
    return "gave_up" if state["observation"].solved else "hopeless"


def message(state: Any) -> str:
    return "enough"
