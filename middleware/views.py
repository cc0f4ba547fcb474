"""What middleware knows of the agent around it, and how it asks models for it."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware import ModelRequest
from langchain.agents.middleware.types import PrivateStateAttr
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.types import Command
from typing_extensions import TypedDict

from certigraph.adapters.tools.contents import text_of_message
from certigraph.adapters.tools.outcomes import Effect
from certigraph.adapters.tools.world import Tools
from certigraph.nodes.outside_agents import load_outside_tools
from certigraph.state.records import Usage
from certigraph.state.trajectory import total_usage


class AgentParts:
    """Model, tools and instructions of a running agent. They are in memory only: no checkpoint and no stream has them.

    Args:
        request: a request of the agent to its model.
    """

    def __init__(self, request: ModelRequest[Any]) -> None:
        self.model, self.tools = request.model, tuple(request.tools)
        self.instructions = text_of_message(request.system_message) if request.system_message else ""
        self._worlds: dict[Any, Tools] = {}

    def world(self, effects: Mapping[str, Effect] | None = None, checks: Any = None) -> Tools:
        """Return the agent's tools as a world, the same object for the same arguments."""
        key = (id(effects), id(checks))
        if key not in self._worlds:
            self._worlds[key] = load_outside_tools(self.tools, effects, instructions=self.instructions, checks=checks)
        return self._worlds[key]

    def is_of(self, request: ModelRequest[Any]) -> bool:
        """Return whether a request comes from the same agent in the same state."""
        text = text_of_message(request.system_message) if request.system_message else ""
        return (self.model, self.tools, self.instructions) == (request.model, tuple(request.tools), text)

    def __repr__(self) -> str:
        """Return a text without anything of the agent, for those who print the state."""
        return "AgentParts()"


class PartsState(TypedDict):
    """State of an agent whose middleware knows its parts."""

    certigraph_parts: NotRequired[Annotated[AgentParts, UntrackedValue(AgentParts, guard=False), PrivateStateAttr]]


def note_parts(request: ModelRequest[Any]) -> Command[Any]:
    """Return the command by which the hooks after a model's response learn the parts of the agent."""
    known: Any = request.state.get("certigraph_parts")
    return Command(update={"certigraph_parts": known if known and known.is_of(request) else AgentParts(request)})


def parts_of(state: Mapping[str, Any]) -> AgentParts | None:
    """Return the parts of the running agent; None in a process that has not asked its model yet."""
    found = state.get("certigraph_parts")
    return found if isinstance(found, AgentParts) else None


# What was spent: every middleware that asks a model adds it here, and `BudgetLimit` reads it.

USAGE_KEY = "certigraph_usage"
"""Key in the state: what requests of the agent and of its middleware spent, one `Usage` for each node, as JSON."""


def add_usage(before: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Add usages to those before, node by node, so that the list does not grow with the conversation."""
    by_node: dict[str, list[Usage]] = {}
    for one in map(Usage.model_validate, (*before, *new)):
        by_node.setdefault(one.node, []).append(one)
    return [total_usage(usages, node).model_dump(mode="json") for node, usages in by_node.items()]


class UsageState(TypedDict):
    """State of an agent whose middleware asks models."""

    certigraph_usage: NotRequired[Annotated[list[dict[str, Any]], PrivateStateAttr, add_usage]]


def usage_update(usage: Usage) -> dict[str, Any]:
    """Return the update of the state by which a middleware notes what it spent; empty if it asked nothing."""
    return {USAGE_KEY: [usage.model_dump(mode="json")]} if usage.calls else {}


__all__ = [
    "USAGE_KEY",
    "AgentParts",
    "PartsState",
    "UsageState",
    "add_usage",
    "note_parts",
    "parts_of",
    "usage_update",
]
