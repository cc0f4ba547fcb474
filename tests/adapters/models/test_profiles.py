"""Tests of model profiles: which window a model gets, and how a small one bounds answers and prompts."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from threading import Thread, current_thread
from typing import Annotated, Any, Literal

import pytest
from helpers.servers.endpoint_stub import LocalServer, QuietHandler, serving
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from langgraph.runtime import Runtime
from pydantic import BaseModel, SecretStr

from certigraph.adapters.models.calls import ask, deliberate
from certigraph.adapters.models.profiles import BOUNDED_WINDOW, DEFAULT_WINDOW, ModelProfile, profile_for
from certigraph.adapters.models.prompts import Prompt, fit_prompt, quote
from certigraph.adapters.models.schemas import (
    FirstReasoning,
    Reasoning,
    Requested,
    Truncated,
    longest_answer,
    schema_of,
)
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


def window(model: BaseChatModel, most: int = 0) -> int:
    return asyncio.run(profile_for(model, most)).window


def test_the_window_that_langchain_knows_decides():
    assert window(openai("gpt-4o")) == 128_000
    assert window(openai("own", profile={"max_input_tokens": 8_000})) == 8_000


def test_less_of_a_window_may_be_used_but_not_more():
    assert window(openai("gpt-4o"), 4_096) == 4_096
    assert window(openai("own", profile={"max_input_tokens": 8_000}), 32_000) == 8_000


def test_a_model_about_which_nothing_is_known_has_the_given_or_the_default_window():
    assert window(ScriptedChat()) == DEFAULT_WINDOW
    assert window(ScriptedChat(), 4_096) == 4_096


def test_answers_are_bounded_in_small_windows_only():
    assert ModelProfile(BOUNDED_WINDOW).most_characters == 0
    assert 0 < ModelProfile(4_096).most_characters <= 4 * ModelProfile(4_096).answer_tokens
    assert ModelProfile(4_096).prompt_tokens + ModelProfile(4_096).answer_tokens == 4_096


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"max_model_len": 32_768}, 32_768),
        ({"context_length": 8_192}, 8_192),
        ({"meta": {"n_ctx": 4_096}}, 4_096),
        ({}, DEFAULT_WINDOW),
        ({"max_model_len": "many"}, DEFAULT_WINDOW),
    ],
)
def test_an_endpoint_says_how_large_the_window_is(listing: Any, entry: dict[str, Any], expected: int):
    server = listing({"data": [{"id": "other", "max_model_len": 1}, {"id": "own", **entry}]})
    model = openai("own", server.url)
    assert window(model) == expected
    assert window(model) == expected
    assert server.paths == ["/v1/models"], "it is asked once"


@pytest.mark.slow
@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'{"data": 3}', b'{"data": [7]}', b"x" * 9_000_000])
def test_an_endpoint_that_lists_nothing_usable_has_the_default_window(listing: Any, body: bytes):
    assert window(openai("own", listing(body).url)) == DEFAULT_WINDOW


def test_an_endpoint_that_is_not_there_has_the_default_window():
    assert window(openai("own", "http://127.0.0.1:9/v1")) == DEFAULT_WINDOW


class Part(BaseModel):
    """Part of an answer."""

    name: Annotated[str, Truncated(10)]
    notes: list[str]


class Report(BaseModel):
    """Answer with a thought, free texts, an identifier and lists."""

    thought: FirstReasoning = ""
    reason: Reasoning
    text: str
    kind: Literal["one", "two"]
    name: Annotated[str, Truncated(10)]
    parts: Annotated[list[Part], Truncated(50)]
    numbers: Annotated[list[int], Requested] = []


def test_texts_are_bounded_for_small_windows_only_and_lists_for_all():
    bounded, free = schema_of(Report, 3_000), schema_of(Report)
    lengths = {name: part.get("maxLength") for name, part in bounded["properties"].items() if part["type"] == "string"}
    assert lengths["name"] == 10 and lengths["kind"] is None
    assert 0 < lengths["thought"] == lengths["reason"] < lengths["text"] < 1_000
    assert [name for name, part in free["properties"].items() if "maxLength" in part] == ["name"]
    assert free["properties"]["parts"]["maxItems"] == 50 > bounded["properties"]["parts"]["maxItems"] > 0
    assert bounded["required"] == free["required"] == [*Report.model_fields]
    assert "x-" not in json.dumps([bounded, free])


@pytest.mark.parametrize("most", [1_500, 3_072, 10_000])
def test_no_answer_that_a_bounded_schema_allows_is_longer_than_the_window_allows(most: int):
    schema = schema_of(Report, most)

    def longest(node: dict[str, Any]) -> Any:
        match node:
            case {"enum": options}:
                return max(options, key=len)
            case {"type": "object"}:
                return {name: longest(part) for name, part in node["properties"].items()}
            case {"type": "array"}:
                return [longest(node["items"])] * node["maxItems"]
            case {"type": "string"}:
                return "x" * node["maxLength"]
        return 1

    answer = longest(schema)
    assert len(json.dumps(answer)) <= longest_answer(schema) <= most
    Report.model_validate(answer)


@pytest.mark.parametrize("window", [0, 4_096])
def test_a_long_answer_is_used_whole_in_every_window(window: int):
    text = "x" * 2_000
    answer = {"thought": text, "reason": text, "text": text, "kind": "one", "name": text, "parts": []}
    context = Context(chat=ScriptedChat(responder=lambda prompt, schema: answer), window=window)
    report = asyncio.run(ask(Prompt("", ""), Report, role="planner", runtime=Runtime(context=context)))
    assert (report.thought, report.reason, report.text, report.name) == (text, text, text, "x" * 10)


@pytest.mark.parametrize("window", [0, 4_096])
def test_a_choice_comes_after_a_thought_that_is_bounded_in_a_small_window(window: int):
    seen: list[dict[str, Any]] = []

    def respond(prompt: str, schema: dict[str, Any]) -> Any:
        seen.append(schema["properties"])
        return {"thought": "because", "choice": "b"}

    runtime = Runtime(context=Context(chat=ScriptedChat(responder=respond), window=window))
    chosen = asyncio.run(deliberate(Prompt("", ""), ["a", "b"], role="executor", runtime=runtime))
    assert chosen == ("because", "b")
    assert list(seen[0]) == ["thought", "choice"] and ("maxLength" in seen[0]["thought"]) == bool(window)


def test_quoted_texts_are_cut_in_their_middle_where_a_prompt_does_not_fit():
    long, short = f"first {'a' * 30_000} last", "b" * 500
    prompt = Prompt("system", f"the task\n{quote(long)}\n{quote(short)}\nthe question", ("one thing",))
    fitted = fit_prompt(prompt, 1_000)
    assert len(fitted.system) + len(fitted.user) <= 3_500
    assert fitted.user.startswith("the task\n<world>\nfirst aaa") and fitted.user.endswith("\nthe question")
    assert "aaa last\n</world>" in fitted.user and quote(short) in fitted.user
    assert fitted.cut[0] == "one thing" and len(fitted.cut) == 2
    assert fit_prompt(prompt, 10_000) == prompt


def test_a_prompt_that_is_cut_keeps_the_task_and_names_what_was_left_out():
    sent: list[str] = []

    def respond(prompt: str, schema: dict[str, Any]) -> Any:
        sent.append(prompt)
        return {"thought": "", "choice": "a"}

    runtime = Runtime(context=Context(chat=ScriptedChat(responder=respond), window=4_096))
    prompt = Prompt("rules", f"task\n{quote('view ' * 10_000)}\nwhat next?")
    asyncio.run(deliberate(prompt, ["a"], role="executor", runtime=runtime))
    assert "rules" in sent[0] and "task" in sent[0] and "what next?" in sent[0]
    assert len(sent[0]) < 3.6 * ModelProfile(4_096).prompt_tokens


def test_an_endpoint_is_never_queried_in_the_event_loop(monkeypatch: pytest.MonkeyPatch):
    threads: list[Thread] = []
    monkeypatch.setattr(
        "certigraph.adapters.models.profiles._ask_endpoint", lambda *_: threads.append(current_thread())
    )
    address, profile = "http://127.0.0.1:9/v1", {"tool_calling": False}
    model = ChatOpenAI(model="m", api_key=SecretStr("none"), base_url=address, profile=profile)
    assert window(model) == DEFAULT_WINDOW
    assert threads and current_thread() not in threads
