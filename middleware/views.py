"""What middleware knows of the agent around it, and how it asks models for it."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, NotRequired

from langchain.agents.middleware import AgentMiddleware, ModelRequest
from langchain.agents.middleware.types import PrivateStateAttr, ToolCallRequest
from langchain.agents.structured_output import AutoStrategy, ToolStrategy
from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.config import get_config
from langgraph.types import Command
from typing_extensions import TypedDict

from certigraph.adapters.models.prompts import paragraphs
from certigraph.adapters.tools.checks import Checks
from certigraph.adapters.tools.contents import text_of_message
from certigraph.adapters.tools.outcomes import Effect
from certigraph.adapters.tools.positions import NAMESPACE_KEY
from certigraph.adapters.tools.world import Tools
from certigraph.nodes.conversations import find_open, find_turn, note_made
from certigraph.nodes.outside_agents import OutsideEffects, load_outside_tools
from certigraph.state.records import Usage
from certigraph.state.trajectory import total_usage


class AgentParts:
    """Model, tools and instructions of a running agent.

    Args:
        request: a request of the agent to its model.
    """

    def __init__(self, request: ModelRequest[Any]) -> None:
        self.model, self.tools = request.model, tuple(request.tools)
        self.instructions = read_instructions(request)
        self.answer_forms = names_of_forms(request.response_format)
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
        known = (self.model, self.tools, self.instructions)
        return known == (request.model, tuple(request.tools), read_instructions(request))


def names_of_forms(form: Any) -> frozenset[str]:
    """Return the names under which a model may hand in a structured answer, as if it called a tool."""
    strategy = ToolStrategy(form.schema) if isinstance(form, AutoStrategy) else form
    return frozenset(one.name for one in strategy.schema_specs) if isinstance(strategy, ToolStrategy) else frozenset()


NOTES_KEY = "certigraph_notes"
"""Key in `additional_kwargs` of a system message: the notes that middleware added to it."""


def add_instructions(request: ModelRequest[Any], note: str) -> ModelRequest[Any]:
    """Return a request to the agent's model with a note at the end of the agent's instructions.

    The note is always the same, so that prefixes are cached.
    """
    extended = extend_instructions(request.system_message, note)
    kwargs = extended.additional_kwargs
    noted = {**kwargs, NOTES_KEY: [*kwargs.get(NOTES_KEY, ()), note]}
    return request.override(system_message=extended.model_copy(update={"additional_kwargs": noted}))


def extend_instructions(instructions: SystemMessage | None, text: str) -> SystemMessage:
    """Return an agent's instructions with a text at their end, which are rules for a judge as the others are."""
    given = instructions or SystemMessage("")
    if isinstance(given.content, str):
        content: Any = paragraphs(given.content, text)
    else:
        content = [*given.content, {"type": "text", "text": text}]
    return given.model_copy(update={"content": content})


def read_instructions(request: ModelRequest[Any]) -> str:
    """Return the agent's instructions without the notes of middleware, which are no rules for a judge."""
    if request.system_message is None:
        return ""
    text = text_of_message(request.system_message)
    for note in request.system_message.additional_kwargs.get(NOTES_KEY, ()):
        text = text.replace(note, "")
    return text.strip()


MAX_TURNS = 1_000
"""Number of turns whose agent is remembered, the latest."""


class SeenTurns:
    """The agents that this process has seen ask their models, by the turn.

    LangChain shows model, tools and system prompt of an agent to hooks around the model's call alone. Nothing of them
    enters the state, so that no checkpoint and no stream has it.
    """

    def __init__(self) -> None:
        self._turns: OrderedDict[str, AgentParts] = OrderedDict()

    def note(self, request: ModelRequest[Any]) -> tuple[AgentParts, bool]:
        """Note a request of an agent to its model; return its parts, and whether it is seen for the first time."""
        turn = key_of_turn(request.state["messages"])
        known = next((one for one in reversed(self._turns.values()) if one.is_of(request)), None)
        self._turns[turn] = parts = known or AgentParts(request)
        self._turns.move_to_end(turn)
        if len(self._turns) > MAX_TURNS:
            self._turns.popitem(last=False)
        return parts, known is None

    def find(self, messages: Sequence[AnyMessage]) -> AgentParts | None:
        """Return what is known of the agent in the turn of a conversation.

        None in a process that has not asked the model in it.
        """
        return self._turns.get(key_of_turn(messages))


def key_of_turn(messages: Sequence[AnyMessage]) -> str:
    """Return what identifies a turn in this process: the thread, the graph, and the request with which it begins."""
    place = get_config().get("configurable", {})
    around = str(place.get(NAMESPACE_KEY, "")).rpartition("|")[0]
    request = messages[find_turn(messages)].id if messages else ""
    return f"{place.get('thread_id', '')}|{around}|{request}"


Answer = ToolMessage | Command[Any]
"""What a tool call comes to."""

TOOL_SOURCE = "certigraph_tool"
"""Value of `lc_source` in `additional_kwargs` of a human message that a tool returned, as one that holds a picture."""


def mark_messages(answer: Answer) -> Answer:
    """Return the answer of a tool with marks on the human messages in it, so that they are no requests of a person."""
    if not isinstance(answer, Command) or not isinstance(answer.update, Mapping) or "messages" not in answer.update:
        return answer
    marked = [_mark_message(one) for one in answer.update["messages"]]
    return replace(answer, update={**answer.update, "messages": marked})


def _mark_message(message: Any) -> Any:
    if not isinstance(message, HumanMessage) or "lc_source" in message.additional_kwargs:
        return message
    return message.model_copy(update={"additional_kwargs": {**message.additional_kwargs, "lc_source": TOOL_SOURCE}})


def messages_around(request: ToolCallRequest) -> Any:
    """Return the messages in what a `ToolNode` was given with a call: the state of a graph, or messages."""
    given: Any = request.state
    return given if isinstance(given, list) else given.get("messages", ()) if isinstance(given, Mapping) else ()


def note_change(request: ToolCallRequest, answer: Answer) -> Answer:
    """Return the answer of a tool with the call as it was made, if a person changed it after it was chosen."""
    open_ = find_open(messages_around(request))
    chosen = next((one for one in open_ if one["id"] == request.tool_call["id"]), None)
    made = request.tool_call["name"], request.tool_call["args"]
    if chosen is None or (chosen["name"], chosen["args"]) == made or not isinstance(answer, ToolMessage):
        return answer
    return note_made(answer, request.tool_call)


class MarksMessages(AgentMiddleware[Any, Any, Any]):
    """Middleware for which a human message that a tool returned is not a request."""

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Answer]) -> Answer:
        """Make a call, and mark the human messages that its tool returned."""
        return mark_messages(handler(request))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Answer]]
    ) -> Answer:
        """Make a call, and mark the human messages that its tool returned."""
        return mark_messages(await handler(request))


class DeclaresEffects:
    """Middleware for which it matters what an agent's tools change."""

    effects: OutsideEffects
    """What the tools do. `stack(..., effects=...)` sets it where nothing was given."""


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


def usage_update(*usages: Usage) -> dict[str, Any]:
    """Return the update of the state by which a middleware notes what it spent; empty if it asked nothing."""
    spent = [one.model_dump(mode="json") for one in usages if one.calls]
    return {USAGE_KEY: spent} if spent else {}


__all__ = [
    "USAGE_KEY",
    "AgentParts",
    "Answer",
    "DeclaresEffects",
    "MarksMessages",
    "SeenTurns",
    "UsageState",
    "add_instructions",
    "add_usage",
    "extend_instructions",
    "key_of_turn",
    "mark_messages",
    "messages_around",
    "names_of_forms",
    "note_change",
    "usage_update",
]
