"""Page sources by name: this process, a service, a browser, or several of them in turn."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from certigraph.adapters.http import AddressRefused, PageRefused
from certigraph.adapters.redaction import redact
from certigraph.adapters.web.addresses import Addresses, ResolveFunction, allowed_hosts, parse_url, resolve_host
from certigraph.adapters.web.browsers import BrowserPages
from certigraph.adapters.web.pages import Fetcher, PageContent, check_content
from certigraph.adapters.web.protocol import PageSource, Unreadable, WebPage
from certigraph.adapters.web.search import (
    SERPER,
    SearchService,
    ServiceAnswer,
    ServiceClient,
    ServiceReply,
    UndeliveredAnswer,
)
from certigraph.state.endings import UnknownName

# Page reading by a service: Serper's scraping endpoint, which SDP uses on AssistantBench (SDP, appendix A.4).

PAGES_VARIABLE = "CERTIGRAPH_PAGES"
"""Environment variable that names the page sources."""

READ_TIMEOUT = 30.0
"""Maximum seconds in which the service reads a page, in each of up to three tries."""

MAX_PAGE_CHARACTERS = 2_000_000
"""Maximum characters of a page's text."""

SERVICE_FAULTS = (401, 402, 403, 429)
"""Statuses that speak of the key or the quota, and not of the page."""


@dataclass(frozen=True)
class PageService(SearchService):
    """Configuration of a service that reads pages."""

    @property
    def alternative(self) -> str:
        """Setting of CERTIGRAPH_PAGES that reads pages without a service, for advice in messages."""
        return f"{PAGES_VARIABLE}=fetch"


SERPER_PAGES = PageService(
    name="serper pages",
    variable="SERPER_SCRAPE_URL",
    base_url="https://scrape.serper.dev",
    key=SERPER.key,
    key_page=SERPER.key_page,
)


class _ScrapedPage(ServiceAnswer):
    text: str | None = None
    markdown: str | None = None
    metadata: dict[str, JsonValue] | None = None

    def to_content(self) -> PageContent:
        known = self.metadata or {}
        title = next((value for name in ("title", "og:title") if isinstance(value := known.get(name), str)), "")
        # the text may repeat the request, which has the key
        return check_content(redact(title), redact((self.markdown or self.text or "")[:MAX_PAGE_CHARACTERS]))


class SerperPages:
    """A PageSource that lets Serper read pages, at https://scrape.serper.dev or the address in SERPER_SCRAPE_URL.

    The API key is in SERPER_API_KEY. The service reads a page from its own network and runs none of our checks of
    robots.txt. Addresses that are private here, or names without a domain, are never sent to it.

    Args:
        resolve: function that resolves a host name.

    Raises:
        Fault: ("environment") the key is missing, or the address is invalid.
    """

    def __init__(self, *, resolve: ResolveFunction = resolve_host) -> None:
        self._headers: dict[str, str] = {"X-API-KEY": SERPER_PAGES.secret()}
        self._client = ServiceClient(SERPER_PAGES, timeout=READ_TIMEOUT)
        self._addresses = Addresses(resolve=resolve)
        self.name = f"pages {self._client.name}"

    def page(self, url: str) -> WebPage | Unreadable:
        """Return the page of an http or https URL, or the reason why there is none.

        Raises:
            Fault: ("environment") the service cannot be reached, refuses the key, the quota is used up, or its answer
                cannot be parsed. The message shows no key.
        """
        try:
            self._check_address(url)
            content = self._client.read(self._answer(url), _ScrapedPage).to_content()
        except PageRefused as refused:
            return Unreadable.of(url, refused)
        except UndeliveredAnswer:
            return Unreadable(url=url, reason="the service did not deliver it in time", lasting=True)
        return WebPage(url=url, title=content.title, text=content.text)

    def _check_address(self, url: str) -> None:
        parsed = parse_url(url)
        try:
            self._addresses.find(parsed.host, parsed.port or (443 if parsed.scheme == "https" else 80))
        except AddressRefused:
            raise
        except PageRefused:
            # behind a proxy no public name can be resolved; one without a dot belongs to a private network
            if "." not in parsed.host.strip("."):
                raise

    def _answer(self, url: str) -> ServiceReply:
        body: dict[str, Any] = {"url": url, "includeMarkdown": True}
        reply = self._client.answer("POST", json=body, headers=self._headers)
        success = 200 <= reply.status < 300
        if not success and reply.status not in SERVICE_FAULTS and not self._client.refuses_key(reply):
            raise PageRefused(f"the service could not read it (status {reply.status})")
        return reply


# Page sources by name.

PAGE_SOURCE_FORMS = "fetch, serper, browser, or several with commas between them, such as fetch,browser"

PAGE_SOURCES: dict[str, Callable[[], PageSource]] = {
    "fetch": lambda: Fetcher(allowed=allowed_hosts()),
    "serper": SerperPages,
    "browser": lambda: BrowserPages(allowed=allowed_hosts()),
}
"""Functions that create a page source, by its name."""

DEFAULT_SOURCE = "fetch"


class PageSourceChain:
    """A PageSource that tries several sources in turn, until one of them reads the page.

    A page that must not be read (`Unreadable.forbidden`) is not tried again.

    Args:
        sources: the sources, in order.
    """

    def __init__(self, sources: Sequence[PageSource]) -> None:
        self._sources = sources
        self.name = ", ".join(source.name for source in sources)

    def page(self, url: str) -> WebPage | Unreadable:
        """Return the page, or the reasons of all sources that were tried.

        Raises:
            Fault: as the sources raise.
        """
        failures: list[Unreadable] = []
        for source in self._sources:
            page = source.page(url)
            if isinstance(page, WebPage):
                return page
            failures.append(page)
            if page.forbidden:
                break
        reasons = "; ".join(dict.fromkeys(failure.reason for failure in failures))
        lasting, forbidden = all(one.lasting for one in failures), failures[-1].forbidden
        return Unreadable(url=url, reason=reasons, lasting=lasting, forbidden=forbidden)


def create_page_source(names: str = "") -> PageSource:
    """Create a page source from its name, or from several names separated by commas, which are tried in turn.

    Args:
        names: names as in PAGE_SOURCE_FORMS. If empty, those in CERTIGRAPH_PAGES; if that is unset too, `fetch`.

    Raises:
        UnknownName: a name is none of these.
        Fault: a source lacks its key or its packages. The message says what to set or install.
    """
    text = names or os.environ.get(PAGES_VARIABLE, "")
    chosen = [name for part in text.split(",") if (name := part.strip())] or [DEFAULT_SOURCE]
    if unknown := [name for name in chosen if name not in PAGE_SOURCES]:
        raise UnknownName(f"unknown page source {unknown[0]!r} in {PAGES_VARIABLE}; the forms are {PAGE_SOURCE_FORMS}")
    sources = [PAGE_SOURCES[name]() for name in dict.fromkeys(chosen)]
    return sources[0] if len(sources) == 1 else PageSourceChain(sources)
