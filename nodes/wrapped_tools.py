"""`once`: tools whose effects happen once in any agent, sub-agent or `ToolNode`, by the ledger of certigraph."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.messages import ToolCall as CalledTool
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config
from langchain_core.tools import BaseTool
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from certigraph.adapters.processes import wait_for_node
from certigraph.adapters.tools.contents import bound_text, format_content
from certigraph.adapters.tools.definitions import load_tools, names_shown
from certigraph.adapters.tools.effects import (
    PAUSED,
    REPEAT,
    UNKNOWN,
    Ledger,
    RunningCall,
    ToolAnswer,
    await_saved_state,
    open_ledger,
)
from certigraph.adapters.tools.outcomes import Effect, Once, is_ambiguous
from certigraph.adapters.tools.positions import (
    find_node_position,
    find_position,
    has_answers,
    inside_call,
    is_sent,
    number_in_node,
    turn_of,
)
from certigraph.adapters.tools.world import effects_of
from certigraph.nodes.conversations import find_open, find_turn, note_made, rounds_in
from certigraph.nodes.questions import EnteredCall, QuestionLog
from certigraph.nodes.requests import read_messages
from certigraph.nodes.settlements import (
    UNDONE_TEXT,
    UNKNOWN_TEXT,
    fault_of_running,
    settle_by_rule,
    settle_earlier_turns,
)
from certigraph.state.tools import ToolCall, key_of_call

Execute = Callable[[RunnableConfig], Awaitable[Any]]

MANY = 10**9
"""Number of numbers that tell apart the calls of one run of a node."""


def once(tools: Sequence[BaseTool | Callable[..., Any]], effects: Mapping[str, Effect] | None = None) -> list[BaseTool]:
    """Return tools whose effects happen once, for LangChain's `create_agent`, deepagents or any `ToolNode`.

    Their calls are entered in the checkpointer of the graph that calls them. A call that is resumed, replayed, forked
    or retried is answered from there. A call whose outcome is unknown interrupts the graph, as in certigraph's agents.
    Without a checkpointer the tools work as they are.

    Args:
        tools: LangChain tools and functions, plain or async.
        effects: as for `agent`: tools whose calls may be repeated, which are returned as they are, and rules such as
            `{"refund": Once(key=..., scope="thread")}`. Hints of an MCP server count where nothing is given.

    Raises:
        TypeError, ValueError: a tool cannot be used, or `effects` names no tool.
    """
    loaded = load_tools(tools)
    given = effects_of(loaded, effects or {})
    return [
        tool.tool if given.get(name) == "repeatable" else make_once(tool.tool, given.get(name))
        for name, tool in loaded.items()
    ]


def make_once(tool: BaseTool, effect: Effect | None = None) -> BaseTool:
    """Return a copy of a tool whose effect happens once; the tool itself if it is such a copy.

    Args:
        tool: the tool.
        effect: how its effect happens once.

    Raises:
        ValueError: the arguments of the tool cannot be written as JSON.
    """
    if getattr(type(tool), ONCE_MARK, False):
        return tool
    rule = effect if isinstance(effect, Once) else Once()
    made, kind = _OnceTool(tool.name, names_shown(tool), rule), type(tool)

    class OnceTool(kind):  # type: ignore[valid-type, misc]
        def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
            plain = _with_class(self, kind)

            async def execute(config: RunnableConfig) -> Any:
                return plain.invoke(input, config, **kwargs)

            return wait_for_node(_make(made, input, ensure_config(config), execute))

        async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
            plain = _with_class(self, kind)  # the async form of a tool without one calls `invoke` of the tool itself
            return await _make(
                made, input, ensure_config(config), lambda config: plain.ainvoke(input, config, **kwargs)
            )

    setattr(OnceTool, ONCE_MARK, True)
    return _with_class(tool, OnceTool)


ONCE_MARK = "__certigraph_once__"
"""Attribute of the classes of tools whose effect happens once, and of middleware that makes it so."""


def _with_class(tool: BaseTool, kind: type[BaseTool]) -> BaseTool:
    """Return a copy of a tool, of a class that differs from its own in how it is invoked."""
    copy = tool.model_copy()
    copy.__class__ = kind
    return copy


class ToolCopies:
    """Copies of the tools of running agents, each made once.

    Args:
        make: makes a copy.
    """

    def __init__(self, make: Callable[[BaseTool], BaseTool]) -> None:
        self._make = make
        self._known: dict[str, tuple[BaseTool, BaseTool]] = {}

    def of(self, tool: BaseTool) -> BaseTool:
        """Return the copy of a tool."""
        known = self._known.get(tool.name)
        if known is None or known[0] is not tool:
            known = self._known[tool.name] = tool, self._make(tool)
        return known[1]


class _OnceTool(NamedTuple):
    name: str
    shown: frozenset[str]
    """Names of the arguments that a model gives, without what `ToolNode` injects."""
    rule: Once

    def call(self, args: Mapping[str, Any]) -> ToolCall:
        return ToolCall(name=self.name, args={name: value for name, value in args.items() if name in self.shown})


async def _make(tool: _OnceTool, given: Any, config: RunnableConfig, execute: Execute) -> Any:
    """Make a call through the ledger of the graph in which it is made."""
    ledger, rule = open_ledger(config), tool.rule
    if not ledger.lasts or not isinstance(given, Mapping):
        return await execute(config)
    call = tool.call(given.get("args", given))
    chosen, before = await _identify(tool, call, given, config)
    ledger = open_ledger(config, turn_of(chosen))
    key, questions = rule.bind(call.name, call.args, turn_of(chosen), chosen), QuestionLog(ledger, config)
    entry, earlier = await ledger.read(key), list[tuple[ToolCall, str]]()
    if entry.exists or has_answers(config) or await ledger.find_open():  # otherwise the node has asked nothing
        await questions.load()
        if not await questions.settle():
            return _answer(STOPPED_TEXT, given, ())
        earlier = await settle_earlier_turns(ledger, {tool.name: rule}, questions)
        entry = await ledger.read(key)
    again = False
    if before and key == chosen and not entry.exists:
        earlier_call = EnteredCall(call, before, await ledger.read(before), chosen=before)
        again = await _Making(earlier_call, rule, ledger, questions, config).is_lost()
    one = EnteredCall(call, key, entry, again, chosen)
    returned = await _Making(one, rule, ledger, questions, config).make(execute)
    answer = _answer(returned, given, [f"{made}: {text}" for made, text in earlier])
    return _note_changed(answer, tool, call, given, config)


def _note_changed(
    answer: Any, tool: _OnceTool, call: ToolCall, given: Mapping[str, Any], config: RunnableConfig
) -> Any:
    """Return an answer that says which call was made, if a person or middleware changed it after the model chose it.

    The messages of the graph then have it, also after a resume.
    """
    found = [one for one in find_open(read_messages(config)) if one["id"] == given.get("id")]
    if not found or not isinstance(answer, ToolMessage):
        return answer
    chosen = ToolCall(name=found[0]["name"], args=tool.call(found[0]["args"]).args)
    made = CalledTool(name=call.name, args=dict(call.args), id=found[0]["id"])
    return answer if chosen == call else note_made(answer, made)


async def _identify(
    tool: _OnceTool, call: ToolCall, given: Mapping[str, Any], config: RunnableConfig
) -> tuple[str, str]:
    """Return what identifies a call, and what identifies the equal call before it; empty if there is none.

    It is the turn, the graph, and how many equal calls its agent chose before in the turn. Where the calls are not
    those of the graph's messages, the run of the node counts instead.
    """
    messages, before, found = read_messages(config), 0, -1
    for one in [call for part in rounds_in(messages[find_turn(messages) :]) for call in part.calls]:
        if one["id"] == given.get("id"):  # the last one, since some models give an id to a call of each response
            found = before
        before += one["name"] == tool.name and tool.call(one["args"]) == call
    if found >= 0:
        place = await find_position(config)
        return key_of_call(place, call, found), key_of_call(place, call, found - 1) if found else ""
    place = await find_node_position(config)
    return key_of_call(place, call, number_in_node(config, call.digest())), ""


class _Making:
    """One call of a wrapped tool."""

    def __init__(
        self, one: EnteredCall, rule: Once, ledger: Ledger, questions: QuestionLog, config: RunnableConfig
    ) -> None:
        self._one, self._rule, self._ledger, self._questions, self._config = one, rule, ledger, questions, config

    async def is_lost(self) -> bool:
        """Return whether the call happened, as far as anybody knows, and its answer is lost.

        Raises:
            GraphInterrupt: a person has to decide about its outcome; the question may have ended the work before.
        """
        if self._one.entry.start:
            await self._settle()
        return self._one.entry.answer is not None and self._one.entry.answer.lost

    async def make(self, execute: Execute) -> Any:
        """Make the call if its effect has not happened; return what the tool returned, then or now.

        Raises:
            GraphInterrupt: a person has to decide about an outcome.
            Fault: ("environment") the call runs elsewhere.
        """
        if self._one.entry.start or self._one.again:
            await self._settle()
        if self._one.entry.answer:
            return _restore(self._one.entry.answer)
        await await_saved_state(self._config)
        call = self._one.call
        with RunningCall(call.name, call.args, float("inf"), self._one.chosen) as start:
            if not await self._ledger.start(self._one.key, self._one.entry, start):
                raise fault_of_running(call)
            try:
                number = uuid5(NAMESPACE_OID, self._one.key).int % MANY
                with inside_call(self._config, self._one.key, number) as inner:
                    returned = await execute(inner)
            except GraphBubbleUp:
                await self._ledger.note(self._one.key, self._one.entry.attempts, PAUSED)
                raise
            except Exception as error:
                unknown = is_ambiguous(error, self._rule.ambiguous)
                await self._ledger.note(self._one.key, self._one.entry.attempts, UNKNOWN if unknown else REPEAT)
                if not unknown:
                    raise
            else:
                answer = ToolAnswer(text=bound_text(_text_of(returned)), outputs=(returned,))
                await self._ledger.finish(self._one.key, answer)
                return returned
        await self._settle()
        answer = self._one.entry.answer or ToolAnswer(text=UNDONE_TEXT, failed=True)
        return _restore(answer)

    async def _settle(self) -> None:
        self._one = self._one._replace(entry=await self._ledger.read(self._one.key))
        if self._one.entry.runs_elsewhere:
            raise fault_of_running(self._one.call)
        if await settle_by_rule(self._one, self._rule, self._ledger):
            if _is_alone(self._config):
                await self._questions.ask([self._one])
            await self._ledger.finish(self._one.key, ToolAnswer(text=UNKNOWN_TEXT, failed=True, lost=True))
        self._one = self._one._replace(entry=await self._ledger.read(self._one.key))


def _is_alone(config: RunnableConfig) -> bool:
    """Return whether a node makes one call only: LangGraph cannot tell apart the questions of several at once."""
    if is_sent(config):
        return True
    latest = next((one for one in reversed(read_messages(config)) if isinstance(one, AIMessage)), None)
    return latest is None or len(latest.tool_calls) < 2


def _restore(answer: ToolAnswer) -> Any:
    if answer.outputs:
        return answer.outputs[0]
    return ToolMessage(answer.text, tool_call_id="", status="error" if answer.failed else "success")


def _text_of(returned: Any) -> str:
    return format_content(returned.content if isinstance(returned, ToolMessage) else str(returned))


def _answer(returned: Any, given: Mapping[str, Any], notes: Sequence[str]) -> Any:
    """Return the answer to this call: one from the ledger has the id of the call that was made."""
    id_ = given.get("id") if given.get("type") == "tool_call" else None
    if id_ is None:
        return returned.content if isinstance(returned, ToolMessage) and not returned.tool_call_id else returned
    if isinstance(returned, Command) and isinstance(returned.update, Mapping):
        messages = [_address(one, id_) for one in returned.update.get("messages", ())]
        return Command(**{**vars(returned), "update": {**returned.update, "messages": messages}})
    if not isinstance(returned, ToolMessage):
        returned = ToolMessage(str(returned), tool_call_id=id_)
    answer = _address(returned, id_).model_copy(update={"name": str(given["name"])})
    if notes and isinstance(answer.content, str):
        return answer.model_copy(update={"content": "\n".join([*notes, answer.content])})
    return answer


def _address(message: Any, id_: str) -> Any:
    return message.model_copy(update={"tool_call_id": id_}) if isinstance(message, ToolMessage) else message


STOPPED_TEXT = "A person ended the work at a question about this call, whose outcome is not known."

__all__ = ["ONCE_MARK", "ToolCopies", "make_once", "once"]
