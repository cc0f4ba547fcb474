"""A sweep of three methods on two benchmarks, and what is on disk of it."""

from pathlib import Path
from typing import Any

from certigraph.adapters.trajectories import read_trajectory
from certigraph.evaluation.comparison import unfinished_cells
from certigraph.evaluation.sweep import prepare_sweep, run_sweep
from helpers.sample_runs.recorded_runs import rows_of

TEXT = """
model: simulated:act=0.2,seed=3
benchmarks:
  - {name: blocksworld, limit: 3}
  - {name: travelplanner, limit: 1}
graphs: [sdp, react]
operators:
  - {}
  - {validate: always_pass}
budget: {calls: 30}
"""
RUNS = 3 * (3 + 1)


def write_sweep_file(folder: Path, text: str = TEXT) -> Path:
    path = folder / "sweep.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def execute_sweep(given: Path, out: Path) -> list[str]:
    """Carry the sweep out without a report; why runs are left."""
    return run_sweep(prepare_sweep(given, out), silent=True)


def runs_left(given: Path, out: Path) -> list[int]:
    return [len(unfinished_cells(arm.cells)) for arm in prepare_sweep(given, out).arms]


def sweep_table(given: Path, out: Path) -> dict[tuple[str, str, str], Any]:
    """Ending, score and steps of each run, and the calls that it takes, without those that a kill undid."""
    return {
        (arm.title, row.method, row.task, row.trial): (
            row.ending,
            row.score,
            row.steps,
            row.calls - superseded_calls(out, row.run),
        )
        for arm in prepare_sweep(given, out).arms
        for row in rows_of(arm.order.plan, arm.folder)
    }


def superseded_calls(out: Path, run: str) -> int:
    [path] = out.rglob(f"{run}/trajectory.jsonl")
    return sum(event.usage.calls for event in read_trajectory(path).superseded)


def ended_trajectories(out: Path) -> dict[str, bytes]:
    """The trajectories with a footer, by their run's name."""
    texts = {path.parent.name: path.read_bytes() for path in out.rglob("trajectory.jsonl")}
    return {name: text for name, text in texts.items() if b'"type":"footer"' in text}
