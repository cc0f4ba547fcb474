"""What the page of a comparison calls it, and how its table of runs counts trials."""

import re
from pathlib import Path

import pytest

from certigraph.adapters.protocols import Context, Limits
from certigraph.evaluation.comparison import Method, methods_from, plan_of
from certigraph.evaluation.comparison_report import findings_of, write_page
from certigraph.evaluation.plots import AXES, draw_curves

pytestmark = pytest.mark.slow  # pages of whole comparisons


def variant(number: int) -> Method:
    [method] = methods_from(["b=sdp"], [f"b:validate=capped:depth={number}"])
    return method.model_copy(update={"name": f"depth {number}"})


def page(methods: list[Method], folder: Path, trials: int = 1) -> str:
    plan = plan_of("blocksworld", methods, ["3-0"], Context(limits=Limits()), trials)
    write_page(plan, findings_of(plan, folder), draw_curves({axis: {} for axis in AXES}, folder), folder / "page.html")
    return (folder / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("methods", "title"),
    [
        (["sdp", 1, 2, 3], "sdp and 3 variants"),
        (["sdp", 1], "sdp and 1 variant"),
        (["sdp"], "sdp"),
        (["sdp", "react"], "sdp · react"),
        ([1, "sdp"], "depth 1 · sdp"),
        (["react", *range(1, 8)], "react · depth 1 · depth 2 · depth 3 · depth 4 · depth 5 · and 2 more"),
    ],
)
def test_the_title_is_short(methods: list[str | int], title: str, tmp_path: Path):
    made = [variant(m) if isinstance(m, int) else methods_from([m])[0] for m in methods]
    assert re.findall("<(?:title|h1)>(.*?)</", page(made, tmp_path)) == [f"{title} on blocksworld"] * 2


def test_trials_are_counted_from_zero(tmp_path: Path):
    [method] = methods_from(["sdp"])
    assert re.findall(r"<td>(3-0[^<]*)</td>", page([method], tmp_path, trials=2)) == ["3-0 trial 0", "3-0 trial 1"]
    assert "<td>3-0</td>" in page([method], tmp_path)
