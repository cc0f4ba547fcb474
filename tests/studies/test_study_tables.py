"""The tables of studies: statistics by group, intervals in their cells, and the page."""

import json
from pathlib import Path

import pandas as pd
import pytest
from markupsafe import Markup

from certigraph.evaluation.statistics import Measure, measure_table
from certigraph.studies.tables import (
    join_intervals,
    print_json,
    write_study_page,
    write_tables,
)

ROWS = pd.DataFrame(
    {
        "method": ["a", "a", "b", "b"],
        "benchmark": "x",
        "task": ["1", "2", "1", "2"],
        "score": [0.0, 50.0, 100.0, 100.0],
        "tokens": [10, 30, 5, None],
        "calls": [1, 3, 5, 2],
        "solved": pd.array([False, True, None, None], dtype="boolean"),
    }
)


def test_measures_are_computed_over_the_rows_that_have_them():
    measures = {
        "score": Measure("score", top=100.0),
        "tokens a call": Measure("tokens", per="calls"),
        "solved": Measure("solved", top=1.0),
    }
    table = measure_table(ROWS, ["method"], measures)
    found = {(row.method, row.measure): (row.n, row.value) for row in table.itertuples()}
    assert found == {
        ("a", "score"): (2, 25.0),
        ("b", "score"): (2, 100.0),
        ("a", "tokens a call"): (2, 10.0),
        ("b", "tokens a call"): (1, 1.0),
        ("a", "solved"): (2, 0.5),
    }
    assert measure_table(ROWS.head(0), ["method"], measures, label="what").columns.tolist()[:2] == ["method", "what"]


def test_bounds_join_the_value_before_them():
    table = pd.DataFrame(
        {
            "n": [4, 4, 4],
            "value": [1.5, 2.0, None],
            "low": [1.0, None, None],
            "high": [2.0, None, None],
            "p": [0.5, 0.5, 0.5],
            "fire": [0.25, 0.5, 0.75],
            "fire_low": [0.1, 0.2, 0.3],
            "fire_high": [0.4, 0.6, 0.8],
            "allow": [1, 2, 3],
        }
    )
    assert join_intervals(table).to_dict("list") == {
        "n": [4, 4, 4],
        "value": ["1.5 (1 to 2)", "2", "-"],
        "p": [0.5, 0.5, 0.5],
        "fire": ["0.25 (0.1 to 0.4)", "0.5 (0.2 to 0.6)", "0.75 (0.3 to 0.8)"],
        "allow": [1, 2, 3],
    }
    assert join_intervals(table, ".2f")["value"].tolist()[0] == "1.50 (1.00 to 2.00)"


def test_rows_are_one_json_object_without_missing_numbers(capsys: pytest.CaptureFixture[str]):
    print_json({"rows": ROWS[["method", "tokens"]].tail(2)}, scored="own")
    rows = [{"method": "b", "tokens": 5.0}, {"method": "b", "tokens": None}]
    assert json.loads(capsys.readouterr().out) == {"rows": rows, "scored": "own"}


def test_a_page_has_the_tables_with_rows_and_names_their_files(tmp_path: Path):
    tables = {"slopes": pd.DataFrame({"<task>": range(17)}), "totals": pd.DataFrame(columns=["task"])}
    assert write_tables(tables, tmp_path) == [tmp_path / "slopes.csv", tmp_path / "totals.csv"]
    drawings = {"prompts": Markup("<svg></svg>")}
    texts = {"title": "T", "scope": "S", "bounded_below": "1", "subtask_rooms": 4}
    write_study_page(tmp_path / "study.html", "study_tdp.html", tables, drawings, notes=["a note", ""], **texts)
    page = (tmp_path / "study.html").read_text(encoding="utf-8")
    assert "slopes.csv" in page and "totals.csv" not in page
    assert "<svg></svg>" in page and "&lt;task&gt;" in page and "<task>" not in page
    assert page.count("<details>") == 1  # 17 rows are folded
    assert page.count('<p class="key">a note</p>') == 1
