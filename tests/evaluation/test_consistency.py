"""A trajectory and checkpoints that hold different work: named and refused, and never scored."""

import json
from pathlib import Path
from typing import Any

import pytest
from study_world import Riddles
from task_graphs import Jobs, Pondering

from certigraph.adapters.protocols import Budget, Context
from certigraph.runtime.checkpoints import Saver
from certigraph.runtime.result import Result
from certigraph.runtime.run import resume, run
from certigraph.state.records import Fault
from certigraph.state.trajectory import Event, Line

WORLDS: dict[str, dict[str, Any]] = {
    "sdp": {"benchmark": "blocksworld", "task": "4-0"},
    "step": {"benchmark": "blocksworld", "task": "4-0"},
    "hypotheses": {"benchmark": Riddles(), "task": "looped"},
    "tdp": {"benchmark": Jobs(), "task": "deep"},
}


def stopped_run(graph: str, calls: int, out: Path) -> Result:
    chat = {"chat": Pondering(lambda _: 0.0)} if graph == "tdp" else {}
    context = Context(budget=Budget(calls=calls), **chat)
    result = run(graph, **WORLDS[graph], context=context, out=out)
    assert result.ending == "limit:calls"
    return result


def resumed_run(graph: str, folder: Path) -> Result:
    given = {"chat": Pondering(lambda _: 0.0)} if graph == "tdp" else {}
    world = WORLDS[graph]["benchmark"]
    live = {} if isinstance(world, str) else {"benchmark": world}
    return resume(folder, budget=Budget(), **live, **given)


def drop_last_lines(folder: Path, count: int) -> list[dict[str, Any]]:
    """Cut off the end of a trajectory; returns the events that are gone."""
    path = folder / "trajectory.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-count]))
    gone = map(json.loads, lines[-count:])
    return [line for line in gone if line["type"] == "event" and line["update"] is not None]


@pytest.mark.parametrize("count", [3, 5])
@pytest.mark.parametrize("graph", ["sdp", "step", "hypotheses", "tdp"])
def test_a_trajectory_that_lost_its_last_lines_is_refused_and_they_are_named(graph: str, count: int, tmp_path: Path):
    folder = stopped_run(graph, 4, tmp_path).folder
    gone = drop_last_lines(folder, count)
    before = (folder / "trajectory.jsonl").read_bytes()
    assert gone
    with pytest.raises(Fault, match=f"the trajectory of run {folder.name} lacks lines") as fault:
        resumed_run(graph, folder)
    assert all(f"of {line['node']}" in str(fault.value) for line in gone)
    assert "certigraph delete" in str(fault.value)
    assert (folder / "trajectory.jsonl").read_bytes() == before


@pytest.mark.parametrize("graph", ["sdp", "tdp"])
def test_a_trajectory_that_lost_its_footer_alone_goes_on(graph: str, tmp_path: Path):
    whole = run(graph, **WORLDS[graph], context=Context(), out=tmp_path / "whole") if graph == "sdp" else None
    folder = stopped_run(graph, 4, tmp_path / "cut").folder
    assert drop_last_lines(folder, 1) == []
    result = resumed_run(graph, folder)
    assert result.ending == "goal"
    assert whole is None or result.certificates == whole.certificates


def test_a_line_that_repeats_another_is_refused(tmp_path: Path):
    folder = stopped_run("sdp", 4, tmp_path).folder
    path = folder / "trajectory.jsonl"
    lines = [json.loads(line) for line in path.open()]
    for line in lines:
        del line["number"]  # as in schema 3
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines[:4], lines[3], *lines[4:]]))
    with pytest.raises(Fault, match=f"the checkpoints of run {folder.name} lack steps"):
        resumed_run("sdp", folder)


@pytest.mark.parametrize("behind", [2, 4])
def test_a_checkpoint_that_is_not_the_latest_is_never_scored(
    behind: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The state of a run that its budget stops is read from its checkpoints."""
    read, stale = Saver.get_tuple, list[bool]()

    def read_stale(self: Saver, config: Any) -> Any:
        found = read(self, config)
        for _ in range(behind if stale else 0):
            found = read(self, found.parent_config)
        return found

    def stop(line: Line) -> None:
        if isinstance(line, Event) and line.update is None:
            stale.append(True)

    monkeypatch.setattr(Saver, "get_tuple", read_stale)
    result = run("sdp", "blocksworld", "4-0", context=Context(budget=Budget(calls=7)), out=tmp_path, listener=stop)
    assert stale
    assert result.scores is None
    assert result.ending == "error:data"
    assert "lack" in result.message
