"""Tests of `evaluation.inspect_runs`."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from helpers.processes.children import child_environment
from helpers.servers.misbehaving_endpoint import misbehaving_endpoint
from inspect_ai.log import read_eval_log, write_eval_log
from langchain_openai import ChatOpenAI
from langgraph.runtime import Runtime
from pydantic import SecretStr
from tenacity import Future, RetryError

from certigraph.adapters.models.calls import ask_text
from certigraph.adapters.models.chat_models import describe_model, label_object
from certigraph.adapters.models.prompts import Prompt
from certigraph.adapters.models.usage import Meter, metering
from certigraph.adapters.protocols import Budget, Context
from certigraph.adapters.trajectories import read_trajectory
from certigraph.evaluation.evaluate import evaluate, evaluate_retry
from certigraph.evaluation.evaluation_results import Evaluation
from certigraph.evaluation.inspect_runs import BridgedChat, RunJournal, SampleRun
from certigraph.state.endings import Fault
from certigraph.state.records import Task

# Requests that fail behind inspect's bridge: inspect has repeated them, so that nobody here does it once more.

pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")


class Bridged(BridgedChat):
    """Behind it is a model of inspect's that needs no evaluation around it."""

    behind: str = "mockllm/model"

    @property
    def priced_as(self) -> str:
        return self.behind

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model": self.behind}


def query_bridge(
    monkeypatch: pytest.MonkeyPatch, behind: str = "mockllm/model", **budget: Any
) -> tuple[Fault, int, int]:
    """The fault of a question, the calls that were booked, and the requests that were made."""
    requests: list[None] = []

    async def spent(*args: Any, **kwargs: Any) -> None:
        requests.append(None)
        attempt = Future(5)
        attempt.set_exception(ConnectionError("down, says sk-0123456789abcdefghij"))
        raise RetryError(attempt)

    monkeypatch.setattr(ChatOpenAI, "_agenerate", spent)
    chat = Bridged(model="inspect", behind=behind, api_key=SecretStr("none"), max_retries=0, disable_streaming=True)
    runtime = Runtime(context=Context(chat=chat))
    with metering(Meter("propose", Budget(**budget))) as meter, pytest.raises(Fault) as fault:
        asyncio.run(ask_text(Prompt("s", "u"), role="planner", runtime=runtime))
    return fault.value, meter.calls, len(requests)


@pytest.mark.parametrize("behind", ["local", "anthropic/claude"])
def test_a_header_names_the_model_behind_inspect(monkeypatch: pytest.MonkeyPatch, behind: str) -> None:
    name = f"certigraph/{behind}" if behind == "local" else behind
    monkeypatch.setattr(BridgedChat, "_behind", property(lambda chat: name))
    chat = Bridged(model="inspect", api_key=SecretStr("none"))
    assert label_object(chat) == f"live:inspect/{behind}"
    assert describe_model(label_object(chat)) == f"inspect/{behind} (object)"


def test_what_inspect_repeated_in_vain_is_one_call_and_one_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    fault, calls, requests = query_bridge(monkeypatch)
    assert (fault.ending, calls, requests) == ("error:model", 1, 1)
    assert "down" in str(fault) and "sk-0123" not in str(fault)


@pytest.mark.parametrize(("behind", "requests"), [("certigraph/local", 1), ("mockllm/model", 0)])
def test_with_dollars_limited_only_what_is_free_or_priced_is_queried(
    monkeypatch: pytest.MonkeyPatch, behind: str, requests: int
) -> None:
    fault, calls, made = query_bridge(monkeypatch, behind, usd=1.0)
    assert (calls, made) == (requests, requests)
    assert ("no known price" in str(fault)) == (not requests)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["refuses_schema", "refuses_temperature", "fails_first"])
def test_each_request_of_an_evaluation_is_a_call_of_its_run(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with misbehaving_endpoint(kind) as server:
        monkeypatch.setenv("CERTIGRAPH_BASE_URL", server.url)
        given = {"model": "openai:m", "ids": ["4-0", "4-1"], "budget": ["calls=12"], "quiet": True}
        evaluate("sdp", "blocksworld", **given, out=tmp_path)  # type: ignore[arg-type]
        calls = [read_trajectory(path).usage.calls for path in tmp_path.glob("*/trajectory.jsonl")]
    assert sum(calls) == server.count and max(calls) <= 12


# An evaluation whose process is killed: a retry runs only what was missing; the table is an uninterrupted one's.

pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")


TASKS = [f"{blocks}-{seed}" for blocks in (3, 4, 5) for seed in range(5)]
TRIALS = 2
RUNS = TRIALS * len(TASKS)
AT_ONCE = 3

SLOW = """
import asyncio
from certigraph.nodes.sdp import validate

async def slow(state, runtime):
    await asyncio.sleep(0.05)
    return await validate(state, runtime)
"""

CHILD = """
import sys
from pathlib import Path
from test_inspect_runs import begin
begin(Path(sys.argv[1]))
"""


def begin(out: Path) -> Evaluation:
    return evaluate(
        "sdp",
        "blocksworld",
        model="simulated:act=0.1,accept=0,reject=0,seed=2",
        ids=TASKS,
        trials=TRIALS,
        swaps=["validate=slow_operators:slow"],
        out=out,
        max_samples=AT_ONCE,
        quiet=True,
    )


@pytest.fixture
def _slow_operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_operators.py").write_text(SLOW)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "slow_operators", raising=False)
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)


def killed(out: Path, site: Path, finished: int) -> Path:
    """Begin an evaluation in another process, kill it once so many runs have ended, and give its log."""
    env = child_environment(site, Path(__file__).parent)
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(out)], env=env, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while len(ended(out)) < finished and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    _, errors = child.communicate(timeout=30)
    assert child.returncode == -signal.SIGKILL, errors
    [log] = out.glob("*.eval")
    return log


def ended(out: Path) -> dict[str, bytes]:
    """The trajectories with a footer, by their run's name."""
    texts = {path.parent.name: path.read_bytes() for path in out.glob("*/trajectory.jsonl")}
    return {name: text for name, text in texts.items() if b'"type":"footer"' in text}


def table(evaluation: Evaluation) -> dict[tuple[str, int], Any]:
    return {
        (row.id, row.trial): (row.ending, row.footer.scores, row.certified, row.footer.usage.calls, row.tokens)
        for row in evaluation.rows
    }


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("_slow_operator")
@pytest.mark.parametrize("finished", [1, 13])
def test_a_killed_evaluation_is_finished_without_running_anything_twice(finished: int, tmp_path: Path):
    whole, out = begin(tmp_path / "whole"), tmp_path / "killed"
    log = killed(out, tmp_path, finished)
    before = ended(out)
    begun = {path.parent.name for path in out.glob("*/trajectory.jsonl")}
    assert finished <= len(before) < RUNS
    assert read_eval_log(str(log)).status == "started"

    done = evaluate_retry(log, quiet=True)

    assert len(whole.rows) == len(done.rows) == RUNS
    assert {name: ended(out)[name] for name in before} == before  # not even touched
    assert len(list(out.glob("*/trajectory.jsonl"))) == RUNS  # begun runs were gone on with, not begun again
    assert begun <= {row.run for row in done.rows}
    assert (done.figures, done.intervals) == (whole.figures, whole.intervals)
    cut_off = {(row.id, row.trial) for row in done.rows if row.run in begun - set(before)}
    assert len(cut_off) <= AT_ONCE
    assert {key: row for key, row in table(done).items() if key not in cut_off} == {
        key: row for key, row in table(whole).items() if key not in cut_off
    }
    for row in done.rows:
        redone = [event.usage.calls for event in read_trajectory(out / row.run).superseded]
        [expected] = [r.footer.usage.calls for r in whole.rows if (r.id, r.trial) == (row.id, row.trial)]
        assert row.footer.usage.calls == expected + sum(redone)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.usefixtures("_slow_operator")
def test_an_evaluation_killed_twice_and_retried_after_its_end_still_runs_nothing_twice(tmp_path: Path):
    out = tmp_path / "out"
    killed(out, tmp_path, 5)
    first = evaluate_retry(out, quiet=True)
    again = evaluate_retry(first.log, quiet=True)
    assert table(again) == table(first)
    assert again.figures == first.figures
    assert len(list(out.glob("*/trajectory.jsonl"))) == RUNS


@pytest.mark.slow
@pytest.mark.usefixtures("_slow_operator")
def test_the_journal_survives_a_torn_line(tmp_path: Path):
    journal = RunJournal(tmp_path, "journal")
    for run in ("run-a", "run-b"):
        (tmp_path / run).mkdir()
        (tmp_path / run / "trajectory.jsonl").write_text("{}\n")
    journal.record(SampleRun("4-0", 0), "run-a")
    with (tmp_path / "journal.jsonl").open("a") as file:
        file.write('\n["4-0", 1, "ru')
    later = RunJournal(tmp_path, "journal")
    assert later._latest_folder(SampleRun("4-0", 1)) is None
    later.record(SampleRun("4-0", 1), "run-b")
    last = RunJournal(tmp_path, "journal")
    assert last._latest_folder(SampleRun("4-0", 0)) == tmp_path / "run-a"
    assert last._latest_folder(SampleRun("4-0", 1)) == tmp_path / "run-b"


@pytest.mark.parametrize("written", [None, "", '{"type": "hea'])
def test_a_run_that_was_killed_before_its_header_is_begun_in_its_own_folder(tmp_path: Path, written: str | None):
    cell, task = SampleRun("4-0", 0), Task(benchmark="b", id="4-0", goal="g")
    name = RunJournal(tmp_path, "journal").find_or_name_run(cell, "sdp", task)
    (tmp_path / name).mkdir()
    if written is not None:
        (tmp_path / name / "trajectory.jsonl").write_text(written)
    later = RunJournal(tmp_path, "journal")
    assert later.find_or_name_run(cell, "sdp", task) == name
    assert later.restarts(cell) == 0
    shutil.rmtree(tmp_path / name)
    assert RunJournal(tmp_path, "journal").find_or_name_run(cell, "sdp", task) != name


@pytest.mark.slow
@pytest.mark.usefixtures("_slow_operator")
def test_a_journal_names_runs_next_to_it_and_none_elsewhere(tmp_path: Path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "trajectory.jsonl").write_text("{}\n")
    for line in (
        '["4-0", 0, ".."]',
        f'["4-0", 0, "{tmp_path}"]',
        '["4-0", 0, "../x"]',
        '["4-0", 0, 7]',
        "7",
        '["4-0"]',
    ):
        (tmp_path / "runs" / "journal.jsonl").write_text(line)
        assert RunJournal(tmp_path / "runs", "journal")._latest_folder(SampleRun("4-0", 0)) is None


@pytest.mark.slow
@pytest.mark.usefixtures("_slow_operator")
def test_a_retry_from_another_folder_finds_the_runs_next_to_their_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    begun = evaluate("sdp", "blocksworld", model="scripted:first", ids=["3-0"], budget=["calls=1"], out="runs")
    log = Path(begun.log).resolve()
    broken = read_eval_log(str(log))
    assert broken.samples
    broken.status, broken.samples = "started", []  # as a kill before inspect's first batch leaves it
    write_eval_log(broken, str(log))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)

    done = evaluate_retry(os.path.relpath(log), quiet=True)

    assert [row.run for row in done.rows] == [row.run for row in begun.rows]
    assert not list(elsewhere.iterdir())
