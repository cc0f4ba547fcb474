"""`EffectsOnce`: the effects of an agent's tools happen once, whatever becomes of its process."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.tools import BaseTool

from certigraph.adapters.tools.outcomes import Effect
from certigraph.middleware.views import Answer, DeclaresEffects, mark_messages
from certigraph.nodes.outside_agents import OutsideEffects
from certigraph.nodes.wrapped_tools import ONCE_MARK, ToolCopies, make_once


class EffectsOnce(DeclaresEffects, AgentMiddleware[Any, Any, Any]):
    """Makes every call whose effect lasts once: it does for an agent's tools what `certigraph.once` does for a list.

    A call is entered in the checkpointer of the graph before it starts and with its answer when it ends. A call that is
    resumed, replayed, forked or retried is answered from there. A call whose outcome is unknown interrupts the graph,
    and a person decides about it. Without a checkpointer the tools work as they are.

    It works in `create_agent`, in deepagents, and without an agent: `ToolNode(tools, wrap_tool_call=one.wrap_tool_call,
    awrap_tool_call=one.awrap_tool_call)`. Sub-agents of deepagents do not inherit middleware: give them tools that
    `certigraph.once` has wrapped, or the middleware in their own specification. A tool that `once` has wrapped stays as
    it is here.

    Equal calls of a turn are distinguished by the messages. Where other middleware removes messages of the turn, as for
    a summary, an equal call that is chosen after that counts as the one before, and is not made again.

    Place: after `OrderedCalls`, `HumanInTheLoopMiddleware(interrupt_mode="per_call")` and `ToolRetryMiddleware`. A
    retry then repeats a call that is known to have failed, and never one whose outcome is unknown.

    Args:
        effects: as for `certigraph.once`. Names of tools that the agent does not have are allowed.

    Raises:
        ValueError: `effects` has something else than an effect.
    """

    def __init__(self, effects: Mapping[str, Effect] | None = None) -> None:
        super().__init__()
        self.effects = OutsideEffects(effects)
        self._copies = ToolCopies(self._make_copy)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Answer]) -> Answer:
        """Make a call through the ledger."""
        return mark_messages(handler(self._protect(request)))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Answer]]
    ) -> Answer:
        """Make a call through the ledger."""
        return mark_messages(await handler(self._protect(request)))

    def _protect(self, request: ToolCallRequest) -> ToolCallRequest:
        if request.tool is None or self.effects.of(request.tool) == "repeatable":
            return request
        return request.override(tool=self._copies.of(request.tool))

    def _make_copy(self, tool: BaseTool) -> BaseTool:
        return make_once(tool, self.effects.of(tool))


setattr(EffectsOnce, ONCE_MARK, True)  # an executor's tools are protected by it

__all__ = ["EffectsOnce"]
