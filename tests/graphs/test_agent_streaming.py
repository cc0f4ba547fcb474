"""Answers and thoughts of agents in stream mode "messages", while the model writes them."""

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from http.server import ThreadingHTTPServer
from itertools import chain, repeat
from typing import Any

import pytest
from helpers.servers.endpoint_stub import JsonHandler, completion, serving
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel, PrivateAttr

from certigraph import Budget, LimitReached, agent
from certigraph.state.records import Audit, Predicate, Verdict

ANSWER = "Order 17 was paid, and nothing is left to do."
THOUGHT = "The order is known now."
FINISH = [("finish", {"thought": THOUGHT, "answer": ANSWER})]
LOOK_UP = [("look_up", {"thought": "Its state is missing.", "order": 17})]

GOAL = Predicate(text="The request is fulfilled.", kind="goal")

Calls = Sequence[tuple[str, dict[str, Any]]]


def look_up(order: int) -> str:
    """Look up an order."""
    return f"order {order}: paid"


class TypingModel(BaseChatModel):
    """Model that makes prepared calls, and writes them a few characters at a time where it is streamed."""

    replies: tuple[Any, ...] = ()
    native: bool = True
    _left: list[Any] = PrivateAttr(default_factory=list)
    _streamed: list[bool] = PrivateAttr(default_factory=list)

    def model_post_init(self, context: Any) -> None:
        super().model_post_init(context)
        self._left = list(self.replies)
        self.profile = {"tool_calling": self.native}

    @property
    def _llm_type(self) -> str:
        return "typing"

    @property
    def streamed(self) -> list[bool]:
        """Whether each reply was streamed."""
        return self._streamed

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=tools, **kwargs)

    def _next(self, *, streamed: bool) -> Iterator[AIMessageChunk]:
        self._streamed.append(streamed)
        calls: Calls = [(name, dict(args)) for name, args in self._left.pop(0)]
        if not self.native:
            thought = " ".join(args.pop("thought", "") for _, args in calls)
            written = json.dumps({"thought": thought, "calls": [{"name": name, "args": args} for name, args in calls]})
            yield from (AIMessageChunk(content=piece) for piece in _pieces(written))
            return
        for index, (name, args) in enumerate(calls):
            for number, piece in enumerate(_pieces(json.dumps(args))):
                named = {"name": name, "id": f"c{index}"} if number == 0 else {"name": None, "id": None}
                part: Any = {**named, "args": piece, "index": index, "type": "tool_call_chunk"}
                yield AIMessageChunk(content="", tool_call_chunks=[part])

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        first, *rest = self._next(streamed=False)
        for chunk in rest:
            first += chunk
        message = AIMessage(first.content, tool_calls=first.tool_calls)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        for message in self._next(streamed=True):
            chunk = ChatGenerationChunk(message=message)
            if run_manager:
                run_manager.on_llm_new_token(message.text, chunk=chunk)
            yield chunk


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + 5] for start in range(0, len(text), 5))


def build(*replies: Calls, method: Any = "react", native: bool = True, **settings: Any) -> tuple[Any, TypingModel]:
    model = TypingModel(replies=replies, native=native)
    effects: Any = {"look_up": "repeatable"}
    settings |= {} if method == "sdp" or "audit" in settings else {"audit": None}
    return agent(method, model=model, tools=[look_up], effects=effects, commitments=None, **settings), model


def stream(graph: Any, way: str = "stream", **options: Any) -> list[tuple[Any, Any]]:
    given: Any = {"goal": "Was order 17 paid?"}
    config: Any = {"configurable": {"thread_id": "t"}}
    if way == "stream":
        return list(graph.stream(given, config, stream_mode="messages", **options))

    async def collect() -> list[tuple[Any, Any]]:
        return [part async for part in graph.astream(given, config, stream_mode="messages", **options)]

    return asyncio.run(collect())


def texts(parts: Sequence[tuple[Any, Any]]) -> dict[str, list[str]]:
    """Return the pieces of text of each message, by its id."""
    found: dict[str, list[str]] = {}
    for message, _ in parts:
        if message.type in ("ai", "AIMessageChunk") and message.text:
            found.setdefault(message.id, []).append(message.text)
    return found


def thoughts(parts: Sequence[tuple[Any, Any]]) -> list[str]:
    """Return the thoughts in messages, in their order."""
    blocks = [block for message, _ in parts for block in message.content_blocks]
    return [block["reasoning"] for block in blocks if block["type"] == "reasoning"]


@pytest.mark.parametrize("way", ["stream", "astream"])
@pytest.mark.parametrize("native", [True, False])
def test_an_answer_arrives_in_pieces_of_the_message_that_is_kept(way: str, native: bool) -> None:
    graph, _ = build(LOOK_UP, FINISH, native=native, checkpointer=InMemorySaver())
    parts = stream(graph, way)
    [(message_id, pieces)] = texts(parts).items()
    assert "".join(pieces) == ANSWER
    assert len(pieces) > 3
    kept = graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"][-1]
    assert (kept.id, kept.text) == (message_id, ANSWER)


@pytest.mark.parametrize("native", [True, False])
def test_a_thought_is_the_reasoning_of_the_calls_that_it_led_to(native: bool) -> None:
    graph, _ = build(LOOK_UP, FINISH, native=native)
    parts = stream(graph)
    assert thoughts(parts) == ["Its state is missing."]
    [[call]] = [message.tool_calls for message, _ in parts if getattr(message, "tool_calls", ())]
    assert (call["name"], call["args"]) == ("look_up", {"order": 17})


@pytest.mark.parametrize("way", ["stream", "astream"])
@pytest.mark.parametrize("native", [True, False])
def test_every_message_that_is_streamed_is_kept(way: str, native: bool) -> None:
    graph, _ = build([*LOOK_UP, *LOOK_UP], [("drop", {})], FINISH, native=native, checkpointer=InMemorySaver())
    streamed = {message.id for message, _ in stream(graph, way)}
    kept = graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"]
    assert streamed == {one.id for one in kept}
    assert [one.type for one in kept] == ["human", "ai", "tool", "tool", "ai"]


def test_no_reply_is_streamed_where_nobody_watches() -> None:
    graph, model = build(LOOK_UP, FINISH)
    graph.invoke({"goal": "x"})
    assert model.streamed == [False, False]


def test_the_answer_of_sdp_comes_whole_after_it_was_certified() -> None:
    def validate(state: Any) -> dict[str, Verdict]:
        return {"verdict": Verdict(depth=int(bool(model.streamed)), reason="once the answer is there")}

    graph, model = build(FINISH, method="sdp", propose=lambda state: {"plan": (GOAL,)}, validate=validate)
    parts = stream(graph)
    assert model.streamed == [True]
    assert list(texts(parts).values()) == [[ANSWER]]


def test_an_answer_in_a_form_of_the_users_is_not_shown_in_pieces() -> None:
    class Paid(BaseModel):
        answer: str

    graph, _ = build(FINISH, response_format=Paid)
    [[answer]] = texts(stream(graph)).values()
    assert json.loads(answer) == {"answer": ANSWER}


def test_a_secret_is_masked_although_it_arrives_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-abcdefghij0123456789klmnop"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    graph, _ = build([("finish", {"thought": f"I know {secret} now.", "answer": f"It is {secret}. Done."})])
    parts = stream(graph)
    assert secret[:12] not in str(parts)
    assert "Done." in str(parts)


def test_an_answer_next_to_other_calls_is_not_shown() -> None:
    graph, _ = build([*LOOK_UP, *FINISH], [("finish", {"thought": "", "answer": "Yes, it was."})])
    assert ["".join(pieces) for pieces in texts(stream(graph)).values()] == ["Yes, it was."]


def test_an_unusable_answer_is_replaced_by_the_next_one() -> None:
    wrong = [("finish", {"thought": "", "answer": "Not this.", "more": 1}), ("drop", {})]
    graph, _ = build(wrong, FINISH)
    answers = [message for message, _ in stream(graph) if message.text and message.type != "human"]
    assert (answers[0].type, answers[0].text) == ("AIMessageChunk", "Not ")
    assert (answers[-1].type, answers[-1].text) == ("ai", ANSWER)
    assert len({answer.id for answer in answers}) == 1


def test_an_answer_that_is_sent_back_is_withdrawn_and_the_next_one_is_another_message() -> None:
    verdicts = iter([False, True])

    def audit(state: Any) -> dict[str, Audit]:
        return {"audit": Audit(confirmed=next(verdicts), reason="look it up")}

    first = [("finish", {"thought": "", "answer": "I suppose that it was paid."})]
    graph, _ = build(first, LOOK_UP, FINISH, checkpointer=InMemorySaver(), audit=audit)
    given, thread = {"goal": "Was order 17 paid?"}, {"configurable": {"thread_id": "t"}}
    parts = list(graph.stream(given, thread, stream_mode=["messages", "custom"]))
    shown = texts([part for mode, part in parts if mode == "messages" and part[0].type != "human"])
    [withdrawn] = [event for mode, event in parts if mode == "custom" and event["type"] == "not_done"]
    assert ["".join(pieces) for pieces in shown.values()] == ["I suppose that it was paid.", ANSWER]
    assert withdrawn == {"type": "not_done", "message_id": next(iter(shown)), "reason": "look it up"}
    kept = graph.get_state(thread).values["messages"]
    assert [one.type for one in kept] == ["human", "ai", "tool", "ai"]
    assert withdrawn["message_id"] not in {one.id for one in kept}


# Endpoints.


class StreamingEndpoint(ThreadingHTTPServer):
    """Endpoint that streams its calls where it is asked to. It may refuse that, or send a whole reply all the same."""

    daemon_threads = True

    def __init__(self, refuses: str, tokens: int) -> None:
        super().__init__(("127.0.0.1", 0), _EndpointHandler)
        self.refuses, self.ignores, self.tokens = refuses, refuses == "nothing", tokens
        self.replies = [LOOK_UP, FINISH]
        self.streamed: list[bool] = []


class _EndpointHandler(JsonHandler):
    server: StreamingEndpoint

    def do_GET(self) -> None:  # noqa: N802 (the name is http.server's)
        self.send_json(404, {})

    def do_POST(self) -> None:  # noqa: N802
        body = self.read_json()
        if body.get(self.server.refuses):
            self.send_json(400, {"error": {"message": f"{self.server.refuses} is not supported"}})
            return
        streamed = bool(body.get("stream"))
        if streamed and self.server.ignores:
            self.send_json(200, completion("", "stop"))
            return
        [(name, args)] = self.server.replies.pop(0)
        self.server.streamed.append(streamed)
        call = {"id": "c", "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        reply = completion("", "tool_calls")
        reply["usage"]["completion_tokens"] = self.server.tokens
        reply["choices"][0]["message"]["tool_calls"] = [call]
        self.send_reply(reply, streamed=streamed)


@pytest.mark.parametrize("way", ["stream", "astream"])
@pytest.mark.parametrize(
    ("refuses", "streamed"), [("", True), ("stream_options", False), ("stream", False), ("nothing", False)]
)
def test_a_named_model_is_streamed_where_its_endpoint_can(
    way: str, refuses: str, streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(StreamingEndpoint(refuses, tokens=7)) as endpoint:
        monkeypatch.setenv("CERTIGRAPH_BASE_URL", f"http://127.0.0.1:{endpoint.server_port}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        name = f"openai:streams-{way}-{refuses}"
        graph = agent("react", model=name, tools=[look_up], commitments=None, check=None, audit=None)
        parts = stream(graph, way)
    [pieces] = texts(parts).values()
    assert "".join(pieces) == ANSWER
    assert (len(pieces) > 3) == streamed
    assert endpoint.streamed == [streamed, streamed]


@pytest.mark.parametrize("tokens", [7, -5])
def test_tokens_of_streamed_replies_are_counted(tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(StreamingEndpoint("", tokens)) as endpoint:
        monkeypatch.setenv("CERTIGRAPH_BASE_URL", f"http://127.0.0.1:{endpoint.server_port}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        saver = InMemorySaver()
        options: dict[str, Any] = {"commitments": None, "check": None, "audit": None}
        graph = agent("react", model="openai:counts", tools=[look_up], checkpointer=saver, **options)
        stream(graph)
    spent = graph.get_state({"configurable": {"thread_id": "t"}}).values["spent"]
    assert endpoint.streamed == [True, True]
    assert spent.calls == 2
    assert (spent.tokens == 2 * 107) == (tokens == 7)
    assert spent.tokens > 0


class EndlessModel(TypingModel):
    """Model that begins a reply and never ends it; each piece is there at once."""

    def _stream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> Iterator[ChatGenerationChunk]:
        first: Any = {"name": "finish", "id": "c", "args": '{"answer": "', "index": 0, "type": "tool_call_chunk"}
        for part in chain([first], repeat({**first, "name": None, "id": None, "args": "so it goes on " * 50})):
            message = AIMessageChunk(content="", tool_call_chunks=[part]) if self.native else AIMessageChunk("x " * 300)
            yield ChatGenerationChunk(message=message)


@pytest.mark.parametrize("way", ["stream", "astream"])
@pytest.mark.parametrize("native", [True, False])
def test_a_reply_without_end_ends_at_the_seconds_of_the_budget(way: str, native: bool) -> None:
    model = EndlessModel(native=native)
    options: Any = {"commitments": None, "budget": Budget(seconds=1), "on_limit": "raise"}
    graph = agent("react", model=model, tools=[look_up], effects={"look_up": "repeatable"}, **options)
    began = time.process_time()
    with pytest.raises(LimitReached, match="seconds"):
        stream(graph, way)
    assert time.process_time() - began < 4


def test_a_long_answer_takes_time_that_grows_with_it() -> None:
    long = "All orders of the year were paid. " * 2_000
    graph, _ = build([("finish", {"thought": THOUGHT, "answer": long})])
    began = time.process_time()
    [pieces] = texts(stream(graph)).values()
    assert "".join(pieces) == long.strip() or "".join(pieces) == long
    assert len(pieces) > 50
    assert time.process_time() - began < 10
