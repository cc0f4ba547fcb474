"""The benchmark `web` on generated sites with its scripted expert, and questions of the user's own."""

import atexit
import datetime
import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from certigraph.adapters.assistantbench.price_questions import FAMILIES, all_pages, everything
from certigraph.adapters.assistantbench.server import FIRST, SECOND, Server, engine_at
from certigraph.adapters.models.calls import quoted
from certigraph.adapters.models.scripted import AGAIN, current_situation, is_impossible
from certigraph.adapters.protocols import Responder
from certigraph.adapters.qa import expert as searching
from certigraph.adapters.qa.questions import Hop, Question
from certigraph.adapters.research.benchmark import ResearchBenchmark
from certigraph.adapters.research.operators import as_text
from certigraph.adapters.research.plans import MOST_PAGES, MOST_QUERIES, ResearchQuestion, Way, goal_of, is_step, unread
from certigraph.adapters.retrieval.bm25 import Pool, Retriever
from certigraph.adapters.web.addresses import allowed_hosts
from certigraph.adapters.web.pages import Fetcher
from certigraph.adapters.web.protocol import PageSource, SearchProvider
from certigraph.adapters.web.sources import LocalPages, Web, providers, web_cache
from certigraph.state.records import Fault, Task, UnknownName
from certigraph.state.run import FINISH, SEARCH, asked_for, parsed
from certigraph.state.search import GENERATED, OPEN, Passage, asked

# Where a research stands with a question whose way is known: what its scripted expert goes by.


class Ways(Protocol):
    """What the expert needs of a benchmark."""

    def question(self, task_id: str) -> ResearchQuestion:
        """The question with its gold answer and the way to it."""
        ...


class Standing(NamedTuple):
    """A question and the graph's state."""

    question: ResearchQuestion
    state: Mapping[str, Any]

    @property
    def step(self) -> Way | None:
        """The step of the way behind the head of SDP's plan: of that goal, else in that place; none is impossible."""
        plan, head, way = self.state.get("plan", ()), self.state.get("head", 0), self.question.way
        if head >= len(plan) or not is_step(plan[head]):
            return None
        goal = goal_of(plan[head]).removesuffix(AGAIN)
        if is_impossible(goal):
            return None
        index = min(int(str(plan[head].args.get("index", 1))), len(way)) - 1
        return next((one for one in way if one.finding.about == goal), way[index])

    @property
    def listed(self) -> Mapping[str, int]:
        """The numbers of the known results by URL, from 1."""
        evidence = self.state.get("evidence")
        return {url: number for number, url in enumerate(evidence.sources, 1)} if evidence else {}

    @property
    def unread(self) -> set[str]:
        """The known results that may still be read."""
        return {*unread(self.state["evidence"])} if "evidence" in self.state else set()

    @property
    def answers(self) -> list[str]:
        """The gold answer as texts."""
        return (self.question.answer or "").split("\n")


def standing(benchmark: Ways) -> Standing:
    """Where the run of the node at work stands. Raises Fault outside a run."""
    situation = current_situation()
    if situation is None:
        raise Fault("model", "the expert answers inside a run only: certigraph run ... --model scripted:expert")
    return Standing(benchmark.question(situation.state["task"].id), situation.state)


# The ways to answers as the hops of multi-hop questions, for the expert of search worlds.


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


# The mind behind `scripted:expert` on the invented web: it knows the way to each answer.
#
# It tells the operators' questions apart by the fields of their answers. A finding is given only once all pages that
# it stands on, and all that say otherwise, were read for this step; one is adequate only if the prompt shows exactly
# that finding. So nothing that a page says to agents has a way in. SDP's final answer is the gold one where the
# prompt shows the finding of the last step, and none else; agents without findings hand in the gold one once they
# went the way.

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


# The benchmark `web`: invented questions on an invented web, over real HTTP on loopback.

TIMEOUT = 3.0
"""Seconds that a page may take: all pages are close by, but for those that never come, and machines are busy."""

DEV, SMALL = "dev", "small"


class GeneratedWeb(ResearchBenchmark):
    """Six families of questions, four of each; `small` is the first of each."""

    plain: ClassVar[str] = "web"
    id_pattern: ClassVar[str] = "FAMILY/NUMBER, a number from 1 to 4"
    splits = (DEV, SMALL)
    simulated = True
    """It is always invented: no data folder has it."""

    def read(self, split: str) -> Mapping[str, ResearchQuestion]:
        """The questions by id."""
        made = everything()[: len(FAMILIES) if split == SMALL else None]
        return {one.question.id: one.question for one in made}

    def web(self, task: Task) -> Web:
        """One web for all, served by this process from the first time that it is asked for."""
        return Web(_engines(), _pages(), web_cache(f"generated-{_edition()}"))

    def expert(self) -> Responder:
        """Knows the way to each answer; one for all questions, for it remembers the pages."""
        return self._expert

    @cached_property
    def _expert(self) -> Expert:
        return Expert(self)


@cache
def server() -> Server:
    """The server of this process; it stops with it."""
    serving = Server(all_pages(everything()))
    atexit.register(serving.close)
    return serving


@cache
def _engines() -> Sequence[SearchProvider]:
    return [engine_at(f"web{path}", f"http://{server().address}{path}") for path in (FIRST, SECOND)]


@cache
def _pages() -> PageSource:
    return Fetcher(timeout=TIMEOUT, hosts={".example": server().address})


@cache
def _edition() -> str:
    """Tells apart what other versions of these pages left in the cache."""
    pages = "\n".join(page.model_dump_json() for page in server().pages.values())
    return hashlib.sha256(pages.encode()).hexdigest()[:8]


# Questions that somebody asks: there is no gold, so that they are answered and not scored.

FRESH = datetime.timedelta(days=1)
"""Age from which a page is fetched anew: a person asks what is true today."""

NONE = 'questions of your own have no list: certigraph ask "QUESTION"'


class OwnQuestion(ResearchBenchmark):
    """Questions of one's own (`state.search.asked`).

    With a folder the web is that folder's pages and nothing else; else the web out there, or the generated one, as the
    task says.

    Args:
        folder: of pages.
        config: none is known.
        search: an engine of one's own, in place of those that the task names.
        pages: a reader of pages of one's own. What one's own answer is not kept.
    """

    plain = "ask"
    simulated = True
    """Nothing is generated in place of data: there are no tasks."""

    def __init__(
        self,
        folder: Path | None = None,
        config: str = "",
        *,
        search: SearchProvider | None = None,
        pages: PageSource | None = None,
    ) -> None:
        super().__init__(folder, config)
        self._search, self._pages = search, pages

    def read(self, split: str) -> Mapping[str, ResearchQuestion]:
        """None: what is asked is known when it is asked."""
        return {}

    def tasks(self, split: str = "") -> Sequence[Task]:
        """Raises UnknownName: there are none but what is asked."""
        raise UnknownName(NONE)

    def task(self, task_id: str) -> Task:
        """Raises UnknownName as `tasks` does."""
        raise UnknownName(NONE)

    def question(self, task_id: str) -> ResearchQuestion:
        """The question of a task, whose text the task itself has."""
        return ResearchQuestion(id=task_id, text="")

    def expert(self) -> Responder | None:
        """Who knows the generated web, and of the questions that are asked those that are asked there."""
        return self._expert

    def knows(self, task: Task) -> bool:
        """Whether the expert knows a question: one of the generated web's, asked there."""
        return task.constants.get("search") == GENERATED and task.id in self._generated.known

    def web(self, task: Task) -> Web:
        """Where a question is researched; what was kept within a day before it was asked is not fetched again.

        Raises:
            Fault, UnknownName: as `providers`.
        """
        named = str(task.constants.get("search") or "")
        if self.folder is not None:
            return self._local
        if named == GENERATED:
            return GeneratedWeb().web(task)
        since = datetime.datetime.fromisoformat(str(task.constants["asked"])) - FRESH
        cache = None if self._search or self._pages else web_cache(since=since.timestamp())
        found = [self._search] if self._search else providers(named)
        return Web(found, self._pages or Fetcher(allowed=allowed_hosts()), cache)

    @cached_property
    def _local(self) -> Web:
        pages = LocalPages(self.folder or Path())
        return Web([pages], pages, None)

    @cached_property
    def _generated(self) -> "_Generated":
        return _Generated()

    @cached_property
    def _expert(self) -> Responder:
        return Expert(self._generated)


class _Generated:
    """The questions of the generated web, by the ids that they have when somebody asks them."""

    def __init__(self) -> None:
        self.known = {asked(question.text).id: question for question in GeneratedWeb().questions().values()}

    def question(self, task_id: str) -> ResearchQuestion:
        """The question. Raises Fault ("model") where it is not one of them."""
        if task_id not in self.known:
            raise Fault("model", "scripted:expert knows the questions of `web` alone: name another model with --model")
        return self.known[task_id]
