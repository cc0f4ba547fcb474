"""`OrderedCalls`: the calls of one response of a model are made in their order."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse, hook_config
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.runtime import Runtime
from langgraph.types import Command

from certigraph.adapters.models.prompts import clip
from certigraph.adapters.tools.outcomes import Effect
from certigraph.adapters.tools.positions import is_sent, lone_call
from certigraph.middleware.views import DeclaresEffects, add_instructions
from certigraph.nodes.conversations import ToolRound, current_round, is_denied, is_made, refuse, to_call
from certigraph.nodes.outside_agents import OutsideEffects
from certigraph.nodes.wrapped_tools import ToolCopies, number_graphs
from certigraph.state.tools import ChainedCall, find_blocking

Answer = ToolMessage | Command[Any]


class OrderedCalls(DeclaresEffects, AgentMiddleware[Any, Any, Any]):
    """Makes the calls of one response in the order in which the model gave them.

    `create_agent` starts all calls of a response at once. With this middleware a call waits for those before it.
    Neighbouring look-ups run together. After a call that failed the chain stops: after one whose effect lasts nothing
    is made; after a look-up no call whose effect lasts is made, and look-ups go on. The agent reads which call failed.

    The order is a function of the messages. It survives interrupts, and the end of the process in the middle of a
    chain. The agent's instructions get a constant note, by which a model may give whole chains in one response.

    Place: first in the list of middleware, before everything else that wraps calls of tools. Middleware with
    `after_agent` may run while calls of the last response are open, if a tool has `return_direct` or if a structured
    answer was given together with calls. It runs once more after them.

    Args:
        effects: as for `certigraph.once`: `{"look_up": "repeatable"}` names a look-up. Hints of an MCP server count
            where nothing is given, and the tools that LangChain and deepagents bring are known. Every other call is one
            whose effect lasts. Names of tools that the agent does not have are allowed.

    Raises:
        ValueError: `effects` has something else than an effect.
    """

    def __init__(self, effects: Mapping[str, Effect] | None = None) -> None:
        super().__init__()
        self.effects = OutsideEffects(effects)
        self._numbered = ToolCopies(number_graphs)

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Add the note about the order to the agent's instructions."""
        return handler(add_instructions(request, NOTE))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Add the note about the order to the agent's instructions."""
        return await handler(add_instructions(request, NOTE))

    @hook_config(can_jump_to=["tools"])
    def before_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Go back to the tools while calls of the last response are open."""
        return _go_on(state)

    @hook_config(can_jump_to=["tools"])
    async def abefore_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Go back to the tools while calls of the last response are open."""
        return _go_on(state)

    @hook_config(can_jump_to=["tools"])
    def after_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Go back to the tools if the agent would end while calls of its last response are open."""
        return _go_on(state)

    @hook_config(can_jump_to=["tools"])
    async def aafter_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Go back to the tools if the agent would end while calls of its last response are open."""
        return _go_on(state)

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Answer]) -> Answer:
        """Make a call if its turn has come."""
        due = self._decide(request)
        if not isinstance(due, _Due):
            return due
        with due.setting:
            return handler(due.request)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Answer]]
    ) -> Answer:
        """Make a call if its turn has come."""
        due = self._decide(request)
        if not isinstance(due, _Due):
            return due
        with due.setting:
            return await handler(due.request)

    def _decide(self, request: ToolCallRequest) -> "Answer | _Due":
        """Return the call if its turn has come; else its answer: an empty command while it waits or is answered."""
        tools = {one.name: one for one in request.runtime.tools}
        chain, call = current_round(_messages_in(request.state)), request.tool_call
        if chain is None or call["id"] not in [one["id"] for one in chain.calls]:
            return _Due(request)
        place = [one["id"] for one in chain.calls].index(call["id"])
        kinds = [self.effects.is_look_up(tools.get(one["name"])) for one in chain.calls]
        before = _chain_before(chain, kinds, place)
        if chain.answers[place] or before is None:
            return Command()
        if failed := find_blocking(kinds[place], before):
            return refuse(call, SKIPPED_TEXT.format(call=clip(str(failed), MAX_CALL)))
        if not kinds[place]:
            return _Due(request, lone_call(request.runtime.config))
        # a node that an edge started makes all look-ups that are due
        if request.tool is None or is_sent(request.runtime.config):
            return _Due(request)
        return _Due(request.override(tool=self._numbered.of(request.tool)))


class _Due(NamedTuple):
    """A call whose turn has come."""

    request: ToolCallRequest
    setting: AbstractContextManager[Any] = nullcontext()
    """In what it is made."""


def _chain_before(chain: ToolRound, kinds: list[bool], place: int) -> list[ChainedCall] | None:
    """Return the calls before one as the rule of chains sees them; None if it waits for one of them.

    Args:
        chain: the calls with their answers.
        kinds: whether each is a look-up.
        place: place of the call.
    """
    before: list[ChainedCall] = []
    for call, answer, is_look_up in zip(chain.calls[:place], chain.answers[:place], kinds[:place], strict=True):
        if answer is None and find_blocking(is_look_up, before) is None:
            if not (is_look_up and kinds[place]):
                return None
        elif answer is None:
            before.append(ChainedCall(to_call(call), is_look_up, failed=True, is_made=False))
        elif not is_denied(answer):
            before.append(ChainedCall(to_call(call), is_look_up, answer.status == "error", is_made(answer)))
    return before


def _go_on(state: AgentState[Any]) -> dict[str, Any] | None:
    """Return the jump to the tools if a chain was begun and is not complete.

    Calls none of which is answered were left by a middleware that ended the work before the tools.
    """
    chain = current_round(state["messages"])
    return {"jump_to": "tools"} if chain and chain.open and any(chain.answers) else None


def _messages_in(state: Any) -> Any:
    """Return the messages in what a `ToolNode` was given: the state of a graph, or messages."""
    return state if isinstance(state, list) else state.get("messages", ()) if isinstance(state, Mapping) else ()


NOTE = """\
The calls of one response are made one after another, in your order; after one that fails, none is made that changes
something. So give whole chains, and leave for later only what depends on an answer that you do not have yet."""
SKIPPED_TEXT = "The call was not made, because a call before it failed: {call}"
MAX_CALL = 300
"""Maximum number of characters of the call that failed, as the agent reads it."""

__all__ = ["OrderedCalls"]
