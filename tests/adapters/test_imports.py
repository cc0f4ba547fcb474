"""Objects of a user's own by `module:attribute` and by entry point."""

import sys
import warnings
from pathlib import Path

import pytest
from helpers.files.installed_package import INSTALLED

from certigraph.adapters import imports
from certigraph.adapters.imports import (
    BENCHMARK_GROUP,
    distribution_of,
    format_unknown,
    import_installed,
    import_named,
    installed,
    warn_if_hidden,
)
from certigraph.graphs import GRAPH_GROUP
from certigraph.state.endings import UnknownName


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(INSTALLED)


def test_an_attribute_and_a_module_are_imported():
    assert import_named("ownagents.worlds:number", "thing") == 3
    assert import_named("ownagents.worlds:Counting.name", "thing") == "counting"
    assert import_named("ownagents.worlds", "thing").number == 3


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise RuntimeError('one\\ntwo')", r"RuntimeError: one two\): correct the module"),
        ("import nowhere_to_be_found", r"named 'nowhere_to_be_found'\): install nowhere_to_be_found, or correct"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("def f(:", "SyntaxError"),
        ("", r"AttributeError: .*\): define it"),
    ],
)
def test_a_broken_import_is_one_line_with_the_reason(
    code: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_here.py").write_text(code)
    monkeypatch.delitem(sys.modules, "broken_here", raising=False)
    with pytest.raises(UnknownName, match=reason) as raised:
        import_named("broken_here:thing", "operator")
    assert "\n" not in str(raised.value)
    assert "operator 'broken_here:thing'" in str(raised.value)


@pytest.mark.parametrize("path", ["agents/worlds.py", "./agents/worlds.py"])
def test_a_file_is_answered_with_the_name_of_its_module(path: str):
    with pytest.raises(UnknownName, match=r"names a file: name the module instead, agents\.worlds:Counting"):
        import_named(f"{path}:Counting", "benchmark")


def test_entry_points_are_found_with_their_distribution_and_imported_on_request_only():
    sys.modules.pop("ownagents.faulty", None)
    found = installed(BENCHMARK_GROUP)
    assert {"counting", "blocksworld", "broken"} <= set(found)
    assert distribution_of(found["counting"]) == "ownagents 1.2"
    assert import_installed(found["counting"], "benchmark").name == "counting"
    assert "ownagents.faulty" not in sys.modules
    with pytest.raises(UnknownName, match=r"'broken' \(ownagents.faulty:World, of ownagents 1.2\).*first line second"):
        import_installed(found["broken"], "benchmark")


def test_entry_points_follow_the_path(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(INSTALLED)])
    assert "counting" not in installed(BENCHMARK_GROUP)


def test_a_name_that_ours_hides_is_warned_of_once():
    imports._warn_hidden.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_if_hidden("sdp", GRAPH_GROUP, "graph")
        warn_if_hidden("sdp", GRAPH_GROUP, "graph")
        warn_if_hidden("tdp", GRAPH_GROUP, "graph")
    # Garbage of other tests may warn of open files meanwhile: only warnings for users are counted.
    (message,) = (str(warning.message) for warning in caught if issubclass(warning.category, UserWarning))
    assert "ownagents.graphs:graph" in message


def test_an_unknown_name_has_near_names_or_all_of_them():
    near = format_unknown("stepp", "graph", ["step", "sdp", "step"], "m:build")
    assert "did you mean step?" in near
    assert "m:build" in near
    assert "known: sdp, step" in format_unknown("qqqqq", "graph", ["step", "sdp"], "m:build")
