"""Every notebook runs top to bottom, offline, and prints what is saved in it."""

import re
from pathlib import Path

import nbformat
import pytest
from helpers.files.notebook_outputs import FOLDER, execute_notebook, read_outputs

NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
FRACTION = re.compile(r" *-?\d+\.\d+(?:e-?\d+)?")
"""A number with decimals, whose last digits may differ between processors, and the spaces that align it in a table."""


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_is_saved_in_it(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    saved = read_outputs(nbformat.read(path, as_version=4))
    printed = read_outputs(execute_notebook(path, tmp_path))
    assert "goal" in "".join(saved)
    assert [FRACTION.sub(" #", text) for text in printed] == [FRACTION.sub(" #", text) for text in saved]
    for now, before in zip(printed, saved, strict=True):
        expected = [float(number) for number in FRACTION.findall(before)]
        assert [float(number) for number in FRACTION.findall(now)] == pytest.approx(expected, rel=0.01, abs=0.02)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_pictures_or_tables(path: Path) -> None:
    outputs = [output for cell in nbformat.read(path, as_version=4).cells for output in cell.get("outputs", ())]
    kinds = {kind for output in outputs for kind in output.get("data", ())}
    assert kinds & {"image/png", "image/svg+xml", "text/html"}
