"""Bodies of an OpenAI-compatible endpoint: an answer, an error, and an answer that a fault has struck."""

import json
from typing import Any

from certigraph.adapters.faults.spoiling import INJECTED, spoiled_text

CHARS_PER_TOKEN = 4


def completion(asked: dict[str, Any], text: str) -> bytes:
    """The body that answers a request with a text; tokens are counted by characters."""
    read, written = len(json.dumps(asked.get("messages", []))) // CHARS_PER_TOKEN, len(text) // CHARS_PER_TOKEN
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    whole = {"id": INJECTED, "object": "chat.completion", "created": 0, "model": str(asked.get("model", ""))}
    return json.dumps({**whole, "choices": [choice], "usage": usage}).encode()


def error(message: str) -> bytes:
    """The body of a request that was refused."""
    return json.dumps({"error": {"message": message, "type": INJECTED}}).encode()


def spoiled_body(body: bytes, kind: str) -> bytes:
    """The body of an answer whose text a fault has struck."""
    whole = json.loads(body)
    for choice in whole["choices"]:
        choice["message"]["content"] = spoiled_text(kind, choice["message"].get("content") or "")
        choice["message"].pop("tool_calls", None)
    return json.dumps(whole).encode()
