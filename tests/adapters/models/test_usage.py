"""Tests of `adapters.models.usage`."""

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.messages.ai import UsageMetadata

from certigraph.adapters.models.chat_models import chat_model
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.models.usage import (
    FREE_PRICE,
    NO_USAGE,
    PRICES_VARIABLE,
    Call,
    Meter,
    Price,
    cached_tokens,
    price_of,
    usage_of,
)
from certigraph.adapters.protocols import Budget
from certigraph.state.records import Fault

# The user's table of prices: whose names it knows, and what a file that is none is answered with.


class Named(ScriptedChat):
    free: bool = False
    priced_as: str = ""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def write(text: str | bytes) -> Path:
        path = tmp_path / "prices.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        monkeypatch.setenv(PRICES_VARIABLE, str(path))
        return path

    return write


def named(name: str) -> Price | None:
    return price_of(Named(priced_as=name))


@pytest.mark.parametrize("name", ["qwen", "certigraph/openai:qwen", "certigraph/openai:qwen?effort=low", "vllm/qwen"])
def test_a_model_is_found_by_its_own_name_whoever_serves_it(table: Any, name: str) -> None:
    table("[qwen]\nread = 1\nwritten = 2.5")
    assert named(name) == Price(read=1, written=2.5)
    assert named("other") is None


@pytest.mark.parametrize("name", ["qwen", "certigraph/openai:qwen"])
def test_a_table_may_call_a_model_as_certigraph_does(table: Any, name: str) -> None:
    table('["openai:qwen"]\nread = 1\nwritten = 2.5')
    assert named(name) == Price(read=1, written=2.5)


def test_the_users_table_is_believed_before_the_list_prices(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert named("openai/gpt-4o-mini") == Price(read=0.15, cached=0.075, written=0.6)
    table('["gpt-4o-mini"]\nread = 7\nwritten = 8')
    assert named("openai/gpt-4o-mini") == Price(read=7, written=8)


def test_cached_tokens_cost_what_the_table_says_or_as_much_as_others(table: Any) -> None:
    usage = UsageMetadata(
        input_tokens=1_000_000, output_tokens=0, total_tokens=1_000_000, input_token_details={"cache_read": 500_000}
    )
    assert Price(read=1, cached=0.5, written=9).of(usage) == pytest.approx(0.75)
    assert Price(read=1, written=9).of(usage) == pytest.approx(1.0)


def test_scripts_cost_nothing() -> None:
    assert price_of(chat_model("scripted:first")) == FREE_PRICE


@pytest.mark.parametrize(
    ("price", "cached", "unpriced"), [(None, False, True), (None, True, False), (FREE_PRICE, False, False)]
)
def test_a_call_whose_price_is_unknown_is_recorded_as_such(price: Price | None, cached: bool, unpriced: bool) -> None:
    meter, call = Meter("propose", Budget()), Call(role="planner", model="m", schema_name="text")
    with meter.open_call(call, price) as opened:
        opened.settle(call.model_copy(update={"cached": cached}))
    assert [record.unpriced for record in meter.records] == [unpriced]
    assert ("unpriced" in meter.records[0].as_json()) is unpriced


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[qwen]\nread = 1", "qwen.written"),
        ("[qwen]\nraed = 1\nwritten = 2", "qwen.raed"),
        ("[qwen]\nread = -1\nwritten = 2", "qwen.read"),
        ("[qwen]\nread = nan\nwritten = 2", "qwen.read"),
        ("[qwen]\nread = 1\nwritten = 2\nper = 'token'", "qwen.per"),
        ("qwen = 3", "qwen"),
        ("{", "prices.toml"),
        (b"\xff\xfe", "prices.toml"),
        ("x = " + "[" * 100_000, "prices.toml"),
        (b"#" * 1_000_001, "larger"),
    ],
)
def test_a_file_that_is_no_table_is_reported_with_an_entry_that_would_do(
    table: Any, text: str | bytes, told: str
) -> None:
    path = table(text)
    with pytest.raises(Fault, match=r"read = 0\.15") as refused:
        named("qwen")
    assert told in str(refused.value) and str(path) in str(refused.value)


@pytest.mark.parametrize("path", ["/nowhere/prices.toml", "~nosuchuser/prices.toml"])
def test_a_table_that_is_not_there_is_reported(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setenv(PRICES_VARIABLE, path)
    with pytest.raises(Fault, match=path):
        named("qwen")


# What an endpoint says that it billed: believed where it can be, counted here where it cannot.

ASKED, TEXT = [HumanMessage("Which of the two hotels is it to be?")], "The second one."
CACHED = {"input_token_details": {"cache_read": 2}}


def told(read: Any, wrote: Any = 1, **more: Any) -> UsageMetadata:
    return UsageMetadata(input_tokens=read, output_tokens=wrote, total_tokens=0, **more)


@pytest.mark.parametrize("usage", [told(5), told(2, **CACHED), NO_USAGE])
def test_what_can_be_is_believed(usage: UsageMetadata) -> None:
    assert usage_of(usage, ASKED, TEXT) == usage


@pytest.mark.parametrize(
    "usage",
    [None, told(-5), told(5, -1), told(float("nan")), told(10**400), told("5"), told(True), told(1, **CACHED)],
)
def test_what_cannot_be_is_counted_here(usage: UsageMetadata | None) -> None:
    counted = usage_of(usage, ASKED, TEXT)
    assert 5 < counted["input_tokens"] < 50 and 2 < counted["output_tokens"] < 20
    assert cached_tokens(counted) == 0
