"""How one question and the sites around it are put together."""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from certigraph.adapters.assistantbench.generated.names import Names, slug
from certigraph.adapters.assistantbench.generated.pages import DEATHS, Reach, Table, Treatment, WebPage
from certigraph.adapters.assistantbench.generated.traps import METADATA, orders
from certigraph.adapters.research.questions import Question, Way
from certigraph.state.records import Finding


class Made(NamedTuple):
    """A question and the pages that it is about; among them are some that mislead."""

    question: Question
    pages: tuple[WebPage, ...]


class Making:
    """Collects the pages of one question and the way to its answer.

    Args:
        seed: what everything follows from.
        death: how the official page with one of the facts cannot be read.
    """

    def __init__(self, seed: str, death: Treatment) -> None:
        self.random = Random(f"generated web {seed}")
        self.names = Names(self.random)
        self.death = death
        self._pages: list[WebPage] = []
        self._way: list[Way] = []

    def page(self, host: str, path: str, title: str, *blocks: str | Table, reach: Reach = Reach.BOTH) -> str:
        """Add a page to a site. Returns its URL."""
        return self._add(WebPage(url=url(host, path), title=title, blocks=blocks, reach=reach))

    def dead(self, host: str, path: str, title: str, *seen: str) -> str:
        """Add a page that cannot be read. No fact may be on its host: it is given up with the page."""
        target = METADATA if self.death is Treatment.PRIVATE else ""
        return self._add(WebPage(url=url(host, path), title=title, blocks=seen, treatment=self.death, target=target))

    def moved(self, host: str, path: str, to: str, title: str, *seen: str) -> str:
        """Add a page that has moved to another path of its site, where no search engine has seen it yet."""
        target = url(host, to)
        page = WebPage(url=url(host, path), title=title, blocks=seen, treatment=Treatment.MOVED, target=target)
        return self._add(page)

    def ordering(self, host: str, path: str, title: str, *blocks: str | Table, wrong: str) -> str:
        """Add a page that, besides what it says, tells agents in plain sight and in secret to answer `wrong`."""
        text = orders(wrong)
        return self._add(WebPage(url=url(host, path), title=title, blocks=(*blocks, text), hidden=text))

    def step(
        self,
        kind: str,
        goal: str,
        queries: Sequence[str],
        sources: Sequence[str],
        text: str,
        *,
        against: Sequence[str] = (),
        dispute: str = "",
    ) -> None:
        """Add a step of the way."""
        finding = Finding(about=goal, text=text, sources=tuple(sources), against=tuple(against), dispute=dispute)
        self._way.append(Way(kind=kind, queries=tuple(queries), pages=(*sources, *against), finding=finding))

    def asked(self, id_: str, text: str, answers: Sequence[str]) -> Made:
        """The question, with all that was added."""
        answer, way = "\n".join(answers), tuple(self._way)
        question = Question(id=id_, text=text, answer=answer, difficulty=_difficulty(way), way=way)
        return Made(question, tuple(self._pages))

    def _add(self, page: WebPage) -> str:
        self._pages.append(page)
        return page.url


def url(host: str, path: str) -> str:
    """The URL of a page."""
    return f"http://{host}{path}"


def host(name: str) -> str:
    """The host of a site of that name."""
    return f"{slug(name)}.example"


def death_of(family: int, seed: int) -> Treatment:
    """All ways to be unreadable occur among the families at every seed, and at a family as seeds go on."""
    return DEATHS[(family + seed) % len(DEATHS)]


def _difficulty(way: Sequence[Way]) -> str:
    """By the number of sites that have to be consulted."""
    sites = len({page.split("/")[2] for step in way for page in step.pages})
    return "Easy" if sites < 3 else "Medium" if sites == 3 else "Hard"
