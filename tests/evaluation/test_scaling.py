"""Evaluations on a Ray cluster of this machine: the table of one process, whichever workers are killed on the way."""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")
if not find_spec("ray"):
    pytest.skip("pip install 'certigraph[ray]'", allow_module_level=True)

from scaled import OURS, TASKS, assert_all_there, begin, child_env, figures, pids, resumed, table

from certigraph.evaluation import workers as cluster
from certigraph.evaluation.evaluate import evaluate, evaluate_retry
from certigraph.evaluation.evaluation_results import Evaluation
from certigraph.evaluation.soak import slow_endpoint

pytestmark = pytest.mark.slow

PRICES = '["loopback"]\nread = 10\nwritten = 10\n'


@pytest.fixture(scope="module", autouse=True)
def _cluster_of_two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cluster whose workers know a slow endpoint and its price."""
    with slow_endpoint(0.02) as url, pytest.MonkeyPatch.context() as patch:
        prices = tmp_path_factory.mktemp("prices") / "prices.toml"
        prices.write_text(PRICES)
        cache = str(tmp_path_factory.mktemp("cache"))
        for name in OURS:
            patch.delenv(name, raising=False)
        known = {"XDG_CACHE_HOME": cache, "CERTIGRAPH_BASE_URL": url, "CERTIGRAPH_PRICES": str(prices)}
        for name, value in {**known, **cluster.ALONE}.items():
            patch.setenv(name, value)
        import ray  # which reads how far it listens

        ray.init(address="local", num_cpus=2, **cluster.QUIET)
        yield
        ray.shutdown()


@pytest.mark.parametrize(
    ("model", "budget"), [("simulated:act=0.1,seed=2", []), ("openai:loopback", ["usd=0.1"])], ids=["script", "priced"]
)
def test_the_table_is_that_of_one_process(model: str, budget: list[str], tmp_path: Path):
    asked: dict[str, Any] = {"model": model, "ids": TASKS[::2], "trials": 2, "budget": budget, "quiet": True}
    here = evaluate("sdp", "blocksworld", out=tmp_path / "here", **asked)
    spread = evaluate("sdp", "blocksworld", out=tmp_path / "spread", ray="local", workers=2, **asked)
    assert table(spread) == table(here)
    assert figures(spread) == figures(here)
    assert len(spread.rows) == 10
    assert {row.run for row in spread.rows} == {path.parent.name for path in (tmp_path / "spread").glob("*/*.jsonl")}
    assert all((row.footer.usage.usd > 0) == bool(budget) for row in spread.rows)


def test_killed_workers_cost_no_more_than_the_step_under_way(undisturbed: Evaluation, site: Path, tmp_path: Path):
    out = tmp_path / "out"
    done = killed_meanwhile(out, site)
    assert_all_there(done, undisturbed, out)
    assert 0 < len(resumed(out)) <= 4


def killed_meanwhile(out: Path, site: Path) -> Evaluation:
    """An evaluation on two workers, both of which are killed once three runs have ended."""
    watch = f"""
import os, signal
from pathlib import Path
from scaled import await_ended, pids
await_ended(Path({str(out)!r}), 3)
for pid in pids(Path({str(site)!r})):
    os.kill(pid, signal.SIGKILL)
"""
    watching = subprocess.Popen([sys.executable, "-c", watch], env=child_env())
    done = begin(out, ray="local", workers=2)
    assert watching.wait(30) == 0
    return done


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
