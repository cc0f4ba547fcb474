"""The command doctor, the version, and the grouped help."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import certigraph
from certigraph.cli import app
from certigraph.cli.doctor import EXTRAS


def findings(**environment: str) -> dict[str, dict[str, Any]]:
    done = CliRunner().invoke(app, ["doctor", "--json"], env=environment)
    assert done.exit_code == 0, done.output
    return {finding["name"]: finding for finding in json.loads(done.output)}


def test_what_is_missing_comes_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    found = findings()
    assert (found["java"]["found"], found["eval"]["found"]) == (False, True)
    assert "apt install" in found["java"]["detail"]
    assert found["OPENAI_API_KEY"] == {
        "kind": "models",
        "name": "OPENAI_API_KEY",
        "found": False,
        "detail": "export OPENAI_API_KEY=...",
    }


def test_an_extra_with_a_missing_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("certigraph.cli.doctor._is_installed", lambda name, specifier: name != "tantivy")
    found = findings()
    assert (found["retrieval"]["found"], found["web"]["found"]) == (False, True)
    assert found["retrieval"]["detail"].endswith(": pip install 'certigraph[retrieval]'")


@pytest.mark.slow
def test_an_extra_is_added_to_the_installed_certigraph_without_an_index() -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--dry-run", "--no-index"]
    done = subprocess.run([*pip, "certigraph[eval]"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Would install" not in done.stdout


def test_one_command_brings_all_missing_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("certigraph.cli.doctor._is_installed", lambda name, specifier: name not in ("tantivy", "ray"))
    shown = CliRunner().invoke(app, ["doctor"]).output
    extras = shown[shown.index("extras:") : shown.index("programs:")]
    assert "pip install 'certigraph[retrieval,ray]'" in extras and extras.count("pip install") == 1
    assert all(f" {use}\n" in extras for use in EXTRAS.values()) and max(map(len, extras.splitlines())) <= 80


def test_gpl_extras_and_torch_have_commands_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = {"tantivy", "sentence-transformers", "torch", "alfworld", "textworld"}
    monkeypatch.setattr("certigraph.cli.doctor._is_installed", lambda name, specifier: name not in absent)
    shown = CliRunner().invoke(app, ["doctor"]).output
    installs = re.findall(r"pip install ('[^']*'|\S+)", shown)
    assert installs[0].startswith("torch")
    assert installs[1:3] == ["'certigraph[embeddings,retrieval,lora]'", "'certigraph[alfworld,textworld]'"]


def test_keys_and_paths_of_addresses_are_never_shown() -> None:
    done = CliRunner().invoke(
        app,
        ["doctor"],
        env={"OPENAI_API_KEY": "sk-doctor-secret", "CERTIGRAPH_BASE_URL": "http://me:pass@host:8000/token-path/v1"},
    )
    assert "is set" in done.output and "http://host:8000" in done.output
    assert not [secret for secret in ("doctor-secret", "pass", "token-path") if secret in done.output]


def test_data_is_named_by_its_variable(tmp_path: Path) -> None:
    (tmp_path / "webshop").mkdir()
    assert findings(CERTIGRAPH_DATA=str(tmp_path))["webshop"]["detail"] == "CERTIGRAPH_DATA/webshop"
    assert not findings(CERTIGRAPH_DATA=str(tmp_path / "none"))["CERTIGRAPH_DATA"]["found"]


def test_version_and_help() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"certigraph {certigraph.__version__}\n"
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).output
    assert max(map(len, shown.splitlines())) <= 80
