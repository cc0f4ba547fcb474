"""The web of one question: search, a second source of evidence, and pages, each asked for once."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from certigraph.adapters.web.cache import HITS, PAGE, WebCache
from certigraph.adapters.web.local import SCHEME, LocalPages
from certigraph.adapters.web.protocol import Hit, Page, PageSource, SearchProvider, Unreadable
from certigraph.state.endings import Fault

T = TypeVar("T")

AT_ONCE = 4
"""Pages fetched at the same time."""

A_SEARCH = "search(query, k) returns a list of Hit(title, url, snippet)"
A_PAGE = "page(url) returns Page(url, title, text) or Unreadable(url, reason)"


class Web:
    """Search and pages. Methods block, for as long as provider and page source allow.

    Args:
        providers: the first is searched; the second, where there is one, is another source of evidence.
        pages: reads pages; those of a folder that is searched (`LocalPages`) are read there.
        cache: keeps answers; None: nothing is kept. What a folder holds is at hand and never kept.
    """

    def __init__(self, providers: Sequence[SearchProvider], pages: PageSource, cache: WebCache | None) -> None:
        self.provider, self.second = providers[0], (providers[1] if len(providers) > 1 else None)
        self._local = next((one for one in providers if isinstance(one, LocalPages)), None)
        self._pages, self._cache = pages, cache

    def search(self, provider: SearchProvider, query: str, k: int) -> Sequence[Hit]:
        """At most `k` results of one of the two.

        Raises:
            Fault: as the provider does; ("environment") what it returned are no results.
        """
        if self._cache is None or provider is self._local:
            return _checked(HITS, provider.search(query, k), A_SEARCH)
        return self._cache.get(provider.name, f"{k}\n{query}", HITS, lambda: tuple(provider.search(query, k)))

    def read(self, urls: Sequence[str]) -> list[Page | Unreadable]:
        """The pages of some URLs, a few at a time, in their order and by the URLs that they were asked for."""
        if not urls:
            return []
        with ThreadPoolExecutor(AT_ONCE) as pool:
            pages = pool.map(self._page, urls)
        return [page.model_copy(update={"url": url}) for url, page in zip(urls, pages, strict=True)]

    def _page(self, url: str) -> Page | Unreadable:
        if self._local and url.startswith(SCHEME):
            return self._local.page(url)
        if self._cache is None:
            return _checked(PAGE, self._pages.page(url), A_PAGE)
        return self._cache.get(self._pages.name, url, PAGE, lambda: self._pages.page(url))


def _checked(form: TypeAdapter[T], answer: object, right: str) -> T:
    """What a provider or source that anybody may have written returned, as records; plain dicts will do."""
    try:
        return form.validate_python(answer)
    except ValidationError as error:
        raise Fault("environment", f"a search provider or page source returned {answer!r:.80}: {right}") from error
