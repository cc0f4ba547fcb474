"""Research that is killed: it goes on where it was, with what it had fetched, and fetches nothing twice."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from certigraph.adapters.web.sources import AT_ONCE
from certigraph.runtime.result import Result
from certigraph.runtime.run import run

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parent.parent
TASK = "gyms/1"
NEVER = 10_000

PRELUDE = """
import os, signal, sys
from pathlib import Path
from doubles import after_events
from web_log import log_requests
from certigraph.runtime.run import resume
from certigraph.runtime.run import run
log_requests(Path(sys.argv[2]), int(sys.argv[4]) if len(sys.argv) > 4 else 0)
def die():
    os.kill(os.getpid(), signal.SIGKILL)
"""
STARTED = f"run('sdp', 'web', '{TASK}', out=sys.argv[1], listener=after_events(int(sys.argv[3]), die))"
RESUMED = "resume(next(Path(sys.argv[1]).iterdir()), listener=after_events(int(sys.argv[3]), die))"


def child(code: str, cache: Path, *arguments: object) -> int:
    path = os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])
    env = {**os.environ, "PYTHONPATH": path, "CERTIGRAPH_WEB_CACHE": str(cache)}
    command = [sys.executable, "-c", PRELUDE + code, *map(str, arguments)]
    return subprocess.run(command, env=env, check=False, timeout=120).returncode


def pages(log: Path) -> list[str]:
    """The pages that were fetched, in their order, each as often as it was."""
    return [line for line in log.read_text().splitlines() if line.startswith("GET") and "robots.txt" not in line]


def twice(lines: list[str]) -> set[str]:
    return {line for line, count in Counter(lines).items() if count > 1}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The same research, uninterrupted and in this process, with a cache of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CERTIGRAPH_WEB_CACHE", str(tmp_path_factory.mktemp("cache")))
        return run("sdp", "web", TASK, out=tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("events", range(3, 22, 3))
def test_a_killed_research_resumes_and_fetches_nothing_twice(events: int, whole: Result, tmp_path: Path):
    out, log, cache = tmp_path / "runs", tmp_path / "log", tmp_path / "cache"
    assert child(STARTED, cache, out, log, events) == -signal.SIGKILL
    while child(RESUMED, cache, out, log, events + 9) == -signal.SIGKILL:
        events += 9
    result = Result(next(out.iterdir()))
    assert (result.ending, result.certificates) == (whole.ending, whole.certificates)
    assert pages(log)
    assert twice(pages(log)) == set()


@pytest.mark.parametrize("requests", [1, 4, 9])
def test_killed_while_it_fetches_it_repeats_at_most_what_was_under_way(requests: int, whole: Result, tmp_path: Path):
    out, log, cache = tmp_path / "runs", tmp_path / "log", tmp_path / "cache"
    assert child(STARTED, cache, out, log, NEVER, requests) == -signal.SIGKILL
    under_way = set(pages(log)[-AT_ONCE:])
    assert child(RESUMED, cache, out, log, NEVER) == 0
    result = Result(next(out.iterdir()))
    assert (result.ending, result.certificates) == (whole.ending, whole.certificates)
    assert twice(pages(log)) <= under_way
