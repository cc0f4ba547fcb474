"""The benchmark `web` of generated questions and sites, its scripted expert, and the user's own questions (`ask`)."""

import atexit
import datetime
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol

from certigraph.adapters.models.scripts import REPEATED_SUFFIX, ExpertPosition, is_impossible, require_situation
from certigraph.adapters.protocols import Responder
from certigraph.adapters.retrieval.bm25 import PassagePool, Retriever
from certigraph.adapters.web.page_sources import create_page_source
from certigraph.adapters.web.pages import Fetcher
from certigraph.adapters.web.protocol import PageSource, SearchProvider
from certigraph.adapters.web.sources import LocalPages, Web, create_providers, web_cache
from certigraph.benchmarks.assistantbench.pages import DEV, LIST_FAMILY, LISTS, SMALL, load_cases, load_pages
from certigraph.benchmarks.assistantbench.server import FIRST_ENGINE, SECOND_ENGINE, GeneratedWebServer, create_provider
from certigraph.benchmarks.qa import expert as searching
from certigraph.benchmarks.qa.questions import GoldHop, MultiHopQuestion
from certigraph.benchmarks.research.benchmark import ResearchBenchmark
from certigraph.benchmarks.research.operators import join_answers
from certigraph.benchmarks.research.plans import (
    MAX_PAGES,
    MAX_QUERIES,
    ResearchQuestion,
    SolutionStep,
    goal_of,
    is_step,
)
from certigraph.benchmarks.research.plans import unread_urls as unread
from certigraph.benchmarks.research.verdicts import source_texts
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import FoundItem, Task
from certigraph.state.run import FINISH, SEARCH, parse_action, query_of
from certigraph.state.search import GENERATED_WEB, OPEN, Passage, create_question_task

# The position of a run in a question whose solution steps are known, which its scripted expert needs.


class SolutionSource(Protocol):
    """What the expert needs of a benchmark."""

    def question(self, task_id: str) -> ResearchQuestion:
        """Return the question of a task with its gold answer and the solution steps that lead to it."""
        ...


@dataclass(frozen=True)
class ResearchPosition(ExpertPosition):
    """How far a run is with a question whose solution steps are known."""

    question: ResearchQuestion

    @property
    def step(self) -> SolutionStep | None:
        """The solution step of the plan's target, the next predicate to certify (SDP).

        It is found by its goal, else by its index. It is None if the plan has no step left or the goal is impossible.
        """
        target, steps = self.target_predicate, self.question.solution
        if target is None or not is_step(target):
            return None
        goal = goal_of(target).removesuffix(REPEATED_SUFFIX)
        if is_impossible(goal):
            return None
        index = min(int(str(target.args.get("index", 1))), len(steps)) - 1
        return next((step for step in steps if step.finding.about == goal), steps[index])

    @property
    def listed(self) -> Mapping[str, int]:
        """Numbers of the known search results by URL, from 1."""
        evidence = self.state.get("evidence")
        return {url: number for number, url in enumerate(evidence.sources, 1)} if evidence else {}

    @property
    def unread(self) -> set[str]:
        """URLs of the known search results that were not read and can still be read."""
        return {*unread(self.state["evidence"])} if "evidence" in self.state else set()

    @property
    def answers(self) -> list[str]:
        """The items of the gold answer."""
        return (self.question.answer or "").split("\n")


def current_position(benchmark: SolutionSource) -> ResearchPosition:
    """Return the position of the run whose node is being executed.

    Raises:
        Fault: ("model") no run is being executed.
    """
    situation = require_situation()
    return ResearchPosition(situation, benchmark.question(situation.state["task"].id))


# Solution steps as the hops of multi-hop questions, for the expert of search worlds.


class StepsAsHops:
    """A GoldSource whose hops are the solution steps of a research question.

    The paragraph of a hop is the first page of its step, identified by the URL.
    """

    def __init__(self, benchmark: SolutionSource) -> None:
        self._benchmark = benchmark

    def gold(self, task: Task) -> MultiHopQuestion:
        """Return the question of a task as a multi-hop question, with its answer as it would be submitted."""
        question = self._benchmark.question(task.id)
        hops = tuple(self._hop(question, index) for index in range(len(question.solution)))
        answers = (join_answers((question.answer or "").split("\n")),)
        return MultiHopQuestion(
            id=question.id, text=question.text, answers=answers, kind=question.difficulty, passages=(), hops=hops
        )

    def library(self, task: Task) -> Retriever:
        """Return the retriever over all pages of the generated web; the id of a page is its URL."""
        return _page_pool(_split_of(task.id))

    def key(self, passage: Passage) -> str:
        """Return the URL of a page, which is its passage's id."""
        return passage.id

    def _hop(self, question: ResearchQuestion, index: int) -> GoldHop:
        step = question.solution[index]
        # a step that looks nothing up goes by the page of the step before
        url = next(page for one in reversed(question.solution[: index + 1]) for page in one.pages[:1])
        page = _page_pool(_split_of(question.id)).passage(url)
        return GoldHop(question=step.finding.about, answer=step.finding.text, passage=page, finding=step.finding.text)


@cache
def _page_pool(split: str) -> PassagePool:
    return PassagePool([Passage(id=page.url, title=page.title, text=page.text) for page in load_pages(split).values()])


def _split_of(task_id: str) -> str:
    """Return the split whose web answers a question."""
    return LISTS if task_id.startswith(f"{LIST_FAMILY}/") else DEV


# The scripted model `scripted:expert` on the generated web.
#
# It recognises an operator's request by the fields of the answer schema. It gives a finding only once all pages that
# support or contradict the finding were read for this step, and calls a finding adequate only if it is exactly the gold
# finding, so that instructions on a page have no effect. SDP's final answer is the gold answer if the finding of the
# last step is known, else "unknown"; agents without findings submit the gold answer after they have done all steps.

QUOTED_WORDS = 8
"""Number of words that the expert quotes from each source of a finding, the first ones."""

ExpertAnswer = dict[str, Any]
"""An answer of the expert: values by field of the answer schema."""


class ResearchExpert:
    """Scripted expert for a benchmark whose questions have solution steps."""

    def __init__(self, benchmark: SolutionSource) -> None:
        self._benchmark = benchmark
        self._otherwise = searching.GoldExpert(StepsAsHops(benchmark))

    def __call__(self, prompt: str, schema: dict[str, Any]) -> Any:
        """Return the right answer to an operator's request; requests of other methods go to the expert `GoldExpert`."""
        fields: Mapping[str, Any] = schema.get("properties", {})
        author = next((answer for names, answer in _ANSWERS.items() if names <= fields.keys()), None)
        if "steps" in fields and fields["steps"].get("items", {}).get("type") != "string":
            author = _answer_steps  # the steps of other plans are texts, those of research are objects
        if author is None:
            return self._otherwise(prompt, schema)
        answer = author(current_position(self._benchmark))
        return {name: value for name, value in answer.items() if name in fields}


def _answer_steps(position: ResearchPosition) -> ExpertAnswer:
    return {"steps": [{"kind": step.kind, "goal": step.finding.about} for step in position.question.solution]}


def _answer_tools(position: ResearchPosition) -> ExpertAnswer:
    """Return the queries of the solution step, and the numbers of its known pages, the unread ones first."""
    step, numbers, unread_urls = position.step, position.listed, position.unread
    if step is None:
        return {"queries": [], "pages": []}
    pages = sorted((url for url in step.pages if url in numbers), key=lambda url: url not in unread_urls)
    return {"queries": [*step.queries[:MAX_QUERIES]], "pages": [numbers[url] for url in pages[:MAX_PAGES]]}


def _answer_finding(position: ResearchPosition) -> ExpertAnswer:
    step, observation = position.step, position.state["observation"]
    if step is None or not {*step.pages} <= {*observation.data.get("read", ())}:
        return {"finding": "", "supported_by": [], "contradicted_by": [], "dispute": ""}
    numbers = {url: number for number, url in enumerate(observation.sources, 1)}
    supported, contradicted = ([numbers[url] for url in urls] for urls in (step.finding.sources, step.finding.against))
    texts = {"finding": step.finding.text, "dispute": step.finding.dispute, "missing": ""}
    shown = source_texts(observation.text)
    quotes = [
        {"source": number, "words": " ".join(shown.get(number, "").split()[:QUOTED_WORDS])} for number in supported
    ]
    items = [_list_item(item, numbers.get(item.source, 0)) for item in step.finding.items]
    return {**texts, "items": items, "quotes": quotes, "supported_by": supported, "contradicted_by": contradicted}


def _list_item(item: FoundItem, number: int) -> ExpertAnswer:
    """Return an item as it is found in source `number`, or 0 if an earlier step found it."""
    return {"name": item.name, "detail": item.detail, "source": number, "words": item.quote if number else ""}


def _answer_adequacy(position: ResearchPosition) -> ExpertAnswer:
    """Return the verdict on a finding: adequate if it is the gold finding, with the dispute if that has one."""
    gold, judged = position.step.finding if position.step else None, position.view["finding"]
    right = (
        gold is not None
        and judged.text == gold.text
        and judged.items in ((), gold.items)
        and gold.dispute in ("", judged.dispute)
    )
    return {"reason": "held against the way to the answer", "adequate": right}


def _answer_question(position: ResearchPosition) -> ExpertAnswer:
    last = position.question.solution[-1].finding.text
    solved = any(last in known.finding.text for known in position.view["certified"].known)
    return {"answers": position.answers if solved else ["unknown"]}


def _answer_move(position: ResearchPosition) -> ExpertAnswer:
    """Return the next action: open a known page of the solution steps, else search, else submit the answer."""
    tried = {query_of(action) for action in _actions_so_far(position)}
    pages = [
        url for step in position.question.solution for url in step.pages if url in position.unread and url not in tried
    ]
    queries = [query for step in position.question.solution for query in step.queries if query not in tried]
    tool, text = (
        (OPEN, pages[0]) if pages else (SEARCH, queries[0]) if queries else (FINISH, join_answers(position.answers))
    )
    return {"thought": "as the way goes", "tool": tool, "text": text, "action": f"{tool}[{text}]", "remember": ""}


def _actions_so_far(position: ResearchPosition) -> list[Any]:
    return [action for step in position.state.get("history", ()) if (action := parse_action(step.action))]


_ANSWERS: Mapping[frozenset[str], Callable[[ResearchPosition], ExpertAnswer]] = {
    frozenset({"queries", "pages"}): _answer_tools,
    frozenset({"finding", "supported_by"}): _answer_finding,
    frozenset({"adequate"}): _answer_adequacy,
    frozenset({"answers"}): _answer_question,
    frozenset({"tool", "text"}): _answer_move,
    frozenset({"thought", "action"}): _answer_move,
}
"""Functions that answer a request, by the fields of the answer schema that identify it."""


# The benchmark `web`: generated questions on a generated web, over real HTTP on this machine.

TIMEOUT = 3.0
"""Maximum seconds for loading a page. All pages are on this machine, which may be busy; some never answer."""


class GeneratedWeb(ResearchBenchmark):
    """The benchmark `web`: generated questions on generated web sites, which need no network.

    There are six families of questions with four questions each; the split `small` has the first one of each family.
    The split `lists` has four questions whose answers are lists of 10 to 40 items. Their pages are a web of their own.
    """

    plain: ClassVar[str] = "web"
    id_pattern: ClassVar[str] = "FAMILY/NUMBER, a number from 1 to 4"
    splits = (DEV, SMALL, LISTS)
    simulated = True
    """Whether the data are generated even if a data folder is given; no folder has data of this benchmark."""

    def read(self, split: str) -> Mapping[str, ResearchQuestion]:
        """Return the questions of a split by id."""
        return {case.question.id: case.question for case in load_cases(split)}

    def web(self, task: Task) -> Web:
        """Return the generated web of a task: that of the lists, or the one of all other questions.

        Its first use starts a server in this process.
        """
        split = _split_of(task.id)
        return Web(_search_engines(split), _page_source(split), web_cache(f"generated-{_pages_digest(split)}"))

    def expert(self) -> Responder:
        """Return the scripted expert, which knows the solution steps of each question. It is shared between callers."""
        return self._expert

    @cached_property
    def _expert(self) -> ResearchExpert:
        return ResearchExpert(self)


@cache
def start_server(split: str = DEV) -> GeneratedWebServer:
    """Start the server of a generated web in this process, once; it stops when the process exits."""
    running = GeneratedWebServer(load_pages(split))
    atexit.register(running.close)
    return running


@cache
def _search_engines(split: str) -> Sequence[SearchProvider]:
    address = _server_of(split).address
    return [create_provider(f"web{path}", f"http://{address}{path}") for path in (FIRST_ENGINE, SECOND_ENGINE)]


@cache
def _page_source(split: str) -> PageSource:
    return Fetcher(timeout=TIMEOUT, hosts={".example": _server_of(split).address})


@cache
def _pages_digest(split: str) -> str:
    """Return a digest of the generated pages, so that each version of them has a cache file of its own."""
    pages = "\n".join(page.model_dump_json() for page in _server_of(split).pages.values())
    return hashlib.sha256(pages.encode()).hexdigest()[:8]


def _server_of(split: str) -> GeneratedWebServer:
    # the key of the cache, by which tests find the server, has no argument
    return start_server(LISTS) if split == LISTS else start_server()


# The user's own questions: there is no gold answer, so that they are answered and not scored.

MAX_PAGE_AGE = datetime.timedelta(days=1)
"""Maximum age of a cached page when a question is asked. Users want to know what is true today."""

NO_TASKS_MESSAGE = 'questions of your own have no list: certigraph ask "QUESTION"'


class OwnQuestion(ResearchBenchmark):
    """The benchmark `ask`: a user's own questions, as tasks made by `state.search.create_question_task`.

    With a folder, the web consists of the pages in that folder. Else the task names the search providers: those of the
    live web, or the generated web.

    Args:
        data: folder of pages.
        config: must be empty.
        search: the user's own search provider, in place of those that the task names.
        pages: the user's own page source. With an own search provider or page source, nothing is cached.
    """

    plain = "ask"
    simulated = True
    """True, because no data folder has data of this benchmark. It has no tasks of its own."""

    def __init__(
        self,
        data: Path | None = None,
        config: str = "",
        *,
        search: SearchProvider | None = None,
        pages: PageSource | None = None,
    ) -> None:
        super().__init__(data, config)
        self._search, self._pages = search, pages

    def read(self, split: str) -> Mapping[str, ResearchQuestion]:
        """Return no questions, because they are only known when a user asks them."""
        return {}

    def tasks(self, split: str = "") -> Sequence[Task]:
        """Refuse to list tasks, because there are none.

        Raises:
            UnknownName: always.
        """
        raise UnknownName(NO_TASKS_MESSAGE)

    def task(self, task_id: str) -> Task:
        """Refuse to return a task by id.

        Raises:
            UnknownName: always.
        """
        raise UnknownName(NO_TASKS_MESSAGE)

    def question(self, task_id: str) -> ResearchQuestion:
        """Return a question without text, because the text of a user's question is the goal of its task."""
        return ResearchQuestion(id=task_id, text="")

    def expert(self) -> Responder | None:
        """Return the scripted expert, which knows the questions of the generated web only."""
        return self._expert

    def knows(self, task: Task) -> bool:
        """Return whether the expert can answer a task: its question is one of the generated web, and is asked there."""
        return task.constants.get("search") == GENERATED_WEB and task.id in self._generated.known

    def web(self, task: Task) -> Web:
        """Return the web for the research of a task.

        On the live web, pages that were cached at most a day before the question was asked are not fetched again.

        Raises:
            Fault, UnknownName: as `create_providers` and `create_page_source` raise.
        """
        named = str(task.constants.get("search") or "")
        if self.folder is not None:
            return self._local
        if named == GENERATED_WEB:
            return GeneratedWeb().web(task)
        since = datetime.datetime.fromisoformat(str(task.constants["asked"])) - MAX_PAGE_AGE
        cache = None if self._search or self._pages else web_cache(since=since.timestamp())
        engines = [self._search] if self._search else create_providers(named)
        return Web(engines, self._pages or create_page_source(), cache)

    @cached_property
    def _local(self) -> Web:
        pages = LocalPages(self.folder or Path())
        return Web([pages], pages, None)

    @cached_property
    def _generated(self) -> "_GeneratedQuestions":
        return _GeneratedQuestions()

    @cached_property
    def _expert(self) -> Responder:
        return ResearchExpert(self._generated)


class _GeneratedQuestions:
    """The questions of the generated web, by the task ids that they get when a user asks them (`ask`)."""

    def __init__(self) -> None:
        self.known = {
            create_question_task(question.text).id: question for question in GeneratedWeb().questions().values()
        }

    def question(self, task_id: str) -> ResearchQuestion:
        """Return the question of a task.

        Raises:
            Fault: ("model") it is not a question of the generated web.
        """
        if task_id not in self.known:
            raise Fault("model", "scripted:expert knows the questions of `web` alone: name another model with --model")
        return self.known[task_id]
