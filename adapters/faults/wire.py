"""An OpenAI-compatible endpoint on loopback that misbehaves on the wire, in front of a real one or of a function.

A client meets here what `FaultyModel` only raises: its own retries and time-outs, and how it reads broken bodies, are
tried. Answers come whole; a request to stream is not served.
"""

import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import Any

from certigraph.adapters.faults.rates import MODEL, Faults
from certigraph.adapters.faults.serving import Answering, Handler


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
