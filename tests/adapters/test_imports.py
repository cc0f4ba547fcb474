"""Objects of a user's own by `module:attribute` and by entry point."""

import sys
from pathlib import Path

import pytest
from helpers.files.installed_package import INSTALLED

from certigraph.adapters.imports import (
    BENCHMARK_GROUP,
    distribution_of,
    import_installed,
    import_named,
    installed,
    unknown_name,
)
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
        ("", r"AttributeError: .*\); it must be at the top level"),
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


def test_an_unknown_name_has_a_similar_one_and_how_to_name_one_s_own():
    message = str(unknown_name("stepp", "graph", ["step", "sdp", "step"], "m:build"))
    assert "did you mean step?" in message and "m:build" in message
    assert "m:build" in str(unknown_name("qqqqq", "graph", ["step", "sdp"], "m:build"))
