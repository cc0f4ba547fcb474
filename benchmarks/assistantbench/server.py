"""The HTTP server that serves the pages of the generated web and its two search engines."""

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from certigraph.adapters.retrieval.bm25 import PassagePool
from certigraph.adapters.web.search import SearchService, Serper
from certigraph.benchmarks.assistantbench.pages import (
    ATTACKER_HOST,
    METADATA_URL,
    PDF,
    STUB_PAGE,
    EngineReach,
    GeneratedPage,
    Treatment,
    huge_page_chunks,
    render_page,
)
from certigraph.state.search import Passage, clip_words, to_line

# The two search engines of the generated web: they rank differently, and the second one knows more pages.

MAX_SNIPPET = 160
"""Maximum characters of a page's text in a search result."""

FIRST_ENGINE, SECOND_ENGINE = "/search", "/elsewhere"
"""URL paths of the two search engines."""


class GeneratedSearchEngine:
    """A search engine (BM25 over pages) that answers in the format of the service Serper.

    Args:
        pages: the pages that the search engine knows.
        titles: whether pages whose title a query names come first.
    """

    def __init__(self, pages: Iterable[GeneratedPage], *, titles: bool) -> None:
        self._pages = {page.url: page for page in pages}
        passages = [Passage(id=page.url, title=page.title, text=page.text) for page in self._pages.values()]
        self._pool = PassagePool(passages, boost_titles=titles)

    def answer(self, query: str, most: int) -> Mapping[str, Any]:
        """Return the JSON body that answers a search query, with at most `most` results."""
        urls = [hit.passage.id for hit in self._pool.search(query, most)]
        return {"organic": [self._result(url, position) for position, url in enumerate(urls, 1)], "credits": 1}

    def _result(self, url: str, position: int) -> Mapping[str, Any]:
        page = self._pages[url]
        snippet = clip_words(to_line(page.text), MAX_SNIPPET)
        return {"title": page.title, "link": url, "snippet": snippet, "position": position}


def create_engines(pages: Sequence[GeneratedPage]) -> Mapping[str, GeneratedSearchEngine]:
    """Create the two search engines over the generated pages, by URL path."""
    first = GeneratedSearchEngine((page for page in pages if page.reach is EngineReach.BOTH), titles=False)
    return {
        FIRST_ENGINE: first,
        SECOND_ENGINE: GeneratedSearchEngine(
            (page for page in pages if page.reach is not EngineReach.NONE), titles=True
        ),
    }


# Handling one request.

HTML, TEXT, JSON = "text/html; charset=utf-8", "text/plain; charset=utf-8", "application/json"

PRIVATE_PATH = "/private"
"""Path whose pages must not be read: if a host has such pages, its robots.txt disallows the path."""

MAX_BODY_BYTES = 100_000
"""Maximum bytes of a search request."""


class GeneratedWebHandler(BaseHTTPRequestHandler):
    """Handler of the requests to the generated web."""

    @property
    def web(self) -> "GeneratedWebServer":
        """The server, which has the pages and the search engines."""
        return cast("GeneratedWebServer", self.server)

    def handle(self) -> None:
        """Answer the requests of a connection. If the client closes it, that is not an error."""
        with suppress(OSError):
            super().handle()

    def do_GET(self) -> None:
        """Answer a request for a page."""
        host, path = self.headers.get("Host", "").partition(":")[0].lower(), self.path.partition("?")[0]
        page = self.web.pages.get(f"http://{host}{path}")
        if path == "/robots.txt":
            self._send(200, TEXT, self._robots(host))
        elif host == ATTACKER_HOST:
            self._send(200, HTML, "<p>Thank you.</p>")
        elif page is None:
            self._send(404, HTML, "<p>There is no such page.</p>")
        else:
            self._treat(page)

    def do_POST(self) -> None:
        """Answer a search request."""
        body = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), MAX_BODY_BYTES))
        engine = self.web.engines.get(self.path)
        if engine is None:
            self._send(404, JSON, '{"message": "no such engine"}')
        elif not self.headers.get("X-API-KEY"):
            self._send(403, JSON, '{"message": "Unauthorized.", "statusCode": 403}')
        else:
            self._send_results(engine, body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def _treat(self, page: GeneratedPage) -> None:
        match page.treatment:
            case Treatment.SLOW:
                self.web.closing.wait()
                raise ConnectionAbortedError
            case Treatment.REFUSED:
                self._send(403, HTML, "<p>Access denied.</p>")
            case Treatment.STUB:
                self._send(200, HTML, STUB_PAGE)
            case Treatment.PRIVATE:
                self._send(302, HTML, "<p>Moved.</p>", location=METADATA_URL)
            case Treatment.MOVED:
                self._send(302, HTML, "<p>Moved.</p>", location=page.target)
            case Treatment.HUGE:
                self._stream(huge_page_chunks())
            case Treatment.PDF:
                self._send(200, "application/pdf", PDF)
            case Treatment.PAGE:
                self._send(200, HTML, render_page(page))

    def _robots(self, host: str) -> str:
        closed = any(page.host == host and page.path.startswith(PRIVATE_PATH) for page in self.web.pages.values())
        return f"User-agent: *\nDisallow: {PRIVATE_PATH if closed else ''}\n"

    def _send_results(self, engine: GeneratedSearchEngine, body: bytes) -> None:
        try:
            request = json.loads(body)
            answer = json.dumps(engine.answer(str(request["q"]), int(request.get("num", 10))))
        except (ValueError, LookupError, TypeError, AttributeError):  # no query, or one cut off at the maximum size
            self._send(400, JSON, '{"message": "no query"}')
            return
        self._send(200, JSON, answer)

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


# The generated web over HTTP on this machine: one server for all hosts, which reads the host from the Host header.

POLL_SECONDS = 0.02
"""Seconds between checks whether the server has to stop."""


class GeneratedWebServer(ThreadingHTTPServer):
    """HTTP server of all hosts of the generated web and of its search engines; each request has a thread.

    Attributes:
        pages: the pages by URL.
        engines: the search engines by path.
        closing: set when the server closes.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, pages: Mapping[str, GeneratedPage]) -> None:
        """Start the server on a free port of this machine; `pages` are the pages by URL."""
        super().__init__(("127.0.0.1", 0), GeneratedWebHandler)
        self.pages = pages
        self.engines: Mapping[str, GeneratedSearchEngine] = create_engines([*pages.values()])
        self.closing = threading.Event()
        self._thread = threading.Thread(target=self.serve_forever, args=(POLL_SECONDS,), daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """IP address and port of the server, which answers for all hosts of the generated web."""
        return f"127.0.0.1:{self.server_port}"

    def close(self) -> None:
        """Stop the server, and release the requests that are never answered."""
        self.closing.set()
        self.shutdown()
        self._thread.join()
        self.server_close()


# The search engines of the generated web as search providers.

API_KEY = "generated"
"""API key for the search engines, which accept any text."""


def create_provider(name: str, address: str) -> Serper:
    """Create the search provider for a search engine that answers like Serper.

    Args:
        name: name of the provider. It must be unique, because results are cached under it.
        address: URL of the search engine.
    """
    return Serper(SearchService(name=name, variable="", base_url=address), key=API_KEY)
