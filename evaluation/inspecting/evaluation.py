"""What an evaluation came to: its figures with their intervals, and a row for every run."""

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.evaluation.faults import fault_warnings
from certigraph.evaluation.inspecting.intervals import intervals_of, repeated_successes
from certigraph.evaluation.inspecting.rows import ROW, Row
from certigraph.evaluation.precision import GoalPrecision, goal_precision, outcome_of
from certigraph.evaluation.resampling import Interval
from certigraph.evaluation.scaling.shared import is_url
from certigraph.evaluation.statistics import Estimate
from certigraph.state.endings import INTERRUPTED, Boundary, Fault
from certigraph.state.records import Record

if TYPE_CHECKING:
    from inspect_ai.log import EvalLog


BULK = frozenset({"events", "store", "attachments", "messages"})
"""Parts of a log's samples that no figure needs; of thousands of runs they would take gigabytes of memory."""


LEAST_SPACE = 1 << 20
"""Free bytes of a disk below which it counts as full: what inspect buffers for a log was larger."""


class Evaluation(Record):
    """A graph on a benchmark: the official figures and a row for every run."""

    graph: str
    benchmark: str
    model: str
    swaps: dict[str, str]
    """The operators that were exchanged, by slot."""
    budget: tuple[str, ...] = ()
    """What was changed of budget and limits, as `KEY=N`."""
    figures: dict[str, float]
    """The benchmark's own; of several trials also `pass^k`, the chance that k runs of a task all succeed."""
    intervals: dict[str, Interval | None]
    """95 % interval of a figure over tasks; None where the sample cannot tell one."""
    rows: tuple[Row, ...]
    log: str
    """Path of inspect's log: `inspect view` shows it."""

    @property
    def scored(self) -> tuple[Row, ...]:
        """The runs that the figures are over: those with an ending, but for faults of the world or its data."""
        return tuple(row for row in self.rows if row.scored)

    @property
    def n(self) -> int:
        """Number of scored runs."""
        return len(self.scored)

    @property
    def faults(self) -> int:
        """Number of runs in which the world or its data failed; no figure counts them."""
        return sum(row.fault for row in self.rows)

    @property
    def tasks(self) -> int:
        """Number of tasks with a scored run, which are what an interval is over."""
        return len({row.id for row in self.scored})

    @property
    def trials(self) -> int:
        """The most runs of one task."""
        return max(Counter(row.id for row in self.rows).values(), default=0)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What must be known of the figures: how many runs they leave out, or count although an error ended them."""
        return tuple(fault_warnings({self.graph: [row.ending for row in self.rows]}, "certigraph eval --retry LOG"))

    @property
    def endings(self) -> dict[str, int]:
        """How many runs ended how."""
        return dict(Counter(row.ending for row in self.rows))

    @property
    def goals(self) -> GoalPrecision:
        """How many of the runs that ended `goal` the scorer confirms."""
        return goal_precision(outcome_of(row.id, row.footer) for row in self.rows)

    @property
    def failed(self) -> tuple[Row, ...]:
        """Runs without an ending of their own; `certigraph eval --retry LOG` runs just these again."""
        return tuple(row for row in self.rows if row.ending.startswith(("error:", INTERRUPTED)))


def read_evaluation(log: Path | str) -> Evaluation:
    """The evaluation in a log of inspect's.

    Raises:
        Fault: the file is no such log, or nothing was evaluated.
    """
    return evaluation_of(read_log(log, without=BULK))


def read_log(log: Path | str, *, without: Set[str] = frozenset()) -> "EvalLog":
    """A log of inspect's, parts of its samples left out. Raises Fault where it is none of one of certigraph's tasks."""
    from inspect_ai.log import read_eval_log

    if not is_url(str(log)) and not Path(log).is_file():
        raise Fault("data", f"no log at {log}: give a file that `certigraph eval` wrote, as in --retry runs/NAME.eval")
    try:
        found = read_eval_log(str(log), exclude_fields={*without})
    except Exception as error:  # whatever a reader of several formats raises for a file that has none of them
        raise Fault("data", f"{log} is no log of inspect's ({error}): give a file that ends in .eval") from error
    if "graph" not in (found.eval.metadata or {}):
        raise Fault("data", f"{log} is of the task {found.eval.task!r}, not certigraph's: use `inspect eval-retry`")
    return found


def evaluation_of(log: "EvalLog") -> Evaluation:
    """The evaluation in a log that was read. Raises Fault where nothing was evaluated."""
    if not log.results or not log.samples:
        why, boundary = _unfinished(log)
        raise Fault(boundary, f"nothing was evaluated: {why}; finish it with: certigraph eval --retry {log.location}")
    asked = log.eval.metadata or {}
    rows = tuple(Row.model_validate(sample.scores[ROW].metadata) for sample in log.samples if sample.scores)
    scored = [row for row in rows if row.scored]
    figures = {name: float(metric.value) for name, metric in log.results.scores[0].metrics.items()}
    repeated = repeated_successes(scored)
    return Evaluation(
        graph=asked["graph"],
        benchmark=asked["benchmark"],
        model=asked["model"] or log.samples[0].output.model,
        swaps=asked["swaps"],
        budget=tuple(asked["budget"]),
        figures={**figures, **{name: found.mean for name, found in repeated.items()}},
        intervals={**_intervals(log, figures, scored), **{name: _bounds(found) for name, found in repeated.items()}},
        rows=rows,
        log=log.location,
    )


def _unfinished(log: "EvalLog") -> tuple[str, Boundary]:
    """Why a log has no results: what inspect says, or a disk that is full, which inspect says nothing of."""
    if log.error:
        return log.error.message, "operator"
    folder = Path(log.location.removeprefix("file://")).parent
    if folder.is_dir() and shutil.disk_usage(folder).free < LEAST_SPACE:
        return f"no space is left on the disk of {folder}: free space", "data"
    return f"the log ends with the status {log.status!r}, as after a crash", "operator"


def _bounds(found: Estimate) -> Interval | None:
    return None if found.low is None or found.high is None else (found.low, found.high)


def _intervals(log: "EvalLog", figures: Mapping[str, float], rows: Sequence[Row]) -> dict[str, Interval | None]:
    asked = log.eval.metadata or {}
    benchmark = load_benchmark(asked["benchmark"], log.eval.task_args.get("data") or None)
    return intervals_of(figures, rows, benchmark.figures)
