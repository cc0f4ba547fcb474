"""Tests of `runtime.postgres`."""

import asyncio
import json
import math
import os
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from helpers.checkpoints import without_result
from helpers.servers.postgres_server import VARIABLE, Server
from helpers.worlds.study_world import Riddles
from helpers.worlds.task_graphs import Jobs, SlowModel
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import BaseStore

from certigraph.adapters.protocols import Budget, Context, Limits
from certigraph.adapters.trajectories import read_lines
from certigraph.benchmarks.blocksworld.benchmark import BlocksWorld
from certigraph.evaluation.evaluate import evaluate
from certigraph.runtime import postgres as leases
from certigraph.runtime.postgres import (
    Connection,
    PostgresLessons,
    PostgresSaver,
    ThreadLease,
    dump_json,
    escape_value,
    load_json,
    lock_key_of,
    namespace_of,
)
from certigraph.runtime.registry import SEARCH_GRAPHS, build_graph, load_settings
from certigraph.runtime.result import Result
from certigraph.runtime.run import arun, resume, run
from certigraph.runtime.storage import default_checkpoints, delete_thread, drop_checkpoints, open_storage
from certigraph.state.endings import Fault

# Checkpoints on a Postgres server: every graph has the same results as with files, and resumes in the same way.

pytest.importorskip("psycopg", reason="pip install 'certigraph[postgres]'")


VARYING = {"episode": "", "usage": [], "spent": None}
"""Fields that differ from run to run."""

SMALL = Limits(steps=6, trials=2, attempts=3, replans=2, passages=2, context=900)
SOON, LATER = Budget(calls=5), Budget(calls=15)


def begun(graph: str, out: Path, **more: Any) -> Result:
    world = Riddles() if graph in SEARCH_GRAPHS else BlocksWorld()
    context = Context(limits=SMALL, budget=SOON, **more)
    return run(graph, world, "looped" if graph in SEARCH_GRAPHS else "4-0", context=context, out=out)


def gone_on(result: Result) -> Result:
    world = Riddles() if result.trajectory.header.task.benchmark == "riddles" else BlocksWorld()
    return resume(result.folder, budget=LATER, benchmark=world) if result.ending == "limit:calls" else result


def checkpointed(result: Result) -> dict[str, Any]:
    async def read() -> dict[str, Any]:
        graph = build_graph(result.trajectory.header.graph)
        async with open_storage(graph, result.folder, load_settings(result.folder), resuming=True) as (saver, _):
            found = await graph.copy({"checkpointer": saver}).aget_state(
                {"configurable": {"thread_id": result.folder.name}}
            )
        return without_result(found.values)

    return asyncio.run(read())


def summary_of(result: Result) -> tuple[Any, ...]:
    """A run without fields that differ from run to run."""
    nodes = sorted(e.node for e in result.trajectory.events)
    return result.ending, result.scores, result.usage.calls, nodes, plain(result.state)


def resumed(result: Result) -> list[tuple[int, list[int]]]:
    """The supersteps from which the run and the graphs inside its nodes were resumed."""
    lines = read_lines(result.folder / "trajectory.jsonl")
    return [(line.superstep, sorted(line.scopes.values())) for line in lines if line.type == "resumed"]


def plain(state: dict[str, Any]) -> Any:
    """A state without fields that differ from run to run; parallel searches end in any order."""
    branches = sorted(state.get("branches", ()), key=lambda branch: branch.number)
    return listed({**state, **VARYING, "branches": branches})


def listed(value: Any) -> Any:
    """Convert tuples to lists, as checkpoints do."""
    if isinstance(value, dict):
        return {key: listed(inner) for key, inner in value.items()}
    return [listed(inner) for inner in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["sdp", "tdp", "clin", "mcts", "pbai", "hypotheses", "statefactory"])
def test_every_graph_comes_to_what_it_comes_to_with_files(
    graph: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = begun(graph, tmp_path / "file")
    monkeypatch.setenv(VARIABLE, server.url)
    there = begun(graph, tmp_path / "there")
    assert summary_of(there) == summary_of(file)
    there, file = gone_on(there), gone_on(file)  # the latter still with its file
    assert summary_of(there) == summary_of(file)
    assert resumed(there) == resumed(file)
    assert plain(checkpointed(there)) == plain(checkpointed(file)) == plain(there.state)
    assert there.trajectory.header.context["checkpoints"] == load_settings(there.folder).checkpoints == "postgres"
    assert not list(there.folder.glob("*.sqlite*"))


@pytest.mark.slow
def test_graphs_inside_nodes_go_on_where_they_were(used: Server, tmp_path: Path):
    stopped = run("tdp", Jobs(), "deep", context=Context(chat=SlowModel(lambda _: 0.0), budget=SOON), out=tmp_path)
    gone = resume(stopped.folder, benchmark=Jobs(), chat=SlowModel(lambda _: 0.0), budget=Budget())
    [(step, inner)] = resumed(gone)
    assert step >= 0 and inner and gone.ending == "goal"


@pytest.mark.slow
def test_what_was_written_after_the_latest_checkpoint_is_forgotten_and_nothing_else(used: Server, tmp_path: Path):
    thread = begun("sdp:paper", tmp_path).folder.name
    latest = "checkpoint_id = (SELECT max(checkpoint_id) FROM checkpoints c WHERE c.thread_id = w.thread_id)"
    statement = f"SELECT count(*) FILTER (WHERE {latest}), count(*) FROM checkpoint_writes w WHERE thread_id = %s"
    [(late, all_before)] = used.sql(statement, thread)

    async def forget() -> None:
        async with ThreadLease.acquire(thread) as lease:
            await PostgresSaver(lease).prepare_resume(thread)

    asyncio.run(forget())
    assert late > 0
    assert used.sql(statement, thread) == [(0, all_before - late)]


@pytest.mark.slow
@pytest.mark.usefixtures("used")
def test_runs_share_a_memory_by_its_name_alone(tmp_path: Path):
    seen = [
        recalled(begun("clin", tmp_path / out, memory=name)) for out, name in (("a", "it's .%_"), ("b", "it's .%_"))
    ]
    apart = recalled(begun("clin", tmp_path / "a"))
    like = recalled(begun("clin", tmp_path / "a", memory="it's .%"))
    first = len(seen[0])
    assert seen[1][:first] and seen[0][0] == apart[0] == like[0] == ()
    assert seen[1][0] != ()


def recalled(result: Result) -> list[Any]:
    """The lessons of earlier episodes that each episode was given."""
    return [tuple(e.update["lessons"]) for e in result.trajectory.events if e.node == "recall" and e.update]


async def held(store: BaseStore) -> list[dict[str, Any]]:
    found = await asyncio.to_thread(store.search, ("lessons",), limit=9)
    return [item.value for item in sorted(found, key=lambda item: item.key)]


@pytest.mark.slow
@pytest.mark.usefixtures("used")
def test_lessons_come_back_as_they_were_given():
    odd = {"text": "NUL \0, half \ud800, \x1b[0m, 'quote\\u0000", "number": 1.0, "huge": 1e300, "none": None}

    async def kept() -> list[Any]:
        async with ThreadLease.acquire("store", new=True) as lease:
            one, other = (PostgresLessons(lease, namespace_of(name)) for name in ("one", "one more"))
            await asyncio.to_thread(one.put, ("lessons", "a", "odd % _name"), "k1", odd, False)
            await one.aput(("lessons", "b"), "k2", {"n": 2}, False)
            spaces = await one.alist_namespaces(prefix=("lessons",))
            [found] = await one.asearch(("lessons",), filter={"n": 2})
            with pytest.raises(Fault, match="await store"):
                one.search(("lessons",))
            return [await held(one), await held(other), sorted(spaces), found.namespace]

    mine, others, spaces, found = asyncio.run(kept())
    assert mine == [odd, {"n": 2}]
    assert others == []
    assert spaces == [("lessons", "a", "odd % _name"), ("lessons", "b")]
    assert found == ("lessons", "b")


@pytest.mark.slow
def test_a_finished_run_leaves_no_checkpoint_and_a_deleted_one_nothing(used: Server, tmp_path: Path):
    context = Context(checkpoints="postgres")
    failing = Context(model="scripted:first", limits=Limits(steps=2, trials=3), budget=SOON)  # one lesson, then stopped
    kept = run("clin", BlocksWorld(), "4-0", context=failing, out=tmp_path)
    ended = gone_on(begun("reflexion", tmp_path))
    asyncio.run(drop_checkpoints(kept.folder, "limit:calls", context))
    asyncio.run(drop_checkpoints(ended.folder, ended.ending, context))
    assert all(rows(used, kept.folder.name)) and not any(rows(used, ended.folder.name))
    assert used.sql("SELECT count(*) FROM store WHERE prefix LIKE %s", lessons_of(kept) + "%") > [(0,)]
    asyncio.run(delete_thread(kept.folder, context))
    assert rows(used, kept.folder.name) == [0, 0, 0, 0]
    assert used.sql("SELECT count(*) FROM store WHERE prefix LIKE %s", lessons_of(kept) + "%") == [(0,)]


def rows(server: Server, thread: str) -> list[int]:
    tables = ("checkpoints", "checkpoint_writes", "checkpoint_blobs", "certigraph_owners")
    return [server.sql(f"SELECT count(*) FROM {table} WHERE thread_id = %s", thread)[0][0] for table in tables]


def lessons_of(result: Result) -> str:
    return ".".join(namespace_of(result.folder.name))


@pytest.mark.slow
def test_a_run_on_a_server_is_not_gone_on_with_where_none_is_named(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(VARIABLE, server.url)
    stopped = begun("sdp:paper", tmp_path)
    before = (stopped.folder / "trajectory.jsonl").read_bytes()
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(Fault, match="export CERTIGRAPH_POSTGRES=postgresql://") as refused:
        gone_on(stopped)
    assert "\n" not in str(refused.value)
    assert (stopped.folder / "trajectory.jsonl").read_bytes() == before


@pytest.mark.slow
def test_a_name_that_the_server_has_is_not_begun_again(used: Server, tmp_path: Path):
    asyncio.run(arun("sdp", BlocksWorld(), "3-0", out=tmp_path / "a", name="same"))
    before = rows(used, "same")
    with pytest.raises(Fault, match="the server has another run named same"):
        asyncio.run(arun("sdp", BlocksWorld(), "3-0", out=tmp_path / "b", name="same"))
    assert rows(used, "same") == before


# The lease of a thread: one worker writes at a time, even if connections are lost.

pytest.importorskip("psycopg", reason="pip install 'certigraph[postgres]'")


async def alive(connection: Connection) -> bool:
    return bool(await (await connection.execute("SELECT true")).fetchone())


async def backend(connection: Connection) -> int:
    return connection.info.backend_pid


@pytest.mark.slow
def test_who_lost_the_connection_writes_nothing_once_another_worker_had_the_run(used: Server):
    async def overtaken() -> None:
        async with ThreadLease.acquire("t", new=True) as mine:
            used.sql("SELECT pg_terminate_backend(%s)", await mine.use(backend))
            async with ThreadLease.acquire("t"):
                pass  # somebody else went on with it, and is through with it already
            with pytest.raises(Fault, match="run t was resumed by another worker"):
                await mine.use(alive)
            with pytest.raises(Fault, match="another worker"):
                await mine.use(alive)

    asyncio.run(overtaken())


@pytest.mark.slow
def test_who_lost_the_connection_waits_for_its_own_ghost_and_goes_on(used: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(leases, "LOCK_SECONDS", 0.1)

    async def haunted() -> bool:
        async with ThreadLease.acquire("g", new=True) as mine:
            pid = await mine.use(backend)
            with psycopg.connect(used.url, autocommit=True) as ghost:
                used.sql("SELECT pg_terminate_backend(%s)", pid)
                ghost.execute("SELECT pg_advisory_lock(%s)", (lock_key_of("g"),))
                going_on = asyncio.create_task(mine.use(alive))
                await asyncio.sleep(0.5)
                assert not going_on.done()
            return await going_on

    assert asyncio.run(haunted())


@pytest.mark.slow
def test_a_lease_is_one_workers(used: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(leases, "LOCK_SECONDS", 0.1)

    async def both() -> None:
        async with ThreadLease.acquire("l"), ThreadLease.acquire("l2"):
            with pytest.raises(Fault, match="run l is running in another worker"):
                async with ThreadLease.acquire("l"):
                    pass

    asyncio.run(both())


@pytest.mark.slow
def test_workers_that_come_first_lay_the_tables_out_once(server: Server, monkeypatch: pytest.MonkeyPatch):
    server.sql("CREATE DATABASE fresh")
    monkeypatch.setenv(VARIABLE, server.url.removesuffix("postgres") + "fresh")

    async def one(number: int) -> bool:
        async with ThreadLease.acquire(f"t{number}") as lease:
            return await lease.use(alive)

    async def all_at_once() -> list[bool]:
        return await asyncio.gather(*map(one, range(12)))

    assert asyncio.run(all_at_once()) == [True] * 12
    with psycopg.connect(os.environ[VARIABLE]) as connection:
        [[invalid]] = connection.execute("SELECT count(*) FROM pg_index WHERE NOT indisvalid").fetchall()
    assert invalid == 0


# Values that jsonb would refuse or change are escaped and restored; all others are unchanged.

TEXTS = st.text(st.characters(codec=None), max_size=8) | st.sampled_from(["\0", "\ud800", "\x1b", "\x1b1", "\\u0000"])
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=8)


def refusable(value: Any) -> bool:
    if isinstance(value, dict):
        return any(refusable(inner) for pair in value.items() for inner in pair)
    if isinstance(value, list):
        return any(map(refusable, value))
    return isinstance(value, float) or (isinstance(value, str) and ("\0" in value or not value.isprintable()))


@pytest.mark.slow
@given(VALUES)
def test_every_value_comes_back(value: Any):
    text = dump_json(value)
    assert load_json(text) == load_json(text.encode()) == value
    assert json.dumps(load_json(text)) == json.dumps(value)  # 1.0 is not 1
    assert "\\u0000" not in text.replace("\\\\", "")
    assert refusable(value) or escape_value(value) == value


def test_what_is_not_a_number_comes_back_as_that():
    assert math.isnan(load_json(dump_json([math.nan]))[0])
    assert load_json(dump_json(-math.inf)) == -math.inf


# Selection of a server for checkpoints, messages when it cannot be used, and the server in the documentation.

pytest.importorskip("yaml", reason="pip install 'certigraph[eval]'")


COMPOSE = Path(__file__).parents[2] / "compose.yaml"


def test_files_are_the_rule_and_a_server_what_the_machine_names(monkeypatch: pytest.MonkeyPatch):
    for address, expected in ((None, ""), ("", ""), ("postgresql://there", "postgres")):
        monkeypatch.delenv("CERTIGRAPH_POSTGRES", raising=False)
        if address is not None:
            monkeypatch.setenv("CERTIGRAPH_POSTGRES", address)
        assert default_checkpoints() == expected


def test_without_the_extra_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(Fault, match=r"need psycopg, missing here: pip install 'certigraph\[postgres\]'"):
        run("sdp:paper", "blocksworld", "3-0", context=Context(checkpoints="postgres"), out=tmp_path)


@pytest.mark.parametrize("begin", [run, evaluate])
def test_a_server_that_is_not_there_is_reported_before_anything_is_begun(
    begin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("psycopg")
    monkeypatch.setenv("CERTIGRAPH_POSTGRES", "postgresql://ann:secret-word@127.0.0.1:1/x")
    with pytest.raises(Fault, match="cannot be reached") as refused:
        begin("sdp", "blocksworld", out=tmp_path / "runs")
    assert "secret-word" not in str(refused.value)
    assert not (tmp_path / "runs").exists()


def test_the_server_for_users_is_reached_from_this_machine_alone_and_has_no_password_of_its_own():
    [server] = yaml.safe_load(COMPOSE.read_text())["services"].values()
    assert [port.partition(":")[0] for port in server["ports"]] == ["127.0.0.1"]
    assert server["environment"]["POSTGRES_PASSWORD"].startswith("${CERTIGRAPH_POSTGRES_PASSWORD:?")
    assert int(server["image"].partition(":")[2]) >= 16
    assert server["healthcheck"]["test"] and server["volumes"]
