"""HotpotQA as an interactive world: search a page by its title, look a word up on it, finish (TDP appendix A)."""

from collections.abc import Mapping

from certigraph.adapters.hotpotqa.pages import Page, Pages
from certigraph.adapters.searching.outcomes import Judge
from certigraph.adapters.searching.telling import refused, told
from certigraph.adapters.searching.world import SearchWorld, Tool
from certigraph.state.records import Action, Observation

LOOKUP = "lookup"

SIMILAR = 5
"""Titles that are offered where no page has the one that was asked for."""


class InteractiveWorld(SearchWorld):
    """One question over pages. The page that was found last is the current one."""

    def __init__(self, pages: Pages, judge: Judge) -> None:
        self._pages = pages
        super().__init__(lambda alpha: pages, judge, k=1)

    def _clear(self) -> None:
        super()._clear()
        self._current: Page | None = None
        self._looked: tuple[str, int] = ("", 0)
        """The word that is looked up on the current page, and how many of its sentences were shown."""

    def _tools(self) -> Mapping[str, Tool]:
        return {**super()._tools(), LOOKUP: self._lookup}

    def _search(self, action: Action) -> Observation:
        """Show the page of a title; where there is none, titles like it, which changes nothing."""
        title = str(action.args.get("query") or "")
        page = self._pages.titled(title)
        if page is None:
            titles = "; ".join(hit.passage.title for hit in self._pages.similar(title, SIMILAR))
            offer = f"Similar titles: {titles}." if titles else "No title has a word of it."
            return refused(f"No page is titled {title[:100]!r}. {offer}")
        self._current, self._looked = page, ("", 0)
        return self._shown([page.passage], self._pages.name)

    def _lookup(self, action: Action) -> Observation:
        """Show the next sentence of the current page that has a word."""
        word = str(action.args.get("query") or "").strip().casefold()
        if self._current is None or not word:
            return refused("Nothing can be looked up: search for a page first, then look a word up on it.")
        having = [sentence for sentence in self._current.sentences if word in sentence.casefold()]
        shown = self._looked[1] if self._looked[0] == word else 0
        if shown >= len(having):
            many = f"no more than {len(having)} sentences" if having else "no sentence"
            return refused(f"{many.capitalize()} of {self._current.passage.title!r} with {word!r}.")
        self._looked = (word, shown + 1)
        place = f"{shown + 1} of {len(having)} with {word!r}"
        passage = self._current.passage.model_copy(update={"text": f"({place}) {having[shown].strip()}"})
        return told([passage], position=shown + 1, matches=len(having))
