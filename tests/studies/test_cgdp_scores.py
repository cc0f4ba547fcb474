"""CGDP's study by a rubric: a scripted judge with fixed grades, and the tables that follow from them by hand."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from helpers.worlds.study_world import Riddles

from certigraph import benchmarks as registered
from certigraph.adapters.models.scripts import ScriptedChat, current_situation
from certigraph.adapters.protocols import Budget, Context, Limits
from certigraph.cli.evaluations import study_app
from certigraph.evaluation import compare as comparing
from certigraph.evaluation.compare import ComparisonJob
from certigraph.evaluation.comparison import build_plan, read_plan
from certigraph.evaluation.judges import read_judgements
from certigraph.state.endings import Fault, UnknownName
from certigraph.studies.cgdp import DEFAULT_BENCHMARK, StudySelection, methods_of, write_report
from certigraph.studies.cgdp_scores import JUDGEMENTS, RubricChoice, read_scores, score_study

pytestmark = pytest.mark.slow

GRADES = {"Silt": (10, 10, 0), "bridges": (8, 10, 0), "roofs": (0, 0, 5), "lamps": (2, 0, 0)}
"""Correctness, completeness and irrelevance of each answer: 100, 88, 0 (ten below is none) and 12 by the rubric."""

CGDP = RubricChoice(rubric="cgdp")


class Judge:
    """A judge with fixed grades, which keeps the answers that it was asked about."""

    def __init__(self, grades: Mapping[str, tuple[int, int, int]] = GRADES) -> None:
        self.grades, self.requests = grades, list[str]()

    def __call__(self, prompt: str, schema: dict[str, Any]) -> dict[str, Any]:
        situation = current_situation()
        assert situation
        answer = str(situation.view["answer"])
        self.requests.append(answer)
        names = ("correctness", "completeness", "irrelevance")
        return {"reason": "so", **dict(zip(names, self.grades[answer], strict=True))}


def study(gates: tuple[str, ...] = ("shadow",), **context: Any) -> ComparisonJob:
    """Four questions by ircot with its own memory, played by their script."""
    chosen = StudySelection(harnesses=("ircot",), memories=("native",), gates=gates)
    own = Context(limits=Limits(steps=40, passages=2))
    live = Riddles()
    plan = build_plan("riddles", methods_of(chosen), [task.id for task in live.tasks()], own)
    return ComparisonJob(plan, own.model_copy(update=context), live)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("study")
    comparing.run_comparison(study(), place, silent=True)
    return place


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "study"))


def judged(place: Path, judge: Judge, *, at_once: int = 1, calls: int = 10) -> Any:
    given = study(chat=ScriptedChat(responder=judge), budget=Budget(calls=calls))
    score_study(given, place, Riddles(), CGDP, at_once=at_once, silent=True)
    return read_scores(given, place, Riddles(), CGDP)


def tables(place: Path, judge: Judge) -> Mapping[str, pd.DataFrame]:
    return write_report(study().plan, place, Riddles(), judged(place, judge)).tables


def test_every_table_has_the_judges_scores_also_for_the_gates_answers(copied: Path):
    shown = tables(copied, Judge())
    [gate] = shown["gate"].to_dict("records")
    assert (gate["natural"], gate["blended"], gate["change"]) == (
        pytest.approx((100 + 0 + 12 + 12) / 4),
        pytest.approx((100 + 88 + 12 + 12) / 4),
        pytest.approx(22.0),
    )
    [score] = shown["scores"][shown["scores"]["measure"] == "score"]["value"]
    assert score == pytest.approx(31.0)
    assert shown["pareto"].set_index("gate")["score"].to_dict() == {
        "off": pytest.approx(31.0),
        "on": pytest.approx(53.0),
    }
    gaps = shown["gaps"].set_index("gap")["shown"]
    assert gaps["G4"] == 2  # hasty, and swapped, which the benchmark's own score cannot be right about
    assert gaps["G7"] == 1


def test_the_rules_of_gaps_follow_the_judge(copied: Path):
    shown = tables(copied, Judge({**GRADES, "lamps": (10, 10, 0)}))
    gaps = shown["gaps"].set_index("gap")["shown"]
    assert (gaps["G4"], gaps["G7"]) == (0, 0)


def test_an_answer_is_judged_once(copied: Path):
    first, second = Judge(), Judge()
    judged(copied, first)
    assert sorted(first.requests) == ["Silt", "bridges", "lamps", "lamps", "roofs"]
    scores = judged(copied, second)
    assert (second.requests, scores.left) == ([], 0)


def test_several_judgements_at_a_time_are_the_same(copied: Path, folder: Path):
    judged(copied, Judge(), at_once=4)
    kept = {(one.run, one.answer): one.score for one in read_judgements(copied / JUDGEMENTS)}
    assert sorted(kept.values()) == [0, 12, 12, 88, 100]


def test_runs_without_a_judgement_are_left_out_and_counted(copied: Path):
    (copied / JUDGEMENTS).write_text("")
    none_yet = read_scores(study(), copied, Riddles(), CGDP)
    assert none_yet is not None
    assert none_yet.left == 5
    report = write_report(study().plan, copied, Riddles(), none_yet)
    assert report.frames.episodes.empty
    assert "5 answers" in (copied / "study.html").read_text(encoding="utf-8")


def test_who_scored_stands_in_files_and_page(copied: Path):
    tables(copied, Judge())
    assert "rubric cgdp" in (copied / "study.html").read_text(encoding="utf-8")
    rows = pd.read_csv(copied / "episodes.csv").set_index("task")
    assert (rows.loc["found", "score"], rows.loc["found", "benchmark_score"]) == (100, 100)
    assert (rows.loc["hasty", "score"], rows.loc["hasty", "benchmark_score"]) == (12, 0)


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registered.BENCHMARKS, "riddles", "helpers.worlds.study_world:Riddles")


def command(*arguments: object) -> int:
    return int(study_app(["cgdp", *map(str, arguments)], standalone_mode=False) or 0)


@pytest.mark.long
def test_the_command_scores_by_a_rubric_and_keeps_the_choice(
    named: None, copied: Path, capsys: pytest.CaptureFixture[str]
):
    assert command("--out", copied, "--rubric", "cgdp", "--json") == 0
    assert json.loads(capsys.readouterr().out)["scored"].startswith("cgdp by ")
    assert command("--out", copied, "--json") == 0
    assert json.loads(capsys.readouterr().out)["scored"].startswith("cgdp by ")
    assert command("--out", copied, "--rubric", "own", "--json") == 0
    assert json.loads(capsys.readouterr().out)["scored"] == "own"


def test_a_report_asks_no_judge(named: None, copied: Path, capsys: pytest.CaptureFixture[str]):
    assert command("--out", copied, "--rubric", "cgdp", "--report-only", "--json") == 1
    assert json.loads(capsys.readouterr().out)["scores"] == []
    assert not (copied / JUDGEMENTS).exists()


def test_what_is_wrong_with_a_rubric_is_reported(named: None, copied: Path):
    with pytest.raises(UnknownName, match="cgdp"):
        command("--out", copied, "--rubric", "stars")
    with pytest.raises(UnknownName, match="--rubric"):
        command("--out", copied, "--judge", "scripted:expert")
    (copied / "rubric.json").write_text("[]")
    with pytest.raises(Fault, match="--rubric"):
        command("--out", copied)


@pytest.mark.timeout(900)  # a fresh machine computes the vectors of the corpus: four minutes
def test_a_study_without_a_benchmark_is_of_the_whole_corpus(tmp_path: Path):
    assert command("--harness", "ircot", "--memory", "native", "--limit", 1, "--out", tmp_path, "--json") == 0
    assert read_plan(tmp_path).benchmark == DEFAULT_BENCHMARK
