"""Readers of what the web sends: addresses, headers, compressed bytes, charsets, robots.txt, pages."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import httpx
from fuzzing.target import BETWEEN, Target, join_texts, of_file, of_text, of_texts, scratch

from certigraph.adapters.http import PageRefused, unpack_body
from certigraph.adapters.retrieval.bm25 import PassagePool
from certigraph.adapters.web.addresses import Addresses, is_public, parse_ip, parse_url
from certigraph.adapters.web.pages import Fetcher, decode_body, parse_content_type, read_page
from certigraph.adapters.web.protocol import search_pages
from certigraph.adapters.web.proxies import parse_proxy_request
from certigraph.adapters.web.sources import LOCAL_SCHEME, LocalPages
from certigraph.adapters.web.transport import Deadline, PageResponse, Robots
from certigraph.state.endings import Fault
from certigraph.state.search import Passage

HERE = httpx.URL("https://example.org/a/page")
PAGE = (
    b"<html><head><meta charset=utf-8><title>Gym</title></head><body><h1>Gym</h1><p>It is open till 6.</p><table><tr>"
    b"<td>Monday</td><td>6-22</td></tr></table><ul><li>a pool</li></ul><p>"
    + b"And so on, for long. " * 8
    + b"</p></body>"
)
ROBOTS = b"User-agent: *\nDisallow: /b*\nAllow: /a/page$\nCrawl-delay: 1\nSitemap: https://example.org/s.xml\n"


class _Sent:
    """Stands for the network: answers with the bytes that it was given."""

    body, headers = b"", httpx.Headers()

    def follow(self, url: httpx.URL, settings: Any) -> PageResponse:
        settings.wanted(self.headers)
        return PageResponse(url, 200, self.headers, self.body)


def _robots(data: bytes) -> None:
    sent = _Sent()
    sent.body = data
    Robots(sent).check(HERE, Deadline(60.0))  # type: ignore[arg-type]


def _fetched(data: bytes) -> object:
    """A page with the two headers that are read before it."""
    kind_of, length, body = [*data.split(BETWEEN, 2), b"", b""][:3]
    fetcher, sent = Fetcher(robots=False), _Sent()
    sent.headers = httpx.Headers({b"Content-Type": kind_of, b"Content-Length": length})
    sent.body, fetcher._transport = body, sent  # type: ignore[assignment]
    return fetcher.page("https://example.org/")


def _inflated(encoding: str) -> Callable[[bytes], bytes]:
    return lambda data: unpack_body([data[:5], data[5:]], encoding, 1_000_000)


def _plain_text(text: str) -> object:
    return read_page(text.encode(errors="replace"), "text/plain; charset=utf-8")


@cache
def _folder() -> LocalPages:
    folder = scratch()
    (folder / "a.html").write_bytes(PAGE)
    return LocalPages(folder)


def _local(path: Path) -> object:
    pages = LocalPages(path.parent)
    return pages.search("open gym", 2), pages.page(f"{LOCAL_SCHEME}{path.name}")


def _hosts(entry: str, host: str) -> object:
    """Whether a host may be asked, with something allowed; the host itself is where it says."""
    return Addresses((entry,), {".example": "127.0.0.1:80"}, lambda name, port: [name]).find(host, 80)


def _snippets(query: str, text: str) -> object:
    return search_pages(PassagePool([Passage(id="u", title="t", text=f"{text} gym")]), query, 3)


TARGETS = (
    Target(
        "web.url",
        of_texts(lambda a, b: parse_url(a, HERE) and parse_url(b), 2),
        (PageRefused,),
        (join_texts("../b#c", "http://a.org:80/x?y=1"), join_texts("/b?c", "https://xn--mnchen-3ya.de")),
    ),
    Target(
        "web.proxy_request",
        parse_proxy_request,
        (PageRefused,),
        (b"CONNECT a.org:443 HTTP/1.1\r\n\r\n", b"GET http://a.org/x?y HTTP/1.1\r\nHost: a.org\r\nProxy-X: 1\r\n\r\n"),
    ),
    Target(
        "web.host",
        of_texts(_hosts, 2),
        (PageRefused, Fault, ValueError),
        (join_texts("10.0.0.0/8", "10.0.0.1"), join_texts("intranet:8080", "a.example")),
    ),
    Target(
        "web.address",
        of_text(lambda t: is_public(parse_ip(t))),
        (ValueError,),
        (b"64:ff9b::a00:1", b"2002:7f00:1::", b"fe80::1%eth0"),
    ),
    Target(
        "web.content_type",
        lambda data: parse_content_type(data.decode("latin-1")),
        (PageRefused,),
        (b"text/html; charset=utf-8", b"text/plain;charset*=utf-8''a"),
    ),
    Target(
        "web.charset",
        lambda data: decode_body(data.partition(BETWEEN)[2], data.partition(BETWEEN)[0].decode("latin-1")),
        (),
        (b"utf-16\x1ea\0b\0", b"\x1e<meta charset='shift_jis'>\x83\x82"),
    ),
    Target(
        "web.gzip",
        _inflated("gzip"),
        (PageRefused,),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03K\x04\x00C\xbe\xb7\xe8\x01\x00\x00\x00",),
    ),
    Target("web.deflate", _inflated("deflate"), (PageRefused,), (b"K\x04\x00", b"x\x9cK\x04\x00\x00b\x00b")),
    Target("web.robots", _robots, (PageRefused,), (ROBOTS, b"User-agent: certigraph\nAllow: /\n")),
    Target("web.html", lambda data: read_page(data, "text/html"), (PageRefused,), (PAGE,)),
    Target("web.text", of_text(_plain_text), (PageRefused,), (b"It is open till 6. " * 8,)),
    Target("web.fetched", _fetched, (), (b"text/html; charset=latin-1" + BETWEEN + b"300" + BETWEEN + PAGE,)),
    Target("web.local_file", of_file(_local, "a.html"), (Fault,), (PAGE,)),
    Target("web.local_note", of_file(_local, "a.md"), (Fault,), (b"# Gym\nopen till 6",)),
    Target("web.local_address", of_text(lambda t: _folder().page(t)), (), (b"local:a.html#x", b"local:%61.html")),
    Target("web.snippet", of_texts(_snippets, 2), (), (join_texts("open gym", "It is open. The gym is here.\nNo."),)),
)
