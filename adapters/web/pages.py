"""Pages: fetching over HTTP, decoding, and extraction of their text.

`Fetcher` is the PageSource of the web; `readable` converts a response body to title and text.
"""

import codecs
import logging
import re
from collections.abc import Mapping, Sequence
from email.message import Message
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from certigraph.adapters.http import Refused
from certigraph.adapters.processes import package
from certigraph.adapters.web.addresses import Addresses, Resolve, parsed, resolved
from certigraph.adapters.web.protocol import Page, Unreadable

if TYPE_CHECKING:
    import httpx

    from certigraph.adapters.web.transport import Answer, Deadline


# Decoding of a page's bytes.

MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
DECLARED = re.compile(rb"""(?:<meta[^>]*?charset|<\?xml[^>]*?encoding)\s*=\s*["']?\s*([\w:.-]+)""", re.IGNORECASE)
LOOKED_AT = 2048
"""Number of first bytes that are searched for a declared charset."""

WIDER = {"iso-8859-1": "cp1252", "latin-1": "cp1252", "us-ascii": "cp1252", "gb2312": "gb18030", "shift_jis": "cp932"}
"""Charsets that browsers use for these names (WHATWG's Encoding Standard)."""

NO_CHARSETS = ("punycode", "idna", "unicode-escape", "raw-unicode-escape")
"""Codecs of Python that no page uses; the first one takes minutes for a megabyte."""


def decoded(body: bytes, charset: str = "") -> str:
    """Decode by byte order mark, else by `charset` of the header, else by the page's declaration, else as UTF-8.

    Undecodable bytes become the replacement character.
    """
    from_mark = next((name for mark, name in MARKS if body.startswith(mark)), "")
    match = DECLARED.search(body[:LOOKED_AT])
    declared = match[1].decode("ascii", "replace") if match else ""
    for name in (from_mark, charset, declared):
        try:
            if name and codecs.lookup(name).name not in NO_CHARSETS:
                return body.decode(WIDER.get(name.lower(), name), "replace")
        except (LookupError, UnicodeError, ValueError):  # unknown charset, or one without replacement of errors
            continue
    return body.decode("utf-8", "replace")


# Outline: the complete text of an HTML tree with lines, tables and lists. Less refined than an extracted article.

OUTSIDE = ("head", "nav", "footer", "aside", "svg", "select", "button", "iframe")
"""Elements that are not part of a page's own text."""

LINES = (
    *("address", "article", "blockquote", "br", "caption", "dd", "div", "dl", "dt", "fieldset", "figcaption", "figure"),
    *("form", "header", "hr", "main", "ol", "p", "pre", "section", "summary", "table", "ul"),
)
STARTS = {"li": "- ", "tr": "| ", "h1": "# ", "h2": "## ", "h3": "### ", "h4": "#### "}
"""Markdown prefixes of lines, by element."""

CELLS = ("td", "th")
CELL_ENDS = " | "


def outline(tree: Any) -> str:
    """Return the text of an lxml tree as Markdown."""
    parts: list[str] = []
    inside = 0
    walk = package("lxml.etree").iterwalk(tree, ("start", "end"))
    for event, element in walk:
        # a cell stays on its row's line, whatever line breaks it has; one that contains a table only lays out the page
        cell = element.tag in CELLS and element.find(".//table") is None
        if event == "start":
            inside += cell
            parts += [" " if inside else _start(element.tag), _flat(element.text)]
            if element.tag in OUTSIDE:
                parts.pop()
                walk.skip_subtree()
        else:
            inside -= cell
            parts += [CELL_ENDS if cell else " " if inside else _end(element.tag), _flat(element.tail)]
    lines = (_flat(line).strip() for line in "".join(parts).split("\n"))
    return "\n".join(line for line in lines if line.strip("-#| "))


def rows(text: str) -> list[str]:
    """Return the table rows of an outline."""
    return [line for line in text.split("\n") if line.startswith(STARTS["tr"])]


def _start(tag: str) -> str:
    return f"\n{STARTS.get(tag, '')}" if tag in LINES or tag in STARTS else ""


def _end(tag: str) -> str:
    return "\n" if tag in LINES or tag in STARTS else ""


def _flat(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "")


# Text of a page as Markdown: HTML by trafilatura, with tables and lists; other text types unchanged.

HTML = ("text/html", "application/xhtml+xml")
AS_IS = (
    *("text/plain", "text/markdown", "text/csv", "text/tab-separated-values", "text/calendar", "text/xml"),
    *("application/json", "application/ld+json", "application/xml", "application/rss+xml", "application/atom+xml"),
)
SHORTEST = 100
"""Minimum characters of a page (SDP, appendix A.4)."""

UNSEEN = re.compile(r"display:none|visibility:hidden|font-size:0(\.0+)?(?![.\d])")
UNREAD = ("script", "style", "noscript", "template")
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters, which a terminal would interpret, and unpaired surrogates, which UTF-8 cannot encode."""

ESCAPED = re.compile(r"\\([*_`~\[\]<#>+\-.)])")
"""Markdown's escapes, which would otherwise appear in answers."""

MANY = 20_000
"""Maximum number of elements for trafilatura; it is too slow for larger trees."""

LONGEST_TITLE = 300
SHORT = 3_000
"""Maximum characters of a page that counts as short."""


class Readable(NamedTuple):
    """A page's title, empty if it has none, and its text."""

    title: str
    text: str


class Kind(NamedTuple):
    """Type and charset of a Content-Type header."""

    type: str
    charset: str


def kind(content_type: str) -> Kind:
    """Return type and charset of a readable page. Raises PageRefused for other types."""
    header = Message()
    # a missing header usually belongs to a hand-written HTML page
    header["Content-Type"] = content_type or HTML[0]
    media_type = header.get_content_type()
    if media_type not in (*HTML, *AS_IS):
        shown = media_type if re.fullmatch(r"[\w.+-]{1,40}/[\w.+-]{1,80}", media_type) else "this"
        raise Refused(f"{shown} is no page of text")
    return Kind(media_type, str(header.get_content_charset() or ""))


def readable(body: bytes, content_type: str) -> Readable:
    """Extract a page's title and text.

    Raises:
        PageRefused: its type is not text, its content does not match its type, or it has hardly any text.
        Fault: ("environment") trafilatura is missing.
    """
    content_kind = kind(content_type)
    source = decoded(body, content_kind.charset)
    if "\0" in source:
        raise Refused("its bytes are no text")
    source = UNPRINTABLE.sub("", source)
    title, text = _article(source) if content_kind.type in HTML else ("", source)
    text = UNPRINTABLE.sub("", text).strip()
    if len(text) < SHORTEST:
        raise Refused(f"less than {SHORTEST} characters of text", lasting=True)
    return Readable(UNPRINTABLE.sub("", title), text)


def _article(source: str) -> Readable:
    tree = _parsed(source)
    if tree is None:
        return Readable("", "")
    _prune(tree)
    title = next((" ".join(element.text_content().split()) for element in tree.iter("title", "h1")), "")
    full_text = outline(tree)
    is_large = sum(1 for _ in tree.iter()) > MANY
    return Readable(title[:LONGEST_TITLE], full_text if is_large else _completed(_extracted(tree), full_text))


def _parsed(source: str) -> Any:
    try:
        # bytes, because lxml searches a str for a declared encoding, which takes hours if `<?xml` is followed by blanks
        parser = package("lxml.html").HTMLParser(remove_comments=True, remove_pis=True, encoding="utf-8")
        return package("lxml.html").document_fromstring(source.encode(), parser=parser)
    except (package("lxml.etree").LxmlError, ValueError):
        return None


def _prune(tree: Any) -> None:
    """Remove invisible elements, where instructions to a model could be hidden."""
    for element in list(tree.iter()):
        if element.tag not in ("html", "body") and _is_unseen(element):
            element.clear(keep_tail=True)


def _is_unseen(element: Any) -> bool:
    style = re.sub(r"\s", "", element.get("style", "")).lower()
    hidden = "hidden" in element.attrib or element.get("aria-hidden") == "true" or UNSEEN.search(style)
    return element.tag in UNREAD or bool(hidden)


def _extracted(tree: Any) -> str:
    extract = package("trafilatura").extract
    options = {"output_format": "markdown", "favor_recall": True, "include_comments": False, "config": _config()}
    try:
        text = extract(tree, **options) or ""
    except Exception:  # noqa: BLE001 - pages are untrusted; if the extractor fails, the outline is used
        return ""
    return "\n".join(line.rstrip() for line in ESCAPED.sub(r"\1", text).split("\n"))


@lru_cache(maxsize=1)
def _config() -> Any:
    # no warnings about pages without an article, because their outline is used
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    config = package("trafilatura.settings").use_config()
    # trafilatura drops tables and lists of texts that are shorter
    config.set("DEFAULT", "MIN_EXTRACTED_SIZE", "0")
    return config


def _completed(text: str, full_text: str) -> str:
    """Add the table rows that an extracted text lacks; return the full text if too little of it was extracted."""
    share = 0.5 if len(full_text) < SHORT else 0.2  # a long page has more boilerplate
    if len(text) < share * len(full_text):
        return full_text
    present = {_letters(line) for line in text.split("\n")}
    missing = [row for row in rows(full_text) if _letters(row) not in present]
    return "\n".join([text, "", *missing]) if missing else text


def _letters(line: str) -> str:
    return re.sub(r"[\W_]+", "", line)


# Page source that fetches from the web.

DENIED = (401, 403, 407, 429, 451)


class Fetcher:
    """A PageSource over HTTP. Threads may share it. Proxies of the environment are not used.

    Only public addresses on ports 80 and 443 are requested, and the connection uses the address that was checked;
    `allowed` and `hosts` are exceptions.

    Args:
        timeout: maximum seconds on the network for a page, its redirects and its site's robots.txt; parsing a very
            large page takes a few seconds more.
        largest: maximum bytes of a page, unpacked; no more are read.
        redirects: maximum number of redirects.
        allowed: hosts, `host:port` or networks that may be private; `addresses.allowed_hosts()` are the user's.
        hosts: fixed addresses, like a hosts file: a name, or the end of names (`.example`), to `address:port`.
        robots: whether a site's robots.txt is obeyed.
        resolve: resolves a host.

    Raises:
        Fault: ("data") an invalid entry of `allowed` or `hosts`.
    """

    def __init__(
        self,
        *,
        timeout: float = 10.0,
        largest: int = 2_000_000,
        redirects: int = 5,
        allowed: Sequence[str] = (),
        hosts: Mapping[str, str] | None = None,
        robots: bool = True,
        resolve: Resolve = resolved,
    ) -> None:
        from certigraph.adapters.web.transport import Robots, Transport

        # part of the cache key: a refused page is requested again once its host is allowed
        self.name = " ".join(("page", *sorted(allowed)))
        self._timeout, self._largest = timeout, largest
        self._transport = Transport(Addresses(allowed, hosts, resolve), redirects)
        self._robots = Robots(self._transport) if robots else None

    def page(self, url: str) -> Page | Unreadable:
        """Return the page of an http or https URL, or the reason why there is none.

        Raises:
            Fault: ("environment") the extra `web` is not installed.
        """
        try:
            start = parsed(url)
            answer = self._answer(start)
            content = readable(answer.body, answer.headers.get("Content-Type", ""))
        except Refused as refused:
            return Unreadable(url=url, reason=refused.reason, lasting=refused.lasting)
        moved = "" if answer.url == start else str(answer.url)
        return Page(url=url, title=content.title, text=content.text, moved=moved)

    def _answer(self, url: "httpx.URL") -> "Answer":
        from certigraph.adapters.web.transport import Asked, Deadline

        deadline = Deadline(self._timeout)
        request = Asked(deadline, self._largest + 1, lambda hop: self._check(hop, deadline), self._check_headers)
        answer = self._transport.follow(url, request)
        if answer.status in DENIED:
            raise Refused(f"refused ({answer.status})", lasting=True)
        if not 200 <= answer.status < 300:
            raise Refused(f"status {answer.status}")
        self._check_size(len(answer.body))
        return answer

    def _check(self, url: "httpx.URL", deadline: "Deadline") -> None:
        if self._robots:
            self._robots.check(url, deadline)

    def _check_headers(self, headers: "httpx.Headers") -> None:
        kind(headers.get("Content-Type", ""))
        length = headers.get("Content-Length", "")
        self._check_size(int(length) if length.isdecimal() and len(length) < 19 else 0)

    def _check_size(self, size: int) -> None:
        if size > self._largest:
            raise Refused(f"larger than {self._largest / 1e6:g} MB")
