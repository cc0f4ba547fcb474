"""One request to a chat model, and what can go wrong with it."""

import json
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from time import perf_counter
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata

from certigraph.adapters.http import UnboundedAnswer
from certigraph.adapters.models.chat_models import (
    EFFORT,
    REFUSALS,
    RESPONSE_FORMAT,
    UNNAMED,
    ParameterRefused,
    find_refused,
    is_about_value,
    model_label,
    names_something,
    set_parameters,
    without_parameters,
    wrapped_model,
)
from certigraph.adapters.models.schemas import Schema
from certigraph.adapters.models.usage import credible, usage_of
from certigraph.adapters.redaction import redact_message, show_address
from certigraph.state.records import Fault, replace_surrogates

# What went wrong between here and an endpoint, in plain words.

SHOWN = 500
"""Characters of an endpoint's or a model's words that an error message repeats."""

LONGEST_WAIT = 60.0
"""Seconds that an endpoint may ask to wait, at most."""

UNREADABLE = (ValueError, TypeError, AttributeError, LookupError, RecursionError)
"""What the client of an endpoint raises over a body that is no completion."""


def is_endpoint_error(error: Exception, model: BaseChatModel) -> bool:
    """Whether an error is of the way to an endpoint or of what it answered, and no mistake in the code that asks."""
    if isinstance(error, UNREADABLE) and hasattr(model, "openai_api_base"):
        return True
    # looked up, not imported: who never talked to OpenAI need not load its client
    clients = [getattr(sys.modules.get(module), name, None) for module, name in _CLIENT_ERRORS]
    known = tuple(kind for kind in clients if kind is not None)
    broken = (OSError, json.JSONDecodeError, UnboundedAnswer, *known)
    return isinstance(error, broken) or isinstance(getattr(error, "status_code", None), int)


class PassingFault(Fault):
    """An endpoint that fails now and may not in a moment; `wait` are the seconds that it asks for, if it does."""

    def __init__(self, message: str, wait: float) -> None:
        self.wait = wait
        super().__init__("model", message)


def fault_of(error: Exception, model: BaseChatModel) -> Fault:
    """The fault that an error of an endpoint is to a run; a passing one where the same request may yet succeed."""
    status, told = getattr(error, "status_code", None), explained(error, model)
    if any(isinstance(cause, UnboundedAnswer) for cause in _causes(error)):
        return Fault("model", told)
    passing = status is None or status in (408, 409, 429) or status >= 500
    return PassingFault(told, _asked_to_wait(error)) if passing else Fault("model", told)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what it was raised from: OpenAI's client hides what broke a connection."""
    seen: list[BaseException] = []  # an error that was raised again may be its own context
    while error is not None and error not in seen:
        yield error
        seen.append(error)
        error = error.__cause__ or error.__context__


def _asked_to_wait(error: Exception) -> float:
    told = getattr(getattr(error, "response", None), "headers", {}).get("retry-after", "")
    readings: tuple[Callable[[str], float], ...] = (float, _until)
    for seconds in readings:
        with suppress(ValueError, OverflowError):
            return min(max(0.0, seconds(told)), LONGEST_WAIT)  # in this order: of nan and 0 it is 0
    return 0.0


def _until(date: str) -> float:
    return parsedate_to_datetime(date).timestamp() - time.time()


_CLIENT_ERRORS = (("openai", "OpenAIError"), ("httpx", "HTTPError"), ("httpx2", "HTTPError"))


def explained(error: Exception, model: BaseChatModel) -> str:
    """What failed, in the endpoint's own words without keys, and what to do about it."""
    where = getattr(model, "openai_api_base", None)
    asked = f"{model_label(model)} at {show_address(str(where))}" if where else model_label(model)
    unbounded = next((cause for cause in _causes(error) if isinstance(cause, UnboundedAnswer)), None)
    if unbounded:
        return f"{asked} failed: {unbounded}; check the endpoint, or what stands between here and it"
    said = " ".join(redact_message(replace_surrogates(f"{type(error).__name__}: {error}")).split())[:SHOWN]
    status, effort = getattr(error, "status_code", None), getattr(model, "reasoning_effort", None)
    told = f"; or it knows no reasoning effort: leave {EFFORT}{effort} away" if effort and status in REFUSALS else ""
    # the words of adapters/faults
    remedy = "--faults, or a FaultyModel, made it so" if str(error).startswith("injected ") else _remedy(status)
    return f"{asked} failed: {said}; {remedy}{told}"


def _remedy(status: int | None) -> str:  # noqa: PLR0911 - one line each
    match status:
        case None:
            return "check CERTIGRAPH_BASE_URL and that the endpoint runs"
        case 401 | 403:
            return "check OPENAI_API_KEY"
        case 404:
            return "check the model's name and CERTIGRAPH_BASE_URL, which usually ends in /v1"
        case 301 | 302 | 303 | 307 | 308:
            return "redirects are not followed: set CERTIGRAPH_BASE_URL to the address that the endpoint has now"
        case 429:
            return "the endpoint limits the rate or the quota is spent: resume later"
        case status if status >= 500:
            return "the endpoint failed itself: resume later"
        case _:
            return "the endpoint refuses this request: check the model's name and the length of its context"


# One request to a chat model: JSON schema mode where the endpoint has it, and what went wrong in plain words.


class Reply(NamedTuple):
    """What came back, and what was billed for it."""

    text: str
    usage: UsageMetadata
    seconds: float
    cut: str
    """Why the endpoint ended the answer before its end, such as "length"; empty when it did not."""
    cached: bool = False
    """Whether it was kept from an earlier run (`reply_cache`): nothing was asked, and nothing billed."""


async def send(
    model: BaseChatModel,
    messages: list[BaseMessage],
    name: str,
    schema: Schema | None,
    settings: Mapping[str, float],
    without: Collection[str] = (),
) -> Reply:
    """Send one request, with the schema that the answer must fit, or None for prose; `settings` go to the endpoint.

    `without` are the parameters that it is not to have; a schema that cannot be sent as one is written into the prompt.

    Raises:
        ParameterRefused: the endpoint does not take one of the parameters.
        Fault: the endpoint cannot be reached, refuses the request or failed itself.
    """
    started = perf_counter()
    asked = _with_schema(messages, schema) if schema and RESPONSE_FORMAT in without else messages
    given: dict[str, Any] = {**settings}
    if schema:
        form = {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": False}}
        given[RESPONSE_FORMAT] = form
    given = {parameter: value for parameter, value in given.items() if parameter not in without}
    try:
        message = await single_requests(without_parameters(model, without)).ainvoke(asked, **given)
    except Exception as error:
        if (completion := getattr(error, "completion", None)) is not None:
            return _cut_off(completion, messages, perf_counter() - started)
        if refused := _refused(error, model, given, without):
            raise refused from None
        if not is_endpoint_error(error, model):
            raise
        # not chained: the original may hold the key
        raise fault_of(error, model) from None
    finish = message.response_metadata.get("finish_reason")
    cut = finish if finish in ("length", "content_filter") else ""
    text = replace_surrogates(message.text)
    told = getattr(message, "usage_metadata", None)  # a message of a role that LangChain does not know has none
    return Reply(text, usage_of(told, messages, text), perf_counter() - started, cut)


def single_requests(model: BaseChatModel) -> BaseChatModel:
    """The model, or a copy whose client does not repeat requests by itself, which no budget would count."""
    if (wrapped := wrapped_model(model)) is not model:
        once = single_requests(wrapped)
        return model if once is wrapped else model.model_copy(update={"chat": once})
    client: Any = getattr(model, "root_async_client", None)
    if not getattr(client, "max_retries", 0) or not hasattr(client, "with_options"):
        return model
    single = client.with_options(max_retries=0)
    return model.model_copy(update={"root_async_client": single, "async_client": single.chat.completions})


def written(schema: Schema) -> str:
    """The schema as a part of the prompt."""
    return f"Answer with one JSON value that fits this JSON schema, and with nothing else:\n{json.dumps(schema)}"


def _refused(
    error: Exception, model: BaseChatModel, given: Mapping[str, Any], without: Collection[str]
) -> ParameterRefused | None:
    """The parameter that an error is about, if the request could do without it."""
    status = getattr(error, "status_code", None)
    if status not in REFUSALS:
        # a client that has no such argument
        no_argument = isinstance(error, TypeError) and not is_endpoint_error(error, model) and RESPONSE_FORMAT in given
        return ParameterRefused(RESPONSE_FORMAT, f"{type(error).__name__}: {error}") if no_argument else None
    sent = {*given, *set_parameters(model)} - {*without}
    named = find_refused(error, sent)
    if not named and not names_something(error):
        named = next((parameter for parameter in UNNAMED if parameter in given), "")
    if not named:
        return None
    lasting = not is_about_value(error)
    return ParameterRefused(named, f"it refuses {named}: {explained(error, model)}", lasting=lasting)


def _with_schema(messages: list[BaseMessage], schema: Schema) -> list[BaseMessage]:
    *before, last = messages
    note = written(schema)
    text = str(last.content)
    return messages if note in text else [*before, HumanMessage(f"{text}\n\n{note}")]


def _cut_off(completion: Any, messages: list[BaseMessage], seconds: float) -> Reply:
    """The OpenAI client raises for an answer cut short; it was billed all the same."""
    choice, used = completion.choices[0], completion.usage
    text = replace_surrogates(str(choice.message.content or ""))
    told = None
    if credible(used):
        read, wrote = used.prompt_tokens, used.completion_tokens
        told = UsageMetadata(input_tokens=read, output_tokens=wrote, total_tokens=read + wrote)
    return Reply(text, usage_of(told, messages, text), seconds, choice.finish_reason)
