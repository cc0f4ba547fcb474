"""What services answer, made results: bounded, on one line each, every address once, and no key among them."""

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

from certigraph.adapters.models.redact import redact
from certigraph.adapters.searching.telling import line
from certigraph.adapters.web.protocol import Hit
from certigraph.adapters.web.refused import OutOfBounds
from certigraph.adapters.web.urls import parsed

LONGEST_TITLE = 300
LONGEST_SNIPPET = 1_000
LONGEST_URL = 2_000
"""Characters; a longer address is dropped, for a part of one leads elsewhere."""

_UNFIT = re.compile(r"[\s\x00-\x1f\x7f]")


class Found(NamedTuple):
    """One result as a service tells it: anything may be missing, or of any length."""

    title: str | None
    url: str | None
    snippet: str | None


def hits(results: Iterable[Found], k: int) -> list[Hit]:
    """At most `k` of the results that have an http or https address, in their order; the first of each address."""
    by_url: dict[str, Hit] = {}
    for title, url, snippet in results:
        if len(by_url) >= k:
            break
        if url and url not in by_url and _on_the_web(url):
            shown = one_line(redact(title or ""), LONGEST_TITLE) or url[:LONGEST_TITLE]
            by_url[url] = Hit(title=shown, url=url, snippet=one_line(redact(snippet or ""), LONGEST_SNIPPET))
    return list(by_url.values())


def one_line(text: str, most: int) -> str:
    """The text on one line, its first `most` characters."""
    return line(text)[:most].rstrip()


def _on_the_web(url: str) -> bool:
    # a key in an address would be sent to whoever is there
    if len(url) > LONGEST_URL or _UNFIT.search(url) or redact(url) != url:
        return False
    try:
        parsed(url)
        # who asks for its domain later reads it by this, which refuses other addresses
        urlsplit(url)
    except (OutOfBounds, ValueError):
        return False
    return True
