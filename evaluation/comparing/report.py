"""Everything that is written of a comparison, at any time: tables, curves and a page."""

from pathlib import Path

from certigraph.evaluation.comparing.curves import curve_lines
from certigraph.evaluation.comparing.drawing import draw_curves
from certigraph.evaluation.comparing.files import write_csv, write_tables
from certigraph.evaluation.comparing.findings import Findings, findings_of
from certigraph.evaluation.comparing.page import write_page
from certigraph.evaluation.comparing.plan import Plan

PAGE = "comparison.html"


def report(plan: Plan, folder: Path) -> Findings:
    """Write the report of a comparison as far as it has come, and return what was found.

    Writes `table.json`, `table.csv`, `needs.csv`, `rows.csv`, `curves.csv`, `curves.png`, `curves.svg` and
    `comparison.html`.
    """
    findings = findings_of(plan, folder)
    write_tables(findings.comparison, findings.estimates, folder)
    write_csv(folder / "curves.csv", list(curve_lines(findings.curves)))
    write_page(plan, findings, draw_curves(findings.curves, folder), folder / PAGE)
    return findings
