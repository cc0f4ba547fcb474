"""Batches under faults: no bad run ends the batch, endings are counted by kind, and retries lead to the same table."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")

from certigraph.adapters.benchmarks import BENCHMARKS
from certigraph.evaluation.evaluate import evaluate, evaluate_retry
from certigraph.evaluation.evaluation_results import Evaluation
from certigraph.evaluation.inspect_tasks import TASKS, task_of
from certigraph.state.records import UnknownName

pytestmark = pytest.mark.slow  # inspect_ai's own evaluations

IDS = [f"4-{n}" for n in range(10)]

TOUCHY = """
from pathlib import Path
from certigraph.adapters.blocksworld.benchmark import BlocksWorld
from certigraph.nodes.sdp import validate
from certigraph.state.records import Fault

FLAG = Path({flag!r})

async def touchy(state, runtime):
    if state["task"].id.endswith("5") and not FLAG.exists():
        raise ZeroDivisionError("touchy")
    return await validate(state, runtime)

class Lost(BlocksWorld):
    name = "lost"

    def open(self, task):
        world = super().open(task)
        if FLAG.exists():
            return world
        if task.id.endswith("7"):
            raise Fault("data", "the file of this task is torn")
        if task.id.endswith("8"):
            world.score = lambda: 1 / 0
        return world
"""


@pytest.fixture(autouse=True)
def _no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    return evaluate("sdp", "blocksworld", ids=IDS, out=tmp_path_factory.mktemp("plain"), quiet=True)


@pytest.fixture
def flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The operator and the benchmark of TOUCHY, which fail until this file exists."""
    file = tmp_path / "fixed"
    (tmp_path / "touchy_batch.py").write_text(TOUCHY.format(flag=str(file)))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "touchy_batch", raising=False)
    return file


def table(done: Evaluation) -> dict[str, tuple[str, float, int, int]]:
    return {row.id: (row.ending, row.value, row.certified, row.steps) for row in done.rows}


def retried(done: Evaluation, most: int = 8) -> Evaluation:
    for _ in range(most):
        if not done.failed:
            break
        done = evaluate_retry(done.log, quiet=True)
    return done


@pytest.mark.parametrize(
    ("faults", "ending"),
    [
        ("timeout=0.1,rate_limit=0.1,server_error=0.1,dropped=0.1,retry_after=0.001,seed=3", "error:model"),
        ("truncated=0.1,malformed=0.1,empty=0.1,refusal=0.1,wrong_schema=0.1,seed=3", "error:model"),
        ("crash=0.05,hang=0.02,delay=0.01,seed=3", "error:environment"),
    ],
)
def test_injected_faults_end_single_runs_and_retries_lead_to_the_same_table(
    tmp_path: Path, plain: Evaluation, faults: str, ending: str
) -> None:
    done = evaluate("sdp", "blocksworld", ids=IDS, faults=faults, out=tmp_path, quiet=True)
    assert sum(done.endings.values()) == len(done.rows) == len(IDS)
    assert {*done.endings} == {"goal", ending}
    assert len(done.failed) == done.endings[ending] > 0
    assert {row.footer.message for row in done.failed} != {""}
    assert table(retried(done)) == table(plain)


def test_an_operator_that_raises_ends_its_own_runs_alone(tmp_path: Path, plain: Evaluation, flag: Path) -> None:
    done = evaluate(
        "sdp", "blocksworld", ids=IDS, swaps=["validate=touchy_batch:touchy"], out=tmp_path / "runs", quiet=True
    )
    assert done.endings == {"goal": 9, "error:operator": 1}
    flag.touch()
    assert table(retried(done, 1)) == table(plain)


def test_data_that_is_torn_and_a_scorer_that_raises_end_no_batch(
    tmp_path: Path, plain: Evaluation, flag: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BENCHMARKS, "lost", "touchy_batch:Lost")
    monkeypatch.setitem(TASKS, "lost", task_of("lost"))
    done = evaluate("sdp", "lost", ids=IDS, out=tmp_path / "runs", quiet=True)
    assert done.endings == {"goal": 9, "error:data": 1}
    unscored = {row.id: row.value for row in done.rows if row.footer.scores is None}
    assert unscored == {task: 0.0 for task in IDS if task.endswith(("7", "8"))}
    flag.touch()
    again = table(retried(done, 1))
    assert {task: again[task] for task in again if not task.endswith("8")} == {
        task: row for task, row in table(plain).items() if not task.endswith("8")
    }


def test_faults_that_do_not_exist_are_refused_before_any_run(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="melt"):
        evaluate("sdp", "blocksworld", ids=IDS[:1], faults="melt=0.5", out=tmp_path, quiet=True)
    assert not list(tmp_path.glob("*sdp*"))
