"""The mind behind `scripted:expert` on the invented web: it knows the way to each answer.

It tells the operators' questions apart by the fields of their answers. A finding is given only once all pages that it
stands on, and all that say otherwise, were read for this step; one is adequate only if the prompt shows exactly that
finding. So nothing that a page says to agents has a way in. SDP's final answer is the gold one where the prompt shows
the finding of the last step, and none else; agents without findings hand in the gold one once they went the way.
"""

from collections.abc import Callable, Mapping
from typing import Any

from certigraph.adapters.assistantbench.generated.hops import AsHops
from certigraph.adapters.assistantbench.generated.standing import Standing, Ways, standing
from certigraph.adapters.prompting import quoted
from certigraph.adapters.research.forms import MOST_PAGES, MOST_QUERIES
from certigraph.adapters.research.tooling import as_text
from certigraph.adapters.searching import expert as searching
from certigraph.state.researching import OPEN
from certigraph.state.searching import FINISH, SEARCH, asked_for, parsed

Answer = dict[str, Any]


class Expert:
    """A Responder over a benchmark whose questions have ways."""

    def __init__(self, benchmark: Ways) -> None:
        self._benchmark = benchmark
        self._otherwise = searching.Expert(AsHops(benchmark))

    def __call__(self, prompt: str, schema: dict[str, Any]) -> Any:
        """The right answer; to questions that are not of research, as the expert of search worlds gives it."""
        fields: Mapping[str, Any] = schema.get("properties", {})
        author = next((answer for names, answer in _ANSWERS.items() if names <= fields.keys()), None)
        if "steps" in fields and fields["steps"].get("items", {}).get("type") != "string":
            author = _steps  # those of other plans are texts
        if author is None:
            return self._otherwise(prompt, schema)
        answer = author(standing(self._benchmark), prompt)
        return {name: value for name, value in answer.items() if name in fields}


def _steps(here: Standing, prompt: str) -> Answer:
    return {"steps": [{"kind": way.kind, "goal": way.finding.about} for way in here.question.way]}


def _tools(here: Standing, prompt: str) -> Answer:
    """The step's searches, and its pages as far as they are known: the unread ones first."""
    way, listed, unread = here.step, here.listed, here.unread
    if way is None:
        return {"queries": [], "pages": []}
    pages = sorted((url for url in way.pages if url in listed), key=lambda url: url not in unread)
    return {"queries": [*way.queries[:MOST_QUERIES]], "pages": [listed[url] for url in pages[:MOST_PAGES]]}


def _found(here: Standing, prompt: str) -> Answer:
    way, seen = here.step, here.state["observation"]
    if way is None or not {*way.pages} <= {*seen.data.get("read", ())}:
        return {"finding": "", "supported_by": [], "contradicted_by": [], "dispute": ""}
    numbers = {url: number for number, url in enumerate(seen.sources, 1)}
    supported, contradicted = ([numbers[url] for url in urls] for urls in (way.finding.sources, way.finding.against))
    told = {"finding": way.finding.text, "dispute": way.finding.dispute}
    return {**told, "supported_by": supported, "contradicted_by": contradicted}


def _adequate(here: Standing, prompt: str) -> Answer:
    """Whether the prompt shows the gold finding, with what is said against it, as the finding to judge."""
    way = here.step
    told = [quoted(text) for text in (way.finding.text, way.finding.dispute) if text] if way else []
    right = bool(told) and all(text in prompt for text in told)
    return {"reason": "held against the way to the answer", "adequate": right}


def _answers(here: Standing, prompt: str) -> Answer:
    settled = here.question.way[-1].finding.text in prompt
    return {"answers": here.answers if settled else ["unknown"]}


def _move(here: Standing, prompt: str) -> Answer:
    """The next use of a tool: a page of the way that is known, else a search of the way, else the answer."""
    tried = {asked_for(action) for action in _tried(here)}
    pages = [url for way in here.question.way for url in way.pages if url in here.unread and url not in tried]
    queries = [query for way in here.question.way for query in way.queries if query not in tried]
    tool, text = (OPEN, pages[0]) if pages else (SEARCH, queries[0]) if queries else (FINISH, as_text(here.answers))
    return {"thought": "as the way goes", "tool": tool, "text": text, "action": f"{tool}[{text}]", "remember": ""}


def _tried(here: Standing) -> list[Any]:
    return [action for step in here.state.get("history", ()) if (action := parsed(step.action))]


_ANSWERS: Mapping[frozenset[str], Callable[[Standing, str], Answer]] = {
    frozenset({"queries", "pages"}): _tools,
    frozenset({"finding", "supported_by"}): _found,
    frozenset({"adequate"}): _adequate,
    frozenset({"answers"}): _answers,
    frozenset({"tool", "text"}): _move,
    frozenset({"thought", "action"}): _move,
}
"""By the fields that tell a question."""
