"""ScienceWorld's real simulator: scores, ends, determinism, JVMs that die, are missing or must not be left behind."""

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.worlds.recorded_worlds import create_replay_world, recorded_setting, replay_live
from langgraph.runtime import Runtime

from certigraph.adapters.episodes import LiveEpisode, close_episode, live_episode
from certigraph.adapters.protocols import Context
from certigraph.benchmarks.scienceworld import recordings, simulator
from certigraph.benchmarks.scienceworld.benchmark import ScienceWorldBenchmark
from certigraph.benchmarks.scienceworld.pool import DEFAULT_POOL, SimulatorPool
from certigraph.benchmarks.scienceworld.simulator import JVM_FLAGS, JavaSimulator
from certigraph.benchmarks.scienceworld.splits import SPLITS
from certigraph.benchmarks.scienceworld.world import ScienceWorld, parse_room
from certigraph.state.endings import Fault
from certigraph.state.records import Action, Observation

LIGHTER = ("open door to kitchen", "go to kitchen", "focus on lighter", "move lighter to red box")
SHORT = ("find-non-living-thing", "lifespan-longest-lived", "find-plant")


@pytest.fixture(scope="module")
def pool() -> Iterator[SimulatorPool]:
    lent = SimulatorPool(max_free=1)
    yield lent
    lent.close()


def world_of(pool: SimulatorPool, task: str, split: str = "gold") -> ScienceWorld:
    world = ScienceWorld(SPLITS[split].setting(task, 0), pool)
    world.reset()
    return world


def step(world: ScienceWorld, text: str) -> Observation:
    return world.step(Action(text=text))


def process_of(world: ScienceWorld) -> "subprocess.Popen[bytes]":
    simulator = world._simulator
    assert isinstance(simulator, JavaSimulator)
    return simulator.process


@pytest.mark.slow
def test_a_short_task_reaches_100(pool: SimulatorPool):
    world = world_of(pool, "find-non-living-thing")
    seen = [step(world, action) for action in LIGHTER]
    assert [observation.data["score"] for observation in seen] == [8, 25, 75, 100]
    assert [observation.done for observation in seen] == [False, False, False, True]
    assert (seen[-1].solved, seen[-1].data["moves"], world.score().value) == (True, 4, 1.0)
    world.close()


@pytest.mark.slow
def test_a_wrong_focus_is_fatal_and_keeps_what_was_earned(pool: SimulatorPool):
    world = world_of(pool, "find-plant", "variation-0")
    step(world, "teleport to greenhouse")
    earned = world.score().value
    last = step(world, "focus on air")
    assert (last.data["score"], last.done, last.data["ended"], last.solved) == (-100, True, "failed", False)
    assert 0 < earned == world.score().value
    assert world.score().parts["raw"] == -100
    world.close()
    fresh = world_of(pool, "find-plant", "variation-0")
    assert fresh.score().parts["raw"] == fresh.reset().data["score"] == 8
    fresh.close()


@pytest.mark.slow
def test_costs_refusals_and_questions_are_as_the_sheet_says(pool: SimulatorPool):
    world = world_of(pool, "find-non-living-thing", "variation-0")
    values = [
        step(world, text) for text in ("teleport to kitchen", "look around", "dance", "open door to hallway", "wait")
    ]
    assert [o.data["moves"] for o in values] == [1, 1, 1, 2, 13]
    assert [o.data["result"] for o in values] == ["accepted", "accepted", "rejected", "failed", "accepted"]
    question = step(world, "pick up orange")
    assert (question.data["result"], question.data["moves"]) == ("ambiguous", 13)
    assert step(world, "cancel").data["result"] == "cancelled"
    again = step(world, "pick up orange")
    taken = step(world, str(again.data["options"][0]))  # type: ignore[index]
    assert (taken.data["result"], taken.text) == ("accepted", "You move the orange to the inventory.")
    listed = world.admissible()
    assert "teleport to hallway" in listed
    assert not [action for action in listed if "reset" in action]
    world.close()


@pytest.mark.slow
def test_the_room_that_is_followed_is_the_room_one_is_in(pool: SimulatorPool):
    world = world_of(pool, "boil", "variation-0")
    for text in (
        "go to kitchen",
        "go to outside",
        "go to kitchen",
        "teleport to workshop",
        "go through door to hallway",
    ):
        observation = step(world, text)
        assert observation.data["room"] == parse_room(world.view())
    world.close()


@pytest.mark.long
@pytest.mark.slow
def test_a_killed_jvm_is_a_fault_and_a_fresh_one_goes_on(monkeypatch: pytest.MonkeyPatch):
    benchmark = ScienceWorldBenchmark()
    task = benchmark.task("gold/find-non-living-thing:0")
    runtime = Runtime(context=Context(benchmark=benchmark))
    episode = live_episode("killed", task, [], runtime)
    for action in LIGHTER[:2]:
        episode.step(Action(text=action))
    history = list(episode.log)
    killed = process_of(episode.environment)  # type: ignore[arg-type]
    os.kill(killed.pid, signal.SIGKILL)
    for _ in range(2):
        with pytest.raises(Fault, match=r"Java process \d+ failed .*certigraph resume RUN"):
            episode.step(Action(text=LIGHTER[2]))
    assert (episode.log, episode.score().value) == (history, 0.25)
    close_episode("killed")
    resumed = live_episode("killed", task, history, runtime)
    assert process_of(resumed.environment).pid != killed.pid  # type: ignore[arg-type]
    assert [resumed.step(Action(text=action)).done for action in LIGHTER[2:]] == [False, True]
    assert resumed.score().value == 1.0
    close_episode("killed")


@pytest.mark.long
@pytest.mark.slow
def test_recordings_replay_to_the_byte_in_other_processes_and_the_twin_agrees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pool: SimulatorPool
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    golds = [recordings.load_gold_recording(task) for task in SHORT]
    with ProcessPoolExecutor(3, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        first, *others = processes.map(replay_live, [golds] * 3)
    assert others == [first, first]
    for recording, (replies, scores, _) in zip(golds, first, strict=True):
        assert replies == list(recording.obs[: recording.firstdone + 1])
        assert scores == list(recording.scores[: recording.firstdone])
    for recording in golds:
        live, dead = world_of(pool, recording.task), create_replay_world(recording)
        assert dead.reset() == live.reset()
        assert [_without_data(step(dead, a)) for a in recording.actions] == [
            _without_data(step(live, a)) for a in recording.actions
        ]
        live.close()


@pytest.mark.long
@pytest.mark.slow
def test_a_gold_path_is_recorded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = recordings.load_gold_recording("find-non-living-thing")
    monkeypatch.setattr(recordings, "DEFAULT_POOL", None)
    assert recordings.load_gold_recording("find-non-living-thing") == first
    assert (first.scores[first.firstdone - 1], recorded_setting(first)) == (100, SPLITS["gold"].setting(first.task, 0))


def _without_data(observation: Observation) -> Observation:
    """All but the room's picture, which a recording has of other moments."""
    data = {name: value for name, value in observation.data.items() if name != "look"}
    return observation.model_copy(update={"data": data})


@pytest.mark.long
@pytest.mark.alone
@pytest.mark.slow
def test_a_step_costs_little_more_than_the_simulators_own_and_memory_stays_bounded(pool: SimulatorPool):
    world = world_of(pool, "boil")
    process = process_of(world)
    raw, whole = list[float](), list[float]()
    for _ in range(100):
        raw.append(_seconds(world._live.step, "look around"))
        whole.append(_seconds(world.step, Action(text="look around")))
    world.close()
    for task in ("freeze", "find-plant", "use-thermometer"):
        world = world_of(pool, task)
        world.admissible()
        assert process_of(world) is process
        world.close()
    assert min(whole) - min(raw) < 0.002  # the least: what other processes add to it is not the adapter's
    assert _resident_megabytes(process.pid) < 600


def _seconds(call: object, *args: object) -> float:
    begun = time.perf_counter()
    call(*args)  # type: ignore[operator]
    return time.perf_counter() - begun


def _resident_megabytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS"))


LEFT_OPEN = """
from certigraph.benchmarks.scienceworld.pool import DEFAULT_POOL
lent, idle = DEFAULT_POOL.borrow(), DEFAULT_POOL.borrow()
DEFAULT_POOL.give_back(idle)
lent.load("boil", 0, "")
print(lent.process.pid, idle.process.pid, flush=True)
{ending}
"""


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("ending", ["", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"])
def test_no_jvm_outlives_its_python_and_the_terminal_stays_clean(ending: str):
    code = [sys.executable, "-c", LEFT_OPEN.format(ending=ending)]
    done = subprocess.run(code, capture_output=True, text=True, check=False, timeout=60)
    pids = [int(text) for text in done.stdout.split()]
    assert (len(pids), done.stderr) == (2, "")
    deadline = time.monotonic() + 10
    while any(map(_runs, pids)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(_runs, pids))


def _runs(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text(encoding="utf-8")


def test_without_java_no_task_can_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(DEFAULT_POOL, "_idle", [])
    with pytest.raises(Fault, match="Java 17") as fault:
        ScienceWorldBenchmark().task("boil:0")
    assert fault.value.ending == "error:environment"


def test_a_java_that_does_not_start_is_not_a_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Fault, match="Java 17"):
        JavaSimulator()


@pytest.mark.slow
def test_recorded_steps_replay_in_the_stock_simulator(pool: SimulatorPool, monkeypatch: pytest.MonkeyPatch):
    world = world_of(pool, "find-non-living-thing", "variation-0")
    values = ("teleport to kitchen", "pick up orange", "cancel", "pick up orange", "dance", "OPTION", *LIGHTER)
    recorded: list[tuple[str, Observation]] = []
    for text in values:
        options = recorded[-1][1].data.get("options", []) if recorded else []
        meant = str(options[1]) if text == "OPTION" and isinstance(options, list) else text
        recorded.append((meant, step(world, meant)))
    assert [seen.data["sent"] for _, seen in recorded if "sent" in seen.data] == ["", None, "1"]
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", " ".join(JVM_FLAGS[:2]))  # sets of objects are listed by hash codes
    stock = pytest.importorskip("scienceworld").ScienceWorldEnv("", envStepLimit=1_000)
    try:
        stock.load(world.setting.task, world.setting.variation, world.setting.simplification)
        stock.reset()
        for text, seen in recorded:
            line = seen.data.get("sent", text)
            if line is not None:
                observation, _, _, infos = stock.step(line)
                assert (observation.strip(), infos["score"]) == (seen.text.strip(), seen.data["score"])
    finally:
        stock.close()
    assert infos["score"] == world.score().parts["raw"] == 100


@pytest.mark.slow
@pytest.mark.parametrize("way", ["the pool", "the log"])
def test_a_world_whose_actions_were_listed_is_replayed_with_its_random_numbers(pool: SimulatorPool, way: str):
    world = world_of(pool, "mendelian-genetics-known-plant", "step-18")
    episode = LiveEpisode(world, owned=True)
    for number, text in enumerate(["teleport to greenhouse", "open bee hive", *["wait1"] * 3]):
        if number in (0, 2):
            assert episode.admissible()
        episode.step(Action(text=text))
    seen = world.view()  # in and around the hive, bees move at random
    if way == "the pool":
        given_up = world.suspend()
        assert given_up is not None
        pool.give_back(given_up)
        world._view = None
        assert world.view() == seen
    else:
        again = LiveEpisode(world_of(pool, "mendelian-genetics-known-plant", "step-18"), owned=True)
        again.replay(episode.log)
        assert again.evidence().view == seen
        again.close()
    episode.close()


def test_a_jvm_whose_output_cannot_be_read_is_a_fault_of_the_environment(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("scienceworld")
    pipe = io.BytesIO()
    pipe.close()
    ended = SimpleNamespace(stdin=None, stdout=pipe, wait=lambda: 1, kill=lambda: None)
    monkeypatch.setattr(simulator.subprocess, "Popen", lambda *_, **__: ended)
    with pytest.raises(Fault, match="exit status 1"):
        simulator.launch_jvm()
