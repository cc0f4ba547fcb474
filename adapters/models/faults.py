"""Chat models and endpoints that fail at known rates."""

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
from threading import Event
from typing import IO, TYPE_CHECKING, Any, ClassVar, Protocol
from urllib.error import HTTPError, URLError

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import Runnable, RunnableBinding, RunnableParallel, RunnableSequence
from pydantic import PrivateAttr

from certigraph.adapters.faults import ANSWERING, FAILING, MODEL, SLOW, Faults, Rates
from certigraph.adapters.http import MOST_BYTES

if TYPE_CHECKING:
    from openai import OpenAIError


# What is left of an answer that a fault strikes, and what a client raises where none comes.

REFUSAL = "I cannot help with that."
NOWHERE = "http://injected.invalid/v1/chat/completions"
INJECTED = "injected"
"""Marks what was done on purpose: in the metadata of an answer, and in the words of an error."""


def spoiled_text(kind: str, text: str) -> str:
    """A text after a fault of an answer."""
    match kind:
        case "truncated":
            return text[: len(text) // 2]
        case "malformed":
            return "{]" + text.replace('"', "").replace(":", " ")
        case "wrong_schema":
            return json.dumps({"unexpected": [text]})
        case "refusal":
            return REFUSAL
        case _:
            return ""


def spoiled(message: AIMessage, kind: str) -> AIMessage:
    """An answer after a fault; it is billed as it was, and its calls of tools suffer as its text does."""
    finish = {"finish_reason": "length"} if kind == "truncated" else {}
    metadata = {**message.response_metadata, INJECTED: kind, **finish}
    text = spoiled_text(kind, message.text) if message.text or not message.tool_calls else ""
    return AIMessage(
        REFUSAL if kind == "refusal" else text,
        response_metadata=metadata,
        usage_metadata=message.usage_metadata,
        id=message.id,
        **_calls(message, kind),
    )


def client_error(kind: str, faults: Faults) -> "OpenAIError":
    """What OpenAI's client raises when its own retries are spent."""
    import openai

    # httpx or httpx2, as OpenAI's version has it
    http: Any = import_module(openai.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])
    request = http.Request("POST", NOWHERE)
    said = f"{INJECTED} {kind}"
    match kind:
        case "timeout":
            late = openai.APITimeoutError(request)
            late.args = (said,)
            return late
        case "dropped":
            return openai.APIConnectionError(message=said, request=request)
        case "rate_limit":
            wait = {"Retry-After": f"{faults.retry_after:g}"}
            return openai.RateLimitError(said, response=http.Response(429, headers=wait, request=request), body=None)
        case _:
            return openai.InternalServerError(said, response=http.Response(500, request=request), body=None)


def _calls(message: AIMessage, kind: str) -> dict[str, Any]:
    """The calls of tools: broken ones are no calls, of another form they have arguments that nobody asked for."""
    if kind == "wrong_schema":
        return {"tool_calls": [{**call, "args": {"unexpected": [call["args"]]}} for call in message.tool_calls]}
    if kind not in ("truncated", "malformed"):
        return {}
    broken = [(call, spoiled_text(kind, json.dumps(call["args"]))) for call in message.tool_calls]
    error = f"{INJECTED} {kind}"
    return {
        "invalid_tool_calls": [
            {"type": "invalid_tool_call", "name": call["name"], "id": call["id"], "args": args, "error": error}
            for call, args in broken
        ]
    }


# A chain that a model made of itself, asked of another model in its place.


def rewired(chain: Runnable[Any, Any], old: BaseChatModel, new: BaseChatModel) -> Runnable[Any, Any]:
    """The chain with `new` wherever `old` stands: bound to arguments, in a sequence, or beside others."""
    if chain is old:
        return new
    match chain:
        case RunnableBinding():
            return chain.model_copy(update={"bound": rewired(chain.bound, old, new)})
        case RunnableSequence():
            return RunnableSequence(*(rewired(step, old, new) for step in chain.steps))
        case RunnableParallel():
            return RunnableParallel({name: rewired(step, old, new) for name, step in chain.steps__.items()})
        case _:
            return chain


# Any chat model, failing at known rates: for own LangGraph graphs as for the runs here.


class FaultyModel(BaseChatModel):
    """Asks `chat` and injects faults: `FaultyModel(chat=mine, faults="timeout=0.1,seed=3")`.

    A request that fails raises what OpenAI's client raises when its own retries are spent, and never reaches `chat`;
    an answer that is spoiled was asked for and is billed. Drawn from the messages and how often they were asked
    before, so that concurrency changes nothing and a question that is asked again may be answered.
    """

    chat: BaseChatModel
    faults: Rates
    trial: int = 0
    """Which repetition of the task this is; each is drawn anew."""
    cache: Any = False
    """LangChain's cache of answers stays out: a fault is not the model's answer."""

    spoils: ClassVar[bool] = True
    """Tells the cache of replies, which does not load this file, to stay out as well."""

    _asked: dict[str, Iterator[int]] = PrivateAttr(default_factory=dict)
    _struck: list[str] = PrivateAttr(default_factory=list)

    @property
    def injected(self) -> Counter[str]:
        """How many faults of each kind were injected so far."""
        return Counter(self._struck)

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        """The tools in the form of the model behind."""
        return rewired(self.chat.bind_tools(tools, **kwargs), self.chat, self)

    def with_structured_output(self, schema: Any, **kwargs: Any) -> Runnable[Any, Any]:
        """The structured output of the model behind, which meets spoiled answers as it would real ones."""
        return rewired(self.chat.with_structured_output(schema, **kwargs), self.chat, self)

    def model_post_init(self, context: Any, /) -> None:
        """Carry the metadata of the model behind, which say what serves it."""
        self.metadata = self.metadata or self.chat.metadata

    def __getattr__(self, name: str) -> Any:
        """Whatever else the model behind has: its name, address and price."""
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
        kind = self._drawn(messages)
        time.sleep(self.faults.delay if kind == SLOW else 0)
        return _struck(self.chat._generate(messages, stop, run_manager, **kwargs), kind)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        kind = self._drawn(messages)
        await asyncio.sleep(self.faults.delay if kind == SLOW else 0)
        return _struck(await self.chat._agenerate(messages, stop, run_manager, **kwargs), kind)

    def _drawn(self, messages: list[BaseMessage]) -> str:
        """The fault of this request, which is counted; one that fails is raised."""
        question = repr([(m.type, m.content, _called(m)) for m in messages])
        # one step each, so that threads cannot take the same number
        number = next(self._asked.setdefault(question, itertools.count()))
        kind = self.faults.strikes(MODEL, self.trial, question, number)
        if kind:
            self._struck.append(kind)
        if kind in FAILING:
            raise client_error(kind, self.faults)
        return kind


_Spoil = Callable[[ChatResult, str], ChatResult]


def _struck(result: ChatResult, kind: str) -> ChatResult:
    if kind not in ANSWERING:
        return result
    generations = [g.model_copy(update=_replaced(g, kind)) for g in result.generations]
    return result.model_copy(update={"generations": generations})


def _replaced(generation: Any, kind: str) -> dict[str, Any]:
    message = spoiled(generation.message, kind)
    return {"message": message, "text": message.text, "generation_info": None}


def _called(message: BaseMessage) -> list[Any]:
    """The calls of tools in a message, without their ids, which are drawn by chance."""
    return [(call["name"], call["args"]) for call in getattr(message, "tool_calls", [])]


# Bodies of an OpenAI-compatible endpoint: an answer, an error, and an answer that a fault has struck.

CHARS_PER_TOKEN = 4


def completion(asked: dict[str, Any], text: str) -> bytes:
    """The body that answers a request with a text; tokens are counted by characters."""
    read, written = len(json.dumps(asked.get("messages", []))) // CHARS_PER_TOKEN, len(text) // CHARS_PER_TOKEN
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    whole = {"id": INJECTED, "object": "chat.completion", "created": 0, "model": str(asked.get("model", ""))}
    return json.dumps({**whole, "choices": [choice], "usage": usage}).encode()


def error(message: str) -> bytes:
    """The body of a request that was refused."""
    return json.dumps({"error": {"message": message, "type": INJECTED}}).encode()


def spoiled_body(body: bytes, kind: str) -> bytes:
    """The body of an answer whose text a fault has struck."""
    whole = json.loads(body)
    for choice in whole["choices"]:
        choice["message"]["content"] = spoiled_text(kind, choice["message"].get("content") or "")
        choice["message"].pop("tool_calls", None)
    return json.dumps(whole).encode()


# How one request to a faulty endpoint is answered, or not.

Answering = Callable[[dict[str, Any]], str]
"""A request's JSON body -> the text of the answer."""

PIECES = 5
"""In how many pieces a slow body comes."""

HANGS = 600.0
"""Seconds that a request which times out is kept open, unless the endpoint is closed before."""

UPSTREAM_TIMEOUT = 120.0
"""Seconds that the endpoint behind may take."""


class Serving(Protocol):
    """What a handler needs of its server."""

    faults: Faults
    behind: str | Answering
    closing: Event

    def drawn(self, body: bytes) -> str:
        """The kind of fault that strikes a request; empty where none does."""
        ...


class Handler(BaseHTTPRequestHandler):
    """One request; whatever is posted is a question."""

    server: Serving  # type: ignore[assignment]

    def do_POST(self) -> None:
        """Answer, or fail in the way that is drawn for this request."""
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        faults, kind = self.server.faults, self.server.drawn(body)
        match kind:
            case "timeout":
                self.server.closing.wait(HANGS)
            case "dropped":
                pass
            case "rate_limit":
                self._send(429, error(f"{INJECTED} {kind}"), {"Retry-After": f"{faults.retry_after:g}"})
            case "server_error":
                self._send(500, error(f"{INJECTED} {kind}"))
            case _:
                self._answer(kind, *self._answered(body))

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def _answer(self, kind: str, status: int, data: bytes) -> None:
        match kind if status == 200 else "":
            case "truncated":
                self._send(status, data[: len(data) // 2], {"Content-Length": str(len(data))})
            case "malformed":
                self._send(status, spoiled_text(kind, data.decode()).encode())
            case kind if kind in ANSWERING:
                self._send(status, spoiled_body(data, kind))
            case kind:
                self._send(status, data, pause=self.server.faults.delay / PIECES if kind == SLOW else 0.0)

    def _answered(self, body: bytes) -> tuple[int, bytes]:
        if not isinstance(self.server.behind, str):
            asked = json.loads(body)
            return 200, completion(asked, self.server.behind(asked))
        address = self.server.behind.rstrip("/") + self.path.removeprefix("/v1")
        kept = {name: self.headers[name] for name in ("Authorization", "Content-Type") if name in self.headers}
        try:
            request = urllib.request.Request(address, body, kept)
            with urllib.request.urlopen(request, timeout=UPSTREAM_TIMEOUT) as response:
                return _bounded(response.status, response)
        except HTTPError as refused:
            return _bounded(refused.code, refused)
        except (URLError, TimeoutError) as failed:
            return 502, error(f"the endpoint behind failed: {failed}")

    def _send(self, status: int, data: bytes, headers: dict[str, str] | None = None, pause: float = 0.0) -> None:
        whole = {"Content-Type": "application/json", "Content-Length": str(len(data)), **(headers or {})}
        self.send_response(status)
        for name, value in whole.items():
            self.send_header(name, value)
        size = -(-len(data) // PIECES) if pause else len(data)
        with suppress(OSError):  # the client gave up
            self.end_headers()
            for at in range(0, len(data), max(size, 1)):
                self.server.closing.wait(pause)
                self.wfile.write(data[at : at + size])


def _bounded(status: int, response: IO[bytes]) -> tuple[int, bytes]:
    body = response.read(MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        return 502, error(f"the endpoint behind answered with more than {MOST_BYTES:,} bytes")
    return status, body


# An OpenAI-compatible endpoint on loopback that misbehaves on the wire, in front of a real one or of a function.
#
# A client meets here what `FaultyModel` only raises: its own retries and time-outs, and how it reads broken bodies,
# are tried. Answers come whole; a request to stream is not served.


class FaultyEndpoint(ThreadingHTTPServer):
    """The server; `injected` counts faults by kind, `requests` everything that came."""

    daemon_threads = True

    def __init__(self, faults: Faults, behind: str | Answering) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.faults, self.behind = faults, behind
        self.closing = threading.Event()
        self.injected = Counter[str]()
        self.requests = 0
        self._asked: dict[bytes, Iterator[int]] = {}
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """The base URL that a client is given."""
        return f"http://127.0.0.1:{self.server_port}/v1"

    def drawn(self, body: bytes) -> str:
        """The fault of a request: drawn from its body and how often that was sent."""
        with self._lock:
            self.requests += 1
            number = next(self._asked.setdefault(body, itertools.count()))
            kind = self.faults.strikes(MODEL, body, number)
            self.injected.update([kind] if kind else [])
        return kind

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that gave up."""


@contextmanager
def faulty_endpoint(faults: Faults | str, behind: str | Answering) -> Iterator[FaultyEndpoint]:
    """Serve an endpoint that fails at these rates while the block runs.

    Args:
        faults: the rates, or the text that names them. Here `truncated` cuts the response's body off before its
            announced end, `malformed` breaks that body, `slow` drips it, and `timeout` never answers.
        behind: base URL of the endpoint that answers, or a function from a request's body to a text.
    """
    server = FaultyEndpoint(Faults.read(faults) if isinstance(faults, str) else faults, behind)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
