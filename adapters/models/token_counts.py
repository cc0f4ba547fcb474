"""What a call is billed: the endpoint's own count of tokens where it can be believed, else one made here."""

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.utils import count_tokens_approximately

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


def _believable(told: UsageMetadata) -> bool:
    read, wrote, cached = told["input_tokens"], told["output_tokens"], cached_tokens(told)
    whole = all(type(count) is int and 0 <= count <= MOST_TOKENS for count in (read, wrote, cached))
    return whole and cached <= read
