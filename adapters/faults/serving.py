"""How one request to a faulty endpoint is answered, or not."""

import json
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from threading import Event
from typing import IO, Any, Protocol
from urllib.error import HTTPError, URLError

from certigraph.adapters.bounded_http import MOST_BYTES
from certigraph.adapters.faults.completions import completion, error, spoiled_body
from certigraph.adapters.faults.rates import ANSWERING, SLOW, Faults
from certigraph.adapters.faults.spoiling import INJECTED, spoiled_text

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
