"""What tools return, as the text that an agent reads: content blocks, other values, errors."""

import json
import re
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from langchain_core.messages import BaseMessage

from certigraph.adapters.json_lines import replace_surrogates

MAX_ANSWER = 100_000
"""Maximum characters of a tool's answer; what is longer is cut, and the cut is noted in the answer."""


def format_content(content: Any) -> str:
    """Format what a tool returned as text.

    Text stays as it is, and other values become JSON. In a list of content blocks, neighbouring texts are joined by a
    space. Any other block, such as an image or a link, is a line of its own: JSON without the data in it.
    """
    if isinstance(content, str):
        blocks = _read_blocks(content)
        return content if _without_data(blocks) == blocks else format_content(blocks)
    if not isinstance(content, list):
        return _to_json(content)
    lines = list[str]()
    for is_text, group in groupby(content, _is_text):
        blocks = list(group)
        lines += [join_texts(map(_text_of, blocks))] if is_text else map(_format_block, blocks)
    return "\n".join(lines)


def _read_blocks(text: str) -> list[Any]:
    """Return the blocks that a text holds as JSON, as LangGraph writes types of blocks that it does not know."""
    if not text.startswith("[{") or not text.endswith("}]"):
        return []
    try:
        blocks = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return blocks if all(isinstance(block, dict) and "type" in block for block in blocks) else []


def text_of_message(message: BaseMessage) -> str:
    """Return the text of a message; texts of several blocks are joined by a space."""
    content = message.content
    return content if isinstance(content, str) else join_texts(_text_of(block) for block in content if _is_text(block))


def join_texts(texts: Iterable[str]) -> str:
    """Join texts by a space, or by nothing after a text that ends with white space."""
    joined = ""
    for text in texts:
        joined += text if not joined or joined[-1].isspace() or text[:1].isspace() else f" {text}"
    return joined


def has_more_than_text(content: Any) -> bool:
    """Return whether the content of a message has blocks other than text, or data that `format_content` leaves out."""
    if isinstance(content, str):
        return bool(_without_data(blocks := _read_blocks(content)) != blocks)
    return isinstance(content, list) and not all(map(_is_text, content))


def _is_text(block: Any) -> bool:
    return isinstance(block, str) or (isinstance(block, dict) and block.get("type") == "text")


def _text_of(block: Any) -> str:
    return block if isinstance(block, str) else str(block.get("text") or "")


_ENCODED = re.compile(r"[A-Za-z0-9+/_=\r\n-]{200,}")
"""A text that is taken for encoded data wherever it stands in a block."""

_DATA_KEYS = frozenset({"base64", "blob", "file_data"})
"""Keys of a block whose texts are encoded data of any length."""


def _format_block(block: Any) -> str:
    """Format a block as JSON: name, address and type of what it holds, and the size of the data itself."""
    if isinstance(block, dict):
        block = {key: value for key, value in block.items() if key != "id"}  # which LangChain makes up for each block
    return _to_json(_without_data(block))


def _without_data(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _without_data(part, name) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_data(part) for part in value]
    if isinstance(value, bytes):
        return f"({len(value):,} bytes left out)"
    if not isinstance(value, str):
        return value
    kind, _, data = value.partition(",") if value.startswith("data:") else ("", "", value)
    if not (kind or key in _DATA_KEYS or _ENCODED.fullmatch(value)):
        return value
    size = f"({len(data.rstrip('=')) * 3 // 4:,} bytes left out)"
    return f"{kind},{size}" if kind else size


def _to_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return str(value)


def format_error(error: BaseException) -> str:
    """Format an error as `Type: text`. Of a group, which clients of MCP servers raise, the first error is taken."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return ": ".join(filter(None, (type(error).__name__, str(error))))


def bound_text(text: str) -> str:
    """Return a text that can be stored, cut to `MAX_ANSWER` characters with a note that says so."""
    text = replace_surrogates(text)
    if len(text) <= MAX_ANSWER:
        return text
    return f"{text[:MAX_ANSWER]}\n(cut here: the answer has {len(text):,} characters, of which {MAX_ANSWER:,} are kept)"
