"""What a call costs, for the few models whose public price is known and stable."""

import os
from typing import NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages.ai import UsageMetadata


class Price(NamedTuple):
    """US dollars per million tokens."""

    read: float
    cached: float
    written: float


OPENAI = {
    "gpt-4o": Price(2.50, 1.25, 10.00),
    "gpt-4o-mini": Price(0.15, 0.075, 0.60),
    "gpt-4.1": Price(2.00, 0.50, 8.00),
    "gpt-4.1-mini": Price(0.40, 0.10, 1.60),
    "gpt-4.1-nano": Price(0.10, 0.025, 0.40),
}
"""OpenAI's list prices. Dated snapshots of one name differ in price, so only the plain names stand here."""


def usd(model: BaseChatModel, usage: UsageMetadata) -> float:
    """Price of one call in US dollars; 0 for a model or an endpoint whose price is not known."""
    price = OPENAI.get(getattr(model, "model_name", ""))
    if price is None or _elsewhere(model):
        return 0.0
    cached = cached_tokens(usage)
    read = (usage["input_tokens"] - cached) * price.read
    return (read + cached * price.cached + usage["output_tokens"] * price.written) / 1e6


def cached_tokens(usage: UsageMetadata) -> int:
    """Input tokens that the endpoint read from its prefix cache."""
    return usage.get("input_token_details", {}).get("cache_read") or 0


def _elsewhere(model: BaseChatModel) -> bool:
    return bool(getattr(model, "openai_api_base", None) or os.environ.get("OPENAI_BASE_URL"))
