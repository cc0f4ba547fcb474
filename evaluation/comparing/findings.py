"""Everything that a comparison's runs say, gathered in one pass over their trajectories."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from certigraph.evaluation.ablating.estimates import Estimate, estimates_of
from certigraph.evaluation.ablating.replay import Replay, replay_of
from certigraph.evaluation.anatomy.frames import Frames, Recorded, frames_of
from certigraph.evaluation.comparing.cells import Cell, ended_cells
from certigraph.evaluation.comparing.curves import Curves, Point, curves_of, points_of
from certigraph.evaluation.comparing.plan import Plan
from certigraph.evaluation.comparing.rows import Row, row_of
from certigraph.evaluation.comparing.summary import Comparison, comparison_of, shared_tasks
from certigraph.state.trajectory import Trajectory


class Findings(NamedTuple):
    """The table, the replayed ablations, the curves, and the frames of all analyses."""

    comparison: Comparison
    estimates: list[Estimate]
    curves: Curves
    frames: Frames


def findings_of(plan: Plan, folder: Path) -> Findings:
    """What a comparison has come to so far; trajectories are read one at a time."""
    gathering = _Gathering(plan)
    frames = frames_of(gathering.passing(ended_cells(plan, folder)))
    comparison, shared = comparison_of(plan.outline, gathering.rows), shared_tasks(plan.outline, gathering.rows)
    trials = [(task, trial) for task in shared for trial in range(plan.trials)]
    curves = curves_of({m.name: gathering.of(m.name, trials) for m in plan.methods})
    return Findings(comparison, estimates_of(plan, gathering.rows, gathering.replays), curves, frames)


class _Gathering:
    def __init__(self, plan: Plan) -> None:
        self.first = plan.methods[0]
        self.rows: list[Row] = []
        self.points: dict[tuple[str, str, int], list[Point]] = {}
        self.replays: dict[tuple[str, int], Replay] = {}

    def of(self, method: str, trials: Sequence[tuple[str, int]]) -> list[list[Point]]:
        """A method's points; a method whose runs all failed has none."""
        return [self.points[method, *trial] for trial in trials if (method, *trial) in self.points]

    def passing(self, done: Iterator[tuple[Cell, Trajectory]]) -> Iterator[Recorded]:
        """Take what is needed of each trajectory and pass it on."""
        for cell, trajectory in done:
            name = cell.method.name
            row = row_of(name, cell.task, trajectory, cell.trial)
            self.rows.append(row)
            if not row.fault:
                self.points[name, cell.task, cell.trial] = points_of(trajectory)
            if cell.method is self.first and self.first.graph == "sdp":
                self.replays[cell.task, cell.trial] = replay_of(trajectory)
            yield Recorded(name, cell.task, cell.trial, trajectory)
