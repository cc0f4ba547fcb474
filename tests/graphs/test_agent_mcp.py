"""Agents over the tools of MCP servers: over standard input and output, and over streamable HTTP."""

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.servers.mcp_server import http_server, stdio_connection
from helpers.worlds.support_database import scripted_model
from langgraph.checkpoint.memory import InMemorySaver

from certigraph.graphs.agent import agent

client = pytest.importorskip("langchain_mcp_adapters.client", reason="needs certigraph[mcp]")
sessions = pytest.importorskip("langchain_mcp_adapters.tools")

pytestmark = pytest.mark.slow

TASK: Any = {"goal": "Refund order 17 if it is eligible."}
SCRIPT: list[Any] = [("look_up", {"order": 17}), ("refund", {"order": 17, "amount": 49.9})]
TRANSPORTS = ["stdio", "http"]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "desk.sqlite"


@pytest.fixture
def connection(request: pytest.FixtureRequest, base: Path) -> Iterator[Any]:
    if request.param == "stdio":
        yield stdio_connection(base)
    else:
        with http_server(base) as (address, _):
            yield address


def load(connection: Any) -> list[Any]:
    tools: list[Any] = asyncio.run(client.MultiServerMCPClient({"desk": connection}).get_tools())
    return tools


def refunds(base: Path) -> int:
    with sqlite3.connect(base) as opened:
        [count] = opened.execute("SELECT COUNT(*) FROM refunds").fetchone()
    return int(count)


def observations(graph: Any, config: Any) -> str:
    return str(graph.get_state(config).values["evidence"].view)


def thread(name: str = "1") -> Any:
    return {"configurable": {"thread_id": name}}


@pytest.mark.long
@pytest.mark.parametrize("connection", TRANSPORTS, indirect=True)
def test_invoke_and_ainvoke_call_the_tools_of_a_server(connection: Any, base: Path) -> None:
    graph = agent("react", model=scripted_model(SCRIPT), tools=load(connection), checkpointer=InMemorySaver())
    result = graph.invoke(TASK, thread("sync"))
    assert result["ending"] == "finished"
    assert refunds(base) == 1
    assert "refunded 17: 49.9" in observations(graph, thread("sync"))
    result = asyncio.run(graph.ainvoke(TASK, thread("async")))
    assert result["ending"] == "finished"
    assert refunds(base) == 2


@pytest.mark.parametrize("connection", ["http"], indirect=True)
def test_several_agents_share_the_tools_of_a_server(connection: Any, base: Path) -> None:
    tools = load(connection)
    graphs = [agent(method, model=scripted_model(SCRIPT), tools=tools) for method in ("react", "plan_and_act", "pbai")]

    async def work() -> list[Any]:
        return await asyncio.gather(*(graph.ainvoke(TASK) for graph in graphs))

    assert [result["ending"] for result in asyncio.run(work())] == ["finished"] * 3
    assert [graph.invoke(TASK)["ending"] for graph in graphs] == ["finished"] * 3
    assert refunds(base) == 6


@pytest.mark.parametrize("connection", TRANSPORTS, indirect=True)
def test_an_error_of_a_tool_is_an_observation(connection: Any, base: Path) -> None:
    script = [("refuse", {"order": 17}), *SCRIPT]
    graph = agent("react", model=scripted_model(script), tools=load(connection), checkpointer=InMemorySaver())
    assert graph.invoke(TASK, thread())["ending"] == "finished"
    assert "order 17 is locked" in observations(graph, thread())
    assert refunds(base) == 1


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
@pytest.mark.parametrize("connection", TRANSPORTS, indirect=True)
def test_a_server_that_is_killed_in_the_middle_of_a_call_is_an_observation(connection: Any, way: str) -> None:
    script = [("look_up", {"order": 17}), ("stop_server", {"order": 17}), ("look_up", {"order": 18})]
    graph = agent(
        "react",
        model=scripted_model(script),
        tools=load(connection),
        deadline=5,
        checkpointer=InMemorySaver(),
        effects=ALL,
    )
    result = graph.invoke(TASK, thread()) if way == "invoke" else asyncio.run(graph.ainvoke(TASK, thread()))
    assert result["ending"] == "finished"
    entries = observations(graph, thread()).split("\n\n")
    assert "eligible" in entries[0]
    assert entries[1].startswith("[call 2 of action 2: stop_server")
    assert "TaskGroup" not in entries[1]


ALL: Any = dict.fromkeys(["look_up", "stop_server"], "repeatable")


def test_a_server_that_is_gone_before_a_call_is_an_observation(base: Path) -> None:
    with http_server(base) as (connection, child):
        tools = load(connection)
        child.kill()
        child.wait()
        graph = agent("react", model=scripted_model(SCRIPT), tools=tools, deadline=5, checkpointer=InMemorySaver())
        assert graph.invoke(TASK, thread())["ending"] == "finished"
        view = observations(graph, thread())
        assert "ConnectError" in view
        assert "TaskGroup" not in view


def test_tools_of_an_open_session_work_in_its_event_loop(base: Path) -> None:
    async def work() -> Any:
        servers = client.MultiServerMCPClient({"desk": stdio_connection(base)})
        async with servers.session("desk") as session:
            graph = agent("react", model=scripted_model(SCRIPT), tools=await sessions.load_mcp_tools(session))
            return await graph.ainvoke(TASK)

    assert asyncio.run(work())["ending"] == "finished"
    assert refunds(base) == 1


def test_a_session_whose_server_is_killed_is_an_observation(base: Path) -> None:
    script = [("stop_server", {"order": 17}), ("look_up", {"order": 18})]
    reading: Any = dict.fromkeys(("stop_server", "look_up"), "repeatable")

    async def work() -> Any:
        servers = client.MultiServerMCPClient({"desk": stdio_connection(base)})
        async with servers.session("desk") as session:
            tools = await sessions.load_mcp_tools(session)
            options: Any = {"effects": reading, "deadline": 5, "checkpointer": InMemorySaver()}
            graph = agent("react", model=scripted_model(script), tools=tools, **options)
            result = await graph.ainvoke(TASK, thread())
            return result, (await graph.aget_state(thread())).values["evidence"].view

    result, view = asyncio.run(work())
    assert result["ending"] == "finished"
    assert view.count("[call ") == 2


def test_a_call_whose_server_is_killed_is_of_unknown_outcome(base: Path) -> None:
    async def work() -> Any:
        servers = client.MultiServerMCPClient({"desk": stdio_connection(base)})
        async with servers.session("desk") as session:
            tools = await sessions.load_mcp_tools(session)
            model = scripted_model([("stop_server", {"order": 17})])
            graph = agent("react", model=model, tools=tools, deadline=5, checkpointer=InMemorySaver())
            return await graph.ainvoke(TASK, thread())

    [question] = asyncio.run(work())["__interrupt__"]
    assert question.value["calls"] == [{"name": "stop_server", "args": {"order": 17}}]
