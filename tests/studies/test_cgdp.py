"""CGDP's study: arms as methods, runs that go on, the blended counterfactual, and a report at any time."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from helpers.worlds.study_world import QUESTIONS, Riddles

from certigraph import benchmarks as registered
from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.protocols import Context, Limits
from certigraph.adapters.trajectories import read_trajectory
from certigraph.cli.evaluations import study_app
from certigraph.evaluation import compare as comparing
from certigraph.evaluation.compare import ComparisonJob
from certigraph.evaluation.comparison import build_plan
from certigraph.nodes.specs import Spec
from certigraph.state.endings import Fault, Interrupted, UnknownName
from certigraph.studies.cgdp import (
    StudyReport,
    StudySelection,
    combine_arms,
    methods_of,
    run_command,
    small_corpus_note,
    write_report,
)
from certigraph.studies.cgdp_runs import HARNESSES, MEMORIES, StudyArm, arm_of, read_study_runs
from certigraph.studies.cgdp_tables import study_frames

ROOT = Path(__file__).parents[2]
TWO = ("native", "structured")
CSV_ONLY = {"fire_rounds", "state_difference", "signals"}
"""Tables that are not part of the page."""

pytestmark = pytest.mark.slow


def study_job(*, tasks: Sequence[str] = tuple(QUESTIONS), world: Riddles | None = None, **arms: Any) -> ComparisonJob:
    given = StudySelection(**{"harnesses": ("ircot",), "memories": TWO, **arms})
    live = world or Riddles()
    context = Context(limits=Limits(steps=40, passages=2))
    return ComparisonJob(build_plan("riddles", methods_of(given), tasks, context), context, live)


def studied(given: ComparisonJob, folder: Path) -> pd.DataFrame:
    """The episodes of a study that is carried out to its end."""
    comparing.run_comparison(given, folder, silent=True)
    return study_frames(read_study_runs(given.plan, folder, given.benchmark), {}).episodes


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[StudyReport, Path]:
    """The four questions under two conditions, with a shadow gate and with a real one."""
    given, folder = study_job(gates=("shadow", "on")), tmp_path_factory.mktemp("study")
    comparing.run_comparison(given, folder, silent=True)
    return write_report(given.plan, folder, given.benchmark), folder


def episodes(study: StudyReport, method: str) -> pd.DataFrame:
    return of(study.frames.episodes, method)


def of(rows: pd.DataFrame, method: str) -> pd.DataFrame:
    return rows[rows["method"] == method].set_index("task")


# --- arms


def test_arms_cross_harnesses_and_conditions_but_nothing_is_taken_from_the_memoryless():
    names = [arm.name for arm in combine_arms(HARNESSES, MEMORIES, ["shadow"])]
    assert len(names) == len(set(names)) == 15
    assert "iter_retgen/lobotomized" not in names


@pytest.mark.parametrize(
    ("arms", "fix"),
    [
        ({"harnesses": ["pbay"]}, "iter_retgen"),
        ({"memories": ["none"]}, "freeform"),
        ({"gates": ["maybe"]}, "shadow"),
        ({"gates": ["off", "shadow"]}, "omit off"),
        ({"harnesses": ["iter_retgen"], "memories": ["lobotomized"]}, "no memory to take away"),
        ({"ablate": "beta"}, "depth"),
        ({"gate": "exhausted_gate"}, "exhaustion_gate"),
    ],
)
def test_what_is_unknown_is_refused_with_what_is_known(arms: dict[str, Any], fix: str):
    with pytest.raises(UnknownName, match=fix):
        methods_of(StudySelection(**arms))


@pytest.mark.parametrize("gate", ["shadow", "on", "off"])
def test_every_arm_is_a_method_that_can_be_built_again(gate: str):
    for method in methods_of(StudySelection(gates=(gate,))):
        assert method.build().name == arm_of(method).harness
        assert (arm_of(method).name, arm_of(method).gate) == (method.name, gate)


def test_ablations_vary_what_they_name():
    alpha = {method.name: method for method in methods_of(StudySelection(ablate="alpha", harnesses=("ircot",)))}
    capacity = methods_of(StudySelection(ablate="k", harnesses=("ircot",)))
    depth = [arm_of(method).variant for method in methods_of(StudySelection(ablate="depth", memories=("native",)))]
    decide = Spec.model_validate(alpha["ircot/native alpha=0"].operators["decide"])
    assert decide.args == {"decide": Spec(name="reason"), "alpha": 0.0}
    assert alpha["ircot/native"].operators["decide"] == {"name": "reason", "args": {}}
    assert [method.operators["memory"] for method in capacity] == [
        {"name": "structured", "args": {"searches": 0}},
        {"name": "structured", "args": {"searches": 0, "target": 12, "trigger": 20}},
    ]
    assert depth == ["depth=3", "depth=5", "depth=10"]


def test_the_depth_of_an_ablation_reaches_the_searches(tmp_path: Path):
    given = study_job(ablate="depth", memories=("native",), tasks=["found"])
    assert studied(given, tmp_path)["variant"].tolist() == ["depth=3", "depth=5", "depth=10"]
    turns = [read_trajectory(path).state()["turns"] for path in _trajectories(tmp_path)]
    assert [len(first.sources) for first, *_ in turns] == [3, 4, 4]  # four have a word of the question


def _trajectories(folder: Path) -> list[Path]:
    return sorted(folder.rglob("trajectory.jsonl"))


# --- the blended counterfactual


@pytest.mark.long
@pytest.mark.parametrize("memory", TWO)
def test_the_blended_side_of_a_shadow_is_what_the_gate_really_does(whole: tuple[StudyReport, Path], memory: str):
    shadow, real = (episodes(whole[0], f"ircot/{memory}{gated}") for gated in ("", "+gate"))
    assert shadow["fired"].tolist() == real["fired"].tolist()
    assert shadow["blended_score"].tolist() == real["score"].tolist()
    assert shadow["blended_tokens"].tolist() == real["tokens"].tolist()


def test_the_gate_stops_the_looping_run_before_it_forgets(whole: tuple[StudyReport, Path]):
    rows = episodes(whole[0], "ircot/native")
    assert rows["fired"].dropna().to_dict() == {"looped": 4}
    assert (rows.loc["looped", "score"], rows.loc["looped", "blended_score"]) == (0, 100)
    assert rows.loc["looped", "answer_tokens"] > 0
    assert rows.loc["looped", "blended_tokens"] < rows.loc["looped", "tokens"]


def test_a_natural_run_is_the_same_with_a_shadow_and_without(whole: tuple[StudyReport, Path], tmp_path: Path):
    plain = of(studied(study_job(memories=("native",), gates=("off",)), tmp_path), "ircot/native")
    columns = ["score", "tokens", "calls", "rounds"]
    assert plain[columns].equals(episodes(whole[0], "ircot/native")[columns])


def test_the_gate_table_adds_up(whole: tuple[StudyReport, Path]):
    table, rows = whole[0].tables["gate"].set_index("method"), episodes(whole[0], "ircot/native")
    line = table.loc["ircot/native"]
    saved = rows["tokens"].sum() - rows["blended_tokens"].sum()
    assert (line["n"], line["fire"], line["mean_round"], line["change"]) == (4, 0.25, 4, 25)
    assert line["saving"] == pytest.approx(100 * saved / rows["tokens"].sum())


def test_a_replay_of_the_gate_that_ran_fires_where_it_did(whole: tuple[StudyReport, Path]):
    replays = whole[0].frames.replays
    mine = replays[(replays["method"] == "ircot/native") & (replays["setting"] == "f_j0.6_u0.3_p2")].set_index("task")
    rows = episodes(whole[0], "ircot/native")
    assert whole[0].tables["gate_replay"]["setting"].nunique() == 16
    assert mine["fired"].equals(rows["fired"].rename("fired"))
    unpaid = rows.loc["looped", "blended_tokens"] - rows.loc["looped", "answer_tokens"]
    assert mine.loc["looped", "saved"] == rows.loc["looped", "tokens"] - unpaid


# --- what runs went through


def test_what_gates_look_at_is_listed_by_round(whole: tuple[StudyReport, Path]):
    rows = whole[0].tables["signals"]
    rounds = rows[rows["method"] == "ircot/native"].set_index("round")
    assert (rounds.loc[1, "value"], rounds.loc[1, "stale"]) == (1.0, 0.0)
    assert (rounds.loc[3, "value"], rounds.loc[3, "stale"], rounds.loc[3, "repeated"]) == (0.0, 1.0, 1.0)  # looped


def test_each_question_shows_its_gap(whole: tuple[StudyReport, Path]):
    rows = episodes(whole[0], "ircot/native")
    gaps = rows[["G4", "G5/G6", "G7"]].fillna(False)
    shown = {task: {gap for gap in gaps.columns if gaps.loc[task, gap]} for task in rows.index}
    assert shown == {"found": set(), "looped": {"G5/G6"}, "hasty": {"G4"}, "swapped": {"G4", "G7"}}


def test_beliefs_are_charged_for_their_reorganisations(whole: tuple[StudyReport, Path]):
    rows = episodes(whole[0], "ircot/structured")
    looped = rows.loc["looped"]
    assert rows["reorganisations"].to_dict() == {"found": 0, "looped": 4, "hasty": 0, "swapped": 0}
    assert looped["reorganisation_calls"] == 4
    assert 0 < looped["reorganisation_tokens"] < looped["tokens"]
    assert rows["artefact"].to_dict() == {"found": False, "looped": True, "hasty": False, "swapped": False}
    assert episodes(whole[0], "ircot/native")["artefact"].isna().all()


def test_prompts_grow_with_the_trajectory_and_not_with_a_belief(whole: tuple[StudyReport, Path]):
    rounds = whole[0].frames.rounds
    mine = rounds[rounds["task"] == "looped"].pivot_table("agent", "round", "method")
    grown = mine.loc[10] - mine.loc[4]
    assert grown["ircot/native"] > 100
    assert grown["ircot/structured"] <= 0


def test_differences_are_families_of_paired_tests(whole: tuple[StudyReport, Path]):
    table = whole[0].tables["differences"]
    assert set(table["family"]) == {"memory", "gate"}
    gate = table[(table["family"] == "gate") & (table["measure"] == "score")].set_index("left")
    assert gate.loc["ircot/native+gate", "difference"] == 25
    assert gate.loc["ircot/native+gate", "right"] == "ircot/native"
    assert (table["p_holm"] >= table["p"]).all()


def test_scores_are_given_by_hops(whole: tuple[StudyReport, Path]):
    table = whole[0].tables["hops"]
    mine = table[table["method"] == "ircot/native"].set_index("hops")["value"]
    assert mine.to_dict() == {1: 0.0, 2: 100.0}


# --- the report


def test_every_table_is_a_file_and_on_the_page(whole: tuple[StudyReport, Path]):
    study, folder = whole
    page = (folder / "study.html").read_text(encoding="utf-8")
    for name, table in study.tables.items():
        read = pd.read_csv(folder / f"{name}.csv") if not table.empty else table
        assert len(read) == len(table)
        assert (f"{name}.csv" in page) == (not table.empty and name not in CSV_ONLY)
    assert "a script answers for the model" in page
    assert "<script" not in page
    assert not list(folder.glob("*.unfinished"))


def test_a_report_of_a_folder_with_nothing_done_says_so(tmp_path: Path):
    given = study_job(tasks=["found"])
    study = write_report(given.plan, _begun(given, tmp_path), given.benchmark)
    assert study.frames.episodes.empty
    page = (tmp_path / "study.html").read_text(encoding="utf-8")
    assert "<section>" in page and "<table" not in page
    assert run_command(given, tmp_path, at_once=1, report_only=True, as_json=True) == 1


def _begun(given: ComparisonJob, folder: Path) -> Path:
    comparing.save_or_check_plan(given.plan, folder, "the command")
    return folder


def test_an_interrupted_study_reports_what_it_has_and_goes_on(tmp_path: Path, whole: tuple[StudyReport, Path]):
    class Interrupting(Riddles):
        def open(self, task: Any) -> Any:
            if task.id == "hasty":
                raise KeyboardInterrupt
            return super().open(task)

    given = study_job(world=Interrupting(), memories=("native",), tasks=("found", "hasty"))
    with pytest.raises(Interrupted, match=f"certigraph study cgdp --out {tmp_path}"):
        run_command(given, tmp_path, at_once=1, report_only=False, as_json=True)
    half = write_report(given.plan, tmp_path, given.benchmark)
    assert set(half.frames.episodes["task"]) == {"found"}
    assert "1 run not finished" in (tmp_path / "study.html").read_text(encoding="utf-8")
    again = studied(given._replace(benchmark=Riddles()), tmp_path)
    columns = ["method", "task", "score", "blended_tokens", "fired"]
    mine = whole[0].frames.episodes.query("method == 'ircot/native' and task in ('found', 'hasty')")
    assert again[columns].equals(mine[columns].reset_index(drop=True))


def test_runs_that_an_error_ended_are_counted_and_in_no_other_table(tmp_path: Path):
    class Failing(Riddles):
        def open(self, task: Any) -> Any:
            if task.id == "hasty":
                raise OSError("the world is down")
            return super().open(task)

    given = study_job(world=Failing(), memories=("native",), tasks=("found", "hasty"))
    comparing.run_comparison(given, tmp_path, silent=True)
    study = write_report(given.plan, tmp_path, given.benchmark)
    [row] = study.tables["errors"].to_dict("records")
    assert (row["method"], row["ending"].partition(":")[0], row["count"], row["runs"]) == (
        "ircot/native",
        "error",
        1,
        2,
    )
    assert study.frames.episodes["task"].tolist() == ["found"]
    assert "errors.csv" in (tmp_path / "study.html").read_text(encoding="utf-8")


# --- the command


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registered.BENCHMARKS, "riddles", "helpers.worlds.study_world:Riddles")


def command(*arguments: object) -> int:
    return int(study_app(["cgdp", *map(str, arguments)], standalone_mode=False) or 0)


def test_the_command_runs_a_study(named: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    arms = ("--harness", "ircot", "--memory", "native")
    assert command("--on", "riddles", *arms, "--limit", 1, "--out", tmp_path, "--json") == 0
    parsed = json.loads(capsys.readouterr().out)
    assert [line["value"] for line in parsed["scores"] if line["measure"] == "score"] == [100.0]
    assert parsed["gate"][0]["saving"] == 0


@pytest.mark.long
def test_the_command_goes_on_with_its_folder(
    named: None, whole: tuple[StudyReport, Path], capsys: pytest.CaptureFixture[str]
):
    assert command("--out", whole[1]) == 0
    captured = capsys.readouterr()
    assert "16 done" in captured.err
    assert str(whole[1] / "study.html") in captured.out.replace("\n", "")


@pytest.mark.long
def test_a_killed_study_goes_on_where_it_was(named: None, tmp_path: Path, whole: tuple[StudyReport, Path]):
    code = (
        "import sys; sys.path[:0] = ['tests']\n"
        "from certigraph import benchmarks as registered\n"
        "registered.BENCHMARKS['riddles'] = 'helpers.worlds.study_world:Riddles'\n"
        "from certigraph.cli.evaluations import study_app\n"
        "study_app(sys.argv[1:], standalone_mode=False)\n"
    )
    arms = ["--harness", "ircot", "--memory", "native", "--memory", "structured", "--gate", "shadow", "--gate", "on"]
    line = [sys.executable, "-c", code, "cgdp", "--on", "riddles", *arms, "--out", str(tmp_path), "--json"]
    process = subprocess.Popen(line, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and len(_trajectories(tmp_path)) < 7:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = subprocess.run(line, cwd=ROOT, capture_output=True, check=True, text=True)
    assert json.loads(done.stdout)["pareto"] == json.loads(whole[0].tables["pareto"].to_json(orient="records"))


def test_arm_names_tell_gate_and_variant():
    assert StudyArm("react", "freeform", "on", "alpha=1").name == "react/freeform+gate alpha=1"


@pytest.mark.long
def test_graphs_next_to_the_arms_are_compared_and_no_line_of_the_study(
    named: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    line = ("--on", "riddles", "--harness", "ircot", "--memory", "native", "--limit", 1, "--out", tmp_path)
    # ircot itself has the operators of an arm
    assert command(*line, "--beside", "react", "--beside", "ircot", "--json") == 0
    parsed = json.loads(capsys.readouterr().out)
    assert {row["method"] for row in parsed["scores"]} == {"ircot/native"}
    assert [method["method"] for method in parsed["comparison"]["methods"]] == ["ircot/native", "react", "ircot"]
    assert "not finished" not in (tmp_path / "study.html").read_text(encoding="utf-8")
    assert command("--out", tmp_path, "--report-only") == 0
    assert str(tmp_path / "comparison.html") in capsys.readouterr().out.replace("\n", "")


def test_a_folder_of_another_study_is_refused_with_the_studys_command(named: None, tmp_path: Path):
    line = ("--on", "riddles", "--harness", "ircot", "--memory", "native", "--out", tmp_path, "--json")
    assert command(*line, "--limit", 1) == 0
    with pytest.raises(Fault, match=f"certigraph study cgdp --out {tmp_path}"):
        command(*line, "--limit", 2)


def test_a_corpus_too_small_for_new_passages_is_named():
    musique = load_benchmark("musique")
    tasks = [task.id for task in musique.tasks()[:2]]
    assert "musique:corpus" in small_corpus_note(musique, tasks)
    assert small_corpus_note(load_benchmark("musique:corpus"), tasks) == ""
    assert small_corpus_note(load_benchmark("locomo"), ["made-0/0"]) == ""
