"""Research that is killed: it goes on where it was, with what it had fetched, and fetches nothing twice."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from certigraph.evaluation.result import Result
from certigraph.evaluation.run import run

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parent.parent
TASK = "gyms/1"

PRELUDE = """
import os, signal, sys
from pathlib import Path
from doubles import after_events
from web_log import log_requests
from certigraph.evaluation.run import resume, run
log_requests(Path(sys.argv[2]))
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
    before = log.read_text().count("\n") if log.exists() else 0
    while child(RESUMED, cache, out, log, events + 9) == -signal.SIGKILL:
        events += 9
    asked = Counter(line for line in log.read_text().splitlines() if "robots.txt" not in line)
    result = Result(next(out.iterdir()))
    assert (result.ending, result.certificates) == (whole.ending, whole.certificates)
    pages = [line for line in asked if line.startswith("GET")]
    assert pages
    assert len(log.read_text().splitlines()) > before
    assert [line for line in pages if asked[line] > 1] == []
