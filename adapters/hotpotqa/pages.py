"""The pages of the interactive setting (TDP appendix A), found by their titles."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from certigraph.adapters.retrieval.analyzer import words
from certigraph.adapters.retrieval.protocol import Hit
from certigraph.adapters.retrieval.rows import paragraph
from certigraph.state.endings import UnknownName
from certigraph.state.passages import Passage


class Page(NamedTuple):
    """A page: the paragraph that a search shows, and its sentences, which a look-up goes through."""

    passage: Passage
    sentences: tuple[str, ...]


class Pages:
    """A Retriever whose query is a title: the page of that title alone, else pages of similar titles."""

    name = "titles"

    def __init__(self, pages: Iterable[tuple[str, tuple[str, ...]]]) -> None:
        """Of (title, sentences); of two with one title, upper case aside, the first counts."""
        self._pages: dict[str, Page] = {}
        self._by_title: dict[str, Page] = {}
        self._by_word: dict[str, list[Page]] = defaultdict(list)
        for title, sentences in pages:
            if title.strip() and _key(title) not in self._by_title:
                self._add(Page(paragraph(title, "".join(sentences)), sentences))

    def titled(self, title: str) -> Page | None:
        """The page of a title, whatever its case."""
        return self._by_title.get(_key(title))

    def similar(self, title: str, most: int) -> list[Hit]:
        """Pages that share words with a title, those with the largest share first; scores are Jaccard similarities."""
        asked = set(words(title))
        shared = Counter(page.passage.id for word in asked for page in self._by_word.get(word, ()))
        hits = [Hit(self.passage(id_), n / len(asked | self._words(id_))) for id_, n in shared.items()]
        return sorted(hits, key=lambda hit: (-hit.score, hit.passage.title))[:most]

    def search(self, query: str, k: int) -> list[Hit]:
        """The page of a title, else at most `k` similar ones."""
        page = self.titled(query)
        return [Hit(page.passage, 1.0)][:k] if page else self.similar(query, k)

    def passage(self, id: str) -> Passage:
        """The passage of an id. Raises UnknownName where no page has it."""
        return self.page(id).passage

    def page(self, id_: str) -> Page:
        """The page of a passage's id. Raises UnknownName where there is none."""
        if id_ not in self._pages:
            raise UnknownName(f"no page {id_!r} among {len(self._pages):,}; search for one by its title")
        return self._pages[id_]

    def _add(self, page: Page) -> None:
        self._pages[page.passage.id] = self._by_title[_key(page.passage.title)] = page
        for word in set(words(page.passage.title)):
            self._by_word[word].append(page)

    def _words(self, id_: str) -> set[str]:
        return set(words(self._pages[id_].passage.title))


def _key(title: str) -> str:
    return " ".join(title.split()).casefold()
