"""The README's Python examples run as they stand, and its commands exist."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from certigraph.cli import app

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_python_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        exec(compile(block, "README.md", "exec"), names)
    result = names["result"]
    assert result.ending in ("goal", "gave_up", "limit:steps", "world_ended")  # type: ignore[attr-defined]


def test_first_example_is_as_described(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0], names)
    result = names["result"]
    assert (result.ending, result.terminated, result.credit) == ("goal", True, [1, 1, 1, 1])  # type: ignore[attr-defined]


def test_commands_exist() -> None:
    commands = set(re.findall(r"^certigraph (\w+)", README, re.MULTILINE))
    assert commands
    for command in commands:
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0
