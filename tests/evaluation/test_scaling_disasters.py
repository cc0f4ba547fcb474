"""What an evaluation on Ray workers outlives: its own death, Ctrl-C, and a worker and Postgres killed at once."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")
pytest.importorskip("psycopg", reason="pip install 'certigraph[postgres]'")
pytest.importorskip("ray", reason="pip install 'certigraph[ray]'")

from postgres_server import VARIABLE, Server
from scaled import assert_all_there, await_ended, busy, driver, pids, resumed

from certigraph.evaluation.evaluate import evaluate_retry
from certigraph.evaluation.evaluation_results import Evaluation, read_evaluation
from certigraph.runtime.registry import load_local

pytestmark = pytest.mark.slow


def test_a_worker_and_the_postgres_server_are_killed_and_nothing_certified_is_lost(
    server: Server, undisturbed: Evaluation, site: Path, tmp_path: Path
):
    out = tmp_path / "out"
    evaluating = driver(out, site, env={VARIABLE: server.url})
    await_ended(out, 2, evaluating)
    os.kill(busy(site, out), signal.SIGKILL)
    server.kill()
    time.sleep(0.7)
    server.start()
    assert evaluating.wait(120) == 0
    assert {path.read_text().partition(" ")[2] for path in (site / "pids").iterdir()} == {"127.0.0.1"}

    [log] = out.glob("*.eval")
    done = read_evaluation(log)
    assert_all_there(done, undisturbed, out)
    assert 0 < len(resumed(out)) <= 4
    assert {load_local(out / row.run).checkpoints for row in done.rows} == {"postgres"}
    names = [row.run for row in done.rows]
    assert server.sql("SELECT count(*) FROM checkpoints WHERE thread_id = ANY(%s)", names) == [(0,)]  # all are over


def test_a_killed_driver_takes_its_workers_along_and_a_retry_finishes(
    undisturbed: Evaluation, site: Path, tmp_path: Path
):
    out = tmp_path / "out"
    evaluating = driver(out, site)
    await_ended(out, 3, evaluating)
    evaluating.kill()
    assert evaluating.wait() == -signal.SIGKILL
    [log] = out.glob("*.eval")
    await_gone(site)
    assert_all_there(evaluate_retry(log, quiet=True), undisturbed, out)  # on a cluster or, as here, without one


def test_an_interrupted_driver_leaves_nothing_running_and_says_how_to_go_on(site: Path, tmp_path: Path):
    out = tmp_path / "out"
    evaluating = driver(out, site, stdout=subprocess.PIPE, start_new_session=True)
    await_ended(out, 1, evaluating)
    os.killpg(evaluating.pid, signal.SIGINT)  # as a terminal does
    said, _ = evaluating.communicate(timeout=60)
    assert "certigraph eval --retry" in said
    assert said.rstrip().endswith("--ray local")
    await_gone(site)


def await_gone(site: Path) -> None:
    """Wait for the workers to end by themselves."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and any(Path(f"/proc/{pid}").exists() for pid in pids(site)):
        time.sleep(0.1)
    assert [pid for pid in pids(site) if Path(f"/proc/{pid}").exists()] == []
