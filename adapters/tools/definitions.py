"""Tools of the user: LangChain tools, MCP tools and plain callables in one form, and a bounded call of each."""

import asyncio
import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolCallId, StructuredTool, Tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command
from pydantic import BaseModel, ValidationError

from certigraph.adapters.json_lines import replace_surrogates
from certigraph.adapters.models.schemas import Schema, bound_schema
from certigraph.adapters.processes import run_in_lone_thread
from certigraph.adapters.redaction import redact_message
from certigraph.adapters.tools.effects import ToolAnswer
from certigraph.adapters.tools.outcomes import is_ambiguous
from certigraph.adapters.tools.positions import RUNTIME_KEY
from certigraph.adapters.user_warnings import warn_user
from certigraph.state.records import Arguments
from certigraph.state.run import ANSWER, FINISH

HOLDS, UNREACHABLE = "target_holds", "target_unreachable"
"""Names of the calls by which Realize says that no tool has to be called for the target, or that none can help."""

RESERVED_NAMES = frozenset({ANSWER, FINISH, HOLDS, UNREACHABLE})
"""Names that no tool may have: the agent hands in its answer, or judges its target, by them."""

MAX_ANSWER = 100_000
"""Maximum characters of a tool's answer; what is longer is cut, and the cut is noted in the answer."""

DEADLINE = 120.0
"""Default seconds after which a call without an answer is given up."""


@dataclass(frozen=True)
class LoadedTool:
    """A tool in the form in which agents use it."""

    name: str
    description: str
    parameters: Schema
    """JSON schema of the arguments."""
    tool: BaseTool
    deadline: float = DEADLINE
    """Seconds after which a call without an answer is given up."""

    def __str__(self) -> str:
        """Format the tool as prompts list it."""
        return format_tool(self.name, self.parameters, self.description)

    @property
    def function(self) -> Callable[..., Any] | None:
        """The function, plain or async, that the tool calls; None for a tool that is a class of its own."""
        called = (self.tool.func, self.tool.coroutine) if isinstance(self.tool, StructuredTool | Tool) else ()
        return next(filter(None, called), None)

    def check_arguments(self, args: Arguments) -> str:
        """Return what is wrong with the arguments of a call, by the tool's own schema; empty if they fit."""
        known, required = self.parameters.get("properties", {}), self.parameters.get("required", ())
        if missing := [name for name in required if name not in args]:
            return f"{self.name} needs {', '.join(missing)}"
        if "additionalProperties" not in self.parameters and (unknown := [name for name in args if name not in known]):
            return f"{self.name} has no argument {', '.join(unknown)}; it has {', '.join(known) or 'none'}"
        schema = self.tool.args_schema
        if not (isinstance(schema, type) and issubclass(schema, BaseModel)):
            return ""
        try:
            schema.model_validate(args)
        except ValidationError as error:
            wrong = [one for one in error.errors(include_url=False, include_input=False) if one["loc"][:1]]
            # arguments that LangChain fills in when the tool is called are not a mistake of the model
            problems = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in wrong if one["loc"][0] in known]
            return f"{self.name}: {'; '.join(problems)}" if problems else ""
        return ""

    async def call(self, args: Arguments, ambiguous: tuple[type[BaseException], ...] = ()) -> ToolAnswer:
        """Call the tool. An error that it raises, and an answer that does not come in time, are answers too.

        Args:
            args: the arguments.
            ambiguous: further errors after which it is unknown whether the call took effect.

        Raises:
            GraphBubbleUp: the tool interrupted the graph.
        """
        try:
            async with asyncio.timeout(self.deadline):  # `wait_for` would start a task
                return await self._invoke(args, ambiguous)
        except TimeoutError:
            text = f"{self.name} gave no answer within {self.deadline:g} seconds; {NOT_KNOWN}"
            return ToolAnswer(text=text, failed=True, unknown=True)

    async def _invoke(self, args: Arguments, ambiguous: tuple[type[BaseException], ...]) -> ToolAnswer:
        request: Any = {"name": self.name, "args": args, "id": uuid4().hex, "type": "tool_call"}
        config = _show_own_context()
        try:
            if _is_async(self.tool):
                message = await self.tool.ainvoke(request, config)
            else:
                message = await run_in_lone_thread(self.tool.invoke, request, config)
        except GraphBubbleUp:
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return _failed(
                error, (asyncio.CancelledError,)
            )  # the tool cancelled itself, as clients do that lose their connection
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a tool may raise anything; the agent has to know it
            return _failed(error, ambiguous)
        if isinstance(message, Command):
            return ToolAnswer(text=COMMAND_TEXT)
        failed = isinstance(message, ToolMessage) and message.status == "error"
        content = message.content if isinstance(message, ToolMessage) else message
        return ToolAnswer(text=redact_message(bound_text(format_content(content))), failed=failed)


def _show_own_context() -> RunnableConfig | None:
    """Return the running node's configuration with the caller's own context in place of certigraph's, if there is one.

    A tool then reads it as in any other LangGraph application: `langgraph.runtime.get_runtime(MyContext).context`.
    """
    try:
        config = get_config()
    except RuntimeError:  # called outside of a graph
        return None
    configurable = config.get("configurable", {})
    runtime: Any = configurable.get(RUNTIME_KEY)
    own = getattr(getattr(runtime, "context", None), "own", None)
    if own is None:
        return None
    shown: RunnableConfig = {**config, "configurable": {**configurable, RUNTIME_KEY: runtime.override(context=own)}}
    return shown


def _is_async(tool: BaseTool) -> bool:
    if isinstance(tool, StructuredTool | Tool):
        return tool.coroutine is not None
    return type(tool)._arun is not BaseTool._arun


COMMAND_TEXT = "(The tool ran. It returned a Command for a graph, which was not carried out, and no text.)"


NOT_KNOWN = "whether it took effect is not known."


def _failed(error: BaseException, ambiguous: tuple[type[BaseException], ...]) -> ToolAnswer:
    unknown = is_ambiguous(error, ambiguous)
    text = f"{_format_error(error)}; {NOT_KNOWN}" if unknown else _format_error(error)
    return ToolAnswer(text=redact_message(bound_text(text)), failed=True, unknown=unknown)


def _format_error(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):  # clients of MCP servers raise groups, whose own text says nothing
        error = error.exceptions[0]
    return ": ".join(filter(None, (type(error).__name__, str(error))))


def load_tools(tools: Sequence[BaseTool | Callable[..., Any]], deadline: float = DEADLINE) -> dict[str, LoadedTool]:
    """Bring tools into one form, by name.

    Args:
        tools: LangChain tools (those of an MCP server included) and functions, plain or async.
        deadline: seconds after which a call without an answer is given up.

    Raises:
        TypeError: an object is neither a tool nor a function, or there is no list of them.
        ValueError: there is no tool, two tools have one name, a name is reserved, a tool's arguments cannot be written
            as JSON, or it needs arguments that no model gives.
    """
    if isinstance(tools, BaseTool | str) or callable(tools):
        kind = "a text" if isinstance(tools, str) else "a single tool"
        raise TypeError(f"tools is {kind}: give a list of functions or tools, as in tools=[look_up_order]")
    loaded: dict[str, LoadedTool] = {}
    for given in tools:
        tool = _load_tool(given, deadline)
        if tool.name in loaded:
            raise ValueError(f"two tools have the name {tool.name!r}: rename one, as in @tool('another_name')")
        if tool.name in RESERVED_NAMES:
            reason = f"the tool name {tool.name!r} is taken: the agent uses it for calls of its own"
            raise ValueError(f"{reason}; rename the tool, as in @tool('{tool.name}_order')")
        loaded[tool.name] = tool
    if not loaded:
        fix = "give functions with type hints, LangChain tools, or tools of an MCP server"
        raise ValueError(f"tools is empty, and an agent acts by calling tools: {fix}")
    return loaded


def _load_tool(given: Any, deadline: float) -> LoadedTool:
    if not isinstance(given, BaseTool):
        given = _wrap_function(given)
    try:
        described = convert_to_openai_tool(given)["function"]
        parameters = bound_schema(described.get("parameters") or {"type": "object", "properties": {}})
        json.dumps(parameters)
    except Exception as error:  # noqa: BLE001 - for types without a JSON form many kinds of errors are raised
        fix = "give its parameters types that JSON has, or args_schema=MyModel"
        raise ValueError(
            f"the arguments of tool {given.name!r} cannot be written as JSON ({_shorten(error)}): {fix}"
        ) from None
    if hidden := _hidden_arguments(given, parameters):
        fix = "leave them out, or give them defaults"
        raise ValueError(
            f"the tool {given.name!r} needs {', '.join(hidden)}, which a model neither sees nor gives: {fix}"
        )
    return LoadedTool(given.name, described.get("description", "").strip(), parameters, given, deadline)


def _hidden_arguments(tool: BaseTool, parameters: Schema) -> list[str]:
    """Return the required arguments that a model is not shown, without the id of the call, which LangChain gives."""
    schema = tool.args_schema
    if not (isinstance(schema, type) and issubclass(schema, BaseModel)):
        return []
    shown = parameters.get("properties", {})
    return [
        name
        for name, field in schema.model_fields.items()
        if field.is_required() and not {name, field.alias} & set(shown) and not _is_call_id(field.metadata)
    ]


def _is_call_id(metadata: Sequence[Any]) -> bool:
    return any(one is InjectedToolCallId or isinstance(one, InjectedToolCallId) for one in metadata)


def _shorten(error: Exception) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text.partition(" For further information")[0][:200]


def _wrap_function(given: Any) -> BaseTool:
    name = getattr(given, "__name__", "")
    if not callable(given) or isinstance(given, type) or not name.isidentifier():
        advice = "give a function with type hints, or a LangChain tool"
        raise TypeError(f"{given!r:.100} is not a tool: {advice}")
    text = inspect.getdoc(given) or name
    with suppress(ValueError):  # a builtin may have no signature
        _warn_of_undescribed(given, name)
    try:
        if inspect.iscoroutinefunction(given):
            return StructuredTool.from_function(coroutine=given, name=name, description=text)
        return StructuredTool.from_function(given, name=name, description=text)
    except Exception as error:  # noqa: BLE001 - for types without a JSON form many kinds of errors are raised
        fix = "give its parameters types that JSON has"
        raise ValueError(f"the function {name!r} cannot be a tool ({_shorten(error)}): {fix}") from None


def _warn_of_undescribed(function: Callable[..., Any], name: str) -> None:
    """Warn of a function without docstring or type hints: of such a tool a model knows little more than its name."""
    parameters = inspect.signature(function).parameters.values()
    bare = [one.name for one in parameters if one.annotation is inspect.Parameter.empty]
    lacking = [*([] if inspect.getdoc(function) else ["a docstring"]), *(f"a type hint for {one}" for one in bare)]
    if lacking:
        warn_user(f"the tool {name!r} lacks {', '.join(lacking)}, by which a model knows what it does")


def format_tool(name: str, parameters: Schema, description: str) -> str:
    """Format a tool as prompts list it: signature and description, then a line for each argument with a description."""
    properties, required = parameters.get("properties", {}), parameters.get("required", ())
    shown = [
        f"{one}: {_type_of(part)}" + ("" if one in required else " (optional)") for one, part in properties.items()
    ]
    described = [(one, " ".join(_descriptions(part))) for one, part in properties.items()]
    arguments = [f"  {one}: {text}".replace("\n", "\n    ") for one, text in described if text]
    signature = f"{name}({', '.join(shown)})" + (f": {description}" if description else "")
    return "\n".join([signature, *arguments]).replace("\n", "\n  ")


def _type_of(part: Schema) -> str:
    if "enum" in part:
        return " | ".join(map(json.dumps, part["enum"]))
    if options := _options(part):
        return _type_of(options[0])
    kind = str(part.get("type", "any"))
    return f"list of {_type_of(part.get('items', {}))}" if kind == "array" else kind


def _options(part: Schema) -> list[Schema]:
    return [option for option in part.get("anyOf", ()) if option.get("type") != "null"]


def _descriptions(part: Schema) -> Iterator[str]:
    if part.get("description"):
        yield part["description"].strip()
    for inner in (*_options(part)[:1], part.get("items")):
        if isinstance(inner, dict):
            yield from _descriptions(inner)


def format_content(content: Any) -> str:
    """Format what a tool returned as text: text as it is, other values as JSON, and a note for what is not text."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(map(_format_block, content))
    return _to_json(content)


def _format_block(block: Any) -> str:
    if isinstance(block, str):
        return block
    if isinstance(block, dict) and block.get("type") == "text":
        return str(block.get("text", ""))
    if isinstance(block, dict) and block.get("type") in ("image", "image_url", "audio", "file", "video"):
        return f"({block['type']} left out: only text is read)"
    return _to_json(block)


def _to_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return str(value)


def bound_text(text: str) -> str:
    """Return a text that can be stored, cut to `MAX_ANSWER` characters with a note that says so."""
    text = replace_surrogates(text)
    if len(text) <= MAX_ANSWER:
        return text
    return f"{text[:MAX_ANSWER]}\n(cut here: the answer has {len(text):,} characters, of which {MAX_ANSWER:,} are kept)"
