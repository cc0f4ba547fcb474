"""The HTTP server of the generated web, and its search engines."""

import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, cast

from certigraph.adapters.assistantbench.pages import ATTACKER, PDF, STUB, Reach, Treatment, WebPage, html, huge
from certigraph.adapters.retrieval.bm25 import Pool
from certigraph.adapters.web.search import Serper, Service, Sleep
from certigraph.state.search import Passage

# The two search engines of the invented web: they rank differently, and the second knows more pages.

SNIPPET = 160
"""Characters of a page that a result shows."""

FIRST, SECOND = "/search", "/elsewhere"
"""The paths at which the engines are asked."""


class Searching(StrEnum):
    """How the engines answer."""

    WORKS = "works"
    SPENT = "spent"
    """The quota is used up."""
    MALFORMED = "malformed"
    """JSON that breaks off."""


class Engine:
    """BM25 over pages, answering as Serper does.

    Args:
        pages: those that it knows.
        titles: whether pages whose title a query names come first.
    """

    def __init__(self, pages: Iterable[WebPage], *, titles: bool) -> None:
        self._pages = {page.url: page for page in pages}
        passages = [Passage(id=page.url, title=page.title, text=page.text) for page in self._pages.values()]
        self._pool = Pool(passages, boost_titles=titles)

    def answer(self, query: str, most: int) -> Mapping[str, Any]:
        """The body of an answer."""
        urls = [hit.passage.id for hit in self._pool.search(query, most)]
        return {"organic": [self._result(url, place) for place, url in enumerate(urls, 1)], "credits": 1}

    def _result(self, url: str, place: int) -> Mapping[str, Any]:
        page = self._pages[url]
        snippet = " ".join(page.text.split())[:SNIPPET]
        return {"title": page.title, "link": url, "snippet": snippet, "position": place}


def engines(pages: Sequence[WebPage]) -> Mapping[str, Engine]:
    """The engines by the path at which they are asked."""
    first = Engine((page for page in pages if page.reach is Reach.BOTH), titles=False)
    return {FIRST: first, SECOND: Engine((page for page in pages if page.reach is not Reach.NONE), titles=True)}


# How the server of the invented web answers one request.

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


# The invented web over HTTP on loopback: all hosts by one server, told apart by what a request names as its host.

POLL = 0.02
"""Seconds after which the server notices that it is to stop."""


class Request(NamedTuple):
    """A request as it came in; `done` once it was answered to the end."""

    method: str
    host: str
    path: str
    done: bool = False


class Server(ThreadingHTTPServer):
    """Serves pages by host and path, and search engines by path, until it is closed; each request has a thread."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, pages: Mapping[str, WebPage]) -> None:
        """A server that answers from now on. `pages`: by URL."""
        super().__init__(("127.0.0.1", 0), Handler)
        self.pages = pages
        self.engines: Mapping[str, Engine] = engines([*pages.values()])
        self.searching = Searching.WORKS
        self.closing = threading.Event()
        self._requests: list[Request] = []
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, args=(POLL,), daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Host and port, where all hosts of the invented web are."""
        return f"127.0.0.1:{self.server_port}"

    @property
    def requests(self) -> Sequence[Request]:
        """All requests so far, in the order in which they came in."""
        with self._lock:
            return tuple(self._requests)

    @contextmanager
    def recorded(self, method: str, host: str, path: str) -> Iterator[None]:
        """Record a request, and, where the block is left without an error, that it was answered."""
        with self._lock:
            place = len(self._requests)
            self._requests.append(Request(method, host, path))
        yield
        with self._lock:
            self._requests[place] = self._requests[place]._replace(done=True)

    def close(self) -> None:
        """Stop, and let go of the requests that were never to be answered."""
        self.closing.set()
        self.shutdown()
        self._thread.join()
        self.server_close()


# The search engines of the invented web as providers.

KEY = "generated"
"""Any key will do."""


def engine_at(name: str, address: str, *, sleep: Sleep = time.sleep) -> Serper:
    """An engine that answers as Serper does, of a name that no other one has: its answers are kept under it."""
    return Serper(Service(name=name, variable="", home=address), key=KEY, sleep=sleep)
