"""A limit of dollars is refused before anything starts where a model's price is unknown, whoever was to ask it."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")
pytest.importorskip("yaml", reason="pip install 'certigraph[eval]'")

from certigraph.adapters.models.usage import TABLE
from certigraph.adapters.protocols import Budget, Context
from certigraph.evaluation.compare import Choice, order
from certigraph.evaluation.comparison import methods_from
from certigraph.evaluation.evaluate import evaluate
from certigraph.evaluation.sweep import prepared
from certigraph.state.records import Fault

MINE = "openai:mine"


def evaluated(out: Path) -> None:
    evaluate(model=MINE, budget=["usd=1"], limit=1, out=out)


def evaluated_by_workers(out: Path) -> None:
    evaluate(model="scripted:expert", roles=[f"planner={MINE}"], budget=["usd=1"], limit=1, ray="local", out=out)


def compared(out: Path) -> None:
    order(methods_from(["sdp"]), "blocksworld", Choice(limit=1), Context(model=MINE, budget=Budget(usd=1)))


def swept(out: Path) -> None:
    file = out / "sweep.yaml"
    file.write_text(f"benchmarks: [blocksworld]\ngraphs: [sdp]\nmodel: {MINE}\nlimit: 1\nbudget: {{usd: 1}}\n")
    try:
        prepared(file, out / "sweep")
    finally:
        file.unlink()


@pytest.mark.parametrize("begin", [evaluated, evaluated_by_workers, compared, swept])
def test_dollars_without_a_price_are_refused(
    begin: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CERTIGRAPH_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.delenv(TABLE, raising=False)
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    with pytest.raises(Fault, match="mine has no known price") as refused:
        begin(tmp_path)
    assert refused.value.ending == "error:model"
    assert list(tmp_path.iterdir()) == []
