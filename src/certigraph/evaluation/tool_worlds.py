"""The user's own tools in evaluations: naming a benchmark object, checks before the first run, and what has changed.

Nobody answers questions in an evaluation, and what tools do stays done: a run of a case would find what another run of
it has left.
"""

import hashlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from pydantic import JsonValue

from certigraph.adapters.benchmarks import default_benchmark, name_object
from certigraph.adapters.imports import import_named
from certigraph.adapters.models.chat_models import describe_error_rates, is_simulated
from certigraph.adapters.models.scripts import parse_error_rates, simulated_name
from certigraph.adapters.protocols import Benchmark
from certigraph.adapters.tools.world import UNDO_ADVICE, Tools, check_script
from certigraph.adapters.user_warnings import is_users_file
from certigraph.evaluation.comparison import ComparedMethod, ComparisonPlan
from certigraph.graphs.agent import AgentGraph
from certigraph.graphs.assembly import operators_of
from certigraph.nodes.approval import APPROVE
from certigraph.runtime.graph_sources import AnyGraph, slots_of
from certigraph.runtime.registry import GRAPHS
from certigraph.state.endings import UnknownName


def benchmark_name(benchmark: str | Benchmark, data: str | None) -> str:
    """Return the name of a benchmark; of the default one where none is given.

    An object gets its own name, by which this process finds it from then on.

    Raises:
        UnknownName: the object has the name of a shipped benchmark.
    """
    return (benchmark or default_benchmark()) if isinstance(benchmark, str) else name_object(benchmark, data)


def describe_effective_rates(benchmark: Benchmark, model: str, roles: Mapping[str, str]) -> str:
    """Describe the error rates of simulated agents that have an effect: wrong actions have none on own tools."""
    if isinstance(benchmark, Tools):
        model = _without_wrong_actions(model)
        roles = {role: _without_wrong_actions(other) for role, other in roles.items()}
    return describe_error_rates(model, roles)


def _without_wrong_actions(model: str) -> str:
    return simulated_name(parse_error_rates(model).model_copy(update={"act": 0.0})) if is_simulated(model) else model


def check_unattended(graph: AnyGraph) -> None:
    """Check that a graph asks nobody for approval.

    Raises:
        UnknownName: it does.
    """
    if APPROVE.name in slots_of(graph) or _names_slot(operators_of(graph), APPROVE.name):
        raise _unattended_error(graph.name)


def check_no_agents(methods: Iterable[ComparedMethod]) -> None:
    """Check that no method of a comparison is an agent, which has tools of its own. Graphs of users are built.

    Raises:
        UnknownName: one is.
    """
    for method in methods:
        if method.graph not in GRAPHS and isinstance(graph := method.build(), AgentGraph):
            reason = f"the agent {method.graph!r} has tools of its own and runs on no benchmark"
            fix = "certigraph.Tools(tools, cases=[...]), and name the method that drives the agent, such as"
            raise UnknownName(f"{reason}: make a benchmark of its tools, {fix} {graph.method}")


def _unattended_error(graph: str) -> UnknownName:
    fix = "build it without approve=, or run one case with `certigraph run`"
    return UnknownName(f"the graph {graph!r} asks for approval, and nobody answers in an evaluation: {fix}")


def _names_slot(value: JsonValue | Mapping[str, JsonValue], slot: str) -> bool:
    """Return whether a description of operators has a slot, at any depth: an operator may be a graph with slots."""
    if isinstance(value, Mapping):
        return slot in value or any(_names_slot(part, slot) for part in value.values())
    return isinstance(value, list) and any(_names_slot(part, slot) for part in value)


def check_evaluable(benchmark: Benchmark, models: Iterable[str], *, episodes: int, shared: bool = False) -> None:
    """Check that a benchmark of the user's own tools can be evaluated; any other one can.

    Args:
        benchmark: the benchmark.
        models: names of the models.
        episodes: number of runs of each case: methods times trials.
        shared: whether several processes execute the runs.

    Raises:
        UnknownName: there are no cases; the model is a script, and the tools have none; effects of a run would meet
            the next run of the same case; or `reset` would be called by several processes at the same time.
    """
    if not isinstance(benchmark, Tools):
        return
    if not benchmark.tasks():
        raise UnknownName(f"{benchmark.name} has no cases to run: give Tools(..., cases=[...])")
    check_script(benchmark, models)
    if benchmark.reset and shared:
        reason = f"the cases of {benchmark.name} share what `reset` brings to its beginning, so that one runs at a time"
        raise UnknownName(f"{reason}: leave --workers and --ray out")
    if episodes > 1 and (lasting := benchmark.lasting_tools()):
        reason = f"{episodes} runs of each case would repeat what {', '.join(lasting)} did, and nothing undoes it"
        raise UnknownName(f"{reason}: {UNDO_ADVICE}")


def check_methods(methods: Iterable[ComparedMethod], benchmark: Benchmark) -> None:
    """Check that no method of a comparison asks for approval, as `check_unattended` does.

    A graph of the user's own is built only for tools, which are imported already.
    """
    for method in methods:
        if isinstance(benchmark, Tools) and method.graph not in GRAPHS:
            check_unattended(method.build())
        elif _names_slot(method.operators, APPROVE.name):
            raise _unattended_error(method.graph)


# What results depend on besides the settings of a plan: the goals of the user's cases, and the user's code.


def add_digests(plan: ComparisonPlan, benchmark: Benchmark) -> ComparisonPlan:
    """Return a plan with digests of the goals of the user's own cases and of the source of the user's own code."""
    own = dict(_own_operators(plan.methods))
    goals = {}
    if isinstance(benchmark, Tools):
        own |= benchmark.own_functions()
        goals = {task.id: _digest(task.goal) for task in benchmark.tasks() if task.id in plan.tasks}
    return plan.model_copy(update={"goals": goals, "sources": dict(sorted(_source_digests(own)))})


def _own_operators(methods: Iterable[ComparedMethod]) -> Iterator[tuple[str, Callable[..., object]]]:
    for method in methods:
        named = [spec["name"] for spec in method.operators.values() if isinstance(spec, dict) and "name" in spec]
        for name in (method.graph, *map(str, named)):
            if ":" in name and callable(function := import_named(name, "operator")):
                yield name, function


def _source_digests(own: Mapping[str, Callable[..., object]]) -> Iterator[tuple[str, str]]:
    """Yield a name and a digest for each function whose source is there, and for each file with one."""
    for name, function in own.items():
        written = inspect.unwrap(function)
        written = written if inspect.isroutine(written) or inspect.isclass(written) else type(written)
        try:
            path = Path(inspect.getsourcefile(written) or "")
            if is_users_file(str(path)):
                yield name, _digest(inspect.getsource(written))
                if path.is_file():  # cells of a notebook are in none
                    yield path.name, _digest(path.read_text(encoding="utf-8", errors="replace"))
        except (OSError, TypeError):  # written in a console, or in C
            continue


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]
