"""Tests of runs whose process is killed."""

import itertools
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.checkpoints import checkpointed
from helpers.processes.children import child_environment
from helpers.processes.prepared_processes import PreparedProcess
from helpers.sample_runs.killed_runs import Case, carry, carry_until_killed, recorded_calls, run_folder
from helpers.servers.misbehaving_endpoint import MIXED, expert, least, misbehaving_endpoint
from helpers.worlds.scripted_benchmark import SlowScript
from helpers.worlds.study_world import Riddles
from helpers.worlds.task_graphs import Jobs, SerialJobs, SlowModel
from helpers.worlds.watched_blocks import RATING, describe_goal_as_model, extract_as_model

from certigraph import benchmarks as registered
from certigraph.adapters.protocols import Budget, Context, Limits
from certigraph.adapters.trajectories import read_lines
from certigraph.adapters.web.sources import MAX_PARALLEL_PAGES
from certigraph.graphs import mcts, react_reward, tdp
from certigraph.nodes.lookahead import listed
from certigraph.runtime.result import Result
from certigraph.runtime.run import resume, run
from certigraph.state.trajectory import Event, Trajectory

# Runs whose process dies: resumed, they certify what an uninterrupted run certifies.

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parent.parent
VARYING = {"episode": "", "usage": [], "spent": None}
"""Fields that differ from run to run."""

PRELUDE = """
import os, signal, sys
from helpers.worlds.scripted_benchmark import after_events
from certigraph import benchmarks as registered
from certigraph.runtime.run import resume
from certigraph.runtime.run import run
registered.BENCHMARKS.update(
    script="helpers.worlds.scripted_benchmark:SlowScript", riddles="helpers.worlds.study_world:Riddles"
)
signal.signal(signal.SIGINT, signal.default_int_handler)
def die():
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def known_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registered.BENCHMARKS, "script", "helpers.worlds.scripted_benchmark:SlowScript")
    monkeypatch.setitem(registered.BENCHMARKS, "riddles", "helpers.worlds.study_world:Riddles")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Uninterrupted runs, by benchmark."""
    out = tmp_path_factory.mktemp("whole")
    return {
        "blocksworld": run("sdp:paper", "blocksworld", "4-0", out=out),
        "script": run("sdp:paper", SlowScript(), out=out),  # type: ignore[arg-type]
    }


def child(code: str, *arguments: object) -> PreparedProcess:
    return PreparedProcess(PRELUDE + code, *arguments, env=child_environment())


def died(process: PreparedProcess) -> None:
    status, errors = process.finish()
    assert status == -signal.SIGKILL, errors


def only_run(out: Path) -> Path:
    (folder,) = out.iterdir()
    return folder


def lines(folder: Path) -> list[dict[str, Any]]:
    """The complete lines of a trajectory, without a torn one."""
    texts = (folder / "trajectory.jsonl").read_bytes().split(b"\n")
    return [json.loads(text) for text in texts[:-1]]


def await_lines(out: Path, count: int) -> Path:
    """The folder of the run under `out`, as soon as its trajectory has that many lines."""
    for _ in range(3_000):
        found = list(out.glob("*/trajectory.jsonl"))
        if found and found[0].read_bytes().count(b"\n") >= count:
            return found[0].parent
        time.sleep(0.005)
    raise AssertionError(f"no {count} lines under {out}")


def paid(folder: Path) -> Iterator[dict[str, Any]]:
    return (line["usage"] for line in lines(folder) if line["type"] == "event")


def assert_as_if_nothing_happened(result: Result, whole: Result) -> None:
    assert (result.ending, result.certificates) == (whole.ending, whole.certificates)
    assert result.states == whole.states
    assert [e.node for e in result.trajectory.events] == [e.node for e in whole.trajectory.events]
    assert {**result.state, **VARYING} == {**whole.state, **VARYING}
    assert result.state == checkpointed(result.folder)
    assert result.scores == whole.scores
    usage = result.usage
    assert usage.calls == sum(line["calls"] for line in paid(result.folder))
    assert usage.input_tokens == sum(line["input_tokens"] for line in paid(result.folder))
    assert usage.seconds == pytest.approx(sum(line["seconds"] for line in paid(result.folder)))
    redone = sum(event.usage.calls for event in result.trajectory.superseded)
    assert usage.calls == whole.usage.calls + redone


@pytest.mark.usefixtures("known_script")
@pytest.mark.parametrize("events", [1, 2, 3, 4, 5, 6, 9, 17])
def test_killed_after_the_nth_event(events: int, whole: dict[str, Result], tmp_path: Path):
    code = "run('sdp:paper', 'blocksworld', '4-0', out=sys.argv[1], listener=after_events(int(sys.argv[2]), die))"
    died(child(code, tmp_path, events))
    folder = only_run(tmp_path)
    before = lines(folder)
    assert [line["type"] for line in before] == ["header", *["event"] * events]
    assert Result(folder).ending == "interrupted"
    result = resume(folder)
    assert_as_if_nothing_happened(result, whole["blocksworld"])
    assert lines(folder)[: events + 1] == before


@pytest.mark.usefixtures("known_script")
def test_killed_again_and_again_while_resuming(whole: dict[str, Result], tmp_path: Path):
    died(child("run('sdp:paper', 'blocksworld', '4-0', out=sys.argv[1], listener=after_events(2, die))", tmp_path))
    folder = only_run(tmp_path)
    for _ in range(3):
        known = len(Result(folder).trajectory.events)
        code = "resume(sys.argv[1], listener=after_events(int(sys.argv[2]), die))"
        died(child(code, folder, known + 4))
    result = resume(folder)
    assert sum(line["type"] == "resumed" for line in lines(folder)) == 4
    assert_as_if_nothing_happened(result, whole["blocksworld"])


@pytest.mark.usefixtures("known_script")
@pytest.mark.parametrize("count", [1, 5, 20, 47, 80])
def test_killed_from_outside_at_any_moment(count: int, whole: dict[str, Result], tmp_path: Path):
    process = child("run('sdp:paper', 'script', out=sys.argv[1])", tmp_path)
    folder = await_lines(tmp_path, count)
    process.kill()
    died(process)
    assert Result(folder).ending == "interrupted"
    assert_as_if_nothing_happened(resume(folder), whole["script"])


@pytest.mark.usefixtures("known_script")
@pytest.mark.parametrize("count", [8, 30, 55])
def test_interrupted_from_the_keyboard(count: int, whole: dict[str, Result], tmp_path: Path):
    process = child("run('sdp:paper', 'script', out=sys.argv[1])", tmp_path)
    folder = await_lines(tmp_path, count)
    process.send_signal(signal.SIGINT)
    status, errors = process.finish()
    assert status in (-signal.SIGINT, 1)
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert "footer" not in {line["type"] for line in lines(folder)}
    assert Result(folder).ending == "interrupted"
    assert_as_if_nothing_happened(resume(folder), whole["script"])


FULL = Limits(steps=40, passages=2, context=900)
"""Limits with a context that MemGPT fills."""

SEARCH = """
from certigraph.adapters.protocols import Context
from certigraph.adapters.protocols import Limits
graph, events, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
context = Context(limits=Limits(steps=40, passages=2, context=900))
run(graph, 'riddles', 'looped', context=context, out=out, listener=after_events(events, die))
"""


def parallel(state: dict[str, Any]) -> dict[str, Any]:
    """The state without fields that differ from run to run; parallel searches end in any order."""
    branches = sorted(state.get("branches", ()), key=lambda branch: branch.number)
    return {**state, **VARYING, "branches": branches}


@pytest.mark.usefixtures("known_script")
@pytest.mark.parametrize(
    ("graph", "events"),
    [("ircot", 2), ("ircot", 9), ("memgpt", 8), ("memgpt", 22), ("pbai", 13), ("iter_retgen", 7)]
    + [("hypotheses", events) for events in (1, 2, 3, 4, 5, 6)],
)
def test_a_search_that_was_killed_ends_as_one_that_was_not(graph: str, events: int, tmp_path: Path):
    died(child(SEARCH, graph, events, tmp_path / "killed"))
    folder = only_run(tmp_path / "killed")
    before = lines(folder)
    result = resume(folder)
    whole = run(graph, Riddles(), "looped", context=Context(limits=FULL), out=tmp_path / "whole")
    assert (result.ending, result.scores) == (whole.ending, whole.scores)
    assert parallel(result.state) == parallel(whole.state)
    assert [e.node for e in result.trajectory.events] == [e.node for e in whole.trajectory.events]
    redone = sum(event.usage.calls for event in result.trajectory.superseded)
    assert result.usage.calls == whole.usage.calls + redone
    assert lines(folder)[: len(before)] == before


# Runs of TDP whose process dies: during a batch, between batches, while actions are repeated in the world.

VARYING_TDP = ("episode", "usage", "spent")
"""Fields that differ from run to run."""

PAUSES = {"a": 0.0, "b": 0.02, "c": 0.04}
"""Seconds of a model call: one node of the first batch ends while the others are working."""

WORLDS = {"jobs": Jobs, "serial_jobs": SerialJobs}

CHILD = """
import os, signal, sys
from helpers.worlds.scripted_benchmark import after_events
from test_kill import begin
from certigraph import benchmarks as registered
from certigraph.runtime.run import resume
from certigraph.runtime.checkpoints import SqliteCheckpointSaver
from helpers.worlds.task_graphs import SlowModel
registered.BENCHMARKS.update(
    jobs="helpers.worlds.task_graphs:Jobs", serial_jobs="helpers.worlds.task_graphs:SerialJobs"
)
die = lambda: os.kill(os.getpid(), signal.SIGKILL)
"""

AFTER_EVENTS = CHILD + "begin(sys.argv[1], sys.argv[2], listener=after_events(int(sys.argv[3]), die))"

AFTER_CHECKPOINTS = """
left, aput = [int(sys.argv[3])], SqliteCheckpointSaver.aput
async def counting(self, *args):
    kept = await aput(self, *args)
    left[0] -= 1
    return kept if left[0] else die()
SqliteCheckpointSaver.aput = counting
begin(sys.argv[1], sys.argv[2])
"""


def begin(benchmark: str, out: Path | str, **more: Any) -> Result:
    context = Context(chat=SlowModel(pause), **more.pop("context", {}))
    return run("tdp", WORLDS[benchmark](), "deep", context=context, out=out, **more)


def pause(subtask: str) -> float:
    return PAUSES.get(subtask, 0.002)


@pytest.fixture
def known_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registered.BENCHMARKS, "jobs", "helpers.worlds.task_graphs:Jobs")
    monkeypatch.setitem(registered.BENCHMARKS, "serial_jobs", "helpers.worlds.task_graphs:SerialJobs")


@pytest.fixture(scope="module")
def whole_tdp(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Uninterrupted runs, by benchmark."""
    return {name: begin(name, tmp_path_factory.mktemp(name)) for name in WORLDS}


def killed(code: str, *arguments: object) -> None:
    died(PreparedProcess(code, *arguments, env=child_environment(TESTS / "runtime")))


def comparable_state(state: Any) -> dict[str, Any]:
    """A state without fields that vary; a tuple from a checkpoint is a list."""
    kept = {key: value for key, value in state.items() if key not in VARYING_TDP}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in kept.items()}


def executions(trajectory: Trajectory) -> dict[str, list[tuple[int, str]]]:
    """The nodes that ran, by sub-task; parallel sub-tasks run in any order."""
    found: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for event in trajectory.events:
        found[event.subtask].append((event.superstep, event.node))
    return found


def costs(state: Any) -> list[tuple[str, int, int, float]]:
    return sorted((u.node, u.calls, u.input_tokens, u.seconds) for u in state["usage"])


def assert_as_if_nothing_happened_tdp(result: Result, whole: Result) -> None:
    assert (result.ending, result.scores) == (whole.ending, whole.scores)
    assert comparable_state(result.state) == comparable_state(whole.state)
    assert executions(result.trajectory) == executions(whole.trajectory)
    kept = checkpointed(result.folder, tdp)
    assert comparable_state(kept) == comparable_state(result.state)
    assert costs(kept) == costs(result.state)
    assert kept["spent"].calls == result.state["spent"].calls == whole.usage.calls
    paid = [line.usage for line in read_lines(result.folder / "trajectory.jsonl") if isinstance(line, Event)]
    assert result.usage.calls == sum(usage.calls for usage in paid)
    redone = sum(event.usage.calls for event in result.trajectory.superseded)
    assert result.usage.calls == whole.usage.calls + redone


@pytest.mark.usefixtures("known_worlds")
@pytest.mark.parametrize("events", [2, 6, 17, 26, 30, 31, 50])
@pytest.mark.parametrize("benchmark", WORLDS)
def test_killed_after_the_nth_event_tdp(benchmark: str, events: int, whole_tdp: dict[str, Result], tmp_path: Path):
    killed(AFTER_EVENTS, benchmark, tmp_path, events)
    folder, chat = only_run(tmp_path), SlowModel()
    before = [line for line in read_lines(folder / "trajectory.jsonl") if isinstance(line, Event)]
    assert len(before) == events
    assert_as_if_nothing_happened_tdp(resume(folder, chat=chat), whole_tdp[benchmark])
    finished = {line.subtask for line in before if line.subtask} - {name for _, name in chat.requests}
    ended = [outcome["node"] for line in before if line.node == "solve" for outcome in line.update["outcomes"]]  # type: ignore
    assert {*ended} <= finished, "what had ended was not asked for again"
    # a working sub-task loses the calls of the superstep that was cut off and of the one whose checkpoint was not saved
    repeated = len(chat.requests) + sum(line.usage.calls for line in before) - whole_tdp[benchmark].usage.calls
    assert 0 <= repeated <= 2 * len(PAUSES)


@pytest.mark.usefixtures("known_worlds")
@pytest.mark.parametrize("checkpoints", [5, 20, 40, 60, 72])
def test_killed_when_the_nth_checkpoint_is_written(checkpoints: int, whole_tdp: dict[str, Result], tmp_path: Path):
    killed(CHILD + AFTER_CHECKPOINTS, "jobs", tmp_path, checkpoints)
    assert_as_if_nothing_happened_tdp(resume(only_run(tmp_path), chat=SlowModel()), whole_tdp["jobs"])


@pytest.mark.usefixtures("known_worlds")
@pytest.mark.parametrize("benchmark", WORLDS)
def test_killed_again_and_again_while_resuming_tdp(benchmark: str, whole_tdp: dict[str, Result], tmp_path: Path):
    killed(AFTER_EVENTS, benchmark, tmp_path, 7)
    folder = only_run(tmp_path)
    again = CHILD + "resume(sys.argv[1], chat=SlowModel(), listener=after_events(int(sys.argv[2]), die))"
    for _ in range(3):
        killed(again, folder, len(Result(folder).trajectory.events) + 7)
    result = resume(folder, chat=SlowModel())
    assert_as_if_nothing_happened_tdp(result, whole_tdp[benchmark])


@pytest.mark.usefixtures("known_worlds")
@pytest.mark.parametrize("calls", [3, 9, 14, 25])
def test_a_budget_spent_by_the_only_node_at_work_is_an_ending_to_go_on_from(
    calls: int, whole_tdp: dict[str, Result], tmp_path: Path
):
    stopped = begin("serial_jobs", tmp_path, context={"budget": Budget(calls=calls)})
    assert (stopped.ending, stopped.usage.calls) == ("limit:calls", calls)
    result = resume(stopped.folder, budget=Budget(), chat=SlowModel())
    assert_as_if_nothing_happened_tdp(result, whole_tdp["serial_jobs"])


# Research that is killed: it is resumed with the pages it had fetched, and fetches nothing twice.

TASK = "gyms/1"
NEVER = 10_000

PRELUDE_WEB = """
import os, signal, sys
from pathlib import Path
from helpers.worlds.scripted_benchmark import after_events
from helpers.web.web_log import log_requests
from certigraph.runtime.run import resume
from certigraph.runtime.run import run
log_requests(Path(sys.argv[2]), int(sys.argv[4]) if len(sys.argv) > 4 else 0)
def die():
    os.kill(os.getpid(), signal.SIGKILL)
"""
STARTED = f"run('sdp', 'web', '{TASK}', out=sys.argv[1], listener=after_events(int(sys.argv[3]), die))"
RESUMED = "resume(next(Path(sys.argv[1]).iterdir()), listener=after_events(int(sys.argv[3]), die))"


def child_web(code: str, cache: Path, *arguments: object) -> int:
    env = child_environment(CERTIGRAPH_WEB_CACHE=str(cache))
    return PreparedProcess(PRELUDE_WEB + code, *arguments, env=env).finish(120)[0]


def pages(log: Path) -> list[str]:
    """The pages that were fetched, in order, with repetitions."""
    return [line for line in log.read_text().splitlines() if line.startswith("GET") and "robots.txt" not in line]


def twice(lines: list[str]) -> set[str]:
    return {line for line, count in Counter(lines).items() if count > 1}


@pytest.fixture(scope="module")
def whole_web(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """The same research without interruption in this process, with its own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CERTIGRAPH_WEB_CACHE", str(tmp_path_factory.mktemp("cache")))
        return run("sdp", "web", TASK, out=tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("events", range(3, 22, 3))
def test_a_killed_research_resumes_and_fetches_nothing_twice(events: int, whole_web: Result, tmp_path: Path):
    out, log, cache = tmp_path / "runs", tmp_path / "log", tmp_path / "cache"
    assert child_web(STARTED, cache, out, log, events) == -signal.SIGKILL
    while child_web(RESUMED, cache, out, log, events + 9) == -signal.SIGKILL:
        events += 9
    result = Result(next(out.iterdir()))
    assert (result.ending, result.certificates) == (whole_web.ending, whole_web.certificates)
    assert pages(log)
    assert twice(pages(log)) == set()


@pytest.mark.parametrize("requests", [1, 4, 9])
def test_killed_while_it_fetches_it_repeats_at_most_what_was_under_way(
    requests: int, whole_web: Result, tmp_path: Path
):
    out, log, cache = tmp_path / "runs", tmp_path / "log", tmp_path / "cache"
    assert child_web(STARTED, cache, out, log, NEVER, requests) == -signal.SIGKILL
    under_way = set(pages(log)[-MAX_PARALLEL_PAGES:])
    assert child_web(RESUMED, cache, out, log, NEVER) == 0
    result = Result(next(out.iterdir()))
    assert (result.ending, result.certificates) == (whole_web.ending, whole_web.certificates)
    assert twice(pages(log)) <= under_way


# Runs that look ahead and whose process dies: resumed, they reach the result of an uninterrupted run.

GRAPHS = {
    "react_reward": lambda: react_reward.build(
        **{**RATING, "extract": extract_as_model, "interpret": describe_goal_as_model}
    ),
    "mcts": lambda: mcts.build(**RATING, propose=listed),
}
"""Fields that differ from run to run."""

BEGUN = """
import os, signal, sys
from helpers.worlds.scripted_benchmark import after_events
from certigraph.runtime.run import run
from helpers.worlds.watched_blocks import RATING, describe_goal_as_model, extract_as_model
from certigraph.graphs import mcts, react_reward
from certigraph.nodes.lookahead import listed
graph = {
    "react_reward": lambda: react_reward.build(
        **{**RATING, "extract": extract_as_model, "interpret": describe_goal_as_model}
    ),
    "mcts": lambda: mcts.build(**RATING, propose=listed),
}[sys.argv[3]]()
def die():
    os.kill(os.getpid(), signal.SIGKILL)
run(graph, "blocksworld", "4-0", out=sys.argv[1], listener=after_events(int(sys.argv[2]), die))
"""


@pytest.fixture(scope="module")
def whole_reward(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """Uninterrupted runs."""
    out = tmp_path_factory.mktemp("whole")
    return {name: run(build(), "blocksworld", "4-0", out=out / name) for name, build in GRAPHS.items()}


@pytest.mark.parametrize(("name", "events"), [("react_reward", 6), ("react_reward", 14), ("mcts", 23), ("mcts", 58)])
def test_killed_after_the_nth_event_reward(name: str, events: int, whole_reward: dict[str, Result], tmp_path: Path):
    died(PreparedProcess(BEGUN, tmp_path, events, name, env=child_environment()))
    (folder,) = tmp_path.iterdir()
    assert Result(folder).ending == "interrupted"
    result = resume(folder)
    assert result.ending == whole_reward[name].ending == "goal"
    assert [e.node for e in result.trajectory.events] == [e.node for e in whole_reward[name].trajectory.events]
    assert {**result.state, **VARYING} == {**whole_reward[name].state, **VARYING}


# Calls never exceed the budget, and all are recorded, with any endpoint and after any kill.

ORDERLY = (("sdp", "blocksworld", "4-0"), ("react", "blocksworld", "4-0"), ("step", "blocksworld", "4-0"))
"""Graphs that send one request at a time."""

PARALLEL = (
    ("tdp", "blocksworld", "4-0"),
    ("hypotheses", "hotpotqa", ""),
    ("pbai", "hotpotqa", ""),
)
KINDS = ("healthy", "refuses_schema", "refuses_all", "fails_first", "reset", "no_usage", MIXED)
AT_ONCE_BUDGETS = 8
"""Maximum number of parallel requests of these graphs."""


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("orderly", [True, False], ids=["one at a time", "at once"])
@pytest.mark.filterwarnings("ignore")
def test_an_endpoint_never_gets_more_requests_than_granted_whatever_kills_the_run(
    orderly: bool, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    draw = random.Random(f"{orderly}:{seed}")
    case = Case(*draw.choice(ORDERLY if orderly else PARALLEL), calls=draw.randint(1, 12))
    answer = expert if case.benchmark == "blocksworld" else least
    kills = 0
    with misbehaving_endpoint(draw.choice(KINDS), answer, delay=0.03) as server:
        for _ in range(2):
            # the request has arrived and its answer is delayed: the endpoint knows the pending requests
            kills += carry_until_killed(case, server, tmp_path, server.count + draw.randint(1, 4))
            assert server.count <= case.calls
            assert (
                server.count <= recorded_calls(tmp_path) <= server.count + (0 if orderly else AT_ONCE_BUDGETS * kills)
            )
        for _ in range(3):
            carry_if_resumable(case, server.url, tmp_path)
        assert server.count <= case.calls
        assert server.count <= recorded_calls(tmp_path) <= server.count + (0 if orderly else AT_ONCE_BUDGETS * kills)
        folder = run_folder(tmp_path)
        assert folder
        if Result(folder).ending == "limit:calls":
            before = server.count
            carry(case, server.url, tmp_path)
            assert (server.count, Result(folder).ending) == (before, "limit:calls")


def carry_if_resumable(case: Case, url: str, out: Path) -> None:
    folder = run_folder(out)
    if folder is None or Result(folder).ending.startswith(("error:", "interrupted")):
        carry(case, url, out)


def test_kills_alone_use_up_a_budget_and_a_loop_of_resumes_ends(tmp_path: Path) -> None:
    case = Case("sdp", "blocksworld", "4-0", calls=4)
    with misbehaving_endpoint(delay=0.03) as server:
        for kill in itertools.count(1):
            if not carry_until_killed(case, server, tmp_path, server.count + 1):
                break
            assert kill <= case.calls
        folder = run_folder(tmp_path)
        assert folder and Result(folder).ending == "limit:calls"
        assert server.count == recorded_calls(tmp_path) == case.calls


# A small part of the kill campaign, which checks that its script works; results/reliability has the complete one.

SCRIPT = Path(__file__).parents[2] / "scripts" / "kill_campaign.py"


def run_campaign(*arguments: str) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2_000:]
    counts: dict[str, int] = json.loads(done.stdout.splitlines()[0])
    return counts


@pytest.mark.long
def test_killed_runs_end_like_uninterrupted_ones_though_clocks_step_back(tmp_path: Path) -> None:
    counts = run_campaign("kills", "--trials=5", "--clock-step=-3600", f"--out={tmp_path}")
    assert counts["identical"] == counts["trials"] == 5
    assert counts["kills"] > 0


@pytest.mark.long
def test_no_server_gets_more_requests_than_the_budget_has_calls(tmp_path: Path) -> None:
    counts = run_campaign("budgets", "--trials=5", f"--out={tmp_path}")
    assert counts["trials"] == 5
    assert counts["killed"] > 0
