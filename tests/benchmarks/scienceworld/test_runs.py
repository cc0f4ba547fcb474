"""ScienceWorld in runs: gold paths through several graphs, in recorded worlds and in the simulator."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.processes.children import child_environment
from helpers.sample_runs.gold_runs import GRAPHS, UNLIMITED, reached_goal
from helpers.worlds.recorded_benchmark import RecordedBenchmark, gold_recordings

from certigraph.adapters import episodes
from certigraph.adapters.episodes import EPISODES
from certigraph.adapters.models.profiles import ModelProfile, estimate_tokens
from certigraph.benchmarks.scienceworld import operators
from certigraph.benchmarks.scienceworld.splits import list_ids
from certigraph.runtime.prompts import collect_prompts
from certigraph.runtime.result import Result
from certigraph.runtime.run import resume, run
from certigraph.state.trajectory import TrajectoryLine

# The whole matrix, all thirty tasks through three graphs, is a script: `python tests/helpers/sample_runs/gold_runs.py`.


RECORDED = (
    "boil",
    "chemistry-mix",
    "find-plant",
    "identify-life-stages-2",
    "inclined-plane-determine-angle",
    "use-thermometer",
)
"""Tasks of every kind: heat, chemistry, search, stages, an experiment with questions, a measurement."""

TASK = "gold/lifespan-longest-lived-then-shortest-lived:0"

CHILD = """
import os, signal, sys
from helpers.worlds.scripted_benchmark import after_events
from helpers.sample_runs.gold_runs import GRAPHS, UNLIMITED
from certigraph.runtime.run import run
graph, benchmark = GRAPHS[sys.argv[1]]
die = lambda: os.kill(os.getpid(), signal.SIGKILL)
listener = after_events(int(sys.argv[4]), die)
run(graph(), benchmark, sys.argv[2], context=UNLIMITED, out=sys.argv[3], listener=listener)
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Result]:
    """Uninterrupted runs, by graph."""
    done: dict[str, Result] = {}

    def of(name: str) -> Result:
        if name not in done:
            done[name] = golden(name, TASK, tmp_path_factory.mktemp(name))
        return done[name]

    return of


def golden(name: str, task: str, out: Path, **more: Any) -> Result:
    graph, benchmark = GRAPHS[name]
    return run(graph(), benchmark, task, context=UNLIMITED, out=out, **more)


def assert_same_episode(result: Result, whole: Result) -> None:
    assert (result.ending, result.scores) == (whole.ending, whole.scores)
    assert result.state["history"] == whole.state["history"], "the same actions and digests"
    assert [event.node for event in result.trajectory.events] == [event.node for event in whole.trajectory.events]


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("family", RECORDED)
def test_the_expert_follows_a_recorded_gold_path_to_100(name: str, family: str, tmp_path: Path):
    build, benchmark = GRAPHS[name]
    live = RecordedBenchmark(gold_recordings(), benchmark.partition(":")[2])
    result = run(build(), live, f"gold/{family}:0", context=UNLIMITED, out=tmp_path)
    assert reached_goal(result), result.message
    actions = [step.action.text for step in result.state["history"]]
    assert actions == list(live.recorded[f"gold/{family}:0"].actions)


# A recorded world shows the room as it was last described, so that rules which read the view may see an old state of a
# device that is switched again; the simulator's own view does not lag (scripts/certificate_audit.py).
LAGGING = ("inclined-plane-determine-angle", "chemistry-mix")


@pytest.mark.slow
@pytest.mark.parametrize("family", RECORDED)
def test_every_world_state_of_a_gold_path_is_certified_at_its_step(family: str, tmp_path: Path):
    live = RecordedBenchmark(gold_recordings(), "paper")
    result = run("sdp", live, f"gold/{family}:0", context=UNLIMITED, out=tmp_path)
    states = live.recorded[f"gold/{family}:0"].states
    targets = [(target.text, c.step) for c in result.certificates for target in c.targets if target.kind != "goal"]
    assert targets == [(state.text, state.after) for state in states]
    assert result.certificates[-1].targets[-1].kind == "goal"


@pytest.mark.slow
@pytest.mark.parametrize("family", [one for one in RECORDED if one not in LAGGING])
def test_no_world_state_of_a_gold_path_is_certified_before_it_holds(family: str, tmp_path: Path):
    live = RecordedBenchmark(gold_recordings())
    result = run("sdp", live, f"gold/{family}:0", context=UNLIMITED, out=tmp_path)
    states = {state.text: state for state in live.recorded[f"gold/{family}:0"].states}
    certified = [c for c in result.certificates if not c.forced]
    targets = [(target.text, c.step) for c in certified for target in c.targets if target.kind != "goal"]
    assert [text for text, _ in targets] == [text for text in states if text in dict(targets)]
    assert len(targets) >= len(states) - 1, "the world may end before the last one is judged"
    assert all(states[text].after <= step for text, step in targets)
    assert result.certificates[-1].targets[-1].kind == "goal"
    deciders = {c.decided_by for c in result.certificates}
    assert deciders <= {"code", "oracle"}, "no verdict is a guess"
    assert "oracle" in deciders or family != "boil"
    assert all(c.evidence for c in result.certificates)


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("task", list_ids("short"))
def test_the_expert_reaches_100_on_the_real_simulator(name: str, task: str, tmp_path: Path):
    result = golden(name, task, tmp_path)
    assert reached_goal(result), result.message


@pytest.mark.slow
@pytest.mark.parametrize("task", list_ids("gold")[::6])
def test_react_follows_every_sixth_gold_path_of_the_real_simulator(task: str, tmp_path: Path):
    assert reached_goal(golden("react", task, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "family"), zip(("sdp", "step") * 3, RECORDED, strict=True))
def test_sdp_and_step_follow_gold_paths_of_the_real_simulator(name: str, family: str, tmp_path: Path):
    assert reached_goal(golden(name, f"gold/{family}:0", tmp_path))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(("name", "events"), [("sdp", 4), ("sdp", 9), ("step", 6), ("step", 12)])
def test_a_run_that_is_killed_in_mid_episode_goes_on_as_if_nothing_had_happened(
    name: str, events: int, whole: Callable[[str], Result], tmp_path: Path
):
    expected = whole(name)  # first: the expert knows the goals of worlds that its process opened, and no others
    env = child_environment()
    command = [sys.executable, "-c", CHILD, name, TASK, str(tmp_path), str(events)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr
    (folder,) = tmp_path.iterdir()
    assert Result(folder).ending == "interrupted"
    assert len(Result(folder).trajectory.events) == events
    assert_same_episode(resume(folder), expected)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "steps"), [("sdp", 1), ("sdp", 3), ("step", 2)])
def test_a_jvm_that_dies_in_mid_run_is_the_worlds_fault_and_the_run_is_resumed(
    name: str, steps: int, whole: Callable[[str], Result], tmp_path: Path
):
    acted = 0

    def kill_the_jvm(line: TrajectoryLine) -> None:
        nonlocal acted
        acted += line.type == "event" and line.node == "act"
        if acted == steps:
            acted += 1
            *_, episode = EPISODES.values()  # the latest: graphs that other tests invoked may have left theirs open
            os.kill(episode.environment._simulator.process.pid, signal.SIGKILL)  # type: ignore[attr-defined]

    broken = golden(name, TASK, tmp_path, listener=kill_the_jvm)
    assert broken.ending == "error:environment"
    assert "Java process" in broken.message
    assert len(broken.state["history"]) == steps
    assert_same_episode(resume(broken.folder), whole(name))


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["sdp", "step", "react"])
def test_the_prompts_for_small_models_fit_their_window(graph: str, monkeypatch: pytest.MonkeyPatch):
    for module in (episodes, operators):  # words alone: torch takes seconds to load
        monkeypatch.setattr(module, "find_encoder", lambda name: None)
    twins = RecordedBenchmark(gold_recordings(), "drafted")
    collected = collect_prompts(graph, twins, "gold/use-thermometer:0", window=4_096, steps=60)
    window = ModelProfile(4_096).prompt_tokens
    assert collected.sent
    assert max(estimate_tokens(prompt.text) for prompt in collected.sent) <= window
