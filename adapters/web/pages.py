"""Web pages: fetching over HTTP, decoding, and extraction of their text.

`Fetcher` is the page source for the live web; `read_page` converts a response body to title and text.
"""

import codecs
import logging
import re
from collections.abc import Mapping, Sequence
from email.message import Message
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from certigraph.adapters.extras import import_web_package
from certigraph.adapters.http import PageRefused
from certigraph.adapters.web.addresses import Addresses, ResolveFunction, parse_url, resolve_host
from certigraph.adapters.web.protocol import Unreadable, WebPage

if TYPE_CHECKING:
    import httpx

    from certigraph.adapters.web.transport import Deadline, PageResponse


# Decoding of a page's bytes.

BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
DECLARED_CHARSET = re.compile(
    rb"""(?:<meta[^>]*?charset|<\?xml[^>]*?encoding)\s*=\s*["']?\s*([\w:.-]+)""", re.IGNORECASE
)
DECLARATION_BYTES = 2048
"""Number of bytes at the beginning of a page that are searched for a declared charset."""

BROWSER_CHARSETS = {
    "iso-8859-1": "cp1252",
    "latin-1": "cp1252",
    "us-ascii": "cp1252",
    "gb2312": "gb18030",
    "shift_jis": "cp932",
}
"""Charsets that browsers use in place of the declared ones (WHATWG's Encoding Standard)."""

EXCLUDED_CODECS = ("punycode", "idna", "unicode-escape", "raw-unicode-escape")
"""Codecs of Python that no page uses; the first one takes minutes for a megabyte."""


def decode_body(body: bytes, charset: str = "") -> str:
    """Decode the bytes of a page to text.

    The charset is that of the byte order mark, else `charset` from the HTTP header, else the one that the page
    declares, else UTF-8. Bytes that cannot be decoded become the replacement character.
    """
    from_mark = next((name for mark, name in BYTE_ORDER_MARKS if body.startswith(mark)), "")
    match = DECLARED_CHARSET.search(body[:DECLARATION_BYTES])
    declared = match[1].decode("ascii", "replace") if match else ""
    for name in (from_mark, charset, declared):
        try:
            if name and codecs.lookup(name).name not in EXCLUDED_CODECS:
                return body.decode(BROWSER_CHARSETS.get(name.lower(), name), "replace")
        except (LookupError, UnicodeError, ValueError):  # unknown charset, or one without replacement of errors
            continue
    return body.decode("utf-8", "replace")


# Outline: the complete text of an HTML tree with its lines, tables and lists. It has more boilerplate than an article
# extracted by trafilatura.

OUTSIDE_ELEMENTS = ("head", "nav", "footer", "aside", "svg", "select", "button", "iframe")
"""HTML elements that are not part of a page's own text."""

LINE_ELEMENTS = (
    *("address", "article", "blockquote", "br", "caption", "dd", "div", "dl", "dt", "fieldset", "figcaption", "figure"),
    *("form", "header", "hr", "main", "ol", "p", "pre", "section", "summary", "table", "ul"),
)
LINE_PREFIXES = {"li": "- ", "tr": "| ", "h1": "# ", "h2": "## ", "h3": "### ", "h4": "#### "}
"""Markdown prefixes of lines, by HTML element."""

CELL_ELEMENTS = ("td", "th")
CELL_END = " | "


def outline_tree(tree: Any) -> str:
    """Return the complete text of an lxml tree as Markdown: its outline."""
    parts: list[str] = []
    inside = 0
    walk = import_web_package("lxml.etree").iterwalk(tree, ("start", "end"))
    for event, element in walk:
        # a cell stays on its row's line, whatever line breaks it has; one that contains a table only lays out the page
        cell = element.tag in CELL_ELEMENTS and element.find(".//table") is None
        if event == "start":
            inside += cell
            parts += [" " if inside else _line_start(element.tag), _collapse_spaces(element.text)]
            if element.tag in OUTSIDE_ELEMENTS:
                parts.pop()
                walk.skip_subtree()
        else:
            inside -= cell
            parts += [CELL_END if cell else " " if inside else _line_end(element.tag), _collapse_spaces(element.tail)]
    lines = (_collapse_spaces(line).strip() for line in "".join(parts).split("\n"))
    return "\n".join(line for line in lines if line.strip("-#| "))


def table_rows(text: str) -> list[str]:
    """Return the table rows of an outline."""
    return [line for line in text.split("\n") if line.startswith(LINE_PREFIXES["tr"])]


def _line_start(tag: str) -> str:
    return f"\n{LINE_PREFIXES.get(tag, '')}" if tag in LINE_ELEMENTS or tag in LINE_PREFIXES else ""


def _line_end(tag: str) -> str:
    return "\n" if tag in LINE_ELEMENTS or tag in LINE_PREFIXES else ""


def _collapse_spaces(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "")


# Text of a page as Markdown: HTML is converted by trafilatura, with tables and lists; other text types stay unchanged.

HTML_TYPES = ("text/html", "application/xhtml+xml")
TEXT_TYPES = (
    *("text/plain", "text/markdown", "text/csv", "text/tab-separated-values", "text/calendar", "text/xml"),
    *("application/json", "application/ld+json", "application/xml", "application/rss+xml", "application/atom+xml"),
)
MIN_CHARACTERS = 100
"""Minimum characters of a page's text; a page with less counts as unreadable (SDP, appendix A.4)."""

HIDDEN_STYLE = re.compile(r"display:none|visibility:hidden|font-size:0(\.0+)?(?![.\d])")
REMOVED_ELEMENTS = ("script", "style", "noscript", "template")
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters, which a terminal would interpret, and unpaired surrogates, which UTF-8 cannot encode."""

MARKDOWN_ESCAPE = re.compile(r"\\([*_`~\[\]<#>+\-.)])")
"""Markdown's escapes, which would otherwise appear in answers."""

MAX_EXTRACTED_ELEMENTS = 20_000
"""Maximum number of HTML elements of a page for trafilatura, which is too slow for larger pages."""

MAX_ATTRIBUTES = 500
"""Maximum number of attributes of an HTML element; a page with more in one of them is refused."""

MAX_TITLE_CHARACTERS = 300
MAX_SHORT_PAGE_CHARACTERS = 3_000
"""Maximum characters of a page that counts as short. Of a longer page, a smaller share has to be extracted."""


class PageContent(NamedTuple):
    """Title and text of a page; the title is empty if the page has none."""

    title: str
    text: str


class ContentType(NamedTuple):
    """Media type and charset of a Content-Type header; the charset may be empty."""

    type: str
    charset: str


def parse_content_type(content_type: str) -> ContentType:
    """Parse a Content-Type header. Raises PageRefused if the type is not HTML or another text type."""
    header = Message()
    # a missing header usually belongs to a hand-written HTML page
    header["Content-Type"] = content_type or HTML_TYPES[0]
    media_type = header.get_content_type()
    if media_type not in (*HTML_TYPES, *TEXT_TYPES):
        shown = media_type if re.fullmatch(r"[\w.+-]{1,40}/[\w.+-]{1,80}", media_type) else "this"
        raise PageRefused(f"{shown} is not a page of text")
    return ContentType(media_type, str(header.get_content_charset() or ""))


def read_page(body: bytes, content_type: str) -> PageContent:
    """Extract the title and the text of a page from a response body.

    Raises:
        PageRefused: the type is not a text type, the body is not text, or there are less than MIN_CHARACTERS of text.
        Fault: ("environment") trafilatura is missing.
    """
    content_kind = parse_content_type(content_type)
    source = decode_body(body, content_kind.charset)
    if "\0" in source:
        raise PageRefused("its bytes are not text")
    source = UNPRINTABLE.sub("", source)
    title, text = _read_html(source) if content_kind.type in HTML_TYPES else ("", source)
    return check_content(title, text)


def check_content(title: str, text: str) -> PageContent:
    """Return a page's title and text without control characters.

    Raises:
        PageRefused: there are less than MIN_CHARACTERS of text.
    """
    text = UNPRINTABLE.sub("", text).strip()
    if len(text) < MIN_CHARACTERS:
        raise PageRefused(f"less than {MIN_CHARACTERS} characters of text", lasting=True)
    return PageContent(UNPRINTABLE.sub("", title)[:MAX_TITLE_CHARACTERS], text)


def _read_html(source: str) -> PageContent:
    tree = _parse_html(source)
    if tree is None:
        return PageContent("", "")
    _remove_hidden(tree)
    title = next((" ".join(element.text_content().split()) for element in tree.iter("title", "h1")), "")
    full_text = outline_tree(tree)
    is_large = sum(1 for _ in tree.iter()) > MAX_EXTRACTED_ELEMENTS
    return PageContent(
        title[:MAX_TITLE_CHARACTERS], full_text if is_large else _complete_text(_extract_text(tree), full_text)
    )


def _parse_html(source: str) -> Any:
    html, options = import_web_package("lxml.html"), {"remove_comments": True, "remove_pis": True, "encoding": "utf-8"}
    body = source.encode()  # lxml searches a str for a declared encoding, which takes hours if blanks follow `<?xml`
    try:
        import_web_package("lxml.etree").fromstring(body, html.HTMLParser(target=_AttributeCheck(), **options))
        return html.document_fromstring(body, parser=html.HTMLParser(**options))
    except (import_web_package("lxml.etree").LxmlError, ValueError):
        return None


class _AttributeCheck:
    """Target of lxml's parser that refuses pages with an element of more than MAX_ATTRIBUTES attributes.

    A target sees elements without a tree, in which the time for an element grows with the square of its attributes.
    """

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if len(attributes) > MAX_ATTRIBUTES:
            raise PageRefused(f"an element with more than {MAX_ATTRIBUTES} attributes")

    def close(self) -> None:
        pass


def _remove_hidden(tree: Any) -> None:
    """Remove invisible elements from an HTML tree, because instructions to a model could be hidden in them."""
    for element in list(tree.iter()):
        if element.tag not in ("html", "body") and _is_hidden(element):
            element.clear(keep_tail=True)


def _is_hidden(element: Any) -> bool:
    style = re.sub(r"\s", "", element.get("style", "")).lower()
    hidden = "hidden" in element.attrib or element.get("aria-hidden") == "true" or HIDDEN_STYLE.search(style)
    return element.tag in REMOVED_ELEMENTS or bool(hidden)


def _extract_text(tree: Any) -> str:
    extract = import_web_package("trafilatura").extract
    options = {
        "output_format": "markdown",
        "favor_recall": True,
        "include_comments": False,
        "config": _trafilatura_config(),
    }
    try:
        text = extract(tree, **options) or ""
    except Exception:  # noqa: BLE001 - pages are untrusted; if the extractor fails, the outline is used
        return ""
    return "\n".join(line.rstrip() for line in MARKDOWN_ESCAPE.sub(r"\1", text).split("\n"))


@lru_cache(maxsize=1)
def _trafilatura_config() -> Any:
    # no warnings about pages without an article, because their outline is used
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    config = import_web_package("trafilatura.settings").use_config()
    # trafilatura drops tables and lists of texts that are shorter
    config.set("DEFAULT", "MIN_EXTRACTED_SIZE", "0")
    return config


def _complete_text(text: str, full_text: str) -> str:
    """Return the extracted text with the table rows that it lacks; the full text if too little was extracted.

    Args:
        text: the text that trafilatura extracted.
        full_text: the outline of the page.
    """
    share = 0.5 if len(full_text) < MAX_SHORT_PAGE_CHARACTERS else 0.2  # a long page has more boilerplate
    if len(text) < share * len(full_text):
        return full_text
    present = {_letters(line) for line in text.split("\n")}
    missing = [row for row in table_rows(full_text) if _letters(row) not in present]
    return "\n".join([text, "", *missing]) if missing else text


def _letters(line: str) -> str:
    return re.sub(r"[\W_]+", "", line)


# Page source that fetches from the web.

DENIED_STATUSES = (401, 403, 407, 429, 451)


class Fetcher:
    """A PageSource that fetches pages over HTTP. Threads may share it. Proxies of the environment are not used.

    Only public addresses on ports 80 and 443 are requested, and the connection uses the address that was checked.
    `allowed` and `hosts` are exceptions to this rule.

    Args:
        timeout: maximum seconds on the network for a page, its redirects and its site's robots.txt. Parsing a very
            large page takes a few seconds more.
        largest: maximum bytes of a page after decompression; a larger page is refused.
        redirects: maximum number of redirects.
        allowed: hosts, `host:port` and networks that may be requested although they are private. The user's list is
            `addresses.allowed_hosts()`.
        hosts: fixed addresses, as in a hosts file: from a host name, or the end of host names (`.example`), to
            `address:port`.
        robots: whether a site's robots.txt is obeyed.
        resolve: function that resolves a host name.

    Raises:
        Fault: ("data") an entry of `allowed` or `hosts` is invalid.
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
        resolve: ResolveFunction = resolve_host,
    ) -> None:
        from certigraph.adapters.web.transport import Robots, Transport

        # part of the cache key: a refused page is requested again once its host is allowed
        self.name = " ".join(("page", *sorted(allowed)))
        self._timeout, self._largest = timeout, largest
        self._transport = Transport(Addresses(allowed, hosts, resolve), redirects)
        self._robots = Robots(self._transport) if robots else None

    def page(self, url: str) -> WebPage | Unreadable:
        """Return the page of an http or https URL, or the reason why there is none.

        Raises:
            Fault: ("environment") the extra `web` is not installed.
        """
        try:
            start = parse_url(url)
            answer = self._answer(start)
            content = read_page(answer.body, answer.headers.get("Content-Type", ""))
        except PageRefused as refused:
            return Unreadable.of(url, refused)
        moved = "" if answer.url == start else str(answer.url)
        return WebPage(url=url, title=content.title, text=content.text, moved=moved)

    def _answer(self, url: "httpx.URL") -> "PageResponse":
        from certigraph.adapters.web.transport import Deadline, RequestSettings

        deadline = Deadline(self._timeout)
        request = RequestSettings(
            deadline, self._largest + 1, lambda hop: self._check(hop, deadline), self._check_headers
        )
        answer = self._transport.follow(url, request)
        if answer.status in DENIED_STATUSES:
            raise PageRefused(f"refused ({answer.status})", lasting=True)
        if not 200 <= answer.status < 300:
            raise PageRefused(f"status {answer.status}")
        self._check_size(len(answer.body))
        return answer

    def _check(self, url: "httpx.URL", deadline: "Deadline") -> None:
        if self._robots:
            self._robots.check(url, deadline)

    def _check_headers(self, headers: "httpx.Headers") -> None:
        parse_content_type(headers.get("Content-Type", ""))
        length = headers.get("Content-Length", "")
        self._check_size(int(length) if length.isdecimal() and len(length) < 19 else 0)

    def _check_size(self, size: int) -> None:
        if size > self._largest:
            raise PageRefused(f"larger than {self._largest / 1e6:g} MB")
