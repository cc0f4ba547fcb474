"""What a comparison leaves for other programs: `table.json`, `table.csv`, `needs.csv`, `rows.csv`."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from certigraph.evaluation.ablating.estimates import Estimate
from certigraph.evaluation.comparing.rows import Prompted
from certigraph.evaluation.comparing.summary import Comparison


def plain(comparison: Comparison, estimates: Sequence[Estimate] = ()) -> dict[str, Any]:
    """Table, rows and replayed ablations as one JSON object."""
    replayed = [estimate.model_dump(mode="json") for estimate in estimates]
    return {**comparison.model_dump(mode="json"), "replayed": replayed}


def write_tables(comparison: Comparison, estimates: Sequence[Estimate], folder: Path) -> None:
    """`table.json` has everything; as CSV `table` a line a method, `needs` one an amount of each, `rows` one a run."""
    found = plain(comparison, estimates)
    (folder / "table.json").write_text(json.dumps(found, indent=1, ensure_ascii=False), encoding="utf-8")
    apart = {difference["method"]: difference for difference in found["differences"]}
    methods = [{**_line(summary), **_beside(apart.get(summary["method"]))} for summary in found["methods"]]
    write_csv(folder / "table.csv", methods)
    write_csv(folder / "needs.csv", found["needs"])
    write_csv(folder / "rows.csv", [_line(row) for row in found["rows"]])


def write_csv(path: Path, lines: list[dict[str, Any]]) -> None:
    """Lines of figures under the names that any of them has."""
    names = list(dict.fromkeys(name for line in lines for name in line))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(lines)


def _line(record: Mapping[str, Any]) -> dict[str, Any]:
    """Flat: cached shares by role, endings by name."""
    flat = {key: value for key, value in record.items() if not isinstance(value, dict)}
    shares = {f"cached_share_{r}": round(Prompted.model_validate(p).share, 4) for r, p in record["roles"].items()}
    endings = {f"ended_{ending}": count for ending, count in record.get("endings", {}).items()}
    return {**flat, **shares, **endings}


def _beside(found: Mapping[str, Any] | None) -> dict[str, Any]:
    return {f"difference_{key}": value for key, value in (found or {}).items() if key not in ("method", "n")}
