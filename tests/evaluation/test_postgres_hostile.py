"""Postgres and what should not be trusted: names of runs, rows that somebody planted, addresses with a password."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="pip install 'certigraph[postgres]'")

import ormsgpack
from doubles import Script
from postgres_server import VARIABLE, Server

from certigraph.adapters.protocols import Budget, Context
from certigraph.graphs import sdp
from certigraph.runtime import postgres as leases
from certigraph.runtime.postgres import delete, kept
from certigraph.runtime.result import Result
from certigraph.runtime.run import resume, run
from certigraph.state.records import Fault

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
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
    """The state of a thread that made a run of a script, or the one that is kept."""
    script = Script(plan=steps)
    config: Any = {"configurable": {"thread_id": thread}}
    async with kept(sdp.graph, thread, "", new=new) as (saver, store):
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
        await delete(NAMES[1], lessons=True)
        assert await driven(NAMES[1], new=False) == {}
        assert len((await driven(NAMES[0], new=False))["certificates"]) == 1

    asyncio.run(scenario())


@pytest.mark.usefixtures("used")
@pytest.mark.parametrize("name", ["a\0b", "half \ud800"])
def test_a_name_that_is_no_text_for_postgres_is_refused(name: str):
    with pytest.raises(Fault, match="cannot be the name of a run"):
        asyncio.run(driven(name))


# --- planted rows


def payloads(mark: Path) -> Iterator[tuple[str, bytes]]:
    """What would make a file, were it taken for more than data."""
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
    stopped = run("sdp", "blocksworld", "4-0", context=Context(budget=Budget(calls=4)), out=tmp_path / "out")
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
    stopped = run(graph, "blocksworld", "4-0", context=Context(budget=Budget(calls=4)), out=sys.argv[1])
    assert stopped.ending == "limit:calls", stopped.message
    ended = resume(stopped.folder, budget=Budget(calls=30))
    assert not ended.ending.startswith("error:"), ended.message
"""


def test_langgraphs_strict_mode_finds_nothing_to_refuse(used: Server, tmp_path: Path):
    env = {**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", STRICT, str(tmp_path)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "Blocked" not in done.stderr and "not in" not in done.stderr


# --- secrets


ERRORS = "thread_id = %s AND channel = '__error__'"


def test_of_an_error_only_its_kind_is_kept(used: Server, tmp_path: Path):
    failed = run("sdp", Script(fails={"step": KeyError("HUSH-HUSH")}), out=tmp_path)  # type: ignore[arg-type]
    assert failed.ending == "error:environment"
    kept = used.sql(
        "SELECT blob FROM checkpoint_writes WHERE thread_id = %s AND channel = '__error__'", failed.folder.name
    )
    assert [b"Fault" in blob and b"HUSH" not in blob for [blob] in kept] == [True]


def test_the_password_is_written_nowhere(used: Server, tmp_path: Path):
    whole: Result = run("reflexion", "blocksworld", "4-0", out=tmp_path)
    told = [repr(whole), whole.message, *(path.read_text("latin-1") for path in tmp_path.rglob("*") if path.is_file())]
    assert not [text for text in told if used.password in text or "postgresql://" in text]
    columns = used.sql("SELECT checkpoint::text || metadata::text FROM checkpoints")
    assert columns and not [text for [text] in columns if used.password in text]


@pytest.mark.parametrize(
    ("form", "told"),
    [
        (
            "postgresql://tester:WRONG{password}@127.0.0.1:{port}/postgres",
            "turned .*away .*authentication failed",
        ),
        (
            "postgresql://NOBODY:{password}@127.0.0.1:{port}/postgres",
            "turned .*away .*authentication failed",
        ),
        ("postgresql://tester:{password}@127.0.0.1:{port}/NOWHERE", "turned .*away .*does not exist"),
        ("postgresql://tester:{password}/oops@127.0.0.1:{port}/postgres", "is no address"),
        ("postgresql://tester:{password}@127.0.0.1:{port}/postgres?{password}=1", "is no address"),
        ("{password}", "is no address"),
        ("postgresql://tester:{password}@127.0.0.1:9/postgres", "away"),
    ],
)
def test_an_address_that_leads_nowhere_is_told_without_its_password(
    form: str, told: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(leases, "PATIENCE", 0.2)
    monkeypatch.setenv(VARIABLE, form.format(password=server.password, port=server.port))
    with pytest.raises(Fault, match=told) as refused:
        run("sdp", "blocksworld", "3-0", out=tmp_path)
    shown = f"{refused.value!r} {refused.value.__cause__!r} {refused.getrepr(style='short', chain=True)}"
    assert server.password not in shown and "NOBODY" not in str(refused.value)
    assert "\n" not in str(refused.value)
