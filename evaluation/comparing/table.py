"""The table of a comparison: on the terminal and as CSV and JSON."""

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from certigraph.evaluation.comparing.rows import Prompted
from certigraph.evaluation.comparing.summary import Comparison, Difference, Summary
from certigraph.evaluation.report.parts import clock, compact

METHODS = (
    "method",
    "n",
    "score",
    "successes",
    "calls",
    "prompt",
    "cached",
    "output",
    "steps",
    "time",
    "cached by role",
)
DIFFERENCES = ("method", "difference", "95 % interval", "p", "p (Holm)", "detectable", "in words")


def method_cells(summary: Summary) -> tuple[str, ...]:
    """A method's figures as text, in the order of METHODS."""
    return (
        summary.method,
        str(summary.n),
        f"{summary.score:.1f} ± {summary.stderr:.1f}",
        str(summary.successes),
        f"{summary.calls:,}",
        compact(summary.prompt_tokens),
        compact(summary.cached_tokens),
        compact(summary.output_tokens),
        f"{summary.steps:,}",
        clock(summary.seconds),
        _shares(summary.roles),
    )


def difference_cells(found: Difference) -> tuple[str, ...]:
    """A paired difference as text, in the order of DIFFERENCES."""
    interval = "-" if found.low is None else f"{found.low:+.1f} to {found.high:+.1f}"
    detectable = "-" if found.detectable is None else f"{found.detectable:.1f}"
    name = f"{found.method} - {found.against}"
    return name, f"{found.mean:+.1f}", interval, _p(found.p), _p(found.p_adjusted), detectable, found.words


def tables(comparison: Comparison) -> Iterator[Table]:
    """The two tables for a terminal."""
    yield _table(METHODS, [method_cells(summary) for summary in comparison.methods])
    if comparison.differences:
        yield _table(DIFFERENCES, [difference_cells(found) for found in comparison.differences])


def told(comparison: Comparison) -> str:
    """What the table is over."""
    missing = comparison.planned - comparison.n
    lacking = f"; {missing} of {comparison.planned} tasks are not finished by every method and left out"
    scripted = "; a script answers for the model: nothing here is about the methods' quality"
    told = f"{lacking if missing else ''}{scripted if comparison.model.startswith('scripted:') else ''}"
    return f"{comparison.benchmark}, {comparison.model}, n={comparison.n}{told}"


def write_tables(comparison: Comparison, folder: Path) -> None:
    """`table.json` with everything, `table.csv` with a line a method, `rows.csv` with a line a run."""
    plain = comparison.model_dump(mode="json")
    (folder / "table.json").write_text(json.dumps(plain, indent=1, ensure_ascii=False), encoding="utf-8")
    apart = {found["method"]: found for found in plain["differences"]}
    methods = [{**_line(summary), **_beside(apart.get(summary["method"]))} for summary in plain["methods"]]
    write_csv(folder / "table.csv", methods)
    write_csv(folder / "rows.csv", [_line(row) for row in plain["rows"]])


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


def _shares(roles: Mapping[str, Prompted]) -> str:
    return ", ".join(f"{role} {tokens.share:.0%}" for role, tokens in sorted(roles.items()))


def _p(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value >= 0.001 else "< 0.001"


def _table(heads: tuple[str, ...], lines: list[tuple[str, ...]]) -> Table:
    table = Table(*heads, box=None)
    for line in lines:
        table.add_row(*line)
    return table
