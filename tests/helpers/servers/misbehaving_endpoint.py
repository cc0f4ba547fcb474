"""An OpenAI-compatible endpoint that counts its requests and misbehaves, in front of BlocksWorld's expert.

In a test or a script: `with misbehaving_endpoint("refuses_schema") as server:`, with `server.url` and `server.count`.
`python -m helpers.servers.misbehaving_endpoint KIND` prints its URL; a GET of it answers with the count.
"""

import functools
import itertools
import json
import socket
import struct
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from certigraph.adapters.models.schemas import minimal_instance
from certigraph.adapters.models.scripts import TEXT_SCHEMA
from certigraph.benchmarks.blocksworld.expert import answer_at, read_text
from helpers.servers.endpoint_stub import LocalServer, QuietHandler, serving

Answer = Callable[[dict[str, Any]], str]
"""A request's JSON body -> the text of the answer."""

KINDS = (
    "healthy",
    "refuses_schema",
    "refuses_schema_unnamed",
    "refuses_temperature",
    "refuses_all",
    "no_usage",
    "odd_usage",
    "surrogate",
    "fails_first",
    "rate_limit",
    "reset",
    "garbage",
    "huge",
    "bomb",
    "never",
)

MIXED = "mixed"
"""Every few requests another kind of failure; in between it answers."""

ROTATION = ("healthy", "healthy", "rate_limit", "healthy", "reset", "healthy", "odd_usage", "fails_first", "garbage")

HUGE = 300_000_000
BOMB = 400_000_000
HANGS = 600.0

USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
ODD_USAGES: tuple[Any, ...] = (
    None,
    "many",
    [],
    {"prompt_tokens": -5, "completion_tokens": 10},
    {"prompt_tokens": "12", "completion_tokens": True},
    {"prompt_tokens": 1e300, "completion_tokens": 10**30},
    {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": None, "prompt_tokens_details": "x"},
)


class MisbehavingEndpoint(LocalServer):
    """The server. `count` requests came, with these `bodies`; each is answered after `delay` seconds."""

    def __init__(self, kind: str, answer: Answer, delay: float) -> None:
        super().__init__(_Handler, "/v1")
        self.kind, self.answer, self.delay = kind, answer, delay
        self.bodies: list[dict[str, Any]] = []
        self.answered = 0
        """Answers that were sent whole."""
        self.closing = threading.Event()
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._arrived = threading.Condition()

    @property
    def count(self) -> int:
        """Requests that came."""
        return len(self.bodies)

    def wait_for(self, count: int, timeout: float = 60.0) -> bool:
        """Wait until that many requests came; False where they did not in time."""
        with self._arrived:
            return self._arrived.wait_for(lambda: self.count >= count, timeout)

    def take(self, body: dict[str, Any]) -> tuple[int, str]:
        """The number of a request, from 0, and how it is answered."""
        with self._lock:
            number = next(self._numbers)
            with self._arrived:
                self.bodies.append(body)
                self._arrived.notify_all()
        return number, ROTATION[number % len(ROTATION)] if self.kind == MIXED else self.kind


class _Handler(QuietHandler):
    server: MisbehavingEndpoint

    def do_GET(self) -> None:  # noqa: N802 - the name that the base class calls
        self._send(200, json.dumps(self.server.count).encode())

    def do_POST(self) -> None:  # noqa: N802 - the name that the base class calls
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number, kind = self.server.take(request)
        self.server.closing.wait(self.server.delay)
        with suppress(OSError):  # the client was killed, or reads no further
            self._respond(kind, number, request)
            self.server.answered += 1

    def _respond(self, kind: str, number: int, request: dict[str, Any]) -> None:  # noqa: PLR0911 - one for each kind
        refused = {"refuses_schema": "response_format", "refuses_temperature": "temperature"}.get(kind)
        if refused in request:
            error = {
                "message": f"Unsupported parameter: '{refused}'",
                "param": refused,
                "code": "unsupported_parameter",
            }
            return self._send(400, json.dumps({"error": error}).encode())
        if kind == "refuses_all" or (kind == "refuses_schema_unnamed" and "response_format" in request):
            return self._send(400, b'{"error": {"message": "bad request"}}')
        if kind == "fails_first" and number % 2 == 0:
            return self._send(500, b'{"error": {"message": "try again"}}')
        if kind == "rate_limit" and number % 2 == 0:
            return self._send(429, b'{"error": {"message": "slow down"}}', {"Retry-After": "0.01"})
        if kind == "reset" and number % 3 == 0:
            # the connection ends with RST instead of FIN
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return self.connection.close()
        if kind == "garbage" and number % 2 == 0:
            return self._send(200, b'{"choices": ')
        if kind == "huge":
            return self._stream(HUGE, (b" " * 1_000_000 for _ in range(HUGE // 1_000_000)), {})
        if kind == "bomb":
            return self._send(200, bomb(), {"Content-Encoding": "gzip"})
        if kind == "never":
            self.server.closing.wait(HANGS)
            return None
        return self._send(200, completion(self.server.answer(request), kind, number))

    def _stream(self, length: int, parts: Iterator[bytes], headers: dict[str, str]) -> None:
        self.send_response(200)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(length), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        for part in parts:
            self.wfile.write(part)

    def _send(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        whole = {"Content-Type": "application/json", "Content-Length": str(len(data)), **(headers or {})}
        for name, value in whole.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def completion(text: str, kind: str, number: int) -> bytes:
    """The body of an answer, with what a kind of endpoint makes of it."""
    # as JSON it is the escape of half a surrogate pair
    text = f"{text} \ud800" if kind == "surrogate" else text
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    whole: dict[str, Any] = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    if kind == "odd_usage":
        whole["usage"] = ODD_USAGES[number % len(ODD_USAGES)]
    elif kind != "no_usage":
        whole["usage"] = USAGE
    return json.dumps(whole).encode()


@functools.cache
def bomb() -> bytes:
    """Spaces that are few bytes as gzip."""
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    part = b" " * 10_000_000
    return b"".join([packer.compress(part) for _ in range(BOMB // len(part))]) + packer.flush()


def expert(request: dict[str, Any]) -> str:
    """What BlocksWorld's expert answers, also where the schema stands in the prompt."""
    prompt = "\n\n".join(str(message["content"]) for message in request["messages"])
    form = request.get("response_format")
    schema = form["json_schema"]["schema"] if form else _written_schema(prompt)
    value = answer_at(read_text(prompt), schema or TEXT_SCHEMA)
    return json.dumps(value) if schema else str(value)


def least(request: dict[str, Any]) -> str:
    """The least answer of the wanted form: in worlds without an expert a run then loops until a limit ends it."""
    form = request.get("response_format")
    schema = form["json_schema"]["schema"] if form else _written_schema(str(request["messages"][-1]["content"]))
    return json.dumps(minimal_instance(schema)) if schema else "nothing"


def _written_schema(prompt: str) -> Any:
    _, found, after = prompt.rpartition("fits this JSON schema, and with nothing else:\n")
    return json.JSONDecoder().raw_decode(after)[0] if found else None


@contextmanager
def misbehaving_endpoint(
    kind: str = "healthy", answer: Answer = expert, delay: float = 0.0
) -> Iterator[MisbehavingEndpoint]:
    """Serve such an endpoint, of one of KINDS or MIXED, while the block runs."""
    with serving(MisbehavingEndpoint(kind, answer, delay)) as server:
        try:
            yield server
        finally:
            server.closing.set()


if __name__ == "__main__":
    with misbehaving_endpoint(sys.argv[1]) as served:
        print(served.url, flush=True)
        while True:
            time.sleep(3_600)
