"""The ways to answers as the hops of multi-hop questions, for the expert of search worlds."""

from functools import cached_property

from certigraph.adapters.assistantbench.generated.generation import all_pages, everything
from certigraph.adapters.assistantbench.generated.standing import Ways
from certigraph.adapters.research.questions import Way
from certigraph.adapters.research.tooling import as_text
from certigraph.adapters.retrieval.pool import Pool
from certigraph.adapters.retrieval.protocol import Retriever
from certigraph.adapters.searching.questions import Hop, Question
from certigraph.state.passages import Passage
from certigraph.state.records import Task


class AsHops:
    """A GoldSource: a step of a way is a hop, its paragraph the step's first page, known by the URL."""

    def __init__(self, benchmark: Ways) -> None:
        self._benchmark = benchmark

    def gold(self, task: Task) -> Question:
        """The question, its answer as it is handed in, and a hop for each step."""
        asked = self._benchmark.question(task.id)
        hops = tuple(self._hop(way) for way in asked.way)
        answers = (as_text((asked.answer or "").split("\n")),)
        return Question(id=asked.id, text=asked.text, answers=answers, kind=asked.difficulty, passages=(), hops=hops)

    def library(self, task: Task) -> Retriever:
        """All pages by URL."""
        return self._pages

    def key(self, passage: Passage) -> str:
        """Its URL."""
        return passage.id

    def _hop(self, way: Way) -> Hop:
        page = self._pages.passage(way.pages[0])
        return Hop(question=way.finding.about, answer=way.finding.text, passage=page, finding=way.finding.text)

    @cached_property
    def _pages(self) -> Pool:
        pages = all_pages(everything()).values()
        return Pool([Passage(id=page.url, title=page.title, text=page.text) for page in pages])
