"""The tutorials: every block runs as it stands, with a scripted endpoint in place of OpenAI's.

A Python block that begins with `# NAME.py` is that file; every other one is executed, and `# -> LITERAL` states the
value of a line. A block of commands is run in a shell, and the text block after it is what it prints.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.files.readme_blocks import check_block
from helpers.models.scripted_agents import ScriptedAgent, calls
from helpers.processes.children import child_path
from helpers.servers.scripted_endpoint import Call, ScriptedEndpoint, scripted_endpoint
from helpers.worlds.support_database import GOAL, SupportDatabase, scripted_model
from langgraph.checkpoint.memory import InMemorySaver

import certigraph
from certigraph.cli.applications import write_application
from certigraph.graphs.agent import METHODS, Method

DOCS = Path(__file__).parent.parent / "docs"
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
FILE = re.compile(r"# (\w+\.py)\n")

SCRIPT: list[Call] = [
    ("look_up_order", {"number": 17}),
    ("refund_order", {"number": 17, "amount": 49.9}),
    ("send_mail", {"address": "ann@example.org", "body": "Order 17 was refunded."}),
]
ANSWER = "Order 17 was refunded."
NAMED_MODEL = 'model="openai:gpt-4o-mini"'
KILLED = -9


def blocks(document: str) -> list[tuple[str, str]]:
    return BLOCK.findall((DOCS / document).read_text(encoding="utf-8"))


def files(document: str) -> dict[str, str]:
    found = {FILE.match(text): text for kind, text in blocks(document) if kind == "python"}
    return {match[1]: text for match, text in found.items() if match}


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedEndpoint]:
    """The endpoint, and a folder in which Python finds the document's files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("shop", "support", "run", "script", "shop_server"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with scripted_endpoint("The request is done.", SCRIPT, ANSWER) as server:
        monkeypatch.setenv("CERTIGRAPH_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
        yield server


def run_command(command: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": child_path()}
    return subprocess.run(
        ["bash", "-c", f"exec env {command}"], env=environment, capture_output=True, text=True, check=False
    )


def run_document(document: str, model: str = "") -> None:
    """Run the blocks of a document in their order, with a model of the module `script` if one is named."""
    names: dict[str, Any] = {}
    printed = ""
    for kind, written in blocks(document):
        text = written
        if model and kind == "python" and NAMED_MODEL in text:
            text = text.replace(NAMED_MODEL, f"model={model}")
            text = text.replace("import certigraph", "import certigraph\nimport script")
        if kind == "text":
            assert printed == text
        elif kind == "bash":
            done = run_command(text.strip())
            assert done.returncode == (KILLED if text.startswith("KILL=1 ") else 0), done.stderr
            printed = done.stdout
        elif match := FILE.match(text):
            Path(match[1]).write_text(text, encoding="utf-8")
        else:
            assert check_block(text, names) == text.count("# -> ")


@pytest.mark.long
@pytest.mark.slow
def test_the_tutorial_on_ones_own_tools_runs_as_it_stands(endpoint: ScriptedEndpoint):
    run_document("tutorial-own-tools.md")
    assert {request["model"] for request in endpoint.requests} == {"gpt-4o-mini"}


@pytest.mark.slow
def test_the_tutorial_on_ones_own_tools_runs_without_a_key_by_its_script(
    endpoint: ScriptedEndpoint, monkeypatch: pytest.MonkeyPatch
):
    for name in ("OPENAI_API_KEY", "CERTIGRAPH_BASE_URL"):
        monkeypatch.delenv(name)
    run_document("tutorial-own-tools.md", model="script.model")
    assert endpoint.requests == []


@pytest.mark.slow
def test_the_tutorial_on_mcp_runs_as_it_stands(endpoint: ScriptedEndpoint):
    pytest.importorskip("langchain_mcp_adapters", reason="needs the extra mcp")
    endpoint.script = SCRIPT[:2]
    run_document("tutorial-mcp.md")


@pytest.mark.slow
def test_the_script_on_ones_own_tools_runs_without_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "CERTIGRAPH_BASE_URL", "CERTIGRAPH_DATA"):
        monkeypatch.delenv(name, raising=False)
    for name, text in files("own-tools.md").items():
        Path(name).write_text(text, encoding="utf-8")
    [command, printed, recorded, compared] = [text for kind, text in blocks("own-tools.md") if kind in ("bash", "text")]
    done = run_command(command.strip())
    assert (done.returncode, done.stdout) == (0, printed), done.stderr
    done = run_command(compared.strip())
    assert (done.returncode, "sdp 100.0 of 100 over 1 task; react 0.0, unchecked 0.0" in done.stdout) == (0, True), (
        done.stderr
    )
    assert Path("comparison/comparison.html").exists()
    [compared] = [text for kind, text in blocks("own-tools.md") if kind == "python" and "certigraph.compare(" in text]
    Path("compared.py").write_text(compared, encoding="utf-8")
    done = run_command("python compared.py")
    assert (done.returncode, f"# {done.stdout}") == (0, compared.splitlines(keepends=True)[-1]), done.stderr
    write_application(tmp_path / "support")
    monkeypatch.chdir(tmp_path / "support")
    waiting = run_command(recorded.strip())
    assert (waiting.returncode, "answer with: certigraph resume" in waiting.stdout) == (3, True), waiting.stderr
    assert "report.html" in waiting.stdout


def test_the_executor_of_the_document_runs_by_a_script():
    names: dict[str, Any] = {}
    exec(compile(files("own-tools.md")["refund.py"], "refund.py", "exec"), names)
    [text] = [text for kind, text in blocks("own-tools.md") if kind == "python" and "executor = " in text]
    look_up, refund = (("look_up_order", {"number": 17}), ("refund_order", {"number": 17, "amount": 49.9}))
    names["scripted"] = ScriptedAgent(replies=[calls(look_up), calls(refund, first="d"), "Order 17 is refunded."])
    text = text.replace('create_agent("openai:gpt-4o-mini"', "create_agent(scripted").replace(
        NAMED_MODEL, "model=model"
    )
    assert check_block(text, names) == 2
    assert names["refunded"] == [17]


def requested_fields(method: Method, folder: Path) -> set[tuple[str, ...]]:
    """Run an agent by a script, and return the fields of each form of answer that was requested."""
    script, requested = scripted_model().responder, set()

    def respond(prompt: str, schema: dict[str, Any]) -> Any:
        requested.add(tuple(schema["properties"]))
        return script(prompt, schema)

    database = SupportDatabase(folder / "desk.sqlite")
    model = certigraph.ScriptedChat(responder=respond)
    graph = certigraph.agent(method, model=model, tools=database.tools, checkpointer=InMemorySaver())
    graph.invoke({"goal": GOAL}, {"configurable": {"thread_id": "1"}})
    return requested


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_the_fields_that_a_script_is_asked_for_are_listed(method: Method, tmp_path: Path):
    text = (DOCS / "own-tools.md").read_text(encoding="utf-8")
    lines = text.partition("| fields | what is asked | methods |\n")[2].partition("\n\n")[0].splitlines()[1:]
    rows = [[part.strip() for part in line.strip("|").split("|")] for line in lines]
    listed = {
        tuple(re.findall(r"`(\w+)`", re.sub(r": of each.*", "", fields)))
        for fields, _, methods in rows
        if methods == "all" or f"`{method}`" in methods
    }
    found = requested_fields(method, tmp_path)
    assert found <= listed


CALL_AGENT = """
thread = {"configurable": {"thread_id": "1"}}
state = graph.invoke({"messages": [("user", "Refund order 17 if it is eligible and write to the customer.")]}, thread)
"""


def code_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "ending"), [("sdp", "goal"), ("tdp", "finished"), ("step", "finished"), ("react", "finished")]
)
def test_the_agent_of_the_tutorial_takes_at_most_fifteen_lines_with_every_method(
    method: str, ending: str, endpoint: ScriptedEndpoint, tmp_path: Path
):
    from langgraph.types import Command

    written = files("tutorial-own-tools.md")
    program = written["support.py"].replace('"sdp"', f'"{method}"') + CALL_AGENT
    assert len(code_lines(program)) <= 15
    (tmp_path / "shop.py").write_text(written["shop.py"], encoding="utf-8")
    names: dict[str, Any] = {}
    exec(compile(program, "support.py", "exec"), names)
    graph, thread, state = names["graph"], names["thread"], names["state"]
    (question,) = state["__interrupt__"]
    assert question.value["action_requests"][0]["name"] == "refund_order"
    from shop import effects  # type: ignore[import-not-found]

    assert effects() == {"refunds": 0, "mails": 0}
    final = graph.invoke(Command(resume={"decisions": [{"type": "approve"}]}), thread)
    assert (final["ending"], final["messages"][-1].text) == (ending, ANSWER)
    assert bool(final["certificates"]) is (method == "sdp")
    assert effects() == {"refunds": 1, "mails": 1}


@pytest.mark.slow
def test_agents_with_middleware_are_recorded_and_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("refund", "desk", "agents", "script"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name, text in {**files("own-tools.md"), **files("middleware.md")}.items():
        scripted = text.replace('create_agent("openai:gpt-4o-mini"', "create_agent(script.agent").replace(
            "Certified()", "Certified(model=script.judge)"
        )
        Path(name).write_text(f"import script\n{scripted}" if name == "agents.py" else text, encoding="utf-8")
    Path("script.py").write_text(REFUND_SCRIPT, encoding="utf-8")
    [written] = [text for kind, text in blocks("middleware.md") if "certigraph.compare(" in text]
    names: dict[str, Any] = {}
    exec(written.replace("openai:gpt-4o-mini", "scripted:expert"), names)
    assert names["result"].ending == "goal"
    assert [(one.tool, one.check.outcome) for one in names["result"].effects] == [("refund_order", "allowed")]
    scores = {one.method: (one.score, one.endings) for one in names["found"].comparison.methods}
    assert scores["bare"] == (100, {"finished": 1}) and scores["checked"] == (100, {"goal": 1})
    assert {"react", "sdp"} < scores.keys()


REFUND_SCRIPT = """
import certigraph
from helpers.worlds.compared_desk import ShopAgent
from refund import respond

def choose(seen):
    call = respond(seen, {"properties": {"calls": "'look_up_order' 'refund_order' 'finish'"}})["calls"][0]
    return call["name"], call["args"]

agent, judge = ShopAgent(choose=choose), certigraph.ScriptedChat(responder=respond)
"""
