"""Threat 7: an address is shown as scheme, host and port alone, and a key that is an ordinary word spoils no record."""

import json
import logging
import random
import string
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from helpers.files.leaks import leaks
from helpers.servers.endpoint_stub import stub
from helpers.worlds.scripted_benchmark import Script
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from certigraph.adapters import redaction
from certigraph.adapters.models.endpoint import format_endpoint_error
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Budget, Context, Limits
from certigraph.adapters.redaction import (
    ADDRESS_VARIABLES,
    KEY_VARIABLES,
    MASK,
    mask_logs,
    redact,
    redact_message,
    redact_record,
    remember_address,
    show_address,
)
from certigraph.adapters.trajectories import read_trajectory
from certigraph.graphs import sdp
from certigraph.graphs.catalogue import OPERATORS
from certigraph.nodes.slots import factory
from certigraph.runtime.registry import GRAPHS
from certigraph.runtime.report import write_report
from certigraph.runtime.run import resume, run
from certigraph.state.endings import Fault
from certigraph.state.records import Observation, Record, Task, Usage
from certigraph.state.trajectory import Event

TOKEN = "tok3n-Zx81Qw72Rt63"


@pytest.fixture(autouse=True)
def no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*KEY_VARIABLES, *ADDRESS_VARIABLES):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://host:8080/v1?api-key=SECRET", "http://host:8080"),
        ("http://TOKEN@host/v1", "http://host"),
        ("https://ann:pw@[::1]:9200/x#y", "https://[::1]:9200"),
        ("postgresql://ann:pw@db.example/x", "postgresql://db.example"),
        ("s3://id:key@bucket/runs", "s3://bucket"),
        ("10.0.0.1:6379", "10.0.0.1:6379"),
        ("http://[bad", "an address that cannot be read"),
    ],
)
def test_an_address_is_shown_as_scheme_host_and_port(address: str, shown: str):
    assert show_address(address) == shown


FORMS = {
    "query": "{}/v1?api-key={secret}",
    "several": "{}/v1?version=2024-02-01&sig={secret}",
    "user": "{user}/v1",
    "path": "{}/{secret}/v1",
}


def address_with(form: str, url: str, secret: str) -> str:
    parts = urlsplit(url)
    bare = f"{parts.scheme}://{parts.netloc}"
    return FORMS[form].format(bare, secret=secret, user=f"{parts.scheme}://{secret}@{parts.netloc}")


@pytest.mark.slow
@pytest.mark.parametrize("status", [200, 401, 404])
@pytest.mark.parametrize("form", FORMS)
def test_a_run_at_an_address_with_a_token_leaves_the_token_nowhere(
    form: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    outcome = json.dumps(
        {"choice": TOKEN, "text": f"at {TOKEN}", "conditions": [TOKEN], "error": f"no /{TOKEN}/v1 here"}
    )
    with stub(outcome, status=status) as server:
        monkeypatch.setenv("CERTIGRAPH_BASE_URL", address_with(form, server.url, TOKEN))
        heard: list[Any] = []
        context = Context(model="openai:stubbed", budget=Budget(calls=4))
        result = run("sdp", "blocksworld", "3-0", context=context, out=tmp_path, listener=heard.append)
        write_report(result.trajectory, result.folder / "report.html")
    assert server.requests and result.ending != "goal"
    assert leaks(tmp_path, TOKEN) == []
    assert TOKEN not in str(heard) + result.message


@pytest.mark.parametrize("name", ["httpx", "httpcore.connection", "openai._base_client"])
def test_what_a_client_logs_has_no_token(name, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setenv("CERTIGRAPH_BASE_URL", address := f"http://127.0.0.1:9/{TOKEN}/v1")
    mask_logs()
    logging.getLogger(name).error("HTTP Request: %s %s", "POST", address)
    assert caplog.messages == [f"HTTP Request: POST http://127.0.0.1:9{MASK}/v1"]


def test_an_endpoint_that_is_down_is_named_without_its_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CERTIGRAPH_BASE_URL", "http://SECRETWORD@127.0.0.1:9/v1?api-key=SECRETWORD")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = run(
            "sdp", "blocksworld", "3-0", context=Context(model="openai:m", budget=Budget(calls=1)), out=tmp_path
        )
    assert "http://127.0.0.1:9 failed" in result.message or result.ending == "limit:calls"
    assert leaks(tmp_path, "SECRETWORD", "api-key") == []


class Refused(Exception):
    status_code = 401


@pytest.mark.parametrize("key", ["k3y-9xZ", "q1w2", "blocksworld", "1234567", "hunter-two"])
def test_a_short_or_ordinary_key_that_an_endpoint_repeats_is_not_in_its_error(key, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = format_endpoint_error(Refused(f"Incorrect API key provided: {key}. Or '{key}'."), ScriptedChat())
        assert key not in text and text.count(MASK) == 2
        assert redact_message(f"x{key}y") == f"x{key}y"  # a part of another word


@pytest.mark.parametrize("key", ["k3y-9xZ", "q1w2"])
def test_a_short_key_that_is_not_a_word_is_masked_wherever_it_stands_alone(key, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    assert redact(f'{{"a": "{key}", "b": "x\\n{key}"}}') == f'{{"a": "{MASK}", "b": "x\\n{MASK}"}}'
    assert redact_record(Observation(text=f"line\n{key}, x{key}")).text == f"line\n{MASK}, x{key}"


@pytest.mark.parametrize("key", ["none", "EMPTY", "not-needed", "abc", ""])
def test_placeholders_are_not_secrets(key, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with warnings.catch_warnings():
        warnings.simplefilter("error" if key != "abc" else "ignore")
        assert redact_message(f"it has {key} here") == f"it has {key} here"


def test_an_ordinary_key_is_warned_about_once_a_process_without_being_shown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "marmalade")
    redaction._warn_ordinary.cache_clear()  # other tests of this process have warned about it
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert [redact("marmalade"), redact_message("marmalade")] == ["marmalade", MASK]
        remember_address("https://other.example:8443/v1")
        assert redact_message("marmalade") == MASK
    # Garbage of other tests may warn of open files meanwhile: only warnings for users are counted.
    (message,) = (str(warning.message) for warning in warned if issubclass(warning.category, UserWarning))
    assert "OPENAI_API_KEY" in message and "marmalade" not in message


@pytest.mark.parametrize(
    "address", ["http://host/v1", "http://host/api/v1/", "https://host/openai/v1beta", "http://h/serving-endpoints"]
)
def test_usual_paths_are_not_masked(address: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CERTIGRAPH_BASE_URL", address)
    text = f"POST {address} v1 /v1 /api openai 2024-02-01"
    assert redact_message(text) == text


def test_a_password_in_an_address_that_was_given_by_hand_is_masked():
    remember_address("s3://AKIA77EXAMPLE42:wJalrXUtnFEMI7@bucket/runs")
    assert redact("denied for AKIA77EXAMPLE42 wJalrXUtnFEMI7") == f"denied for {MASK} {MASK}"


SMALL = Limits(steps=8, trials=1, attempts=2, replans=1)


def result_of(out: Path) -> tuple[Any, ...]:
    """What a run came to, its secrets aside: ending, scores, and the updates of every event."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = run("sdp", "blocksworld", "3-0", context=Context(limits=SMALL), out=out)
        trajectory = read_trajectory(found.folder)
        write_report(trajectory, found.folder / "report.html")
    updates = [(event.node, {**(event.update or {}), "episode": ""}) for event in trajectory.events]
    return found.ending, trajectory.footer and trajectory.footer.scores, trajectory.header.task, updates


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    return result_of(tmp_path_factory.mktemp("plain"))


def names_in(value: Any) -> Iterator[str]:
    """Keys and one-word values of JSON."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield key
            yield from names_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from names_in(part)
    elif isinstance(value, str) and " " not in value:
        yield value


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = run("sdp", "blocksworld", "3-0", out=tmp_path_factory.mktemp("names")).folder
    lines = map(json.loads, (folder / "trajectory.jsonl").read_text().splitlines())
    return sorted({name for line in lines for name in names_in(line) if name} - {folder.name})


@pytest.mark.slow  # a run each
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_key_that_is_a_name_in_the_trajectory_changes_nothing(data, plain, names, tmp_path_factory, monkeypatch):
    always = ["blocksworld", "validate", "superstep", "goal", "certificates", "header", "scripted", "text"]
    monkeypatch.setenv("OPENAI_API_KEY", data.draw(st.sampled_from([*always, *names])))
    assert result_of(tmp_path_factory.mktemp("run")) == plain


@pytest.mark.parametrize("seed", range(12))
def test_a_random_secret_is_in_no_file_wherever_it_came_from(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    drawn = random.Random(seed)
    letters = string.ascii_letters + string.digits + "+/=_-.~!\"\\&<'"
    secret = "a1" + "".join(drawn.choices(letters, k=drawn.randint(8, 40)))
    where = drawn.choice(["key", "user", "query"])
    if where == "key":
        monkeypatch.setenv("OPENAI_API_KEY", secret)
    else:
        part = quote(secret, safe="")
        shape = f"http://{part}@127.0.0.1:9/v1" if where == "user" else f"http://127.0.0.1:9/v1?k={part}"
        monkeypatch.setenv("CERTIGRAPH_BASE_URL", shape)
    script: Any = Script(plan=3, echo=f"see {secret} {json.dumps(secret)} {secret.encode().hex()}")
    task = script.task("only").model_copy(
        update={"goal": f"reach p3 {secret}", "constants": {"a": [secret], secret: 1}}
    )
    result = run("sdp", script, task, context=Context(limits=SMALL), out=tmp_path)
    write_report(read_trajectory(result.folder), result.folder / "report.html")
    assert leaks(tmp_path, secret) == []


def all_records(kind: type[Record] = Record) -> Iterator[type[Record]]:
    for one in kind.__subclasses__():
        yield one
        yield from all_records(one)


@pytest.mark.slow
def test_no_name_of_certigraph_is_masked(monkeypatch: pytest.MonkeyPatch):
    fields = {name for record in all_records() for name in record.model_fields}
    for name in {*fields, *GRAPHS, *OPERATORS}:
        monkeypatch.setenv("OPENAI_API_KEY", name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            update = {name: {name: 1, "kind": name, "digest": name}}
            event = Event(t=0, superstep=0, node=name, usage=Usage(node=name), update=update, replaced=[name])
            assert redact_record(event) == event, name


def test_names_of_a_record_are_kept_and_its_texts_masked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", key := "task-7f3k9")
    task = Task(benchmark=key, id=key, goal=f"do {key}", constants={key: {key: [key]}, "n": 1})
    kept = Task(benchmark=key, id=key, goal=f"do {MASK}", constants={MASK: {MASK: [MASK]}, "n": 1})
    assert redact_record(task) == kept


def test_two_keys_that_become_the_same_are_both_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", key := "task-7f3k9")
    seen = redact_record(Observation(text="", data={key: 1, MASK: 2}))
    assert sorted(seen.data.values()) == [1, 2]


@factory
def replan_with(*, key: str) -> Any:
    """A Replan that is given a secret."""

    async def replan(state: Any, runtime: Any) -> dict[str, Any]:
        return {"plan": []}

    return replan


def test_a_secret_of_an_operator_or_a_setting_is_in_no_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", TOKEN)
    context = Context(memory=f"m-{TOKEN}", budget=Budget(calls=2))
    result = run(sdp.build(replan=replan_with(key=TOKEN)), "blocksworld", "4-0", context=context, out=tmp_path)
    assert TOKEN not in (result.folder / "trajectory.jsonl").read_text()
    assert result.trajectory.header.operators["propose"] == {"name": "propose", "args": {}}
    with pytest.raises(Fault, match="the operator in replan was given a secret"):
        resume(result.folder)


class Foreign(BaseModel):
    """What another library makes of an answer."""

    type: str
    id: str
    model: str
    parts: list[dict[str, str]]


def test_records_of_other_libraries_are_masked_but_for_their_tags(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", TOKEN)
    answer = Foreign(type="reply", id=f"x-{TOKEN}", model=TOKEN, parts=[{"id": TOKEN}])
    assert redact_record(answer) == Foreign(type="reply", id=f"x-{MASK}", model=MASK, parts=[{"id": MASK}])
