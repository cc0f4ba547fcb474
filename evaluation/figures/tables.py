"""The numbers behind the figures as CSV."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from certigraph.evaluation.figures.best import Row
from certigraph.evaluation.figures.rewards import Curve
from certigraph.evaluation.figures.traces import Method
from certigraph.evaluation.spreadsheets import write_rows

Line = Mapping[str, object]

SERIES = ("method", "model", "task")


def write_csv(path: Path, columns: Sequence[str], lines: Sequence[Line]) -> None:
    """Write a header and one line each; floats with four decimals at most."""
    plain = ({name: _plain(value) for name, value in line.items()} for line in lines)
    write_rows(path, columns, plain, ends="\n")


def curve_lines(curves: Sequence[Curve]) -> Iterator[Line]:
    """One line a curve and step."""
    for curve in curves:
        for step, (mean, sd) in enumerate(zip(curve.mean, curve.sd, strict=True)):
            yield {
                **_series(curve.method, curve.task),
                "episodes": curve.episodes,
                "n": curve.n,
                "step": step,
                "mean": mean,
                "sd": sd,
            }


def row_lines(rows: Sequence[Row]) -> Iterator[Line]:
    """One line a row and step."""
    for row in rows:
        for step, score in enumerate(row.scores, 1):
            yield {**_series(row.method, row.task), "runs": row.runs, "step": step, "score": score}


def _series(method: Method, task: str) -> Line:
    return {"method": str(method), "model": method.model, "task": task}


def _plain(value: object) -> object:
    return f"{round(value, 4):g}" if isinstance(value, float) else value
