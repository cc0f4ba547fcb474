"""What a page says, as Markdown: an HTML page's own text by trafilatura, with tables and lists; other text as it is."""

import logging
import re
from email.message import Message
from functools import lru_cache
from typing import Any, NamedTuple

from certigraph.adapters.web.charsets import decoded
from certigraph.adapters.web.extra import package
from certigraph.adapters.web.outline import outline, rows
from certigraph.adapters.web.refused import Refused

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
