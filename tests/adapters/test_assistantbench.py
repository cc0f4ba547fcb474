"""AssistantBench: its files, figures, and the settings it can be run in."""

import gzip
import json
from pathlib import Path

import pytest
from assistants import HIDDEN, OTHER, ROW, TEXTLESS, benchmark
from typer.testing import CliRunner

from certigraph.adapters.assistantbench.benchmark import AssistantBench
from certigraph.adapters.research.plans import ResearchQuestion
from certigraph.adapters.research.scoring import rates, scores
from certigraph.cli import app
from certigraph.runtime.run import run
from certigraph.state.records import Fault, UnknownName


def test_the_layout_of_the_data_set_is_read(tmp_path: Path):
    made = benchmark(tmp_path, {**ROW, "gold_url": "https://x.org", "explanation": "", "metadata": {"n": 1}}, OTHER)
    question = ResearchQuestion(id="a", text="Which gym?", answer="The Root", difficulty="Hard")
    assert made.question("a") == question
    assert [(task.id, task.goal) for task in made.tasks()] == [("a", "Which gym?"), ("b", "Which gym?")]


def test_a_question_without_a_text_is_no_task_and_is_told(tmp_path: Path):
    made = benchmark(tmp_path)
    assert [task.id for task in made.tasks("dev")] == ["a", "b"]
    assert (list(made.textless()), list(made.ids())) == (["c"], ["a", "b", "c"])
    with pytest.raises(UnknownName, match="no task 'c'"):
        benchmark(tmp_path, ROW, TEXTLESS, HIDDEN).task("c")


def test_splits_are_told_apart_by_row_and_found_in_any_file(tmp_path: Path):
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
    ("row", "message"),
    [
        ({**ROW, "id": "a"}, r"dev\.jsonl:2: the id 'a' is taken by .*dev\.jsonl:1"),
        ({"id": "z", "task": "q", "answer": "x"}, r"dev\.jsonl:2: set: "),
        ({"id": "z", "set": "dev", "answer": "x"}, r"dev\.jsonl:2: task: "),
        ({**ROW, "id": "z", "answer": 3}, r"dev\.jsonl:2: answer: "),
        ([1], r"dev\.jsonl:2: row: "),
    ],
)
def test_a_malformed_row_is_named(tmp_path: Path, row: object, message: str):
    with pytest.raises(Fault, match=message):
        benchmark(tmp_path, ROW, row).tasks()


def test_a_folder_without_questions_is_told(tmp_path: Path):
    with pytest.raises(Fault, match=r"no questions of the split dev: put AssistantBench's .*--data"):
        AssistantBench(tmp_path).tasks()


def test_without_a_folder_there_are_invented_questions():
    made = AssistantBench()
    assert made.tasks() and all(task.benchmark == "assistantbench" for task in made.tasks())
    assert made.expert() is not None
    with pytest.raises(Fault, match="--data DIR"):
        made.tasks("test")
    with pytest.raises(Fault, match="--data DIR"):
        AssistantBench(config="recorded").tasks()


@pytest.mark.slow
def test_the_expert_researches_an_invented_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CERTIGRAPH_WEB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    result = run("sdp", "assistantbench", out=tmp_path)
    assert result.scores is not None and result.scores.parts["accuracy"] == 1.0


HARD, EASY = (
    ResearchQuestion(id="h", text="?", answer="a b", difficulty="Hard"),
    ResearchQuestion(id="e", text="?", answer="20"),
)


def test_figures_are_the_official_aggregates():
    figures = rates([(HARD, scores("a b", "a b")), (HARD, scores("", "a b")), (EASY, scores("x", "20")), (EASY, None)])
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


def test_precision_is_of_answers_and_forced_ones_are_told():
    figures = rates([(HARD, scores("b", "a b", forced=1)), (HARD, scores("", "a b", forced=0))])
    assert figures["precision"] == figures["accuracy"] * 2 == pytest.approx(1.0)  # "b" against "b": no articles
    assert (figures["forced"], figures["exact_string"]) == (0.5, 0.0)
    assert rates([(HARD, None)])["precision"] == 0.0
    assert rates([]) == {"n": 0}


def test_nothing_is_said_of_answers_that_nobody_can_judge():
    unknown = HARD.model_copy(update={"answer": None})
    assert rates([(unknown, scores("x", None)), (unknown, None)]) == {"n": 2, "answer_rate": 0.5}


def test_without_a_search_key_nothing_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for variable in ("CERTIGRAPH_SEARCH", "SERPER_API_KEY", "BRAVE_API_KEY", "SEARXNG_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    benchmark(tmp_path)
    options = ["assistantbench", "--data", str(tmp_path), "--model", "scripted:first"]
    said = CliRunner().invoke(app, ["run", "sdp", *options])
    assert isinstance(said.exception, Fault)
    assert "SERPER_API_KEY" in str(said.exception)
    assert not (tmp_path / "runs").exists()
