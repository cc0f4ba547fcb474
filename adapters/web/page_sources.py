"""Page sources by name: this process, a service, a browser, or several of them in turn."""

import os
from collections.abc import Callable, Sequence

from certigraph.adapters.web.addresses import allowed_hosts
from certigraph.adapters.web.browsers import BrowserPages
from certigraph.adapters.web.page_services import PAGES_VARIABLE, SerperPages
from certigraph.adapters.web.pages import Fetcher
from certigraph.adapters.web.protocol import PageSource, Unreadable, WebPage
from certigraph.state.endings import UnknownName

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
