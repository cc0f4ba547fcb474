"""`certigraph ask`: what it prints, its statuses, and what it says where it cannot begin."""

import json
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from certigraph import benchmarks as registered
from certigraph import cli
from certigraph.benchmarks.assistantbench.web import OwnQuestion
from certigraph.evaluation.frames import find_runs, select_scored
from certigraph.state.endings import Fault
from certigraph.state.records import Task
from certigraph.state.search import create_question_task

KEYS = ("OPENAI_API_KEY", "CERTIGRAPH_BASE_URL", "CERTIGRAPH_SEARCH", "SERPER_API_KEY", "BRAVE_API_KEY", "SEARXNG_URL")


class Printed(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def certigraph(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in ("CERTIGRAPH_DATA", *KEYS):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str) -> Printed:
        with pytest.raises(SystemExit) as stop:
            cli.main(list(arguments))
        return Printed(int(stop.value.code or 0), *capsys.readouterr())

    return call


@pytest.fixture
def ask(certigraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Ask of a script; the folder of pages makes its world one of this test alone."""
    monkeypatch.setitem(registered.BENCHMARKS, "ask", "helpers.sample_runs.question_runs:NamedInquiry")
    (tmp_path / "pages").mkdir()
    return lambda *options: certigraph(
        "ask", "How much is it?", "--pages", "pages", "--model", "scripted:expert", *options
    )


def test_json_is_one_object_and_nothing_else(ask):
    shown = ask("--json")
    parsed = json.loads(shown.out)
    assert (shown.status, shown.err) == (0, "")
    assert (parsed["question"], parsed["answer_certified"]) == ("How much is it?", True)
    assert {"calls", "tokens", "usd", "searches", "pages", "seconds"} <= parsed["cost"].keys()


@pytest.mark.slow
def test_a_spent_budget_is_resumed_by_the_command_that_is_printed_and_closes_as_it_began(ask, certigraph):
    shown = ask("--budget", "steps=3")
    assert shown.status == 1
    (command,) = re.findall(r"^resume with: certigraph (.*)$", shown.out, re.MULTILINE)
    again = certigraph(*command.split(" "))
    assert again.status == 0
    assert "answer: 20" in again.out
    assert "resume with" not in again.out


def test_no_path_enters_the_trajectory(ask, tmp_path: Path):
    ask()
    (trajectory,) = tmp_path.rglob("trajectory.jsonl")
    assert str(tmp_path) not in trajectory.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("",), "1 to 2,000"),
        (("x" * 2_001,), "2,001"),
        (("Why?", "--pages", "nowhere"), "nowhere"),
        (("Why?", "--pages", ".", "--search", "serper"), "--search serper"),
        (("Why?", "--model", "simulated:accept=0.1", "--search", "generated"), "--search generated"),
        (("Why?", "--swap", "answer=ask.anser"), "ask.answer"),
        (("Why?", "--model", "scripted:first", "--budget", "coins=1"), "tokens"),
    ],
)
def test_unusable_arguments_are_one_line(certigraph, arguments, message, tmp_path: Path):
    shown = certigraph("ask", *arguments)
    assert shown.status == 2
    assert message in shown.err
    assert shown.err.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_a_missing_search_key_is_reported_before_a_run_begins(certigraph, tmp_path: Path):
    shown = certigraph("ask", "Why?", "--model", "scripted:first")
    assert shown.status == 2
    assert "export SERPER_API_KEY=" in shown.err
    assert not (tmp_path / "runs").exists()


def test_ctrl_c_says_the_command_that_goes_on(ask, monkeypatch: pytest.MonkeyPatch):
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("certigraph.benchmarks.ask.run", interrupted)
        shown = ask()
    assert shown.status == 130
    assert "certigraph resume runs" in shown.err


def test_nobody_scores_a_question_of_ones_own(ask, tmp_path: Path):
    shown = ask()
    assert "score" not in shown.out
    (report,) = tmp_path.rglob("report.html")
    assert 'class="badge plain"' not in report.read_text()


def test_nobody_analyses_or_judges_a_question_of_ones_own(ask):
    ask()
    found = find_runs([Path("runs")])
    with pytest.raises(Fault, match="nothing to analyse: show one with certigraph report runs/"):
        select_scored(found)
    other = found.runs[0][1].model_copy(update={"task": Task(benchmark="web", id="gyms/1")})
    assert select_scored(found._replace(runs=[*found.runs, (Path("x"), other)])).runs == [(Path("x"), other)]
    assert OwnQuestion().gold(create_question_task("Why?")).answers == ()


def test_a_folder_of_pages_is_all_the_web_there_is(tmp_path: Path):
    (tmp_path / "gym.md").write_text("The Root gym opens at five in the morning.", encoding="utf-8")
    web = OwnQuestion(tmp_path).web(create_question_task("When does the Root gym open?"))
    (hit,) = web.search(web.provider, "Root gym", 5)
    assert hit.url.endswith("gym.md")


@pytest.mark.slow
def test_a_question_of_the_generated_web_is_answered_offline(certigraph, tmp_path: Path, monkeypatch):
    pytest.importorskip("trafilatura")
    from certigraph.benchmarks.assistantbench.web import GeneratedWeb

    monkeypatch.setenv("CERTIGRAPH_WEB_CACHE", str(tmp_path))
    task = GeneratedWeb().task("museum/1")
    shown = certigraph("ask", task.goal, "--search", "generated", "--model", "scripted:expert", "--json")
    parsed = json.loads(shown.out)
    assert shown.status == 0
    assert parsed["answer"] == GeneratedWeb().question(task.id).answer
    assert all(found["certified"] and found["sources"] for found in parsed["findings"])
    assert any(found["against"] for found in parsed["findings"])
    assert parsed["cost"]["searches"] > 0
    assert parsed["cost"]["pages"] > 0
