"""`langgraph dev` serves every graph of langgraph.json, offline, with its drawing, its context form and its runs."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from helpers.files.installed_package import INSTALLED, WORLD
from helpers.processes.java_processes import java_processes, wait_until, watch_java_processes
from helpers.servers import dev_server
from helpers.servers.dev_server import LOG, json_of, new_thread, serving

from certigraph.runtime.registry import GRAPHS, REWARD_GRAPHS, SEARCH_GRAPHS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
CONFIG: dict[str, Any] = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))
TASK = {"task": {"benchmark": "blocksworld", "id": "4-0"}}
QUESTION = {"task": {"benchmark": "musique", "id": "2hop__dev_0"}}
RECORDED = {"task": {"benchmark": "rewardprediction", "id": "blocksworld/3-0"}}
GRAPH_INPUTS = {**dict.fromkeys(SEARCH_GRAPHS, QUESTION), **dict.fromkeys(REWARD_GRAPHS, RECORDED)}

KINDS = ("sdp", "tdp", "step", "react", "mcts", "clin", "plan_and_act", "pbai", "hypotheses", "statefactory")
"""Graphs that differ in their state or in how they run."""
OWN = "own"
"""A graph of a user's own, which is served with ours."""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dev") / LOG


@pytest.fixture(scope="module")
def server(log: Path) -> Iterator[httpx.Client]:
    """The server over a folder of its own, for it writes where it runs; the sources are this checkout's."""
    here = log.parent
    served = {**CONFIG, "graphs": {**CONFIG["graphs"], OWN: "ownagents.graphs:graph"}}
    (here / "langgraph.json").write_text(json.dumps(served), encoding="utf-8")
    (here / "src").symlink_to(ROOT / "src")
    variables = {
        "CERTIGRAPH_WEB_CACHE": str(here / "cache"),
        "CERTIGRAPH_IMPORTS": "ownagents",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(INSTALLED), os.environ.get("PYTHONPATH")])),
    }
    with serving(here, variables) as client:
        yield client


def assistant(server: httpx.Client, graph: str) -> str:
    return str(dev_server.assistant(server, graph)["assistant_id"])


def finished(server: httpx.Client, thread: str, **run: Any) -> dict[str, Any]:
    state: dict[str, Any] = json_of(server.post(f"/threads/{thread}/runs/wait", json={"input": TASK, **run}))
    assert "__error__" not in state, state
    return state


def test_every_graph_is_listed(server: httpx.Client):
    assert {found["graph_id"] for found in json_of(server.post("/assistants/search", json={"limit": 100}))} == set(
        [*CONFIG["graphs"], OWN]
    )
    assert set(CONFIG["graphs"]) == set(GRAPHS)


@pytest.mark.parametrize("graph", CONFIG["graphs"])
def test_a_graph_has_its_description_its_forms_and_a_drawing_with_named_edges(graph: str, server: httpx.Client):
    described = dev_server.assistant(server, graph)["description"]
    assert described == CONFIG["graphs"][graph]["description"] != ""
    drawing = json_of(server.get(f"/assistants/{assistant(server, graph)}/graph"))
    named = {edge["data"] for edge in drawing["edges"] if edge.get("conditional")}
    assert named and None not in named
    schemas = json_of(server.get(f"/assistants/{assistant(server, graph)}/schemas"))
    form = schemas["context_schema"]["properties"]
    assert set(form) == {"model", "roles", "window", "budget", "limits", "trial"}
    assert form["model"]["default"] == "scripted:expert"
    assert set(schemas["input_schema"]["properties"]) == {"task"}


def test_the_graph_inside_a_node_is_drawn_with_xray(server: httpx.Client):
    drawing = json_of(server.get(f"/assistants/{assistant(server, 'tdp')}/graph", params={"xray": True}))
    named = {edge["data"] for edge in drawing["edges"] if edge.get("conditional")}
    assert {"solve:plan", "solve:execute", "solve:act", "solve:supervise", "solve:replan"} <= {
        node["id"] for node in drawing["nodes"]
    }
    of_subtasks = {"acting", "handed_back", "over", "more", "off_plan", "done"}
    assert named == {"ready", "finished", "batch_done"} | of_subtasks


@pytest.mark.parametrize("graph", KINDS)
def test_a_graph_runs_to_its_end_and_once_more_on_the_same_thread(graph: str, server: httpx.Client):
    thread = new_thread(server)
    task = GRAPH_INPUTS.get(graph, TASK)
    first = finished(server, thread, assistant_id=graph, input=task)
    again = finished(server, thread, assistant_id=graph, input=task)
    assert first["observation"]["done"]
    assert again["history"] == first["history"]
    kept = json_of(server.get(f"/threads/{thread}/state"))["values"]
    assert kept["history"] == first["history"]
    assert bool(kept.get("certificates")) is (graph == "sdp")


def test_a_run_that_fails_says_why(server: httpx.Client):
    body = {"input": {"task": {"benchmark": "blocksworld", "id": "no such"}}, "assistant_id": "sdp"}
    answered = json_of(server.post(f"/threads/{new_thread(server)}/runs/wait", json=body))
    assert "no such" in answered["__error__"]["message"]


def test_an_edited_run_goes_on_from_the_edit(server: httpx.Client):
    thread = new_thread(server)
    finished(server, thread, assistant_id="sdp")
    history = json_of(server.post(f"/threads/{thread}/history", json={"limit": 1000}))
    first = [state for state in history if state["next"] == ["certify"]][-1]
    edit = {"verdict": {"depth": 0, "reason": "a person disagrees"}}
    body = {"values": edit, "checkpoint_id": first["checkpoint"]["checkpoint_id"], "as_node": "validate"}
    fork = json_of(server.post(f"/threads/{thread}/state", json=body))
    final = finished(server, thread, assistant_id="sdp", input=None, checkpoint=fork["checkpoint"])
    assert final["observation"]["solved"]


def test_the_context_form_takes_hold(server: httpx.Client):
    context = {"model": "scripted:first", "budget": {"calls": 7}}
    state = finished(server, new_thread(server), assistant_id="sdp", context=context)
    assert state["certificates"] == []
    body = {"input": TASK, "assistant_id": "sdp", "context": {"budget": {"calls": 2}}}
    spent = json_of(server.post(f"/threads/{new_thread(server)}/runs/wait", json=body))
    assert spent["__error__"]["error"] == "LimitReached"


@pytest.mark.parametrize("graph", ["react", "sdp"])
def test_a_client_names_no_file_or_folder_of_the_server(graph: str, server: httpx.Client, tmp_path: Path):
    (tmp_path / "blocksworld").mkdir()  # as data it would be read, and has no tasks
    context = {"cache": str(tmp_path / "cache"), "data": str(tmp_path), "memory": "x", "faults": "crash=1"}
    state = finished(server, new_thread(server), assistant_id=graph, context=context)
    assert state["observation"]["solved"]
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("model", ["local:/etc/passwd", "local:http://127.0.0.1/x.gguf", "local:../x", "local:~/x"])
@pytest.mark.parametrize("role", [False, True])
def test_a_client_names_no_weights_by_a_path(model: str, role: bool, server: httpx.Client, log: Path):
    before = len(log.read_text(encoding="utf-8"))
    context = {"roles": {"executor": model}} if role else {"model": model}
    body = {"input": TASK, "assistant_id": "react", "context": context}
    refused = json_of(server.post(f"/threads/{new_thread(server)}/runs/wait", json=body))["__error__"]
    assert (refused["error"], model in refused["message"]) == ("Fault", True)
    assert "BlockingError" not in log.read_text(encoding="utf-8")[before:]


@pytest.mark.parametrize("graph", ["step", "clin"])
def test_lessons_are_kept_in_the_servers_store(graph: str, server: httpx.Client):
    thread = new_thread(server)
    # after the last episode nothing is learned, because no further one would use it
    context = {"model": "scripted:first", "limits": {"steps": 1, "trials": 3}}
    state = finished(server, thread, assistant_id=graph, context=context)
    assert [lesson["trial"] for lesson in state["lessons"]] == [1, 2]
    kept = json_of(server.post("/store/items/search", json={"namespace_prefix": ["lessons", thread]}))["items"]
    assert sorted(item["value"]["trial"] for item in kept) == [1, 2]


def test_updates_are_streamed_node_by_node(server: httpx.Client):
    body = {"input": TASK, "assistant_id": "sdp", "stream_mode": ["updates"]}
    with server.stream("POST", f"/threads/{new_thread(server)}/runs/stream", json=body) as response:
        chunks = [json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: {")]
    nodes = [name for chunk in chunks for name in chunk if name in ("reset", "propose", "realize", "act", "validate")]
    assert nodes[:5] == ["reset", "propose", "realize", "act", "validate"]


@pytest.mark.parametrize(
    "task",
    [
        {"benchmark": "blocksworld", "id": "5-0"},
        {"benchmark": "travelplanner", "id": "1"},
        {"benchmark": "web", "id": "gyms/1"},
    ],
)
def test_no_node_blocks_the_servers_event_loop(task: dict[str, str], server: httpx.Client, log: Path):
    before = len(log.read_text(encoding="utf-8"))
    assert finished(server, new_thread(server), assistant_id="sdp", input={"task": task})["certificates"]
    log_text = log.read_text(encoding="utf-8")[before:]
    assert "BlockingError" not in log_text
    assert "Traceback" not in log_text


@pytest.mark.parametrize("graph", ["react", OWN])
@pytest.mark.parametrize("world", [WORLD, "counting"])
def test_a_world_of_ones_own_is_named_by_the_task(graph: str, world: str, server: httpx.Client, log: Path):
    before = len(log.read_text(encoding="utf-8"))
    task, context = {"benchmark": world, "id": "2"}, {"model": "scripted:first"}
    state = finished(server, new_thread(server), assistant_id=graph, input={"task": task}, context=context)
    assert state["observation"]["solved"]
    assert (state["task"]["benchmark"], state["task"]["goal"]) == (world, "count to 2")
    assert "BlockingError" not in log.read_text(encoding="utf-8")[before:]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
def test_a_finished_run_leaves_no_jvm_in_the_server(server: httpx.Client):
    task = {"benchmark": "scienceworld", "id": "find-non-living-thing:0"}
    with watch_java_processes() as seen:
        for _ in range(2):
            state = finished(server, new_thread(server), assistant_id="sdp", input={"task": task})
            assert state["observation"]["solved"]
            assert wait_until(lambda: not java_processes()), "the server is a child of this process"
    assert max(seen) == 1
