"""Pages fetched over HTTP from a loopback server with virtual hosts."""

import gzip
import socket
import threading
import time
import zlib

import pytest
from web_stub import Site, body, drip, flood, redirect, silent, status, web

from certigraph.adapters.http import unpacked
from certigraph.adapters.web.pages import Fetcher
from certigraph.adapters.web.protocol import Page, Unreadable

PROSE = "The museum opens at nine and closes at five, every day but Monday, and children enter free. " * 3
PAGE = f"<html><head><title>Museum</title></head><body><p>{PROSE}</p></body></html>"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


def fetcher(site: Site, **options) -> Fetcher:
    return Fetcher(**{"timeout": 10, "robots": False, "hosts": {".example": site.place}, **options})


def fetched(behaviour, **options) -> Page | Unreadable:
    """What a fetcher makes of `http://a.example/x`, and of nothing else that the server has."""
    with web({"/x": behaviour}) as site:
        return fetcher(site, **options).page("http://a.example/x")


def reason(outcome: Page | Unreadable) -> str:
    assert isinstance(outcome, Unreadable), outcome
    return outcome.reason


def test_a_page():
    with web({"a.example/x?q=1": body(PAGE)}) as site:
        found = fetcher(site).page("http://a.example/x?q=1#part")
        assert found == Page(url="http://a.example/x?q=1#part", title="Museum", text=PROSE.strip())
        assert site.headers[0]["Host"] == "a.example"
        assert site.headers[0]["User-Agent"] == "certigraph/0.1 (+https://pypi.org/project/certigraph)"
        assert site.headers[0]["Accept-Encoding"] == "gzip, deflate"
        assert "Cookie" not in site.headers[0]


def test_a_proxy_of_the_environment_is_not_used(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert isinstance(fetched(body(PAGE)), Page)


@pytest.mark.parametrize(
    ("code", "expected", "lasting"),
    [
        *((code, f"refused ({code})", True) for code in (401, 403, 407, 429, 451)),
        *((code, f"status {code}", False) for code in (304, 404, 410, 500, 503)),
    ],
)
def test_statuses(code, expected, lasting):
    outcome = fetched(status(code))
    assert outcome == Unreadable(url="http://a.example/x", reason=expected, lasting=lasting)


@pytest.mark.parametrize(
    "behaviour",
    [
        silent(3),
        drip(b"HTTP/1.1 200 OK\r\n", b"X-More: header\r\n"),
        drip(HEAD + b"\r\n", b"<p>drip</p>"),
        drip(HEAD + b"Content-Length: 9999\r\n\r\n", b"", 3, 1),
        drip(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    ],
    ids=["silent", "headers", "body", "stalled", "chunks"],
)
def test_slow_servers_end_at_the_deadline(behaviour):
    start = time.monotonic()
    outcome = fetched(behaviour, timeout=0.2)
    assert outcome == Unreadable(url="http://a.example/x", reason="timed out after 0.2 s", lasting=True)
    assert time.monotonic() - start < 2  # the server would go on for 3 s


def test_a_slow_resolver_ends_at_the_deadline():
    start, done = time.monotonic(), threading.Event()
    outcome = Fetcher(timeout=0.1, robots=False, resolve=lambda *_: [str(done.wait(5))]).page("http://a.example/")
    done.set()
    assert reason(outcome) == "timed out after 0.1 s"
    assert time.monotonic() - start < 2


def test_servers_that_are_not_there():
    gone = Fetcher(timeout=10, robots=False, hosts={"a.example": "127.0.0.1:1"}).page("http://a.example/")
    assert gone == Unreadable(url="http://a.example/", reason="cannot be reached", lasting=True)
    lost = Fetcher(robots=False, resolve=lambda *_: []).page("http://a.example/")
    assert lost == Unreadable(url="http://a.example/", reason="its host cannot be found", lasting=True)


@pytest.mark.parametrize("raw", [b"", b"nonsense\r\n\r\n", HEAD + b"Content-Length: 99\r\n\r\nshort"])
def test_answers_that_break_off(raw):
    assert reason(fetched(drip(raw, b"", times=0))) == "the connection broke off"


def test_no_tls_where_it_is_asked_for():
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"

        def answer():
            with server.accept()[0] as client:
                client.recv(9999)
                client.sendall(b"HTTP/1.1 400 Bad\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        outcome = Fetcher(robots=False, hosts={"a.example": place}).page("https://a.example/x")
    assert outcome == Unreadable(url="https://a.example/x", reason="no secure connection", lasting=True)


@pytest.mark.parametrize(
    "location", [b"\xff\xfe", b"http://a.example/\xc3\xa4", b"http://[", b"", b"  ", b"?", b"http://", b"http://xn--a/"]
)
def test_odd_redirects_raise_nothing(location):
    answer = b"HTTP/1.1 302 Found\r\nLocation: " + location + b"\r\nContent-Length: 0\r\n\r\n"
    assert isinstance(fetched(drip(answer, b"", times=0)), Unreadable)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "bare deflate"])
def test_packed_pages(coding):
    bare = zlib.compressobj(wbits=-15)
    packed = {
        "gzip": gzip.compress(PAGE.encode()),
        "deflate": zlib.compress(PAGE.encode()),
        "bare deflate": bare.compress(PAGE.encode()) + bare.flush(),
    }
    found = fetched(body(packed[coding], Content_Encoding=coding.removeprefix("bare ")))
    assert isinstance(found, Page)
    assert found.text == PROSE.strip()


def test_packed_pages_that_are_none():
    assert reason(fetched(body("no gzip", Content_Encoding="gzip"))) == "a body that cannot be unpacked"
    assert reason(fetched(body(PAGE, Content_Encoding="br"))) == "in an encoding that was not asked for"


def test_bombs_and_floods_cost_no_more_than_is_allowed():
    bomb = gzip.compress(b"a" * 20_000_000)
    assert reason(fetched(body(bomb, Content_Encoding="gzip"))) == "larger than 2 MB"
    with web({"/x": flood(50_000_000), "/announced": flood(50_000_000, Content_Length="50000000")}) as site:
        reader = fetcher(site, largest=300_000, timeout=5)
        assert reason(reader.page("http://a.example/x")) == "larger than 0.3 MB"
        assert site.sent < 10_000_000  # what lay in the buffers of two sockets
        site.sent = 0
        assert reason(reader.page("http://a.example/announced")) == "larger than 0.3 MB"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (b"Content-Type: application/pdf", "application/pdf is no page of text"),
        (b"Content-Type: text/html\r\nContent-Length: 2000001", "larger than 2 MB"),
    ],
)
def test_a_body_of_no_use_is_not_waited_for(headers, expected):
    assert reason(fetched(drip(b"HTTP/1.1 200 OK\r\n" + headers + b"\r\n\r\n", b"", 3, 1))) == expected


def test_no_more_is_unpacked_than_is_wanted():
    bomb = gzip.compress(b"a" * 5_000_000)
    assert len(unpacked([bomb], "gzip", 1000)) == 1000
    assert len(unpacked([bomb[:99], bomb[99:]], "gzip", 200_000)) == 200_000
    nothing = iter([b"\x78\x9c", *[b"\0\0\0\xff\xff" * 100] * 9])
    assert unpacked(nothing, "deflate", 1000) == b""
    assert len(list(nothing)) == 7
    pieces = iter([b"a" * 600] * 9)
    assert unpacked(pieces, "", 1000) == b"a" * 1000
    assert len(list(pieces)) == 7
    assert unpacked(iter([PAGE.encode()[:9], PAGE.encode()[9:]]), "identity", 10**6) == PAGE.encode()


def test_threads_share_a_fetcher():
    pages = {f"/{n}": body(PAGE.replace("Museum", f"Museum {n}")) for n in range(8)}
    found: dict[int, Page | Unreadable] = {}
    with web(pages) as site:
        reader = fetcher(site, robots=True, timeout=3)

        def fetch(n: int) -> None:
            found[n] = reader.page(f"http://a.example/{n}")

        threads = [threading.Thread(target=fetch, args=(n,)) for n in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert site.asked.count("a.example/robots.txt") == 1
    assert [found[n].title for n in range(8)] == [f"Museum {n}" for n in range(8)]


def test_redirects():
    pages = {"a.example/1": redirect("/2", 301), "a.example/2": redirect("//b.example/3?a=b", 308)}
    with web({**pages, "b.example/3?a=b": body(PAGE)}) as site:
        found = fetcher(site).page("http://a.example/1")
    assert isinstance(found, Page)
    assert (found.url, found.moved) == ("http://a.example/1", "http://b.example/3?a=b")


def test_too_many_redirects_and_circles():
    chain = {f"/{n}": redirect(f"/{n + 1}") for n in range(9)}
    with web(
        {**chain, "/loop": redirect("http://b.example/loop"), "b.example/loop": redirect("//a.example/loop")}
    ) as site:
        reader = fetcher(site, timeout=2)
        assert reason(reader.page("http://a.example/0")) == "more than 5 redirects"
        assert len(site.asked) == 6
        assert reason(reader.page("http://a.example/loop")) == "redirects in a circle"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("http://127.0.0.1:{other}/secret", "redirects to a private address"),
        ("http://2130706433:{other}/secret", "redirects to a private address"),
        ("http://169.254.169.254/latest/meta-data/", "redirects to a private address"),
        ("http://[::1]:{other}/secret", "redirects to a private address"),
        ("file:///etc/passwd", "redirects to a URL that is not http or https"),
        ("http://me:pw@a.example/secret", "redirects to a URL with a user's name"),
        ("http://[::1/", "redirects to what is no URL"),
    ],
)
def test_redirects_out_of_bounds(target, expected):
    with web({"/secret": body(PAGE)}) as other, web({}) as site:
        site.pages["/x"] = redirect(target.format(other=other.server_port))
        outcome = fetcher(site).page("http://a.example/x")
        assert (reason(outcome), outcome.lasting) == (expected, False)
        assert other.asked == []


def test_private_addresses_need_to_be_allowed():
    with web({"/x": body(PAGE)}) as site:
        url = f"http://localhost:{site.server_port}/x"
        assert reason(Fetcher(robots=False).page(url)) == "a private address"
        assert site.asked == []
        for allowed in ("localhost", f"localhost:{site.server_port}", "127.0.0.0/8"):
            assert isinstance(
                Fetcher(robots=False, allowed=[allowed], resolve=lambda *_: ["127.0.0.1"]).page(url), Page
            )


def test_the_address_that_was_checked_is_the_one_that_is_asked():
    """A second look-up could give another address: DNS rebinding."""
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])
    with web({"a.example/x": body(PAGE)}) as site:
        reader = Fetcher(robots=False, allowed=["127.0.0.1"], resolve=lambda *_: next(answers))
        assert isinstance(reader.page(f"http://a.example:{site.server_port}/x"), Page)
        assert reason(reader.page(f"http://a.example:{site.server_port}/x")) == "a private address"
        assert site.headers[0]["Host"] == f"a.example:{site.server_port}"


def test_the_next_address_is_tried_where_one_takes_no_connection():
    with web({"/x": body(PAGE)}) as site:
        both = ["127.9.9.9", "127.0.0.1"]
        reader = Fetcher(robots=False, allowed=["127.0.0.0/8"], resolve=lambda *_: both)
        assert isinstance(reader.page(f"http://a.example:{site.server_port}/x"), Page)


def test_other_ports_need_to_be_allowed():
    outcome = Fetcher(robots=False, resolve=lambda *_: ["93.184.215.14"]).page("http://a.example:22/")
    assert reason(outcome) == "a port that is not allowed"


@pytest.mark.slow
def test_fifty_megabytes_cost_two():
    with web({"/x": flood(50_000_000), "/gz": body(gzip.compress(b"a" * 50_000_000), Content_Encoding="gzip")}) as site:
        reader = fetcher(site, timeout=10)
        assert reason(reader.page("http://a.example/x")) == "larger than 2 MB"
        assert site.sent < 20_000_000
        assert reason(reader.page("http://a.example/gz")) == "larger than 2 MB"
