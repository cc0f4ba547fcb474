"""Agents over public MCP servers: each schema is read, and each call is answered."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from helpers.servers.public_mcp_servers import can_install, connections, install_servers
from langgraph.checkpoint.memory import InMemorySaver

from certigraph import ScriptedChat, agent, serializer

client = pytest.importorskip("langchain_mcp_adapters.client", reason="needs certigraph[mcp]")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not can_install(), reason="needs npm and git")]

NAMES = ["everything", "filesystem", "memory", "sequential-thinking", "time", "git"]


def calls_of(folder: Path) -> dict[str, list[tuple[str, dict[str, Any], str]]]:
    """Calls by server, each with a pattern of its answer."""
    path, thought = str(folder / "a.txt"), {"thought": "One.", "thoughtNumber": 1, "totalThoughts": 1}
    entity = {"name": "Ann", "entityType": "person", "observations": ["has order 17"]}
    return {
        "everything": [
            ("echo", {"message": "hello"}, "hello"),
            ("get-sum", {"a": 1, "b": 2}, "3"),
            ("get-tiny-image", {}, r'bytes left out.*"image/png"'),
            ("get-resource-links", {"count": 2}, "demo://resource"),
            ("get-structured-content", {"location": "New York"}, "temperature"),
            ("get-annotated-message", {"messageType": "error", "includeImage": True}, r"Operation failed\n.*image/png"),
        ],
        "filesystem": [
            ("read_text_file", {"path": path}, "hello"),
            ("write_file", {"path": f"{path}.copy", "content": "bye"}, "wrote"),
            ("edit_file", {"path": path, "edits": [{"oldText": "hello", "newText": "bye"}]}, r"\+bye"),
            ("read_text_file", {"path": "/etc/passwd"}, "denied"),
        ],
        "memory": [
            ("create_entities", {"entities": [entity]}, "Ann"),
            ("search_nodes", {"query": "order 17"}, "Ann"),
            ("delete_entities", {"entityNames": ["Ann"]}, "deleted"),
        ],
        "sequential-thinking": [("sequentialthinking", {**thought, "nextThoughtNeeded": False}, "thoughtNumber")],
        "time": [
            ("get_current_time", {"timezone": "Europe/Berlin"}, "Europe/Berlin"),
            ("convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}, "21:00"),
            ("get_current_time", {"timezone": "Nowhere/Else"}, "Nowhere"),
        ],
        "git": [
            ("git_log", {"repo_path": str(folder)}, "begin"),
            ("git_status", {"repo_path": str(folder)}, "clean"),
            ("git_create_branch", {"repo_path": str(folder), "branch_name": "other"}, "other"),
        ],
    }


@pytest.fixture(scope="session", autouse=True)
def installed() -> None:
    install_servers()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_every_call_of_a_public_server_is_answered(name: str, way: str, tmp_path: Path):
    folder = tmp_path / "files"
    servers = client.MultiServerMCPClient(connections(folder))
    tools = asyncio.run(servers.get_tools(server_name=name))
    expected = calls_of(folder)[name]
    replies = iter([*[[{"name": tool, "args": args}] for tool, args, _ in expected], FINISH])
    model = ScriptedChat(responder=lambda prompt, schema: {"thought": "", "calls": next(replies)})
    saver = InMemorySaver(serde=serializer())
    graph = agent("react", model=model, tools=tools, commitments=None, check=None, audit=None, checkpointer=saver)
    thread: Any = {"configurable": {"thread_id": "1"}}
    state = graph.invoke(REQUEST, thread) if way == "invoke" else asyncio.run(graph.ainvoke(REQUEST, thread))
    assert state["ending"] == "finished"
    answers = graph.get_state(thread).values["evidence"].view.split("\n\n[call ")
    for answer, (tool, _, pattern) in zip(answers, expected, strict=True):
        assert tool in answer
        assert re.search(pattern, answer, re.DOTALL)
        assert "base64," not in answer


REQUEST: Any = {"goal": "Try everything."}
FINISH = [{"name": "finish", "args": {"answer": "done"}}]


def test_hints_of_public_servers_say_what_may_be_repeated(tmp_path: Path):
    servers = client.MultiServerMCPClient(connections(tmp_path / "files"))
    tools = asyncio.run(servers.get_tools(server_name="filesystem"))
    world = agent("react", model=ScriptedChat(responder=lambda prompt, schema: {}), tools=tools).world
    assert world.is_repeatable("read_text_file")
    assert world.is_repeatable("write_file")
    assert not world.is_repeatable("edit_file")
    assert not world.is_repeatable("move_file")
