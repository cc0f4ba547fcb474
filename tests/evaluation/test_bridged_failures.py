"""Requests that fail behind inspect's bridge: inspect has repeated them, so that nobody here does it once more."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")

from langchain_openai import ChatOpenAI
from langgraph.runtime import Runtime
from misbehaving_endpoint import misbehaving_endpoint
from pydantic import SecretStr
from tenacity import Future, RetryError

from certigraph.adapters.models.calls import Prompt, ask_text
from certigraph.adapters.models.usage import Meter, metering
from certigraph.adapters.protocols import Budget, Context
from certigraph.evaluation.evaluate import evaluate
from certigraph.evaluation.inspect_runs import BridgedChat
from certigraph.state.records import Fault
from certigraph.state.trajectory import read_trajectory


class Bridged(BridgedChat):
    """Behind it is a model of inspect's that needs no evaluation around it."""

    behind: str = "mockllm/model"

    @property
    def priced_as(self) -> str:
        return self.behind

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.behind}


def asked(monkeypatch: pytest.MonkeyPatch, behind: str = "mockllm/model", **budget: Any) -> tuple[Fault, int, int]:
    """The fault of a question, the calls that were booked, and the requests that were made."""
    requests: list[None] = []

    async def spent(*args: Any, **kwargs: Any) -> None:
        requests.append(None)
        attempt = Future(5)
        attempt.set_exception(ConnectionError("down, says sk-0123456789abcdefghij"))
        raise RetryError(attempt)

    monkeypatch.setattr(ChatOpenAI, "_agenerate", spent)
    chat = Bridged(model="inspect", behind=behind, api_key=SecretStr("none"), max_retries=0, disable_streaming=True)
    runtime = Runtime(context=Context(chat=chat))
    with metering(Meter("propose", Budget(**budget))) as meter, pytest.raises(Fault) as fault:
        asyncio.run(ask_text(Prompt("s", "u"), role="planner", runtime=runtime))
    return fault.value, meter.calls, len(requests)


def test_what_inspect_repeated_in_vain_is_one_call_and_one_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    fault, calls, requests = asked(monkeypatch)
    assert (fault.ending, calls, requests) == ("error:model", 1, 1)
    assert "down" in str(fault) and "sk-0123" not in str(fault)


@pytest.mark.parametrize(("behind", "requests"), [("certigraph/local", 1), ("mockllm/model", 0)])
def test_with_dollars_limited_only_what_is_free_or_priced_is_asked(
    monkeypatch: pytest.MonkeyPatch, behind: str, requests: int
) -> None:
    fault, calls, made = asked(monkeypatch, behind, usd=1.0)
    assert (calls, made) == (requests, requests)
    assert ("no known price" in str(fault)) == (not requests)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["refuses_schema", "refuses_temperature", "fails_first"])
def test_each_request_of_an_evaluation_is_a_call_of_its_run(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with misbehaving_endpoint(kind) as server:
        monkeypatch.setenv("CERTIGRAPH_BASE_URL", server.url)
        given = {"model": "openai:m", "ids": ["4-0", "4-1"], "budget": ["calls=12"], "quiet": True}
        evaluate("sdp", "blocksworld", **given, out=tmp_path)  # type: ignore[arg-type]
        calls = [read_trajectory(path).usage.calls for path in tmp_path.glob("*/trajectory.jsonl")]
    assert sum(calls) == server.count and max(calls) <= 12
