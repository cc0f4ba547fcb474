"""Chat models and endpoints that fail at known rates.

`FaultyModel` wraps any LangChain chat model. `faulty_endpoint` serves an OpenAI-compatible endpoint on this machine
whose HTTP responses fail.
"""

import asyncio
import itertools
import json
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any, ClassVar
from urllib.error import HTTPError, URLError

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import Runnable, RunnableBinding, RunnableParallel, RunnableSequence
from pydantic import PrivateAttr

from certigraph.adapters.composed_chat import ComposedChat
from certigraph.adapters.faults import ANSWER_FAULTS, MODEL_FAULTS, REQUEST_FAULTS, SLOW_FAULT, Faults, Rates
from certigraph.adapters.http import MAX_ANSWER_BYTES

if TYPE_CHECKING:
    from openai import OpenAIError


# Effects of faults: corrupted answers, and the errors that a client raises.

REFUSAL_TEXT = "I cannot help with that."
INJECTED_URL = "http://injected.invalid/v1/chat/completions"
INJECTED = "injected"
"""Marker of injected faults, in the metadata of an answer and at the beginning of an error message."""


def corrupt_text(kind: str, text: str) -> str:
    """Return a text as a fault of this kind corrupts it; the empty text for the kind `empty`."""
    match kind:
        case "truncated":
            return text[: len(text) // 2]
        case "malformed":
            return "{]" + text.replace('"', "").replace(":", " ")
        case "wrong_schema":
            return json.dumps({"unexpected": [text]})
        case "refusal":
            return REFUSAL_TEXT
        case _:
            return ""


def corrupt_message(message: AIMessage, kind: str) -> AIMessage:
    """Return an answer as a fault of this kind corrupts it, tool calls included. The token usage is unchanged."""
    finish = {"finish_reason": "length"} if kind == "truncated" else {}
    metadata = {**message.response_metadata, INJECTED: kind, **finish}
    text = corrupt_text(kind, message.text) if message.text or not message.tool_calls else ""
    return AIMessage(
        REFUSAL_TEXT if kind == "refusal" else text,
        response_metadata=metadata,
        usage_metadata=message.usage_metadata,
        id=message.id,
        **_corrupt_tool_calls(message, kind),
    )


def create_client_error(kind: str, faults: Faults) -> "OpenAIError":
    """Create the error that OpenAI's client raises after its last retry if a fault of this kind persists."""
    import openai

    # httpx or httpx2, depending on the version of OpenAI's client
    http: Any = import_module(openai.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])
    request = http.Request("POST", INJECTED_URL)
    message = f"{INJECTED} {kind}"
    match kind:
        case "timeout":
            timeout = openai.APITimeoutError(request)
            timeout.args = (message,)
            return timeout
        case "dropped":
            return openai.APIConnectionError(message=message, request=request)
        case "rate_limit":
            wait = {"Retry-After": f"{faults.retry_after:g}"}
            return openai.RateLimitError(message, response=http.Response(429, headers=wait, request=request), body=None)
        case _:
            return openai.InternalServerError(message, response=http.Response(500, request=request), body=None)


def _corrupt_tool_calls(message: AIMessage, kind: str) -> dict[str, Any]:
    """Return the corrupted tool calls of an answer, as fields of AIMessage.

    Tool calls with broken JSON become invalid tool calls; for a wrong schema, the arguments are unexpected ones.
    """
    if kind == "wrong_schema":
        return {"tool_calls": [{**call, "args": {"unexpected": [call["args"]]}} for call in message.tool_calls]}
    if kind not in ("truncated", "malformed"):
        return {}
    broken = [(call, corrupt_text(kind, json.dumps(call["args"]))) for call in message.tool_calls]
    error = f"{INJECTED} {kind}"
    return {
        "invalid_tool_calls": [
            {"type": "invalid_tool_call", "name": call["name"], "id": call["id"], "args": args, "error": error}
            for call, args in broken
        ]
    }


# Chains that a model created, rewired to another model.


def replace_model(chain: Runnable[Any, Any], old: BaseChatModel, new: BaseChatModel) -> Runnable[Any, Any]:
    """Replace the model `old` by `new` in a chain: in bindings, sequences and parallel branches."""
    if chain is old:
        return new
    match chain:
        case RunnableBinding():
            return chain.model_copy(update={"bound": replace_model(chain.bound, old, new)})
        case RunnableSequence():
            return RunnableSequence(*(replace_model(step, old, new) for step in chain.steps))
        case RunnableParallel():
            return RunnableParallel({name: replace_model(step, old, new) for name, step in chain.steps__.items()})
        case _:
            return chain


# A chat model that fails at known rates, for the user's own LangGraph graphs as well.


class FaultyModel(BaseChatModel):
    """Chat model that calls `chat` and injects faults: `FaultyModel(chat=model, faults="timeout=0.1,seed=3")`.

    A failing request never reaches `chat`; it raises what OpenAI's client raises after its last retry. A corrupted
    answer was requested and is paid for. The seed of a request's fault includes its messages and the number of earlier
    requests with the same messages. So faults do not depend on concurrency, and a repeated request may succeed.
    """

    chat: BaseChatModel
    faults: Rates
    trial: int = 0
    """Number of this repetition of the task; part of the seed."""
    cache: Any = False
    """LangChain's cache is disabled, because a fault is not an answer of the model."""

    spoils: ClassVar[bool] = True
    """Mark for the cache of replies, which stores no reply of this class and does not import this module."""

    _requests: dict[str, Iterator[int]] = PrivateAttr(default_factory=dict)
    _injected: list[str] = PrivateAttr(default_factory=list)

    if TYPE_CHECKING:  # checkers do not see that pydantic converts the text

        def __init__(self, *, chat: BaseChatModel, faults: Faults | str, trial: int = 0, **fields: Any) -> None: ...

    @property
    def injected(self) -> Counter[str]:
        """Number of injected faults of each kind so far."""
        return Counter(self._injected)

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        """Bind tools as the wrapped model does; the result injects faults too."""
        if isinstance(self.chat, ComposedChat):
            return self.model_copy(update={"chat": self.chat.bind_tools(tools, **kwargs)})
        return replace_model(self.chat.bind_tools(tools, **kwargs), self.chat, self)

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Runnable[Any, Any]:
        """Return the wrapped model's structured output, which receives corrupted answers like real ones."""
        return replace_model(self.chat.with_structured_output(schema, **kwargs), self.chat, self)

    def model_post_init(self, context: Any, /) -> None:
        """Copy the metadata of the wrapped model, which identify the endpoint or the weights behind it."""
        self.metadata = self.metadata or self.chat.metadata

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the wrapped model, such as its name, address or price."""
        if name.startswith("_") or name == "chat":
            return super().__getattr__(name)  # type: ignore[misc]
        return getattr(self.chat, name)

    @property
    def _llm_type(self) -> str:
        return self.chat._llm_type

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {**self.chat._identifying_params, "faults": str(self.faults)}

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> Any:
        return self.chat._get_ls_params(stop, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        kind = self._draw_fault(messages)
        time.sleep(self.faults.delay if kind == SLOW_FAULT else 0)
        return _corrupt_result(self.chat._generate(messages, stop, run_manager, **kwargs), kind)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        kind = self._draw_fault(messages)
        await asyncio.sleep(self.faults.delay if kind == SLOW_FAULT else 0)
        return _corrupt_result(await self.chat._agenerate(messages, stop, run_manager, **kwargs), kind)

    def _draw_fault(self, messages: list[BaseMessage]) -> str:
        """Return the kind of the fault drawn for this request, or an empty text; count it.

        Raises:
            OpenAIError: the fault makes the request fail.
        """
        request = repr([(m.type, m.content, _tool_calls_of(m)) for m in messages])
        # both steps are atomic, so that no two threads get the same number
        number = next(self._requests.setdefault(request, itertools.count()))
        kind = self.faults.draw(MODEL_FAULTS, self.trial, request, number)
        if kind:
            self._injected.append(kind)
        if kind in REQUEST_FAULTS:
            raise create_client_error(kind, self.faults)
        return kind


def _corrupt_result(result: ChatResult, kind: str) -> ChatResult:
    if kind not in ANSWER_FAULTS:
        return result
    generations = [g.model_copy(update=_corrupted_fields(g, kind)) for g in result.generations]
    return result.model_copy(update={"generations": generations})


def _corrupted_fields(generation: Any, kind: str) -> dict[str, Any]:
    message = corrupt_message(generation.message, kind)
    return {"message": message, "text": message.text, "generation_info": None}


def _tool_calls_of(message: BaseMessage) -> list[Any]:
    """Return the tool calls of a message without their ids, which are random."""
    return [(call["name"], call["args"]) for call in getattr(message, "tool_calls", [])]


# Response bodies of an OpenAI-compatible endpoint: answers, errors and corrupted answers.

CHARS_PER_TOKEN = 4


def completion_body(request: dict[str, Any], text: str) -> bytes:
    """Return the response body of a chat completion with this text; token counts are estimated from characters."""
    read, written = len(json.dumps(request.get("messages", []))) // CHARS_PER_TOKEN, len(text) // CHARS_PER_TOKEN
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    body = {"id": INJECTED, "object": "chat.completion", "created": 0, "model": str(request.get("model", ""))}
    return json.dumps({**body, "choices": [choice], "usage": usage}).encode()


def error_body(message: str) -> bytes:
    """Return the response body of an error with this message."""
    return json.dumps({"error": {"message": message, "type": INJECTED}}).encode()


def corrupt_body(body: bytes, kind: str) -> bytes:
    """Return the response body of a chat completion as a fault of this kind corrupts it; tool calls are removed."""
    answer = json.loads(body)
    for choice in answer["choices"]:
        choice["message"]["content"] = corrupt_text(kind, choice["message"].get("content") or "")
        choice["message"].pop("tool_calls", None)
    return json.dumps(answer).encode()


# Handler of requests to a faulty endpoint.

AnswerText = Callable[[dict[str, Any]], str]
"""Function from a request's JSON body to the text of the answer."""

SLOW_CHUNKS = 5
"""Number of chunks in which a slow response body is sent."""

HANG_SECONDS = 600.0
"""Maximum seconds for which a request that times out is kept open; closing the endpoint ends it earlier."""

UPSTREAM_TIMEOUT = 120.0
"""Maximum seconds of a request that is forwarded to the real endpoint."""


class FaultHandler(BaseHTTPRequestHandler):
    """Handler of the HTTP requests to a faulty endpoint; every POST is a request to the model."""

    server: "FaultyEndpoint"

    def do_POST(self) -> None:
        """Answer the request, or fail in the way that was drawn for it."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        faults, kind = self.server.faults, self.server.draw_fault(body)
        match kind:
            case "timeout":
                self.server.closing.wait(HANG_SECONDS)
            case "dropped":
                pass
            case "rate_limit":
                self._send(429, error_body(f"{INJECTED} {kind}"), {"Retry-After": f"{faults.retry_after:g}"})
            case "server_error":
                self._send(500, error_body(f"{INJECTED} {kind}"))
            case _:
                self._answer(kind, *self._request_answer(body))

    def log_message(self, format: str, *args: Any) -> None:
        """Disable logging."""

    def _answer(self, kind: str, status: int, data: bytes) -> None:
        match kind if status == 200 else "":
            case "truncated":
                self._send(status, data[: len(data) // 2], {"Content-Length": str(len(data))})
            case "malformed":
                self._send(status, corrupt_text(kind, data.decode()).encode())
            case kind if kind in ANSWER_FAULTS:
                self._send(status, corrupt_body(data, kind))
            case kind:
                self._send(status, data, pause=self.server.faults.delay / SLOW_CHUNKS if kind == SLOW_FAULT else 0.0)

    def _request_answer(self, body: bytes) -> tuple[int, bytes]:
        if not isinstance(self.server.behind, str):
            request_body = json.loads(body)
            return 200, completion_body(request_body, self.server.behind(request_body))
        address = self.server.behind.rstrip("/") + self.path.removeprefix("/v1")
        forwarded_headers = {
            name: self.headers[name] for name in ("Authorization", "Content-Type") if name in self.headers
        }
        try:
            request = urllib.request.Request(address, body, forwarded_headers)
            with urllib.request.urlopen(request, timeout=UPSTREAM_TIMEOUT) as response:
                return _read_bounded(response.status, response)
        except HTTPError as status_error:
            return _read_bounded(status_error.code, status_error)
        except (URLError, TimeoutError) as failure:
            return 502, error_body(f"the endpoint behind failed: {failure}")

    def _send(self, status: int, data: bytes, headers: dict[str, str] | None = None, pause: float = 0.0) -> None:
        all_headers = {"Content-Type": "application/json", "Content-Length": str(len(data)), **(headers or {})}
        self.send_response(status)
        for name, value in all_headers.items():
            self.send_header(name, value)
        size = -(-len(data) // SLOW_CHUNKS) if pause else len(data)
        with suppress(OSError):  # the client closed the connection
            self.end_headers()
            for start in range(0, len(data), max(size, 1)):
                self.server.closing.wait(pause)
                self.wfile.write(data[start : start + size])


def _read_bounded(status: int, response: IO[bytes]) -> tuple[int, bytes]:
    body = response.read(MAX_ANSWER_BYTES + 1)
    if len(body) > MAX_ANSWER_BYTES:
        return 502, error_body(f"the endpoint behind answered with more than {MAX_ANSWER_BYTES:,} bytes")
    return status, body


# An OpenAI-compatible endpoint on this machine whose HTTP responses fail, in front of a real endpoint or a function.
#
# `FaultyModel` only raises the errors of a client; this endpoint tests the client itself: its retries, its timeouts and
# how it reads broken bodies. Streaming is not supported.


class FaultyEndpoint(ThreadingHTTPServer):
    """HTTP server of an endpoint that injects faults.

    Attributes:
        injected: number of injected faults by kind.
        requests: number of all requests.
    """

    daemon_threads = True

    def __init__(self, faults: Faults, behind: str | AnswerText) -> None:
        super().__init__(("127.0.0.1", 0), FaultHandler)
        self.faults, self.behind = faults, behind
        self.closing = threading.Event()
        self.injected = Counter[str]()
        self.requests = 0
        self._requests: dict[bytes, Iterator[int]] = {}
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """Base URL of the endpoint for OpenAI-compatible clients."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    def draw_fault(self, body: bytes) -> str:
        """Draw the fault of a request from its body and the number of earlier requests with the same body."""
        with self._lock:
            self.requests += 1
            number = next(self._requests.setdefault(body, itertools.count()))
            kind = self.faults.draw(MODEL_FAULTS, body, number)
            self.injected.update([kind] if kind else [])
        return kind

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors of clients that closed the connection."""


@contextmanager
def faulty_endpoint(faults: Faults | str, behind: str | AnswerText) -> Iterator[FaultyEndpoint]:
    """Serve an endpoint that fails at known rates while the block runs.

    Args:
        faults: the rates, or a text for `Faults.read` such as `timeout=0.1,seed=3`. Here `truncated` ends the response
            body before its announced length, `malformed` breaks it, `slow` sends it in chunks, and `timeout` sends no
            response.
        behind: base URL of the endpoint that answers the other requests, or a function from a request's JSON body to
            the text of the answer.
    """
    server = FaultyEndpoint(Faults.read(faults) if isinstance(faults, str) else faults, behind)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
