"""A web of a few texts without any HTTP, and a benchmark over it whose answers depend on each question's fields."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from certigraph.adapters.models.schemas import minimal_instance
from certigraph.adapters.web.protocol import SearchHit, Unreadable, WebPage
from certigraph.adapters.web.sources import Web
from certigraph.benchmarks.research.benchmark import ResearchBenchmark
from certigraph.benchmarks.research.plans import ResearchQuestion
from certigraph.benchmarks.research.verdicts import source_texts
from certigraph.state.records import Task

WORD = re.compile(r"\w+")
TEXT = "The Hall of Glass in Orrin opened in 1911 and has 340 seats on two balconies. " * 3


class SmallWeb:
    """Pages by URL; a text that begins with `!` is a reason why there is none, `!!` one that blames the domain.

    Both provider and source of pages. It counts what it is asked.
    """

    def __init__(self, pages: Mapping[str, str], name: str = "small") -> None:
        self.pages, self.name = pages, name
        self.searched: list[str] = []
        self.fetched: list[str] = []

    def search(self, query: str, k: int) -> Sequence[SearchHit]:
        self.searched.append(query)
        wanted = set(WORD.findall(query.lower()))
        found = [url for url, text in self.pages.items() if wanted & set(WORD.findall(f"{url} {text}".lower()))]
        return [SearchHit(title=f"About {url}", url=url, snippet=self.pages[url][:60]) for url in found[:k]]

    def page(self, url: str) -> WebPage | Unreadable:
        self.fetched.append(url)
        text = self.pages[url]
        if text.startswith("!"):
            return Unreadable(url=url, reason=text.strip("! "), lasting=text.startswith("!!"))
        return WebPage(url=url, title=url.rsplit("/", 1)[-1], text=text)


ScriptedAnswers = Mapping[str, Callable[[str], dict[str, Any]] | dict[str, Any]]
"""What is answered to a question with a field of that name, or what makes the answer of a prompt."""


def quote_sources(prompt: str, answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The first words of each source in a prompt that an answer cites."""
    texts = source_texts(prompt)
    cited = [number for number in answer.get("supported_by", ()) if number in texts]
    return [{"source": number, "words": " ".join(texts[number].split()[:4])} for number in cited]


class SmallResearch(ResearchBenchmark):
    """One question over a small web."""

    plain = "small"

    def __init__(
        self, web: SmallWeb, scripted_answers: ScriptedAnswers, *, second: SmallWeb | None = None, answer: str = "340"
    ) -> None:
        super().__init__()
        self._web, self._scripted_answers, self._second = web, scripted_answers, second
        self._question = ResearchQuestion(id="q", text="How many seats has the Hall of Glass?", answer=answer)
        self.prompts: list[str] = []

    def read(self, split: str) -> Mapping[str, ResearchQuestion]:
        return {"q": self._question}

    def web(self, task: Task) -> Web:
        return Web([self._web, *([self._second] if self._second else [])], self._web, None)

    def expert(self) -> Callable[[str, dict[str, Any]], Any]:
        return self._answered

    def _answered(self, prompt: str, schema: dict[str, Any]) -> Any:
        self.prompts.append(prompt)
        fields = schema.get("properties", {})
        for field in fields:
            if field in self._scripted_answers:
                given = self._scripted_answers[field]
                answer = given(prompt) if callable(given) else given
                return {"quotes": quote_sources(prompt, answer), **answer} if "quotes" in fields else answer
        return minimal_instance(schema)


RIGHT: ScriptedAnswers = {
    "steps": {"steps": [{"kind": "collect", "goal": "What the hall is"}, {"kind": "extract", "goal": "Its seats"}]},
    "queries": {"queries": ["hall glass"], "pages": []},
    "finding": {"finding": "It has 340 seats.", "supported_by": [1], "contradicted_by": [], "dispute": ""},
    "adequate": {"reason": "it says so", "adequate": True},
    "answers": {"answers": ["340"]},
}
"""Answers that find it at once."""
