"""Asking a model for calls of tools: by its own tool calling where it has it, else as JSON by a schema of all tools."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.runtime import Runtime

from certigraph.adapters.composed_chat import models_in
from certigraph.adapters.models.calls import JSON_INSTRUCTION, AnswerForm, model_for, profile_of, request_answer
from certigraph.adapters.models.prompts import Prompt
from certigraph.adapters.models.schemas import (
    FENCE,
    MAX_CALL_CHARS,
    MAX_REPAIRED_CHARS,
    THOUGHT_END,
    ParseError,
    Schema,
    check_end,
    parse_arguments,
    parse_reply,
)
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.models.streams import ArgumentOf, watch_reply
from certigraph.adapters.protocols import Context
from certigraph.state.run import FINISH
from certigraph.state.tools import ANSWER_ARGUMENT, ToolCall, parse_calls

MAX_CALLS = 16
"""Maximum number of calls of one answer that are made; the rest is refused."""

BEYOND_MOST = "This call and all after it, {count} in all, were not made, because at most {most} are made at once."

THOUGHT = "thought"
"""Key of the thought in a reply that is JSON; a model that calls tools natively writes it as text before the calls."""


class OfferedTool(NamedTuple):
    """A tool as it is offered to a model."""

    name: str
    description: str
    parameters: Schema
    """JSON schema of the arguments, an object."""
    check: Callable[[dict[str, Any]], str] = lambda args: ""
    """Returns what is wrong with the arguments of a call; empty if they fit."""
    bounded: Schema | None = None
    """The schema with every list bounded, for answers that a grammar constrains; None if that is `parameters`."""
    hidden: bool = False
    """Whether no model is shown the tool. A call of it is read all the same, so that it can be refused by its name."""
    provided: Schema | None = None
    """The tool as it is handed to a model whose provider executes it; None for a tool that is called here."""


class ToolChoice(NamedTuple):
    """Calls that a model chose, in order, and the thought before them."""

    thought: str
    calls: tuple[ToolCall, ...]
    message_id: str = ""
    """Id of the message as which the answer in them was shown while it arrived; empty if it was not."""


async def ask_tool_calls(
    prompt: Prompt,
    tools: Sequence[OfferedTool],
    *,
    role: str,
    runtime: Runtime[Context],
    answer: ArgumentOf | None = None,
    listing: str = "",
) -> ToolChoice:
    """Ask the model of a role for one call or several calls of the offered tools.

    Whoever streams messages from the graph sees the answer of the run while it arrives.

    Args:
        prompt: the prompt.
        tools: the offered tools.
        role: role of the model.
        runtime: the node's runtime.
        answer: where the answer of the run stands in the calls, which is shown; None if nothing is shown.
        listing: the tools as text, for a model that does not call tools natively; it ends the system prompt.

    Raises:
        LimitReached: the run's budget does not allow another call.
        Fault: the endpoint failed, or none of three answers was valid.
    """
    context = runtime.context or Context()
    native = has_tool_calling(await model_for(role, context))
    shown = [tool for tool in tools if not tool.hidden]
    handed = tuple(map(native_tool, shown)) if native else ()
    tools = [tool for tool in tools if tool.provided is None]
    shape = calls_schema([tool for tool in shown if tool.provided is None])
    window = (await profile_of(role, runtime)).window if prompt.cut else 0
    form = AnswerForm(
        "ToolCalls",
        shape,
        lambda text: read_calls(text, tools),
        cut=prompt.cut,
        window=window,
        tools=handed,
        stream=(stream := watch_reply(answer, context.message_id) if answer and context.message_id else None),
    )
    system = prompt.system if native else "\n".join(filter(None, (prompt.system, listing, JSON_INSTRUCTION)))
    choice = await request_answer([SystemMessage(system), HumanMessage(prompt.user)], form, role, context)
    return choice._replace(message_id=stream.message_id) if stream else choice


def has_tool_calling(model: BaseChatModel) -> bool:
    """Return whether a model calls tools natively; scripted models, and local ones, answer by the schema.

    Its class has to implement that, and its profile, if it says anything about that, must not deny it. This holds for
    each model of a chat model that is made of several.
    """
    return all(map(_calls_tools, models_in(model)))


def _calls_tools(model: BaseChatModel) -> bool:
    implements = not isinstance(model, ScriptedChat) and type(model).bind_tools is not BaseChatModel.bind_tools
    return implements and (model.profile or {}).get("tool_calling", True)


def calls_schema(tools: Sequence[OfferedTool]) -> Schema:
    """Return the JSON schema of an answer with a thought and calls of any of the tools."""
    options = [
        {
            "type": "object",
            "description": tool.description,
            "properties": {"name": {"type": "string", "const": tool.name}, "args": tool.bounded or tool.parameters},
            "required": ["name", "args"],
            "additionalProperties": False,
        }
        for tool in tools
    ]
    calls = {"type": "array", "items": {"anyOf": options}, "minItems": 1, "maxItems": MAX_CALLS}
    return {
        "type": "object",
        "properties": {THOUGHT: {"type": "string"}, "calls": calls},
        "required": [THOUGHT, "calls"],
        "additionalProperties": False,
    }


def native_tool(tool: OfferedTool) -> Schema:
    """Return a tool in the form of OpenAI's interface, which LangChain's models accept.

    A tool that the provider executes is returned as it was given.
    """
    if tool.provided is not None:
        return tool.provided
    parameters = {"properties": {}, "required": [], **tool.parameters, "type": "object"}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def read_calls(text: str, tools: Sequence[OfferedTool]) -> ToolChoice:
    """Read the calls from a model's reply. Of more than `MAX_CALLS` the next one stands for the rest, refused.

    Also read are a single call, as many models write it without tags where their endpoint does not know their form, and
    calls in the form in which prompts show actions.

    Raises:
        ParseError: there is none, or a call names no offered tool or has arguments that do not fit.
    """
    known = {tool.name: tool for tool in tools}
    listed = ", ".join(name for name, tool in known.items() if not tool.hidden)
    check_end(text.rpartition(THOUGHT_END)[2].strip())
    value = _read_written_calls(text)
    if not value and "{" in text:
        several = _read_listed_calls(text)
        value = {"calls": several} if several else parse_reply(text, READABLE, most=MAX_CALL_CHARS, integers=True)
    given = value.get("calls", value if "name" in value else None)
    if isinstance(given, dict):
        given = [given]
    if not isinstance(given, list) or not given:
        raise ParseError(f"it calls none of the tools {listed}; a call is written as {CALL_FORM}")
    thoughts, calls = [str(value.get(THOUGHT) or "")], []
    for one in given[:MAX_CALLS]:
        name, args = _read_call(one) if isinstance(one, dict) else (one, {})
        if not isinstance(name, str) or name not in known:
            raise ParseError(f"{name!r:.100} is not one of the tools {listed}")
        tool = known[name]
        args = _read_arguments(name, args)
        if THOUGHT not in tool.parameters.get("properties", {}):
            thoughts.append(str(args.pop(THOUGHT, "")))
        if problem := tool.check(args):
            raise ParseError(problem)
        calls.append(ToolCall(name=tool.name, args=args))
    if beyond := given[MAX_CALLS:]:
        calls.append(_refuse_beyond(beyond))
    return ToolChoice(next(filter(None, thoughts), ""), tuple(calls))


CALL_FORM = 'name(argument="value")'
"""The form in which prompts show calls."""

_ANSWER_OPENING = re.compile(rf"\W*(?:Action: *)?{FINISH}\[")
_OPEN_CALL = re.compile(r"\s*(?:Action: *)?\w+\([^()]*\s*")
_WORD = re.compile(r"\w")


def _read_written_calls(text: str) -> dict[str, Any]:
    """Return thought and calls of a reply whose calls stand in lines of their own, as prompts show them.

    Such lines are `look_up(number=17)`, `Action: look_up(number=17); refund(number=17)` and `finish[It is refunded.]`,
    which may go on to the end of the reply.

    Raises:
        ParseError: the last line is a call that does not end.
    """
    text = text.rpartition(THOUGHT_END)[2].strip()
    end = text.rfind("]")
    has_answer = end >= 0 and not _WORD.search(text, end)
    thoughts, calls, position = [], list[Any](), 0
    for line in text.splitlines(keepends=True):
        opening = _ANSWER_OPENING.match(line) if has_answer else None
        if opening:
            calls.append({"name": FINISH, "args": {ANSWER_ARGUMENT: text[position + opening.end() : end]}})
            break
        position += len(line)
        readable = "(" in line and position <= MAX_REPAIRED_CHARS
        made = parse_calls(line.strip().strip("`").removeprefix("Action:").strip()) if readable else []
        calls += [call.as_json() for call in made]
        thoughts += [] if made else [line]
    if calls and (opened := _OPEN_CALL.fullmatch(thoughts[-1] if thoughts else "")) and text.endswith(opened[0]):
        raise ParseError(f"the answer was cut: {opened[0].strip()!r:.100} does not end")
    return {THOUGHT: _without_label("".join(thoughts)), "calls": calls} if calls else {}


def _without_label(thought: str) -> str:
    return thought.strip().removeprefix("Thought:").strip()


_JSON_OPENING = re.compile(r"[\[{]")
_BETWEEN_CALLS = re.compile(rf"(?:[\s,]|</?tool_call>|{FENCE}(?:json)?)*")


def _read_listed_calls(text: str) -> list[Any]:
    """Return the calls of a reply that holds several as JSON, in a list or one after another; empty for another reply.

    Raises:
        ParseError: words stand between them, so that it is open which of them are meant.
    """
    text = text.rpartition(THOUGHT_END)[2]
    decoder, calls, position, end = json.JSONDecoder(strict=False), list[Any](), 0, 0
    while len(text) <= MAX_REPAIRED_CHARS and (opening := _JSON_OPENING.search(text, position)):
        try:
            value, position = decoder.raw_decode(text, opening.start())
        except RecursionError:
            return []
        except ValueError:
            position = opening.end()
            continue
        given = value if isinstance(value, list) else [value]
        if any(isinstance(one, dict) and "calls" in one for one in given):
            return []
        if not given or not all(isinstance(one, dict) and "name" in one for one in given):
            continue
        if calls and not _BETWEEN_CALLS.fullmatch(text, end, opening.start()):
            raise ParseError("it holds several calls with words between them: give those that are meant as one list")
        calls, end = [*calls, *given], position
    return calls if len(calls) > 1 else []


READABLE: Schema = {"type": "object", "properties": {THOUGHT: {}, "calls": {}, "name": {}}}
"""Shape of the replies that hold calls, or one."""

ARGUMENT_KEYS = ("args", "arguments", "parameters")
"""Keys of a call under which models write its arguments."""


def _refuse_beyond(calls: Sequence[Any]) -> ToolCall:
    """Return the first of the calls that are too many, refused for all of them: a runaway list would fill the state."""
    name, args = _read_call(calls[0]) if isinstance(calls[0], dict) else (calls[0], {})
    refused = BEYOND_MOST.format(count=len(calls), most=MAX_CALLS)
    return ToolCall(name=f"{name!s:.100}", args=args if isinstance(args, dict) else {}, refused=refused)


def _read_call(call: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return name and arguments of a call as they are written."""
    return call.get("name"), next((call[key] for key in ARGUMENT_KEYS if call.get(key)), {})


def _read_arguments(name: str, given: Any) -> dict[str, Any]:
    """Return the arguments of a call; they may be JSON in a text, as in OpenAI's interface."""
    try:
        args = parse_arguments(given)
    except ParseError as error:
        raise ParseError(f"the arguments of {name} cannot be read: {error}") from error
    if not isinstance(args, dict):
        raise ParseError(f"the arguments of {name} are not a JSON object")
    return args
