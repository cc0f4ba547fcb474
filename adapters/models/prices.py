"""What a call costs: the user's own price table first, then the few public prices that are known and stable."""

import os

from langchain_core.language_models import BaseChatModel
from langchain_core.messages.ai import UsageMetadata

from certigraph.adapters.models.price_table import Price, own_prices

FREE = Price(read=0, written=0)

OPENAI = {
    "gpt-4o": Price(read=2.50, cached=1.25, written=10.00),
    "gpt-4o-mini": Price(read=0.15, cached=0.075, written=0.60),
    "gpt-4.1": Price(read=2.00, cached=0.50, written=8.00),
    "gpt-4.1-mini": Price(read=0.40, cached=0.10, written=1.60),
    "gpt-4.1-nano": Price(read=0.10, cached=0.025, written=0.40),
}
"""OpenAI's list prices. Dated snapshots of one name differ in price, so only the plain names stand here."""


def price_of(model: BaseChatModel) -> Price | None:
    """The price of a model; None where neither the user's table nor this one has it.

    Raises:
        Fault: ("data") the file that CERTIGRAPH_PRICES names is no price table.
    """
    if getattr(model, "free", False) or "weights" in (model.metadata or {}):
        return FREE
    own, name = own_prices(), str(getattr(model, "priced_as", None) or getattr(model, "model_name", ""))
    listed = {} if _elsewhere(model) else OPENAI
    found = (own.get(form) for form in _forms(name))
    return next(filter(None, found), None) or listed.get(name.removeprefix("openai/"))


def _forms(name: str) -> tuple[str, ...]:
    """The names under which a table may have a model: inspect's, the endpoint's, certigraph's."""
    plain = name.rpartition("/")[2]
    served = plain.removeprefix("openai:").partition("?")[0]
    return name, plain, served, f"openai:{served}"


def usd(price: Price | None, usage: UsageMetadata) -> float:
    """US dollars of one call; 0 where the price is not known."""
    return price.of(usage) if price else 0.0


def _elsewhere(model: BaseChatModel) -> bool:
    return bool(getattr(model, "openai_api_base", None) or os.environ.get("OPENAI_BASE_URL"))
