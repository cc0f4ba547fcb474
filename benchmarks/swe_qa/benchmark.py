"""SWE-QA: questions about code repositories, the lines that reference answers cite, and the benchmark."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Self

from certigraph.adapters.files import missing_data_fault, unknown_task_error
from certigraph.adapters.protocols import Limits
from certigraph.adapters.retrieval.answers import exact_match, token_f1
from certigraph.benchmarks.qa.benchmark import QuestionBenchmark, ScoreParts, SearchOutcome
from certigraph.benchmarks.qa.questions import GoldHop, QuestionBank
from certigraph.benchmarks.swe_qa.questions import (
    RepositoryOrigin,
    RepositoryQuestion,
    find_checkout,
    read_origins,
    read_questions,
    require_checkout,
    sample_questions,
    write_sample_repository,
)
from certigraph.benchmarks.swe_qa.world import (
    CHUNK_LINES,
    TOOLS,
    LineRange,
    Repository,
    RepositoryRetriever,
    RepositoryWorld,
)
from certigraph.state.endings import UnknownName
from certigraph.state.records import Task
from certigraph.state.search import Passage, to_line

# All questions about repositories in a folder.

PRO_FOLDER = "swe_qa_pro"
"""Name of the folder with SWE-QA-Pro, next to the folder of SWE-QA. If it exists, each of its files is also a split."""

PRESENT = "present"
"""Name of the split that contains the questions whose repository is checked out."""


class RepositoryBank(QuestionBank[RepositoryQuestion]):
    """Questions of SWE-QA and SWE-QA-Pro, or the user's own; without either, generated questions."""

    def __init__(self, folder: Path | None, own: Mapping[str, RepositoryQuestion] | None = None) -> None:
        """Use the JSONL files in `folder`, read when first needed, or the questions `own`, given by id."""
        super().__init__("swe_qa", lambda split: {question.id: question for question in self.split(split)})
        self._folder, self._own = folder, own

    @cached_property
    def files(self) -> Mapping[str, Mapping[str, RepositoryQuestion]]:
        """Questions of the folder, by file name and id.

        Raises:
            Fault: ("data") there is no file, or a malformed one.
        """
        if self._own is not None or self._folder is None:
            return {"": self._own if self._own is not None else sample_questions()}
        if not (files := _read_files(self._folder, read_origins(self._folder))):
            expected = "*.jsonl or *.jsonl.gz with a {question, answer} a line, a file for each repository"
            raise missing_data_fault("swe_qa", self._folder, expected)
        return files

    @cached_property
    def with_pro(self) -> Mapping[str, Mapping[str, RepositoryQuestion]]:
        """Questions of `files`, and those of SWE-QA-Pro if its folder is next to the folder of SWE-QA.

        Raises:
            Fault: the same errors as `files`.
        """
        pro = self._folder.parent / PRO_FOLDER if self._folder and self._own is None else None
        return {**self.files, **(_read_files(pro, {}) if pro and pro != self._folder else {})}

    def question(self, id_: str) -> RepositoryQuestion:
        """Return one question.

        Raises:
            UnknownName: there is no question with this id; the message lists some valid ids.
        """
        question = next((questions[id_] for questions in self.with_pro.values() if id_ in questions), None)
        if question is None:
            known = (next(iter(questions)) for questions in self.with_pro.values())
            raise unknown_task_error("swe_qa", id_, "REPOSITORY/NUMBER", known)
        return question

    def split(self, name: str = "") -> Sequence[RepositoryQuestion]:
        """Return the questions of a split.

        By default these are all questions except those of SWE-QA-Pro. The split `present` has the questions whose
        repository is checked out; any other name is that of a file.

        Raises:
            UnknownName: there is no such file; the message lists the files.
        """
        if not name:
            return _all_questions(self.files)
        if name == PRESENT:
            return [q for q in _all_questions(self.with_pro) if q.origin is None or find_checkout(q.origin)]
        if name not in self.with_pro:
            known = ", ".join((PRESENT, *filter(None, self.with_pro)))
            raise UnknownName(f"swe_qa has no split {name!r}; known: {known}")
        return list(self.with_pro[name].values())


def _all_questions(files: Mapping[str, Mapping[str, RepositoryQuestion]]) -> list[RepositoryQuestion]:
    return [question for questions in files.values() for question in questions.values()]


def _read_files(folder: Path, origins: Mapping[str, RepositoryOrigin]) -> dict[str, dict[str, RepositoryQuestion]]:
    paths = sorted(folder.glob("*.jsonl*"))
    return {path.name.partition(".jsonl")[0]: read_questions(path, origins) for path in paths}


# The lines of a repository that a reference answer cites, as gold support.

CITATION_PATTERN = re.compile(
    r"(?P<path>[\w./-]+\.\w+)`?(?:[\s:,(]*\blines?\b\s*(?P<first>\d{1,9})(?:\s*(?:-|to)\s*(?P<last>\d{1,9}))?)?",
    re.IGNORECASE,
)
"""Pattern of a cited path with a suffix, and of its lines if they are given, as in `flask/app.py: line 10-20`."""

MAX_FINDING_LENGTH = 200
"""Maximum number of characters of the cited lines in `GoldHop.finding`."""


def add_cited_hops(question: RepositoryQuestion, repository: Repository) -> RepositoryQuestion:
    """Return the question with one gold passage (`GoldHop`) for each file that its reference answer cites.

    A path may be cited without its first folders (`flask/app.py` for `src/flask/app.py`) if only one file has that
    ending.
    """
    answer = question.answers[0]
    cited_lines = {lines.path: lines for lines in reversed(list(_cited_lines(answer, repository)))}
    passages = [repository.passage(lines) for lines in reversed(cited_lines.values())]
    findings = [(passage, to_line(passage.text)[:MAX_FINDING_LENGTH]) for passage in passages]
    hops = (
        GoldHop(question=question.text, answer=answer, passage=p, finding=finding) for p, finding in findings if finding
    )
    return question.model_copy(update={"hops": tuple(hops)})


def _cited_lines(answer: str, repository: Repository) -> Iterator[LineRange]:
    for match in CITATION_PATTERN.finditer(answer):
        if path := _resolve_path(match["path"], repository):
            first = max(1, int(match["first"] or 1))
            yield LineRange(path, first, int(match["last"] or first + CHUNK_LINES - 1))


def _resolve_path(cited: str, repository: Repository) -> str | None:
    exact = repository.path_of(cited)
    ending = [path for path in repository.paths if path.endswith(f"/{cited}")] if exact is None else []
    return exact or (ending[0] if len(ending) == 1 else None)


# The benchmark: the corpus of a question is a repository on disk.

MATERIAL = """\
The passages are lines of files of a software project, titled PATH:FIRST-LAST. An answer says how it works there, in
full sentences, with the paths and lines that it rests on."""

BRIEFING = """\
The corpus is the source of a software project. Passages are lines of files, named PATH:FIRST-LAST. Tools, each with a
text: search (words; shows the pieces of files that fit), find (part of a path, or a pattern such as *.py), grep (text
as it stands in a line), symbols (the name of a class or function; shows where it is defined), read (PATH:FIRST-LAST),
finish (the answer, with the paths and lines that it rests on). Nothing can be run or changed."""


class _OpenRepository(NamedTuple):
    """Repository, and the index of its passages, which is built once."""

    repository: Repository
    library: RepositoryRetriever


class SweQA(QuestionBenchmark[RepositoryQuestion]):
    """Benchmark of questions about code repositories; the corpus of a question is one repository.

    Tasks are, for example, `flask/0` (SWE-QA), `rl_test/0` (SWE-QA-Pro), `questions/0` (the user's own file) and,
    without data, `made/0`. The repository of a task is `repo/` next to the file of its question, or the checkout under
    CERTIGRAPH_REPOS (see `require_checkout`). Passages are found by BM25 alone, without vectors. Answers are prose, and
    the score is their token F1 with the reference answer. This is a coarse measure; the published one is
    `certigraph judge --rubric swe-qa`. The metric `evidence_found` is the share of the files cited by the reference
    answer of which the agent saw a part.

    Args:
        data: Folder with question files (see `read_questions`); None for a small generated repository.
        config: Must be empty: there are no variants.
        root: Repository of all tasks, in place of the one that belongs to a question.
    """

    plain = "swe_qa"
    limits = Limits(replans=2, steps=30, passages=5)
    configurations = ()
    retrieval_configurations = ("",)
    tools = TOOLS
    longest_answer = 3_000
    answer_style = "a complete explanation in prose, with the paths and lines that it rests on"
    briefing = BRIEFING
    material = MATERIAL

    def __init__(self, data: Path | None = None, config: str = "", *, root: Path | None = None) -> None:
        super().__init__(data, config)
        self.bank = RepositoryBank(data)
        self._root = root
        self._opened = lru_cache(maxsize=8)(_open_repository)

    @classmethod
    def over(cls, root: Path | str, *questions: str) -> Self:
        """Create a benchmark of the user's own questions about the folder `root`; its tasks are `own/0`, `own/1`, ...

        Example: `run("react", SweQA.over(".", "Who reads X?"))`.
        """
        benchmark = cls(root=Path(root))
        own_questions = [
            RepositoryQuestion(id=f"own/{n}", text=text, answers=("",), kind="own", passages=(), hops=())
            for n, text in enumerate(questions)
        ]
        benchmark.bank = RepositoryBank(None, {question.id: question for question in own_questions})
        return benchmark

    def read(self, split: str) -> Mapping[str, RepositoryQuestion]:
        """Return the questions of a split, by id."""
        return {question.id: question for question in self.bank.split(split)}

    def open(self, task: Task) -> RepositoryWorld:
        """Create the world of a question.

        Raises:
            Fault: ("data") the question's repository is missing; the message gives the commands that fetch it.
        """
        repository, library = self._repository(task)
        question = self.gold(task)
        return RepositoryWorld(repository, library, lambda o: self.score_outcome(question, o), k=self.limits.passages)

    def retriever(self, task: Task, alpha: float | None) -> RepositoryRetriever:
        """Return BM25 over parts of files. `alpha` has no effect: vectors of a large repository would take an hour."""
        return self._repository(task).library

    def gold(self, task: Task) -> RepositoryQuestion:
        """Return the question of a task, with the lines that its reference answer cites as `hops`."""
        return add_cited_hops(self.bank.question(task.id), self._repository(task).repository)

    def key(self, passage: Passage) -> str:
        """Return the path of the file that a passage is from."""
        return passage.id.rpartition(":")[0]

    def answer_parts(self, question: RepositoryQuestion, answer: str) -> dict[str, float]:
        """Return exact match and token F1 of an answer with the reference answer."""
        reference = question.answers[0]
        return {"em": exact_match(answer, reference), "f1": token_f1(answer, reference)}

    def parts(self, question: RepositoryQuestion, outcome: SearchOutcome) -> ScoreParts:
        """Return the scores of the submitted answer; no answer counts as an empty one."""
        return {**self.answer_parts(question, outcome.answer or "")}

    def _repository(self, task: Task) -> _OpenRepository:
        return self._opened(self._root_of(self.bank.question(task.id)))

    def _root_of(self, question: RepositoryQuestion) -> Path:
        if self._root is not None:
            return self._root
        if question.origin is not None:
            return require_checkout(question.origin)
        return self.folder / "repo" if self.folder else Path(self._sample_folder.name)

    @cached_property
    def _sample_folder(self) -> "TemporaryDirectory[str]":
        folder: TemporaryDirectory[str] = TemporaryDirectory(prefix="certigraph-repository-")
        write_sample_repository(Path(folder.name))
        return folder


def _open_repository(root: Path) -> _OpenRepository:
    repository = Repository(root)
    return _OpenRepository(repository, RepositoryRetriever(repository))
