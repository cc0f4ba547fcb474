"""The faulty endpoint: what OpenAI's client makes of each fault, with and without its own retries."""

import json
import time
import urllib.request
from typing import Any

import openai
import pytest
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from certigraph.adapters.faults import MODEL
from certigraph.adapters.models.faults import FaultyEndpoint, faulty_endpoint

pytestmark = pytest.mark.slow  # HTTP

GOOD = '{"value": 1}'


def good(asked: dict[str, Any]) -> str:
    assert asked["messages"]
    return GOOD


def said(server: FaultyEndpoint, *, retries: int = 0) -> str:
    chat = ChatOpenAI(
        base_url=server.url, api_key=SecretStr("none"), model="m", max_retries=retries, timeout=2, temperature=0
    )
    try:
        return chat.invoke("?").text
    except (openai.OpenAIError, ValueError) as error:
        return type(error).__mro__[1].__name__


@pytest.mark.parametrize(
    ("kind", "heard"),
    [
        ("timeout", "APITimeoutError"),
        ("rate_limit", "RateLimitError"),
        ("server_error", "InternalServerError"),
        ("dropped", "APIConnectionError"),
        ("truncated", "APIConnectionError"),
        ("malformed", "ValueError"),
        ("empty", ""),
        ("refusal", "I cannot help with that."),
        ("wrong_schema", json.dumps({"unexpected": [GOOD]})),
        ("slow", GOOD),
    ],
)
def test_each_kind_on_the_wire(kind: str, heard: str) -> None:
    with faulty_endpoint(f"{kind}=1,retry_after=3", good) as server:
        assert said(server) == heard
    assert (server.requests, server.injected) == (1, {kind: 1})


@pytest.mark.parametrize(("kind", "seed"), [("rate_limit", 1), ("truncated", 2)])
def test_the_clients_own_retries_outlast_a_fault_that_passes(kind: str, seed: int) -> None:
    with faulty_endpoint(f"{kind}=0.5,retry_after=0.01,seed={seed}", good) as server:
        assert [said(server, retries=6) for _ in range(2)] == [GOOD] * 2
    assert server.injected[kind] >= 1
    assert server.requests == server.injected[kind] + 2


def test_a_client_waits_as_long_as_it_is_told() -> None:
    with faulty_endpoint("rate_limit=0.5,retry_after=0.4,seed=1", good) as server:
        began = time.monotonic()
        assert said(server, retries=6) == GOOD
    assert time.monotonic() - began >= 0.4 * server.injected["rate_limit"]


def test_in_front_of_another_endpoint_answers_and_refusals_are_passed_on() -> None:
    with faulty_endpoint("", good) as behind, faulty_endpoint("server_error=0.4,seed=2", behind.url) as before:
        heard = [said(before, retries=6) for _ in range(3)]
    assert heard == [GOOD] * 3
    assert before.injected["server_error"] == before.requests - behind.requests > 0
    with faulty_endpoint("", before.url) as lost:
        assert said(lost) == "InternalServerError"


def test_a_slow_body_comes_in_pieces() -> None:
    with faulty_endpoint("slow=1,delay=0.2", good) as server:
        request = urllib.request.Request(f"{server.url}/chat/completions", b'{"messages": [1]}')
        with urllib.request.urlopen(request) as response:
            first, began = response.read1(10_000), time.monotonic()
            rest = response.read()
    assert time.monotonic() - began >= 0.1
    assert rest
    assert json.loads(first + rest)["choices"][0]["message"]["content"] == GOOD


def test_the_same_requests_meet_the_same_faults() -> None:
    rates = ",".join(f"{kind}=0.08" for kind in MODEL if kind != "timeout") + ",delay=0,seed=5"
    told = []
    for _ in range(2):
        with faulty_endpoint(rates, good) as server:
            told.append(([said(server) for _ in range(25)], server.injected))
    assert told[0] == told[1]
    assert len(told[0][1]) > 3
