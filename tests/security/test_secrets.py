"""Threat 7, secrets in files: a key that errors, models or worlds tell is in nothing that is written."""

import json
import shutil
import time
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from helpers.files.installed_package import INSTALLED
from helpers.files.leaks import SENTINEL, leaks, written_forms
from helpers.models.filled_forms import fill_form
from helpers.worlds.scripted_benchmark import Script
from helpers.worlds.study_world import Riddles
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from certigraph.adapters.models.exchanges import Exchange, use_exchange_log
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.models.usage import Call, Meter
from certigraph.adapters.protocols import Budget, Context, Limits
from certigraph.adapters.redaction import ADDRESS_VARIABLES, KEY_VARIABLES, MASK, redact, redact_record
from certigraph.runtime.recorder import PromptRecorder
from certigraph.runtime.report import write_report
from certigraph.runtime.run import resume, run
from certigraph.state.records import Observation

PASSWORD = "pw-Xy7+Qr9Tb2Lm4"
SECRET_TEXT = (
    f"{SENTINEL} {quote(SENTINEL, safe='')} {b64encode(b'x' + SENTINEL.encode()).decode()} {SENTINEL.encode().hex()}"
)


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEY_VARIABLES:
        monkeypatch.setenv(name, f"{name.lower()}-0123456789")
    monkeypatch.setenv("OPENAI_API_KEY", SENTINEL)
    for name in ADDRESS_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def telling(prompt: str, schema: dict[str, Any]) -> Any:
    return fill_form(schema, SECRET_TEXT)


SMALL = Limits(steps=6, trials=2, attempts=2, replans=1, passages=2)


def context() -> Context:
    return Context(chat=ScriptedChat(responder=telling), limits=SMALL, budget=Budget(calls=25))


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["sdp", "step", "tdp", "clin", "reflexion", "plan_and_solve", "react"])
def test_what_models_and_worlds_say_is_written_without_keys(graph: str, tmp_path: Path):
    benchmark: Any = "blocksworld" if graph == "sdp" else Script(echo=SECRET_TEXT, limits=SMALL)
    result = run(graph, benchmark, context=context(), out=tmp_path, keep_prompts=True)
    page = write_report(result.trajectory, result.folder / "report.html").read_text()
    assert MASK in (result.folder / "trajectory.jsonl").read_text()
    assert MASK in (result.folder / "prompts.jsonl").read_text() and "Prompt and reply" in page
    assert leaks(tmp_path) == []


def test_prompts_of_the_users_own_nodes_are_kept_without_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(INSTALLED)
    from ownagents.graphs import chatting

    chat = GenericFakeChatModel(messages=iter([AIMessage(SECRET_TEXT)]))
    result = run(chatting(chat, 1), Riddles(), "found", out=tmp_path / "runs", keep_prompts=True)
    page = write_report(result.trajectory, result.folder / "report.html").read_text()
    assert MASK in (result.folder / "prompts.jsonl").read_text() and "Prompt and reply" in page
    (tmp_path / "shared").mkdir()  # checkpoints hold the state of the user's own graph as it is
    for name in ("trajectory.jsonl", "prompts.jsonl", "report.html"):
        shutil.copy(result.folder / name, tmp_path / "shared")
    assert leaks(tmp_path / "shared") == []


def test_messages_parameters_and_failures_are_kept_without_keys(tmp_path: Path):
    recorder = PromptRecorder(tmp_path / "prompts.jsonl")
    schema = {"properties": {"role": {"enum": [SECRET_TEXT]}, SECRET_TEXT: {"type": "string"}}}
    exchange = Exchange(
        [SystemMessage(SECRET_TEXT), HumanMessage([{"type": "text", "text": SECRET_TEXT}])],
        {"schema": schema},
        SECRET_TEXT,
    )
    with use_exchange_log(recorder.keep):
        Meter("x", Budget()).charge(Call(role="", model="m", schema_name="", failure=SECRET_TEXT), exchange)
    assert (tmp_path / "prompts.jsonl").read_text().count(MASK) >= 6
    assert leaks(tmp_path) == []


@pytest.mark.slow
def test_checkpoints_of_a_run_that_can_go_on_hold_no_key_that_the_world_showed(tmp_path: Path):
    script: Any = Script(plan=6, echo=SECRET_TEXT)
    stopped = run("sdp", script, context=Context(budget=Budget(calls=0), limits=Limits(steps=2)), out=tmp_path)
    assert stopped.ending == "limit:steps"
    assert (stopped.folder / "checkpoints.sqlite").is_file()
    assert leaks(tmp_path) == []
    assert resume(stopped.folder, benchmark=script, limits=Limits(steps=60)).ending == "goal"
    assert leaks(tmp_path) == []


def test_a_key_in_the_question_itself_is_kept_nowhere(tmp_path: Path):
    script: Any = Script(plan=6)
    task = script.task("only").model_copy(update={"goal": f"ask with {SENTINEL}", "constants": {"note": [SENTINEL]}})
    stopped = run("sdp", script, task, context=Context(limits=Limits(steps=2)), out=tmp_path)
    assert (stopped.folder / "checkpoints.sqlite").is_file()
    assert leaks(tmp_path) == []


@pytest.mark.slow
def test_a_key_that_changed_meanwhile_does_not_look_like_a_changed_world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    script: Any = Script(plan=6, echo=SECRET_TEXT)
    stopped = run("sdp", script, context=Context(limits=Limits(steps=2)), out=tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "another-key-0123456789")
    assert resume(stopped.folder, benchmark=script, limits=Limits(steps=60)).ending == "goal"


@pytest.mark.parametrize(
    ("variable", "address"),
    [
        ("CERTIGRAPH_OPENSEARCH_URL", "https://ann:{}@db.example:9200/x"),
        ("CERTIGRAPH_POSTGRES", "postgresql://ann:{}@db.example/x"),
        ("CERTIGRAPH_POSTGRES", "host=db user=ann password={} dbname=x"),
    ],
)
def test_passwords_of_addresses_are_masked_wherever_they_are_repeated(
    variable: str, address: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(variable, address.format(PASSWORD))
    for form in (*written_forms(PASSWORD), b64encode(PASSWORD.encode()).decode()):
        assert form not in redact(f"refused {form}")


def test_every_key_and_every_form_of_it_is_masked():
    for form in written_forms(SENTINEL):
        assert form not in redact(f"before:{form}:after")
    for name in KEY_VARIABLES[1:]:
        assert redact(f"({name.lower()}-0123456789)") == f"({MASK})"


def test_records_without_secrets_are_handed_on_as_they_are():
    plain, secret = Observation(text="a hall"), Observation(text=f"x{SENTINEL}", sources=("a",), data={"k": [SENTINEL]})
    assert redact_record(plain) is plain
    assert redact_record(secret) == Observation(text=f"x{MASK}", sources=("a",), data={"k": [MASK]})


LINES = ("sk-abcdefghijklmnopqrstuvwx", "see https://a.example\nMail:ann@b.example", "a desk-with_wooden_drawers")


@pytest.mark.parametrize(("line", "kept"), [(LINES[0], False), (LINES[1], True), (LINES[2], True)])
def test_where_a_line_ends_changes_nothing_of_what_looks_like_a_key(line: str, kept: bool):
    result = redact_record(Observation(text=f"It says:\n{line}\n")).text
    assert (line in result) is kept
    assert result == redact(f"It says:\n{line}\n")


def test_redacting_keeps_up_with_what_is_written():
    line = json.dumps({"text": "You see a hall, 2 doors and https://news.example/a?b=c. " * 20_000})
    started = time.process_time()
    assert redact(line) == line
    assert time.process_time() - started < 0.25  # more than a megabyte; the usual is 10 ms
