"""SWE-QA as a search benchmark: the corpus of a question is a repository on disk."""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Self

from certigraph.adapters.searching.benchmark import Parts, QuestionBenchmark
from certigraph.adapters.searching.outcomes import Outcome
from certigraph.adapters.searching.scoring import exact_match, token_f1
from certigraph.adapters.swe_qa.bank import RepositoryBank
from certigraph.adapters.swe_qa.checkouts import checkout
from certigraph.adapters.swe_qa.chunks import RepositoryLibrary
from certigraph.adapters.swe_qa.evidence import with_evidence
from certigraph.adapters.swe_qa.generated import write_repository
from certigraph.adapters.swe_qa.questions import Asked
from certigraph.adapters.swe_qa.repository import Repository
from certigraph.adapters.swe_qa.world import TOOLS, RepositoryWorld
from certigraph.state.passages import Passage
from certigraph.state.records import Task

BRIEFING = """\
The corpus is the source of a software project. Passages are lines of files, named PATH:FIRST-LAST. Tools, each with a
text: search (words; shows the pieces of files that fit), find (part of a path, or a pattern such as *.py), grep (text
as it stands in a line), symbols (the name of a class or function; shows where it is defined), read (PATH:FIRST-LAST),
finish (the answer, with the paths and lines that it rests on). Nothing can be run or changed."""


class _Opened(NamedTuple):
    """A repository and its pieces, read once."""

    repository: Repository
    library: RepositoryLibrary


class SweQA(QuestionBenchmark[Asked]):
    """Tasks `flask/0` (SWE-QA), `rl_test/0` (SWE-QA-Pro), `questions/0` (your own); without data `made/0`.

    The repository of a task is `repo/` beside the file of its question, or the checkout that CERTIGRAPH_REPOS holds
    (see `checkouts`). Passages are found by BM25 alone, whatever weight is asked for. Answers are prose: the score is
    token F1 with the reference, which is coarse; `certigraph judge --rubric swe-qa` is the published measure.
    `evidence_found` is the share of the files cited by the reference of which the agent saw a part.

    Args:
        folder: of question files (see `questions`); None: a small made repository.
    """

    plain = "swe_qa"
    configurations = ()
    retrieving = ("",)
    tools = TOOLS
    longest_answer = 3_000
    briefing = BRIEFING

    def __init__(self, folder: Path | None = None, config: str = "", *, root: Path | None = None) -> None:
        super().__init__(folder, config)
        self.bank = RepositoryBank(folder)
        self._root = root
        self._opened = lru_cache(maxsize=8)(_opened)

    @classmethod
    def over(cls, root: Path | str, *questions: str) -> Self:
        """Your own questions about a folder, tasks `own/0` and on: `run("react", SweQA.over(".", "Who reads X?"))`."""
        made = cls(root=Path(root))
        asked = [
            Asked(id=f"own/{n}", text=text, answers=("",), kind="own", passages=(), hops=())
            for n, text in enumerate(questions)
        ]
        made.bank = RepositoryBank(None, {one.id: one for one in asked})
        return made

    def read(self, split: str) -> Mapping[str, Asked]:
        """The questions of a split by id."""
        return {asked.id: asked for asked in self.bank.split(split)}

    def open(self, task: Task) -> RepositoryWorld:
        """The world of a question. Raises Fault ("data") where its repository is not there, with what brings it."""
        repository, library = self._repository(task)
        question = self.gold(task)
        return RepositoryWorld(repository, library, lambda o: self.judged(question, o), k=self.limits.passages)

    def retriever(self, task: Task, alpha: float | None) -> RepositoryLibrary:
        """BM25 over pieces of files; `alpha` changes nothing, for vectors of a large repository would take an hour."""
        return self._repository(task).library

    def gold(self, task: Task) -> Asked:
        """The question with the places that its reference cites."""
        return with_evidence(self.bank.question(task.id), self._repository(task).repository)

    def key(self, passage: Passage) -> str:
        """The file that a passage is from."""
        return passage.id.rpartition(":")[0]

    def answer_parts(self, question: Asked, answer: str) -> dict[str, float]:
        """Exact match and token F1 with the reference."""
        reference = question.answers[0]
        return {"em": exact_match(answer, reference), "f1": token_f1(answer, reference)}

    def parts(self, question: Asked, outcome: Outcome) -> Parts:
        """The same of what an episode handed in, which may be nothing."""
        return {**self.answer_parts(question, outcome.answer or "")}

    def _repository(self, task: Task) -> _Opened:
        return self._opened(self._root_of(self.bank.question(task.id)))

    def _root_of(self, asked: Asked) -> Path:
        if self._root is not None:
            return self._root
        if asked.origin is not None:
            return checkout(asked.origin)
        return self.folder / "repo" if self.folder else Path(self._made.name)

    @cached_property
    def _made(self) -> "TemporaryDirectory[str]":
        folder: TemporaryDirectory[str] = TemporaryDirectory(prefix="certigraph-repository-")
        write_repository(Path(folder.name))
        return folder


def _opened(root: Path) -> _Opened:
    repository = Repository(root)
    return _Opened(repository, RepositoryLibrary(repository))
