"""`certigraph init`: the application that it writes, alone and under `langgraph dev`."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from children import child_path
from dev_server import assistant, got, new_thread, run_to_end, serving
from scripted_endpoint import ScriptedEndpoint, scripted_endpoint

from certigraph import cli

GOAL = "Refund order 17 if it is eligible and tell the customer by mail."
SCRIPT: list[tuple[str, dict[str, Any]]] = [
    ("look_up_order", {"number": 17}),
    ("refund_order", {"number": 17, "amount": 49.9}),
    ("send_mail", {"address": "ann@example.org", "body": "Order 17 was refunded."}),
]
FILES = {"tools.py", "agent.py", "langgraph.json", ".env.example", "README.md"}

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


def run_python(application: Path, code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
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
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=", "agent.py"]
    environment = {**os.environ, "MYPYPATH": str(root / "src")}
    done = subprocess.run(command, cwd=application, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_without_a_model_the_message_names_the_variable(application: Path):
    for variables in ({}, {"AGENT_MODEL": ""}):
        done = run_python(application, "import agent", **variables)
        assert done.returncode == 1
        assert "AGENT_MODEL" in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_the_agent_runs_with_the_model_that_the_variable_names(application: Path, endpoint: ScriptedEndpoint):
    code = f"""
import json
from agent import graph
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
graph.checkpointer = InMemorySaver()
config = {{"configurable": {{"thread_id": "1"}}}}
paused = graph.invoke({{"messages": [("user", {GOAL!r})]}}, config)
waiting = paused["__interrupt__"][0].value["action_requests"]
final = graph.invoke(Command(resume={{"decisions": [{{"type": "approve"}}]}}), config)
print(json.dumps([waiting, final["ending"], final["messages"][-1].text, len(final["certificates"])]))
"""
    variables = {"AGENT_MODEL": "openai:stub", "CERTIGRAPH_BASE_URL": endpoint.url, "OPENAI_API_KEY": "none"}
    done = run_python(application, code, **variables)
    assert done.returncode == 0, done.stderr
    waiting, ending, answer, certificates = json.loads(done.stdout.splitlines()[-1])
    assert [(one["name"], one["args"]) for one in waiting] == [SCRIPT[1]]
    assert (ending, answer, certificates) == ("goal", "Order 17 was refunded.", 2)
    assert rows(application, "refunds") == [(17, 49.9)]
    assert rows(application, "mails") == [("ann@example.org", "Order 17 was refunded.")]
    assert {request["model"] for request in endpoint.requests} == {"stub"}


@pytest.mark.slow
def test_the_dev_server_serves_it_with_approval(application: Path, endpoint: ScriptedEndpoint):
    text = (application / ".env.example").read_text(encoding="utf-8")
    filled = text.replace("AGENT_MODEL=", "AGENT_MODEL=openai:stub")
    (application / ".env").write_text(f"{filled}\nCERTIGRAPH_BASE_URL={endpoint.url}\nOPENAI_API_KEY=none\n")
    with serving(application, {}) as server:
        served(server, application)


def served(server: httpx.Client, application: Path) -> None:
    assert assistant(server, "support")["description"]
    thread = new_thread(server)
    run_to_end(server, thread, assistant_id="support", input={"messages": [{"role": "user", "content": GOAL}]})
    (waiting,) = got(server.get(f"/threads/{thread}/state"))["interrupts"]
    assert waiting["value"]["action_requests"][0]["name"] == "refund_order"
    assert rows(application, "refunds") == []
    decision = {"resume": {"decisions": [{"type": "approve"}]}}
    final = run_to_end(server, thread, assistant_id="support", command=decision)
    assert final["messages"][-1]["content"] == "Order 17 was refunded."
    assert rows(application, "refunds") == [(17, 49.9)]


@pytest.mark.slow
def test_the_dev_server_says_that_no_model_is_set(application: Path):
    (application / ".env").write_text((application / ".env.example").read_text(encoding="utf-8"))
    with pytest.raises(AssertionError, match="AGENT_MODEL is not set"), serving(application, {}):
        pass
