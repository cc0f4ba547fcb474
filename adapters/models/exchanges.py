"""Exchanges with models: the request and the reply of each call, for runs that keep their prompts.

Where no log is set, which is the usual case, nothing is converted or stored.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage
from pydantic import JsonValue
from pydantic_core import to_jsonable_python

from certigraph.adapters.json_lines import replace_surrogates
from certigraph.adapters.models.attachments import text_of_request
from certigraph.adapters.processes import Setting
from certigraph.state.records import Record


@dataclass
class Exchange:
    """A request as it is sent, and its reply, which is empty until one arrives."""

    messages: Sequence[BaseMessage]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the request, such as tools or the schema of the answer."""
    reply: str | BaseMessage = ""


class KeptExchange(Record):
    """A line of a run's `prompts.jsonl`: one call of a model with its request and its reply."""

    number: int = 0
    """Number of the line, from 1."""
    node: str
    superstep: int
    scope: str
    """Namespace of the graph inside a node that made the call; empty for the run's outermost graph."""
    subtask: str
    call: dict[str, JsonValue]
    """The record of the call, as the run's events have it."""
    request: dict[str, JsonValue]
    """Messages and parameters, in the form of a request to an OpenAI-compatible endpoint."""
    response: JsonValue
    """Text of the reply, or the message with its tool calls; empty if none arrived."""


ExchangeLog = Callable[[KeptExchange], int]
"""Function that stores an exchange and returns the number of its line."""

_LOG: ContextVar[ExchangeLog | None] = ContextVar("certigraph_exchange_log", default=None)


def use_exchange_log(log: ExchangeLog | None) -> Setting[ExchangeLog | None]:
    """Store every exchange that ends inside the block in `log`, also those of inner graphs and worker threads."""
    return Setting(_LOG, log)


def keep_exchange(exchange: Exchange | None, call: Record, **place: Any) -> int:
    """Store an exchange and return the number of its line; 0 if there is no log or no exchange.

    Args:
        exchange: the exchange.
        call: the record of the call.
        **place: node, superstep, scope and sub-task that made the call.
    """
    log = _LOG.get()
    if log is None or exchange is None:
        return 0
    messages, reply = [_to_plain(message) for message in exchange.messages], exchange.reply
    request = _to_json({"messages": messages, **exchange.parameters})
    response = _to_json(reply if isinstance(reply, str) else _to_plain(reply))
    return log(KeptExchange(**place, call=call.as_json(), request=request, response=response))


_ROLES = {"human": "user", "ai": "assistant"}


def _to_plain(message: BaseMessage) -> dict[str, Any]:
    calls = getattr(message, "tool_calls", None)
    content = text_of_request(message) if isinstance(message, HumanMessage) else message.content
    role = getattr(message, "role", None) or _ROLES.get(message.type, message.type)
    return {"role": role, "content": content, **({"tool_calls": calls} if calls else {})}


def _to_json(value: Any) -> Any:
    plain = to_jsonable_python(value, fallback=repr, inf_nan_mode="null")
    return json.loads(replace_surrogates(json.dumps(plain, ensure_ascii=False)))
