"""Threat 1, files that run code when read: whatever is planted in what certigraph reads, nothing of it is called."""

import json
import os
import pickle
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import ormsgpack
import pytest
from helpers.files.product import ROOT
from helpers.worlds.scripted_benchmark import Script
from helpers.worlds.support_database import GOAL, SupportDatabase, scripted_model
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from certigraph import agent
from certigraph.adapters.files import cache_folder
from certigraph.adapters.models.reply_cache import CACHE_FILE as REPLIES
from certigraph.adapters.models.reply_cache import ReplyCache
from certigraph.adapters.protocols import Context, Limits
from certigraph.adapters.trajectories import read_trajectory
from certigraph.adapters.web.sources import HITS_TYPE, web_cache
from certigraph.evaluation.judges import read_judgements
from certigraph.runtime.files import MEMORY_FILE, find_trajectories
from certigraph.runtime.result import Result
from certigraph.runtime.run import resume, run
from certigraph.state.endings import Fault
from certigraph.state.trajectory import serializer


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.made}",)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Path]:
    """What must not be there afterwards."""
    path = tmp_path / "sentinel"
    yield path
    assert not path.exists()


@pytest.fixture
def stopped(tmp_path: Path) -> Result:
    """A run that can go on."""
    return run("sdp", Script(), context=Context(limits=Limits(steps=2)), out=tmp_path / "runs")  # type: ignore[arg-type]


def go_on(folder: Path) -> Result:
    return resume(folder, benchmark=Script(), limits=Limits(steps=60))  # type: ignore[arg-type]


def in_msgpack(code: int, *parts: object) -> bytes:
    return ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(parts)))


def constructions(made: Path) -> dict[str, tuple[str, bytes]]:
    """What LangGraph's serializer could be made to call, by the codes of its constructors and methods."""
    order = f"touch {made}"
    revived = {"lc": 2, "type": "constructor", "id": ["os", "system"], "args": [order]}
    return {
        "pickle": ("pickle", pickle.dumps(Payload(made))),
        "json constructor": ("json", json.dumps(revived).encode()),
        "one argument": ("msgpack", in_msgpack(0, "os", "system", order)),
        "arguments": ("msgpack", in_msgpack(1, "os", "system", [order])),
        "keywords": ("msgpack", in_msgpack(2, "os", "system", {"command": order})),
        "method": ("msgpack", in_msgpack(3, "os", "system", order, "__call__")),
        "class method": ("msgpack", in_msgpack(3, "pathlib", "Path", str(made), "touch")),
        "pydantic 1": ("msgpack", in_msgpack(4, "os", "system", {"command": order}, "construct")),
        "pydantic 2": ("msgpack", in_msgpack(5, "os", "system", {"command": order}, "model_validate_json")),
    }


KINDS = list(constructions(Path()))


@pytest.mark.parametrize("kind", KINDS)
def test_the_serializer_calls_nothing_that_a_payload_names(kind: str, made: Path):
    try:
        serializer().loads_typed(constructions(made)[kind])
    except (NotImplementedError, ValueError) as refused:
        assert "system" in str(refused) or "pickle" in str(refused)


@pytest.mark.parametrize("table", ["checkpoints", "writes"])
@pytest.mark.parametrize("kind", KINDS)
def test_checkpoints_with_a_payload_run_nothing(table: str, kind: str, stopped: Result, made: Path):
    form, payload = constructions(made)[kind]
    column = "checkpoint" if table == "checkpoints" else "value"
    with closing(sqlite3.connect(stopped.folder / "checkpoints.sqlite")) as opened, opened:
        opened.execute(f"UPDATE {table} SET type = ?, {column} = ?", (form, payload))
    try:
        result = go_on(stopped.folder)
    except (Fault, NotImplementedError, ValueError, KeyError, TypeError, AttributeError):
        return
    assert result.ending in ("goal", "error:operator", "error:data")


@pytest.mark.parametrize("table", ["checkpoints", "writes"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_with_the_serializer_runs_no_payload_of_its_database(
    table: str, kind: str, tmp_path: Path, made: Path
):
    form, payload = constructions(made)[kind]
    column = "checkpoint" if table == "checkpoints" else "value"
    thread: Any = {"configurable": {"thread_id": "1"}}
    with closing(sqlite3.connect(tmp_path / "threads.sqlite", check_same_thread=False)) as opened:
        tools = SupportDatabase(tmp_path / "support.sqlite").tools
        saver = SqliteSaver(opened, serde=serializer())
        graph = agent("react", model=scripted_model(), tools=tools, checkpointer=saver, interrupt_on={"refund": True})
        graph.invoke({"goal": GOAL}, thread)
        opened.execute(f"UPDATE {table} SET type = ?, {column} = ?", (form, payload))
        opened.commit()
        decision: Any = Command(resume={"decisions": [{"type": "approve"}]})
        with suppress(Exception):  # that no payload is run is what counts
            graph.invoke(decision, thread)


PAGES = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", *(ROOT / "notebooks").glob("*.ipynb")]


def test_the_documentation_shows_savers_with_the_serializer():
    built = [
        (page.name, call)
        for page in PAGES
        for call in re.findall(
            r"(?:Sqlite|Postgres|InMemory)Saver(?:\.from_conn_string)?\((?=[^)\s])[^\n]*", page.read_text()
        )
    ]
    assert len(built) > 2
    assert [found for found in built if "serde=" not in found[1]] == []


def test_files_of_a_run_folder_that_are_pickles_are_reported_and_not_opened(stopped: Result, made: Path):
    spoilt = pickle.dumps(Payload(made))
    for name in ("extra.pkl", "state.pickle", "memory.sqlite", "report.html"):
        (stopped.folder / name).write_bytes(spoilt)
    assert go_on(stopped.folder).ending == "goal"
    (stopped.folder / "trajectory.jsonl").write_bytes(spoilt + b"\n{}\n")
    for read in (read_trajectory, go_on, lambda folder: [*map(read_trajectory, find_trajectories(folder))]):
        with pytest.raises(Fault, match=r"trajectory\.jsonl"):
            read(stopped.folder)


@pytest.mark.parametrize("name", ["local.json", "checkpoints.sqlite"])
def test_a_pickle_where_settings_or_checkpoints_were_is_a_plain_error(name: str, stopped: Result, made: Path):
    (stopped.folder / name).write_bytes(pickle.dumps(Payload(made)))
    with pytest.raises(Fault, match=name):
        go_on(stopped.folder)


def test_lessons_that_are_pickles_are_a_plain_error(tmp_path: Path, made: Path):
    stopped = run("clin", Script(), context=Context(limits=Limits(steps=1, trials=2)), out=tmp_path)  # type: ignore[arg-type]
    with closing(sqlite3.connect(stopped.folder / MEMORY_FILE)) as opened, opened:
        opened.execute(
            "INSERT INTO store (prefix, key, value) VALUES ('lessons', 'x', ?)", (pickle.dumps(Payload(made)),)
        )
    resume_or_end(stopped)
    (tmp_path / "memory-shared.sqlite").write_bytes(pickle.dumps(Payload(made)))
    with pytest.raises(Fault, match=r"memory-shared\.sqlite"):
        run("clin", Script(), context=Context(memory="shared"), out=tmp_path)  # type: ignore[arg-type]


def resume_or_end(stopped: Result) -> None:
    if stopped.ending.startswith("limit:"):
        go_on(stopped.folder)


def test_caches_that_are_pickles_are_plain_errors(tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CERTIGRAPH_WEB_CACHE", raising=False)
    (cache_folder() / "web").mkdir(parents=True)
    (cache_folder() / "web" / "web.sqlite").write_bytes(pickle.dumps(Payload(made)))
    with pytest.raises(Fault, match=r"web\.sqlite"):
        web_cache().get("anybody", "anything", HITS_TYPE, tuple)
    (tmp_path / REPLIES).write_bytes(pickle.dumps(Payload(made)))
    with pytest.raises(Fault, match=r"replies\.sqlite"):
        ReplyCache(tmp_path).lookup("[]", "{}")


def test_a_judgement_file_that_is_a_pickle_is_a_plain_error(tmp_path: Path, made: Path):
    (tmp_path / "judged.jsonl").write_bytes(pickle.dumps(Payload(made)) + b"\n")
    with pytest.raises(Fault, match=r"judged\.jsonl"):
        read_judgements(tmp_path / "judged.jsonl")


def arrays(made: Path) -> bytes:
    numpy = pytest.importorskip("numpy")
    path = made.with_suffix(".npy")
    numpy.save(path, numpy.array([Payload(made)], dtype=object), allow_pickle=True)
    return path.read_bytes()


@pytest.mark.parametrize("wrapped", [True, False], ids=["array of objects", "bare pickle"])
def test_vectors_with_objects_are_a_plain_error(wrapped: bool, tmp_path: Path, made: Path):
    from certigraph.adapters.retrieval import dense

    (tmp_path / "v.npy").write_bytes(arrays(made) if wrapped else pickle.dumps(Payload(made)))
    opened: Callable[..., Any] = dense._open_vectors
    with pytest.raises(Fault, match="delete the file"):
        opened(tmp_path / "v.npy", 1)
