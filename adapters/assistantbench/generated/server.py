"""The invented web over HTTP on loopback: all hosts by one server, told apart by what a request names as its host."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import NamedTuple

from certigraph.adapters.assistantbench.generated.handling import Handler
from certigraph.adapters.assistantbench.generated.pages import WebPage
from certigraph.adapters.assistantbench.generated.search import Engine, Searching, engines

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
