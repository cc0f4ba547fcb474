"""Evaluations on a Ray cluster of this machine: the table of one process, whoever is killed on the way."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")
pytest.importorskip("ray", reason="pip install 'certigraph[ray]'")

import ray

from certigraph.evaluation.bench.soak_endpoint import slow_endpoint
from certigraph.evaluation.evaluate import Evaluation, evaluate, evaluate_retry
from certigraph.evaluation.scaling import cluster
from certigraph.state.reading import read_trajectory

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TASKS = [f"{blocks}-{seed}" for blocks in (3, 4, 5) for seed in range(3)]
ENDPOINT = "openai:loopback"

OPERATORS = """
import asyncio, os, pathlib, signal
from certigraph.nodes.validate import validate

HERE = pathlib.Path(__file__).parent

async def slow(state, runtime):
    (HERE / "pids" / str(os.getpid())).touch()
    await asyncio.sleep(0.05)
    return await validate(state, runtime)

async def deadly(state, runtime):
    if state["task"].id == "3-1" and not (HERE / "harmless").exists():
        (HERE / "pids" / str(os.getpid())).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return await validate(state, runtime)
"""

DRIVER = """
import sys
from pathlib import Path
from test_scaling import begin
from certigraph.state.endings import Interrupted
try:
    begin(Path(sys.argv[1]), ray="local", workers=2)
except Interrupted as stopped:
    print(stopped)
"""


@pytest.fixture(scope="module", autouse=True)
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cluster whose workers know a slow endpoint."""
    with slow_endpoint(0.02) as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        for name in ("CERTIGRAPH_DATA", "CERTIGRAPH_POSTGRES", "OPENAI_API_KEY", "INSPECT_EVAL_MODEL"):
            patch.delenv(name, raising=False)
        patch.setenv("CERTIGRAPH_BASE_URL", url)
        for name, value in cluster.ALONE.items():
            patch.setenv(name, value)
        ray.init(address="local", num_cpus=2, **cluster.QUIET)
        yield
        ray.shutdown()


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of operators."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "pids").mkdir()
    (folder / "scaling_operators.py").write_text(OPERATORS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield folder


@pytest.fixture(scope="module")
def whole(operators: Path, tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    """What nobody disturbed came to, in one process."""
    return begin(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def site(operators: Path, whole: Evaluation) -> Path:
    """The folder of operators, in which workers that use one leave the number of their process."""
    for path in (operators / "pids").iterdir():
        path.unlink()
    (operators / "harmless").unlink(missing_ok=True)
    return operators


def begin(out: Path, **given: Any) -> Evaluation:
    return evaluate(
        "sdp",
        "blocksworld",
        model="simulated:act=0.1,accept=0,reject=0,seed=2",
        ids=TASKS,
        swaps=["validate=scaling_operators:slow"],
        out=out,
        max_samples=4,
        quiet=True,
        **given,
    )


def table(evaluation: Evaluation, but: set[str] = frozenset()) -> dict[tuple[str, int], Any]:
    """All rows without what differs from run to run, and without some runs."""
    return {
        (row.id, row.trial): {**row.as_json(), "run": "", "footer": {**row.footer.as_json(), "usage": _counted(row)}}
        for row in evaluation.rows
        if row.run not in but
    }


def _counted(row: Any) -> dict[str, Any]:
    return {**row.footer.usage.as_json(), "seconds": 0, "model": ""}


def figures(evaluation: Evaluation) -> Any:
    return evaluation.figures, evaluation.intervals, evaluation.endings


def await_ended(out: Path, count: int, process: "subprocess.Popen[str] | None" = None) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (process is None or process.poll() is None):
        texts = [path.read_bytes() for path in out.glob("*/trajectory.jsonl")]
        if sum(b'"type":"footer"' in text for text in texts) >= count:
            return
        time.sleep(0.02)


def pids(site: Path) -> list[int]:
    return [int(path.name) for path in (site / "pids").iterdir()]


def assert_nothing_paid_twice(done: Evaluation, whole: Evaluation, out: Path) -> None:
    """Beyond the step that was under way when its worker was killed."""
    usual = {(row.id, row.trial): row.footer.usage.calls for row in whole.rows}
    for row in done.rows:
        trajectory = read_trajectory(out / row.run)
        redone = [event.usage.calls for event in trajectory.superseded]
        assert not any(event.update and event.update.get("certificates") for event in trajectory.superseded[:-1])
        assert len(redone) <= 2 * len([line for line in trajectory.events if line.node == "act"])
        assert row.footer.usage.calls == usual[row.id, row.trial] + sum(redone)


@pytest.mark.parametrize("model", ["simulated:act=0.1,seed=2", ENDPOINT])
def test_the_table_is_that_of_one_process(model: str, tmp_path: Path):
    asked: dict[str, Any] = {"model": model, "ids": TASKS[::2], "trials": 2, "quiet": True}
    here = evaluate("sdp", "blocksworld", out=tmp_path / "here", **asked)
    spread = evaluate("sdp", "blocksworld", out=tmp_path / "spread", ray="local", workers=2, **asked)
    assert table(spread) == table(here)
    assert figures(spread) == figures(here)
    assert len(spread.rows) == 10
    assert {row.run for row in spread.rows} == {path.parent.name for path in (tmp_path / "spread").glob("*/*.jsonl")}


@pytest.mark.parametrize("how_many", [1, 2])
def test_killed_workers_cost_no_more_than_the_step_under_way(
    how_many: int, whole: Evaluation, site: Path, tmp_path: Path
):
    out = tmp_path / "out"
    done = killed_meanwhile(out, site, how_many)
    assert figures(done) == figures(whole)
    cut_off = {row.run for row in done.rows if read_trajectory(out / row.run).superseded}
    resumed = {path.parent.name for path in out.glob("*/*.jsonl") if '"type":"resumed"' in path.read_text()}
    assert cut_off <= resumed
    assert 0 < len(resumed) <= 4
    assert table(done, cut_off).items() <= table(whole).items()
    assert_nothing_paid_twice(done, whole, out)
    assert len(list(out.glob("*/trajectory.jsonl"))) == len(TASKS)


def killed_meanwhile(out: Path, site: Path, how_many: int) -> Evaluation:
    """An evaluation on two workers, of which some are killed once three runs have ended."""
    watch = f"""
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_scaling import await_ended, pids
await_ended(Path({str(out)!r}), 3)
for pid in pids(Path({str(site)!r}))[:{how_many}]:
    os.kill(pid, signal.SIGKILL)
"""
    watching = subprocess.Popen([sys.executable, "-c", watch], env=child_env())
    done = begin(out, ray="local", workers=2)
    assert watching.wait(30) == 0
    return done


def child_env(*more: Path) -> dict[str, str]:
    paths = [*more, ROOT / "src", ROOT / "tests", Path(__file__).parent]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}


def test_a_run_that_takes_every_worker_down_is_an_error_and_alone(site: Path, tmp_path: Path):
    given: dict[str, Any] = {"ids": TASKS[:6], "swaps": ["validate=scaling_operators:deadly"], "out": tmp_path / "out"}
    done = evaluate("sdp", "blocksworld", ray="local", workers=2, max_samples=4, quiet=True, **given)
    assert done.endings == {"goal": 5, "error:environment": 1}
    assert [(row.id, "3 workers were lost" in row.footer.message) for row in done.failed] == [("3-1", True)]
    assert len(pids(site)) == 3
    (site / "harmless").touch()
    again = evaluate_retry(done.log, ray="local", workers=1, quiet=True)
    assert again.endings == {"goal": 6}
    assert {row.run for row in again.rows} == {row.run for row in done.rows}


def test_a_killed_driver_takes_its_workers_along_and_a_retry_finishes(whole: Evaluation, site: Path, tmp_path: Path):
    out = tmp_path / "out"
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, str(out)], env=child_env(site))
    await_ended(out, 3, driver)
    driver.kill()
    assert driver.wait() == -signal.SIGKILL
    [log] = out.glob("*.eval")
    done = evaluate_retry(log, ray="local", workers=2, quiet=True)
    assert figures(done) == figures(whole)
    assert_nothing_paid_twice(done, whole, out)
    assert len(list(out.glob("*/trajectory.jsonl"))) == len(TASKS)
    assert_gone(site)


def test_an_interrupted_driver_leaves_nothing_running_and_says_how_to_go_on(site: Path, tmp_path: Path):
    out = tmp_path / "out"
    command = [sys.executable, "-c", DRIVER, str(out)]
    group: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True, "start_new_session": True}
    driver = subprocess.Popen(command, env=child_env(site), **group)
    await_ended(out, 2, driver)
    os.killpg(driver.pid, signal.SIGINT)  # as a terminal does
    said, _ = driver.communicate(timeout=60)
    assert "certigraph eval --retry" in said
    assert said.rstrip().endswith("--ray local")
    assert_gone(site)


def assert_gone(site: Path) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and any(Path(f"/proc/{pid}").exists() for pid in pids(site)):
        time.sleep(0.1)
    alive = [pid for pid in pids(site) if Path(f"/proc/{pid}").exists()]
    assert alive == []


def test_runs_may_lie_in_a_store_named_by_a_url(site: Path, tmp_path: Path):
    store = tmp_path / "store"
    given: dict[str, Any] = {"ids": TASKS[:3], "swaps": ["validate=scaling_operators:deadly"], "quiet": True}
    done = evaluate("sdp", "blocksworld", out=store.as_uri(), ray="local", workers=1, **given)
    assert done.endings == {"goal": 2, "error:environment": 1}
    left = {row.run for row in done.failed}
    assert {path.parent.name for path in store.glob("*/trajectory.jsonl")} == {row.run for row in done.rows} - left
    (site / "harmless").touch()

    again = evaluate_retry(done.log, quiet=True)  # in this process, on the machine where the lost run had come so far

    assert (again.endings, again.figures["solved"]) == ({"goal": 3}, 1)
    assert {path.parent.name for path in store.glob("*/trajectory.jsonl")} == {row.run for row in again.rows}
    assert left < {row.run for row in again.rows}
    assert len(list(store.glob("*.eval"))) == 2
    scratch = Path(os.environ["XDG_CACHE_HOME"]) / "certigraph" / "runs"
    assert list(scratch.glob("*/*/")) == []
