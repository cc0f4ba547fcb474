"""Graphs of a user's own: found by name, built with operators, brought to an ending, a score and a report."""

from pathlib import Path
from typing import Any, TypedDict

import pytest
from helpers.files.installed_package import BUILD, GRAPH, INSTALLED, PLAIN, STOP, WORLD
from langgraph.graph import END, START, StateGraph

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.protocols import Budget, Context
from certigraph.graphs import sdp
from certigraph.graphs.assembly import operators_of
from certigraph.nodes.sdp import always_pass
from certigraph.runtime.files import REPORT_FILE
from certigraph.runtime.graph_sources import ending_of, input_of
from certigraph.runtime.registry import GRAPHS, build_graph, graph_slots, parse_swap, swaps_of
from certigraph.runtime.report import write_report
from certigraph.runtime.run import resume, run
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Observation, Scores, Task


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(INSTALLED)


# --- by name


@pytest.mark.parametrize("name", [GRAPH, BUILD, "ownagents.graphs", "adder", PLAIN])
def test_a_graph_a_builder_a_function_a_module_and_an_entry_point_are_graphs(name: str):
    assert build_graph(name).name == name
    assert "write" in build_graph(name).nodes or "choose" in build_graph(name).nodes


@pytest.mark.parametrize(
    ("name", "swaps", "message"),
    [
        ("sdpp", [], r"did you mean sdp\?.*module:attribute, for example"),
        ("runs_of_mine", [], "unknown graph"),
        ("ownagents.nowhere", [], "cannot be imported"),
        ("ownagents.faulty.deeper", [], "RuntimeError: first line second line"),
        ("ownagents.graphs:reactin", [], r"did you mean reacting\?"),
        ("ownagents.worlds:number", [], "is 3, not a graph"),
        ("ownagents.worlds", [], "has no `build` and no `graph`"),
        ("ownagents.graphs:broken", [], r"cannot be built \(OSError: no shelf\)"),
        ("ownagents.graphs:nothing", [], "returned 7, not a graph"),
        (GRAPH, [f"choose={STOP}"], "built already, so choose cannot be swapped: name a function"),
        (BUILD, ["chose=act"], "no operator slot 'chose'; did you mean choose"),
        ("ownagents.graphs:reacting", ["chose=act"], "chose"),
    ],
)
def test_what_is_not_a_graph_or_has_no_slot_is_one_line(name: str, swaps: list[str], message: str):
    with pytest.raises(UnknownName, match=message) as raised:
        build_graph(name, dict(map(parse_swap, swaps)))
    assert "\n" not in str(raised.value)


def test_slots_are_those_of_the_functions_keywords():
    assert graph_slots(BUILD) == ["choose"]
    assert graph_slots("ownagents.graphs:reacting") == ["reset", "decide", "act"]
    assert graph_slots(GRAPH) == []
    assert graph_slots("react") == [
        "reset",
        "commit",
        "decide",
        "check",
        "approve",
        "audit",
        "act",
        "gate",
        "memory",
        "answer",
        "deliver",
    ]


def test_the_operators_of_an_own_graph_are_those_that_were_swapped():
    swapped = operators_of(build_graph(BUILD, dict([parse_swap(f"choose={STOP}")])))
    assert swapped == {"choose": {"name": STOP, "args": {}}}
    assert operators_of(build_graph(BUILD)) == {}
    assert {slot: spec.name for slot, spec in swaps_of("never.imported:build", swapped).items()} == {"choose": STOP}


# --- a run


@pytest.mark.parametrize(
    ("graph", "ending", "score"),
    [
        (BUILD, "goal", 1.0),
        ("ownagents.graphs:reacting", "goal", 1.0),
        ("ownagents.endings", "gave_up", 1.0),
        (PLAIN, "finished", 2 / 3),
        ("react", "goal", 1.0),
    ],
)
def test_a_run_ends_with_a_footer_and_a_score(graph: str, ending: str, score: float, tmp_path: Path):
    result = run(graph, WORLD, "3", out=tmp_path, context=Context(model="scripted:first"))
    assert (result.ending, result.scores and result.scores.value) == (ending, score)
    header, footer = result.trajectory.header, result.trajectory.footer
    assert (header.graph, header.task.benchmark) == (graph, WORLD)
    assert footer is not None
    assert footer.usage == result.usage
    assert footer.usage.seconds > 0
    assert [event.node for event in result.trajectory.events]
    assert Path(write_report(result.trajectory, result.folder / REPORT_FILE)).is_file()


def test_a_compiled_graph_and_a_world_that_are_passed_as_objects(tmp_path: Path):
    result = run(build_graph(PLAIN).copy({"name": "LangGraph"}), load_benchmark("counting"), "1", out=tmp_path)
    assert (result.ending, result.trajectory.header.task.benchmark) == ("goal", "counting")
    assert result.state["note"] == "done"
    assert result.state["actions"] == ["add"]


@pytest.mark.parametrize("named", [True, False])
def test_a_world_in_the_context_is_run_on(named: bool, tmp_path: Path):
    world: Any = WORLD if named else load_benchmark(WORLD)
    result = run(BUILD, context=Context(benchmark=world), out=tmp_path)
    assert (result.ending, result.trajectory.header.task.benchmark) == ("goal", WORLD)


def test_an_own_graph_with_the_name_of_a_shipped_one_has_its_own_ending(tmp_path: Path):
    result = run(build_graph(PLAIN).copy({"name": "react"}), WORLD, "3", out=tmp_path)
    assert (result.ending, result.scores and result.scores.value) == ("finished", 2 / 3)


SDP_VARIANTS = """
from certigraph.graphs import sdp
from certigraph.nodes.sdp import always_pass

graph = sdp.build(validate=always_pass)
plan = sdp.builder(validate=always_pass)


def build(**operators):
    return sdp.build(**{"validate": always_pass, **operators})
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["graph", "plan", "build"])
def test_an_own_graph_of_a_method_claims_the_goal_as_the_method_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_sdp_variants.py").write_text(SDP_VARIANTS)
    context = Context(model="simulated")
    mine = run(f"my_sdp_variants:{name}", "blocksworld", "6-2", context=context, out=tmp_path)
    ours = run(sdp.build(validate=always_pass), "blocksworld", "6-2", context=context, out=tmp_path)
    assert mine.certificates == ours.certificates
    assert (mine.ending, mine.scores) == (ours.ending, ours.scores)
    assert (mine.ending, mine.scores and mine.scores.value) == ("goal", 0)  # nobody looked, and the scorer denies it
    header = mine.trajectory.header
    assert (header.method, header.operators, [*header.own_operators]) == ("sdp", {}, ["validate"])
    page = write_report(mine).read_text(encoding="utf-8")
    assert "validate = always_pass" in page
    assert "accepted unchecked" in page


def test_the_operators_of_an_own_graph_are_rebuilt_by_its_code_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_sdp_variants.py").write_text(SDP_VARIANTS)
    stopped = run("my_sdp_variants:graph", "blocksworld", "4-0", out=tmp_path, context=Context(budget=Budget(calls=2)))
    assert (stopped.ending, resume(stopped.folder, budget=Budget()).ending) == ("limit:calls", "goal")


@pytest.mark.slow
def test_a_report_is_written_of_a_result_a_trajectory_or_a_folder(tmp_path: Path):
    result = run("react", "blocksworld", "3-0", context=Context(model="scripted:expert"), out=tmp_path)
    here = [write_report(result), write_report(str(result.folder)), write_report(result.folder)]
    assert here == [result.folder / REPORT_FILE] * 3
    there = str(tmp_path / "page.html")
    assert write_report(result.trajectory, there).read_bytes() == write_report(result).read_bytes()
    with pytest.raises(TypeError, match=r"write_report\(trajectory, 'report.html'\)"):
        write_report(result.trajectory)
    with pytest.raises(TypeError, match="5 is not a run: give the result"):
        write_report(5)  # type: ignore[arg-type]


def test_budget_and_resume_hold_for_a_graph_without_certigraphs_nodes(tmp_path: Path):
    stopped = run(BUILD, WORLD, "3", out=tmp_path, context=Context(budget=Budget(seconds=0)))
    assert (stopped.ending, stopped.state["history"]) == ("limit:seconds", [])
    again = resume(stopped.folder, budget=Budget())
    assert (again.ending, len(again.state["history"])) == ("goal", 3)


def test_a_run_of_an_object_is_resumed_with_the_object(tmp_path: Path):
    graph = build_graph(BUILD).copy({"name": "nameless"})
    stopped = run(graph, WORLD, "3", out=tmp_path, context=Context(budget=Budget(seconds=0)))
    with pytest.raises(UnknownName, match=r"pass it: certigraph.resume\(..., graph=...\)"):
        resume(stopped.folder, budget=Budget())
    assert resume(stopped.folder, budget=Budget(), graph=graph).ending == "goal"


def test_a_graph_that_takes_no_task_is_an_error_that_says_so(tmp_path: Path):
    class Elsewhere(TypedDict):
        question: str

    builder = StateGraph(Elsewhere)
    builder.add_node("n", lambda state: state)
    builder.add_edge(START, "n")
    builder.add_edge("n", END)
    result = run(builder.compile(), WORLD, "1", out=tmp_path, on_error="ignore")
    assert result.ending == "error:operator"
    assert "takes question, not the task: declare `task" in result.message
    with pytest.raises(Fault):
        input_of(builder.compile(), Task(benchmark="b", id="1"))


# --- endings


def nameless(schema: Any = dict) -> Any:
    builder = StateGraph(schema)
    builder.add_node("n", lambda state: {})
    builder.add_edge(START, "n")
    return builder.compile()


@pytest.mark.parametrize(
    ("state", "scores", "ending"),
    [
        ({}, None, "finished"),
        ({}, Scores(value=0.9), "finished"),
        ({}, Scores(value=1), "goal"),
        ({"observation": Observation(text="", solved=True)}, None, "goal"),
        ({"observation": Observation(text="", done=True)}, None, "world_ended"),
        ({"ending": "exhausted"}, Scores(value=1), "exhausted"),
        ({"ending": "limit:steps"}, None, "limit:steps"),
        ({"ending": "splendid"}, None, "error:operator"),
    ],
)
def test_the_ending_of_a_graph_that_names_none(state: dict[str, Any], scores: Scores | None, ending: str):
    assert ending_of(nameless(), state, scores).ending == ending


def test_the_function_ending_of_a_module_counts_first():
    graph = build_graph("ownagents.endings")
    solved, lost = (Observation(text="", solved=solved) for solved in (True, False))
    assert ending_of(graph, {"observation": solved}, None) == ("gave_up", "enough")
    unusable = ending_of(graph, {"observation": lost}, None)
    assert unusable.ending == "error:operator"
    assert "ownagents.endings.ending is 'hopeless', not an ending: use goal" in unusable.message
    assert ending_of(graph, {}, None).ending == "error:operator"  # it raises KeyError


def test_shipped_graphs_are_not_looked_up_elsewhere():
    assert all(build_graph(name).name == name for name in ("sdp", "react"))
    assert "adder" not in GRAPHS
