"""AssistantBench: question files, submissions to its leaderboard, a web of recorded pages, and the benchmark."""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, Field, JsonValue

from certigraph.adapters.files import JsonRow, read_rows, validate_row, warn_of_partial_answers
from certigraph.adapters.protocols import Responder
from certigraph.adapters.retrieval.bm25 import PassagePool
from certigraph.adapters.web.page_sources import create_page_source
from certigraph.adapters.web.protocol import (
    MAX_TITLE_CHARACTERS,
    SearchHit,
    Unreadable,
    WebPage,
    clip_line,
    search_pages,
)
from certigraph.adapters.web.sources import Web, create_providers, web_cache
from certigraph.benchmarks.assistantbench.web import GeneratedWeb
from certigraph.benchmarks.qa.questions import IdentifiedRow, validate_rows
from certigraph.benchmarks.research.benchmark import PAPER, ResearchBenchmark
from certigraph.benchmarks.research.plans import ResearchQuestion
from certigraph.benchmarks.research.scoring import ScoredResearch, official_scores, research_figures
from certigraph.state.endings import Fault
from certigraph.state.records import Scores, Task
from certigraph.state.search import Passage

# Questions, in the layout of AssistantBench's data set (facts/qa_scoring.md, section 3.1).

SPLITS = ("dev", "test")
"""Names of the splits, the default first. The gold answers of the split `test` are not public."""

FILE_PATTERNS = ("*.jsonl", "*.jsonl.gz")
"""Patterns of the names of question files."""

EXAMPLE_NAME = "assistant_bench_v1.0_{split}.jsonl"
"""Name of a question file, for messages."""


class QuestionRow(IdentifiedRow):
    """One row of a question file; other fields (gold_url, explanation, metadata, ...) are ignored."""

    id: str = Field(min_length=1)
    set: str
    task: str | None
    answer: str | None = None
    difficulty: str | None = ""


class QuestionSplit(NamedTuple):
    """The questions of a split by id, those with and those without a text in the file."""

    with_text: dict[str, ResearchQuestion]
    without_text: dict[str, ResearchQuestion]
    """Questions whose text is missing in the file. No run can work on them, but answers to them can be scored."""

    @property
    def all(self) -> dict[str, ResearchQuestion]:
        """All questions of the split. Published scores are means over all of them."""
        return self.with_text | self.without_text


def read_split(folder: Path, split: str) -> QuestionSplit:
    """Read the questions of a split from all files of JSON lines in a folder whose rows have `id` and `task`.

    Raises:
        Fault: ("data") no file has a question of the split, a row is malformed, or two rows have the same id. The
            message names file and line.
    """
    rows = validate_rows(QuestionRow, _question_rows(folder))
    questions = [_question(official) for _, official in rows if official.set == split]
    if not questions:
        name = EXAMPLE_NAME.format(split=split)
        message = f"{folder}: no questions of the split {split}: put AssistantBench's {name} there, or name its folder"
        raise Fault("data", f"{message} with --data DIR") from FileNotFoundError(name)
    with_text = {question.id: question for question in questions if question.text}
    return QuestionSplit(with_text, {question.id: question for question in questions if not question.text})


def _question_rows(folder: Path) -> Iterator[JsonRow]:
    for path in sorted(path for name in FILE_PATTERNS for path in folder.glob(name)):
        first = next(read_rows(path), None)
        if first and isinstance(first.value, dict) and {"id", "task"} <= first.value.keys():
            yield from read_rows(path)


def _question(official: QuestionRow) -> ResearchQuestion:
    return ResearchQuestion(
        id=official.id,
        text=(official.task or "").strip(),
        answer=official.answer or None,
        difficulty=official.difficulty or "",
    )


# Submissions to AssistantBench's leaderboard: JSON lines of `id` and `answer`, one for each task of a split.


class SubmissionRow(IdentifiedRow):
    """One row of a submission: task id and answer. Other fields, as in BrowserGym's files, are ignored."""

    answer: JsonValue


def write_submission(path: Path, ids: Iterable[str], answers: Mapping[str, JsonValue]) -> None:
    """Write a submission to the leaderboard: one row per id, in order. Without an answer, the row's answer is empty."""
    rows = ({"id": id_, "answer": answers.get(id_) or ""} for id_ in ids)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def read_submission(path: Path, ids: Collection[str]) -> dict[str, JsonValue]:
    """Read the answers of a submission by id.

    Raises:
        Fault: ("data") a row is malformed, its id is not in `ids`, or two rows have the same id. The message names file
            and line.
    """
    rows = validate_rows(SubmissionRow, read_rows(path))
    for row, prediction in rows:
        if prediction.id not in ids:
            example = f"for example {next(iter(ids))}"
            message = f"{row.where}: no task {prediction.id!r} among the {len(ids)}, {example}: name the right --split"
            raise Fault("data", message)
    return {prediction.id: prediction.answer for _, prediction in rows}


def score_submission(path: Path, questions: Sequence[ResearchQuestion]) -> list[ScoredResearch]:
    """Score a submission: return every question with its official scores, or None if it has no answer.

    Raises:
        Fault: ("data") as `read_submission` raises, or the gold answers of the questions are not public.
    """
    if all(question.answer is None for question in questions):
        message = f"{path} cannot be scored: these answers are not public; hand the file in at the leaderboard"
        raise Fault("data", f"{message}, or score another --split")
    answers = read_submission(path, {question.id: None for question in questions})
    warn_of_partial_answers(path, answers, [question.id for question in questions])
    return [(question, _scores_of(answers, question)) for question in questions]


def _scores_of(answers: Mapping[str, JsonValue], question: ResearchQuestion) -> Scores | None:
    return official_scores(answers[question.id], question.answer) if question.id in answers else None


# The pages that web agents saw for AssistantBench's questions: Who&When's trajectories (facts/qa_scoring.md, 3.1).
#
# These are search results that a tool printed, and texts of pages that a browser showed. The agents' own messages are
# left out, and so are the result pages of search engines, which do not show complete URLs.

FILES = ("whowhen_trajectories.jsonl", "whowhen_trajectories.jsonl.gz")
"""Names that the file of trajectories may have."""

TERMINAL, BROWSER = "Computer_terminal", "WebSurfer"
"""Senders of the messages that show pages: a terminal with the output of programs, and a browser."""

SEARCH_ENGINE = "bing.com/search"
"""Part of the URL of a search engine's result page."""

_RESULT = re.compile(r"Search Result \d+:\n(?P<title>.+)\n(?P<url>https?://\S+)\n(?P<text>.+)")
_SHOWN = re.compile(r"Here is a screenshot of \[(?P<title>.*?)\]\((?P<url>https?://\S+?)\)\. The viewport", re.DOTALL)
_TEXT = re.compile(r"detected the following text:\n(?P<text>.*?)(?=\nTraceback|\Z)", re.DOTALL)
_TRANSCRIPTION_INTRO = re.compile(r"\A\s*[^\n]*(?:transcribed|transcription|visible text)[^\n]{0,40}\n", re.IGNORECASE)
"""Introductory line with which the model that transcribed screenshots begins its text."""


class TrajectoryMessage(BaseModel):
    """One message of a trajectory. Its sender is `name`, or `role` if there is no name."""

    role: str
    content: str
    name: str = ""


class WhoWhenTrajectory(BaseModel):
    """One trajectory of Who&When; the analysis of its failure is ignored."""

    id: str
    history: list[TrajectoryMessage]


class PagePart(NamedTuple):
    """A part of a page that a recorded agent saw, and the id of the question (`task`) for which it saw it."""

    task: str
    url: str
    title: str
    text: str
    is_excerpt: bool = False
    """Whether it is what a search engine showed of the page."""


def read_page_parts(folder: Path) -> Iterator[PagePart]:
    """Yield the parts of pages that recorded agents saw, in the order of the file of trajectories.

    Raises:
        Fault: ("data") the file of trajectories is missing or malformed.
    """
    path = next((folder / name for name in FILES if (folder / name).is_file()), None)
    if path is None:
        raise Fault("data", f"{folder}: no {FILES[0]}: put the recorded trajectories there, or leave out :recorded")
    for recording in (validate_row(WhoWhenTrajectory, row) for row in read_rows(path)):
        for message in recording.history:
            yield from (part._replace(task=recording.id) for part in _page_parts(message))


def _page_parts(message: TrajectoryMessage) -> Iterator[PagePart]:
    sender, content = message.name or message.role, message.content
    if sender == TERMINAL:
        yield from (
            PagePart("", strip_fragment(match["url"]), match["title"], match["text"], is_excerpt=True)
            for match in _RESULT.finditer(content)
        )
    shown, text = _SHOWN.search(content), _TEXT.search(content)
    if sender == BROWSER and shown and text and SEARCH_ENGINE not in shown["url"]:
        yield PagePart(
            "", strip_fragment(shown["url"]), shown["title"], _TRANSCRIPTION_INTRO.sub("", text["text"]).strip()
        )


def strip_fragment(url: str) -> str:
    """Return a URL without its fragment, the part after "#"."""
    return url.partition("#")[0]


# The pages that web agents saw, as a small web that can be searched offline.
#
# It is partial: 306 pages from 2024, often only the lines of a search result, for 23 of the 31 questions with a text,
# seen by agents that failed. If they saw the answer, the recorded web contains it, which is a leak: the complete gold
# occurs for 6 questions, for 4 of them as a number that may mean anything. Scores on it cannot be compared with any
# published score.


EXCERPT_NOTE = "(Of this page only what a search engine showed of it is recorded.)"


class RecordedWeb:
    """Search provider (BM25) and page source over the pages that recorded agents saw."""

    name = "recorded"

    def __init__(self, seen: Iterable[PagePart]) -> None:
        """Create the web from the parts of pages that were seen; parts with the same URL form one page."""
        grouped = _group_by_url(seen)
        self._pages = {url: _join_parts(url, parts) for url, parts in grouped.items()}
        self._excerpts = {url for url, parts in grouped.items() if all(part.is_excerpt for part in parts)}
        documents = [Passage(id=url, title=page.title, text=page.text) for url, page in self._pages.items()]
        self._pool = PassagePool(documents)

    def __len__(self) -> int:
        """Return the number of pages."""
        return len(self._pages)

    def search(self, query: str, k: int) -> list[SearchHit]:
        """Return at most `k` pages that share a word with the query, the best first."""
        return search_pages(self._pool, query, k)

    def page(self, url: str) -> WebPage | Unreadable:
        """Return everything that was seen of the page at a URL.

        If that is only the text of search results, a line before it says so.
        """
        page = self._pages.get(strip_fragment(url))
        if page is None:
            return Unreadable(url=url, reason="never recorded")
        note = f"{EXCERPT_NOTE}\n\n" if strip_fragment(url) in self._excerpts else ""
        return page.model_copy(update={"url": url, "text": f"{note}{page.text}"})


def load_recorded_web(folder: Path) -> RecordedWeb:
    """Load the recorded web from a folder with the file of trajectories.

    Raises:
        Fault: ("data") the file is missing or malformed.
    """
    return RecordedWeb(read_page_parts(folder))


def _group_by_url(seen: Iterable[PagePart]) -> dict[str, list[PagePart]]:
    grouped = defaultdict[str, list[PagePart]](list)
    for part in seen:
        if part.text:
            grouped[part.url].append(part)
    return grouped


def _join_parts(url: str, parts: list[PagePart]) -> WebPage:
    title = clip_line(parts[0].title, MAX_TITLE_CHARACTERS)
    return WebPage(url=url, title=title, text="\n\n".join(dict.fromkeys(part.text for part in parts)))


# The benchmark: questions that take a person several minutes on the open web.

RECORDED = "recorded"
"""Name of the configuration in which the web consists of recorded pages (`RecordedWeb`)."""

DEV = SPLITS[0]
"""The default split."""


class AssistantBench(ResearchBenchmark):
    """The benchmark AssistantBench: questions of people that need research on the web.

    Without a folder, the questions and their web are generated. In the configuration `recorded` the web is a small set
    of pages that recorded agents saw, which needs no network; its scores cannot be compared with published ones. In
    `paper` no model checks an answer, as in the SDP paper (appendix A.4).
    """

    plain = "assistantbench"
    score_metrics = ("accuracy",)
    published = Path(__file__).with_name("published.json")
    configurations = (RECORDED, PAPER)
    splits = SPLITS

    def __init__(self, data: Path | None = None, config: str = "") -> None:
        super().__init__(data, config)
        self._split = cache(self._read_split)

    def read(self, split: str) -> Mapping[str, ResearchQuestion]:
        """Read the questions of a split that have a text, by id.

        Raises:
            Fault: as `read_split` raises.
        """
        return self._split(split).with_text

    def ids(self, split: str = "") -> Sequence[str]:
        """Return the ids of all questions of a split, which a submission must have; those without a text come last."""
        return tuple(self._split(split or DEV).all)

    def web(self, task: Task) -> Web:
        """Return the web for a task: recorded, generated, or live. Results and pages of the last two are cached.

        Raises:
            UnknownName, Fault: as `create_providers`, `create_page_source` and `load_recorded_web` raise.
        """
        if self.config == RECORDED:
            return self._recorded
        if self.folder is None:
            return self._generated.web(task)
        return Web(create_providers(), create_page_source(), web_cache())

    def ready(self) -> None:
        """Check, before any run starts, that a search provider and the page source are available for the live web.

        Raises:
            UnknownName, Fault: as `create_providers` and `create_page_source` raise.
        """
        if self.folder is not None and self.config != RECORDED:
            create_providers()
            create_page_source()

    def expert(self) -> Responder | None:
        """Return the scripted expert, which knows the generated web; None for the live and the recorded web."""
        return None if self.folder else self._generated.expert()

    def score_file(self, path: Path, split: str = "") -> list[ScoredResearch]:
        """Score a submission: return every question of a split with its official scores.

        `rates` computes metrics from the result.

        Raises:
            UnknownName: there is no such split.
            Fault: as `score_submission` raises.
        """
        self.questions(split)
        return score_submission(path, list(self._split(split or DEV).all.values()))

    def write_submission(self, path: Path, ids: Sequence[str], answers: Mapping[str, JsonValue]) -> None:
        """Write the answers to the tasks `ids` as a file for the leaderboard (`write_submission`)."""
        write_submission(path, ids, answers)

    def rates(self, scores: Sequence[ScoredResearch]) -> dict[str, float]:
        """Return the benchmark's metrics from the scores of `score_file` (see `research_figures`)."""
        return research_figures(scores)

    def _read_split(self, split: str) -> QuestionSplit:
        if self.folder is None and split == DEV and self.config != RECORDED:
            return QuestionSplit(dict(self._generated.questions()), {})
        return read_split(self._files, split)

    @property
    def _files(self) -> Path:
        if self.folder is None:
            message = "without data there is the split dev alone, and no recorded web: name the folder that holds"
            raise Fault("data", f"{message} {self.plain}/ with --data DIR or CERTIGRAPH_DATA")
        return self.folder

    @cached_property
    def _recorded(self) -> Web:
        pages = load_recorded_web(self._files)
        note = f"This is not a live web: all searches are over the same {len(pages)} recorded pages, on many subjects"
        return Web([pages], pages, None, note=note)

    @cached_property
    def _generated(self) -> GeneratedWeb:
        return GeneratedWeb()
