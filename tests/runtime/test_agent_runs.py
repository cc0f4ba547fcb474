"""Runs of agents: a request in place of a benchmark's task, with a folder, a report, approval and resume."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, TypedDict

import pytest
from helpers.cases import first_fast
from helpers.worlds.support_database import CONDITIONS, GOAL, SCRIPT, SupportDatabase, scripted_model
from langgraph.store.memory import InMemoryStore

import certigraph
from certigraph.graphs.agent import METHODS, AgentGraph, agent
from certigraph.state.endings import Fault, UnknownName

TESTS = Path(__file__).parent.parent
NAMES = [name for name, _ in SCRIPT]


@pytest.fixture
def database(tmp_path: Path) -> SupportDatabase:
    return SupportDatabase(tmp_path / "desk.sqlite")


def build(method: Any, database: SupportDatabase, **options: Any) -> AgentGraph:
    return agent(method, **{"model": scripted_model(), "tools": database.tools, **options})


@pytest.mark.parametrize("method", first_fast(METHODS, 2))
def test_a_run_of_every_method_is_recorded_and_reported_without_a_score(
    database: SupportDatabase, tmp_path: Path, method: Any
) -> None:
    result = certigraph.run(build(method, database), task=GOAL, out=tmp_path / "runs", keep_prompts=True)
    assert result.ending == ("goal" if method == "sdp" else "finished")
    assert result.scores is not None
    assert result.scores.answer == "Order 17 was refunded."
    assert len(database.rows("refunds")) == len(database.rows("mails")) == 1
    header = result.trajectory.header
    assert (header.graph, header.task.goal) == (f"{method}-agent", GOAL)
    assert "act" not in header.operators  # only what differs from the method is listed
    page = certigraph.write_report(result.trajectory, result.folder / "report.html").read_text(encoding="utf-8")
    assert all(text in page for text in (GOAL, "Order 17 was refunded.", *NAMES))
    assert not any(text in page for text in ("not scored", "of 100", "stopped: finished"))


def test_the_certificates_are_those_of_the_agent(database: SupportDatabase, tmp_path: Path) -> None:
    result = certigraph.run(build("sdp", database), task=GOAL, out=tmp_path / "runs")
    certified = [target.text for one in result.certificates for target in one.targets]
    assert certified[: len(CONDITIONS)] == CONDITIONS


def test_approval_and_resume_with_the_agent(database: SupportDatabase, tmp_path: Path) -> None:
    graph = build("sdp", database, interrupt_on={"refund": True})
    waiting = certigraph.run(graph, task=GOAL, out=tmp_path / "runs")
    [question] = waiting.questions
    assert isinstance(question, dict)
    assert database.rows("refunds") == []
    with pytest.raises(UnknownName, match="graph="):
        certigraph.resume(waiting.folder, answer={"type": "approve"})
    with pytest.raises(UnknownName, match=r"answer with: certigraph\.resume\('.*', graph=\.\.\., answer="):
        certigraph.resume(waiting.folder, graph=graph)
    certigraph.resume(waiting.folder, graph=graph, answer={"type": "maybe"})
    done = certigraph.resume(waiting.folder, graph=graph, answer={"type": "approve"})
    assert done.ending == "goal"
    assert len(database.rows("refunds")) == len(database.rows("mails")) == 1
    page = certigraph.write_report(done).read_text(encoding="utf-8")
    assert page.count("approved by a person") >= 2  # where it was made, and among the effects


def test_a_spent_budget_is_raised_on_resume(database: SupportDatabase, tmp_path: Path) -> None:
    graph = build("react", database, budget=certigraph.Budget(calls=3))
    stopped = certigraph.run(graph, task=GOAL, out=tmp_path / "runs")
    assert stopped.ending == "limit:calls"
    done = certigraph.resume(stopped.folder, graph=graph, budget=certigraph.Budget(calls=30))
    assert (done.ending, database.looked_up, len(database.rows("refunds"))) == ("finished", 1, 1)


def test_fields_of_a_given_context_replace_those_of_the_agent(database: SupportDatabase, tmp_path: Path) -> None:
    given = {"budget": {"calls": 2}}
    assert certigraph.run(build("react", database), task=GOAL, context=given, out=tmp_path).ending == "limit:calls"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({}, "needs a request"),
        ({"task": "  "}, "needs a request"),
        ({"task": 5}, "as text"),
        ({"task": GOAL, "benchmark": "blocksworld"}, "leave 'blocksworld' out"),
        ({"task": "Rotate the key sk-abcdefghijklmnopqrstuvwx1234567890."}, "holds a secret"),
    ],
)
def test_what_an_agent_cannot_run_on_is_refused_before_anything_is_written(
    database: SupportDatabase, tmp_path: Path, arguments: Any, reason: str
) -> None:
    with pytest.raises((UnknownName, TypeError, Fault), match=reason):
        certigraph.run(build("sdp", database), **arguments, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_an_agent_with_a_context_of_its_own_is_refused(database: SupportDatabase, tmp_path: Path) -> None:
    class Caller(TypedDict):
        user: str

    with pytest.raises(Fault, match="Caller"):
        certigraph.run(build("react", database, context_schema=Caller), task=GOAL, out=tmp_path)


def test_a_run_is_resumed_with_the_model_with_which_it_was_started(database: SupportDatabase, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patched, pytest.warns(certigraph.RunFailedWarning, match="graph="):
        patched.setenv("CERTIGRAPH_BASE_URL", "http://127.0.0.1:1/v1")
        patched.setenv("OPENAI_API_KEY", "none")
        context = {"model": "openai:other"}
        failed = certigraph.run(build("react", database), task=GOAL, context=context, out=tmp_path)
        again = certigraph.resume(failed.folder, graph=build("react", database), on_error="ignore")
    assert (failed.ending, again.ending) == ("error:model", "error:model")
    assert database.looked_up == 0


def test_a_run_is_resumed_only_with_the_agent_with_which_it_was_started(
    database: SupportDatabase, tmp_path: Path
) -> None:
    waiting = certigraph.run(build("sdp", database, interrupt_on={"refund": True}), task=GOAL, out=tmp_path)
    with pytest.raises(UnknownName, match="sdp-agent"):
        certigraph.resume(waiting.folder, graph=build("react", database), answer={"type": "approve"})


def test_lessons_of_step_go_to_the_store_of_the_agent(database: SupportDatabase, tmp_path: Path) -> None:
    store = InMemoryStore()
    certigraph.run(build("step", database, store=store, lessons=("everybody",)), task=GOAL, out=tmp_path)
    assert store.search(())


def test_runs_of_requests_are_left_out_of_analyses(database: SupportDatabase, tmp_path: Path) -> None:
    from certigraph.evaluation.frames import find_runs, select_scored

    certigraph.run(build("react", database), task=GOAL, out=tmp_path / "runs")
    with pytest.raises(Fault, match="requests have no score"):
        select_scored(find_runs([tmp_path / "runs"]))


# --- the command line

APPLICATION = """
import os, signal
from helpers.worlds.support_database import SupportDatabase, scripted_model
from certigraph import agent

def before(name):
    if name == os.environ.get("KILL_AT"):
        os.kill(os.getpid(), signal.SIGKILL)

database = SupportDatabase("desk.sqlite", before=before)
graph, step = (agent(method, model=scripted_model(), tools=database.tools) for method in ("sdp", "step"))
"""


def command(folder: Path, *arguments: str, kill_at: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "desk_app.py").write_text(APPLICATION)
    code = "from certigraph.cli import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "KILL_AT": kill_at}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


@pytest.mark.slow
def test_an_agent_named_on_the_command_line_shows_its_certificates_and_writes_a_report(tmp_path: Path) -> None:
    done = command(tmp_path, "run", "desk_app:graph", "--task", GOAL, "--out", "runs")
    assert done.returncode == 0, done.stderr
    assert all(text in done.stdout for text in (*CONDITIONS, "Order 17 was refunded.", "report.html"))
    assert "score" not in done.stdout
    finished = command(tmp_path, "run", "desk_app:step", "--task", GOAL)
    assert (finished.returncode, "score" in finished.stdout) == (0, False), finished.stderr
    as_json = json.loads(command(tmp_path, "run", "desk_app:step", "--task", GOAL, "--json").stdout)
    assert (as_json["model"], as_json["language_model"]) == ("live:scripted", False)
    assert command(tmp_path, "run", "desk_app:graph", "--task", GOAL, "--budget", "calls=1").returncode == 1
    for script in ("scripted:expert", "simulated"):
        refused = command(tmp_path, "run", "desk_app:graph", "--task", GOAL, "--model", script)
        assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1), refused.stderr
        assert "leave it out for the agent's own model" in refused.stderr


@pytest.mark.slow
def test_a_killed_run_asks_about_the_call_that_was_cut_off_and_its_effect_happens_once(tmp_path: Path) -> None:
    killed = command(tmp_path, "run", "desk_app:graph", "--task", GOAL, kill_at="refunded")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    [folder] = (tmp_path / "runs").iterdir()
    waiting = command(tmp_path, "resume", str(folder))
    assert waiting.returncode == 3
    assert "refund" in waiting.stdout
    answer = json.dumps({"decisions": [{"type": "happened", "result": "refunded 17: 49.9"}]})
    done = command(tmp_path, "resume", str(folder), "--answer", answer, "--json")
    fields = json.loads(done.stdout)
    assert (fields["ending"], fields["certified"]) == ("goal", len(CONDITIONS) + 1)
    database = SupportDatabase(tmp_path / "desk.sqlite")
    assert len(database.rows("refunds")) == len(database.rows("mails")) == 1
