"""Tests of `adapters.models.prices`."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages.ai import UsageMetadata

from certigraph.adapters.models.chat_models import chat_model
from certigraph.adapters.models.prices import FREE_PRICE, PRICES_VARIABLE, ListPrice, Price, price_of
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.state.endings import Fault

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
    assert dollars(named("openai/gpt-4o-mini"), read=1_000_000, written=1_000_000) == pytest.approx(0.75)
    table('["gpt-4o-mini"]\nread = 7\nwritten = 8')
    assert named("openai/gpt-4o-mini") == Price(read=7, written=8)


def dollars(price: Price | ListPrice | None, *, read: int = 0, written: int = 0, **details: int) -> float:
    assert price
    details_of: Any = {"input_token_details": details}
    return price.of(UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written, **details_of))


def test_a_list_price_has_tiers_and_prices_of_the_prefix_cache() -> None:
    long = named("openai/gpt-5.4")
    assert dollars(long, read=272_000) == pytest.approx(0.68)
    assert dollars(long, read=272_001) > 2 * dollars(long, read=272_000) * 0.999
    claude = named("anthropic/claude-sonnet-4-5-20250929")
    plain, written, cached = (
        dollars(claude, read=1_000, **kind) for kind in ({}, {"cache_creation": 1_000}, {"cache_read": 1_000})
    )
    assert cached < plain < written
    assert claude and claude.minimum == pytest.approx(plain / 1_000)


@pytest.mark.parametrize(
    "name", ["gpt-4o", "openai/unheard-of", "openai-api/gpt-4o", "ollama/gpt-4o", "certigraph/openai:gpt-4o", "openai/"]
)
def test_no_price_is_guessed(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert named(name) is None


@pytest.mark.parametrize(
    ("address", "known"),
    [("https://api.openai.com/v1", True), ("https://api.groq.com/openai/v1", False), ("http://127.0.0.1:9/v1", False)],
)
def test_an_address_decides_whose_prices_count(monkeypatch: pytest.MonkeyPatch, address: str, known: bool) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    assert (named("openai/gpt-4o-mini") is not None) is known


@pytest.mark.parametrize(("provider", "known"), [("anthropic", True), ("ownanthropic", False)])
def test_other_models_of_langchain_have_list_prices(provider: str, known: bool) -> None:
    class Chat(Named):
        model: str = "claude-sonnet-4-5"

        def _get_ls_params(self, stop: Any = None, **kwargs: Any) -> Any:
            return super()._get_ls_params(stop, **kwargs) | {"ls_provider": provider}

    assert (price_of(Chat(model_name="")) is not None) is known


@pytest.mark.slow
def test_no_connection_is_made_for_a_list_price() -> None:
    code = """if True:
        events = ("socket.connect", "socket.getaddrinfo")
        import socket, sys
        sys.addaudithook(lambda event, args: sys.exit(event) if event in events else None)
        from types import SimpleNamespace
        from certigraph.adapters.models.prices import price_of
        assert price_of(SimpleNamespace(model_name="gpt-4o-mini", metadata=None)).minimum > 0
    """
    environment = {
        name: value for name, value in os.environ.items() if name not in ("OPENAI_BASE_URL", PRICES_VARIABLE)
    }
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=120)


def test_cached_tokens_cost_what_the_table_says_or_as_much_as_others(table: Any) -> None:
    usage = UsageMetadata(
        input_tokens=1_000_000, output_tokens=0, total_tokens=1_000_000, input_token_details={"cache_read": 500_000}
    )
    assert Price(read=1, cached=0.5, written=9).of(usage) == pytest.approx(0.75)
    assert Price(read=1, written=9).of(usage) == pytest.approx(1.0)


def test_scripts_cost_nothing() -> None:
    assert price_of(chat_model("scripted:first")) == FREE_PRICE


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[qwen]\nread = 1", "qwen.written"),
        ("[qwen]\nread = -1\nwritten = 2", "qwen.read"),
        ("[qwen]\nread = 1\nwritten = 2\nper = 'token'", "qwen.per"),
        ("qwen = 3", "qwen"),
        (b"#" * 1_000_001, "larger"),
    ],
)
def test_a_file_that_is_not_a_table_is_refused(table: Any, text: str | bytes, value: str) -> None:
    path = table(text)
    with pytest.raises(Fault, match=value) as refused:
        named("qwen")
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("path", ["/nowhere/prices.toml", "~nosuchuser/prices.toml"])
def test_a_table_that_is_not_there_is_reported(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setenv(PRICES_VARIABLE, path)
    with pytest.raises(Fault, match=path):
        named("qwen")
