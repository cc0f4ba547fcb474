"""A sweep's file: what it may say, what is refused and how that is told."""

from pathlib import Path

import pytest

pytest.importorskip("yaml", reason="pip install 'certigraph[eval]'")

from certigraph.evaluation.sweep_file import LARGEST, read_sweep
from certigraph.state.records import Fault

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
    assert [sweep.choosing(case).limit for case in sweep.benchmarks] == [4, 10]
    assert sweep.operators == ({}, {"validate": "capped:depth=1", "replan": "give_up"})
    assert (sweep.budget, sweep.most.usd, sweep.most.tokens) == ({"calls": 40, "usd": 1.5, "steps": 60}, 20, None)
    assert (sweep.trials, sweep.at_once, sweep.roles) == (2, 3, {"planner": "scripted:expert"})


def test_texts_stay_texts(tmp_path: Path):
    sweep = read_sweep(file(tmp_path, LEAST + "tasks: [4-0, 1:30, no, 2024-01-01, 007]\n"))
    assert sweep.tasks == ("4-0", "1:30", "no", "2024-01-01", "007")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("graphs: [sdp]\n", "'benchmarks' is missing"),
        ("", "'graphs' is missing"),
        ("- sdp\n", "line 1: the file: "),
        (LEAST + "limt: 3\n", "line 3: no key 'limt'; known: at_once, benchmarks, .*limit"),
        ("graphs: [sdp]\nbenchmarks:\n- {nam: x}\n", "line 3: no key 'benchmarks.1.nam'; known: label, limit, name"),
        (LEAST + "most:\n  usdd: 3\n", "line 4: no key 'most.usdd'; known: calls, hours, tokens, usd"),
        (LEAST + "most: {usd: -1}\n", "line 3: most.usd: .*greater than 0, not '-1'"),
        (LEAST + "most: {hours: inf}\n", "line 3: most.hours: .*finite"),
        (LEAST + "budget:\n  calls: many\n", "line 4: budget.calls: .*number.*'many'"),
        (LEAST + "trials: 0\n", "line 3: trials: .*'0'"),
        (LEAST + "trials: 99999999999\n", "line 3: trials: .*1000"),
        (LEAST + "graphs: [react]\n", "line 3: 'graphs' stands in line 2 already"),
        (LEAST + "operators: [{gate: a, gate: b}]\n", "line 3: 'gate' stands in line 3 already"),
        ("a: &x 1\nb: *x\n", "line 2: aliases .*x. are not read"),
        (LEAST + "? [a]\n: 3\n", "line 3: a key is a word"),
        ("[" * 60 + "]" * 60, "line 1: nested more than"),
        ("graphs: [sdp\n", "no YAML: .*line 2"),
        ("a: \x00", "no YAML"),
        (LEAST + "---\na: b\n", "no YAML: .*another document"),
        ("benchmarks: [a, {name: A}]\ngraphs: [sdp]\n", "'A' twice: give one of them another `label`"),
        ("benchmarks: [a]\ngraphs: [sdp, sdp]\n", "graphs has 'sdp' twice"),
        (LEAST + "operators: [{}, {}]\n", "operators has {} twice"),
        ("!!python/object/apply:os.system [echo]\n", "line 1: the file: "),
    ],
)
def test_what_is_refused_and_how_it_is_told(text: str, told: str, tmp_path: Path):
    with pytest.raises(Fault, match=told):
        read_sweep(file(tmp_path, text))


def test_growing_files_cost_nothing(tmp_path: Path):
    laughs = "a: &a [x, x]\n" + "".join(
        f"{b}: &{b} [*{a}, *{a}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    )
    with pytest.raises(Fault, match="aliases"):
        read_sweep(file(tmp_path, laughs))
    with pytest.raises(Fault, match="bytes; a sweep's file has at most"):
        read_sweep(file(tmp_path, "#" * (LARGEST + 1)))
    with pytest.raises(Fault, match=r"no file .*certigraph sweep"):
        read_sweep(tmp_path / "missing.yaml")
