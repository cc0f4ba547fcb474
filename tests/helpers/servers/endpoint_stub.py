"""A twenty-line OpenAI-compatible endpoint for tests: answers the given texts in order, the last one for ever."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

ServerT = TypeVar("ServerT", bound=ThreadingHTTPServer)


@contextmanager
def serving(server: ServerT) -> Iterator[ServerT]:
    """Serve in a thread inside the block."""
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class LocalServer(ThreadingHTTPServer):
    """A server on a free port of this machine; clients that hang up are not errors."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, handler: type[BaseHTTPRequestHandler], path: str = "") -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server_port}{path}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


class QuietHandler(BaseHTTPRequestHandler):
    """Logs nothing."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


class JsonHandler(QuietHandler):
    """Reads and sends JSON."""

    protocol_version = "HTTP/1.1"

    def read_json(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def send_json(self, status: int, payload: dict[str, Any]) -> None:
        self.send_bytes(status, json.dumps(payload).encode())

    def send_bytes(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def send_reply(self, reply: dict[str, Any], *, streamed: bool) -> None:
        """Send a completion, where the client streams it in pieces of a few characters."""
        if streamed:
            self.send_bytes(200, "".join(stream_events(reply)).encode())
        else:
            self.send_json(200, reply)


class Stub(LocalServer):
    refuses_temperature = False
    body: bytes = b""
    """Sent in place of a completion."""

    def __init__(self, replies: list[str], refuses_schema: bool, status: int, finish: str) -> None:
        super().__init__(_Handler, "/v1")
        self.replies, self.refuses_schema, self.status, self.finish = replies, refuses_schema, status, finish
        self.requests: list[dict[str, Any]] = []


class _Handler(JsonHandler):
    server: Stub

    def do_POST(self) -> None:
        stub = self.server
        body = self.read_json()
        stub.requests.append(body)
        if stub.status != 200:
            # an endpoint that is careless enough to repeat the key it was sent
            self.send_json(stub.status, {"error": {"message": f"no: {self.headers['Authorization']}"}})
        elif stub.refuses_schema and "response_format" in body:
            self.send_json(400, {"error": {"message": "response_format is not supported"}})
        elif stub.refuses_temperature and body.get("temperature"):
            self.send_json(400, {"error": {"message": "temperature is not supported"}})
        elif stub.body:
            self.send_bytes(200, stub.body)
        else:
            reply = stub.replies.pop(0) if len(stub.replies) > 1 else stub.replies[0]
            self.send_json(200, completion(reply, stub.finish))


def completion(text: str, finish: str) -> dict[str, Any]:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "total_tokens": 110,
        "prompt_tokens_details": {"cached_tokens": 64},
    }
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    return {"id": "x", "object": "chat.completion", "created": 0, "model": "stub", "choices": [choice], "usage": usage}


def stream_events(reply: dict[str, Any]) -> Iterator[str]:
    """Yield the events of a streamed completion, as OpenAI sends them."""
    [choice] = reply["choices"]
    shared = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "stub"}
    for delta in [{"role": "assistant", "content": ""}, *_deltas(choice["message"])]:
        yield _event({**shared, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    last = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    yield _event({**shared, "choices": [last]})
    yield _event({**shared, "choices": [], "usage": reply["usage"]})
    yield "data: [DONE]\n\n"


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for piece in _pieces(message["content"] or ""):
        yield {"content": piece}
    for index, call in enumerate(message.get("tool_calls", ())):
        made = call["function"]
        yield {"tool_calls": [{**call, "index": index, "function": {**made, "arguments": ""}}]}
        for piece in _pieces(made["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _pieces(text: str) -> list[str]:
    return [text[start : start + 5] for start in range(0, len(text), 5)]


def _event(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"


@contextmanager
def stub(*replies: str, refuses_schema: bool = False, status: int = 200, finish: str = "stop") -> Iterator[Stub]:
    with serving(Stub(list(replies), refuses_schema, status, finish)) as server:
        yield server
