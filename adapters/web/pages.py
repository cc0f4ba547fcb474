"""Pages fetched and read as text."""

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


# Bytes as the characters that their page says they are.

MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
DECLARED = re.compile(rb"""(?:<meta[^>]*?charset|<\?xml[^>]*?encoding)\s*=\s*["']?\s*([\w:.-]+)""", re.IGNORECASE)
LOOKED_AT = 2048
"""Bytes in which a page declares its charset."""

WIDER = {"iso-8859-1": "cp1252", "latin-1": "cp1252", "us-ascii": "cp1252", "gb2312": "gb18030", "shift_jis": "cp932"}
"""What browsers read under these names (WHATWG's Encoding Standard)."""

NO_CHARSETS = ("punycode", "idna", "unicode-escape", "raw-unicode-escape")
"""Python's own, which no page is in; the first takes minutes for a megabyte."""


def decoded(body: bytes, charset: str = "") -> str:
    """Text by its mark, else by `charset`, the header's, else by its own declaration, else as UTF-8.

    What cannot be read becomes the replacement character.
    """
    marked = next((name for mark, name in MARKS if body.startswith(mark)), "")
    found = DECLARED.search(body[:LOOKED_AT])
    declared = found[1].decode("ascii", "replace") if found else ""
    for name in (marked, charset, declared):
        try:
            if name and codecs.lookup(name).name not in NO_CHARSETS:
                return body.decode(WIDER.get(name.lower(), name), "replace")
        except (LookupError, UnicodeError, ValueError):  # no charset, or one that cannot replace
            continue
    return body.decode("utf-8", "replace")


# The whole text of an HTML tree with its lines, tables and lists: less refined than an article, and nothing missed.

OUTSIDE = ("head", "nav", "footer", "aside", "svg", "select", "button", "iframe")
"""Elements of no page's own text."""

LINES = (
    *("address", "article", "blockquote", "br", "caption", "dd", "div", "dl", "dt", "fieldset", "figcaption", "figure"),
    *("form", "header", "hr", "main", "ol", "p", "pre", "section", "summary", "table", "ul"),
)
STARTS = {"li": "- ", "tr": "| ", "h1": "# ", "h2": "## ", "h3": "### ", "h4": "#### "}
"""How a line of these begins in Markdown."""

CELLS = ("td", "th")
CELL_ENDS = " | "


def outline(tree: Any) -> str:
    """The text of an lxml tree as Markdown."""
    parts: list[str] = []
    inside = 0
    walk = package("lxml.etree").iterwalk(tree, ("start", "end"))
    for event, element in walk:
        # a cell is one piece of its row, whatever lines it has; one that holds a table only lays out the page
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
    """The rows of tables in an outline."""
    return [line for line in text.split("\n") if line.startswith(STARTS["tr"])]


def _start(tag: str) -> str:
    return f"\n{STARTS.get(tag, '')}" if tag in LINES or tag in STARTS else ""


def _end(tag: str) -> str:
    return "\n" if tag in LINES or tag in STARTS else ""


def _flat(text: str | None) -> str:
    return re.sub(r"\s+", " ", text or "")


# What a page says, as Markdown: an HTML page's own text by trafilatura, with tables and lists; other text as it is.

HTML = ("text/html", "application/xhtml+xml")
AS_IS = (
    *("text/plain", "text/markdown", "text/csv", "text/tab-separated-values", "text/calendar", "text/xml"),
    *("application/json", "application/ld+json", "application/xml", "application/rss+xml", "application/atom+xml"),
)
SHORTEST = 100
"""Characters; what has fewer is no page (SDP, appendix A.4)."""

UNSEEN = re.compile(r"display:none|visibility:hidden|font-size:0(\.0+)?(?![.\d])")
UNREAD = ("script", "style", "noscript", "template")
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Controls, which a terminal would obey, and halves of characters, which no file takes."""

ESCAPED = re.compile(r"\\([*_`~\[\]<#>+\-.)])")
"""Markdown's escapes, which would end up in answers."""

MANY = 20_000
"""Elements of a tree from which on trafilatura takes longer than anybody waits."""

LONGEST_TITLE = 300
SHORT = 3_000
"""Characters up to which a page's whole text is short."""


class Readable(NamedTuple):
    """A page's title, empty where it has none, and its text."""

    title: str
    text: str


class Kind(NamedTuple):
    """What a Content-Type says."""

    type: str
    charset: str


def kind(content_type: str) -> Kind:
    """The type and charset of a page that can be read. Raises Refused for pages of any other type."""
    header = Message()
    # a header that is missing mostly is one of a hand-made HTML page
    header["Content-Type"] = content_type or HTML[0]
    found = header.get_content_type()
    if found not in (*HTML, *AS_IS):
        named = found if re.fullmatch(r"[\w.+-]{1,40}/[\w.+-]{1,80}", found) else "this"
        raise Refused(f"{named} is no page of text")
    return Kind(found, str(header.get_content_charset() or ""))


def readable(body: bytes, content_type: str) -> Readable:
    """A page's title and text.

    Raises:
        Refused: its type is not one of text, or it is not what its type says, or it has hardly any text.
        Fault: ("environment") trafilatura is missing.
    """
    of = kind(content_type)
    source = decoded(body, of.charset)
    if "\0" in source:
        raise Refused("its bytes are no text")
    source = UNPRINTABLE.sub("", source)
    title, text = _article(source) if of.type in HTML else ("", source)
    text = UNPRINTABLE.sub("", text).strip()
    if len(text) < SHORTEST:
        raise Refused(f"less than {SHORTEST} characters of text", lasting=True)
    return Readable(UNPRINTABLE.sub("", title), text)


def _article(source: str) -> Readable:
    tree = _parsed(source)
    if tree is None:
        return Readable("", "")
    _prune(tree)
    title = next((" ".join(found.text_content().split()) for found in tree.iter("title", "h1")), "")
    whole = outline(tree)
    is_large = sum(1 for _ in tree.iter()) > MANY
    return Readable(title[:LONGEST_TITLE], whole if is_large else _completed(_extracted(tree), whole))


def _parsed(source: str) -> Any:
    try:
        # bytes: in a text lxml looks for a declared encoding, which takes hours where `<?xml` is followed by blanks
        parser = package("lxml.html").HTMLParser(remove_comments=True, remove_pis=True, encoding="utf-8")
        return package("lxml.html").document_fromstring(source.encode(), parser=parser)
    except (package("lxml.etree").LxmlError, ValueError):
        return None


def _prune(tree: Any) -> None:
    """Take out what a reader does not see, which is where instructions to a model would be hidden."""
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
    except Exception:  # noqa: BLE001 - a page is anybody's; what the extractor trips over is outlined instead
        return ""
    return "\n".join(line.rstrip() for line in ESCAPED.sub(r"\1", text).split("\n"))


@lru_cache(maxsize=1)
def _config() -> Any:
    # what it warns of, pages without an article, is outlined instead
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    config = package("trafilatura.settings").use_config()
    # for texts shorter than this it gives up tables and lists
    config.set("DEFAULT", "MIN_EXTRACTED_SIZE", "0")
    return config


def _completed(text: str, whole: str) -> str:
    """An extracted text with the rows of tables that it lacks; the page's whole text where it has too little of it."""
    share = 0.5 if len(whole) < SHORT else 0.2  # much of a long page is not its own
    if len(text) < share * len(whole):
        return whole
    kept = {_letters(line) for line in text.split("\n")}
    lost = [row for row in rows(whole) if _letters(row) not in kept]
    return "\n".join([text, "", *lost]) if lost else text


def _letters(line: str) -> str:
    return re.sub(r"[\W_]+", "", line)


# Pages fetched from the web itself.

DENIED = (401, 403, 407, 429, 451)


class Fetcher:
    """A PageSource over HTTP. Threads may share it. A proxy that the environment names is not used.

    Only public addresses are asked, on ports 80 and 443, and what is connected to is the address that was checked;
    `allowed` and `hosts` are the exceptions.

    Args:
        timeout: seconds for a page with its redirects and its site's robots.txt; nothing on the network outlasts it,
            then comes the reading of the page, which takes a few seconds for a very large one.
        largest: bytes of a page, unpacked; no more are taken in.
        redirects: how many are followed.
        allowed: hosts, `host:port` or networks that may be private; `addresses.allowed_hosts()` are the user's.
        hosts: where hosts are, like a hosts file: a name, or the end of names (`.example`), to `address:port`.
        robots: whether a site's robots.txt is obeyed.
        resolve: finds a host's addresses.

    Raises:
        Fault: ("data") an entry of `allowed` or `hosts` that cannot be read.
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

        # what was refused is not refused for good: once it is allowed it is asked for anew
        self.name = " ".join(("page", *sorted(allowed)))
        self._timeout, self._largest = timeout, largest
        self._transport = Transport(Addresses(allowed, hosts, resolve), redirects)
        self._robots = Robots(self._transport) if robots else None

    def page(self, url: str) -> Page | Unreadable:
        """The page of an http or https URL, or why there is none.

        Raises:
            Fault: ("environment") the extra `web` is not installed.
        """
        try:
            start = parsed(url)
            answer = self._answer(start)
            read = readable(answer.body, answer.headers.get("Content-Type", ""))
        except Refused as refused:
            return Unreadable(url=url, reason=refused.reason, lasting=refused.lasting)
        moved = "" if answer.url == start else str(answer.url)
        return Page(url=url, title=read.title, text=read.text, moved=moved)

    def _answer(self, url: "httpx.URL") -> "Answer":
        from certigraph.adapters.web.transport import Asked, Deadline

        deadline = Deadline(self._timeout)
        asked = Asked(deadline, self._largest + 1, lambda hop: self._check(hop, deadline), self._check_headers)
        answer = self._transport.followed(url, asked)
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
