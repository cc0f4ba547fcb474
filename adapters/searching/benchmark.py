"""The base of the benchmarks that ask multi-hop questions: tasks, worlds, retrievers, scores and figures."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from certigraph.adapters.extras import require
from certigraph.adapters.limits import PAPER_LIMITS
from certigraph.adapters.multihop.operators import operators
from certigraph.adapters.protocols import Operator, Responder
from certigraph.adapters.retrieval.protocol import Retriever
from certigraph.adapters.searching.banks import QuestionBank
from certigraph.adapters.searching.corpora import Retrievers
from certigraph.adapters.searching.expert import Expert
from certigraph.adapters.searching.figures import F1, Scored, rates
from certigraph.adapters.searching.outcomes import Outcome, course
from certigraph.adapters.searching.questions import Question
from certigraph.adapters.searching.world import SearchWorld
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.passages import Passage
from certigraph.state.records import Scores, Task
from certigraph.state.searching import FINISH, SEARCH
from certigraph.state.trajectory import Footer

Q = TypeVar("Q", bound=Question)

CORPUS = "corpus"

Parts = dict[str, float | None]


class QuestionBenchmark(ABC, Generic[Q]):
    """Questions whose paragraphs are at hand, or have to be retrieved from a corpus on disk.

    Args:
        folder: of the question files; None for generated questions.
        config: one of `configurations`, or none.
    """

    answers = True
    plain: ClassVar[str]
    """The name without a configuration."""
    briefing: str
    configurations: tuple[str, ...]
    retrieving: tuple[str, ...] = (CORPUS,)
    """The configurations whose passages have to be found."""
    tools: tuple[str, ...] = (SEARCH, FINISH)
    longest_answer = 100
    """Characters; no answer of HotpotQA or MuSiQue here has more than 70."""

    def __init__(self, folder: Path | None = None, config: str = "") -> None:
        if config and config not in self.configurations:
            known = ", ".join(self.configurations)
            raise UnknownName(f"{self.plain} has no configuration {config!r}; known: {known}")
        self.folder, self.config = folder, config
        self.name = f"{self.plain}:{config}" if config else self.plain
        self.limits = PAPER_LIMITS[self.plain]
        self.retrieves = config in self.retrieving
        self.bank = QuestionBank(self.plain, self.read)
        self._retrievers = Retrievers(self.bank, source=str(folder or self.plain))
        self._expert = Expert(self)

    def ready(self) -> None:
        """Make sure, before any run begins, that a corpus can be searched. Raises Fault("data") without tantivy."""
        if self.retrieves:
            require("a corpus on disk needs", ["tantivy"], "retrieval")

    def tasks(self, split: str = "") -> Sequence[Task]:
        """The tasks of a split, dev or train. Raises UnknownName and Fault as QuestionBank does."""
        return [self._task(question) for question in self.bank.split(split)]

    def task(self, task_id: str) -> Task:
        """One task, of any split. Raises UnknownName whose message lists some valid ids."""
        return self._task(self.bank.question(task_id))

    def open(self, task: Task) -> SearchWorld:
        """The world of a question. Raises Fault ("data") where its paragraphs should be at hand and it has none."""
        question = self.gold(task)
        if not (self.retrieves or question.passages):
            fault = f"question {task.id} comes without paragraphs: retrieve them, with {self.plain}:{CORPUS}"
            raise Fault("data", fault)
        return SearchWorld(
            lambda alpha: self.retriever(task, alpha),
            lambda outcome: self.judged(question, outcome),
            k=self.limits.passages,
            given=() if self.retrieves else question.passages,
        )

    def operators(self) -> Mapping[str, Operator]:
        """SDP's own for multi-hop questions (appendices A.5 and A.6)."""
        return self._operators

    def expert(self) -> Responder | None:
        """Knows the gold answers and paragraphs."""
        return self._expert

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """The official figures as fractions (see `figures.rates`); a run without scores counts 0."""
        return rates([self._scored(id_, footer.scores.parts if footer.scores else {}) for id_, footer in runs])

    def rates(self, scores: Sequence[Scored]) -> dict[str, float]:
        """The same of what `score_file` gave."""
        return rates(scores)

    def library(self, task: Task) -> Retriever:
        """Where the passages of a task are read by id."""
        return self.retriever(task, None)

    def retriever(self, task: Task, alpha: float | None) -> Retriever:
        """BM25, mixed with vectors where `alpha` is below 1 (see `Retrievers`)."""
        return self._retrievers.corpus(alpha) if self.retrieves else self._retrievers.pool(task.id, alpha)

    def score_answer(self, task: Task, answer: str) -> Scores:
        """The scores of an answer alone."""
        parts = self.answer_parts(self.gold(task), answer)
        return Scores(value=parts[F1], parts={**parts}, answer=answer)

    def gold(self, task: Task) -> Q:
        """The question behind a task with all that its file knows, for experts, scores and studies."""
        return self.bank.question(task.id)

    def judged(self, question: Q, outcome: Outcome) -> Scores:
        """The scores of an episode: of its answer, of the support that its claims stand on, and how it went."""
        parts = self.parts(question, outcome)
        wanted = {self.key(hop.passage) for hop in question.hops}
        parts |= course(outcome, wanted, {self.key(passage) for passage in outcome.found})
        return Scores(value=parts[F1] or 0.0, parts=parts, answer=outcome.answer)

    def key(self, passage: Passage) -> str:
        """What a paragraph is known by in whatever corpus it is found."""
        return f"{passage.title}\n{passage.text}"

    @abstractmethod
    def read(self, split: str) -> Mapping[str, Q]:
        """The questions of a split by id."""

    @abstractmethod
    def answer_parts(self, question: Q, answer: str) -> dict[str, float]:
        """The official scores of an answer."""

    @abstractmethod
    def parts(self, question: Q, outcome: Outcome) -> Parts:
        """The official scores of an answer and of the support predicted with it; None where none was."""

    @cached_property
    def _operators(self) -> Mapping[str, Operator]:
        return operators(self)

    def _task(self, question: Q) -> Task:
        return Task(benchmark=self.name, id=question.id, goal=question.text)

    def _scored(self, task_id: str, parts: Mapping[str, Any]) -> Scored:
        return Scored(self.bank.question(task_id).kind, parts)
