"""Streams that fail, arguments with small errors, refusals of parameters, and replies whose JSON does not end."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from helpers.servers.endpoint_stub import JsonHandler, LocalServer, serving
from helpers.servers.provider_endpoint import Reply, openai_events, openai_reply
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.runtime import Runtime
from pydantic import BaseModel, PrivateAttr

import certigraph
from certigraph.adapters.models.calls import ask
from certigraph.adapters.models.cuts import find_cut, is_unfinished
from certigraph.adapters.models.prompts import Prompt
from certigraph.adapters.models.schemas import ParseError, parse_arguments, parse_reply
from certigraph.adapters.models.tool_calls import OfferedTool, read_calls
from certigraph.adapters.protocols import Budget, Context

ARGUMENTS = json.dumps({"thought": "t", "order": 17})
CALL = Reply(tool="look_up", arguments=ARGUMENTS)
DONE = Reply(tool="finish", arguments=json.dumps({"thought": "t", "answer": "done"}))
Events = list[dict[str, Any]]


class OddEndpoint(LocalServer):
    """An endpoint of OpenAI's interface that changes what it streams, its arguments, or refuses requests."""

    def __init__(self, stream: Callable[[Events], Events], arguments: Callable[[str], Any], refusal: Any) -> None:
        super().__init__(_Handler, "/v1")
        self.stream, self.arguments, self.refusal = stream, arguments, refusal
        self.bodies: list[dict[str, Any]] = []


class _Handler(JsonHandler):
    server: OddEndpoint

    def do_POST(self) -> None:  # noqa: N802
        body = self.read_json()
        self.server.bodies.append(body)
        if (refused := self.server.refusal(body, len(self.server.bodies))) is not None:
            status, error = refused
            self.send_json(status, {"error": error})
            return
        reply = DONE if "order 17 is paid" in json.dumps(body["messages"]) else CALL
        if "tools" not in body:
            call = {"name": reply.tool, "args": json.loads(reply.arguments)}
            reply = Reply(text=json.dumps({"thought": "t", "calls": [call]}))
        if body.get("stream"):
            events = self.server.stream(openai_events(reply, "length"))
            text = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
            self.send_bytes(200, f"{text}data: [DONE]\n\n".encode())
            return
        whole = openai_reply(reply, "length")
        for call in whole["choices"][0]["message"].get("tool_calls", ()):
            call["function"]["arguments"] = self.server.arguments(call["function"]["arguments"])
        self.send_json(200, whole)


def ask_office(monkeypatch: pytest.MonkeyPatch, *, streamed: bool = False, **odd: Any) -> tuple[str, list[int], Events]:
    """Return the ending of an agent at an odd endpoint, the orders that were looked up, and the requests."""
    looked_up: list[int] = []

    def look_up(order: int) -> str:
        """Look up an order."""
        looked_up.append(order)
        return f"order {order} is paid"

    same: Any = {"stream": lambda events: events, "arguments": lambda text: text, "refusal": lambda body, number: None}
    with serving(OddEndpoint(**{**same, **odd})) as server:
        monkeypatch.setenv("CERTIGRAPH_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none-needed-0123456789")
        graph = certigraph.agent(
            "react", model="openai:m", tools=[look_up], commitments=None, check=None, audit=None, budget=Budget(calls=9)
        )
        modes: Any = ["messages", "values"] if streamed else ["values"]
        states = [part for mode, part in graph.stream({"goal": "Look."}, stream_mode=modes) if mode == "values"]
        return states[-1]["ending"], looked_up, server.bodies


ODD_STREAMS: dict[str, Callable[[Events], Events]] = {
    "empty": lambda events: [],
    "choices null": lambda events: [{**events[0], "choices": None}, *events],
    "delta null": lambda events: [*events[:3], {**events[0], "choices": [{"index": 0, "delta": None}]}, *events[3:]],
    "no end": lambda events: events[:-3],
}


def refuse_tools(body: dict[str, Any], number: int) -> Any:
    return (400, {"message": "tools are not supported"}) if "tools" in body else None


@pytest.mark.parametrize("change", ODD_STREAMS.values(), ids=[*ODD_STREAMS])
def test_a_stream_that_fails_is_followed_by_plain_requests(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[Events], Events]
) -> None:
    ending, looked_up, bodies = ask_office(monkeypatch, streamed=True, stream=change, refusal=refuse_tools)
    assert (ending, looked_up) == ("finished", [17])
    answered = [bool(body.get("stream")) for body in bodies if "tools" not in body]
    assert answered == [True, False, False], "one lost request for each model"


@pytest.mark.parametrize("name", ["empty", "no end"])
def test_a_stream_of_calls_that_fails_is_followed_by_plain_requests(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    ending, looked_up, bodies = ask_office(monkeypatch, streamed=True, stream=ODD_STREAMS[name])
    assert (ending, looked_up) == ("finished", [17])
    assert [bool(body.get("stream")) for body in bodies] == [True, False, False]


SMALL_ERRORS: dict[str, Callable[[str], Any]] = {
    "an object": json.loads,
    "JSON in JSON": json.dumps,
    "a brace too many": lambda text: text + "}",
    "a trailing comma": lambda text: text[:-1] + ",}",
    "single quotes": lambda text: text.replace('"', "'"),
    "a fence": lambda text: f"```json\n{text}\n```",
}


@pytest.mark.parametrize("change", SMALL_ERRORS.values(), ids=[*SMALL_ERRORS])
def test_native_arguments_may_have_small_errors(monkeypatch: pytest.MonkeyPatch, change: Callable[[str], Any]) -> None:
    ending, looked_up, bodies = ask_office(monkeypatch, arguments=change)
    assert (ending, looked_up, len(bodies)) == ("finished", [17], 2)


@pytest.mark.parametrize("text", ["tools param requires --jinja flag", "failed to parse grammar"])
def test_an_internal_error_that_names_a_parameter_is_a_refusal(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    def refuse(body: dict[str, Any], number: int) -> Any:
        return (500, {"message": text}) if "tools" in body else None

    ending, looked_up, bodies = ask_office(monkeypatch, refusal=refuse)
    assert (ending, looked_up) == ("finished", [17])
    assert ["tools" in body for body in bodies] == [True, False, False]


@pytest.mark.parametrize("code", ["tool_use_failed", "json_validate_failed"])
def test_what_an_endpoint_could_not_read_once_switches_no_parameter_off(
    monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    def fail_once(body: dict[str, Any], number: int) -> Any:
        error = {"message": "Failed to call a function.", "code": code, "failed_generation": "look_up 17"}
        return (400, error) if number == 1 else None

    ending, looked_up, bodies = ask_office(monkeypatch, refusal=fail_once)
    assert (ending, looked_up) == ("finished", [17])
    assert all("tools" in body and "tool_choice" in body for body in bodies) and len(bodies) == 3


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda part: st.lists(part) | st.dictionaries(st.text(), part),
)


@given(st.dictionaries(st.text(), JSON), st.data())
def test_every_beginning_of_a_json_object_is_unfinished(value: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(value, ensure_ascii=data.draw(st.booleans()), indent=data.draw(st.sampled_from([None, 1])))
    end = data.draw(st.integers(1, len(text) - 1))
    assert not is_unfinished(text)
    assert is_unfinished(text[:end])
    with pytest.raises(ParseError):
        parse_reply(text[:end], {"type": "object"})
    with pytest.raises(ParseError):
        parse_arguments(text[:end])


@pytest.mark.parametrize("text", ['{"a": 1,}', '{"a": 1}}', "{'a': 'it's'}", '{"a": "he said "yes", then"}', "see [1]"])
def test_other_errors_are_not_taken_for_a_cut(text: str) -> None:
    assert not is_unfinished(text)


TOOLS = [OfferedTool("pay", "Pay.", {"type": "object", "properties": {"euros": {"type": "number"}}})]


@pytest.mark.parametrize(
    "text",
    [
        '[{"name": "pay", "args": {"euros": 1}}, {"name": "pay", "args": {"euros": 4',
        '{"name": "pay", "args": {"euros": 1}}\n{"name": "pay", "args": {"euros": 2}}\n{"name": "pay", "ar',
        '```json\n{"name": "pay", "args": {"euros": 1}}\n```\nNo, rather:\n```json\n{"name": "pay", "args": {"eu',
        '<think>I could {"name": "pay", "args": {"euros": 1}}',
    ],
    ids=["list", "one after another", "example in a fence", "thoughts"],
)
def test_no_call_is_read_from_a_text_that_was_cut(text: str) -> None:
    with pytest.raises(ParseError):
        read_calls(text, TOOLS)


@pytest.mark.parametrize(
    ("metadata", "cut"),
    [
        ({"finish_reason": "length"}, "length"),
        ({"finish_reason": "stoplength"}, "stoplength"),
        ({"finish_reason": "MALFORMED_FUNCTION_CALL"}, "malformed_function_call"),
        ({"stop_reason": "refusal"}, "refusal"),
        ({"stopReason": "guardrail_intervened"}, "guardrail_intervened"),
        ({"done_reason": "length"}, "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "max_output_tokens"),
        ({"finish_reason": "a reason of tomorrow"}, "a reason of tomorrow"),
        *[({"finish_reason": whole}, "") for whole in ("stop", "STOP", "tool_calls", "stopstop", "COMPLETE", None)],
        *[({"stop_reason": whole}, "") for whole in ("end_turn", "tool_use", "stop_sequence")],
        ({"status": "completed"}, ""),
        ({}, ""),
    ],
)
def test_marks_of_providers(metadata: dict[str, Any], cut: str) -> None:
    assert find_cut(AIMessage("x", response_metadata=metadata)) == cut


def test_arguments_may_be_long_and_hold_integers_of_any_size() -> None:
    sent: list[tuple[int, int]] = []

    def transfer(wei: int, note: str) -> str:
        """Transfer an amount."""
        sent.append((wei, len(note)))
        return f"transferred {wei}"

    def respond(prompt: str, schema: Any) -> Any:
        args = {"wei": 10**20, "note": "x" * 150_000}
        done = {"name": "finish", "args": {"answer": "done"}}
        return {"thought": "", "calls": [done if "transferred" in prompt else {"name": "transfer", "args": args}]}

    model = certigraph.ScriptedChat(responder=respond)
    graph = certigraph.agent(
        "react", model=model, tools=[transfer], commitments=None, check=None, audit=None, checkpointer=InMemorySaver()
    )
    config: Any = {"configurable": {"thread_id": "1"}}
    assert graph.invoke({"goal": "Send."}, config)["ending"] == "finished"
    assert sent == [(10**20, 150_000)]


class Order(BaseModel):
    number: int


class DeafModel(BaseChatModel):
    """Model whose class ignores `response_format`: it answers in prose unless the prompt holds the schema."""

    _seen: list[bool] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "deaf"

    @property
    def seen(self) -> list[bool]:
        """Whether each prompt held the schema."""
        return self._seen

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        self._seen.append("fits this JSON schema" in str(messages[-1].content))
        message = AIMessage('{"number": 17}' if self._seen[-1] else "It is order 17.")
        return ChatResult(generations=[ChatGeneration(message=message)])


def test_a_model_that_ignores_the_schema_costs_one_request() -> None:
    model = DeafModel()
    runtime = Runtime(context=Context(chat=model))
    for _ in range(3):
        answer = asyncio.run(ask(Prompt("s", "u"), Order, role="executor", runtime=runtime))
        assert answer.number == 17
    assert model.seen == [False, True, True, True]


@pytest.mark.parametrize("last", ["refund(order=1", 'Action: refund(order=1, reason="la', "refund("])
def test_nothing_of_a_reply_whose_last_written_call_does_not_end_is_read(last: str) -> None:
    tools = [OfferedTool(name, "", {"type": "object", "properties": {}}) for name in ("look_up", "refund")]
    whole = "look_up(order=17)"
    assert [call.name for call in read_calls(f"{whole}\nThat is all (for now)", tools).calls] == ["look_up"]
    with pytest.raises(ParseError):
        read_calls(f"{whole}\n{last}", tools)
