"""One request to a chat model: JSON schema mode where the endpoint has it, and what went wrong in plain words."""

import json
from collections.abc import Collection, Mapping
from time import perf_counter
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata

from certigraph.adapters.models.failures import explained, fault_of, is_endpoint_error
from certigraph.adapters.models.parameters import (
    REFUSALS,
    RESPONSE_FORMAT,
    UNNAMED,
    ParameterRefused,
    find_refused,
    is_about_value,
    names_something,
    set_parameters,
    without_parameters,
    wrapped_model,
)
from certigraph.adapters.models.schemas import Schema
from certigraph.adapters.models.token_counts import credible, usage_of
from certigraph.state.json_text import replace_surrogates


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
