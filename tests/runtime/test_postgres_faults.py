"""Tests of `runtime.postgres` with failing workers and servers, and with manipulated rows."""

import asyncio
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from helpers.processes.children import child_environment
from helpers.servers.postgres_server import VARIABLE, Server
from helpers.worlds.scripted_benchmark import Script, SlowScript, after_events

from certigraph import benchmarks as registered
from certigraph.adapters.protocols import Budget, Context
from certigraph.evaluation.evaluate import evaluate
from certigraph.evaluation.evaluation_results import Evaluation
from certigraph.graphs import sdp
from certigraph.runtime import postgres as leases
from certigraph.runtime.checkpoints import UNREACHABLE_SERVER
from certigraph.runtime.postgres import delete_rows, open_thread
from certigraph.runtime.result import Result
from certigraph.runtime.run import resume, run
from certigraph.state.endings import Fault

# Workers that die, and a server of checkpoints that dies: runs are resumed, and no certificate is lost.

pytest.importorskip("psycopg", reason="pip install 'certigraph[postgres]'")
pytest.importorskip("inspect_ai", reason="pip install 'certigraph[eval]'")


pytestmark = pytest.mark.slow

VARYING = {"episode": "", "usage": [], "spent": None}
"""Fields that differ from run to run."""

TASKS = [f"{blocks}-{seed}" for blocks in (4, 5) for seed in range(6)]

WORKER = """
import os, signal, sys
from helpers.worlds.scripted_benchmark import after_events
from certigraph import benchmarks as registered
from certigraph.runtime.run import resume
from certigraph.runtime.run import run
registered.BENCHMARKS.update(script="helpers.worlds.scripted_benchmark:SlowScript")
signal.signal(signal.SIGINT, signal.default_int_handler)
die = lambda: os.kill(os.getpid(), signal.SIGKILL)
run("sdp", "script", out=sys.argv[1], listener=after_events(int(sys.argv[2]), die))
"""


@pytest.fixture
def known_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registered.BENCHMARKS, "script", "helpers.worlds.scripted_benchmark:SlowScript")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """An uninterrupted run, with a file."""
    return run("sdp", SlowScript(), out=tmp_path_factory.mktemp("whole"))  # type: ignore[arg-type]


def worker(out: Path, events: int) -> subprocess.Popen[str]:
    """A worker that dies after a number of events."""
    env = child_environment()
    command = [sys.executable, "-c", WORKER, str(out), str(events)]
    return subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)


def await_lines(out: Path, count: int) -> Path:
    """The folder of the run under `out`, as soon as its trajectory has that many lines."""
    for _ in range(3_000):
        found = list(out.glob("*/trajectory.jsonl"))
        if found and found[0].read_bytes().count(b"\n") >= count:
            return found[0].parent
        time.sleep(0.01)
    raise AssertionError(f"no {count} lines under {out}")


def assert_as_if_nothing_happened(result: Result, whole: Result) -> None:
    assert (result.ending, result.certificates, result.scores) == (whole.ending, whole.certificates, whole.scores)
    assert [e.node for e in result.trajectory.events] == [e.node for e in whole.trajectory.events]
    assert {**result.state, **VARYING} == {**whole.state, **VARYING}
    redone = sum(event.usage.calls for event in result.trajectory.superseded)
    assert result.usage.calls == whole.usage.calls + redone


@pytest.mark.usefixtures("known_script")
@pytest.mark.usefixtures("used")
@pytest.mark.parametrize("events", [1, 23])
def test_a_run_whose_worker_was_killed_goes_on_elsewhere(events: int, whole: Result, tmp_path: Path):
    process = worker(tmp_path / "out", events)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL, errors
    [folder] = (tmp_path / "out").iterdir()
    result = resume(shutil.move(folder, tmp_path / folder.name))
    assert_as_if_nothing_happened(result, whole)
    assert len(result.trajectory.superseded) <= 2


@pytest.mark.usefixtures("known_script")
@pytest.mark.usefixtures("used")
def test_a_run_that_was_interrupted_from_the_keyboard_goes_on(whole: Result, tmp_path: Path):
    process = worker(tmp_path, 9_999)
    folder = await_lines(tmp_path, 12)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert errors.rstrip().endswith("KeyboardInterrupt") and "never retrieved" not in errors
    assert Result(folder).ending == "interrupted"
    assert_as_if_nothing_happened(resume(folder), whole)


@pytest.mark.usefixtures("known_script")
@pytest.mark.usefixtures("used")
def test_a_second_worker_is_turned_away_until_the_first_is_dead(whole: Result, tmp_path: Path):
    first = worker(tmp_path / "out", 9_999)
    folder = await_lines(tmp_path / "out", 12)
    first.send_signal(signal.SIGSTOP)
    elsewhere = shutil.copytree(folder, tmp_path / "elsewhere" / folder.name)
    try:
        with pytest.raises(Fault, match=f"run {folder.name} is running in another worker") as refused:
            resume(elsewhere)
        assert refused.value.ending == "error:data"
    finally:
        first.kill()
        first.communicate(timeout=60)
    assert_as_if_nothing_happened(resume(elsewhere), whole)


@pytest.mark.long
@pytest.mark.usefixtures("known_script")
def test_a_server_that_is_killed_costs_a_run_nothing(used: Server, whole: Result, tmp_path: Path):
    outage = threading.Timer(0.4, used.start)

    def killed() -> None:
        used.kill()
        outage.start()

    result = run("sdp", SlowScript(), out=tmp_path, listener=after_events(30, killed))  # type: ignore[arg-type]
    outage.join()
    assert_as_if_nothing_happened(result, whole)
    assert not result.trajectory.superseded


@pytest.mark.usefixtures("known_script")
def test_where_the_server_stays_away_the_run_ends_and_goes_on_when_it_is_back(
    used: Server, whole: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(leases, "RETRY_SECONDS", 0.5)
    stopped = run("sdp", SlowScript(), out=tmp_path, listener=after_events(30, used.kill))  # type: ignore[arg-type]
    assert stopped.ending == "error:data"
    assert (
        stopped.message.startswith(UNREACHABLE_SERVER)
        and f"certigraph resume FOLDER/{stopped.folder.name}" in stopped.message
    )
    assert len(stopped.trajectory.events) <= 31  # no step was made that could not be kept
    with pytest.raises(Fault, match=UNREACHABLE_SERVER):
        resume(stopped.folder)
    used.start()
    assert_as_if_nothing_happened(resume(stopped.folder), whole)


@pytest.mark.long
@pytest.mark.usefixtures("known_script")
def test_an_evaluation_comes_to_the_same_table_though_its_server_was_killed(
    used: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "postgres_operators.py").write_text(SLOW)
    monkeypatch.delenv(VARIABLE)
    undisturbed = measured(tmp_path / "undisturbed")
    monkeypatch.setenv(VARIABLE, used.url)
    over = list[int]()
    accident = threading.Thread(target=struck, args=(used, tmp_path / "struck", over))
    accident.start()
    disturbed = measured(tmp_path / "struck")
    accident.join()
    assert over[0] < len(TASKS)
    assert table(disturbed) == table(undisturbed)
    assert (disturbed.figures, disturbed.intervals) == (undisturbed.figures, undisturbed.intervals)
    names = [row.run for row in disturbed.rows]
    assert used.sql("SELECT count(*) FROM checkpoints WHERE thread_id = ANY(%s)", names) == [(0,)]  # all are over


SLOW = """
import asyncio
from certigraph.nodes.sdp import validate

async def slow(state, runtime):
    await asyncio.sleep(0.03)
    return await validate(state, runtime)
"""


def measured(out: Path) -> Evaluation:
    model, swaps = "simulated:act=0.1,accept=0,reject=0,seed=2", ["validate=postgres_operators:slow"]
    return evaluate("sdp", "blocksworld", model=model, ids=TASKS, swaps=swaps, out=out, max_samples=4, quiet=True)


def struck(server: Server, out: Path, over: list[int]) -> None:
    """Kill the server when a few runs have ended and others are running, and start it again a moment later."""
    deadline = time.monotonic() + 60
    while ended(out) < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    server.kill()
    over.append(ended(out))
    time.sleep(0.4)
    server.start()


def ended(out: Path) -> int:
    return sum(b'"type":"footer"' in log.read_bytes() for log in out.glob("*/trajectory.jsonl"))


def table(evaluation: Evaluation) -> dict[str, Any]:
    return {row.id: (row.ending, row.footer.scores, row.certified, row.footer.usage.calls) for row in evaluation.rows}


# Untrusted input of Postgres: names of runs, manipulated rows, addresses with a password.

pytest.importorskip("psycopg", reason="pip install 'certigraph[postgres]'")


NAMES = (
    "'; DROP TABLE checkpoints; --",
    "%s %(thread)s %",
    "../../etc/passwd",
    "\\x00 $1 {0}\n\t\r",
    "ünï漢字🎈\u202e\u0301",
    "x" * 300,
    "🎈" * 300,
    "",
)


async def driven(thread: str, *, new: bool = True, steps: int = 3) -> dict[str, Any]:
    """The state of a thread after a new scripted run, or the saved state."""
    script = Script(plan=steps)
    config: Any = {"configurable": {"thread_id": thread}}
    async with open_thread(sdp.graph, thread, "", new=new) as (saver, store):
        graph = sdp.graph.copy({"checkpointer": saver, "store": store})
        if new:
            await graph.ainvoke({"task": script.task("only")}, config, context=Context(benchmark=script))
            await saver.prepare_resume(thread)
            assert await saver.inner_steps(thread) == {}
            assert [found async for found in saver.alist(config, limit=1)]
        return (await graph.aget_state(config)).values


@pytest.mark.usefixtures("used")
def test_the_name_of_a_run_is_never_read_as_anything_else():
    async def scenario() -> None:
        for number, name in enumerate(NAMES):
            await driven(name, steps=number + 1)
        for number, name in enumerate(NAMES):
            assert len((await driven(name, new=False))["certificates"]) == number + 1
        await delete_rows(NAMES[1], lessons=True)
        assert await driven(NAMES[1], new=False) == {}
        assert len((await driven(NAMES[0], new=False))["certificates"]) == 1

    asyncio.run(scenario())


@pytest.mark.usefixtures("used")
@pytest.mark.parametrize("name", ["a\0b", "half \ud800"])
def test_a_name_that_is_not_text_for_postgres_is_refused(name: str):
    with pytest.raises(Fault, match="cannot be the name of a run"):
        asyncio.run(driven(name))


# --- manipulated rows


def payloads(mark: Path) -> Iterator[tuple[str, bytes]]:
    """Stored values that would create a file if they were executed instead of read."""
    command = f"touch {mark}"
    yield "pickle", f"cposix\nsystem\n(S'{command}'\ntR.".encode()
    yield "msgpack", ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb(("os", "system", command))))
    yield "msgpack", ormsgpack.packb(ormsgpack.Ext(1, ormsgpack.packb(("subprocess", "getoutput", [command]))))
    yield "json", json.dumps({"lc": 2, "type": "constructor", "id": ["os", "system"], "args": [command]}).encode()
    yield "json", json.dumps({"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {}}).encode()


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("table", ["checkpoint_blobs", "checkpoint_writes"])
def test_what_somebody_planted_in_the_tables_is_not_run(number: int, table: str, used: Server, tmp_path: Path):
    mark = tmp_path / "mark"
    stopped = run("sdp:paper", "blocksworld", "4-0", context=Context(budget=Budget(calls=4)), out=tmp_path / "out")
    kind, payload = list(payloads(mark))[number]
    planted = f"UPDATE {table} SET type = %s, blob = %s WHERE thread_id = %s RETURNING 1"
    assert used.sql(planted, kind, payload, stopped.folder.name)
    try:
        resume(stopped.folder, budget=Budget())
    except Fault as refused:
        assert refused.ending == "error:data" and "touch" not in str(refused)
    assert not mark.exists()


def test_the_payloads_would_work_where_they_were_obeyed(tmp_path: Path):
    _, pickled = next(payloads(tmp_path / "mark"))
    assert b"system" in pickled
    subprocess.run([sys.executable, "-c", f"import pickle; pickle.loads({pickled!r})"], check=True)
    assert (tmp_path / "mark").exists()


STRICT = """
import sys
from certigraph.adapters.protocols import Budget, Context
from certigraph.runtime.run import resume
from certigraph.runtime.run import run
for graph in ("sdp", "tdp", "reflexion", "plan_and_act"):
    stopped = run(graph, "blocksworld", "4-0", context=Context(budget=Budget(calls=3)), out=sys.argv[1])
    assert stopped.ending == "limit:calls", stopped.message
    ended = resume(stopped.folder, budget=Budget(calls=30))
    assert not ended.ending.startswith("error:"), ended.message
"""


def test_langgraphs_strict_mode_finds_nothing_to_refuse(used: Server, tmp_path: Path):
    env = child_environment(LANGGRAPH_STRICT_MSGPACK="true")
    command = [sys.executable, "-c", STRICT, str(tmp_path)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "Blocked" not in done.stderr and "not in" not in done.stderr


# --- secrets


def test_of_an_error_only_its_kind_is_kept(used: Server, tmp_path: Path):
    failed = run("sdp", Script(fails={"step": KeyError("HUSH-HUSH")}), out=tmp_path)  # type: ignore[arg-type]
    assert failed.ending == "error:environment"
    kept = used.sql(
        "SELECT blob FROM checkpoint_writes WHERE thread_id = %s AND channel = '__error__'", failed.folder.name
    )
    assert [b"Fault" in blob and b"HUSH" not in blob for [blob] in kept] == [True]


def test_the_password_is_written_nowhere(used: Server, tmp_path: Path):
    whole: Result = run("reflexion", "blocksworld", "4-0", out=tmp_path)
    content = [
        repr(whole),
        whole.message,
        *(path.read_text("latin-1") for path in tmp_path.rglob("*") if path.is_file()),
    ]
    assert not [text for text in content if used.password in text or "postgresql://" in text]
    columns = used.sql("SELECT checkpoint::text || metadata::text FROM checkpoints")
    assert columns and not [text for [text] in columns if used.password in text]


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (
            "postgresql://tester:WRONG{password}@127.0.0.1:{port}/postgres",
            "refused .*authentication failed",
        ),
        (
            "postgresql://NOBODY:{password}@127.0.0.1:{port}/postgres",
            "refused .*authentication failed",
        ),
        ("postgresql://tester:{password}@127.0.0.1:{port}/NOWHERE", "refused .*does not exist"),
        ("postgresql://tester:{password}/oops@127.0.0.1:{port}/postgres", "is not the address"),
        ("postgresql://tester:{password}@127.0.0.1:{port}/postgres?{password}=1", "is not the address"),
        ("{password}", "is not the address"),
        ("postgresql://tester:{password}@127.0.0.1:9/postgres", "cannot be reached"),
    ],
)
def test_an_address_that_leads_nowhere_is_reported_without_its_password(
    form: str, message: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(leases, "RETRY_SECONDS", 0.2)
    monkeypatch.setenv(VARIABLE, form.format(password=server.password, port=server.port))
    with pytest.raises(Fault, match=message) as refused:
        run("sdp:paper", "blocksworld", "3-0", out=tmp_path)
    shown = f"{refused.value!r} {refused.value.__cause__!r} {refused.getrepr(style='short', chain=True)}"
    assert server.password not in shown and "NOBODY" not in str(refused.value)
    assert "\n" not in str(refused.value)
