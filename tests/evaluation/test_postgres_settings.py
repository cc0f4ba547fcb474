"""When checkpoints go to a server, what is said where that cannot be, and the server that users are given."""

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("yaml", reason="pip install 'certigraph[eval]'")

import yaml

from certigraph.adapters.protocols import Context
from certigraph.evaluation.evaluate import evaluate
from certigraph.runtime.run import run
from certigraph.runtime.storage import usual_checkpoints
from certigraph.state.records import Fault

COMPOSE = Path(__file__).parents[2] / "compose.yaml"


def test_files_are_the_rule_and_a_server_what_the_machine_names(monkeypatch: pytest.MonkeyPatch):
    for address, expected in ((None, ""), ("", ""), ("postgresql://there", "postgres")):
        monkeypatch.delenv("CERTIGRAPH_POSTGRES", raising=False)
        if address is not None:
            monkeypatch.setenv("CERTIGRAPH_POSTGRES", address)
        assert usual_checkpoints() == expected


def test_without_the_extra_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(Fault, match=r"need psycopg, missing here: pip install 'certigraph\[postgres\]'"):
        run("sdp", "blocksworld", "3-0", context=Context(checkpoints="postgres"), out=tmp_path)


@pytest.mark.parametrize("begin", [run, evaluate])
def test_a_server_that_is_not_there_is_told_before_anything_is_begun(
    begin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pytest.importorskip("psycopg")
    monkeypatch.setenv("CERTIGRAPH_POSTGRES", "postgresql://ann:secret-word@127.0.0.1:1/x")
    with pytest.raises(Fault, match="is away") as refused:
        begin("sdp", "blocksworld", out=tmp_path / "runs")
    assert "secret-word" not in str(refused.value)
    assert not (tmp_path / "runs").exists()


def test_the_server_for_users_is_reached_from_this_machine_alone_and_has_no_password_of_its_own():
    [server] = yaml.safe_load(COMPOSE.read_text())["services"].values()
    assert [port.partition(":")[0] for port in server["ports"]] == ["127.0.0.1"]
    assert server["environment"]["POSTGRES_PASSWORD"].startswith("${CERTIGRAPH_POSTGRES_PASSWORD:?")
    assert int(server["image"].partition(":")[2]) >= 16
    assert server["healthcheck"]["test"] and server["volumes"]
