"""Tools of the user: LangChain tools, MCP tools and plain callables in one form, and a bounded call of each."""

import asyncio
import inspect
import json
import logging
import re
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, Tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp
from langgraph.runtime import Runtime
from pydantic import BaseModel, ValidationError

from certigraph.adapters.models.prompts import quote
from certigraph.adapters.models.schemas import Schema, bound_schema
from certigraph.adapters.processes import is_invoked, run_in_lone_thread
from certigraph.adapters.redaction import redact_message
from certigraph.adapters.tools import masks
from certigraph.adapters.tools.arguments import form_of_shown, list_received
from certigraph.adapters.tools.builtin import is_builtin_look_up
from certigraph.adapters.tools.contents import bound_text, format_error
from certigraph.adapters.tools.effects import ToolAnswer
from certigraph.adapters.tools.outcomes import is_ambiguous
from certigraph.adapters.tools.outputs import read_outputs
from certigraph.adapters.tools.positions import RUNTIME_KEY
from certigraph.adapters.tools.schemas import (
    MAX_SCHEMA,
    create_check,
    describe_alternatives,
    describe_unknown,
    flatten_schema,
    format_tool,
    resolve_schema,
)
from certigraph.adapters.tools.servers import SERVER_NAME, is_from_server, quote_misfit, separate_texts
from certigraph.adapters.tools.signatures import by_keyword, find_disagreement, find_hidden, names_filled
from certigraph.adapters.user_warnings import warn_user
from certigraph.state.records import Arguments
from certigraph.state.run import ANSWER, FINISH

if TYPE_CHECKING:
    from langgraph.prebuilt import ToolNode

HOLDS, UNREACHABLE = "target_holds", "target_unreachable"
"""Names of the calls by which Realize says that no tool has to be called for the target, or that none can help."""

RESERVED_NAMES = frozenset({ANSWER, FINISH, HOLDS, UNREACHABLE})
"""Names that no tool may have: the agent hands in its answer, or judges its target, by them."""

DEADLINE = 120.0
"""Default seconds after which a call without an answer is given up."""


@dataclass(frozen=True)
class LoadedTool:
    """A tool in the form in which agents use it."""

    name: str
    description: str
    parameters: Schema
    """JSON schema of the arguments as models are shown it: an object with properties."""
    schema: Schema
    """Complete JSON schema of the arguments."""
    tool: BaseTool
    node: "ToolNode"
    """LangGraph's node that executes the tool, and the agent's other tools."""
    listing: str
    """The tool as prompts list it."""
    deadline: float = DEADLINE
    """Seconds after which a call without an answer is given up."""

    def __str__(self) -> str:
        """Format the tool as prompts list it."""
        return self.listing

    @property
    def function(self) -> Callable[..., Any] | None:
        """The function, plain or async, that the tool calls; None for a tool that is a class of its own."""
        called = (self.tool.func, self.tool.coroutine) if isinstance(self.tool, StructuredTool | Tool) else ()
        return next(filter(None, called), None)

    @property
    def may_be_repeated(self) -> bool:
        """Whether hints of an MCP server say that the tool only reads, or that a repetition changes nothing.

        So may tools that an agent framework brings and that change nothing outside of the agent.
        """
        return may_be_repeated(self.tool)

    @property
    def sets_value(self) -> bool:
        """Whether the tool may be repeated and still changes something, so that its calls must keep their order."""
        return sets_value(self.tool)

    @cached_property
    def bounded(self) -> Schema:
        """The schema for models and with every list bounded, for answers that a grammar constrains."""
        return bound_schema(self.parameters)

    @cached_property
    def _find_misfit(self) -> Callable[[Mapping[str, Any]], str]:
        return create_check(self.schema)

    def check_arguments(self, args: Arguments) -> str:
        """Return what is wrong with the arguments of a call, by the tool's own schema; empty if they fit."""
        form, known = self.tool.args_schema, self.parameters["properties"]
        if not (isinstance(form, type) and issubclass(form, BaseModel)):
            problem = self._find_misfit(args)
            return f"{self.name}: {problem}" if problem else ""
        if missing := [name for name in self.parameters.get("required", ()) if name not in args]:
            return f"{self.name} needs {', '.join(missing)}"
        is_open = "additionalProperties" in self.parameters
        if not is_open and (unknown := [name for name in args if name not in known]):
            return f"{self.name}: {describe_unknown(unknown, known)}"
        try:
            form.model_validate(args)
        except ValidationError as error:
            wrong = [one for one in error.errors(include_url=False, include_input=False) if one["loc"][:1]]
            # arguments that LangChain fills in when the tool is called are not a mistake of the model
            problems = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in wrong if one["loc"][0] in known]
            return f"{self.name}: {'; '.join(problems)}" if problems else ""
        return ""

    @cached_property
    def _form_of_shown(self) -> type[BaseModel] | None:
        form = self.tool.args_schema
        if not (isinstance(form, type) and issubclass(form, BaseModel)):
            return None
        return form_of_shown(form, self.parameters["properties"])

    def received(self, args: Arguments) -> Arguments:
        """Return the arguments of a call as the tool gets them: after validation and with defaults.

        They have the names that models are shown and the values that JSON has. Arguments that do not fit, with which
        the tool is not called, are returned as they are, and so are those of a tool whose schema is no pydantic model.
        """
        if self._form_of_shown is None or self.check_arguments(args):
            return args
        try:
            return list_received(self._form_of_shown.model_validate(args), self.parameters["properties"])
        except ValidationError:
            return args

    def describe_misfit(self, args: Arguments) -> str:
        """Return what is wrong with the arguments of a call, as models are shown it; empty if they fit."""
        problem = self.check_arguments(args)
        return quote_misfit(problem) if is_from_server(self.tool) else problem

    async def call(
        self,
        args: Arguments,
        state: Mapping[str, Any] | None = None,
        id: str = "",
        ambiguous: tuple[type[BaseException], ...] = (),
    ) -> ToolAnswer:
        """Call the tool. An error that it raises, and an answer that does not come in time, are answers too.

        Args:
            args: the arguments.
            state: state of the graph, for tools that read it.
            id: id of the call, for tools that read it; empty for a new one.
            ambiguous: further errors after which it is unknown whether the call took effect.

        Raises:
            GraphBubbleUp: the tool interrupted the graph.
        """
        try:
            async with asyncio.timeout(self.deadline):  # `wait_for` would start a task
                return await self._execute(args, dict(state or {}), id or uuid4().hex, ambiguous)
        except TimeoutError:
            text = f"{self.name} gave no answer within {self.deadline:g} seconds; {NOT_KNOWN}"
            return ToolAnswer(text=text, failed=True, unknown=True)

    async def _execute(
        self, args: Arguments, state: dict[str, Any], id: str, ambiguous: tuple[type[BaseException], ...]
    ) -> ToolAnswer:
        call = {"name": self.name, "args": {**args}, "id": id, "type": "tool_call"}
        given = {"__type": "tool_call_with_context", "tool_call": call, "state": state}
        try:
            returned = await self.node.ainvoke(given, show_own_context())
        except GraphBubbleUp:
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # the tool cancelled itself, as clients do that lose their connection
            return _failed(self.name, error, (asyncio.CancelledError,))
        except Exception as error:  # noqa: BLE001 - a tool may raise anything; the agent has to know it
            return _failed(self.name, error, ambiguous)
        return read_outputs(returned, id)


def show_own_context() -> RunnableConfig:
    """Return the running node's configuration with the caller's own context, or none, in place of certigraph's.

    A tool then reads it as in any other LangGraph application: `langgraph.runtime.get_runtime(MyContext).context`.
    """
    try:
        config = get_config()
    except RuntimeError:  # called outside of a graph
        return {"configurable": {RUNTIME_KEY: Runtime()}}
    configurable = config.get("configurable", {})
    runtime: Any = configurable.get(RUNTIME_KEY)
    if runtime is None:
        return {**config, "configurable": {**configurable, RUNTIME_KEY: Runtime()}}
    own = getattr(runtime.context, "own", None)
    return {**config, "configurable": {**configurable, RUNTIME_KEY: runtime.override(context=own)}}


def may_be_repeated(tool: BaseTool) -> bool:
    """Return whether calls of a tool may be repeated, by what the tool itself says; see `LoadedTool`."""
    return _has_hint(tool, "readOnlyHint") or _has_hint(tool, "idempotentHint") or is_builtin_look_up(tool)


def sets_value(tool: BaseTool) -> bool:
    """Return whether calls of a tool may be repeated and still change something; see `LoadedTool`."""
    return _has_hint(tool, "idempotentHint") and not _has_hint(tool, "readOnlyHint")


def _has_hint(tool: BaseTool, hint: str) -> bool:
    return (tool.metadata or {}).get(hint) is True


class _InThread:
    """A tool without an async form, called in a thread for which nothing waits: it may block without an end."""

    def __init__(self, tool: BaseTool) -> None:
        self._tool = tool

    async def ainvoke(self, call: Any, config: RunnableConfig) -> Any:
        return await run_in_lone_thread(self._tool.invoke, call, config)


async def _execute_request(request: Any, execute: Any) -> Any:
    if has_sync_form(request.tool) and (is_invoked() or not is_async(request.tool)):
        request = request.override(tool=cast(BaseTool, _InThread(request.tool)))
    try:
        return await execute(request)
    except SystemExit as error:  # it would end the event loop
        raise RuntimeError(format_error(error)) from error


def has_sync_form(tool: BaseTool) -> bool:
    """Return whether a tool can be called without an event loop."""
    return not isinstance(tool, StructuredTool | Tool) or tool.func is not None


def is_async(tool: BaseTool) -> bool:
    """Return whether a tool has an async form of its own."""
    if isinstance(tool, StructuredTool | Tool):
        return tool.coroutine is not None
    return type(tool)._arun is not BaseTool._arun


# Errors of tools.

BUGS = (NameError, TypeError, AttributeError, ImportError, SyntaxError, NotImplementedError, RecursionError)
"""Errors that say that a tool's own code is wrong. `BlockingError` of LangGraph's server is another one."""


NOT_KNOWN = "whether it took effect is not known."


def _failed(name: str, error: BaseException, ambiguous: tuple[type[BaseException], ...]) -> ToolAnswer:
    traced = error
    if isinstance(error, masks.MaskedError):
        error = error.original
    text = redact_message(bound_text(format_error(error)))
    frames = traceback.extract_tb(error.__traceback__)
    if frames and frames[-1].name == "_convert_mcp_content_to_lc_block":
        return ToolAnswer(text=f"{name} ran, and what it answered cannot be shown: {text}")
    if is_ambiguous(error, ambiguous):
        return ToolAnswer(text=f"{text}; {NOT_KNOWN}", failed=True, unknown=True)
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    callers = ("langchain_core", masks.__file__)  # code that calls the tool's own, with arguments that do not fit it
    misfit = isinstance(error, TypeError) and frames and any(one in frames[-1].filename for one in callers)
    if misfit or not (isinstance(error, BUGS) or type(error).__name__ == "BlockingError"):
        return ToolAnswer(text=text, failed=True)
    logging.getLogger("certigraph").error("the tool %s is broken", name, exc_info=traced)
    return ToolAnswer(text=BROKEN_TEXT.format(name=name, error=text), failed=True, broken=text)


BROKEN_TEXT = (
    "{name} itself is broken: {error}. That is not a matter of the arguments: go on without {name} where the task "
    "allows it, and say in the answer what could not be done."
)


def split_provided(tools: Any) -> tuple[list[dict[str, Any]], Any]:
    """Return the tools that the provider of the model executes, dicts such as `{"type": "web_search"}`, and the others.

    Raises:
        TypeError: a dict describes a function, which nobody could execute.
    """
    if not isinstance(tools, list | tuple):
        return [], tools
    provided = [tool for tool in tools if isinstance(tool, dict)]
    if described := [tool for tool in provided if tool.get("type") == "function" or "parameters" in tool]:
        raise TypeError(f"{described[0]!r:.100} describes a function: give the function itself, with type hints")
    return provided, [tool for tool in tools if not isinstance(tool, dict)]


def load_tools(
    tools: Sequence[BaseTool | Callable[..., Any]],
    deadline: float = DEADLINE,
    reserved: frozenset[str] = RESERVED_NAMES,
) -> dict[str, LoadedTool]:
    """Bring tools into one form, by name.

    Args:
        tools: LangChain tools (those of an MCP server included) and functions, plain or async.
        deadline: seconds after which a call without an answer is given up.
        reserved: names that no tool may have.

    Raises:
        TypeError: an object is neither a tool nor a function, or there is no list of them.
        ValueError: there is no tool, two tools have one name, a name is reserved, a tool's arguments cannot be written
            as JSON, or it needs arguments that no model gives.
    """
    if isinstance(tools, BaseTool | str) or callable(tools):
        kind = "a text" if isinstance(tools, str) else "a single tool"
        raise TypeError(f"tools is {kind}: give a list of functions or tools, as in tools=[look_up_order]")
    found: dict[str, tuple[BaseTool, Schema]] = {}
    for given in tools:
        tool = given if isinstance(given, BaseTool) else _wrap_function(given)
        _check_name(tool, found, reserved)
        found[tool.name] = tool, _read_schema(tool)
    if not found:
        fix = "give functions with type hints, LangChain tools, or tools of an MCP server"
        raise ValueError(f"tools is empty, and an agent acts by calling tools: {fix}")
    node = _create_node([masks.masked(tool) for tool, _ in found.values()])
    return {name: _load_tool(tool, schema, node, deadline) for name, (tool, schema) in found.items()}


def _check_name(tool: BaseTool, known: Iterable[str], reserved: frozenset[str]) -> None:
    name = tool.name
    if not (_NAME.fullmatch(name) and name.isprintable()):
        raise ValueError(f"the tool name {name!r:.60} is not one: it needs 1 to {MAX_NAME} characters without spaces")
    if is_from_server(tool) and not SERVER_NAME.fullmatch(name):
        raise ValueError(f"the tool name {name!r:.60} of a server is not one: {SERVER_NAME_FORM}; leave the tool out")
    if name in known:
        raise ValueError(f"two tools have the name {name!r}: rename one, as in @tool('another_name')")
    if name in reserved:
        reason = f"the tool name {name!r} is taken: the agent uses it for calls of its own"
        raise ValueError(f"{reason}; rename the tool, as in @tool('{name}_order')")


MAX_NAME = 128
"""Maximum characters of the name of a tool or of an argument."""

SERVER_NAME_FORM = "it may have 64 letters, digits, and the signs _ . $ @ / : -"

_NAME = re.compile(rf"[^\s()\x00-\x1f\x7f]{{1,{MAX_NAME}}}")


def _create_node(tools: Sequence[BaseTool]) -> "ToolNode":
    from langgraph.prebuilt import ToolNode  # takes 0.2 seconds, which worlds without tools need not wait

    try:
        return ToolNode(tools, handle_tool_errors=False, awrap_tool_call=_execute_request)
    except Exception as error:  # noqa: BLE001 - a type hint may be wrong in many ways
        if len(tools) > 1:
            for tool in tools:
                _create_node([tool])
        raise ValueError(f"the type hints of tool {tools[0].name!r} cannot be read ({_shorten(error)})") from None


def _read_schema(tool: BaseTool) -> Schema:
    """Return the schema of a tool's arguments with all references resolved.

    Raises:
        ValueError: it cannot be written as JSON, is too large, or does not fit what the tool calls.
    """
    given = tool.args_schema
    try:
        described = given if isinstance(given, dict) else convert_to_openai_tool(tool)["function"].get("parameters")
        schema = resolve_schema(described or {"type": "object", "properties": {}})
        schema = _by_alias(schema, given)
        size = len(json.dumps(schema)) + len(tool.description)
    except Exception as error:  # noqa: BLE001 - for types without a JSON form many kinds of errors are raised
        fix = "give its parameters types that JSON has, or args_schema=MyModel"
        raise ValueError(
            f"the arguments of tool {tool.name!r} cannot be written as JSON ({_shorten(error)}): {fix}"
        ) from None
    if size > MAX_SCHEMA:
        reason = f"schema and description of the tool {tool.name!r} have {size:,} characters"
        raise ValueError(f"{reason}, which every request would send; {MAX_SCHEMA:,} are allowed: leave the tool out")
    filled = names_filled(tool)
    if filled and "properties" in schema:
        schema["properties"] = {name: part for name, part in schema["properties"].items() if name not in filled}
        schema["required"] = [name for name in schema.get("required", ()) if name not in filled]
    shown = flatten_schema(schema)["properties"]
    strange = [name for name in shown if not 0 < len(name) <= MAX_NAME or not name.isprintable()]
    if is_from_server(tool):
        strange += [name for name in shown if not SERVER_NAME.fullmatch(name)]
    if strange:
        reason = f"{strange[0]!r:.60} is not a name of an argument"
        raise ValueError(f"the tool {tool.name!r} cannot be used: {reason}")
    if hidden := find_hidden(tool, shown):
        fix = "leave them out, or give them defaults"
        raise ValueError(
            f"the tool {tool.name!r} needs {', '.join(hidden)}, which a model neither sees nor gives: {fix}"
        )
    if problem := find_disagreement(tool, shown):
        fix = "rename what has this name, or leave the tool out"
        raise ValueError(f"the tool {tool.name!r} cannot be called as its schema says: {problem}; {fix}")
    return schema


def names_shown(tool: BaseTool) -> frozenset[str]:
    """Return the names of the arguments that a model is shown, without those that LangGraph fills in.

    Raises:
        ValueError: as for `load_tools`, but for the name of the tool.
    """
    return frozenset(flatten_schema(_read_schema(tool))["properties"])


def _by_alias(schema: Schema, form: Any) -> Schema:
    """Return the schema of a pydantic model with the names by which the model takes its fields."""
    if not (isinstance(form, type) and issubclass(form, BaseModel)) or form.model_config.get("populate_by_name"):
        return schema
    fields = {name: field.validation_alias or field.alias for name, field in form.model_fields.items()}
    aliases = {name: alias for name, alias in fields.items() if isinstance(alias, str)}
    properties = {aliases.get(name, name): part for name, part in schema.get("properties", {}).items()}
    required = [aliases.get(name, name) for name in schema.get("required", ())]
    return {**schema, "properties": properties, "required": required} if aliases else schema


def _load_tool(tool: BaseTool, schema: Schema, node: "ToolNode", deadline: float) -> LoadedTool:
    text = "\n".join(filter(None, (tool.description.strip(), describe_alternatives(schema))))
    parameters = flatten_schema(schema)
    listing = format_tool(tool.name, parameters, text)
    if is_from_server(tool):
        texts = separate_texts(parameters)
        listing = format_tool(tool.name, texts.parameters, texts.describe(text))
        text, parameters = quote(text) if text else "", texts.described_parameters()
    return LoadedTool(tool.name, text, parameters, schema, tool, node, listing, deadline)


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
        given = by_keyword(given)
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
