"""Graphs over the real ScienceWorld leave no JVM, however they are run; and never more than the limit run at once."""

import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from jvms import becomes, jvms, watched
from langgraph.checkpoint.memory import InMemorySaver

from certigraph.graphs import react, sdp
from certigraph.state.serialization import serializer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.skipif(shutil.which("java") is None, reason="needs Java"),
]

TASK: Any = {"task": {"benchmark": "scienceworld", "id": "find-non-living-thing:0"}}
SOON = 5.0
"""Seconds after which no JVM is left."""


@pytest.fixture(autouse=True, scope="module")
def known_task() -> None:
    """The goal and the gold path are on disk before anything is counted."""
    sdp.graph.invoke(TASK)


def test_twenty_finished_runs_leave_no_jvm():
    with watched() as seen:
        for _ in range(20):
            assert sdp.ending(sdp.graph.invoke(TASK)) == "goal"
    assert max(seen) <= 2
    assert becomes(lambda: not jvms(), SOON)


def test_sixteen_at_once_never_have_more_jvms_than_the_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CERTIGRAPH_SIMULATORS", "3")

    async def together() -> list[Any]:
        return await asyncio.gather(*(sdp.graph.ainvoke(TASK) for _ in range(16)))

    with watched() as seen:
        states = asyncio.run(together())
    assert [sdp.ending(state) for state in states] == ["goal"] * 16
    assert max(seen) <= 3
    assert becomes(lambda: not jvms(), SOON)


def test_runs_cancelled_at_random_times_leave_no_jvm():
    delays = random.Random(19)

    async def cancelled() -> None:
        running = [asyncio.create_task(react.graph.ainvoke(TASK)) for _ in range(2)]
        for run in running:
            await asyncio.sleep(delays.uniform(0, 1.5))
            run.cancel()
        await asyncio.wait(running)

    for _ in range(12):
        asyncio.run(cancelled())
    # an episode that was being loaded cannot be broken off: its JVM comes back seconds later, and is kept for 3 s more
    assert becomes(lambda: not jvms(), 20.0)


def test_a_jvm_whose_start_is_cancelled_is_ended_at_once():
    assert becomes(lambda: not jvms(), SOON)

    async def cancelled() -> None:
        running = asyncio.create_task(react.graph.ainvoke(TASK))
        while not jvms():  # noqa: ASYNC110 - a process cannot be awaited before it is there
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(cancelled())
    assert becomes(lambda: not jvms(), 1.0)


def test_an_interrupted_run_leaves_no_jvm_and_continues_where_it_was():
    graph = sdp.build(InMemorySaver(serde=serializer()))
    thread: Any = {"configurable": {"thread_id": "asked"}}
    graph.invoke(TASK, thread, interrupt_before=["validate"])
    assert becomes(lambda: not jvms(), SOON)
    state = graph.invoke(None, thread)
    assert sdp.ending(state) == "goal"
    assert len(state["history"]) > 1
    assert becomes(lambda: not jvms(), SOON)


STARTING = """
import sys
from certigraph.graphs import react
react.graph.get_graph()
print("ready", flush=True)
react.graph.invoke({"task": {"benchmark": "scienceworld", "id": "find-non-living-thing:0"}})
"""


@pytest.mark.parametrize("seed", range(3))
def test_a_process_killed_during_the_start_leaves_no_jvm(seed: int, tmp_path: Path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # where its JVM works, by which it is known
    with subprocess.Popen([sys.executable, "-c", STARTING], env=environment, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        if not becomes(lambda: bool(working_in(tmp_path)), 30):
            raise AssertionError("no JVM was started")
        time.sleep(random.Random(seed).uniform(0, 0.8))
        parent.send_signal(signal.SIGKILL)
    assert becomes(lambda: not working_in(tmp_path), SOON)


def working_in(folder: Path) -> list[str]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").resolve() == folder.resolve() and b"java" in (process / "cmdline").read_bytes():
                found.append(process.name)
        except OSError:  # gone meanwhile, or not ours
            continue
    return found
