"""Prices of models: the user's price table, and the public prices of providers."""

import os
import time
import tomllib
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_core.language_models import BaseChatModel
from langchain_core.messages.ai import UsageMetadata
from pydantic import Field, TypeAdapter, ValidationError

from certigraph.adapters.files import expand_path
from certigraph.state.endings import Fault
from certigraph.state.records import Record

if TYPE_CHECKING:
    from genai_prices.data_snapshot import DataSnapshot
    from genai_prices.types import ModelPrice

# The user's price table: a TOML file with the prices of models.

PRICES_VARIABLE = "CERTIGRAPH_PRICES"
"""Environment variable with the path of a price table."""

PRICES_EXAMPLE = '["gpt-4o-mini"]\nread = 0.15\ncached = 0.075\nwritten = 0.60'
"""Example of an entry in a price table, in TOML."""

MAX_PRICES_BYTES = 1_000_000
"""Maximum size of a price table in bytes."""


class Price(Record):
    """Price of a model in US dollars per million tokens: `read` for input tokens, `written` for output tokens."""

    read: float = Field(ge=0, allow_inf_nan=False)
    cached: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Price of input tokens that the endpoint read from its prefix cache; None means that it equals `read`."""
    written: float = Field(ge=0, allow_inf_nan=False)

    def of(self, usage: UsageMetadata) -> float:
        """Return the cost in US dollars of one call with this token usage."""
        cached_count = cached_tokens(usage)
        cached_price = self.read if self.cached is None else self.cached
        read_cost = (usage["input_tokens"] - cached_count) * self.read
        return (read_cost + cached_count * cached_price + usage["output_tokens"] * self.written) / 1e6

    @property
    def minimum(self) -> float:
        """Minimum cost of a call in US dollars: the price of one input or output token, whichever is cheaper."""
        return min(self.read, self.written) / 1e6


def load_user_prices() -> dict[str, Price]:
    """Load the user's price table: prices by name of the model; empty if CERTIGRAPH_PRICES is unset.

    Raises:
        Fault: ("data") the file named by CERTIGRAPH_PRICES cannot be read, or is not a price table.
    """
    filename = os.environ.get(PRICES_VARIABLE)
    if not filename:
        return {}
    try:
        path = expand_path(filename)
        return _read_prices(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise Fault(
            "data", f"{PRICES_VARIABLE}={filename}: {error}; name a file of prices, or unset {PRICES_VARIABLE}"
        ) from error


@lru_cache(maxsize=4)
def _read_prices(path: Path, changed: int) -> dict[str, Price]:
    try:
        if path.stat().st_size > MAX_PRICES_BYTES:
            raise ValueError(f"it is larger than {MAX_PRICES_BYTES:,} bytes")
        return _PRICES_TYPE.validate_python(tomllib.loads(path.read_text(encoding="utf-8")))
    except (ValueError, RecursionError) as error:  # from tomllib, from UTF-8 and from pydantic
        entry = f"an entry, in US dollars per million tokens:\n{PRICES_EXAMPLE}"
        message = f"{path} is not a price table: {_format_prices_error(error)}; {entry}"
        raise Fault("data", message) from error


_PRICES_TYPE = TypeAdapter(dict[str, Price])


def _format_prices_error(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    # a misspelt key explains more than the missing key that it causes
    first = max(error.errors(include_url=False), key=lambda detail: detail["type"] == "extra_forbidden")
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def format_missing_price(model: str, dollars: float) -> str:
    """Format the message for a run with a limit in dollars whose model has no known price."""
    entry = PRICES_EXAMPLE.replace("gpt-4o-mini", model)
    return (
        f"{model} has no known price, so that usd={dollars:g} cannot be enforced: remove usd, or set a price table, "
        f"{PRICES_VARIABLE}=prices.toml; an entry of it, in US dollars per million tokens:\n{entry}"
    )


def cached_tokens(usage: UsageMetadata) -> int:
    """Return the number of input tokens that the endpoint read from its prefix cache."""
    return (usage.get("input_token_details") or {}).get("cache_read") or 0


def cache_writes(usage: UsageMetadata) -> int:
    """Return the number of input tokens that the endpoint wrote to its prefix cache."""
    return (usage.get("input_token_details") or {}).get("cache_creation") or 0


# Prices of models: the user's table first, then the public prices of the provider.

FREE_PRICE = Price(read=0, written=0)


@dataclass(frozen=True)
class ListPrice:
    """Public price of a model, from the table of the package genai-prices, which reads no network.

    Attributes:
        rates: the prices of genai-prices, with their tiers by the length of the prompt.
    """

    rates: "ModelPrice"

    def of(self, usage: UsageMetadata) -> float:
        """Return the cost in US dollars of one call with this token usage."""
        from genai_prices import Usage as Counts

        counts = Counts(
            input_tokens=usage["input_tokens"],
            output_tokens=usage["output_tokens"],
            cache_read_tokens=cached_tokens(usage),
            cache_write_tokens=cache_writes(usage),
        )
        return float(self.rates.calc_price(counts)["total_price"])

    @cached_property
    def minimum(self) -> float:
        """Minimum cost of a call in US dollars: the price of one input or output token, whichever is cheaper."""
        one_read = UsageMetadata(input_tokens=1, output_tokens=0, total_tokens=1)
        one_written = UsageMetadata(input_tokens=0, output_tokens=1, total_tokens=1)
        return min(self.of(one_read), self.of(one_written))


def price_of(model: BaseChatModel) -> Price | ListPrice | None:
    """Return the price of a model, or None if it is unknown.

    Scripted and local models cost nothing. Other prices come from the user's price table, else from the public prices
    of the provider whose endpoint serves the model. A model at any other endpoint has no public price.

    Raises:
        Fault: ("data") the file named by CERTIGRAPH_PRICES cannot be read, or is not a price table.
    """
    if getattr(model, "free", False) or "weights" in (model.metadata or {}):
        return FREE_PRICE
    user_table, (provider, name) = load_user_prices(), _provider_and_name(model)
    prices = (user_table.get(form) for form in _name_forms(name))
    return next(filter(None, prices), None) or _find_list_price(model, provider, name)


def _provider_and_name(model: BaseChatModel) -> tuple[str, str]:
    """Return the provider that serves a model, as LangChain or Inspect names it, and the name of the model."""
    if name := getattr(model, "priced_as", None):  # Inspect's names are PROVIDER/NAME
        return name.partition("/")[0], name
    described = model._get_ls_params() if isinstance(model, BaseChatModel) else {}
    name = getattr(model, "model_name", None) or described.get("ls_model_name") or ""
    return described.get("ls_provider") or "openai", name


_ADDRESS_FIELDS = ("openai_api_base", "anthropic_api_url")
"""Fields of LangChain's chat models with the address of an endpoint."""

_PROVIDER_IDS = {"google_genai": "google", "google_vertexai": "google"}
"""Ids of providers in genai-prices that differ from LangChain's."""


def load_list_prices(address: str | None) -> "DataSnapshot | None":
    """Load the table of genai-prices for an endpoint, by default the provider's own; None if it cannot be listed there.

    Providers with public prices use https. Other endpoints save the 0.3 s and 14 MB of the first call.
    """
    if address and not address.startswith("https://"):
        return None
    from genai_prices.data_snapshot import get_snapshot

    return get_snapshot()


def _find_list_price(model: BaseChatModel, provider: str, name: str) -> ListPrice | None:
    addresses = (getattr(model, field, None) for field in _ADDRESS_FIELDS)
    address = next(filter(None, addresses), None) or os.environ.get(f"{provider.upper()}_BASE_URL")
    served, provider_id = name.removeprefix(f"{provider}/"), _PROVIDER_IDS.get(provider, provider)
    return _list_price_at(int(time.time() // 60), address, provider_id, served)


@lru_cache(maxsize=64)
def _list_price_at(minute: int, address: str | None, provider_id: str, served: str) -> ListPrice | None:
    # Some prices depend on the time of day. Every call asks several times, which takes up to half a millisecond.
    snapshot = load_list_prices(address)
    if snapshot is None:
        return None
    if not address and provider_id not in {known.id for known in snapshot.providers}:
        return None  # genai-prices guesses a provider from a part of its name
    try:
        _, info = snapshot.find_provider_model(served, None, None if address else provider_id, address)
    except LookupError:
        return None
    rates = info.get_prices(datetime.fromtimestamp(60 * minute, UTC))
    return None if rates.input_mtok is None and rates.output_mtok is None else ListPrice(rates)


def _name_forms(name: str) -> tuple[str, ...]:
    """Return the names under which a price table may list a model: those of Inspect, the endpoint and certigraph."""
    plain = name.rpartition("/")[2]
    served = plain.removeprefix("openai:").partition("?")[0]
    return name, plain, served, f"openai:{served}"


def cost_in_usd(price: Price | ListPrice | None, usage: UsageMetadata) -> float:
    """Return the cost of one call in US dollars; 0 if the price is unknown."""
    return price.of(usage) if price else 0.0
