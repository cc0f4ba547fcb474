"""Runs that look ahead and whose process dies: they resume to what an uninterrupted run would have come to."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from lookahead import RATING

from certigraph.graphs import mcts, react_reward
from certigraph.nodes.lookahead import listed
from certigraph.runtime.result import Result
from certigraph.runtime.run import resume, run

pytestmark = pytest.mark.slow

GRAPHS = {
    "react_reward": lambda: react_reward.build(**RATING),
    "mcts": lambda: mcts.build(**RATING, propose=listed),
}
TESTS = Path(__file__).parent.parent
VARYING = {"episode": "", "usage": [], "spent": None}
"""What differs from run to run."""

BEGUN = """
import os, signal, sys
from doubles import after_events
from certigraph.runtime.run import run
from lookahead import RATING
from certigraph.graphs import mcts, react_reward
from certigraph.nodes.lookahead import listed
graph = {
    "react_reward": lambda: react_reward.build(**RATING),
    "mcts": lambda: mcts.build(**RATING, propose=listed),
}[sys.argv[3]]()
def die():
    os.kill(os.getpid(), signal.SIGKILL)
run(graph, "blocksworld", "4-0", out=sys.argv[1], listener=after_events(int(sys.argv[2]), die))
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Uninterrupted runs."""
    out = tmp_path_factory.mktemp("whole")
    return {name: run(build(), "blocksworld", "4-0", out=out / name) for name, build in GRAPHS.items()}


@pytest.mark.parametrize(("name", "events"), [("react_reward", 6), ("react_reward", 14), ("mcts", 23), ("mcts", 58)])
def test_killed_after_the_nth_event(name: str, events: int, whole: dict[str, Result], tmp_path: Path):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)])}
    command = [sys.executable, "-c", BEGUN, str(tmp_path), str(events), name]
    assert subprocess.run(command, env=env, timeout=60, check=False).returncode == -signal.SIGKILL
    (folder,) = tmp_path.iterdir()
    assert Result(folder).ending == "interrupted"
    result = resume(folder)
    assert result.ending == whole[name].ending == "goal"
    assert [e.node for e in result.trajectory.events] == [e.node for e in whole[name].trajectory.events]
    assert {**result.state, **VARYING} == {**whole[name].state, **VARYING}
