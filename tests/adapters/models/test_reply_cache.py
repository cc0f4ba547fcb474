"""The cache of replies: the same question is asked and paid once, and only usable answers are kept."""

import asyncio
import json
import sqlite3
import threading
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from helpers.servers.endpoint_stub import Stub, stub
from langchain_core.caches import InMemoryCache
from langchain_core.globals import set_llm_cache
from langchain_core.outputs import Generation
from langchain_openai import ChatOpenAI
from langgraph.runtime import Runtime
from pydantic import BaseModel, SecretStr

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.models.calls import ask, ask_text
from certigraph.adapters.models.clients import ONE_REQUEST
from certigraph.adapters.models.prompts import Prompt
from certigraph.adapters.models.reply_cache import CACHE_FILE, ReplyCache
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.models.usage import Call, Meter, metering
from certigraph.adapters.protocols import Budget, Context
from certigraph.adapters.trajectories import read_trajectory
from certigraph.runtime.run import run
from certigraph.state.endings import Fault


class Answer(BaseModel):
    value: int


class Other(BaseModel):
    value: int
    note: str = ""


PROMPT = Prompt("You answer.", "What is it?")


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CERTIGRAPH_DATA", "CERTIGRAPH_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def chat(server: Stub, **changes: Any) -> ChatOpenAI:
    settings = {
        "default_headers": ONE_REQUEST,
        "model": "stubbed",
        "temperature": 0.0,
        "max_retries": 0,
        "disable_streaming": True,
        **changes,
    }
    return ChatOpenAI(base_url=server.url, api_key=SecretStr("none"), **settings)


def call_model(
    cache: Path | None, model: Any, form: type[BaseModel] = Answer, prompt: Prompt = PROMPT, trial: int = 0
) -> Call:
    """The record of the last try at a question."""
    runtime = Runtime(context=Context(chat=model, cache=cache and str(cache), trial=trial))
    with metering(Meter("node", Budget())) as meter:
        asyncio.run(ask(prompt, form, role="planner", runtime=runtime))
    return meter.records[-1]


@pytest.mark.slow
def test_the_same_question_is_sent_once_whatever_the_address(tmp_path: Path):
    with stub('{"value": 1}') as first, stub('{"value": 2}') as second:
        paid, free = call_model(tmp_path, chat(first)), call_model(tmp_path, chat(second))
    assert (len(first.requests), len(second.requests)) == (1, 0)
    assert (paid.cached, paid.input_tokens + paid.output_tokens) == (False, 110)
    assert (free.cached, free.input_tokens, free.output_tokens, free.cached_tokens, free.usd) == (True, 0, 0, 0, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"trial": 1},
        {"form": Other},
        {"prompt": Prompt("You answer.", "And now?")},
        {"prompt": Prompt("You answer well.", "What is it?")},
        {"model": {"model": "other"}},
        {"model": {"temperature": 0.5}},
        {"model": {"max_completion_tokens": 50}},
    ],
)
def test_another_question_is_posed(change: dict[str, Any], tmp_path: Path):
    with stub('{"value": 1}') as server:
        call_model(tmp_path, chat(server))
        model = chat(server, **change.pop("model", {}))
        assert not call_model(tmp_path, model, **change).cached
        assert len(server.requests) == 2
        assert call_model(tmp_path, model, **change).cached


def test_a_key_is_the_hash_of_the_whole_request(tmp_path: Path):
    """Files of earlier versions have these keys: another hash would make their replies be paid again."""
    messages, others = [["human", "What is it?"]], {"model": ["m", {}], "schema": ["s", None], "trial": 0}
    ReplyCache(tmp_path).update(json.dumps(messages), json.dumps(others), [Generation(text="it")])
    text = json.dumps({"messages": messages, **others})
    with sqlite3.connect(tmp_path / CACHE_FILE) as replies:
        assert replies.execute("SELECT key FROM replies").fetchall() == [(sha256(text.encode()).hexdigest(),)]


@pytest.mark.slow
def test_an_unusable_answer_is_not_kept(tmp_path: Path):
    with stub("no JSON at all", '{"value": 1}') as server:
        call_model(tmp_path, chat(server))
    with stub('{"value": 3}') as server:
        assert not call_model(tmp_path, chat(server)).cached  # the first try was refused, so it is asked again
        assert len(server.requests) == 1


@pytest.mark.slow
def test_a_failed_request_is_not_kept(tmp_path: Path):
    with stub("", status=500) as broken, pytest.raises(Fault, match="failed"):
        call_model(tmp_path, chat(broken))
    with stub('{"value": 1}') as server:
        assert not call_model(tmp_path, chat(server)).cached


def test_prose_is_kept_too_and_a_script_is_not(tmp_path: Path):
    def say(model: Any) -> str:
        runtime = Runtime(context=Context(chat=model, cache=str(tmp_path)))
        return asyncio.run(ask_text(PROMPT, role="planner", runtime=runtime))

    with stub("Ünïcode ☃", "else") as server:
        assert say(chat(server)) == say(chat(server)) == "Ünïcode ☃"
    say(ScriptedChat())
    with sqlite3.connect(tmp_path / CACHE_FILE) as replies:
        assert [json.loads(text) for (text,) in replies.execute("SELECT reply FROM replies")] == [{"text": "Ünïcode ☃"}]


def test_prose_of_another_length_is_another_question_and_the_endpoint_gets_it(tmp_path: Path):
    with stub("first", "second") as server:
        runtime = Runtime(context=Context(chat=chat(server), cache=str(tmp_path)))
        values = [
            asyncio.run(ask_text(PROMPT, role="extractor", runtime=runtime, tokens=tokens)) for tokens in (None, 50, 50)
        ]
    assert values == ["first", "second", "second"]
    assert [request.get("max_completion_tokens") for request in server.requests] == [None, 50]


@pytest.mark.parametrize("broken", [b"no database", b"SQLite format 3\x00" + b"\xff" * 4_000])
def test_a_corrupt_file_is_a_clear_fault(broken: bytes, tmp_path: Path):
    (tmp_path / CACHE_FILE).write_bytes(broken)
    with stub('{"value": 1}') as server, pytest.raises(Fault, match=r"replies\.sqlite cannot serve.*--cache FOLDER"):
        call_model(tmp_path, chat(server))


@pytest.mark.parametrize("statement", ["PRAGMA user_version = 9", "CREATE TABLE mine (a)"])
def test_another_programs_database_is_left_alone(statement: str, tmp_path: Path):
    with sqlite3.connect(tmp_path / CACHE_FILE) as mine:
        mine.execute(statement)
    before = (tmp_path / CACHE_FILE).read_bytes()
    with stub('{"value": 1}') as server, pytest.raises(Fault, match="another program's"):
        call_model(tmp_path, chat(server))
    assert (tmp_path / CACHE_FILE).read_bytes() == before


def test_many_writers_at_once_lose_nothing_and_the_first_reply_stays(tmp_path: Path):
    def write(number: int) -> None:
        for prompt in ('"shared"', f'"own-{number}"'):
            ReplyCache(tmp_path).update(prompt, "{}", [Generation(text=f"{number}")])

    def read(prompt: str) -> str | None:
        found = ReplyCache(tmp_path).lookup(f'"{prompt}"', "{}")
        return found[0].text if found else None

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [read(f"own-{number}") for number in range(8)] == [str(number) for number in range(8)]
    shared = read("shared")
    ReplyCache(tmp_path).update('"shared"', "{}", [Generation(text="late")])
    assert shared and read("shared") == shared
    ReplyCache(tmp_path).clear()
    assert read("shared") is None


class TestCachesOfLangChain:
    """A cache that the caller set in LangChain is used as the file of `--cache` is."""

    @pytest.mark.slow
    def test_an_unusable_answer_is_not_stored(self) -> None:
        cache = InMemoryCache()
        with stub("no JSON at all", '{"value": 1}', '{"value": 2}') as server:
            call_model(None, chat(server, cache=cache))
            assert not call_model(None, chat(server, cache=cache)).cached
            assert len(server.requests) == 3

    @pytest.mark.slow
    def test_a_hit_costs_nothing(self) -> None:
        cache = InMemoryCache()
        with stub('{"value": 1}') as server:
            paid, free = call_model(None, chat(server, cache=cache)), call_model(None, chat(server, cache=cache))
            assert len(server.requests) == 1
            assert (paid.cached, free.cached, free.input_tokens) == (False, True, 0)
            assert not call_model(None, chat(server, cache=cache), trial=1).cached
            assert not call_model(None, chat(server, cache=False)).cached

    @pytest.mark.slow
    def test_the_cache_of_the_process_is_used_but_a_folder_first(self, tmp_path: Path) -> None:
        set_llm_cache(InMemoryCache())
        try:
            with stub('{"value": 1}') as server:
                assert not call_model(None, chat(server)).cached and call_model(None, chat(server)).cached
                assert not call_model(tmp_path, chat(server)).cached
                assert len(server.requests) == 2
        finally:
            set_llm_cache(None)

    def test_an_error_of_the_cache_is_a_fault(self) -> None:
        class Broken(InMemoryCache):
            async def alookup(self, prompt: str, llm_string: str) -> Any:
                raise ConnectionError("no route")

        with stub('{"value": 1}') as server, pytest.raises(Fault, match="Broken, failed: ConnectionError: no route"):
            call_model(None, chat(server, cache=Broken()))


@pytest.mark.slow
def test_a_run_again_sends_no_request_and_has_the_same_trajectory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    replies: list[str] = []
    expert = load_benchmark("blocksworld").expert()

    def recording(prompt: str, schema: dict[str, Any]) -> Any:
        replies.append(json.dumps(value := expert(prompt, schema)))  # type: ignore[misc]
        return value

    run("sdp", "blocksworld", "3-1", context=Context(chat=ScriptedChat(responder=recording)), out=tmp_path / "runs")

    def again() -> Any:
        context = Context(model="openai:stubbed", cache=str(tmp_path / "cache"))
        return run("sdp", "blocksworld", "3-1", context=context, out=tmp_path / "runs")

    with stub(*replies) as server:
        monkeypatch.setenv("CERTIGRAPH_BASE_URL", server.url)
        first, requests = again(), len(server.requests)
        second = again()
        assert (first.ending, requests, len(server.requests)) == ("goal", len(replies), len(replies))
    assert updates_of(second) == updates_of(first)
    assert (second.ending, second.certificates, second.scores) == (first.ending, first.certificates, first.scores)
    assert second.usage.calls == first.usage.calls
    assert (second.usage.input_tokens, second.usage.output_tokens) == (0, 0)
    calls = [call for event in read_trajectory(second.folder).events for call in event.calls]
    assert len(calls) == len(replies)
    assert all(call["cached"] for call in calls)
    assert "cache" not in second.trajectory.header.context  # a header holds no paths


def updates_of(result: Any) -> list[Any]:
    """What every node did, the name of the episode left out."""
    updates = [(event.node, dict(event.update or {})) for event in result.trajectory.events]
    return [(node, {key: value for key, value in update.items() if key != "episode"}) for node, update in updates]
