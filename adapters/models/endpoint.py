"""One request to a chat model: JSON schema mode where the endpoint has it, and what went wrong in plain words."""

import json
from collections.abc import Mapping
from time import perf_counter
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata

from certigraph.adapters.models.failures import REFUSALS, fault_of, is_endpoint_error
from certigraph.adapters.models.schemas import Schema
from certigraph.adapters.models.token_counts import NO_USAGE, usage_of

_SCHEMALESS: WeakValueDictionary[int, BaseChatModel] = WeakValueDictionary()
"""Models whose endpoint refused JSON schema mode, by id."""


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
) -> Reply:
    """Send one request, with the schema that the answer must fit, or None for prose; `settings` go to the endpoint.

    Raises:
        Fault: the endpoint cannot be reached, refuses the request or failed itself.
    """
    started = perf_counter()
    try:
        if schema is None:
            message = await model.ainvoke(messages, **settings)  # type: ignore[arg-type]
        else:
            message = await _settled(model, messages, name, schema, settings)
    except Exception as error:
        if (completion := getattr(error, "completion", None)) is not None:
            return _cut_off(completion, messages, perf_counter() - started)
        if not is_endpoint_error(error, model):
            raise
        # not chained: the original may hold the key
        raise fault_of(error, model) from None
    finish = message.response_metadata.get("finish_reason")
    cut = finish if finish in ("length", "content_filter") else ""
    told = getattr(message, "usage_metadata", None)  # a message of a role that LangChain does not know has none
    return Reply(message.text, usage_of(told, messages, message.text), perf_counter() - started, cut)


def written(schema: Schema) -> str:
    """The schema as a part of the prompt."""
    return f"Answer with one JSON value that fits this JSON schema, and with nothing else:\n{json.dumps(schema)}"


async def _settled(
    model: BaseChatModel, messages: list[BaseMessage], name: str, schema: Schema, settings: Mapping[str, Any]
) -> AIMessage:
    """The answer, at the model's own temperature where it refuses to be given one, as models that reason do."""
    try:
        return await _invoke(model, messages, name, schema, settings)
    except Exception as error:
        if "temperature" not in settings or getattr(error, "status_code", None) not in REFUSALS:
            raise
        own = {name: value for name, value in settings.items() if name != "temperature"}
        return await _invoke(model, messages, name, schema, own)


async def _invoke(
    model: BaseChatModel, messages: list[BaseMessage], name: str, schema: Schema, settings: Mapping[str, Any]
) -> AIMessage:
    if id(model) in _SCHEMALESS:
        return await model.ainvoke(_with_schema(messages, schema), **settings)
    form = {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": False}}
    try:
        return await model.ainvoke(messages, response_format=form, **settings)
    except Exception as error:
        # a TypeError of a model whose client has no such argument
        no_argument = isinstance(error, TypeError) and not is_endpoint_error(error, model)
        if getattr(error, "status_code", None) not in REFUSALS and not no_argument:
            raise
        message = await model.ainvoke(_with_schema(messages, schema), **settings)
        _SCHEMALESS[id(model)] = model
        return message


def _with_schema(messages: list[BaseMessage], schema: Schema) -> list[BaseMessage]:
    *before, last = messages
    note = written(schema)
    text = str(last.content)
    return messages if note in text else [*before, HumanMessage(f"{text}\n\n{note}")]


def _cut_off(completion: Any, messages: list[BaseMessage], seconds: float) -> Reply:
    """The OpenAI client raises for an answer cut short; it was billed all the same."""
    choice, used = completion.choices[0], completion.usage
    text, told = str(choice.message.content or ""), NO_USAGE
    if used is not None:
        told = UsageMetadata(
            input_tokens=used.prompt_tokens, output_tokens=used.completion_tokens, total_tokens=used.total_tokens
        )
    return Reply(text, usage_of(told, messages, text), seconds, choice.finish_reason)
