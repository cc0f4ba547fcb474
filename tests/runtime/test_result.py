"""Runs that ended `error:*`: Python warns or raises, and the message names the folder and the fix."""

import asyncio
import warnings
from pathlib import Path
from typing import Any

import pytest
from helpers.worlds.scripted_benchmark import Script

import certigraph
from certigraph import Context, RunFailed, RunFailedWarning
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.state.endings import UnknownName

UNUSABLE = Context(chat=ScriptedChat(replies=("no object",) * 40))
"""A model whose answers match no schema."""


def failing(out: Path, **options: Any) -> certigraph.Result:
    return certigraph.run("react", "blocksworld", "4-0", context=UNUSABLE, out=out, **options)


def test_a_run_that_failed_is_returned_with_a_warning_that_names_ending_folder_and_fix(tmp_path: Path) -> None:
    with pytest.warns(RunFailedWarning) as caught:
        result = failing(tmp_path)
    (warning,) = caught
    text = str(warning.message)
    assert result.ending == "error:model" and result.failed
    assert all(part in text for part in ("error:model", str(result.folder), "certigraph.resume(", result.message[:40]))
    assert warning.filename == __file__


def test_a_run_that_failed_raises_where_that_is_wanted_and_brings_its_result(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="error:model") as caught:
        failing(tmp_path, on_error="raise")
    assert caught.value.result.ending == "error:model"
    assert (caught.value.result.folder / "trajectory.jsonl").is_file()
    with pytest.raises(RunFailed):
        caught.value.result.raise_for_error()


def test_ignore_does_neither_and_the_twins_to_await_do_as_the_others(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = failing(tmp_path, on_error="ignore")
    with pytest.warns(RunFailedWarning) as caught:
        asyncio.run(_awaited(tmp_path))
    assert caught[0].filename == __file__
    with pytest.warns(RunFailedWarning) as caught:
        certigraph.resume(result.folder, chat=UNUSABLE.chat)
    assert caught[0].filename == __file__
    with pytest.raises(RunFailed):
        asyncio.run(certigraph.aresume(result.folder, chat=UNUSABLE.chat, on_error="raise"))


async def _awaited(out: Path) -> None:
    await certigraph.arun("react", "blocksworld", "4-0", context=UNUSABLE, out=out)


@pytest.mark.parametrize("budget", [{"calls": 1}, {}])
def test_a_spent_budget_and_a_goal_are_not_errors(tmp_path: Path, budget: dict[str, int]) -> None:
    context = Context(model="scripted:expert", budget=certigraph.Budget(**budget))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = certigraph.run("sdp:paper", "blocksworld", "4-0", context=context, out=tmp_path, on_error="raise")
    assert result.raise_for_error() is result


def test_an_unknown_way_is_refused_before_anything_runs(tmp_path: Path) -> None:
    for call in (failing, lambda out, **o: certigraph.ask("How many?", out=out, **o)):
        with pytest.raises(UnknownName, match="warn, raise, ignore"):
            call(tmp_path, on_error="shout")
    assert not any(tmp_path.iterdir())


def test_ask_raises_because_its_answer_is_the_point(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    with pytest.raises(RunFailed) as caught:
        certigraph.ask("How many seats?", pages=tmp_path / "pages", context=UNUSABLE, out=tmp_path / "out")
    assert caught.value.result.ending.startswith("error:")


def test_comparisons_and_evaluations_count_failures_and_do_not_warn(tmp_path: Path) -> None:
    from certigraph.runtime.registry import build_graph
    from certigraph.runtime.run import complete_run

    script = Script(verdicts=[])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = asyncio.run(complete_run(tmp_path / "one", build_graph("react"), script, "a", UNUSABLE))
        again = asyncio.run(complete_run(tmp_path / "one", build_graph("react"), script, "a", UNUSABLE))
    assert result.failed and again.failed
