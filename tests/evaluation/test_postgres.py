"""Checkpoints on a Postgres server: every graph comes to what it comes to with files, and goes on as it does there."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="pip install 'certigraph[postgres]'")

from langgraph.store.base import BaseStore
from postgres_server import VARIABLE, Server
from study_world import Riddles
from task_graphs import Jobs, Pondering

from certigraph.adapters.blocksworld.benchmark import BlocksWorld
from certigraph.adapters.protocols import Budget, Context, Limits
from certigraph.runtime.postgres import Lease, PostgresLessons, PostgresSaver, place_of
from certigraph.runtime.registry import GRAPHS, SEARCHES, build_graph, load_local
from certigraph.runtime.result import Result
from certigraph.runtime.run import arun, resume, run
from certigraph.runtime.storage import delete_thread, drop_checkpoints, opened
from certigraph.state.records import Fault
from certigraph.state.trajectory import read_lines

pytestmark = pytest.mark.slow

VARYING = {"episode": "", "usage": [], "spent": None}
"""What differs from run to run."""

SMALL = Limits(steps=6, trials=2, attempts=3, replans=2, passages=2, context=900)
SOON, LATER = Budget(calls=5), Budget(calls=15)


def begun(graph: str, out: Path, **more: Any) -> Result:
    world = Riddles() if graph in SEARCHES else BlocksWorld()
    context = Context(limits=SMALL, budget=SOON, **more)
    return run(graph, world, "looped" if graph in SEARCHES else "4-0", context=context, out=out)


def gone_on(result: Result) -> Result:
    world = Riddles() if result.trajectory.header.task.benchmark == "riddles" else BlocksWorld()
    return resume(result.folder, budget=LATER, benchmark=world) if result.ending == "limit:calls" else result


def checkpointed(result: Result) -> dict[str, Any]:
    async def read() -> dict[str, Any]:
        graph = build_graph(result.trajectory.header.graph)
        async with opened(graph, result.folder, load_local(result.folder), resuming=True) as (saver, _):
            found = await graph.copy({"checkpointer": saver}).aget_state(
                {"configurable": {"thread_id": result.folder.name}}
            )
        return found.values

    return asyncio.run(read())


def told(result: Result) -> tuple[Any, ...]:
    """All of a run but what differs from run to run."""
    nodes = sorted(e.node for e in result.trajectory.events)
    return result.ending, result.scores, result.usage.calls, nodes, plain(result.state)


def resumed(result: Result) -> list[tuple[int, list[int]]]:
    """From which superstep the run went on, and from which ones the graphs inside its nodes did."""
    lines = read_lines(result.folder / "trajectory.jsonl")
    return [(line.superstep, sorted(line.scopes.values())) for line in lines if line.type == "resumed"]


def plain(state: dict[str, Any]) -> Any:
    """A state without what differs from run to run; of searches that run at once any may end first."""
    branches = sorted(state.get("branches", ()), key=lambda branch: branch.number)
    return listed({**state, **VARYING, "branches": branches})


def listed(value: Any) -> Any:
    """A checkpoint keeps no tuples."""
    if isinstance(value, dict):
        return {key: listed(inner) for key, inner in value.items()}
    return [listed(inner) for inner in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("graph", sorted(GRAPHS))
def test_every_graph_comes_to_what_it_comes_to_with_files(
    graph: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = begun(graph, tmp_path / "file")
    monkeypatch.setenv(VARIABLE, server.url)
    there = begun(graph, tmp_path / "there")
    assert told(there) == told(file)
    there, file = gone_on(there), gone_on(file)  # the latter still with its file
    assert told(there) == told(file)
    assert resumed(there) == resumed(file)
    assert plain(checkpointed(there)) == plain(checkpointed(file)) == plain(there.state)
    assert there.trajectory.header.context["checkpoints"] == load_local(there.folder).checkpoints == "postgres"
    assert not list(there.folder.glob("*.sqlite*"))


def test_graphs_inside_nodes_go_on_where_they_were(used: Server, tmp_path: Path):
    stopped = run("tdp", Jobs(), "deep", context=Context(chat=Pondering(lambda _: 0.0), budget=SOON), out=tmp_path)
    gone = resume(stopped.folder, benchmark=Jobs(), chat=Pondering(lambda _: 0.0), budget=Budget())
    [(step, inner)] = resumed(gone)
    assert step >= 0 and inner and gone.ending == "goal"


def test_what_was_written_after_the_latest_checkpoint_is_forgotten_and_nothing_else(used: Server, tmp_path: Path):
    thread = begun("sdp", tmp_path).folder.name
    latest = "checkpoint_id = (SELECT max(checkpoint_id) FROM checkpoints c WHERE c.thread_id = w.thread_id)"
    asked = f"SELECT count(*) FILTER (WHERE {latest}), count(*) FROM checkpoint_writes w WHERE thread_id = %s"
    [(late, all_before)] = used.sql(asked, thread)

    async def forget() -> None:
        async with Lease.taken(thread) as lease:
            await PostgresSaver(lease).prepare_resume(thread)

    asyncio.run(forget())
    assert late > 0
    assert used.sql(asked, thread) == [(0, all_before - late)]


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
    """What each episode was told of those before."""
    return [tuple(e.update["lessons"]) for e in result.trajectory.events if e.node == "recall" and e.update]


async def held(store: BaseStore) -> list[dict[str, Any]]:
    found = await asyncio.to_thread(store.search, ("lessons",), limit=9)
    return [item.value for item in sorted(found, key=lambda item: item.key)]


@pytest.mark.usefixtures("used")
def test_lessons_come_back_as_they_were_given():
    odd = {"text": "NUL \0, half \ud800, \x1b[0m, 'quote\\u0000", "number": 1.0, "huge": 1e300, "none": None}

    async def kept() -> list[Any]:
        async with Lease.taken("store", new=True) as lease:
            one, other = (PostgresLessons(lease, place_of(name)) for name in ("one", "one more"))
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


def test_a_finished_run_leaves_no_checkpoint_and_a_deleted_one_nothing(used: Server, tmp_path: Path):
    context = Context(checkpoints="postgres")
    kept, ended = begun("clin", tmp_path), gone_on(begun("reflexion", tmp_path))
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
    return ".".join(place_of(result.folder.name))


def test_a_run_on_a_server_is_not_gone_on_with_where_none_is_named(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(VARIABLE, server.url)
    stopped = begun("sdp", tmp_path)
    before = (stopped.folder / "trajectory.jsonl").read_bytes()
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(Fault, match="export CERTIGRAPH_POSTGRES=postgresql://") as refused:
        gone_on(stopped)
    assert "\n" not in str(refused.value)
    assert (stopped.folder / "trajectory.jsonl").read_bytes() == before


def test_a_name_that_the_server_has_is_not_begun_again(used: Server, tmp_path: Path):
    asyncio.run(arun("sdp", BlocksWorld(), "3-0", out=tmp_path / "a", name="same"))
    before = rows(used, "same")
    with pytest.raises(Fault, match="the server has another run named same"):
        asyncio.run(arun("sdp", BlocksWorld(), "3-0", out=tmp_path / "b", name="same"))
    assert rows(used, "same") == before
