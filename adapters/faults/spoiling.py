"""What is left of an answer that a fault strikes, and what a client raises where none comes."""

import json
from importlib import import_module
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage

from certigraph.adapters.faults.rates import Faults

if TYPE_CHECKING:
    from openai import OpenAIError

REFUSAL = "I cannot help with that."
NOWHERE = "http://injected.invalid/v1/chat/completions"
INJECTED = "injected"
"""Marks what was done on purpose: in the metadata of an answer, and in the words of an error."""


def spoiled_text(kind: str, text: str) -> str:
    """A text after a fault of an answer."""
    match kind:
        case "truncated":
            return text[: len(text) // 2]
        case "malformed":
            return "{]" + text.replace('"', "").replace(":", " ")
        case "wrong_schema":
            return json.dumps({"unexpected": [text]})
        case "refusal":
            return REFUSAL
        case _:
            return ""


def spoiled(message: AIMessage, kind: str) -> AIMessage:
    """An answer after a fault; it is billed as it was, and its calls of tools suffer as its text does."""
    finish = {"finish_reason": "length"} if kind == "truncated" else {}
    metadata = {**message.response_metadata, INJECTED: kind, **finish}
    text = spoiled_text(kind, message.text) if message.text or not message.tool_calls else ""
    return AIMessage(
        REFUSAL if kind == "refusal" else text,
        response_metadata=metadata,
        usage_metadata=message.usage_metadata,
        id=message.id,
        **_calls(message, kind),
    )


def client_error(kind: str, faults: Faults) -> "OpenAIError":
    """What OpenAI's client raises when its own retries are spent."""
    import openai

    # httpx or httpx2, as OpenAI's version has it
    http: Any = import_module(openai.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])
    request = http.Request("POST", NOWHERE)
    said = f"{INJECTED} {kind}"
    match kind:
        case "timeout":
            late = openai.APITimeoutError(request)
            late.args = (said,)
            return late
        case "dropped":
            return openai.APIConnectionError(message=said, request=request)
        case "rate_limit":
            wait = {"Retry-After": f"{faults.retry_after:g}"}
            return openai.RateLimitError(said, response=http.Response(429, headers=wait, request=request), body=None)
        case _:
            return openai.InternalServerError(said, response=http.Response(500, request=request), body=None)


def _calls(message: AIMessage, kind: str) -> dict[str, Any]:
    """The calls of tools: broken ones are no calls, of another form they have arguments that nobody asked for."""
    if kind == "wrong_schema":
        return {"tool_calls": [{**call, "args": {"unexpected": [call["args"]]}} for call in message.tool_calls]}
    if kind not in ("truncated", "malformed"):
        return {}
    broken = [(call, spoiled_text(kind, json.dumps(call["args"]))) for call in message.tool_calls]
    error = f"{INJECTED} {kind}"
    return {
        "invalid_tool_calls": [
            {"type": "invalid_tool_call", "name": call["name"], "id": call["id"], "args": args, "error": error}
            for call, args in broken
        ]
    }
