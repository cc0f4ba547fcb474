"""SWE-QA as a benchmark: the corpus of a question is a repository."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Self

from certigraph.adapters.files import missing_data, unknown_task
from certigraph.adapters.qa.benchmark import Outcome, Parts, QuestionBenchmark
from certigraph.adapters.qa.questions import Hop, QuestionBank
from certigraph.adapters.qa.scoring import exact_match, token_f1
from certigraph.adapters.swe_qa.questions import (
    Asked,
    Origin,
    checkout,
    found_checkout,
    generated_questions,
    read_origins,
    read_questions,
    write_repository,
)
from certigraph.adapters.swe_qa.world import CHUNK, TOOLS, Lines, Repository, RepositoryLibrary, RepositoryWorld
from certigraph.state.records import Task, UnknownName
from certigraph.state.search import Passage, line

# All questions about repositories that a folder holds.

PRO = "swe_qa_pro"
"""The folder beside SWE-QA's whose questions are asked too, by the name of their file."""

PRESENT = "present"


class RepositoryBank(QuestionBank[Asked]):
    """SWE-QA's questions, SWE-QA-Pro's beside them, or one's own; without a folder those about a small made one."""

    def __init__(self, folder: Path | None, own: Mapping[str, Asked] | None = None) -> None:
        """Of a folder of JSON lines, read when first asked for, or of given questions by id."""
        super().__init__("swe_qa", lambda split: {asked.id: asked for asked in self.split(split)})
        self._folder, self._own = folder, own

    @cached_property
    def files(self) -> Mapping[str, Mapping[str, Asked]]:
        """The questions by file and id. Raises Fault ("data") where there is no file, or a malformed one."""
        if self._own is not None or self._folder is None:
            return {"": self._own if self._own is not None else generated_questions()}
        if not (found := _read(self._folder, read_origins(self._folder))):
            expected = "*.jsonl or *.jsonl.gz with a {question, answer} a line, a file for each repository"
            raise missing_data("swe_qa", self._folder, expected)
        return found

    @cached_property
    def with_pro(self) -> Mapping[str, Mapping[str, Asked]]:
        """The same, and SWE-QA-Pro's where they lie beside SWE-QA's. Raises Fault as `files` does."""
        beside = self._folder.parent / PRO if self._folder and self._own is None else None
        return {**self.files, **(_read(beside, {}) if beside and beside != self._folder else {})}

    def question(self, id_: str) -> Asked:
        """One question. Raises UnknownName with some valid ids."""
        found = next((questions[id_] for questions in self.with_pro.values() if id_ in questions), None)
        if found is None:
            known = (next(iter(questions)) for questions in self.with_pro.values())
            raise unknown_task("swe_qa", id_, "REPOSITORY/NUMBER", known)
        return found

    def split(self, name: str = "") -> Sequence[Asked]:
        """All questions but SWE-QA-Pro's; one file's by its name; `present`: those whose repository is checked out.

        Raises:
            UnknownName: no such file; lists them.
        """
        if not name:
            return _listed(self.files)
        if name == PRESENT:
            return [q for q in _listed(self.with_pro) if q.origin is None or found_checkout(q.origin)]
        if name not in self.with_pro:
            known = ", ".join((PRESENT, *filter(None, self.with_pro)))
            raise UnknownName(f"swe_qa has no split {name!r}; known: {known}")
        return list(self.with_pro[name].values())


def _listed(files: Mapping[str, Mapping[str, Asked]]) -> list[Asked]:
    return [asked for questions in files.values() for asked in questions.values()]


def _read(folder: Path, origins: Mapping[str, Origin]) -> dict[str, dict[str, Asked]]:
    paths = sorted(folder.glob("*.jsonl*"))
    return {path.name.partition(".jsonl")[0]: read_questions(path, origins) for path in paths}


# The places in a repository that a reference answer cites, as gold support.

CITED = re.compile(
    r"(?P<path>[\w./-]+\.\w+)`?(?:[\s:,(]*\blines?\b\s*(?P<first>\d{1,9})(?:\s*(?:-|to)\s*(?P<last>\d{1,9}))?)?",
    re.IGNORECASE,
)
"""A path with a suffix, and the lines where they are named, as in `flask/app.py: line 10-20`."""

MOST_FINDING = 200
"""Characters of the cited lines that stand for what they tell."""


def with_evidence(asked: Asked, repository: Repository) -> Asked:
    """The question with one hop for each file that its reference cites and the repository has.

    A path may be cited without its first folders (`flask/app.py` for `src/flask/app.py`) where one file alone ends so.
    """
    answer = asked.answers[0]
    places = {where.path: where for where in reversed(list(_cited(answer, repository)))}
    passages = [repository.passage(where) for where in reversed(places.values())]
    told = [(passage, line(passage.text)[:MOST_FINDING]) for passage in passages]
    hops = (Hop(question=asked.text, answer=answer, passage=p, finding=finding) for p, finding in told if finding)
    return asked.model_copy(update={"hops": tuple(hops)})


def _cited(answer: str, repository: Repository) -> Iterator[Lines]:
    for match in CITED.finditer(answer):
        if path := _path(match["path"], repository):
            first = int(match["first"] or 1)
            yield Lines(path, first, int(match["last"] or first + CHUNK - 1))


def _path(cited: str, repository: Repository) -> str | None:
    exact = repository.path_of(cited)
    ending = [path for path in repository.paths if path.endswith(f"/{cited}")] if exact is None else []
    return exact or (ending[0] if len(ending) == 1 else None)


# SWE-QA as a search benchmark: the corpus of a question is a repository on disk.

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
        return RepositoryWorld(repository, library, lambda o: self.score_outcome(question, o), k=self.limits.passages)

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
