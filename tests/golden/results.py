"""The tables behind results/, computed again from the rows that are committed there."""

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from golden.normalise import ROOT, line
from golden.tables import csv_lines, untimed

from certigraph.evaluation.comparison import ComparisonOutline
from certigraph.evaluation.comparison_summary import comparison_of
from certigraph.evaluation.measures import ComparisonRow
from certigraph.studies.cgdp_tables import (
    EPISODE_COLUMNS,
    REPLAY_COLUMNS,
    ROUND_COLUMNS,
    StudyFrames,
    tables_of,
)
from certigraph.studies.rewards import FIGURE_NAMES, RatedPair, predictor_table
from certigraph.studies.tdp import slope_table, total_table

RESULTS = ROOT / "results"

SLOW = {"rewards"}
"""Results that take more than a few seconds."""


def _text(path: Path) -> str:
    """A file's text; where it is missing, that of its compressed form."""
    if path.is_file():
        return path.read_text(encoding="utf-8")
    return gzip.decompress(path.with_name(f"{path.name}.gz").read_bytes()).decode()


def comparison(folder: Path, prefix: str) -> str:
    """Methods, differences and needs of a comparison, from its rows.

    Tokens by role are not in the rows, so cached shares by role are left out.
    """
    plan = json.loads(_text(folder / f"{prefix}comparison.json"))
    names = tuple(method["name"] for method in plan["methods"])
    outline = ComparisonOutline(plan["benchmark"], plan["model"], names, tuple(plan["tasks"]), plan.get("trials", 1))
    rows = [_row(row) for row in csv.DictReader(io.StringIO(_text(folder / f"{prefix}rows.csv")))]
    found = comparison_of(outline, rows).model_dump(mode="json")
    parts = [found.pop(name) for name in ("methods", "differences", "needs")]
    del found["rows"]
    return "".join(f"{line(untimed(one, {}))}\n" for one in [found, *(one for part in parts for one in part)])


def _row(row: dict[str, str]) -> ComparisonRow:
    known = {key: value for key, value in row.items() if key in ComparisonRow.model_fields and value != ""}
    return ComparisonRow.model_validate({**known, "seconds": 0, "roles": {}})


def rewards() -> str:
    """EPIC distances by predictor and domain, from the rated pairs."""
    rows = [RatedPair.model_validate_json(row) for row in _text(RESULTS / "rewards/rows.jsonl").splitlines()]
    names = list(dict.fromkeys(row.predictor for row in rows))
    table = predictor_table(rows, names).astype(object)
    found = table.where(table.notna(), None).to_dict("records")
    return "".join(f"{line(untimed(_named(one), {}))}\n" for one in found)


def _named(found: dict[str, Any]) -> dict[str, Any]:
    bounded = {
        name: [found[f"{name}{bound}"] for bound in ("", "_low", "_high")] for name in (*FIGURE_NAMES, "difference")
    }
    difference = bounded.pop("difference")
    about = {name: found[name] for name in ("predictor", "domain", "n", "read_by")}
    spent = {name: found[name] for name in ("calls", "tokens", "usd")}
    known = None if difference[0] is None else difference
    return {**about, "figures": bounded, "difference": known, "spent": spent}


def search() -> str:
    """The tables of CGDP's study, from its episodes and rounds; without `gate_replay`, whose rows are not committed."""
    read = [
        # columns that later versions added are empty
        pd.read_csv(RESULTS / "search-qwen" / f"{name}.csv", keep_default_na=False, na_values=[""])
        .reindex(columns=list(columns))
        .astype(columns)
        for name, columns in (("episodes", EPISODE_COLUMNS), ("rounds", ROUND_COLUMNS))
    ]
    replays = pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in REPLAY_COLUMNS.items()})
    return "".join(_frames(tables_of(StudyFrames(*read, replays))))


def _frames(tables: Any) -> Iterator[str]:
    for name, frame in tables.items():
        yield f"# {name}\n"
        yield "".join(f"{row}\n" for row in csv_lines(frame.to_csv(index=False), {}))


def prompts() -> str:
    """Slopes and totals of TDP's prompt sizes."""
    sizes = pd.read_csv(RESULTS / "tdp-prompts/prompts.csv", keep_default_na=False)
    found = [*slope_table(sizes).to_dict("records"), *total_table(sizes).to_dict("records")]
    return "".join(f"{line(untimed(one, {}))}\n" for one in found)


def results() -> dict[str, Callable[[], str]]:
    """Each result's name and how its text is made."""
    found: dict[str, Callable[[], str]] = {"rewards": rewards, "search-qwen": search, "tdp-prompts": prompts}
    for path in sorted(RESULTS.rglob("*comparison.json")):
        prefix = path.name.removesuffix("comparison.json")
        rows = path.with_name(f"{prefix}rows.csv")
        if rows.is_file() or rows.with_name(f"{rows.name}.gz").is_file():
            name = "-".join([*path.parent.relative_to(RESULTS).parts, *([prefix[:-1]] if prefix else [])])
            found[name] = partial(comparison, path.parent, prefix)
    return found
