"""Tests of model profiles: which one a model gets, and what it changes in answers."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from threading import Thread, current_thread
from typing import Annotated, Any

import pytest
from helpers.servers.endpoint_stub import LocalServer, QuietHandler, serving
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from langgraph.runtime import Runtime
from pydantic import BaseModel, SecretStr

from certigraph.adapters.models.calls import ask, profile_of
from certigraph.adapters.models.profiles import DEFAULT_WINDOW, SMALL_DEFAULT_WINDOW, ModelProfile, profile_for
from certigraph.adapters.models.prompts import Prompt
from certigraph.adapters.models.schemas import Bounded, Truncated, schema_of
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context


class Listing(LocalServer):
    """Endpoint that lists its models in a given way."""

    def __init__(self, body: bytes) -> None:
        self.body, self.paths = body, list[str]()
        super().__init__(Handler, "/v1")


class Handler(QuietHandler):
    def do_GET(self) -> None:  # noqa: N802 - the name that the base class calls
        server: Any = self.server
        server.paths.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(server.body)


@pytest.fixture
def listing() -> Iterator[Any]:
    with ExitStack() as servers:
        yield lambda body: servers.enter_context(
            serving(Listing(body if isinstance(body, bytes) else json.dumps(body).encode()))
        )


def openai(name: str, url: str | None = None, **settings: Any) -> ChatOpenAI:
    return ChatOpenAI(model=name, base_url=url, api_key=SecretStr("sk-none"), **settings)


def profile(model: BaseChatModel, chosen: str = "") -> ModelProfile:
    return asyncio.run(profile_for(model, chosen))


def test_the_window_that_langchain_knows_decides():
    assert profile(openai("gpt-4o")) == ("full", 128_000)
    assert profile(openai("own", profile={"max_input_tokens": 8_000})) == ("small", 8_000)


def test_the_choice_overrides_the_window():
    assert profile(openai("gpt-4o"), "small") == ("small", 128_000)
    assert profile(openai("own", profile={"max_input_tokens": 8_000}), "full") == ("full", 8_000)


def test_a_model_about_which_nothing_is_known_is_full():
    assert profile(ScriptedChat()) == ("full", DEFAULT_WINDOW)
    assert profile(ScriptedChat(), "small") == ("small", SMALL_DEFAULT_WINDOW)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"max_model_len": 32_768}, ("full", 32_768)),
        ({"context_length": 8_192}, ("small", 8_192)),
        ({"meta": {"n_ctx": 4_096}}, ("small", 4_096)),
        ({}, ("full", DEFAULT_WINDOW)),
        ({"max_model_len": "many"}, ("full", DEFAULT_WINDOW)),
    ],
)
def test_an_endpoint_says_how_large_the_window_is(listing: Any, entry: dict[str, Any], expected: tuple[str, int]):
    server = listing({"data": [{"id": "other", "max_model_len": 1}, {"id": "own", **entry}]})
    model = openai("own", server.url)
    assert profile(model) == expected
    assert profile(model) == expected
    assert server.paths == ["/v1/models"], "it is asked once"


@pytest.mark.slow
@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'{"data": 3}', b'{"data": [7]}', b"x" * 9_000_000])
def test_an_endpoint_that_lists_nothing_usable_is_taken_for_a_full_one(listing: Any, body: bytes):
    assert profile(openai("own", listing(body).url)) == ("full", DEFAULT_WINDOW)


def test_an_endpoint_that_is_not_there_is_taken_for_a_full_one():
    assert profile(openai("own", "http://127.0.0.1:9/v1")) == ("full", DEFAULT_WINDOW)


class Report(BaseModel):
    """Answer with free texts, an identifier and a list."""

    reason: Annotated[str, Truncated(10)]
    action: Annotated[str, Bounded(10)]
    name: Annotated[str, Truncated(10, always=True)]
    parts: Annotated[list[str], Truncated(2)]
    plain: str


def test_texts_are_bounded_for_small_models_only_and_lists_for_all():
    small, full = (schema_of(Report, small=small)["properties"] for small in (True, False))
    assert {name: part.get("maxLength") for name, part in small.items()} == {
        "reason": 10,
        "action": 10,
        "name": 10,
        "parts": None,
        "plain": 1_000,
    }
    assert {name: part.get("maxLength") for name, part in full.items() if "maxLength" in part} == {"name": 10}
    assert small["parts"]["maxItems"] == full["parts"]["maxItems"] == 2
    assert "x-free-text" not in json.dumps([small, full])


@pytest.mark.parametrize(("chosen", "kept"), [("full", 2_000), ("small", 10)])
def test_a_long_answer_is_used_whole_by_the_full_profile(chosen: Any, kept: int):
    text = "x" * 2_000
    answer = {"reason": text, "action": text, "name": text, "parts": ["a", "b", "c"], "plain": text}
    context = Context(chat=ScriptedChat(responder=lambda prompt, schema: answer), profile=chosen)
    runtime = Runtime(context=context)
    report = asyncio.run(ask(Prompt("", ""), Report, role="planner", runtime=runtime))
    assert (len(report.reason), len(report.action), len(report.name)) == (kept, 2_000, 10)
    assert report.parts == ["a", "b"]
    assert asyncio.run(profile_of("planner", runtime)).is_small == (chosen == "small")


def test_an_endpoint_is_never_queried_in_the_event_loop(monkeypatch: pytest.MonkeyPatch):
    threads: list[Thread] = []
    monkeypatch.setattr(
        "certigraph.adapters.models.profiles._ask_endpoint", lambda *_: threads.append(current_thread())
    )
    address, profile = "http://127.0.0.1:9/v1", {"tool_calling": False}
    model = ChatOpenAI(model="m", api_key=SecretStr("none"), base_url=address, profile=profile)
    assert not asyncio.run(profile_for(model)).is_small
    assert threads and current_thread() not in threads
