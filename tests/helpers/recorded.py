"""Rows of a comparison, points and replays of recorded runs, read as comparisons read them."""

from pathlib import Path

import pandas as pd

from certigraph.evaluation.comparison import ComparisonPlan, finished_cells, recorded_run_of
from certigraph.evaluation.comparison_summary import Replay, comparison_rows, replays_of
from certigraph.evaluation.frames import RecordedRun, frames_of
from certigraph.evaluation.measures import ComparisonRow
from certigraph.evaluation.plots import points_of
from certigraph.state.trajectory import Trajectory


def row_of(trajectory: Trajectory) -> ComparisonRow:
    [row] = comparison_rows(frames_of([RecordedRun("m", "t", 0, trajectory)]))
    return row


def rows_of(plan: ComparisonPlan, folder: Path) -> list[ComparisonRow]:
    """The rows of the finished runs of a comparison."""
    return comparison_rows(frames_of(recorded_run_of(*done) for done in finished_cells(plan, folder)))


def points(*trajectories: Trajectory) -> pd.DataFrame:
    return points_of(frames_of(RecordedRun("m", "t", n, run) for n, run in enumerate(trajectories)))


def replay_of(trajectory: Trajectory) -> Replay:
    return replays_of(frames_of([RecordedRun("m", "t", 0, trajectory)]), "m")["t", 0]
