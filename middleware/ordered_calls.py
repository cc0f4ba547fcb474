"""`OrderedCalls`: the calls of one response of a model are made in their order."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse, hook_config
from langchain.agents.middleware.types import ToolCallRequest
from langgraph.runtime import Runtime
from langgraph.types import Command, Send

from certigraph.adapters.models.prompts import clip
from certigraph.adapters.tools.outcomes import Effect
from certigraph.adapters.tools.positions import is_sent
from certigraph.middleware.views import Answer, DeclaresEffects, add_instructions, mark_messages, messages_around
from certigraph.nodes.conversations import ToolRound, current_round, is_denied, is_made, refuse, to_call
from certigraph.nodes.outside_agents import OutsideEffects
from certigraph.state.tools import ChainedCall, find_blocking


class OrderedCalls(DeclaresEffects, AgentMiddleware[Any, Any, Any]):
    """Makes the calls of one response in the order in which the model gave them.

    `create_agent` starts all calls of a response at once. With this middleware a call waits for those before it.
    Neighbouring look-ups run together. After a call that failed the chain stops: after one whose effect lasts nothing
    is made; after a look-up no call whose effect lasts is made, and look-ups go on. The agent reads which call failed.

    The order is a function of the messages. It survives interrupts, and the end of the process in the middle of a
    chain. Whether a call that had ended is made again after the end of the process is a matter of `durability` and of
    `EffectsOnce`. The agent's instructions get a constant note, by which a model may give whole chains in one response.
    It needs the hooks of an agent: a `ToolNode` alone cannot have it. Each call that waits takes two steps of the graph
    more, and each response one.

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
    def before_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> Any:
        """Go back to the tools while calls of the last response are open."""
        return _go_on(current_round(state["messages"]))

    @hook_config(can_jump_to=["tools"])
    async def abefore_model(self, state: AgentState[Any], runtime: Runtime[Any]) -> Any:
        """Go back to the tools while calls of the last response are open."""
        return _go_on(current_round(state["messages"]))

    @hook_config(can_jump_to=["tools"])
    def after_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> Any:
        """Go back to the tools if the agent would end in the middle of a chain."""
        return _complete(current_round(state["messages"]))

    @hook_config(can_jump_to=["tools"])
    async def aafter_agent(self, state: AgentState[Any], runtime: Runtime[Any]) -> Any:
        """Go back to the tools if the agent would end in the middle of a chain."""
        return _complete(current_round(state["messages"]))

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Answer]) -> Answer:
        """Make a call if its turn has come."""
        answer = self._answer_unmade(request)
        return mark_messages(handler(request)) if answer is None else answer

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Answer]]
    ) -> Answer:
        """Make a call if its turn has come."""
        answer = self._answer_unmade(request)
        return mark_messages(await handler(request)) if answer is None else answer

    def _answer_unmade(self, request: ToolCallRequest) -> Answer | None:
        """Return the answer to a call that is not made now: an empty command if it has to wait; None if it is made."""
        chain, id_ = current_round(messages_around(request)), request.tool_call["id"]
        place = next((place for place, one in enumerate(chain.calls) if one["id"] == id_), None) if chain else None
        if chain is None or place is None:
            return None
        tools = {one.name: one for one in request.runtime.tools}
        kinds = [self.effects.is_look_up(tools.get(one["name"])) for one in chain.calls]
        before = _chain_before(chain, kinds, place)
        # an edge starts a node with all calls of the response, and only those nodes make calls that `Send` starts
        if chain.answers[place] or before is None or not is_sent(request.runtime.config):
            return Command()
        failed = find_blocking(kinds[place], before)
        return refuse(request.tool_call, SKIPPED_TEXT.format(call=clip(str(failed), MAX_CALL))) if failed else None


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


def _go_on(chain: ToolRound | None) -> Command[Any] | None:
    """Return the jump to the tools for the open calls of a response, one run of the node for each, as after a model.

    The edge that LangChain follows to the tools starts one more run of the node, which makes no calls.
    """
    if chain is None or not chain.open:
        return None
    return Command(update={"jump_to": "tools"}, goto=[Send("tools", [call]) for call in chain.open])


def _complete(chain: ToolRound | None) -> Command[Any] | None:
    """Return the jump for a chain that was begun; otherwise a middleware has ended the work before its calls."""
    return _go_on(chain) if chain and any(chain.answers) else None


NOTE = """\
The calls of one response are made one after another, in your order; after one that fails, none is made that changes
something. So give whole chains, and leave for later only what depends on an answer that you do not have yet."""
SKIPPED_TEXT = "The call was not made, because a call before it failed: {call}"
MAX_CALL = 300
"""Maximum number of characters of the call that failed, as the agent reads it."""

__all__ = ["OrderedCalls"]
