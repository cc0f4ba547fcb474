"""The picture of the layers in ARCHITECTURE.md: drawn from the imports, and the one that is committed."""

from pathlib import Path

import draw_layers
import pytest


@pytest.mark.slow
def test_the_committed_picture_is_that_of_the_imports():
    drawn = draw_layers.draw(draw_layers.read_imports())
    assert draw_layers.PICTURE.read_text(encoding="utf-8") == drawn, "draw it again: python scripts/draw_layers.py"


def test_an_import_that_is_implied_by_others_is_not_drawn():
    imports = {"state": set[str](), "nodes": {"state"}, "graphs": {"nodes", "state"}}
    assert draw_layers.reduce_edges(imports) == {"state": set(), "nodes": {"state"}, "graphs": {"nodes"}}
    assert draw_layers.rank_parts(imports) == [["state"], ["nodes"], ["graphs"]]


@pytest.mark.slow
def test_an_import_of_its_own_level_moves_a_part_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    before = draw_layers.read_imports()
    (tmp_path / "evaluation").mkdir()
    (tmp_path / "evaluation" / "one.py").write_text("from certigraph.benchmarks import BENCHMARKS\n")
    usual = draw_layers.folder_of
    monkeypatch.setattr(draw_layers, "folder_of", lambda part: tmp_path / part if part == "evaluation" else usual(part))
    after = draw_layers.read_imports()
    assert "benchmarks" in after["evaluation"] - before["evaluation"]
    assert ["benchmarks", "evaluation"] in draw_layers.rank_parts(before)
    assert ["benchmarks", "evaluation"] not in draw_layers.rank_parts(after)
