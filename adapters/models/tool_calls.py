"""Asking a model for calls of tools: by its own tool calling where it has it, else as JSON by a schema of all tools."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.runtime import Runtime

from certigraph.adapters.models.calls import JSON_INSTRUCTION, AnswerForm, model_for, profile_of, request_answer
from certigraph.adapters.models.chat_models import unwrap_model
from certigraph.adapters.models.prompts import Prompt
from certigraph.adapters.models.schemas import ParseError, Schema, parse_reply
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context
from certigraph.state.tools import ToolCall

MAX_CALLS = 16
"""Maximum number of calls in one answer; the rest is dropped."""

THOUGHT = "thought"
"""Name of the argument that is added to every tool, so that a model reasons before it gives the others."""

THOUGHT_DESCRIPTION = "what is established so far, what is missing, and why this call is the next one"


class OfferedTool(NamedTuple):
    """A tool as it is offered to a model."""

    name: str
    description: str
    parameters: Schema
    """JSON schema of the arguments, an object."""
    check: Callable[[dict[str, Any]], str] = lambda args: ""
    """Returns what is wrong with the arguments of a call; empty if they fit."""


class ToolChoice(NamedTuple):
    """Calls that a model chose, in order, and the thought before them."""

    thought: str
    calls: tuple[ToolCall, ...]


async def ask_tool_calls(
    prompt: Prompt, tools: Sequence[OfferedTool], *, role: str, runtime: Runtime[Context]
) -> ToolChoice:
    """Ask the model of a role for one call or several calls of the offered tools.

    Raises:
        LimitReached: the run's budget does not allow another call.
        Fault: the endpoint failed, or none of three answers was valid.
    """
    context = runtime.context or Context()
    native = has_tool_calling(await model_for(role, context))
    shape = calls_schema(tools)
    window = (await profile_of(role, runtime)).window if prompt.cut else 0
    form = AnswerForm(
        "ToolCalls",
        shape,
        lambda text: read_calls(text, shape, tools),
        cut=prompt.cut,
        window=window,
        tools=tuple(map(native_tool, tools)) if native else (),
    )
    system = prompt.system if native else f"{prompt.system}\n{JSON_INSTRUCTION}"
    return await request_answer([SystemMessage(system), HumanMessage(prompt.user)], form, role, context)


def has_tool_calling(model: BaseChatModel) -> bool:
    """Return whether a model's class implements tool calling; scripted models answer by the schema."""
    kind = type(unwrap_model(model))
    return not issubclass(kind, ScriptedChat) and kind.bind_tools is not BaseChatModel.bind_tools


def calls_schema(tools: Sequence[OfferedTool]) -> Schema:
    """Return the JSON schema of an answer with a thought and calls of any of the tools."""
    options = [
        {
            "type": "object",
            "properties": {"name": {"type": "string", "const": tool.name}, "args": tool.parameters},
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
    """Return a tool in the form of OpenAI's interface, which LangChain's models accept, with a thought as argument."""
    properties = tool.parameters.get("properties", {})
    required = list(tool.parameters.get("required", ()))
    if THOUGHT not in properties:
        properties = {THOUGHT: {"type": "string", "description": THOUGHT_DESCRIPTION}, **properties}
        required = [THOUGHT, *required]
    parameters = {**tool.parameters, "type": "object", "properties": properties, "required": required}
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def read_calls(text: str, shape: Schema, tools: Sequence[OfferedTool]) -> ToolChoice:
    """Read the calls from a model's reply.

    Raises:
        ParseError: there is none, or a call names no offered tool or has arguments that do not fit.
    """
    known = {tool.name: tool for tool in tools}
    value = parse_reply(text, shape) if "{" in text else {}
    given = value.get("calls")
    if isinstance(given, dict):
        given = [given]
    if not isinstance(given, list) or not given:
        raise ParseError(f"it calls none of the tools {', '.join(known)}")
    thoughts, calls = [str(value.get(THOUGHT) or "")], []
    for one in given[:MAX_CALLS]:
        name, args = (one.get("name"), one.get("args") or {}) if isinstance(one, dict) else (one, {})
        if name not in known:
            raise ParseError(f"{name!r:.100} is not one of the tools {', '.join(known)}")
        tool = known[str(name)]
        if not isinstance(args, dict):
            raise ParseError(f"the arguments of {name} are no JSON object")
        if THOUGHT not in tool.parameters.get("properties", {}):
            thoughts.append(str(args.pop(THOUGHT, "")))
        if problem := tool.check(args):
            raise ParseError(problem)
        calls.append(ToolCall(name=tool.name, args=args))
    return ToolChoice(next(filter(None, thoughts), ""), tuple(calls))
