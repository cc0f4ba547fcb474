"""What middleware knows of the agent around it, and how it asks models for it."""

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware import ModelRequest
from langchain.agents.middleware.types import PrivateStateAttr
from langchain.agents.structured_output import AutoStrategy, ToolStrategy
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.types import Command
from typing_extensions import TypedDict

from certigraph.adapters.tools.contents import text_of_message
from certigraph.adapters.tools.outcomes import Effect
from certigraph.adapters.tools.world import Tools
from certigraph.nodes.outside_agents import load_outside_tools


class AgentParts:
    """Model, tools and instructions of a running agent. They are in memory only: no checkpoint and no stream has them.

    Args:
        request: a request of the agent to its model.
    """

    def __init__(self, request: ModelRequest[Any]) -> None:
        self.model, self.tools = request.model, tuple(request.tools)
        self.forms = _names_of_forms(request.response_format)
        """Names of the calls that are structured answers, and no tools."""
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


def _names_of_forms(form: Any) -> frozenset[str]:
    strategy = ToolStrategy(form.schema) if isinstance(form, AutoStrategy) else form
    return frozenset(one.name for one in strategy.schema_specs) if isinstance(strategy, ToolStrategy) else frozenset()


class PartsState(TypedDict):
    """State of an agent whose middleware knows its parts."""

    certigraph_parts: NotRequired[Annotated[AgentParts, UntrackedValue(AgentParts), PrivateStateAttr]]


def note_parts(request: ModelRequest[Any]) -> Command[Any]:
    """Return the command by which the hooks after a model's response learn the parts of the agent."""
    known: Any = request.state.get("certigraph_parts")
    return Command(update={"certigraph_parts": known if known and known.is_of(request) else AgentParts(request)})


def parts_of(state: Mapping[str, Any]) -> AgentParts | None:
    """Return the parts of the running agent; None in a process that has not asked its model yet."""
    found = state.get("certigraph_parts")
    return found if isinstance(found, AgentParts) else None


__all__ = ["AgentParts", "PartsState", "note_parts", "parts_of"]
