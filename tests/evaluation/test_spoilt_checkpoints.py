"""Checkpoints that are spoilt, or that somebody planted: one line says so, and the run is left as it was."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import ormsgpack
import pytest

from certigraph.adapters.protocols import Budget, Context
from certigraph.runtime.result import Result
from certigraph.runtime.run import resume, run
from certigraph.state.records import Fault

CALLED = json.dumps({"lc": 2, "type": "constructor", "id": ["os", "system"], "args": ["touch"]}).encode()


@pytest.fixture
def stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    return run("sdp", "blocksworld", "4-0", context=Context(budget=Budget(calls=4)), out=tmp_path)


def refused(stopped: Result, change: str, *values: object) -> str:
    """What is said of a run whose checkpoints were changed."""
    with closing(sqlite3.connect(stopped.folder / "checkpoints.sqlite")) as file, file:
        file.execute(f"UPDATE checkpoints SET {change}", values)
    before = (stopped.folder / "trajectory.jsonl").read_bytes()
    with pytest.raises(Fault) as fault:
        resume(stopped.folder, budget=Budget())
    assert fault.value.ending == "error:data"
    assert (stopped.folder / "trajectory.jsonl").read_bytes() == before
    return str(fault.value)


@pytest.mark.parametrize(
    ("form", "checkpoint"),
    [
        ("pickle", b"cposix\nsystem\n."),
        ("json", CALLED),
        ("msgpack", b"\xc1 torn"),
        ("msgpack", ormsgpack.packb("no checkpoint")),
        ("msgpack", ormsgpack.packb({"v": 4, "id": "x"})),
        ("unheard of", b""),
    ],
)
def test_a_row_that_holds_no_checkpoint_is_one_line(stopped: Result, form: str, checkpoint: bytes) -> None:
    said = refused(stopped, "type = ?, checkpoint = ?", form, checkpoint)
    assert "cannot be read" in said and stopped.folder.name in said and "certigraph run" in said
    assert "\n" not in said


@pytest.mark.parametrize("metadata", ["[", "[]", '{"step": "x"}', '{"step": 1e999}'])
def test_metadata_that_are_none_are_one_line(stopped: Result, metadata: str) -> None:
    assert "\n" not in refused(stopped, "metadata = ?", metadata.encode())
