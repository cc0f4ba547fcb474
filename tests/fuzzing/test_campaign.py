"""The fuzzers themselves: every reader for a moment under atheris, and with inputs that are long and repeat."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from fuzzing.checks import check
from fuzzing.repetitions import repeated_pieces
from fuzzing.targets import TARGETS
from helpers.processes.children import child_environment

TESTS = Path(__file__).parents[1]


def fuzzed(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`python -m fuzzing`, with generated worlds."""
    environment = child_environment(TESTS, CERTIGRAPH_DATA="")
    command = [sys.executable, "-m", "fuzzing", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.long
@pytest.mark.slow
def test_no_reader_breaks_under_a_moment_of_fuzzing() -> None:
    done = fuzzed("--inputs", "10", "--seconds", "10", "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr[-2_000:]
    assert len(re.findall(r"^\S+ +[1-9][\d,]* inputs +nothing found$", done.stdout, re.MULTILINE)) == len(TARGETS)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TARGETS))
def test_time_grows_no_faster_than_what_is_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    for data in repeated_pieces(TARGETS[name], 2):
        check(TARGETS[name], data, patience=2.0)
