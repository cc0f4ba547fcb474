"""The price table of the user: what models cost, in a TOML file."""

import os
import tomllib
from functools import lru_cache
from pathlib import Path

from langchain_core.messages.ai import UsageMetadata
from pydantic import Field, TypeAdapter, ValidationError

from certigraph.adapters.caching import expanded
from certigraph.state.endings import Fault
from certigraph.state.records import Record

TABLE = "CERTIGRAPH_PRICES"
"""Environment variable that names a price table."""

EXAMPLE = '["gpt-4o-mini"]\nread = 0.15\ncached = 0.075\nwritten = 0.60'
"""One entry of a price table, in TOML."""

MOST_BYTES = 1_000_000
"""Size of a price table."""


class Price(Record):
    """US dollars per million tokens."""

    read: float = Field(ge=0, allow_inf_nan=False)
    cached: float | None = Field(None, ge=0, allow_inf_nan=False)
    """Of tokens read from a prefix cache; as `read` where it is not given."""
    written: float = Field(ge=0, allow_inf_nan=False)

    def of(self, usage: UsageMetadata) -> float:
        """US dollars of one call."""
        cached = cached_tokens(usage)
        kept = self.read if self.cached is None else self.cached
        read = (usage["input_tokens"] - cached) * self.read
        return (read + cached * kept + usage["output_tokens"] * self.written) / 1e6

    @property
    def least(self) -> float:
        """US dollars that no call stays under: those of one token."""
        return min(self.read, self.written) / 1e6


def own_prices() -> dict[str, Price]:
    """The user's prices by model; none where CERTIGRAPH_PRICES is unset.

    Raises:
        Fault: ("data") the file that it names is no price table.
    """
    named = os.environ.get(TABLE)
    if not named:
        return {}
    try:
        path = expanded(named)
        return _read(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise Fault("data", f"{TABLE}={named}: {error}; name a file of prices, or unset {TABLE}") from error


@lru_cache(maxsize=4)
def _read(path: Path, changed: int) -> dict[str, Price]:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES:,} bytes")
        return _TABLE.validate_python(tomllib.loads(path.read_text(encoding="utf-8")))
    except (ValueError, RecursionError) as error:  # of TOML, of text that is no UTF-8 and of pydantic alike
        told = f"{path} is no price table: {_brief(error)}; an entry, in US dollars per million tokens:\n{EXAMPLE}"
        raise Fault("data", told) from error


_TABLE = TypeAdapter(dict[str, Price])


def _brief(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    # a key that is misspelt says more than the one that is missing for it
    first = max(error.errors(include_url=False), key=lambda told: told["type"] == "extra_forbidden")
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def unpriced(model: str, dollars: float) -> str:
    """What to tell whoever limits dollars where a model has no known price."""
    entry = EXAMPLE.replace("gpt-4o-mini", model)
    return (
        f"{model} has no known price, so that usd={dollars:g} cannot hold: leave usd away, or name a table of prices, "
        f"{TABLE}=prices.toml; an entry of it, in US dollars per million tokens:\n{entry}"
    )


def cached_tokens(usage: UsageMetadata) -> int:
    """Input tokens that the endpoint read from its prefix cache."""
    return (usage.get("input_token_details") or {}).get("cache_read") or 0
