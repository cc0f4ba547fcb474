"""Files of sweeps: what they say, what is refused, and the methods, tasks and contexts that they expand to."""

from pathlib import Path

import pytest

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.protocols import Budget
from certigraph.evaluation.comparison import select_stratified_tasks
from certigraph.evaluation.sweep import (
    MAX_FILE_BYTES,
    Sweep,
    SweepBenchmark,
    expand_sweep,
    prepare_sweep,
    read_sweep,
)
from certigraph.state.endings import Fault

# A sweep's file: what it may say, what is refused and how that is reported.

pytest.importorskip("yaml", reason="pip install 'certigraph[eval]'")


LEAST = "benchmarks: [blocksworld]\ngraphs: [sdp]\n"


def file(folder: Path, text: str) -> Path:
    path = folder / "sweep.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_what_a_file_says(tmp_path: Path):
    sweep = read_sweep(
        file(
            tmp_path,
            """
model: simulated:act=0.2
roles: {planner: scripted:expert}
benchmarks:
  - blocksworld
  - {name: travelplanner:paper, limit: 10, label: paper}
graphs: [sdp, react]
operators:
  - {}
  - {validate: "capped:depth=1", replan: give_up}
limit: 4
trials: 2
budget: {calls: 40, usd: 1.5, steps: 60}
most: {usd: 20, hours: 1.5}
at_once: 3
faults: crash=0.1
""",
        )
    )
    assert [case.title for case in sweep.benchmarks] == ["blocksworld", "paper"]
    assert [sweep.choice_of(case).limit for case in sweep.benchmarks] == [4, 10]
    assert sweep.operators == ({}, {"validate": "capped:depth=1", "replan": "give_up"})
    assert (sweep.budget, sweep.most.usd, sweep.most.tokens) == ({"calls": 40, "usd": 1.5, "steps": 60}, 20, None)
    assert (sweep.trials, sweep.at_once, sweep.roles) == (2, 3, {"planner": "scripted:expert"})


def test_texts_stay_texts(tmp_path: Path):
    sweep = read_sweep(file(tmp_path, LEAST + "tasks: [4-0, 1:30, no, 2024-01-01, 007]\n"))
    assert sweep.tasks == ("4-0", "1:30", "no", "2024-01-01", "007")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graphs: [sdp]\n", "benchmarks: "),
        ("", "graphs: "),
        ("- sdp\n", "sweep.yaml: "),
        (LEAST + "limt: 3\n", "limt: "),
        ("graphs: [sdp]\nbenchmarks:\n- {nam: x}\n", "benchmarks.0.nam: "),
        (LEAST + "most:\n  usdd: 3\n", "most.usdd: "),
        (LEAST + "most: {usd: -1}\n", "most.usd: .*0"),
        (LEAST + "most: {hours: inf}\n", "most.hours: "),
        (LEAST + "budget:\n  calls: many\n", "budget.calls: "),
        (LEAST + "trials: 0\n", "trials: .*1"),
        (LEAST + "trials: 99999999999\n", "trials: .*1000"),
        (LEAST + "graphs: [react]\n", "YAML: .*'graphs'.*line 1"),
        (LEAST + "operators: [{gate: a, gate: b}]\n", "YAML: .*'gate'.*line 3"),
        ("a: &x 1\nb: *x\n", "YAML: .*aliases.*line 2"),
        (LEAST + "? [a]\n: 3\n", "YAML: .*line 3"),
        ("[" * 60 + "]" * 60, "sweep.yaml: "),
        ("[" * 100_000, "YAML: "),
        ("graphs: [sdp\n", "YAML: .*line 2"),
        ("a: \x00", "YAML: "),
        (LEAST + "---\na: b\n", "YAML: .*another document"),
        ("benchmarks: [a, {name: A}]\ngraphs: [sdp]\n", "`benchmarks` is given twice"),
        ("benchmarks: [a]\ngraphs: [sdp, sdp]\n", "`graphs` is given twice"),
        (LEAST + "operators: [{}, {}]\n", "`operators` is given twice"),
        ("!!python/object/apply:os.system [echo]\n", "sweep.yaml: "),
    ],
)
def test_what_is_refused_and_how_it_is_reported(text: str, message: str, tmp_path: Path):
    with pytest.raises(Fault, match=message):
        read_sweep(file(tmp_path, text))


def test_growing_files_cost_nothing(tmp_path: Path):
    laughs = "a: &a [x, x]\n" + "".join(
        f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    with pytest.raises(Fault, match="aliases"):
        read_sweep(file(tmp_path, laughs))
    with pytest.raises(Fault, match="bytes; a sweep's file has at most"):
        read_sweep(file(tmp_path, "#" * (MAX_FILE_BYTES + 1)))
    with pytest.raises(Fault, match=r"no file .*certigraph sweep"):
        read_sweep(tmp_path / "missing.yaml")


# What a sweep's file expands to: methods, tasks, and what every run is given.

pytest.importorskip("yaml", reason="pip install 'certigraph[eval]'")
pytest.importorskip("statsmodels", reason="pip install 'certigraph[eval]'")


@pytest.fixture
def _generated_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)


def make_sweep(*graphs: str, operators: tuple[dict[str, str], ...] = ({},)) -> Sweep:
    return Sweep(benchmarks=(SweepBenchmark(name="blocksworld"),), graphs=graphs, operators=operators)


@pytest.mark.usefixtures("_generated_worlds")
def test_every_graph_with_every_variant_that_fits_it():
    variants = ({}, {"validate": "always_pass"}, {"validate": "capped:depth=1", "replan": "give_up"})
    methods, left_out = expand_sweep(make_sweep("sdp", "react", operators=variants))
    assert [method.name for method in methods] == [
        "sdp",
        "sdp validate=always_pass",
        "sdp validate=capped:depth=1+replan=give_up",
        "react",
    ]
    assert methods[2].operators["validate"] == {"name": "capped", "args": {"depth": 1}}
    assert left_out == [
        "validate=always_pass is not run in react (no slot validate)",
        "validate=capped:depth=1+replan=give_up is not run in react (no slot validate, replan)",
    ]


@pytest.mark.usefixtures("_generated_worlds")
def test_a_variant_that_changes_nothing_is_run_once():
    methods, left_out = expand_sweep(make_sweep("sdp", operators=({}, {"validate": "validate"})))
    assert [method.name for method in methods] == ["sdp"]
    assert left_out == ["sdp validate=validate has the operators of sdp: run once"]


@pytest.mark.usefixtures("_generated_worlds")
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
    given = prepare_sweep(file(tmp_path, text), tmp_path / "out")
    blocks, travel = (arm.order for arm in given.arms)
    assert [arm.folder.name for arm in given.arms] == ["blocksworld", "travelplanner"]
    assert (blocks.plan.tasks, len(travel.plan.tasks)) == (("4-0",), 2)
    assert (blocks.plan.budget, blocks.plan.limits.steps) == (Budget(calls=40), 7)
    assert (blocks.plan.faults, blocks.context.faults) == ("crash=0.5", "crash=0.5")
    assert blocks.context.cache == str(tmp_path / "replies")
    assert not given.out.exists()


@pytest.mark.usefixtures("_generated_worlds")
def test_spread_over_difficulty_where_that_is_requested(tmp_path: Path):
    text = "benchmarks: [travelplanner]\ngraphs: [sdp]\nlimit: 4\n"
    live = load_benchmark("travelplanner")
    first, spread = (
        prepare_sweep(file(tmp_path, text + more)).arms[0].order.plan.tasks for more in ("", "stratify: yes\n")
    )
    assert list(first) == [task.id for task in live.tasks()[:4]]
    assert list(spread) == [task.id for task in select_stratified_tasks(live.tasks(), 4)]


@pytest.mark.usefixtures("_generated_worlds")
def test_shared_dollars_need_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.delenv("CERTIGRAPH_BASE_URL", raising=False)
    text = LEAST + "most: {usd: 1}\nmodel: openai:"
    with pytest.raises(Fault, match=r"a-model.* has no known price"):
        prepare_sweep(file(tmp_path, text + "a-model\n"))
    assert prepare_sweep(file(tmp_path, text + "gpt-4o-mini\n")).sweep.most.usd == 1
