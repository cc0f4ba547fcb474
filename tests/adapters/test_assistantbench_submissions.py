"""Submissions to AssistantBench's leaderboard: scored, written, read, and made of runs."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from assistants import HIDDEN, benchmark
from real_data import data_folder

from certigraph.adapters.assistantbench.benchmark import AssistantBench, read_submission, write_submission
from certigraph.evaluation.export import export, submitted
from certigraph.state.records import Fault


def submission(folder: Path, *rows: object) -> Path:
    path = folder / "answers.txt"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_a_submission_is_scored_over_all_tasks_of_its_split(tmp_path: Path):
    made = benchmark(tmp_path)
    path = submission(tmp_path, {"id": "c", "answer": "vgt", "score": 1}, {"id": "b", "answer": [20.0]})
    figures = made.rates(made.score_file(path))
    assert (figures["n"], figures["accuracy"], figures["answer_rate"]) == (
        3,
        pytest.approx(1 / 3),
        pytest.approx(2 / 3),
    )
    assert (figures["accuracy_medium"], figures["accuracy_hard"]) == (0.5, 0.0)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "a", "answer": ""}, {"id": "x", "answer": ""}], r"answers\.txt:2: no task 'x' among the 3, .*--split"),
        ([{"id": "a", "answer": ""}] * 2, r"answers\.txt:2: the id 'a' is taken"),
        ([{"id": "a"}], r"answers\.txt:1: answer: "),
    ],
)
def test_a_submission_that_cannot_be_scored_is_told_in_one_line(tmp_path: Path, rows: list[Any], message: str):
    with pytest.raises(Fault, match=message) as told:
        benchmark(tmp_path).score_file(submission(tmp_path, *rows))
    assert "\n" not in str(told.value)


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
    assert figures["n"] == 33 and len(made.textless()) == 2
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
    assert submitted(path) == "assistantbench_dev.jsonl: 3 tasks, 2 of them without an answer"


@pytest.mark.parametrize(
    ("task", "name", "message"),
    [
        ("a", "hotpotqa", "no run of assistantbench among these has ended"),
        ("z", "assistantbench", "no split has the task 'z'.*--data"),
    ],
)
def test_runs_that_make_no_submission_are_told(tmp_path: Path, task: str, name: str, message: str):
    benchmark(tmp_path)
    ended(tmp_path / "runs", task, "x", "2026-01-01T00:00:00", name=name)
    with pytest.raises(Fault, match=message):
        export([tmp_path / "runs"], "assistantbench", tmp_path / "out", data=str(tmp_path))
