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
from helpers.servers.dev_server import LOG, PROCESS, json_of, new_thread, serving

from certigraph.runtime.registry import GRAPHS, REWARD_GRAPHS, SEARCH_GRAPHS, graph_slots

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
CONFIG: dict[str, Any] = json.loads((ROOT / "langgraph.json").read_text(encoding="utf-8"))
TASK = {"task": {"benchmark": "blocksworld", "id": "4-0"}}
QUESTION = {"task": {"benchmark": "musique", "id": "2hop__dev_0"}}
RECORDED = {"task": {"benchmark": "rewardprediction", "id": "blocksworld/3-0"}}
GRAPH_INPUTS = {**dict.fromkeys(SEARCH_GRAPHS, QUESTION), **dict.fromkeys(REWARD_GRAPHS, RECORDED)}

KINDS = ("sdp", "tdp", "step", "react", "mcts", "clin", "plan_and_act", "pbai", "hypotheses", "statefactory")
"""Graphs that differ in their state or in how they run."""
PASSING = {"validate": "always_pass"}
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
    assert set(form) == {"swaps", "benchmark", "model", "roles", "window", "budget", "limits", "trial"}
    assert form["model"]["default"] == "scripted:expert"
    assert set(form["swaps"]["properties"]) == {*graph_slots(graph)}
    assert set(schemas["input_schema"]["properties"]) == {"task"}
    assert all(example["task"]["id"] for example in schemas["input_schema"]["examples"])


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
    assert first["ending"] == again["ending"] in ("goal", "world_ended")
    assert first["scores"]["value"] > 0.7
    assert {"reset", "act"} & first["operators"].keys()
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


SIMULATED = {"model": "simulated:act=0.3,seed=2"}
SIX = {"task": {"benchmark": "blocksworld", "id": "6-2"}}


def created(server: httpx.Client, graph: str, **context: Any) -> str:
    """The id of a new assistant."""
    body = {"graph_id": graph, "name": graph, "context": context}
    return str(json_of(server.post("/assistants", json=body))["assistant_id"])


def drawn_operators(server: httpx.Client, assistant_id: str) -> dict[str, str]:
    drawing = json_of(server.get(f"/assistants/{assistant_id}/graph"))
    return {one["id"]: one["metadata"]["operator"]["name"] for one in drawing["nodes"] if "metadata" in one}


def refused(server: httpx.Client, assistant_id: str, **run: Any) -> str:
    """The one line with which a run is refused; nothing of the thread is lost by it."""
    thread = new_thread(server)
    body = {"input": TASK, "assistant_id": assistant_id, **run}
    found = json_of(server.post(f"/threads/{thread}/runs/wait", json=body))["__error__"]["message"]
    assert "\n" not in found
    assert not json_of(server.get(f"/threads/{thread}/state"))["values"]
    return str(found)


def test_an_assistant_is_an_ablation(server: httpx.Client):
    usual, ablated = created(server, "sdp", **SIMULATED), created(server, "sdp", swaps=PASSING, **SIMULATED)
    ends = {name: finished(server, new_thread(server), assistant_id=name, input=SIX) for name in (usual, ablated)}
    assert [end["scores"]["value"] for end in ends.values()] == [1.0, 0.0]
    assert [end["operators"]["validate"] for end in ends.values()] == ["validate", "always_pass"]
    assert [drawn_operators(server, name)["validate"] for name in ends] == ["validate", "always_pass"]


def test_an_optional_operator_with_arguments_is_drawn_and_its_benchmark_named_once(server: httpx.Client):
    gate = {"gate": "exhaustion_gate:patience=1"}
    gated = created(server, "cot", swaps=gate, benchmark="blocksworld", model="scripted:first")
    assert "gate" in drawn_operators(server, gated)
    state = finished(server, new_thread(server), assistant_id=gated, input={"task": {"id": "4-0"}})
    assert state["operators"]["gate"] == gate["gate"]


@pytest.mark.parametrize("key", ["nonsense", "cache", "data", "memory", "faults"])
def test_a_key_that_a_client_may_not_set_is_refused(key: str, server: httpx.Client, tmp_path: Path):
    found = refused(server, created(server, "react", **{key: str(tmp_path / "x")}))
    assert found.startswith(f"no key '{key}' in an assistant's configuration")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("swap", "expected"),
    [
        ({"validat": "always_pass"}, "no operator slot 'validat'"),
        ({"validate": "allways_pass"}, "unknown operator 'allways_pass'"),
        ({"validate": "give_up"}, "give_up is an operator of replan"),
        ({"validate": "os:abort"}, "CERTIGRAPH_IMPORTS"),
        ({"validate": "capped:depth=x,y"}, "depth"),
        ({"realize": "retrieving:rerank=../weights"}, "names no file"),
        ({"validate": 1}, "is not the name of an operator"),
    ],
)
def test_an_operator_that_does_not_fit_is_refused_where_it_is_drawn_and_where_it_runs(
    swap: dict[str, Any], expected: str, server: httpx.Client
):
    wrong = created(server, "sdp", swaps=swap)
    answered = server.get(f"/assistants/{wrong}/graph")
    assert (answered.status_code, expected in answered.json()["detail"]) == (422, True)
    assert expected in refused(server, wrong)


def test_a_graph_that_cannot_run_on_a_benchmark_says_so(server: httpx.Client):
    assert "pbai searches for an answer, and blocksworld takes none" in refused(server, "pbai")


def test_a_model_without_a_key_is_refused_in_one_line(server: httpx.Client):
    body = {"input": TASK, "assistant_id": "react", "context": {"model": "openai:gpt-4o"}}
    found = json_of(server.post(f"/threads/{new_thread(server)}/runs/wait", json=body))["__error__"]["message"]
    assert "OPENAI_API_KEY" in found and "\n" not in found


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
def test_a_finished_run_leaves_no_jvm_in_the_server(server: httpx.Client, log: Path):
    task = {"benchmark": "scienceworld", "id": "find-non-living-thing:0"}
    process = int(log.with_name(PROCESS).read_text())
    with watch_java_processes(process) as seen:
        for _ in range(2):
            state = finished(server, new_thread(server), assistant_id="sdp", input={"task": task})
            assert state["observation"]["solved"]
            assert wait_until(lambda: not java_processes(process))
    assert max(seen) == 1
