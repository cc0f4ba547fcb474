"""Page reading by a service: Serper's scraping endpoint, which SDP uses on AssistantBench (SDP, appendix A.4)."""

import time
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from certigraph.adapters.http import AddressRefused, PageRefused
from certigraph.adapters.redaction import redact
from certigraph.adapters.web.addresses import Addresses, ResolveFunction, parse_url, resolve_host
from certigraph.adapters.web.pages import PageContent, check_content
from certigraph.adapters.web.protocol import Unreadable, WebPage
from certigraph.adapters.web.search import (
    SERPER,
    SearchService,
    ServiceAnswer,
    ServiceClient,
    ServiceReply,
    SleepFunction,
    UndeliveredAnswer,
)

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
        sleep: function that waits before a request is repeated.
        resolve: function that resolves a host name.

    Raises:
        Fault: ("environment") the key is missing, or the address is invalid.
    """

    def __init__(self, *, sleep: SleepFunction = time.sleep, resolve: ResolveFunction = resolve_host) -> None:
        self._headers: dict[str, str] = {"X-API-KEY": SERPER_PAGES.secret()}
        self._client = ServiceClient(SERPER_PAGES, timeout=READ_TIMEOUT, sleep=sleep)
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
