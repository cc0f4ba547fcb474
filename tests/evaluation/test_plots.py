"""Drawings of many methods with long names: no texts overlap."""

from itertools import combinations
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from certigraph.evaluation import plots
from certigraph.evaluation.plots import AXIS_LABELS, CurvePoint

pytest.importorskip("matplotlib", reason="pip install 'certigraph[eval]'")


NAMES = [
    "sdp",
    "validate=always_pass",
    "replan=give_up",
    "validate=capped:depth=1",
    "validate=always_pass,replan=give_up",
]
NAMES += ["gate=exhaustion_gate:jaccard=0.6,upr=0.3,patience=2", "react", "a" * 100]


@pytest.fixture
def figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Figure:
    kept: list[Figure] = []
    monkeypatch.setattr(plots, "save_drawing", lambda figure, path: kept.append(figure))
    curve = [CurvePoint(0, 0, 0, 9), CurvePoint(123_456, 50, 5, 9)]
    plots.draw_curves({axis: dict.fromkeys(NAMES, curve) for axis in AXIS_LABELS}, tmp_path)
    kept[0].draw_without_rendering()
    return kept[0]


@pytest.mark.slow
def test_names_stand_above_the_panels_and_apart(figure: Figure):
    (legend,) = figure.legends
    texts = [text.get_window_extent() for text in legend.get_texts()]
    panels = [panel.get_window_extent() for panel in figure.axes]
    assert [text.get_text() for text in legend.get_texts()] == NAMES
    assert [(a, b) for a, b in combinations([*texts, *panels], 2) if a.overlaps(b)] == []
    assert all(text.x1 <= figure.bbox.x1 and text.y1 <= figure.bbox.y1 for text in texts)
    assert min(panel.height for panel in panels) > figure.bbox.height / 2


@pytest.mark.slow
def test_ticks_stand_apart(figure: Figure):
    ticks = [tick.label1.get_window_extent() for panel in figure.axes for tick in panel.xaxis.get_major_ticks()]
    assert [(a, b) for a, b in combinations(ticks, 2) if a.overlaps(b)] == []


@pytest.mark.slow
def test_no_two_lines_look_the_same(figure: Figure):
    looks = [(line.get_color(), line.get_linestyle()) for line in figure.axes[0].get_lines()]
    assert len(set(looks)) == len(NAMES)
