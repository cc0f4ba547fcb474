"""Runs written by hand, and the rows, points and replays of recorded runs, read as comparisons read them."""

from pathlib import Path
from typing import Any

import pandas as pd

from certigraph.evaluation.comparison import ComparisonPlan, finished_cells, recorded_run_of
from certigraph.evaluation.comparison_summary import comparison_rows
from certigraph.evaluation.frames import RecordedRun, frames_of
from certigraph.evaluation.measures import ComparisonRow
from certigraph.evaluation.plots import points_of
from certigraph.evaluation.replays import Replay, replays_of
from certigraph.state.records import Scores, Task, Usage
from certigraph.state.trajectory import Event, Footer, Header, Trajectory

TASK = Task(benchmark="b", id="t", goal="go")


def header(graph: str = "react", *, run: str = "r", task: Task = TASK) -> Header:
    return Header(run_id=run, created="", graph=graph, operators={}, task=task, context={}, versions={})


def event(node: str, read: int = 0, written: int = 0, *, requests: int = 1, cached: int = 0, **more: Any) -> Event:
    """The execution of a node that sent so many requests; `more` are fields of `Event`, such as `update`."""
    usage = Usage(node=node, calls=requests, input_tokens=read, output_tokens=written, cached_tokens=cached)
    return Event(**{"t": 0, "superstep": 0, "node": node, "usage": usage, **more})


def trajectory(*events: Event, graph: str = "react", ending: str = "goal", value: float | None = None) -> Trajectory:
    """A run of these events that ended, with a score if `value` is given."""
    scores = None if value is None else Scores(value=value)
    footer = Footer(ending=ending, scores=scores, usage=Usage(node="all"))
    return Trajectory(header=header(graph), events=list(events), footer=footer)


def row_of(trajectory: Trajectory) -> ComparisonRow:
    [row] = comparison_rows(frames_of([RecordedRun("m", "t", 0, trajectory)]))
    return row


def rows_of(plan: ComparisonPlan, folder: Path) -> list[ComparisonRow]:
    """The rows of the finished runs of a comparison."""
    return comparison_rows(frames_of(recorded_run_of(*done) for done in finished_cells(plan, folder)))


def points(*trajectories: Trajectory) -> pd.DataFrame:
    headers = (run.header.model_copy(update={"run_id": f"r{number}"}) for number, run in enumerate(trajectories))
    named = [run.model_copy(update={"header": header}) for header, run in zip(headers, trajectories, strict=True)]
    return points_of(frames_of(RecordedRun("m", "t", number, run) for number, run in enumerate(named)))


def replay_of(trajectory: Trajectory) -> Replay:
    return replays_of(frames_of([RecordedRun("m", "t", 0, trajectory)]), "m")["t", 0]
