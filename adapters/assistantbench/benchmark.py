"""AssistantBench: questions, recorded web evidence, submissions and benchmark."""

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, Field, JsonValue

from certigraph.adapters.assistantbench.web import GeneratedWeb
from certigraph.adapters.files import Row, checked, read_rows
from certigraph.adapters.protocols import Responder
from certigraph.adapters.qa.questions import unique
from certigraph.adapters.research.benchmark import ResearchBenchmark
from certigraph.adapters.research.plans import ResearchQuestion
from certigraph.adapters.research.scoring import Scored, rates, scores
from certigraph.adapters.retrieval.bm25 import Pool
from certigraph.adapters.web.addresses import allowed_hosts
from certigraph.adapters.web.pages import Fetcher
from certigraph.adapters.web.protocol import LONGEST_TITLE, Hit, Page, Unreadable, found_in, one_line
from certigraph.adapters.web.sources import Web, providers, web_cache
from certigraph.state.records import Fault, Scores, Task
from certigraph.state.search import Passage

# AssistantBench's questions, in the layout of its data set (facts/qa_scoring.md, section 3.1).

SPLITS = ("dev", "test")
"""The default first. The answers of test are not public."""

NAMES = ("*.jsonl", "*.jsonl.gz")

EXAMPLE = "assistant_bench_v1.0_{split}.jsonl"


class Official(BaseModel):
    """One row; other fields (gold_url, explanation, metadata, ...) are not looked at."""

    id: str = Field(min_length=1)
    set: str
    task: str | None
    answer: str | None = None
    difficulty: str | None = ""


class Split(NamedTuple):
    """The questions of a split by id."""

    asked: dict[str, ResearchQuestion]
    textless: dict[str, ResearchQuestion]
    """Those whose text the file does not have: nobody can be asked them, but answers to them can be scored."""

    @property
    def all(self) -> dict[str, ResearchQuestion]:
        """Both: what published figures are over."""
        return self.asked | self.textless


def read_split(folder: Path, split: str) -> Split:
    """The questions of a split, from whatever files of JSON lines in the folder have rows with `id` and `task`.

    Raises:
        Fault: no file has any of the split, a row is malformed, or an id is given twice; with file and line.
    """
    rows = [(row, checked(Official, row)) for row in _question_rows(folder)]
    unique([(row, official.id) for row, official in rows])
    questions = [_question(official) for _, official in rows if official.set == split]
    if not questions:
        name = EXAMPLE.format(split=split)
        message = f"{folder}: no questions of the split {split}: put AssistantBench's {name} there, or name its folder"
        raise Fault("data", f"{message} with --data DIR") from FileNotFoundError(name)
    asked = {question.id: question for question in questions if question.text}
    return Split(asked, {question.id: question for question in questions if not question.text})


def _question_rows(folder: Path) -> Iterator[Row]:
    for path in sorted(path for name in NAMES for path in folder.glob(name)):
        first = next(read_rows(path), None)
        if first and isinstance(first.value, dict) and {"id", "task"} <= first.value.keys():
            yield from read_rows(path)


def _question(official: Official) -> ResearchQuestion:
    return ResearchQuestion(
        id=official.id,
        text=(official.task or "").strip(),
        answer=official.answer or None,
        difficulty=official.difficulty or "",
    )


# Submissions to AssistantBench's leaderboard: JSON lines of `id` and `answer`, one for each task of a split.


class Prediction(BaseModel):
    """One row; other fields, as BrowserGym's files have them, are not looked at."""

    id: str
    answer: JsonValue


def write_submission(path: Path, ids: Iterable[str], answers: Mapping[str, JsonValue]) -> None:
    """Write a row for each id in order; its answer is empty where there is none."""
    rows = ({"id": id_, "answer": answers.get(id_) or ""} for id_ in ids)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def read_submission(path: Path, ids: Collection[str]) -> dict[str, JsonValue]:
    """The answers by id.

    Raises:
        Fault: a row is malformed, names no task of the split or one that another row has answered; with file and line.
    """
    read = [(row, checked(Prediction, row)) for row in read_rows(path)]
    unique([(row, prediction.id) for row, prediction in read])
    for row, prediction in read:
        if prediction.id not in ids:
            some = f"for example {next(iter(ids))}"
            message = f"{row.where}: no task {prediction.id!r} among the {len(ids)}, {some}: name the right --split"
            raise Fault("data", message)
    return {prediction.id: prediction.answer for _, prediction in read}


def score_submission(path: Path, questions: Sequence[ResearchQuestion]) -> list[Scored]:
    """The official scores of every question of a split, none of one that the file does not answer.

    Raises:
        Fault: as `read_submission`; or nobody here knows the split's answers.
    """
    if all(question.answer is None for question in questions):
        message = f"{path} cannot be scored: these answers are not public; hand the file in at the leaderboard"
        raise Fault("data", f"{message}, or score another --split")
    answers = read_submission(path, {question.id: None for question in questions})
    return [(question, _scores(answers, question)) for question in questions]


def _scores(answers: Mapping[str, JsonValue], question: ResearchQuestion) -> Scores | None:
    return scores(answers[question.id], question.answer) if question.id in answers else None


# What web agents saw on the way to AssistantBench's answers: Who&When's trajectories (facts/qa_scoring.md, 3.1).
#
# That is results which a search tool printed, and the text of pages which a browser showed. What agents said
# themselves is left out, and so are search engines' own pages, which show no whole addresses.

FILES = ("whowhen_trajectories.jsonl", "whowhen_trajectories.jsonl.gz")

TERMINAL, BROWSER = "Computer_terminal", "WebSurfer"
"""Who brought what was seen: the output of programs, and a browser."""

SEARCHES = "bing.com/search"

_RESULT = re.compile(r"Search Result \d+:\n(?P<title>.+)\n(?P<url>https?://\S+)\n(?P<text>.+)")
_SHOWN = re.compile(r"Here is a screenshot of \[(?P<title>.*?)\]\((?P<url>https?://\S+?)\)\. The viewport", re.DOTALL)
_TEXT = re.compile(r"detected the following text:\n(?P<text>.*?)(?=\nTraceback|\Z)", re.DOTALL)
_COURTESY = re.compile(r"\A\s*[^\n]*(?:transcribed|transcription|visible text)[^\n]{0,40}\n", re.IGNORECASE)
"""How the model that read screenshots begins."""


class Message(BaseModel):
    """One message of a trajectory; who sent it is its `name`, else its `role`."""

    role: str
    content: str
    name: str = ""


class Recording(BaseModel):
    """One trajectory; what was found wrong with it is not looked at."""

    id: str
    history: list[Message]


class Seen(NamedTuple):
    """A piece of a page, and the question that it was seen for."""

    task: str
    url: str
    title: str
    text: str


def read_seen(folder: Path) -> Iterator[Seen]:
    """Every piece of a page that was seen, in order. Raises Fault where the file is missing or malformed."""
    path = next((folder / name for name in FILES if (folder / name).is_file()), None)
    if path is None:
        raise Fault("data", f"{folder}: no {FILES[0]}: put the recorded trajectories there, or leave out :recorded")
    for recording in (checked(Recording, row) for row in read_rows(path)):
        for message in recording.history:
            yield from (piece._replace(task=recording.id) for piece in _pieces(message))


def _pieces(message: Message) -> Iterator[Seen]:
    who, content = message.name or message.role, message.content
    if who == TERMINAL:
        yield from (Seen("", address(one["url"]), one["title"], one["text"]) for one in _RESULT.finditer(content))
    shown, text = _SHOWN.search(content), _TEXT.search(content)
    if who == BROWSER and shown and text and SEARCHES not in shown["url"]:
        yield Seen("", address(shown["url"]), shown["title"], _COURTESY.sub("", text["text"]).strip())


def address(url: str) -> str:
    """The address of the page that a URL leads to, wherever on the page."""
    return url.partition("#")[0]


# What web agents saw while they worked on AssistantBench's questions, as a small web to search offline.
#
# It is partial: 306 pages (`recordings`), often no more than a search result's lines, for 23 of the 31 questions
# whose text there is, of 2024, seen by agents that failed. Where they came past the answer, the answer is in it,
# which is a leak: the whole gold occurs for 6 questions, of 4 as a number that may mean anything. Scores on it
# compare with nothing published.


class RecordedWeb:
    """The recorded pages: a search provider over them (BM25), and a source of pages that has no others."""

    name = "recorded"

    def __init__(self, seen: Iterable[Seen]) -> None:
        """Put what was seen together by URL. Raises Fault where nothing was."""
        self._pages = {url: _page(url, pieces) for url, pieces in _by_url(seen).items()}
        documents = [Passage(id=url, title=page.title, text=page.text) for url, page in self._pages.items()]
        self._pool = Pool(documents)

    def search(self, query: str, k: int) -> list[Hit]:
        """At most `k` pages that share a word with the query, best first."""
        return found_in(self._pool, query, k)

    def page(self, url: str) -> Page | Unreadable:
        """What was seen of a page: perhaps a search result's lines alone."""
        page = self._pages.get(address(url))
        return page.model_copy(update={"url": url}) if page else Unreadable(url=url, reason="never recorded")


def recorded_web(folder: Path) -> RecordedWeb:
    """The recorded web of a data folder. Raises Fault where its file is missing or malformed."""
    return RecordedWeb(read_seen(folder))


def _by_url(seen: Iterable[Seen]) -> dict[str, list[Seen]]:
    grouped = defaultdict[str, list[Seen]](list)
    for piece in seen:
        if piece.text:
            grouped[piece.url].append(piece)
    return grouped


def _page(url: str, pieces: list[Seen]) -> Page:
    title = one_line(pieces[0].title, LONGEST_TITLE)
    return Page(url=url, title=title, text="\n\n".join(dict.fromkeys(piece.text for piece in pieces)))


# AssistantBench as a benchmark: questions that take a person minutes on the open web.

RECORDED = "recorded"

DEV = SPLITS[0]


class AssistantBench(ResearchBenchmark):
    """Questions of a person, to be researched on the web as it is now; without a folder, invented ones on their web.

    Configurations: none; `recorded`, the few pages that recorded agents saw are the web, which needs no network (see
    the module `recorded` before you quote a score).
    """

    plain = "assistantbench"
    configurations = (RECORDED,)
    splits = SPLITS

    def __init__(self, folder: Path | None = None, config: str = "") -> None:
        super().__init__(folder, config)
        self._split = cache(self._read_split)

    def read(self, split: str) -> Mapping[str, ResearchQuestion]:
        """The questions of a split that have a text. Raises Fault as `read_split` does."""
        return self._split(split).asked

    def textless(self, split: str = "") -> Sequence[str]:
        """Ids of the questions whose text is not there: no run can be about them, yet published figures are."""
        return tuple(self._split(split or DEV).textless)

    def ids(self, split: str = "") -> Sequence[str]:
        """Ids of all tasks of a split, those without a text last: what a submission has a row for."""
        return tuple(self._split(split or DEV).all)

    def web(self, task: Task) -> Web:
        """The web out there, the recorded or the invented one; what was read once is kept (`web_cache`).

        Raises:
            UnknownName, Fault: as `providers` and `recorded_web`.
        """
        if self.config == RECORDED:
            return self._recorded
        if self.folder is None:
            return self._generated.web(task)
        return Web(providers(), Fetcher(allowed=allowed_hosts()), web_cache())

    def ready(self) -> None:
        """Make sure, before any run begins, that there is a web to ask. Raises UnknownName and Fault as `web` does."""
        if self.folder is not None and self.config != RECORDED:
            providers()

    def expert(self) -> Responder | None:
        """Who knows the invented web; nobody knows the others."""
        return None if self.folder else self._generated.expert()

    def score_file(self, path: Path, split: str = "") -> list[Scored]:
        """The official scores of a submission, over all tasks of a split; `rates` adds them up.

        Raises:
            UnknownName: there is no such split.
            Fault: as `score_submission`.
        """
        self.questions(split)
        return score_submission(path, list(self._split(split or DEV).all.values()))

    def rates(self, scores: Sequence[Scored]) -> dict[str, float]:
        """The official figures of what `score_file` gave."""
        return rates(scores)

    def _read_split(self, split: str) -> Split:
        if self.folder is None and split == DEV and self.config != RECORDED:
            return Split(dict(self._generated.questions()), {})
        return read_split(self._files, split)

    @property
    def _files(self) -> Path:
        if self.folder is None:
            message = "without data there is the split dev alone, and no recorded web: name the folder that holds"
            raise Fault("data", f"{message} {self.plain}/ with --data DIR or CERTIGRAPH_DATA")
        return self.folder

    @cached_property
    def _recorded(self) -> Web:
        pages = recorded_web(self._files)
        return Web([pages], pages, None)

    @cached_property
    def _generated(self) -> GeneratedWeb:
        return GeneratedWeb()
