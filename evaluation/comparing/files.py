"""What a comparison leaves for other programs: `table.json`, `table.csv`, `needs.csv`, `rows.csv`."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from certigraph.evaluation.ablating.estimates import Estimate
from certigraph.evaluation.comparing.rows import Prompted
from certigraph.evaluation.comparing.summary import Comparison
from certigraph.evaluation.methods import COMPARISON
from certigraph.evaluation.spreadsheets import write_rows


def plain(comparison: Comparison, estimates: Sequence[Estimate] = ()) -> dict[str, Any]:
    """Table, rows and replayed ablations as one JSON object."""
    replayed = [estimate.model_dump(mode="json") for estimate in estimates]
    return {**comparison.model_dump(mode="json"), "replayed": replayed, "statistics": COMPARISON}


def write_tables(comparison: Comparison, estimates: Sequence[Estimate], folder: Path) -> None:
    """`table.json` has everything; as CSV `table` a line a method, `needs` one an amount of each, `rows` one a run."""
    found = plain(comparison, estimates)
    (folder / "table.json").write_text(json.dumps(found, indent=1, ensure_ascii=False), encoding="utf-8")
    apart = {difference["method"]: difference for difference in found["differences"]}
    methods = [{**line_of(summary), **_beside(apart.get(summary["method"]))} for summary in found["methods"]]
    write_csv(folder / "table.csv", methods)
    write_csv(folder / "needs.csv", found["needs"])
    write_csv(folder / "rows.csv", [line_of(row) for row in found["rows"]])


def write_csv(path: Path, lines: list[dict[str, Any]]) -> None:
    """Lines of figures under the names that any of them has."""
    names = list(dict.fromkeys(name for line in lines for name in line))
    write_rows(path, names, lines)


def line_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record as one flat line: cached shares by role, endings by name, figures of runs that ended `goal`."""
    flat = {key: value for key, value in record.items() if not isinstance(value, dict)}
    goals = {f"goal_precision_{key}": value for key, value in record.get("goals", {}).items()}
    shares = {f"cached_share_{r}": round(Prompted.model_validate(p).share, 4) for r, p in record["roles"].items()}
    endings = {f"ended_{ending}": count for ending, count in record.get("endings", {}).items()}
    return {**flat, **goals, **shares, **endings}


def _beside(found: Mapping[str, Any] | None) -> dict[str, Any]:
    return {f"difference_{key}": value for key, value in (found or {}).items() if key not in ("method", "n")}
