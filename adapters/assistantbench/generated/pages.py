"""The pages of an invented web: what is on them, and how their server treats whoever asks."""

from enum import StrEnum
from urllib.parse import urlsplit

from certigraph.state.records import Record


class Treatment(StrEnum):
    """What the server does when a page is asked for."""

    PAGE = "page"
    SLOW = "slow"
    """Takes the request and never answers it."""
    REFUSED = "refused"
    """403."""
    STUB = "stub"
    """A page of under 100 characters."""
    PRIVATE = "private"
    """A redirect to an address of the server's own network."""
    HUGE = "huge"
    """50 MB of HTML, sent without saying how long it is."""
    PDF = "pdf"
    MOVED = "moved"
    """A redirect to another page of the site."""


DEATHS = (
    Treatment.SLOW,
    Treatment.REFUSED,
    Treatment.STUB,
    Treatment.PRIVATE,
    Treatment.HUGE,
    Treatment.PDF,
)
"""The ways in which a page that a search brings up cannot be read."""


class Reach(StrEnum):
    """Which search engines know of a page."""

    BOTH = "both"
    SECOND = "second"
    NONE = "none"


class Table(Record):
    """Rows of cells under their headings."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class WebPage(Record):
    """One page. Of a page that cannot be read, `blocks` is what search engines once saw of it."""

    url: str
    title: str
    blocks: tuple[str | Table, ...]
    """Paragraphs and tables, in order."""
    hidden: str = ""
    """Text in the page's source that no browser shows."""
    treatment: Treatment = Treatment.PAGE
    target: str = ""
    """Where a redirect leads."""
    reach: Reach = Reach.BOTH

    @property
    def host(self) -> str:
        """The host of its URL."""
        return urlsplit(self.url).netloc

    @property
    def path(self) -> str:
        """The path of its URL."""
        return urlsplit(self.url).path

    @property
    def text(self) -> str:
        """What is shown, a paragraph or a row a line."""
        return "\n".join(line for block in self.blocks for line in _lines(block))


def _lines(block: str | Table) -> list[str]:
    return [block] if isinstance(block, str) else [" | ".join(row) for row in (block.head, *block.rows)]
