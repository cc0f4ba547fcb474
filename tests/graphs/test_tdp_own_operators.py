"""Operators of one's own in TDP's slots are held to the same rules as the shipped ones, by name and at once."""

from pathlib import Path
from typing import Any

import pytest

from certigraph import Context, Dag, Limits, Node, Progress, resume, run
from certigraph.graphs import tdp
from certigraph.nodes.tdp import decompose, undivided, unrevised
from certigraph.runtime.registry import build_graph, parse_swap
from certigraph.runtime.result import Result
from certigraph.state.records import UnknownName

ONE = Dag(nodes=(Node(id="n1", task="stack it"),))


@pytest.fixture(autouse=True)
def _generated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)


def giving(**update: Any) -> Any:
    async def mine(state: Any, runtime: Any) -> dict[str, Any]:
        return update

    return mine


def ran(out: Path, limits: Limits | None = None, **operators: Any) -> Result:
    return run(tdp.build(**operators), "hotpotqa:interactive", "dev-bridge-0", context=Context(limits=limits), out=out)


def chain(length: int) -> Dag:
    return Dag(nodes=tuple(Node(id=str(n), task=f"do {n}", needs=(str(n - 1),) if n else ()) for n in range(length)))


@pytest.mark.parametrize(
    ("dag", "told"),
    [
        (Dag(), "decompose gave 0 nodes, 0 of them pending; it must give 1 to 8"),
        (
            Dag(nodes=tuple(Node(id=str(n), task="t", needs=(str(n - 1),) if n else ()) for n in range(9))),
            "gave 9 nodes",
        ),
        (Dag(nodes=(Node(id="n1", task="t", status="completed"),)), "gave 1 nodes, 0 of them pending"),
        ([ONE], "in slot decompose returned"),
        ({"nodes": []}, "it must be a certigraph.state.tdp.Dag"),
    ],
    ids=["empty", "too many", "run already", "a list", "a dict"],
)
def test_a_decomposition_that_is_none_is_refused_by_name(dag: Any, told: str, tmp_path: Path):
    result = ran(tmp_path, decompose=giving(dag=dag, notes=()))
    assert result.ending == "error:operator"
    assert told in result.message


def changed(**update: Any) -> Any:
    async def mine(state: Any, runtime: Any) -> dict[str, Any]:
        return {"dag": Dag(nodes=tuple(n.model_copy(update=update) for n in state["dag"].nodes)), "notes": ()}

    return mine


@pytest.mark.parametrize("update", [{"task": "another"}, {"status": "pending"}, {"status": "completed"}])
def test_a_revision_cannot_touch_what_has_run_or_say_that_something_has(update: dict[str, str], tmp_path: Path):
    result = ran(tmp_path, revise=changed(**update))
    assert result.ending == "error:operator"
    assert "revise changed what has run, or says that something has: " in result.message


def test_a_revision_cannot_delete_what_has_run(tmp_path: Path):
    async def forgetful(state: Any, runtime: Any) -> dict[str, Any]:
        left = [n for n in state["dag"].nodes if n.status == "pending"]
        kept = tuple(n.model_copy(update={"needs": tuple(need for need in n.needs if need in left)}) for n in left)
        return {"dag": Dag(nodes=kept), "notes": ()}

    result = ran(tmp_path, revise=forgetful)
    assert result.ending == "error:operator"


@pytest.mark.parametrize(
    ("slot", "update", "kind"),
    [
        ("supervise", {"progress": "completed"}, "certigraph.state.tdp.Progress"),
        ("execute", {"action": "look", "thought": ""}, "certigraph.state.records.Action"),
        ("solve", {"outcomes": [], "usage": [], "spent": 0}, "certigraph.state.records.Spent"),
    ],
)
def test_what_is_of_another_type_is_refused_with_the_slot_and_the_type(
    slot: str, update: dict[str, Any], kind: str, tmp_path: Path
):
    result = ran(tmp_path, **{slot: giving(**update)})
    assert result.ending == "error:operator"
    assert f"in slot {slot} returned" in result.message
    assert f"it must be a {kind}" in result.message


def test_notes_of_all_graphs_are_kept_with_where_they_come_from(tmp_path: Path):
    async def noting(state: Any, runtime: Any) -> dict[str, Any]:
        return {**await unrevised(state, runtime), "notes": ("looked",)}

    async def noted(state: Any, runtime: Any) -> dict[str, Any]:
        return {**await decompose(state, runtime), "notes": ("mine",)}

    notes = list(ran(tmp_path, decompose=noted, revise=noting).state["notes"])
    assert notes[0] == "decomposing: mine"
    assert notes[1:] == [f"revision {n}: looked" for n in range(1, len(notes))]
    assert len(notes) > 2


def test_steps_that_are_used_up_end_the_run_and_more_of_them_go_on_with_it(tmp_path: Path):
    cut = ran(tmp_path, Limits(steps=2))
    assert cut.ending == "limit:steps"
    assert "steps" in cut.message
    assert resume(cut.folder, limits=Limits(steps=40)).ending == "goal"


def test_without_decomposing_or_revising_the_task_is_its_only_subtask(tmp_path: Path):
    result = ran(tmp_path, decompose=undivided, revise=unrevised)
    assert [node.id for node in result.state["dag"].nodes] == ["task"]


@pytest.mark.parametrize("text", ["validate=always_pass:banana=3", "revise=unrevised:often=1"])
def test_arguments_that_nobody_takes_are_refused(text: str):
    with pytest.raises(UnknownName, match="takes no arguments"):
        build_graph("sdp" if "validate" in text else "tdp", dict([parse_swap(text)]))


def test_arguments_of_a_graph_that_solves_are_its_operators():
    graph = build_graph("tdp", dict([parse_swap("solve=sdp:validate=always_pass")]))
    spec = graph.builder.nodes["solve"].metadata["operator"]
    assert spec["args"]["validate"]["name"] == "always_pass"
    with pytest.raises(UnknownName, match="no operator slot 'banana'"):
        build_graph("tdp", dict([parse_swap("solve=sdp:banana=3")]))


def test_a_slot_that_there_is_not_is_refused_with_all_that_there_are():
    with pytest.raises(TypeError, match=r"no operator slot 'solver'; this graph has: reset, decompose, solve, gather"):
        tdp.build(solver=giving())  # type: ignore[call-arg]


def test_progress_is_what_a_supervisor_of_ones_own_returns(tmp_path: Path):
    result = ran(tmp_path, supervise=giving(progress=Progress(status="failed", reason="not today")))
    assert result.state["outcomes"][0].result == "not today"
