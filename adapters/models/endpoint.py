"""Sending one request to a chat model, and converting errors of the endpoint to faults."""

import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple

from langchain_core.caches import BaseCache
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.globals import get_llm_cache
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config
from langgraph.constants import TAG_NOSTREAM

from certigraph.adapters.composed_chat import ComposedChat, change_models, models_in
from certigraph.adapters.http import UnboundedAnswer, read_retry_after
from certigraph.adapters.json_lines import parse_json, replace_surrogates
from certigraph.adapters.models.chat_models import (
    EFFORT_SEPARATOR,
    IGNORED_FORMAT,
    INTERNAL_STATUSES,
    REFUSAL_STATUSES,
    RESPONSE_FORMAT,
    STREAM_USAGE,
    UNNAMED_FALLBACKS,
    ParameterRefused,
    find_refused_parameter,
    has_named_parameter,
    is_about_value,
    model_label,
    preset_parameters,
    without_parameters,
)
from certigraph.adapters.models.cuts import NO_END, find_cut
from certigraph.adapters.models.request_watch import RequestHalted, RequestWatch, is_streamed
from certigraph.adapters.models.schemas import Schema
from certigraph.adapters.models.streams import ReplyStream
from certigraph.adapters.models.usage import has_plausible_counts, usage_of
from certigraph.adapters.processes import is_own_loop, run_in_lone_thread
from certigraph.adapters.redaction import redact_message, show_address
from certigraph.state.endings import Fault

# Faults of endpoints, with messages that say what failed and what to do.

MAX_SHOWN_CHARACTERS = 500
"""Maximum characters of an endpoint's or a model's text that an error message repeats."""

MAX_WAIT_SECONDS = 60.0
"""Maximum seconds to wait before a request is repeated, however long the endpoint asks to wait."""

UNREADABLE_BODY_ERRORS = (ValueError, TypeError, AttributeError, LookupError, RecursionError)
"""Exceptions that an endpoint's client raises if the response body is not a chat completion."""


EMPTY_STREAM = "No generation"
"""How LangChain's error begins if an endpoint answers a streamed request with something else than a stream."""


def is_endpoint_error(error: Exception, model: BaseChatModel) -> bool:
    """Return whether an error comes from the connection or the endpoint, and not from a bug in the calling code."""
    # what the class of a provider cannot read is no bug of the caller's
    if isinstance(error, UNREADABLE_BODY_ERRORS) and all(map(_is_provider_class, models_in(model))):
        return True
    # looked up in sys.modules: a process that never used OpenAI need not import its client
    clients = [getattr(sys.modules.get(module), name, None) for module, name in _CLIENT_ERRORS]
    client_errors = tuple(kind for kind in clients if kind is not None)
    types = (OSError, json.JSONDecodeError, UnboundedAnswer, *client_errors)
    return isinstance(error, types) or error_status(error) is not None


def _is_provider_class(model: BaseChatModel) -> bool:
    """Return whether a chat model is of a provider's package for LangChain, or one of OpenAI's interface."""
    module = type(model).__module__
    packaged = module.startswith("langchain_") and not module.startswith("langchain_core.")
    return packaged or hasattr(model, "openai_api_base")


def error_status(error: Exception) -> int | None:
    """Return the HTTP status in an error of a provider's client; None if it has none."""
    response = getattr(error, "response", None)  # a dict in errors of AWS
    metadata = response.get("ResponseMetadata", {}) if isinstance(response, dict) else {}
    given = (getattr(error, "status_code", None), getattr(error, "code", None), metadata.get("HTTPStatusCode"))
    return next((status for status in given if isinstance(status, int)), None)


class TransientFault(Fault):
    """Transient fault of an endpoint: the same request may succeed later.

    Attributes:
        wait: seconds that the endpoint asks to wait; 0 if it does not ask.
    """

    def __init__(self, message: str, wait: float) -> None:
        self.wait = wait
        super().__init__("model", message)


def fault_of(error: Exception, model: BaseChatModel) -> Fault:
    """Convert an error of an endpoint to a Fault; to a TransientFault if the same request may still succeed."""
    status, message = error_status(error), format_endpoint_error(error, model)
    if _is_unbounded(error):
        return Fault("model", message)
    transient = status is None or status in (408, 409, 429) or status >= 500
    return TransientFault(message, _retry_after(error)) if transient else Fault("model", message)


def _is_unbounded(error: Exception) -> bool:
    return any(isinstance(cause, UnboundedAnswer) for cause in _error_chain(error))


def _error_chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and its causes, because OpenAI's client hides the error that broke a connection."""
    seen: list[BaseException] = []  # an error that is raised again may be its own context
    while error is not None and error not in seen:
        yield error
        seen.append(error)
        error = error.__cause__ or error.__context__


def _retry_after(error: Exception) -> float:
    header = (getattr(getattr(error, "response", None), "headers", None) or {}).get("retry-after", "")
    return min(read_retry_after(header) or 0.0, MAX_WAIT_SECONDS)


_CLIENT_ERRORS = (
    *(("openai", "OpenAIError"), ("httpx", "HTTPError"), ("httpx2", "HTTPError"), ("anthropic", "AnthropicError")),
    *(("botocore.exceptions", "BotoCoreError"), ("botocore.exceptions", "ClientError")),
    *(("urllib3.exceptions", "HTTPError"), ("requests", "RequestException"), ("aiohttp", "ClientError")),
)


def format_endpoint_error(error: Exception, model: BaseChatModel) -> str:
    """Format an error of an endpoint: which model failed, the error's text with secrets masked, and what to do."""
    address = getattr(model, "openai_api_base", None)
    label = f"{model_label(model)} at {show_address(str(address))}" if address else model_label(model)
    unbounded = next((cause for cause in _error_chain(error) if isinstance(cause, UnboundedAnswer)), None)
    if unbounded:
        return f"{label} failed: {unbounded}; check the endpoint, or the proxy in front of it"
    detail = " ".join(redact_message(replace_surrogates(f"{type(error).__name__}: {error}")).split())[
        :MAX_SHOWN_CHARACTERS
    ]
    status, effort = error_status(error), getattr(model, "reasoning_effort", None)
    hint = (
        f"; or it has no reasoning effort: remove {EFFORT_SEPARATOR}{effort}"
        if effort and status in REFUSAL_STATUSES
        else ""
    )
    # injected errors begin with the word INJECTED of adapters/models/faults
    remedy = (
        "this fault was injected by --faults or a FaultyModel"
        if str(error).startswith("injected ")
        else _advise(status)
    )
    return f"{label} failed: {detail}; {remedy}{hint}"


def _advise(status: int | None) -> str:  # noqa: PLR0911 - one line each
    match status:
        case None:
            return "check CERTIGRAPH_BASE_URL and that the endpoint runs"
        case 401 | 403:
            return "check OPENAI_API_KEY"
        case 404:
            return "check the model's name and CERTIGRAPH_BASE_URL, which usually ends in /v1"
        case 301 | 302 | 303 | 307 | 308:
            return "redirects are not followed: set CERTIGRAPH_BASE_URL to the endpoint's new address"
        case 429:
            return "the rate limit or the quota of the endpoint is reached: resume later"
        case status if status >= 500:
            return "the endpoint has an internal error: resume later"
        case _:
            return "the endpoint refuses this request: check the model's name and the length of its context"


# One request to a chat model, in JSON schema mode if the endpoint supports it.


TOOLS, TOOL_CHOICE = "tools", "tool_choice"
"""Parameters of a request in which the model calls tools."""


class ModelReply(NamedTuple):
    """The reply of a model with its token usage."""

    text: str
    usage: UsageMetadata
    seconds: float
    cut: str
    """Why the endpoint ended the answer early, such as "length"; empty if the answer is complete."""
    cached: bool = False
    """Whether the reply comes from the cache of replies, so that no request was sent and it cost nothing."""
    called: bool = False
    """Whether the model called tools natively; `text` is then the JSON of its calls."""


class ModelRequest(NamedTuple):
    """A request to a chat model, as it is sent."""

    messages: list[BaseMessage]
    parameters: dict[str, Any]
    """Parameters of the request: tools or the answer's schema, and settings such as `temperature`."""


def compose_request(
    messages: list[BaseMessage],
    name: str,
    schema: Schema | None,
    settings: Mapping[str, float],
    without: Collection[str] = (),
    tools: Sequence[Schema] = (),
) -> ModelRequest:
    """Compose a request to a chat model.

    Args:
        messages: the messages.
        name: name of the schema.
        schema: JSON schema that the answer must fit; None for prose.
        settings: further parameters of the request.
        without: names of parameters to omit. With `response_format` or IGNORED_FORMAT among them, the schema is written
            into the prompt.
        tools: tools that the model has to call, in OpenAI's form; the reply is then the JSON of its calls. If `tools`
            is among the parameters to omit, the model answers by the schema instead.
    """
    native = bool(tools) and TOOLS not in without
    as_text = schema and not native and not {RESPONSE_FORMAT, IGNORED_FORMAT}.isdisjoint(without)
    prompt = _append_schema(messages, schema) if schema and as_text else messages
    parameters: dict[str, Any] = {**settings}
    if native:
        parameters |= {TOOLS: tools, TOOL_CHOICE: "any"}
    elif schema:
        form = {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": False}}
        parameters[RESPONSE_FORMAT] = form
    sent = {parameter: value for parameter, value in parameters.items() if parameter not in without}
    return ModelRequest(prompt, sent)


async def send_request(
    model: BaseChatModel,
    request: ModelRequest,
    without: Collection[str] = (),
    stream: ReplyStream | None = None,
    watch: RequestWatch | None = None,
) -> ModelReply:
    """Send one request to a chat model and return its reply.

    Args:
        model: the model.
        request: the request.
        without: names of parameters to omit, also of those that the model itself would add.
        stream: what shows the reply while it arrives.
        watch: what counts the requests that the model sends, and holds them to the budget.

    Raises:
        ParameterRefused: the endpoint refuses one of the parameters.
        LimitReached: the budget is spent before the reply is complete.
        Fault: the endpoint cannot be reached, refuses the request or has an internal error.
    """
    started, (messages, parameters) = perf_counter(), request
    watch = watch or RequestWatch(lambda failure: None, lambda: None)
    sent = disable_client_cache(disable_client_retries(without_parameters(model, without)))
    config: RunnableConfig = {"tags": [TAG_NOSTREAM]}  # LangGraph's mode "messages" shows what becomes a message alone
    config |= {"callbacks": stream.callbacks} if stream else {}
    streamed = is_streamed(models_in(sent), config)
    try:
        message = await _invoke(sent, parameters, messages, add_callback(config, watch))
    except RequestHalted as halted:
        raise halted.reason from None
    except Exception as error:
        if (completion := getattr(error, "completion", None)) is not None:
            return _truncated_reply(completion, messages, perf_counter() - started)
        if (failed := find_failed_generation(error)) is not None:
            return ModelReply(*_estimate(failed, messages), perf_counter() - started, FAILED_GENERATION)
        if streamed and _is_stream_failure(error, watch):
            raise ParameterRefused(STREAM_USAGE, f"its stream fails: {format_endpoint_error(error, model)}") from None
        if refused := _parameter_refusal(error, model, parameters, without):
            raise refused from None
        if not is_endpoint_error(error, model):
            raise
        # not chained, because the original may contain the key
        raise fault_of(error, model) from None
    received, of_provider = watch.sum_chunks(), all(map(_is_provider_class, models_in(model)))
    cut = find_cut(message, received, needs_mark=watch.has_begun and of_provider)
    if cut == NO_END and streamed:
        raise ParameterRefused(STREAM_USAGE, f"{model_label(model)} ended a stream without saying so")
    calls = _native_calls(message, received) if TOOLS in parameters else []
    text = json.dumps({"thought": message.text, "calls": calls}) if calls else str(message.text)
    # a message of a role unknown to LangChain has no such attribute
    reported = getattr(message, "usage_metadata", None)
    text = replace_surrogates(text)
    return ModelReply(text, usage_of(reported, messages, text), perf_counter() - started, cut, called=bool(calls))


def _is_stream_failure(error: Exception, watch: RequestWatch) -> bool:
    """Return whether an error says that a model cannot stream, and not that its endpoint cannot be reached."""
    if error_status(error) is not None or _is_unbounded(error):
        return False
    unreadable = isinstance(error, (*UNREADABLE_BODY_ERRORS, AssertionError))
    return watch.has_begun or unreadable or str(error).startswith(EMPTY_STREAM)


FAILED_GENERATION = "the endpoint could not read what the model wrote"


def find_failed_generation(error: Exception) -> str | None:
    """Return what a model wrote that its endpoint could not read as a call or as JSON, as Groq reports it; else None.

    The error has status 400, but the same request may succeed.
    """
    body: Any = getattr(error, "body", None)
    body = body.get("error", body) if isinstance(body, dict) else {}
    failed = body.get("code") in ("tool_use_failed", "json_validate_failed") if isinstance(body, dict) else False
    return str(body.get("failed_generation") or "") if failed else None


def _estimate(text: str, messages: list[BaseMessage]) -> tuple[str, UsageMetadata]:
    plain = replace_surrogates(text)
    return plain, usage_of(None, messages, plain)


async def _invoke(
    model: BaseChatModel, parameters: Mapping[str, Any], prompt: list[BaseMessage], config: RunnableConfig
) -> Any:
    """Send the prompt; tools are given in the way of the model's own class."""
    caller: Runnable[Any, Any] = model
    if TOOLS in parameters:
        choice = {TOOL_CHOICE: parameters[TOOL_CHOICE]} if TOOL_CHOICE in parameters else {}
        caller = model.bind_tools(parameters[TOOLS], **choice)
        parameters = {name: value for name, value in parameters.items() if name not in (TOOLS, TOOL_CHOICE)}
    if isinstance(caller, ComposedChat):
        caller = caller.composition  # callbacks then see each request of a model inside, and no other request
    if is_own_loop() and not all(getattr(type(one), "serves_any_loop", False) for one in models_in(model)):
        # a model of the user's may keep connections that belong to the event loop of its first call
        return await run_in_lone_thread(caller.invoke, prompt, config, **parameters)
    return await caller.ainvoke(prompt, config, **parameters)


def _native_calls(message: Any, streamed: AIMessageChunk | None) -> list[dict[str, Any]]:
    """Return the calls of a reply by name and arguments; arguments that are not JSON as the text that was written.

    Those of a streamed reply are read from its chunks, because LangChain completes or drops what is not JSON.
    """
    calls = streamed.tool_call_chunks if streamed else ()
    calls = calls or [*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ())]
    return [{"name": call["name"], "args": _read_json(call["args"])} for call in calls]


def _read_json(given: Any) -> Any:
    if not (isinstance(given, str) or given is None):
        return given
    try:
        read = parse_json(given or "{}")
        json.dumps(read, allow_nan=False)  # `NaN` is none of JSON's values
    except ValueError:
        return given
    return read


def disable_client_retries(model: BaseChatModel) -> BaseChatModel:
    """Return the model, or a copy of it, whose client does not repeat failed requests.

    No budget would count the requests that the client repeats.
    """

    def change(one: BaseChatModel) -> BaseChatModel:
        changes: dict[str, Any] = {}
        for root, used in (("root_async_client", "async_client"), ("root_client", "client")):
            client: Any = getattr(one, root, None)
            if getattr(client, "max_retries", 0) and hasattr(client, "with_options"):
                single = client.with_options(max_retries=0)
                changes |= {root: single, used: single.chat.completions}
        return one.model_copy(update=changes) if changes else one

    return change_models(model, change)


def langchain_cache(model: BaseChatModel) -> BaseCache | None:
    """Return the cache that LangChain would use for a model: its own, else that of `set_llm_cache`; None if none."""
    return model.cache if isinstance(model.cache, BaseCache) else None if model.cache is False else get_llm_cache()


def disable_client_cache(model: BaseChatModel) -> BaseChatModel:
    """Return the model, or a copy of it, for which LangChain uses no cache.

    LangChain would store unusable replies too, and a meter would charge a cached reply.
    """

    def change(one: BaseChatModel) -> BaseChatModel:
        return one if langchain_cache(one) is None else one.model_copy(update={"cache": False})

    return change_models(model, change)


def format_schema(schema: Schema) -> str:
    """Format the part of a prompt that asks for an answer which fits the schema."""
    return f"Answer with one JSON value that fits this JSON schema, and with nothing else:\n{json.dumps(schema)}"


def _parameter_refusal(
    error: Exception, model: BaseChatModel, parameters: Mapping[str, Any], without: Collection[str]
) -> ParameterRefused | None:
    """Return a ParameterRefused if an error is about a parameter that the request can omit; else None."""
    status, sent = error_status(error), {*parameters, *preset_parameters(model)} - {*without}
    if status not in (*REFUSAL_STATUSES, *INTERNAL_STATUSES):
        # the client's method may not accept the argument at all, or cannot read the calls that the endpoint sends
        unusable = isinstance(error, TypeError | NotImplementedError) and not is_endpoint_error(error, model)
        unreadable = isinstance(error, ValueError) and TOOLS in parameters and "tool_calls" in str(error)
        refused = next((name for name in (TOOLS, RESPONSE_FORMAT) if name in parameters), "")
        named = status is None and find_refused_parameter(error, sent & {*UNNAMED_FALLBACKS[:3]})
        if named or (refused and (unusable or unreadable)):
            return ParameterRefused(named or refused, f"{type(error).__name__}: {error}")
        return None
    internal = status in INTERNAL_STATUSES
    parameter = find_refused_parameter(error, sent & {*UNNAMED_FALLBACKS[:3]} if internal else sent)
    if not parameter and not internal and not has_named_parameter(error):
        parameter = next((parameter for parameter in UNNAMED_FALLBACKS if parameter in parameters), "")
    if not parameter:
        return None
    lasting = not is_about_value(error)
    return ParameterRefused(
        parameter, f"it refuses {parameter}: {format_endpoint_error(error, model)}", lasting=lasting
    )


def _append_schema(messages: list[BaseMessage], schema: Schema) -> list[BaseMessage]:
    *before, last = messages
    note = format_schema(schema)
    if note in last.text:
        return messages
    if isinstance(last.content, str):
        return [*before, HumanMessage(f"{last.content}\n\n{note}")]
    return [*before, HumanMessage([*last.content, {"type": "text", "text": note}])]


def add_callback(config: RunnableConfig, handler: BaseCallbackHandler) -> RunnableConfig:
    """Return the configuration with one more callback than those that the running node has."""
    callbacks: Any = ensure_config(config).get("callbacks")
    if callbacks is None or isinstance(callbacks, list):
        return {**config, "callbacks": [*(callbacks or ()), handler]}
    manager = callbacks.copy()
    manager.add_handler(handler)
    return {**config, "callbacks": manager}


def _truncated_reply(completion: Any, messages: list[BaseMessage], seconds: float) -> ModelReply:
    """Build the reply of a truncated answer. OpenAI's client raises an error for it, but it has to be paid for."""
    choice, usage = completion.choices[0], completion.usage
    text = replace_surrogates(str(choice.message.content or ""))
    reported = None
    if has_plausible_counts(usage):
        read, wrote = usage.prompt_tokens, usage.completion_tokens
        reported = UsageMetadata(input_tokens=read, output_tokens=wrote, total_tokens=read + wrote)
    return ModelReply(text, usage_of(reported, messages, text), seconds, choice.finish_reason)
