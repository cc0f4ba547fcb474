"""What middleware knows of the agent around it, and how it asks models for it."""

from collections.abc import Mapping
from operator import add
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware import ModelRequest
from langchain.agents.middleware.types import PrivateStateAttr
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_core.messages import SystemMessage
from langgraph.channels.untracked_value import UntrackedValue
from typing_extensions import TypedDict

from certigraph.adapters.models.prompts import paragraphs
from certigraph.adapters.tools.checks import Checks
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
        self.instructions = text_of_message(request.system_message) if request.system_message else ""
        self.answer_forms = _names_of_forms(request.response_format)
        self._worlds: dict[Any, Tools] = {}

    def world(
        self, effects: Mapping[str, Effect] | None = None, checks: Checks | None = None, policy: str = ""
    ) -> Tools:
        """Return the agent's tools as a world, the same object for the same arguments.

        Args:
            effects: what the user declared of them.
            checks: functions of the user's that decide conditions.
            policy: rules besides those in the agent's instructions.
        """
        key = (id(effects), id(checks), policy)
        if key not in self._worlds:
            instructions = paragraphs(self.instructions, policy)
            self._worlds[key] = load_outside_tools(self.tools, effects, instructions=instructions, checks=checks)
        return self._worlds[key]

    def is_of(self, request: ModelRequest[Any]) -> bool:
        """Return whether a request comes from the same agent in the same state."""
        text = text_of_message(request.system_message) if request.system_message else ""
        return (self.model, self.tools, self.instructions) == (request.model, tuple(request.tools), text)

    def __repr__(self) -> str:
        """Return a text without anything of the agent, for those who print the state."""
        return "AgentParts()"


def _names_of_forms(response_format: Any) -> frozenset[str]:
    """Return the names under which a model may hand in a structured answer, as if it called a tool."""
    if response_format is None or isinstance(response_format, ProviderStrategy):
        return frozenset()
    strategy = response_format if isinstance(response_format, ToolStrategy) else ToolStrategy(response_format.schema)
    return frozenset(spec.name for spec in strategy.schema_specs)


class PartsState(TypedDict):
    """State of an agent whose middleware knows its parts."""

    certigraph_parts: NotRequired[Annotated[AgentParts, UntrackedValue(AgentParts), PrivateStateAttr]]


class UsageState(TypedDict):
    """State of an agent whose middleware asks models."""

    certigraph_usage: NotRequired[Annotated[list[dict[str, Any]], add, PrivateStateAttr]]
    """What requests of middleware cost, in order, each a `certigraph.state.records.Usage` as plain JSON."""


def extend_system_message(request: ModelRequest[Any], note: str) -> ModelRequest[Any]:
    """Return a request whose system prompt ends with a note. It is the same each time, so that prefixes are cached."""
    before = request.system_message
    if before is None:
        return request.override(system_message=SystemMessage(note))
    content = (
        f"{before.content}\n\n{note}"
        if isinstance(before.content, str)
        else [*before.content, {"type": "text", "text": note}]
    )
    return request.override(system_message=before.model_copy(update={"content": content}))


def note_parts(request: ModelRequest[Any]) -> dict[str, Any]:
    """Return the update by which the hooks after a model's response learn the parts of the agent."""
    known: Any = request.state.get("certigraph_parts")
    return {"certigraph_parts": known if known and known.is_of(request) else AgentParts(request)}


def parts_of(state: Mapping[str, Any]) -> AgentParts | None:
    """Return the parts of the running agent; None in a process that has not asked its model yet."""
    found = state.get("certigraph_parts")
    return found if isinstance(found, AgentParts) else None


__all__ = ["AgentParts", "PartsState", "UsageState", "extend_system_message", "note_parts", "parts_of"]
