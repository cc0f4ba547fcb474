"""What a sweep's file expands to: methods, tasks, and what every run is given."""

from pathlib import Path

import pytest

pytest.importorskip("yaml", reason="pip install 'certigraph[eval]'")
pytest.importorskip("statsmodels", reason="pip install 'certigraph[eval]'")

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.protocols import Budget
from certigraph.evaluation.sweep import prepared
from certigraph.evaluation.sweep_file import Case, Sweep, expanded
from certigraph.state.records import Fault, UnknownName

LEAST = "benchmarks: [blocksworld]\ngraphs: [sdp]\n"


@pytest.fixture(autouse=True)
def _generated_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)


def file(folder: Path, text: str) -> Path:
    path = folder / "sweep.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def asked(*graphs: str, operators: tuple[dict[str, str], ...] = ({},)) -> Sweep:
    return Sweep(benchmarks=(Case(name="blocksworld"),), graphs=graphs, operators=operators)


def test_every_graph_with_every_variant_that_fits_it():
    variants = ({}, {"validate": "always_pass"}, {"validate": "capped:depth=1", "replan": "give_up"})
    methods, left_out = expanded(asked("sdp", "react", operators=variants))
    assert [method.name for method in methods] == [
        "sdp",
        "sdp validate=always_pass",
        "sdp validate=capped:depth=1+replan=give_up",
        "react",
    ]
    assert methods[2].operators["validate"] == {"name": "capped", "args": {"depth": 1}}
    assert left_out == (
        "validate=always_pass is not run in react (no slot validate)",
        "validate=capped:depth=1+replan=give_up is not run in react (no slot validate, replan)",
    )


def test_a_variant_that_changes_nothing_is_run_once():
    methods, left_out = expanded(asked("sdp", operators=({}, {"validate": "validate"})))
    assert [method.name for method in methods] == ["sdp"]
    assert left_out == ("sdp validate=validate has the operators of sdp: run once",)


@pytest.mark.parametrize(
    ("graph", "operators", "told"),
    [
        ("sdpp", {}, "unknown graph 'sdpp'; known: .*sdp"),
        (
            "sdp",
            {"validat": "always_pass"},
            "no graph of the sweep has the slots of validat=always_pass; sdp: .*validate",
        ),
        ("sdp", {"validate": "always_pas"}, "unknown operator 'always_pas'"),
        ("sdp", {"validate": "capped:dept=1"}, "cannot be made"),
    ],
)
def test_names_that_do_not_exist(graph: str, operators: dict[str, str], told: str):
    with pytest.raises(UnknownName, match=told):
        expanded(asked(graph, operators=(operators,)))


def test_what_a_run_is_given(tmp_path: Path):
    text = """
benchmarks:
  - {name: blocksworld, tasks: [4-0]}
  - {name: travelplanner, limit: 2}
graphs: [sdp]
model: simulated
budget: {calls: 40, steps: 7}
cache: replies
faults: crash=0.5
checkpoints: ""
"""
    given = prepared(file(tmp_path, text), tmp_path / "out")
    blocks, travel = (arm.order for arm in given.arms)
    assert [arm.folder.name for arm in given.arms] == ["blocksworld", "travelplanner"]
    assert (blocks.plan.tasks, len(travel.plan.tasks)) == (("4-0",), 2)
    assert (blocks.plan.budget, blocks.plan.limits.steps) == (Budget(calls=40), 7)
    assert (blocks.plan.faults, blocks.context.faults) == ("crash=0.5", "crash=0.5")
    assert blocks.context.cache == str(tmp_path / "replies")
    assert not given.out.exists()


def test_spread_over_difficulty_where_that_is_asked_for(tmp_path: Path):
    pytest.importorskip("inspect_ai")
    from certigraph.evaluation.inspect_tasks import stratified

    text = "benchmarks: [travelplanner]\ngraphs: [sdp]\nlimit: 4\n"
    live = load_benchmark("travelplanner")
    first, spread = (prepared(file(tmp_path, text + more)).arms[0].order.plan.tasks for more in ("", "stratify: yes\n"))
    assert list(first) == [task.id for task in live.tasks()[:4]]
    assert list(spread) == [task.id for task in stratified(live.tasks(), 4)]


def test_shared_dollars_need_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.delenv("CERTIGRAPH_BASE_URL", raising=False)
    text = LEAST + "most: {usd: 1}\nmodel: openai:"
    with pytest.raises(Fault, match=r"a-model.* has no known price"):
        prepared(file(tmp_path, text + "a-model\n"))
    assert prepared(file(tmp_path, text + "gpt-4o-mini\n")).sweep.most.usd == 1
