"""What a prompt left out because of the model's context window is an event that every view of a run shows."""

import io
from pathlib import Path

import pytest
from rich.console import Console

import certigraph
from certigraph.adapters.models.chat_models import chat_model
from certigraph.adapters.trajectories import read_trajectory
from certigraph.runtime.history import read_history
from certigraph.runtime.live import LiveView
from certigraph.runtime.report import write_report
from certigraph.runtime.texts import format_cut_prompts

WINDOW = 2_500
"""Tokens of a context window into which about fifteen turns of BlocksWorld fit."""


def wander(folder: Path, window: int, view: LiveView | None = None) -> certigraph.Result:
    """Let a model that acts at random use up 30 steps of a long task."""
    chat = chat_model("scripted:random").model_copy(update={"profile": {"max_input_tokens": window}})
    limits = certigraph.load_benchmark("blocksworld").limits.model_copy(update={"steps": 30, "repeats": 0})
    context = certigraph.Context(chat=chat, limits=limits)
    return certigraph.run("react", "blocksworld", "8-0", context=context, out=folder, listener=view, on_error="ignore")


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> certigraph.Result:
    return wander(tmp_path_factory.mktemp("runs"), WINDOW)


@pytest.mark.slow
def test_the_call_in_the_trajectory_file_says_what_was_left_out_of_which_window(cut: certigraph.Result):
    calls = [call for event in read_trajectory(cut.folder).events for call in event.calls]
    assert [call["window"] for call in calls if call.get("cut")] == [WINDOW] * len(cut.cut_prompts)
    assert 0 < len(cut.cut_prompts) < len(calls)
    first, last = cut.cut_prompts[0], cut.cut_prompts[-1]
    assert (first.node, first.role, first.window) == ("decide", "executor", WINDOW)
    assert "oldest" in first.left_out[0]
    assert first.superstep < last.superstep


@pytest.mark.slow
def test_nothing_is_left_out_of_a_window_that_is_large_enough(tmp_path: Path):
    result = wander(tmp_path, 100_000)
    assert result.cut_prompts == []
    assert "Prompts" not in write_report(result.trajectory, tmp_path / "report.html").read_text()
    assert format_cut_prompts(result.cut_prompts, result.usage.calls) == ""


def test_the_report_has_a_summary_and_one_line_for_each_call(cut: certigraph.Result, tmp_path: Path):
    page = write_report(cut.trajectory, tmp_path / "report.html").read_text()
    assert format_cut_prompts(cut.cut_prompts, cut.usage.calls) in page
    assert [page.count(f"superstep {one.superstep}, decide") for one in cut.cut_prompts] == [1] * len(cut.cut_prompts)


@pytest.mark.slow
def test_the_live_view_reports_the_first_one_when_it_happens_and_counts_them(tmp_path: Path):
    out = io.StringIO()
    view = LiveView(Console(file=out, width=200))
    result = wander(tmp_path, WINDOW, view)
    lines = [line for line in out.getvalue().splitlines() if "leaves out" in line]
    assert len(lines) == 1
    assert result.cut_prompts[0].left_out[0] in lines[0]
    assert view.run.cut_prompts == read_history(result.trajectory).cut_prompts == result.cut_prompts
