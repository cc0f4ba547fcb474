"""Whether a reply is complete: the marks with which providers end a reply, and JSON that does not end.

A reply that was cut is not a reply. Nothing in it is executed, and the request is made again.
"""

import json
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any

from langchain_core.messages import AIMessageChunk

MARK_KEYS = ("finish_reason", "stop_reason", "stopReason", "done_reason")
"""Keys of a message's metadata under which the classes of chat models keep why the reply ended."""

OPEN_STATUSES = ("incomplete", "failed", "cancelled", "in_progress", "queued")
"""Values of `status` in OpenAI's Responses API for a reply that is not complete."""

LENGTH_MARKS = ("length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded")
"""Marks of a reply that was cut only because it is too long."""

NO_END = "the stream has no end"

# A mark that is not listed counts as a cut, because providers add reasons for a cut. A stream may repeat its mark.
_WHOLE_MARK = re.compile(
    r"(?:(?:reason_|finish_reason_)?(?:stop|stop_sequence|end|end_turn|eos|eos_token|tool_?calls?|tool_use|"
    r"function_call|complete|completed|finished|success|done|unspecified))+"
)


def find_cut(message: Any, chunks: AIMessageChunk | None = None, *, needs_mark: bool = False) -> str:
    """Return by what mark a reply was cut; empty for a complete one.

    Args:
        message: the reply, a message of any class of chat models.
        chunks: the sum of its chunks if the reply was streamed. It has the arguments of calls as they arrived, which
            LangChain completes in the message.
        needs_mark: whether a complete reply has a mark: a stream of a provider, whose connection may end at any time.
    """
    metadata: Mapping[str, Any] = {**message.additional_kwargs, **message.response_metadata}
    marks = [_plain_mark(metadata[key]) for key in MARK_KEYS if metadata.get(key)]
    if odd := next((mark for mark in marks if not _WHOLE_MARK.fullmatch(mark)), ""):
        return odd
    if (status := str(metadata.get("status") or "")) in OPEN_STATUSES:
        details = metadata.get("incomplete_details")
        return str((details.get("reason") if isinstance(details, Mapping) else "") or status)
    if needs_mark and not marks and not status:
        return NO_END
    calls = [*getattr(message, "invalid_tool_calls", ()), *(chunks.tool_call_chunks if chunks else ())]
    cut = next((call for call in calls if is_unfinished(str(call.get("args") or ""))), None)
    return f"the arguments of {cut.get('name') or 'a call'} do not end" if cut else ""


def _plain_mark(mark: Any) -> str:
    """Return a mark in lower case; a member of an enumeration is written as `FinishReason.STOP` by some classes."""
    return str(mark.name if isinstance(mark, Enum) else mark).rpartition(".")[2].lower()


_STRUCTURE = re.compile(r"[\"'\\{}\[\]]")


def is_unfinished(text: str) -> bool:
    """Return whether the JSON in a text does not end, so that only a repair would close a bracket or a string.

    True for every beginning of a JSON object or array that is not all of it. Other errors, such as quotation marks
    within a string, a trailing comma or a bracket too many, do not count.
    """
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        pass
    else:
        return False
    opened, quote, position = 0, "", 0
    while found := _STRUCTURE.search(text, position):
        character, position = found[0], found.end()
        if quote:
            if character == "\\":
                position += 1
            elif character == quote and _next_character(text, position) in ",:}]":
                quote = ""
        elif character in "{[":
            opened += 1
        elif character in "}]":
            opened = max(opened - 1, 0)
        elif opened and character != "\\" and _last_character(text, found.start()) in "{[,:":
            quote = character
    return bool(opened or quote)


_WORD = re.compile(r"\S")


def _next_character(text: str, position: int) -> str:
    """Return the next character that is not white space; empty at the end of the text."""
    found = _WORD.search(text, position)
    return found[0] if found else ""


def _last_character(text: str, position: int) -> str:
    """Return the last character before a position that is not white space."""
    while position and text[position - 1].isspace():
        position -= 1
    return text[position - 1 : position]
