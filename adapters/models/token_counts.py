"""What a call is billed: the endpoint's own count of tokens where it can be believed, else one made here."""

from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.utils import count_tokens_approximately
from pydantic import BaseModel

from certigraph.adapters.models.price_table import cached_tokens

NO_USAGE = UsageMetadata(input_tokens=0, output_tokens=0, total_tokens=0)

MOST_TOKENS = 1_000_000_000
"""Tokens of one call that an endpoint is believed; less than nothing would let a budget never end."""


def usage_of(told: UsageMetadata | None, asked: Sequence[BaseMessage], text: str) -> UsageMetadata:
    """What was read and written: what the endpoint told, or about what it was where it told nothing that can be."""
    if told and _believable(told):
        return told
    read, wrote = count_tokens_approximately(asked), count_tokens_approximately([AIMessage(text)])
    return UsageMetadata(input_tokens=read, output_tokens=wrote, total_tokens=read + wrote)


def credible(used: Any) -> bool:
    """Whether what an OpenAI-compatible endpoint sends as `usage`, a mapping or an object, has usable counts."""
    read, wrote = _part(used, "prompt_tokens"), _part(used, "completion_tokens")
    read_details, wrote_details = _part(used, "prompt_tokens_details"), _part(used, "completion_tokens_details")
    details = [
        *(_part(read_details, name) for name in ("cached_tokens", "audio_tokens", "cache_write_tokens")),
        *(_part(wrote_details, name) for name in ("reasoning_tokens", "audio_tokens")),
        _part(used, "total_tokens"),
    ]
    if not all(part is None or isinstance(part, (dict, BaseModel)) for part in (read_details, wrote_details)):
        return False
    return _is_count(read) and _is_count(wrote) and all(count is None or _is_count(count) for count in details)


def _part(whole: Any, name: str) -> Any:
    return whole.get(name) if isinstance(whole, dict) else getattr(whole, name, None)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MOST_TOKENS


def _believable(told: UsageMetadata) -> bool:
    read, wrote, cached = told.get("input_tokens"), told.get("output_tokens"), cached_tokens(told)
    return _is_count(read) and _is_count(wrote) and _is_count(cached) and cached <= (read or 0)
