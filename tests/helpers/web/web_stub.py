"""A web on one loopback port for tests: a server that answers by Host and path, as each test sets."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from helpers.servers.endpoint_stub import LocalServer, QuietHandler, serving

Behaviour = Callable[["Handler"], None]


class Site(LocalServer):
    """`pages` maps `host/path`, or a path of any host, to a behaviour; what is missing is a 404."""

    def __init__(self, pages: dict[str, Behaviour]) -> None:
        super().__init__(Handler)
        self.pages = pages
        self.requests: list[str] = []
        """`host/path` of every request."""
        self.headers: list[dict[str, str]] = []
        self.sent = 0
        """Bytes of bodies that were taken from `flood`."""

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class Handler(QuietHandler):
    server: Site

    def do_GET(self) -> None:  # noqa: N802 - the name that the base class calls
        host = self.headers["Host"].partition(":")[0]
        self.server.requests.append(host + self.path)
        self.server.headers.append(dict(self.headers))
        missing = status(404)
        self.server.pages.get(host + self.path, self.server.pages.get(self.path, missing))(self)

    def head(self, code: int, **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()


def body(data: str | bytes, kind: str = "text/html; charset=utf-8", **headers: str) -> Behaviour:
    raw = data.encode() if isinstance(data, str) else data

    def behave(handler: Handler) -> None:
        handler.head(200, Content_Type=kind, Content_Length=str(len(raw)), **headers)
        handler.wfile.write(raw)

    return behave


def status(code: int, **headers: str) -> Behaviour:
    return lambda handler: handler.head(code, Content_Length="0", **headers)


def redirect(location: str, code: int = 302) -> Behaviour:
    return status(code, Location=location)


def silent(seconds: float = 2.0) -> Behaviour:
    return lambda handler: time.sleep(seconds)


def drip(before: bytes, piece: bytes, every: float = 0.05, times: int = 60) -> Behaviour:
    """Raw bytes, and then a piece again and again."""

    def behave(handler: Handler) -> None:
        handler.wfile.write(before)
        for _ in range(times):
            handler.wfile.write(piece)
            time.sleep(every)

    return behave


def flood(size: int, kind: str = "text/html", **headers: str) -> Behaviour:
    """So many bytes, sent until the client hangs up."""

    def behave(handler: Handler) -> None:
        handler.head(200, Content_Type=kind, **headers)
        for _ in range(size // 65536):
            handler.wfile.write(b"x" * 65536)
            handler.server.sent += 65536

    return behave


@contextmanager
def web(pages: dict[str, Behaviour]) -> Iterator[Site]:
    with serving(Site(pages)) as site:
        yield site
