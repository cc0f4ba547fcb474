"""What may solve a sub-task of TDP: any graph that works on one episode, given by name, module or compiled."""

from pathlib import Path
from typing import Any

import pytest

from certigraph import exhaustion_gate
from certigraph.adapters.protocols import Context
from certigraph.graphs import react, sdp, subtask, tdp
from certigraph.graphs.assembly import operators_of
from certigraph.nodes.sdp import always_pass, capped, validate
from certigraph.runtime.registry import build_graph, parse_swap, rebuilt_graph
from certigraph.runtime.run import run
from certigraph.state.records import UnknownName

QUESTION = ("hotpotqa", "dev-bridge-0")


@pytest.fixture(autouse=True)
def _generated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)


@pytest.mark.parametrize("given", ["sdp", sdp, sdp.graph], ids=["name", "module", "compiled"])
def test_a_graph_is_given_by_name_as_a_module_or_compiled(given: Any):
    assert operators_of(tdp.build(solve=given))["solve"]["args"] == {"graph": "sdp"}  # type: ignore[index,call-overload]


@pytest.mark.slow  # the search agents mix in vectors, whose encoder takes seconds to load
@pytest.mark.parametrize("solver", ["sdp", "react", "pbai", "ircot", "tdp"])
def test_a_question_is_answered_whatever_graph_solves_its_subtasks(solver: str, tmp_path: Path):
    result = run(tdp.build(solve=solver), *QUESTION, out=tmp_path)
    assert (result.ending, result.scores and result.scores.value) == ("goal", 1.0)
    assert {outcome.status for outcome in result.state["outcomes"]} == {"completed"}


def test_subtasks_that_sdp_solves_are_certified_and_their_certificates_are_theirs(tmp_path: Path):
    result = run(tdp.build(solve=sdp), *QUESTION, out=tmp_path)
    certified = {outcome.node: outcome.certified for outcome in result.state["outcomes"]}
    assert all(certified.values())
    assert "certificates" not in result.state
    assert not {event.subtask for event in result.trajectory.events if event.node == "certify"} - set(certified)


def test_operators_of_the_inner_graph_are_kept_in_the_header_and_made_again():
    graph = tdp.build(solve=sdp.build(validate=capped(validate, depth=1)))
    given = operators_of(graph)
    assert given["solve"]["args"]["validate"]["name"] == "capped"  # type: ignore[index,call-overload]
    assert operators_of(rebuilt_graph("tdp", given)) == given


@pytest.mark.slow
def test_belief_and_gate_work_inside_the_nodes(tmp_path: Path):
    graph = tdp.build(memory="structured", gate=exhaustion_gate())
    result = run(graph, *QUESTION, out=tmp_path)
    inside = {event.node for event in result.trajectory.events if event.subtask}
    assert {"memory", "gate"} <= inside
    assert result.ending == "goal"
    assert {"memory", "gate"} <= {node.partition(":")[2] for node in graph.get_graph(xray=True).nodes}


@pytest.mark.parametrize("solver", ["step", "reflexion", "clin"])
def test_what_begins_a_task_several_times_cannot_solve_a_part_of_one(solver: str):
    with pytest.raises(TypeError, match=f"{solver} begins a task several times"):
        tdp.build(solve=solver)
    with pytest.raises(UnknownName, match=f"graph={solver} cannot be made: {solver} begins"):
        build_graph("tdp", dict([parse_swap(f"solve={solver}")]))


def test_what_no_graph_has_is_refused_with_what_would_do():
    with pytest.raises(UnknownName, match="there is no such graph; subtask, sdp"):
        tdp.build(solve="nosuch")
    with pytest.raises(TypeError, match=r"give them to the graph that solves: solve=THAT.build\(plan=...\)"):
        tdp.build(solve=sdp, plan=always_pass)
    with pytest.raises(TypeError, match="no operator slot 'nosuch'"):
        tdp.build(nosuch=always_pass)  # type: ignore[call-arg]


@pytest.mark.slow
def test_the_graph_of_a_subtask_runs_by_itself(tmp_path: Path):
    result = run(subtask.build(), *QUESTION, out=tmp_path, context=Context())
    assert result.scores is not None
    assert result.state["last"] is False


@pytest.mark.slow
def test_react_in_the_nodes_leaves_its_answer_as_the_result(tmp_path: Path):
    result = run(tdp.build(solve=react), *QUESTION, out=tmp_path)
    assert all(outcome.result.startswith("answer: ") for outcome in result.state["outcomes"])
