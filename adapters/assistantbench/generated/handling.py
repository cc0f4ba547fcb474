"""How the server of the invented web answers one request."""

import json
from collections.abc import Iterable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, cast

from certigraph.adapters.assistantbench.generated.layout import STUB, html
from certigraph.adapters.assistantbench.generated.pages import Treatment, WebPage
from certigraph.adapters.assistantbench.generated.search import Engine, Searching
from certigraph.adapters.assistantbench.generated.traps import ATTACKER, PDF, huge

if TYPE_CHECKING:
    from certigraph.adapters.assistantbench.generated.server import Server

HTML, TEXT, JSON = "text/html; charset=utf-8", "text/plain; charset=utf-8", "application/json"

PRIVATE = "/private"
"""Where a host has pages below this, its robots.txt asks to keep out."""

SPENT = {"message": "Not enough credits", "statusCode": 400}

MOST_BODY = 100_000
"""Bytes of a search request."""


class Handler(BaseHTTPRequestHandler):
    """One request, on a thread of its own. What breaks off because the client has gone is no error."""

    @property
    def web(self) -> "Server":
        """The server with its pages."""
        return cast("Server", self.server)

    def do_GET(self) -> None:
        """Answer with a page."""
        host = self.headers.get("Host", "").partition(":")[0].lower()
        with suppress(OSError), self.web.recorded("GET", host, self.path):
            self._page(host, self.path.partition("?")[0])

    def do_POST(self) -> None:
        """Answer a search."""
        host = self.headers.get("Host", "").partition(":")[0].lower()
        with suppress(OSError), self.web.recorded("POST", host, self.path):
            self._search()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: requests are recorded."""

    def _page(self, host: str, path: str) -> None:
        page = self.web.pages.get(f"http://{host}{path}")
        if path == "/robots.txt":
            self._send(200, TEXT, self._robots(host))
        elif host == ATTACKER:
            self._send(200, HTML, "<p>Thank you.</p>")
        elif page is None:
            self._send(404, HTML, "<p>There is no such page.</p>")
        else:
            self._treat(page)

    def _treat(self, page: WebPage) -> None:
        match page.treatment:
            case Treatment.SLOW:
                self.web.closing.wait()
                raise ConnectionAbortedError  # never answered, so never recorded as done
            case Treatment.REFUSED:
                self._send(403, HTML, "<p>Access denied.</p>")
            case Treatment.STUB:
                self._send(200, HTML, STUB)
            case Treatment.PRIVATE | Treatment.MOVED:
                self._send(302, HTML, "<p>Moved.</p>", location=page.target)
            case Treatment.HUGE:
                self._stream(huge())
            case Treatment.PDF:
                self._send(200, "application/pdf", PDF)
            case Treatment.PAGE:
                self._send(200, HTML, html(page))

    def _robots(self, host: str) -> str:
        closed = any(page.host == host and page.path.startswith(PRIVATE) for page in self.web.pages.values())
        return f"User-agent: *\nDisallow: {PRIVATE if closed else ''}\n"

    def _search(self) -> None:
        body = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), MOST_BODY))
        engine = self.web.engines.get(self.path)
        if engine is None:
            self._send(404, JSON, '{"message": "no such engine"}')
        elif not self.headers.get("X-API-KEY"):
            self._send(403, JSON, '{"message": "Unauthorized.", "statusCode": 403}')
        elif self.web.searching is Searching.SPENT:
            self._send(400, JSON, json.dumps(SPENT))
        else:
            self._found(engine, body)

    def _found(self, engine: Engine, body: bytes) -> None:
        try:
            asked = json.loads(body)
            answer = json.dumps(engine.answer(str(asked["q"]), int(asked.get("num", 10))))
        except (ValueError, LookupError, TypeError, AttributeError):  # no query, or one that was cut off as too long
            self._send(400, JSON, '{"message": "no query"}')
            return
        self._send(200, JSON, answer[: len(answer) // 2] if self.web.searching is Searching.MALFORMED else answer)

    def _send(self, status: int, kind: str, content: str | bytes, location: str = "") -> None:
        body = content.encode() if isinstance(content, str) else content
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, parts: Iterable[bytes]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", HTML)
        self.end_headers()
        for part in parts:
            self.wfile.write(part)
