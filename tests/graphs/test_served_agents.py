"""Agents with tools under `langgraph dev`: chat, approvals, effects and streams over HTTP, and from its npm SDK."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from helpers.processes.children import child_path
from helpers.servers.dev_server import LOG, assistant, json_of, new_thread, run_to_end, serving, stream
from helpers.worlds.support_database import GOAL, SupportDatabase

pytestmark = pytest.mark.slow

METHODS = ["sdp", "tdp", "step", "react"]
DESCRIPTIONS = {name: f"Customer support by {name}." for name in [*METHODS, "approving", "typing"]}
CHAT = {"messages": [{"role": "user", "content": GOAL}]}
TURN = ["human", *["ai", "tool"] * 3, "ai"]
"""Types of the messages of a turn: the request, calls and their answers, the agent's answer."""

MODES = ["values", "updates", "messages", "messages-tuple", "custom", "tasks", "checkpoints", "debug", "events"]
SDK = "@langchain/langgraph-sdk@2.0.0"
PROGRAMS = Path(__file__).parent.parent / "helpers" / "servers"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[httpx.Client]:
    module = Path(__file__).parent.parent / "helpers" / "servers" / "served_agents.py"
    graphs = {name: {"path": f"{module}:{name}", "description": text} for name, text in DESCRIPTIONS.items()}
    config = {"dependencies": ["."], "graphs": graphs, "python_version": "3.11"}
    (folder / "langgraph.json").write_text(json.dumps(config), encoding="utf-8")
    path = os.pathsep.join([str(module.parent), child_path()])
    with serving(folder, {"PYTHONPATH": path, "SUPPORT_DATABASE": str(folder / "support.sqlite")}) as client:
        yield client


@pytest.fixture
def support(server: httpx.Client, folder: Path) -> Iterator[SupportDatabase]:
    """The effects of the test that runs, and of no other one."""
    found = SupportDatabase(folder / "support.sqlite")
    found.clear()
    yield found
    (folder / "pause").unlink(missing_ok=True)


def schemas(server: httpx.Client, graph: str) -> dict[str, Any]:
    return dict(json_of(server.get(f"/assistants/{assistant(server, graph)['assistant_id']}/schemas")))


def history(server: httpx.Client, thread: str) -> list[dict[str, Any]]:
    """The checkpoints of a thread, the latest first."""
    return list(json_of(server.post(f"/threads/{thread}/history", json={"limit": 1000})))


def waiting(server: httpx.Client, thread: str) -> list[dict[str, Any]]:
    return [found["value"] for found in json_of(server.get(f"/threads/{thread}/state"))["interrupts"]]


def answer(server: httpx.Client, thread: str, decision: dict[str, Any]) -> dict[str, Any]:
    return run_to_end(server, thread, assistant_id="approving", command={"resume": {"decisions": [decision]}})


def becomes(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.1)


@pytest.mark.parametrize("graph", DESCRIPTIONS)
def test_an_assistant_has_its_description_and_takes_messages_or_a_goal(graph: str, server: httpx.Client):
    assert assistant(server, graph)["description"] == DESCRIPTIONS[graph]
    found = schemas(server, graph)
    assert set(found["input_schema"]["properties"]) == {"messages", "goal"}
    outputs = {"messages", "certificates", "ending", "ending_reason", "structured_response", "turn_usage", "effects"}
    assert set(found["output_schema"]["properties"]) == outputs


def test_the_context_form_leaves_the_agents_own_model_where_it_is(server: httpx.Client, support: SupportDatabase):
    form = schemas(server, "react")["context_schema"]["properties"]
    assert {"model", "budget", "limits"} <= set(form)
    assert not {"chat", "benchmark", "data", "faults", "trial", "cache", "roles"} & set(form)
    filled = {name: part["default"] for name, part in form.items() if part.get("default") is not None}
    state = run_to_end(server, new_thread(server), assistant_id="react", input=CHAT, context=filled)
    assert state["ending"] == "finished"
    assert len(support.rows("refunds")) == 1


def test_a_client_cannot_name_a_folder_of_the_server(server: httpx.Client, support: SupportDatabase, tmp_path: Path):
    context = {"cache": str(tmp_path / "cache"), "model": ""}
    state = run_to_end(server, new_thread(server), assistant_id="react", input=CHAT, context=context)
    assert state["ending"] == "finished"
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("model", ["local:/etc/passwd", "local:http://127.0.0.1/x.gguf", "local:../x.gguf"])
def test_a_client_names_no_weights_by_a_path(model: str, server: httpx.Client, folder: Path):
    before = len((folder / LOG).read_text())
    refused = run_to_end(server, new_thread(server), assistant_id="react", input=CHAT, context={"model": model})
    assert (refused["__error__"]["error"], model in refused["__error__"]["message"]) == ("Fault", True)
    assert "BlockingError" not in (folder / LOG).read_text()[before:]


def test_weights_by_name_are_looked_for_off_the_event_loop(server: httpx.Client, folder: Path):
    before = len((folder / LOG).read_text())
    context = {"model": "local:qwen-0.5b", "budget": {"calls": 1}}
    ended = run_to_end(server, new_thread(server), assistant_id="react", input=CHAT, context=context)
    assert ended.get("__error__", {}).get("error", "") in ("", "Fault", "LimitReached")
    assert "BlockingError" not in (folder / LOG).read_text()[before:]


@pytest.mark.parametrize("graph", METHODS)
def test_a_chat_message_runs_an_agent_and_its_answer_is_a_message(
    graph: str, server: httpx.Client, support: SupportDatabase
):
    thread = new_thread(server)
    state = run_to_end(server, thread, assistant_id=graph, input=CHAT)
    assert [message["type"] for message in state["messages"]] == TURN
    assert state["messages"][-1]["content"] == "Order 17 was refunded."
    assert state["ending"] == ("goal" if graph == "sdp" else "finished")
    assert len(state["certificates"]) == (1 if graph == "sdp" else 0)
    assert support.rows("refunds") == [(17, 49.9)]
    assert len(support.rows("mails")) == 1


def test_a_further_message_on_the_same_thread_is_another_turn_with_effects_of_its_own(
    server: httpx.Client, support: SupportDatabase
):
    thread = new_thread(server)
    for turn in (1, 2):
        state = run_to_end(server, thread, assistant_id="react", input=CHAT)
        assert [message["type"] for message in state["messages"]] == TURN * turn
        assert len(support.rows("refunds")) == turn


def test_an_approval_is_in_the_threads_state_and_is_answered_over_http(server: httpx.Client, support: SupportDatabase):
    thread = new_thread(server)
    run_to_end(server, thread, assistant_id="approving", input=CHAT)
    assert json_of(server.get(f"/threads/{thread}"))["status"] == "interrupted"
    (request,) = waiting(server, thread)
    (action,), (review,) = request["action_requests"], request["review_configs"]
    assert (action["name"], action["args"]) == ("refund", {"order": 17, "amount": 49.9})
    assert action["description"]
    assert review == {"action_name": "refund", "allowed_decisions": ["approve", "edit", "reject", "respond"]}
    assert support.rows("refunds") == []
    state = answer(server, thread, {"type": "approve"})
    assert state["messages"][-1]["content"] == "Order 17 was refunded."
    assert support.rows("refunds") == [(17, 49.9)]
    assert json_of(server.get(f"/threads/{thread}"))["status"] == "idle"


def test_a_rejected_call_is_not_made_and_an_edited_one_is_made_as_edited(
    server: httpx.Client, support: SupportDatabase
):
    thread = new_thread(server)
    run_to_end(server, thread, assistant_id="approving", input=CHAT)
    state = answer(server, thread, {"type": "reject", "message": "too much"})
    assert (state["ending"], support.rows("refunds")) == ("gave_up", [])  # nobody is asked again about an equal call
    thread = new_thread(server)
    run_to_end(server, thread, assistant_id="approving", input=CHAT)
    edited = {"name": "refund", "args": {"order": 17, "amount": 10.0}}
    state = answer(server, thread, {"type": "edit", "edited_action": edited})
    assert state["ending"] == "goal"
    assert support.rows("refunds") == [(17, 10.0)]


@pytest.mark.parametrize("graph", ["sdp", "react"])
def test_a_run_from_any_earlier_checkpoint_has_no_second_effect(
    graph: str, server: httpx.Client, support: SupportDatabase
):
    thread = new_thread(server)
    run_to_end(server, thread, assistant_id=graph, input=CHAT)
    checkpoints = [state for state in history(server, thread) if state["next"] and "task" in state["values"]]
    assert len(checkpoints) >= 5
    for state in checkpoints:
        run_to_end(server, thread, assistant_id=graph, input=None, checkpoint=state["checkpoint"])
        assert (len(support.rows("refunds")), len(support.rows("mails"))) == (1, 1)


def test_a_copy_of_a_thread_has_no_second_effect(server: httpx.Client, support: SupportDatabase):
    thread = new_thread(server)
    run_to_end(server, thread, assistant_id="sdp", input=CHAT)
    copy = json_of(server.post(f"/threads/{thread}/copy", json={}))["thread_id"]
    before = next(state for state in history(server, copy) if state["next"] == ["act"])
    run_to_end(server, copy, assistant_id="sdp", input=None, checkpoint=before["checkpoint"])
    assert (len(support.rows("refunds")), len(support.rows("mails"))) == (1, 1)


def test_a_run_cancelled_within_a_call_asks_whether_it_happened(
    server: httpx.Client, support: SupportDatabase, folder: Path
):
    (folder / "pause").touch()
    thread = new_thread(server)
    run = json_of(server.post(f"/threads/{thread}/runs", json={"assistant_id": "react", "input": CHAT}))
    becomes(lambda: len(support.rows("refunds")) == 1)
    assert server.post(f"/threads/{thread}/runs/{run['run_id']}/cancel", params={"wait": True}).is_success
    (folder / "pause").unlink()
    run_to_end(server, thread, assistant_id="react", input=None)
    (question,) = waiting(server, thread)
    assert question["type"] == "unknown_outcome"
    assert question["calls"] == [{"name": "refund", "args": {"order": 17, "amount": 49.9}}]
    decision = {"decisions": [{"type": "happened", "result": "refunded 17: 49.9"}]}
    state = run_to_end(server, thread, assistant_id="react", command={"resume": decision})
    assert state["messages"][-1]["content"] == "Order 17 was refunded."
    assert (len(support.rows("refunds")), len(support.rows("mails"))) == (1, 1)


@pytest.mark.parametrize("mode", MODES)
def test_every_stream_mode_runs_to_the_end(mode: str, server: httpx.Client, support: SupportDatabase):
    thread = new_thread(server)
    events = stream(server, thread, assistant_id="sdp", input=CHAT, stream_mode=[mode])
    assert [data for name, data in events if name == "error"] == []
    assert (
        json_of(server.get(f"/threads/{thread}/state"))["values"]["messages"][-1]["content"] == "Order 17 was refunded."
    )


@pytest.mark.parametrize("given", [{}, {"messages": []}, {"goal": " "}])
def test_an_input_without_a_task_says_what_the_input_needs(given: dict[str, Any], server: httpx.Client):
    failed = run_to_end(server, new_thread(server), assistant_id="react", input=given)
    assert failed["__error__"]["error"] == "Fault"
    assert '{"goal": "..."}' in failed["__error__"]["message"]


def test_checkpoints_that_come_too_late_are_refused(server: httpx.Client, support: SupportDatabase):
    failed = run_to_end(server, new_thread(server), assistant_id="react", input=CHAT, durability="exit")
    assert "durability" in failed["__error__"]["message"]
    assert support.rows("refunds") == []


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which npm has installed the SDK."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("needs node and npm")
    folder = tmp_path_factory.mktemp("sdk")
    install = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), SDK]
    try:
        installed = subprocess.run(install, capture_output=True, text=True, check=False, timeout=120)
    except subprocess.TimeoutExpired:
        pytest.skip("npm did not install the SDK within two minutes")
    if installed.returncode:
        pytest.skip(f"npm cannot install the SDK: {installed.stderr[-200:]}")
    return folder


def run_client(sdk: Path, program: str, *arguments: str) -> Any:
    """Run a program of the SDK; return what it printed."""
    shutil.copy(PROGRAMS / program, sdk)
    command = ["node", str(sdk / program), *arguments]
    done = subprocess.run(command, cwd=sdk, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.long
def test_the_npm_sdk_sees_the_interrupt_and_resumes(server: httpx.Client, support: SupportDatabase, sdk: Path):
    seen = run_client(sdk, "sdk_client.mjs", str(server.base_url), GOAL)
    assert seen["requested"] == ["refund"]
    assert (seen["status"], seen["streamed"]) == ("interrupted", 1)
    assert seen["answer"] == "Order 17 was refunded."
    assert {"values", "updates", "messages"} <= set(seen["events"])
    assert support.rows("refunds") == [(17, 49.9)]


@pytest.mark.long
def test_the_npm_sdk_shows_calls_results_tokens_and_the_ending(
    server: httpx.Client, support: SupportDatabase, sdk: Path
):
    found = run_client(sdk, "sdk_chat.mjs", str(server.base_url), "typing", GOAL)
    *work, last = found["shown"]
    calls, results, tokens = ([one for one in work if kind in one] for kind in ("call", "result", "token"))
    assert work == [*(part for pair in zip(calls, results, strict=True) for part in pair), *tokens]
    assert [one["call"] for one in calls] == ["look_up", "refund", "send_mail"]
    assert [one["id"] for one in calls] == [one["id"] for one in results]
    assert {one["status"] for one in results} == {"success"}
    assert len(tokens) > 2
    assert "".join(one["token"] for one in tokens) == last["answer"] == "Order 17 was refunded."
    assert {one["id"] for one in tokens} == {last["id"]}
    assert (last["name"], last["ending"] in ("goal", "finished")) == ("react", True)
    assert [one["type"] for one in found["kept"]] == TURN
