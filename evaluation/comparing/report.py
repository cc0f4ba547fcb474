"""Everything that is written of a comparison, at any time: tables, curves and a page."""

from pathlib import Path

from certigraph.evaluation.comparing.cells import done_cells
from certigraph.evaluation.comparing.curves import Point, curve_lines, curves_of, points_of
from certigraph.evaluation.comparing.drawing import draw_curves
from certigraph.evaluation.comparing.page import write_page
from certigraph.evaluation.comparing.plan import Plan
from certigraph.evaluation.comparing.rows import Row, row_of
from certigraph.evaluation.comparing.summary import Comparison, comparison_of, shared_tasks
from certigraph.evaluation.comparing.table import write_csv, write_tables

PAGE = "comparison.html"


def report(plan: Plan, folder: Path) -> Comparison:
    """Write the report of a comparison as far as it has come, and return its table.

    Writes `table.json`, `table.csv`, `rows.csv`, `curves.csv`, `curves.png`, `curves.svg` and `comparison.html`.
    """
    rows: list[Row] = []
    points: dict[tuple[str, str], list[Point]] = {}
    for cell, trajectory in done_cells(plan, folder):
        rows.append(row_of(cell.method.name, cell.task, trajectory))
        points[cell.method.name, cell.task] = points_of(trajectory)
    comparison, shared = comparison_of(plan, rows), shared_tasks(plan, rows)
    curves = curves_of({m.name: [points[m.name, task] for task in shared] for m in plan.methods})
    write_tables(comparison, folder)
    write_csv(folder / "curves.csv", list(curve_lines(curves)))
    write_page(plan, comparison, draw_curves(curves, folder), folder / PAGE)
    return comparison
