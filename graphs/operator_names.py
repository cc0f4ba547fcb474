"""Names of the operators of a run: those by which its graph is built, and those that its header shows."""

from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from certigraph.adapters.benchmarks import find_benchmark, split_name
from certigraph.adapters.protocols import Benchmark, complete_benchmark
from certigraph.graphs.catalogue import OPERATORS
from certigraph.nodes.specs import Spec
from certigraph.nodes.tool_choices import operators_for
from certigraph.state.records import Task


def name_running_operators(
    specs: Mapping[str, JsonValue], operators: Mapping[str, Any], task: Task, benchmark: Benchmark
) -> dict[str, JsonValue]:
    """Return the specs of a graph's operators by slot, with the names of those that run on a task.

    Where the benchmark replaces a generic operator, this is the benchmark's: `travelplanner.propose`.

    Args:
        specs: the specs of the graph's operators by slot.
        operators: the operators themselves, as far as they are known.
        task: the task.
        benchmark: its benchmark.
    """
    live = complete_benchmark(benchmark.for_task(task))
    own = operators_for(live)
    prefix = split_name(task.benchmark)[0]

    def rename(spec: Spec, operator: Any) -> Spec:
        args = {
            key: rename(value, OPERATORS.get(value.name)) if isinstance(value, Spec) else value
            for key, value in spec.args.items()
        }
        unknown = operator is None or getattr(operator, "makes_operator", False)
        names = getattr(operator, "replaced_by", (spec.name,) if unknown else ())
        if special := next((name for name in names if name in own), ""):
            return Spec(name=f"{prefix}.{special}")
        named = f"{prefix}.{spec.name}" if spec.name in own and spec.name in live.operator_slots else spec.name
        return Spec(name=named, args=args)

    return {
        slot: rename(Spec.model_validate(spec), operators.get(slot)).model_dump(mode="json")
        for slot, spec in specs.items()
    }


def name_generic_operators(operators: Mapping[str, JsonValue], benchmark: str) -> dict[str, JsonValue]:
    """Return the specs in the header of a run on a benchmark with the names by which a graph is built again.

    This reverses `name_running_operators`, and reads the names of earlier versions (`Benchmark.former_names`).
    """
    declared, prefix = find_benchmark(benchmark), split_name(benchmark)[0]
    former, only_here = (declared.former_names, declared.operator_slots) if declared else ({}, {})

    def rename(spec: Spec) -> Spec:
        args = {key: rename(value) if isinstance(value, Spec) else value for key, value in spec.args.items()}
        name = f"{prefix}.{former[spec.name]}" if spec.name in former else spec.name
        generic = name.removeprefix(f"{prefix}.")
        return Spec(name=name if generic in only_here else generic, args=args)

    return {slot: rename(Spec.model_validate(spec)).model_dump(mode="json") for slot, spec in operators.items()}


def benchmark_operators(operators: Mapping[str, JsonValue], benchmark: str) -> dict[str, str]:
    """Return the operators that are the benchmark's own, as their names stand in a header, by slot."""
    specs = {slot: Spec.model_validate(spec) for slot, spec in operators.items()}
    prefix = f"{split_name(benchmark)[0]}."
    return {slot: str(spec) for slot, spec in specs.items() if spec.name.startswith(prefix)}
