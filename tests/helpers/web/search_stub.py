"""A search service on loopback for tests: gives the answers of a list, in order, the last one for ever."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from helpers.servers.endpoint_stub import LocalServer, QuietHandler, serving


@dataclass(frozen=True)
class StubAnswer:
    """One answer: its status, a body (JSON unless it is bytes) and what else it does."""

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    waits: float = 0.0
    """Seconds before each of its first ten bytes."""
    echoes: bool = False
    """Whether it repeats all headers of the request after its body: a service that is careless with keys."""


@dataclass(frozen=True)
class StubRequest:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class Stub(LocalServer):
    def __init__(self, answers: list[StubAnswer]) -> None:
        super().__init__(_Handler)
        self.answers, self.requests = answers, list[StubRequest]()


class _Handler(QuietHandler):
    server: Stub

    def do_GET(self) -> None:  # noqa: N802 - the name that the base class calls
        parts = urlsplit(self.path)
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        body = json.loads(sent) if sent else None
        self.server.requests.append(StubRequest(self.command, parts.path, query, dict(self.headers.items()), body))
        answers = self.server.answers
        self._give(answers.pop(0) if len(answers) > 1 else answers[0])

    do_POST = do_GET  # noqa: N815

    def _give(self, reply: StubAnswer) -> None:
        data = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        data += str(self.headers).encode() if reply.echoes else b""
        self.send_response(reply.status)
        for name, value in {"Content-Length": str(len(data)), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            for at in range(10 if reply.waits else 0):
                time.sleep(reply.waits)
                self.wfile.write(data[at : at + 1])
            self.wfile.write(data[10 if reply.waits else 0 :])
        except OSError:  # the client hung up, as it should
            return


@contextmanager
def search_stub(*answers: StubAnswer) -> Iterator[Stub]:
    with serving(Stub(list(answers))) as server:
        yield server
