"""`certigraph init`: the application that it writes, alone and under `langgraph dev`."""

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from helpers.processes.children import child_path
from helpers.servers.dev_server import assistant, json_of, new_thread, run_to_end, serving
from helpers.servers.scripted_endpoint import ScriptedEndpoint, scripted_endpoint

from certigraph import cli
from certigraph.cli import applications

GOAL = "Refund order 17 if it is eligible and tell the customer by mail."
SCRIPT: list[tuple[str, dict[str, Any]]] = [
    ("look_up_order", {"number": 17}),
    ("refund_order", {"number": 17, "amount": 49.9}),
    ("send_mail", {"address": "ann@example.org", "body": "Order 17 was refunded."}),
]
FILES = {"tools.py", "agent.py", "run.py", "scripted_model.py", "langgraph.json", ".env.example", "README.md"}

Init = Callable[[Path], tuple[int, str, str]]


@pytest.fixture
def init(capsys: pytest.CaptureFixture[str]) -> Init:
    def call(folder: Path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            cli.main(["init", str(folder)])
        return int(stop.value.code or 0), *capsys.readouterr()

    return call


@pytest.fixture
def application(init: Init, tmp_path: Path) -> Path:
    assert init(tmp_path / "application")[0] == 0
    return tmp_path / "application"


@pytest.fixture
def endpoint() -> Iterator[ScriptedEndpoint]:
    with scripted_endpoint("Order 17 is refunded and the customer knows.", SCRIPT, "Order 17 was refunded.") as server:
        yield server


def rows(application: Path, table: str) -> list[Any]:
    with sqlite3.connect(application / "shop.sqlite") as database:
        return database.execute(f"SELECT * FROM {table}").fetchall()


def run_python(application: Path, code: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=application,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": child_path(), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_files_are_written_and_named(init: Init, tmp_path: Path):
    status, out, err = init(tmp_path / "deep" / "application")
    assert (status, err) == (0, "")
    assert {file.name for file in (tmp_path / "deep" / "application").iterdir()} == FILES
    assert all(str(tmp_path / "deep" / "application" / name) in out for name in FILES)


@pytest.mark.parametrize("missing", [False, True])
def test_the_package_of_langgraph_dev_is_named_if_it_is_missing(
    missing: bool, init: Init, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(applications, "find_spec", lambda name: None if missing else sys.__spec__)
    _, out, _ = init(tmp_path)
    assert ("pip install 'certigraph[studio]'" in out) is missing


@pytest.mark.parametrize("name", sorted(FILES))
def test_nothing_is_overwritten_and_nothing_is_half_written(name: str, init: Init, tmp_path: Path):
    (tmp_path / name).write_text("mine")
    status, out, err = init(tmp_path)
    assert (status, out) == (2, "")
    assert str(tmp_path / name) in err
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


def test_a_file_in_place_of_the_folder_is_an_error(init: Init, tmp_path: Path):
    (tmp_path / "application").write_text("mine")
    status, _, err = init(tmp_path / "application")
    assert status == 2
    assert "application" in err


def test_other_files_of_the_folder_stay(init: Init, tmp_path: Path):
    (tmp_path / "notes.txt").write_text("mine")
    assert init(tmp_path)[0] == 0
    assert {file.name for file in tmp_path.iterdir()} == {*FILES, "notes.txt"}


def test_langgraphs_own_validation_accepts_the_configuration(application: Path):
    config = pytest.importorskip("langgraph_cli.config", reason="needs the extra studio")
    checked = config.validate_config_file(application / "langgraph.json")
    assert set(checked["graphs"]) == {"support"}
    assert checked["graphs"]["support"]["description"]


@pytest.mark.long
@pytest.mark.slow
def test_the_code_is_clean_by_the_projects_own_rules(application: Path):
    root = Path(__file__).parent.parent.parent
    options = ["--isolated", "--line-length", "120", "--select", "E,F,I,B,UP,SIM,RUF,PL,N,ANN,D1,PTH"]
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", *options, "."],
        cwd=application,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=", "run.py"]
    environment = {**os.environ, "MYPYPATH": str(root / "src")}
    done = subprocess.run(command, cwd=application, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


DRIVER = """
import json, sys
from agent import graph
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
graph.checkpointer = InMemorySaver()
config = {"configurable": {"thread_id": "1"}}
request, *decisions = sys.argv[1:]
state, waiting = graph.invoke({"messages": [("user", request)]}, config), []
while state.get("__interrupt__"):
    waiting += state["__interrupt__"][0].value["action_requests"]
    state = graph.invoke(Command(resume={"decisions": [{"type": decisions.pop(0)}]}), config)
print(json.dumps([waiting, state["ending"], state["messages"][-1].text, len(state["certificates"])]))
"""
"""Program that sends the agent the request in its first argument; the others are the decisions of a person."""


def drive(application: Path, *arguments: str, **variables: str) -> tuple[list[Any], str]:
    """Run the agent, and return the calls that waited for approval, ending, answer and certificates; and the errors."""
    done = run_python(application, DRIVER, *arguments, **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.mark.slow
def test_without_a_model_a_script_serves_its_request_and_says_so(application: Path):
    (waiting, ending, answer, certificates), errors = drive(application, GOAL, "approve", AGENT_MODEL="")
    assert [GOAL in line for line in errors.splitlines() if "AGENT_MODEL" in line] == [True]
    assert "agent.py" not in errors  # the line is not a warning with its place and its source
    assert [(one["name"], one["args"]) for one in waiting] == [SCRIPT[1]]
    assert (ending, certificates) == ("goal", 2) and "17" in answer
    assert rows(application, "refunds") == [(17, 49.9)] and len(rows(application, "mails")) == 1
    (waiting, ending, _, _), _ = drive(application, GOAL)  # the rules allow one refund
    assert (waiting, ending) == ([], "gave_up")
    assert rows(application, "refunds") == [(17, 49.9)]


@pytest.mark.slow
def test_it_runs_in_the_terminal_and_asks_for_approval(application: Path):
    def run(reply: str) -> str:
        command = [sys.executable, "run.py"]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": child_path()}
        return subprocess.run(
            command, cwd=application, env=environment, input=reply, capture_output=True, text=True, check=True
        ).stdout

    rejected = run("not today\n")
    assert "refund_order(number=17, amount=49.9)" in rejected and "gave_up" in rejected
    assert rows(application, "refunds") == []
    done = run("y\n")
    assert "goal: Order 17 is refunded" in done
    assert "certified by code: Order 17 is refunded.\n" in done
    assert "certified by model (quotes): The customer knows it.; the goal\n" in done
    assert rows(application, "refunds") == [(17, 49.9)]


@pytest.mark.slow
def test_the_script_gives_up_after_a_rejected_refund_and_on_other_requests(application: Path):
    (waiting, ending, answer, _), _ = drive(application, GOAL, "reject")
    assert (len(waiting), ending) == (1, "gave_up") and "rejected" in answer
    (waiting, ending, answer, certificates), _ = drive(application, "Where is order 18?")
    assert (waiting, ending, certificates) == ([], "gave_up", 0)
    assert GOAL in answer
    assert rows(application, "refunds") == rows(application, "mails") == []


@pytest.mark.slow
def test_the_agent_runs_with_the_model_that_the_variable_names(application: Path, endpoint: ScriptedEndpoint):
    variables = {"AGENT_MODEL": "openai:stub", "CERTIGRAPH_BASE_URL": endpoint.url, "OPENAI_API_KEY": "none"}
    (waiting, ending, answer, certificates), errors = drive(application, GOAL, "approve", **variables)
    assert "AGENT_MODEL" not in errors
    assert [(one["name"], one["args"]) for one in waiting] == [SCRIPT[1]]
    assert (ending, answer, certificates) == ("goal", "Order 17 was refunded.", 1)
    assert rows(application, "refunds") == [(17, 49.9)]
    assert rows(application, "mails") == [("ann@example.org", "Order 17 was refunded.")]
    assert {request["model"] for request in endpoint.requests} == {"stub"}


@pytest.mark.slow
def test_a_model_without_its_key_is_one_line(application: Path):
    done = run_python(application, "import runpy; runpy.run_path('run.py')", AGENT_MODEL="openai:gpt-4o-mini")
    assert done.returncode == 1 and "export OPENAI_API_KEY=" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_the_printed_commands_run_it_with_the_model_that_the_file_names(
    init: Init, tmp_path: Path, endpoint: ScriptedEndpoint
):
    printed = init(tmp_path)[1]
    copy, run = re.findall(r"(?<=: )(cp [^,]*|set -a.*)", printed)
    shell(copy, tmp_path)
    with (tmp_path / ".env").open("a", encoding="utf-8") as file:
        file.write(f"AGENT_MODEL=openai:stub\nCERTIGRAPH_BASE_URL={endpoint.url}\nOPENAI_API_KEY=none\n")
    done = shell(run, tmp_path, "y\n")
    assert "goal: Order 17 was refunded." in done.stdout and "AGENT_MODEL" not in done.stderr
    assert {request["model"] for request in endpoint.requests} == {"stub"}


def shell(command: str, folder: Path, typed: str = "") -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {"PATH": path, "PYTHONPATH": child_path()}
    return subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environment, input=typed, capture_output=True, text=True, check=True
    )


@pytest.mark.slow
def test_the_dev_server_serves_it_with_approval(application: Path, endpoint: ScriptedEndpoint):
    text = (application / ".env.example").read_text(encoding="utf-8")
    filled = text.replace("AGENT_MODEL=", "AGENT_MODEL=openai:stub")
    (application / ".env").write_text(f"{filled}\nCERTIGRAPH_BASE_URL={endpoint.url}\nOPENAI_API_KEY=none\n")
    with serving(application, {}) as server:
        served(server, application, "Order 17 was refunded.")


def served(server: httpx.Client, application: Path, answer: str) -> None:
    assert assistant(server, "support")["description"]
    thread = new_thread(server)
    run_to_end(server, thread, assistant_id="support", input={"messages": [{"role": "user", "content": GOAL}]})
    (waiting,) = json_of(server.get(f"/threads/{thread}/state"))["interrupts"]
    assert waiting["value"]["action_requests"][0]["name"] == "refund_order"
    assert rows(application, "refunds") == []
    decision = {"resume": {"decisions": [{"type": "approve"}]}}
    final = run_to_end(server, thread, assistant_id="support", command=decision)
    assert final["messages"][-1]["content"] == answer
    assert rows(application, "refunds") == [(17, 49.9)]
