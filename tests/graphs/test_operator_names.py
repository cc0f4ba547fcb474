"""Names of operators in headers: the one that ran in each slot, a benchmark's own included, and graphs built again."""

from pathlib import Path
from typing import Any

import pytest
from helpers.cases import first_fast

from certigraph import Context, always_pass, write_report
from certigraph.adapters.benchmarks import find_benchmark, load_benchmark
from certigraph.benchmarks import BENCHMARKS
from certigraph.graphs import sdp, subtask
from certigraph.graphs.assembly import operators_of, running_operators_of
from certigraph.graphs.catalogue import OPERATORS
from certigraph.graphs.operator_names import benchmark_operators, name_generic_operators
from certigraph.nodes.tool_choices import operators_for
from certigraph.runtime.registry import GRAPHS, build_graph, header_swaps, parse_swap, rebuild_graph
from certigraph.runtime.run import run
from certigraph.state.endings import UnknownName
from certigraph.state.records import Task


def names_of(operators: dict[str, Any]) -> dict[str, str]:
    return {slot: spec["name"] for slot, spec in operators.items()}


@pytest.mark.parametrize(
    ("benchmark", "names"),
    [
        ("blocksworld", {"propose": "propose", "realize": "realize", "validate": "validate", "replan": "replan"}),
        ("travelplanner", {slot: f"travelplanner.{slot}" for slot in ("propose", "realize", "validate", "replan")}),
        ("travelplanner:paper", {"propose": "travelplanner.propose"}),
        ("web", {"validate": "web.validate", "answer": "web.answer"}),
    ],
)
def test_the_header_has_the_operators_that_ran(benchmark: str, names: dict[str, str], tmp_path: Path):
    result = run("sdp", benchmark, context=Context(), out=tmp_path)
    header = result.trajectory.header
    assert names_of(header.operators).items() >= names.items()
    assert header_swaps(header) == {}, "the benchmark's own operators are no swaps"
    page = write_report(result.folder).read_text(encoding="utf-8")
    assert all(name in page for name in benchmark_operators(header.operators, header.task.benchmark).values())


@pytest.mark.parametrize("graph", first_fast(GRAPHS, 3))
def test_a_graph_is_built_again_from_the_names_that_ran(graph: str):
    built = build_graph(graph)
    for name in BENCHMARKS:
        live = load_benchmark(name)
        task = Task(benchmark=name, id="banking/user_task_0")  # the form of ids where tasks have tools of their own
        named = running_operators_of(built, task, live)
        generic = name_generic_operators(named, name)
        # an operator that the benchmark replaces has no effect: the header has neither its arguments nor its own name
        others = {slot: getattr(one, "replaced_by", ()) for slot, one in built.builder.operators.items()}
        usual = names_of(operators_of(built))
        assert all(name in (usual[slot], *others.get(slot, ())) for slot, name in names_of(generic).items())
        again = rebuild_graph(graph, generic)
        assert running_operators_of(again, task, live) == named
        assert names_of(operators_of(again)) == names_of(generic)


def test_an_operator_that_no_benchmark_replaces_keeps_its_name():
    """TDP's sub-tasks are replanned by an operator that has the name of SDP's."""
    task = Task(benchmark="travelplanner:tools", id="1")
    named = running_operators_of(subtask.graph, task, load_benchmark(task.benchmark))
    assert (names_of(named)["replan"], names_of(named)["execute"]) == ("replan", "travelplanner.execute")


def test_operators_inside_others_are_named_too():
    built = build_graph("sdp", dict([parse_swap("validate=capped:depth=1")]))
    task = Task(benchmark="web", id="x")
    spec: Any = running_operators_of(built, task, load_benchmark("web"))["validate"]
    assert spec["name"] == "capped"
    nested = sdp.build(validate=OPERATORS["capped"](OPERATORS["validate"], depth=1))
    inner: Any = running_operators_of(nested, task, load_benchmark("web"))["validate"]
    assert inner["args"]["validate"]["name"] == "web.validate"


@pytest.mark.parametrize("name", [name for name in BENCHMARKS if load_benchmark(name).operators()])
def test_every_operator_of_a_benchmark_is_found_by_its_name(name: str):
    benchmark = find_benchmark(name)
    assert benchmark
    assert all(OPERATORS[f"{name}.{operator}"] for operator in operators_for(benchmark))


def test_a_benchmark_s_operator_that_is_named_is_that_of_the_configuration(tmp_path: Path):
    """`paper` and the default have operators of one name that work differently."""
    swaps = dict([parse_swap("propose=travelplanner.propose"), parse_swap("replan=travelplanner.replan")])
    context = Context(model="simulated:seed=3")
    usual, named = (
        run(graph, "travelplanner:paper", context=context, out=tmp_path)
        for graph in (sdp.build(), build_graph("sdp", swaps))
    )
    assert named.trajectory.header.operators == usual.trajectory.header.operators
    assert [e.node for e in named.trajectory.events] == [e.node for e in usual.trajectory.events]


def test_operators_that_only_a_benchmark_has_are_swapped_in_by_name(tmp_path: Path):
    swaps = dict([parse_swap("validate=web.force_pass:rejections=3"), parse_swap("answer=abstain")])
    header = run(build_graph("sdp", swaps), "web", context=Context(), out=tmp_path).trajectory.header
    assert names_of(header.operators)["validate"] == "web.force_pass"
    again = rebuild_graph("sdp", name_generic_operators(header.operators, header.task.benchmark))
    assert names_of(operators_of(again))["validate"] in ("web.force_pass", "force_pass")


@pytest.mark.parametrize(
    ("slot", "former", "present"),
    [
        ("validate", "unforced", "web.unforced"),
        ("validate", "force_pass", "web.force_pass"),
        ("answer", "certigraph.adapters.research.operators:force_accept", "answer"),
    ],
)
def test_headers_of_earlier_versions_are_read(slot: str, former: str, present: str):
    named = name_generic_operators({slot: {"name": former, "args": {}}}, "web")
    assert names_of(named) == {slot: present}
    rebuild_graph("sdp", named)


def test_a_slot_refuses_a_benchmark_s_operator_for_another():
    with pytest.raises(UnknownName, match=r"web\.unforced is an operator of validate"):
        build_graph("sdp", dict([parse_swap("answer=web.unforced")]))


def test_swapped_operators_keep_their_names(tmp_path: Path):
    header = run(sdp.build(validate=always_pass), "travelplanner", context=Context(), out=tmp_path).trajectory.header
    assert names_of(header.operators)["validate"] == "always_pass"
