"""Type checkers accept an application that uses the public API, and find its mistakes; the application runs.

mypy works without pydantic's plugin here: users need not install it.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from certigraph import load_benchmark

ROOT = Path(__file__).parent.parent
CONSUMER = ROOT / "tests" / "consumer"
APPLICATION, MISTAKES = CONSUMER / "application.py", CONSUMER / "mistakes.py"

Line = tuple[str, int]
"""Name of a file of the consumer, and a line number."""


def expected_errors() -> set[Line]:
    lines = MISTAKES.read_text(encoding="utf-8").splitlines()
    return {(MISTAKES.name, number) for number, line in enumerate(lines, 1) if line.endswith("# wrong")}


def run_program(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
        timeout=600,
    )


def described(found: Iterable[tuple[Line, str]]) -> str:
    return "\n".join(f"{file}:{number}: {message}" for (file, number), message in found)


def check(found: Iterable[tuple[Line, str]]) -> None:
    reported = list(found)
    lines = {line for line, _ in reported}
    assert expected_errors()
    assert lines - expected_errors() == set(), described(one for one in reported if one[0] not in expected_errors())
    assert expected_errors() - lines == set(), "a mistake was not found"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_mypy_accepts_the_application_and_finds_the_mistakes(tmp_path: Path):
    settings = tmp_path / "mypy.ini"
    # silent: as for an installed package, errors are reported in the consumer's files only
    settings.write_text("[mypy]\nstrict = true\nfollow_imports = silent\n", encoding="utf-8")
    options = ("--config-file", str(settings), "--cache-dir", str(tmp_path / "cache"), "--no-error-summary")
    done = run_program("-m", "mypy", *options, str(APPLICATION), str(MISTAKES), MYPYPATH=str(ROOT / "src"))
    assert not done.stderr, done.stderr
    pattern = re.compile(r"^.*?(\w+\.py):(\d+): error: (.*)$", re.MULTILINE)
    check(((match[1], int(match[2])), match[3]) for match in pattern.finditer(done.stdout))


@pytest.mark.long
@pytest.mark.slow
def test_pyright_accepts_the_application_and_finds_the_mistakes(tmp_path: Path):
    settings = {
        "include": [str(CONSUMER)],
        "extraPaths": [str(ROOT / "src")],
        "typeCheckingMode": "strict",
        "reportUnknownMemberType": False,  # LangGraph's own signatures leave out type arguments
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    options = ("-p", str(tmp_path), "--pythonpath", sys.executable, "--outputjson")
    done = run_program("-m", "basedpyright", *options)
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] >= 2
    check(
        ((Path(one["file"]).name, one["range"]["start"]["line"] + 1), one["message"])
        for one in found["generalDiagnostics"]
        if one["severity"] == "error"
    )


@pytest.mark.long
@pytest.mark.slow
def test_the_application_runs(tmp_path: Path):
    question = load_benchmark("web").tasks()[0].goal
    done = run_program(str(APPLICATION), question, str(tmp_path), PYTHONPATH=str(ROOT / "src"))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["endings"] == ["goal", "goal"]
    assert result["credit"] == [1] * 7
    assert result["scores"] == [1.0, 1.0]
    assert result["certificates"] == [4, 2]
    assert result["graphs"] == ["sdp"] * 5 + ["react", "step", "tdp"]
    assert result["agents"] == ["sdp", "sdp", "tdp", "step", "react", "plan_and_act", "pbai"]
    assert result["extended"] == 2
    assert result["ask"] == "goal"
