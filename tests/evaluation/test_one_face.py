"""`eval`, `compare`, `ablate` and `sweep` show the same runs by the same figures, intervals and columns."""

import json
from pathlib import Path

import pytest

from certigraph import cli

pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")

MODEL = "simulated:act=0.4,seed=3"
TASKS = ("3-0", "3-1", "4-0")
TRIALS = 2


@pytest.fixture(autouse=True)
def _generated_worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    monkeypatch.chdir(tmp_path)


def printed(capsys: pytest.CaptureFixture[str], command: str) -> tuple[str, str]:
    """What a command prints on standard output and on standard error."""
    with pytest.raises(SystemExit) as stop:
        cli.main(command.split())
    shown = capsys.readouterr()
    assert stop.value.code == 0, shown.err
    return shown.out, shown.err


def tables_of(shown: str) -> dict[str, list[dict[str, str]]]:
    """The rows of the tables of methods and of official figures, without durations, by the first column.

    The table of calls by role is left out: an evaluation does not know the roles.
    """
    tables: dict[str, list[dict[str, str]]] = {}
    for block in shown.split("\n\n"):
        lines = block.splitlines()
        head = next((line for line in lines if line.startswith((" method  score", " figure"))), None)
        if head is None or " calls a run " in head:
            continue
        starts = [0, *(n for n in range(2, len(head)) if head[n] != " " and head[n - 2 : n] == "  ")]
        rows = []
        for line in lines[lines.index(head) :]:
            rows.append([line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)])
        heads, *cells = rows
        tables[heads[0]] = [
            {name: cell for name, cell in zip(heads, row, strict=True) if name != "time"} for row in cells
        ]
    return tables


@pytest.mark.slow
def test_every_command_prints_the_same_tables(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    chosen = " ".join(f"--task {task}" for task in TASKS)
    options = f"{chosen} --trials {TRIALS} --model {MODEL}"
    sweep = f"model: {MODEL}\ngraphs: [react]\ntrials: {TRIALS}\n"
    Path("sweep.yaml").write_text(sweep + f"benchmarks: [{{name: blocksworld, tasks: [{', '.join(TASKS)}]}}]\n")
    shown = {
        "eval": printed(capsys, f"eval react blocksworld {options}"),
        "compare": printed(capsys, f"compare react --on blocksworld {options}"),
        "ablate": printed(capsys, f"ablate react blocksworld --swap decide=decide {options}"),
        "sweep": printed(capsys, "sweep sweep.yaml"),
    }
    evaluated = tables_of(shown["eval"][0])
    [method] = evaluated["method"]
    assert method["method"] == "react" and method["n"] == str(len(TASKS)) and method["faults"] == "0/6"
    assert {one["figure"] for one in evaluated["figure"]} == {"solved", "goal", "pass^2"}
    assert any(" to " in one["95 % interval"] for one in evaluated["figure"])
    assert tables_of(shown["compare"][0]) == tables_of(shown["sweep"][0]) == evaluated
    for name, rows in tables_of(shown["ablate"][0]).items():
        assert [row for row in rows if row["method"] == "react"] == evaluated[name]
    for _, progress in shown.values():  # the last run is always named, with what is to be done then
        assert "model simulated:act=0.4,seed=3" in progress
        assert "task" in progress and "2 trials" in progress
        assert progress.rstrip().splitlines()[-1].endswith("no run to go")


@pytest.mark.slow
def test_the_files_and_the_json_have_the_figures_that_are_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    options = f"--task 3-0 --task 4-0 --trials 2 --model {MODEL} --json"
    evaluated = json.loads(printed(capsys, f"eval react blocksworld {options}")[0])
    compared = json.loads(printed(capsys, f"compare react --on blocksworld {options}")[0])
    figures = {one["figure"]: one for one in compared["figures"]}
    assert set(figures) == {"solved", "goal", "pass^2"}
    for name, one in figures.items():
        assert one["value"] == pytest.approx(evaluated[name])
        bounds = evaluated["intervals"][name]
        assert [one["low"], one["high"]] == (pytest.approx(bounds) if bounds else [None, None])
    assert json.loads(Path("comparison/table.json").read_text())["figures"] == compared["figures"]
    [method] = compared["methods"]
    assert method["goals"]["n"] in (0, evaluated["goal_precision"]["n"])  # react certifies nothing
    assert method["endings"] == evaluated["endings"]
