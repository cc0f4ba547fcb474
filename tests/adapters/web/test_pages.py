"""Tests of `adapters.web.pages`."""

import contextlib
import gzip
import socket
import threading
import time
import zlib

import pytest
import trafilatura
from helpers.web.web_stub import Behaviour, Site, body, drip, flood, redirect, silent, status, web

from certigraph.adapters.http import PageRefused, unpack_body
from certigraph.adapters.web.pages import Fetcher, PageContent, read_page
from certigraph.adapters.web.protocol import Unreadable, WebPage

# Pages fetched over HTTP from a loopback server with virtual hosts.

PROSE = "The museum opens at nine and closes at five, every day but Monday, and children enter free. " * 3
PAGE = f"<html><head><title>Museum</title></head><body><p>{PROSE}</p></body></html>"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


def fetcher(site: Site, **options) -> Fetcher:
    return Fetcher(**{"timeout": 10, "robots": False, "hosts": {".example": site.place}, **options})


def fetched(behaviour, **options) -> WebPage | Unreadable:
    """What a fetcher makes of `http://a.example/x`, and of nothing else that the server has."""
    with web({"/x": behaviour}) as site:
        return fetcher(site, **options).page("http://a.example/x")


def reason(outcome: WebPage | Unreadable) -> str:
    assert isinstance(outcome, Unreadable), outcome
    return outcome.reason


def test_a_page():
    with web({"a.example/x?q=1": body(PAGE)}) as site:
        found = fetcher(site).page("http://a.example/x?q=1#part")
        assert found == WebPage(url="http://a.example/x?q=1#part", title="Museum", text=PROSE.strip())
        assert site.headers[0]["Host"] == "a.example"
        assert site.headers[0]["User-Agent"] == "certigraph/0.1 (+https://pypi.org/project/certigraph)"
        assert site.headers[0]["Accept-Encoding"] == "gzip, deflate"
        assert "Cookie" not in site.headers[0]


def test_a_proxy_of_the_environment_is_not_used(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert isinstance(fetched(body(PAGE)), WebPage)


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


@pytest.mark.slow
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
    assert time.monotonic() - start < 2.8  # the server would go on for 3 s


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


def test_no_tls_where_it_is_requested():
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
    assert isinstance(found, WebPage)
    assert found.text == PROSE.strip()


@pytest.mark.parametrize(
    ("behaviour", "expected"),
    [
        (body("no gzip", Content_Encoding="gzip"), "a body that cannot be unpacked"),
        (body(PAGE, Content_Encoding="br"), "in an encoding that was not asked for"),
        (
            drip(b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\n\r\n", b"", 3, 1),
            "application/pdf is not a page of text",
        ),
        (drip(HEAD + b"Content-Length: 2000001\r\n\r\n", b"", 3, 1), "larger than 2 MB"),
    ],
)
def test_a_body_of_no_use_is_refused_and_not_waited_for(behaviour, expected):
    assert reason(fetched(behaviour)) == expected


def test_bombs_and_floods_cost_no_more_than_is_allowed():
    bomb = gzip.compress(b"a" * 20_000_000)
    assert reason(fetched(body(bomb, Content_Encoding="gzip"))) == "larger than 2 MB"
    with web({"/x": flood(50_000_000), "/announced": flood(50_000_000, Content_Length="50000000")}) as site:
        reader = fetcher(site, largest=300_000, timeout=5)
        assert reason(reader.page("http://a.example/x")) == "larger than 0.3 MB"
        assert site.sent < 10_000_000  # what lay in the buffers of two sockets
        site.sent = 0
        assert reason(reader.page("http://a.example/announced")) == "larger than 0.3 MB"


def test_no_more_is_unpacked_than_is_wanted():
    bomb = gzip.compress(b"a" * 5_000_000)
    assert len(unpack_body([bomb], "gzip", 1000)) == 1000
    assert len(unpack_body([bomb[:99], bomb[99:]], "gzip", 200_000)) == 200_000
    nothing = iter([b"\x78\x9c", *[b"\0\0\0\xff\xff" * 100] * 9])
    assert unpack_body(nothing, "deflate", 1000) == b""
    assert len(list(nothing)) == 7
    pieces = iter([b"a" * 600] * 9)
    assert unpack_body(pieces, "", 1000) == b"a" * 1000
    assert len(list(pieces)) == 7
    assert unpack_body(iter([PAGE.encode()[:9], PAGE.encode()[9:]]), "identity", 10**6) == PAGE.encode()


def test_threads_share_a_fetcher():
    pages = {f"/{n}": body(PAGE.replace("Museum", f"Museum {n}")) for n in range(8)}
    found: dict[int, WebPage | Unreadable] = {}
    with web(pages) as site:
        reader = fetcher(site, robots=True, timeout=3)

        def fetch(n: int) -> None:
            found[n] = reader.page(f"http://a.example/{n}")

        threads = [threading.Thread(target=fetch, args=(n,)) for n in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert site.requests.count("a.example/robots.txt") == 1
    assert [found[n].title for n in range(8)] == [f"Museum {n}" for n in range(8)]


def test_redirects():
    pages = {"a.example/1": redirect("/2", 301), "a.example/2": redirect("//b.example/3?a=b", 308)}
    with web({**pages, "b.example/3?a=b": body(PAGE)}) as site:
        found = fetcher(site).page("http://a.example/1")
    assert isinstance(found, WebPage)
    assert (found.url, found.moved) == ("http://a.example/1", "http://b.example/3?a=b")


def test_too_many_redirects_and_circles():
    chain = {f"/{n}": redirect(f"/{n + 1}") for n in range(9)}
    with web(
        {**chain, "/loop": redirect("http://b.example/loop"), "b.example/loop": redirect("//a.example/loop")}
    ) as site:
        reader = fetcher(site, timeout=2)
        assert reason(reader.page("http://a.example/0")) == "more than 5 redirects"
        assert len(site.requests) == 6
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
        ("http://[::1/", "redirects to what is not a URL"),
    ],
)
def test_redirects_out_of_bounds(target, expected):
    with web({"/secret": body(PAGE)}) as other, web({}) as site:
        site.pages["/x"] = redirect(target.format(other=other.server_port))
        outcome = fetcher(site).page("http://a.example/x")
        assert (reason(outcome), outcome.lasting) == (expected, False)
        assert other.requests == []


def test_private_addresses_need_to_be_allowed():
    with web({"/x": body(PAGE)}) as site:
        url = f"http://localhost:{site.server_port}/x"
        assert reason(Fetcher(robots=False).page(url)) == "a private address"
        assert site.requests == []
        for allowed in ("localhost", f"localhost:{site.server_port}", "127.0.0.0/8"):
            assert isinstance(
                Fetcher(robots=False, allowed=[allowed], resolve=lambda *_: ["127.0.0.1"]).page(url), WebPage
            )


def test_the_address_that_was_checked_is_the_one_that_is_queried():
    """A second look-up could give another address: DNS rebinding."""
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])
    with web({"a.example/x": body(PAGE)}) as site:
        reader = Fetcher(robots=False, allowed=["127.0.0.1"], resolve=lambda *_: next(answers))
        assert isinstance(reader.page(f"http://a.example:{site.server_port}/x"), WebPage)
        assert reason(reader.page(f"http://a.example:{site.server_port}/x")) == "a private address"
        assert site.headers[0]["Host"] == f"a.example:{site.server_port}"


def test_the_next_address_is_tried_where_one_takes_no_connection():
    with web({"/x": body(PAGE)}) as site:
        both = ["127.9.9.9", "127.0.0.1"]
        reader = Fetcher(robots=False, allowed=["127.0.0.0/8"], resolve=lambda *_: both)
        assert isinstance(reader.page(f"http://a.example:{site.server_port}/x"), WebPage)


def test_other_ports_need_to_be_allowed():
    outcome = Fetcher(robots=False, resolve=lambda *_: ["93.184.215.14"]).page("http://a.example:22/")
    assert reason(outcome) == "a port that is not allowed"


# What is read of a page's bytes.

SENTENCE = "The museum opens at nine and closes at five, every day but Monday, and children enter free of charge."
ROWS = "<tr><th>Day</th><th>Opens</th></tr><tr><td>Mon</td><td>7:15</td></tr><tr><td>Tue</td><td>8:45</td></tr>"
TABLE = f"<table>{ROWS}</table>"
LIST = "<ul><li>Adults: $5.00</li><li>Children: $2.50</li></ul>"
MENU = "<nav><ul><li><a href=/>Home</a></li></ul></nav>"


def text(inner: str, kind: str = "text/html; charset=utf-8", title: str = "A title") -> str:
    page = f"<!doctype html><html><head><title>{title}</title></head><body>{inner}</body></html>"
    return read_page(page.encode(), kind).text


def test_tables_and_lists_of_a_short_page_are_complete():
    lines = text(f"{MENU}<h1>Pool</h1><p>{SENTENCE}</p>{TABLE}{LIST}<footer>Copyright</footer>").split("\n")
    for line in (
        SENTENCE,
        "| Day | Opens |",
        "| Mon | 7:15 |",
        "| Tue | 8:45 |",
        "- Adults: $5.00",
        "- Children: $2.50",
    ):
        assert line in lines
    assert not {"Home", "- Home", "Copyright"} & set(lines)


def test_a_table_far_from_the_article_is_kept():
    article = "".join(f"<p>{SENTENCE} It has {n} rooms.</p>" for n in range(40))
    menu = "<ul><li><a href=/>Home</a></li></ul>"
    found = text(f"<article>{article}</article>{menu}<div class='sidebar widget'><h4>Fees</h4>{TABLE}</div>")
    assert found.count("| Mon | 7:15 |") == 1
    assert found.startswith(SENTENCE)
    assert "Home" not in found


@pytest.mark.slow
def test_pages_too_large_for_the_extractor_are_outlined(monkeypatch):
    calls = []
    monkeypatch.setattr(trafilatura, "extract", lambda tree, **options: calls.append(tree))
    found = text(f"<p>{SENTENCE}</p><table>{'<tr><td>1<td>2' * 7000}</table>")
    assert found.startswith(f"{SENTENCE}\n| 1 | 2 |\n")
    assert calls == []


def test_pages_of_bare_elements_are_outlined():
    card = "<div><span>Gym {n}</span><br><a href=/{n}>{n} First Avenue</a><div>${n}.50</div></div>"
    cards = "".join(card.format(n=n) for n in range(9))
    found = text(f"<form>{cards}</form>")
    assert all(f"{n} First Avenue" in found and f"${n}.50" in found for n in range(9))


@pytest.mark.slow
def test_nested_and_large_tables():
    rows = "".join(f"<tr><td>Item {n}</td><td><p>${n}</p><p>each</p></td></tr>" for n in range(4000))
    lines = text(f"<table><tr><td>{SENTENCE}</td><td><table>{rows}</table></td></tr></table>").split("\n")
    assert "| Item 3999 | $3999 each |" in lines


def test_what_a_reader_does_not_see_is_left_out():
    hidden = (
        "<!-- COMMENT --><script>var SCRIPT = 1</script><style>.STYLE {}</style><template>TEMPLATE</template>"
        "<p style='DISPLAY : none'>NONE</p><p hidden>HIDDEN</p><div aria-hidden=true><p>ARIA</p></div>"
        "<span style='font-size:0px'>ZERO</span><p style='color:red;visibility:hidden'>INVISIBLE</p>"
    )
    found = text(f"<p>{SENTENCE}{hidden}</p><p style='font-size:0.9em'>Small print.</p>{hidden}tail")
    assert SENTENCE in found and "Small print." in found and "tail" in found
    assert not any(word.isupper() and len(word) > 3 for word in found.split())


def test_titles():
    page = f"<h1>Heading</h1><p>{SENTENCE}</p>".encode()
    assert read_page(b"<title> Two\n words </title>" + page, "text/html").title == "Two words"
    assert read_page(page, "text/html").title == "Heading"
    assert len(read_page(b"<title>" + b"x" * 5000 + b"</title>" + page, "text/html").title) == 300


@pytest.mark.parametrize("kind", ["text/plain", "application/json", "text/csv", "application/xml", "TEXT/MARKDOWN"])
def test_other_text_is_as_it_is(kind):
    source = f"{SENTENCE}\n<b>no</b> page,  of HTML\n"
    assert read_page(source.encode(), kind) == PageContent("", source.strip())


@pytest.mark.parametrize(
    ("page", "kind", "reason", "lasting"),
    [
        (SENTENCE.encode() * 2, "image/svg+xml", "image/svg+xml is not a page of text", False),
        (SENTENCE.encode(), "application/" + "x" * 99, "this is not a page of text", False),
        (SENTENCE.encode(), "application/<b>now", "this is not a page of text", False),
        (b"\x89PNG\r\n\0\0\0" + SENTENCE.encode() * 2, "text/html", "its bytes are not text", False),
        (b"", "text/html", "less than 100 characters of text", True),
        (b"<p>" + b"x" * 99, "text/html", "less than 100 characters of text", True),
        (b"<script>" + b"x" * 500 + b"</script>", "text/html", "less than 100 characters of text", True),
    ],
)
def test_what_is_not_a_page_of_text_is_refused(page, kind, reason, lasting):
    with pytest.raises(PageRefused) as caught:
        read_page(page, kind)
    assert (caught.value.reason, caught.value.lasting) == (reason, lasting)


@pytest.mark.parametrize(
    ("header", "declared", "codec"),
    [
        ("; charset=iso-8859-1", "", "cp1252"),
        ("; charset=windows-1251", "utf-8", "cp1251"),
        ("", "windows-1251", "cp1251"),
        ("; charset=nonsense", "utf-8", "utf-8"),
        ("; charset=rot13", "", "utf-8"),
        ("", "", "utf-8"),
        ("; charset=utf-8", "", "utf-16"),
        ("; charset=iso-8859-1", "", "utf-8-sig"),
    ],
)
def test_charsets(header, declared, codec):
    word = "Привет" if codec == "cp1251" else "Zoë's “café”"
    meta = f"<meta charset='{declared}'>" if declared else ""
    page = f"<html><head>{meta}</head><body><p>{SENTENCE} {word}</p></body></html>".encode(codec)
    assert word in read_page(page, f"text/html{header}").text


def test_a_wrong_charset_loses_letters_only():
    found = read_page(f"<p>{SENTENCE}</p><p>caf\xe9 open</p>".encode("cp1252"), "text/html; charset=utf-8").text
    assert SENTENCE in found and "caf\ufffd open" in found


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"<?xml" + b" " * 200_000 + SENTENCE.encode() * 9, "text/html"),
        (b"a" * 300_000 + b"-" + b"a" * 300_000, "text/plain; charset=punycode"),
    ],
    ids=["an endless declaration", "a charset that is none"],
)
def test_what_would_take_minutes_is_left_out(body, kind):
    start = time.monotonic()
    with contextlib.suppress(PageRefused):
        read_page(body, kind)
    assert time.monotonic() - start < 10


ATTRIBUTES = " ".join(f"a{number}=1" for number in range(40_000))
QUOTED = ATTRIBUTES.replace("=1", '=">"')


@pytest.mark.parametrize(
    "page",
    [
        f"<p {ATTRIBUTES}>{PROSE}</p>",
        f"<p {QUOTED}>{PROSE}</p>",
        f"<p {ATTRIBUTES.replace('=1 ', '/')}>{PROSE}</p>",
        f"<!-- <a b='--><p {QUOTED}>{PROSE}</p>'",
        f"<P xmlns:{ATTRIBUTES.replace(' a', ' xmlns:a')}>{PROSE}",
        f"<p>{PROSE}</p>" + f"<i {' '.join(f'b{number}' for number in range(2_000))}></i>" * 50,
    ],
)
def test_elements_with_thousands_of_attributes_are_refused_at_once(page):
    began = time.process_time()
    with pytest.raises(PageRefused, match="attributes"):
        read_page(f"<html><body>{page}".encode(), "text/html")
    assert time.process_time() - began < 1


def test_a_page_whose_elements_have_long_attributes_is_read():
    path = "M 10 10 " * 5_000
    picture = f"<svg><path d='{path}'/></svg><img src='data:image/png;base64,{'ab/+' * 50_000}'>"
    many = " ".join(f"data-{number}=1" for number in range(400))
    assert read_page(f"<html><body>{picture}<p {many}>{PROSE}</p>".encode(), "text/html").text == PROSE.strip()


def test_controls_and_halves_of_characters_are_left_out():
    assert read_page(f"{SENTENCE}\x1b[31m red\r\n\x9b".encode(), "text/plain").text == f"{SENTENCE}[31m red"
    assert read_page(f"{SENTENCE}+2AA- end".encode(), "text/html; charset=utf-7").text == f"{SENTENCE} end"
    assert "\1" not in read_page(f"<p>{SENTENCE}</p><p>one &#1; two</p>".encode(), "text/html").text


def test_an_extractor_that_fails_leaves_the_outline(monkeypatch):
    def fail(*args, **kwargs):
        raise RecursionError

    monkeypatch.setattr(trafilatura, "extract", fail)
    assert "| Mon | 7:15 |" in text(f"<p>{SENTENCE}</p>{TABLE}")


# Robots.txt: who asks for it, how often, and what its absence means.

ROBOTS = "User-agent: *\nDisallow: /private\n\nUser-agent: greedy\nDisallow: /\n"
REFUSED = "its robots.txt does not allow it"


def answer_with(robots: Behaviour, path: str = "x") -> str:
    """Why a page below these rules is not read; empty where it is."""
    with web({f"/{path}": body(PAGE), "/robots.txt": robots}) as site:
        found = fetcher(site, robots=True).page(f"http://a.example/{path}")
    return "" if isinstance(found, WebPage) else found.reason


@pytest.mark.parametrize(
    ("robots", "path", "expected"),
    [
        (body(ROBOTS), "x", ""),
        (body(ROBOTS), "private/x", REFUSED),
        (body("User-agent: Certigraph\nDisallow: /\n"), "x", REFUSED),
        (body("User-agent: *\nDisallow: /\nAllow: /x$\n"), "x", ""),
        (body("#" * 600_000 + "\nUser-agent: *\nDisallow: /\n"), "x", ""),
        (body("\0\xff: no rules\n::::"), "x", ""),
        # as a regular expression this would take years
        (body("User-agent: *\nDisallow: /" + "*a" * 20 + "*b\n"), "a" * 60, ""),
        *((status(code), "x", "") for code in (404, 403, 429)),
        *((status(code), "x", REFUSED) for code in (500, 503)),
        (redirect("http://169.254.169.254/"), "x", "redirects to a private address"),
    ],
)
def test_rules(robots, path, expected):
    assert answer_with(robots, path) == expected


def test_rules_are_requested_once_for_each_host_also_where_they_moved():
    pages = {"/x": body(PAGE), "/robots.txt": status(404), "b.example/robots.txt": redirect("//c.example/r")}
    with web({**pages, "c.example/r": body(ROBOTS)}) as site:
        reader = fetcher(site, robots=True)
        for url in ("http://a.example/x", "http://a.example/x", "http://b.example/x", "http://a.example:8080/x"):
            assert isinstance(reader.page(url), WebPage)
        assert isinstance(reader.page("http://b.example/private/x"), Unreadable)
        rules = [entry for entry in site.requests if "robots" in entry]
    assert rules == ["a.example/robots.txt", "b.example/robots.txt", "a.example/robots.txt"]


def test_the_host_of_a_redirect_is_queried_too():
    pages = {"a.example/x": redirect("http://b.example/private"), "/private": body(PAGE)}
    with web({**pages, "b.example/robots.txt": body(ROBOTS)}) as site:
        found = fetcher(site, robots=True).page("http://a.example/x")
        assert found == Unreadable(url="http://a.example/x", reason=REFUSED, forbidden=True)
        assert "b.example/private" not in site.requests


def test_a_site_that_does_not_answer_is_not_a_refusal_for_good():
    with web({"/x": body(PAGE), "/robots.txt": silent(0.5)}) as site:
        reader = fetcher(site, robots=True, timeout=0.15)
        late = reader.page("http://a.example/x")
        assert late == Unreadable(url="http://a.example/x", reason="timed out after 0.15 s", lasting=True)
        site.pages["/robots.txt"] = status(404)
        assert isinstance(reader.page("http://a.example/x"), WebPage)
