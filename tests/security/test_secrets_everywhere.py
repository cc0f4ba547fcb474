"""Threat 7 through the commands: an endpoint that repeats key and path leaves them in no file of any of them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.files.leaks import SENTINEL, leaks
from helpers.servers.endpoint_stub import stub

from certigraph import cli

pytestmark = pytest.mark.slow  # commands over runs, inspect's evaluation among them

TOKEN = "tok3n-Zx81Qw72Rt63"
SECRET_TEXT = f"the key is {SENTINEL} at /{TOKEN}/v1"
SAYS = json.dumps(
    {
        "choice": SECRET_TEXT,
        "text": SECRET_TEXT,
        "thought": SECRET_TEXT,
        "conditions": [SECRET_TEXT],
        "steps": [SECRET_TEXT],
        "score": 1,
    }
)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENAI_API_KEY", SENTINEL)
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    monkeypatch.setenv("CERTIGRAPH_WEB_CACHE", str(tmp_path / "web"))
    monkeypatch.setenv("INSPECT_LOG_DIR", str(tmp_path / "logs"))
    monkeypatch.setenv("INSPECT_TRACE_FILE", str(tmp_path / "trace.log"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(params=[200, 401], ids=["says", "refuses"])
def endpoint(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """One that repeats the key in its answers, or in its errors."""
    with stub(SAYS, status=request.param) as server:
        monkeypatch.setenv("CERTIGRAPH_BASE_URL", server.url.replace("/v1", f"/{TOKEN}/v1"))
        yield server


def certigraph(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main(list(arguments))
    return int(stop.value.code or 0)


MODEL_OPTIONS = ("--model", "openai:stubbed", "--budget", "calls=6")


def test_no_command_leaves_a_key_in_a_file(here: Path, endpoint: Any, capsys: pytest.CaptureFixture[str]):
    for graph in ("sdp", "react"):
        certigraph("run", graph, "blocksworld", "--task", "3-0", *MODEL_OPTIONS, "--cache", "cache")
    certigraph("ask", "How old is the tower?", "--search", "generated", *MODEL_OPTIONS)
    for folder in (here / "runs").iterdir():
        certigraph("resume", str(folder), "--budget", "calls=9")
        certigraph("report", str(folder))
    certigraph("compare", "sdp", "react", "--limit", "2", *MODEL_OPTIONS, "--out", "compared")
    certigraph("ablate", "sdp", "blocksworld", "--limit", "1", *MODEL_OPTIONS, "--out", "ablated")
    certigraph("anatomy", "compared", "--out", "anatomy")
    for form in ("atif", "inspect", "parquet"):
        certigraph("export", "runs", "compared", "--to", form, "--out", f"exported-{form}")
    certigraph("run", "react", "musique", *MODEL_OPTIONS)
    certigraph("judge", "runs", "--rubric", "cgdp", *MODEL_OPTIONS)
    assert endpoint.requests
    assert leaks(here, SENTINEL, TOKEN) == []
    captured = capsys.readouterr()
    assert SENTINEL not in captured.out + captured.err and TOKEN not in captured.out + captured.err


def test_an_evaluation_s_log_holds_no_key(here: Path, endpoint: Any):
    certigraph("eval", "sdp", "blocksworld", "--limit", "1", *MODEL_OPTIONS)
    assert list(here.rglob("*.eval"))
    assert leaks(here) == []
    found = leaks(here, TOKEN)
    assert [leak for leak in found if not leak.startswith("trace.log")] == []  # the trace is inspect's own: SECURITY.md
