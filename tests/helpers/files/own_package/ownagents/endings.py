"""A graph whose module names its endings."""

from typing import Any

from ownagents import graphs

build = graphs.build


def ending(state: Any) -> str:
    return "gave_up" if state["observation"].solved else "hopeless"


def message(state: Any) -> str:
    return "enough"
