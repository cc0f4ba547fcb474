"""Tests of `benchmarks.assistantbench.benchmark`."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from helpers.files.real_data import data_folder
from helpers.worlds.assistantbench_files import HIDDEN, OTHER, ROW, TEXTLESS, benchmark
from typer.testing import CliRunner

from certigraph.adapters.user_warnings import CallWarning
from certigraph.adapters.web.protocol import Unreadable, WebPage
from certigraph.benchmarks.assistantbench.benchmark import (
    EXCERPT_NOTE,
    AssistantBench,
    load_recorded_web,
    read_page_parts,
    read_submission,
    write_submission,
)
from certigraph.benchmarks.research.plans import ResearchQuestion
from certigraph.benchmarks.research.scoring import official_scores, research_figures
from certigraph.cli import app
from certigraph.evaluation.export import export, format_submission
from certigraph.state.endings import Fault, UnknownName

# AssistantBench: its files, figures, and the settings it can be run in.


def test_the_layout_of_the_data_set_is_read(tmp_path: Path):
    made = benchmark(tmp_path, {**ROW, "gold_url": "https://x.org", "explanation": "", "metadata": {"n": 1}}, OTHER)
    question = ResearchQuestion(id="a", text="Which gym?", answer="The Root", difficulty="Hard")
    assert made.question("a") == question
    assert [(task.id, task.goal) for task in made.tasks()] == [("a", "Which gym?"), ("b", "Which gym?")]


def test_a_question_without_a_text_is_not_a_task_and_is_reported(tmp_path: Path):
    made = benchmark(tmp_path)
    assert [task.id for task in made.tasks("dev")] == ["a", "b"]
    assert list(made.ids()) == ["a", "b", "c"]
    with pytest.raises(UnknownName, match="no task 'c'"):
        benchmark(tmp_path, ROW, TEXTLESS, HIDDEN).task("c")


def test_splits_are_distinguished_by_row_and_found_in_any_file(tmp_path: Path):
    (tmp_path / "trajectories.jsonl").write_text('{"id": "x", "history": []}\n', encoding="utf-8")
    (tmp_path / "empty.jsonl").write_text("", encoding="utf-8")
    with gzip.open(tmp_path / "test.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(json.dumps(HIDDEN))
    made = benchmark(tmp_path)
    assert [task.id for task in made.tasks("test")] == ["t"]
    assert made.question("t").answer is None
    with pytest.raises(UnknownName, match="known: dev, test"):
        made.tasks("train")


@pytest.mark.parametrize(
    ("row", "field"),
    [
        ({**ROW, "id": "a"}, "'a'"),
        ({"id": "z", "task": "q", "answer": "x"}, "set"),
        ({"id": "z", "set": "dev", "answer": "x"}, "task"),
        ({**ROW, "id": "z", "answer": 3}, "answer"),
        ([1], "row"),
    ],
)
def test_a_malformed_row_is_named(tmp_path: Path, row: object, field: str):
    with pytest.raises(Fault, match=rf"dev\.jsonl:2: .*{field}"):
        benchmark(tmp_path, ROW, row).tasks()


def test_without_a_folder_there_are_invented_questions(tmp_path: Path):
    made = AssistantBench()
    assert made.tasks() and all(task.benchmark == "assistantbench" for task in made.tasks())
    assert made.expert() is not None
    for nothing in (
        lambda: made.tasks("test"),
        AssistantBench(config="recorded").tasks,
        AssistantBench(tmp_path).tasks,
    ):
        with pytest.raises(Fault, match="--data"):
            nothing()


HARD, EASY = (
    ResearchQuestion(id="h", text="?", answer="a b", difficulty="Hard"),
    ResearchQuestion(id="e", text="?", answer="20"),
)


def test_figures_are_the_official_aggregates():
    figures = research_figures(
        [
            (HARD, official_scores("a b", "a b")),
            (HARD, official_scores("", "a b")),
            (EASY, official_scores("x", "20")),
            (EASY, None),
        ]
    )
    assert figures == {
        "n": 4,
        "accuracy": 0.25,
        "precision": 0.5,
        "exact_match": 0.25,
        "exact_string": 0.25,
        "accuracy_stderr": 0.25,
        "exact_match_stderr": 0.25,
        "answer_rate": 0.5,
        "accuracy_hard": 0.5,
    }


def test_precision_is_of_answers_and_forced_ones_are_reported():
    figures = research_figures(
        [(HARD, official_scores("b", "a b", forced=1)), (HARD, official_scores("", "a b", forced=0))]
    )
    assert figures["precision"] == figures["accuracy"] * 2 == pytest.approx(1.0)  # "b" against "b": no articles
    assert (figures["forced"], figures["exact_string"]) == (0.5, 0.0)
    assert research_figures([(HARD, None)])["precision"] == 0.0
    assert research_figures([]) == {"n": 0}


def test_nothing_is_concluded_of_answers_that_nobody_can_judge():
    unknown = HARD.model_copy(update={"answer": None})
    assert research_figures([(unknown, official_scores("x", None)), (unknown, None)]) == {"n": 2, "answer_rate": 0.5}


def test_without_a_search_key_nothing_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for variable in ("CERTIGRAPH_SEARCH", "SERPER_API_KEY", "BRAVE_API_KEY", "SEARXNG_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    benchmark(tmp_path)
    options = ["assistantbench", "--data", str(tmp_path), "--model", "scripted:first"]
    finished = CliRunner().invoke(app, ["run", "sdp", *options])
    assert isinstance(finished.exception, Fault)
    assert "SERPER_API_KEY" in str(finished.exception)
    assert not (tmp_path / "runs").exists()


# The offline web of AssistantBench: what recorded agents saw, and nothing that they wrote.

FOUND = """exitcode: 0 (execution succeeded)
Code output: Search Result 1:
The Root - Gym
https://root.example/gym#top
A gym in Point Pleasant.
Search Result 2:
Muscle
https://muscle.example/
Open late."""

SHOWN = """I clicked 'The Root'.

Here is a screenshot of [The Root](https://root.example/gym). The viewport shows 31% of the webpage.

Automatic OCR of the page screenshot has detected the following text:

Sure, here is the transcription of all visible text on the page:

Opens at five.
Closes at nine.
Traceback (most recent call last):"""

SERP = SHOWN.replace("https://root.example/gym", "https://www.bing.com/search?q=gym").replace("five", "SERP")

HISTORY = [
    {"role": "user", "name": "Computer_terminal", "content": FOUND},
    {"role": "user", "name": "Gym_Expert", "content": FOUND.replace("root", "claimed")},
    {"role": "WebSurfer", "content": SHOWN},
    {"role": "WebSurfer", "content": SHOWN},
    {"role": "WebSurfer", "content": SERP},
    {"role": "WebSurfer", "content": "I think that the answer is The Root."},
    {"role": "Orchestrator (thought)", "content": SHOWN.replace("root", "thought")},
]


def recorded(folder: Path, *histories: object) -> Path:
    rows = [{"id": f"task {n}", "history": history, "mistake_step": "2"} for n, history in enumerate(histories)]
    (folder / "whowhen_trajectories.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return folder


def test_a_page_is_put_together_from_all_that_was_seen_of_it(tmp_path: Path):
    page = load_recorded_web(recorded(tmp_path, HISTORY)).page("https://root.example/gym#hours")
    assert isinstance(page, WebPage)
    assert (page.url, page.title) == ("https://root.example/gym#hours", "The Root - Gym")
    assert page.text == "A gym in Point Pleasant.\n\nOpens at five.\nCloses at nine."


def test_a_page_of_which_only_search_results_were_seen_says_so(tmp_path: Path):
    web = load_recorded_web(recorded(tmp_path, HISTORY))
    page = web.page("https://muscle.example/#top")
    assert isinstance(page, WebPage)
    assert page.text.startswith(EXCERPT_NOTE) and page.text.endswith("Open late.")
    assert [hit.url for hit in web.search("recorded search engine", 5)] == [], "the note is not part of the page"


def test_nothing_is_taken_from_agents_and_search_pages(tmp_path: Path):
    seen = list(read_page_parts(recorded(tmp_path, HISTORY)))
    assert {piece.url for piece in seen} == {"https://root.example/gym", "https://muscle.example/"}
    assert {piece.task for piece in seen} == {"task 0"}


def test_search_finds_pages_by_their_words(tmp_path: Path):
    web = load_recorded_web(recorded(tmp_path, HISTORY, [HISTORY[0]]))
    (hit,) = web.search("when does the gym close? closes", 1)
    assert (hit.url, hit.title) == ("https://root.example/gym", "The Root - Gym")
    assert "Closes at nine." in hit.snippet
    assert web.search("zebra", 5) == []


def test_what_was_never_seen_cannot_be_read(tmp_path: Path):
    gone = load_recorded_web(recorded(tmp_path, HISTORY)).page("https://else.example/")
    assert gone == Unreadable(url="https://else.example/", reason="never recorded")


@pytest.mark.slow
def test_the_recorded_web_is_as_large_as_measured():
    folder = data_folder("assistantbench")
    seen = [piece for piece in read_page_parts(folder) if piece.text]
    assert (len({piece.url for piece in seen}), len({piece.task for piece in seen})) == (306, 23)
    made = AssistantBench(folder, "recorded")
    web = made.web(made.tasks()[0])
    hits = web.search(web.provider, "monday.com executives at its IPO", 5)
    assert len(hits) == 5 and isinstance(web.read([hits[0].url])[0], WebPage)


# Submissions to AssistantBench's leaderboard: scored, written, read, and made of runs.


def submission(folder: Path, *rows: object) -> Path:
    path = folder / "answers.txt"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_a_submission_is_scored_over_all_tasks_of_its_split(tmp_path: Path):
    made = benchmark(tmp_path)
    path = submission(tmp_path, {"id": "c", "answer": "vgt", "score": 1}, {"id": "b", "answer": [20.0]})
    with pytest.warns(CallWarning, match="1 of 3"):
        figures = made.rates(made.score_file(path))
    assert [figures[name] for name in ("n", "accuracy", "answer_rate")] == pytest.approx([3, 1 / 3, 2 / 3])
    assert (figures["accuracy_medium"], figures["accuracy_hard"]) == (0.5, 0.0)


@pytest.mark.parametrize(
    ("rows", "place"),
    [
        ([{"id": "a", "answer": ""}, {"id": "x", "answer": ""}], r":2: .*'x'"),
        ([{"id": "a", "answer": ""}] * 2, r":2: .*'a'"),
        ([{"id": "a"}], r":1: answer"),
    ],
)
def test_a_submission_that_cannot_be_scored_is_reported_with_its_line(tmp_path: Path, rows: list[Any], place: str):
    with pytest.raises(Fault, match=rf"answers\.txt{place}"):
        benchmark(tmp_path).score_file(submission(tmp_path, *rows))


def test_hidden_answers_cannot_be_scored(tmp_path: Path):
    made = benchmark(tmp_path, HIDDEN)
    with pytest.raises(Fault, match="not public"):
        made.score_file(submission(tmp_path, {"id": "t", "answer": "x"}), "test")


def test_a_submission_reads_as_it_was_written(tmp_path: Path):
    path = tmp_path / "s.jsonl"
    write_submission(path, ["a", "b", "c"], {"a": "é", "c": None, "x": "1"})
    assert path.read_text(encoding="utf-8").splitlines()[0] == '{"id": "a", "answer": "é"}'
    assert read_submission(path, ["a", "b", "c"]) == {"a": "é", "b": "", "c": ""}


def test_the_recorded_scorer_rows_are_scored_like_a_submission():
    folder = data_folder("assistantbench")
    made = AssistantBench(folder)
    figures = made.rates(made.score_file(folder / "scorer_golden.jsonl.gz"))
    with gzip.open(folder / "scorer_golden.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    total, answers = sum(row["score"] for row in rows), sum(row["has_ans"] for row in rows)
    assert figures["n"] == 33 == len(made.tasks()) + 2
    assert figures["accuracy"] == pytest.approx(total / 33) and figures["answer_rate"] == pytest.approx(answers / 33)
    assert figures["precision"] == pytest.approx(total / answers)
    assert [name for name in figures if name.startswith("accuracy_")] == [
        "accuracy_stderr", "accuracy_medium", "accuracy_hard",
    ]  # fmt: skip


def ended(
    out: Path, task: str, answer: str, created: str, *, name: str = "assistantbench", ending: str = "goal"
) -> None:
    usage = {"node": "all"}
    header = {"type": "header", "run_id": f"{task}-{answer}", "created": created, "graph": "sdp", "operators": {}}
    header |= {"task": {"benchmark": name, "id": task}, "context": {}, "versions": {}, "schema_version": 3}
    footer = {"type": "footer", "ending": ending, "usage": usage, "scores": {"value": 0, "answer": answer}}
    lines = [header, footer] if answer else [header]
    if ending.startswith("error:"):
        footer.pop("scores")
    folder = out / str(header["run_id"])
    folder.mkdir(parents=True)
    (folder / "trajectory.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def test_the_latest_answers_of_runs_become_a_submission(tmp_path: Path):
    (data := tmp_path / "assistantbench").mkdir()
    benchmark(data)
    ended(tmp_path / "runs", "a", "old", "2026-01-01T00:00:00")
    ended(tmp_path / "runs", "a", "new", "2026-01-02T00:00:00")
    ended(tmp_path / "runs", "a", "told", "2026-01-05T00:00:00", name="assistantbench:recorded")
    ended(tmp_path / "runs", "a", "", "2026-01-03T00:00:00")
    ended(tmp_path / "runs", "a", "no key", "2026-01-04T00:00:00", ending="error:environment")
    ended(tmp_path / "runs", "b", "other", "2026-01-01T00:00:00", name="hotpotqa")
    (path,) = export([tmp_path / "runs"], "assistantbench", tmp_path / "out", data=str(data))
    assert path.name == "assistantbench_dev.jsonl"
    assert read_submission(path, ["a", "b", "c"]) == {"a": "new", "b": "", "c": ""}
    assert format_submission(path) == "assistantbench_dev.jsonl: 3 tasks, 2 of them without an answer"


@pytest.mark.parametrize(("task", "name"), [("a", "hotpotqa"), ("z", "assistantbench")])
def test_runs_that_make_no_submission_are_refused(tmp_path: Path, task: str, name: str):
    benchmark(tmp_path)
    ended(tmp_path / "runs", task, "x", "2026-01-01T00:00:00", name=name)
    with pytest.raises(Fault, match=r"assistantbench|'z'"):
        export([tmp_path / "runs"], "assistantbench", tmp_path / "out", data=str(tmp_path))
