"""The inventory: all names that the command line accepts, as `certigraph list` shows them.

What certigraph ships is in inventory.json, so that the list appears without an import of every graph and benchmark.
After a change, write that file again with `python -m certigraph.cli.inventory`; a test compares the two.
"""

import json
from collections.abc import Collection, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import typer

from certigraph.adapters.imports import BENCHMARK_GROUP, check_names, distribution_of, installed
from certigraph.graphs import GRAPH_GROUP
from certigraph.state.endings import UnknownName

INVENTORY_FILE = "inventory.json"


def read_inventory() -> dict[str, Any]:
    """Return all names that the command line accepts, by kind; those of other distributions without importing them."""
    shipped = json.loads((files("certigraph.cli") / INVENTORY_FILE).read_text(encoding="utf-8"))
    installed_names = {
        "installed graphs": _describe_installed(GRAPH_GROUP, shipped["graphs"]),
        "installed benchmarks": _describe_installed(BENCHMARK_GROUP, shipped["benchmarks"]),
    }
    found = {kind: names for kind, names in installed_names.items() if names}
    first = {kind: shipped.pop(kind) for kind in ("graphs", "benchmarks")}
    return {**first, **found, **shipped}


def _describe_installed(group: str, shipped: Collection[str]) -> dict[str, str]:
    """Describe the entry points of a group without importing them.

    Of two that have the same name, certigraph's own (`shipped`) is used and hides the other.
    """
    hidden = "; hidden by certigraph's own of that name"
    return {
        name: f"{entry.value}, of {distribution_of(entry)}{hidden if name in shipped else ''}"
        for name, entry in sorted(installed(group).items())
    }


KINDS = ("graphs", "benchmarks", "operators", "models", "budget")
"""Kinds of names that can be chosen."""


def select_names(names_by_kind: Mapping[str, Any], chosen: Collection[str]) -> dict[str, Any]:
    """Select the names of kinds, and the slots of graphs with the operators that each takes; without a choice all.

    Raises:
        UnknownName: a chosen name is neither a kind nor a graph.
    """
    for name in chosen:
        if name.partition(":")[0] in names_by_kind["benchmarks"]:
            raise UnknownName(f"{name} is a benchmark: `certigraph list benchmarks` has what is known of it")
    check_names(chosen, [*KINDS, *names_by_kind["graphs"]], "no kind of names and no graph")
    selected = {kind: names for kind, names in names_by_kind.items() if not chosen or kind.split()[-1] in chosen}
    for graph in chosen:
        for slot in names_by_kind["graphs"].get(graph, ()):
            operators = names_by_kind["operators"].items()
            selected[f"{graph}: {slot}"] = {name: text for name, text in operators if slot in _slots_of(text)}
    return selected


def _slots_of(description: str) -> list[str]:
    return description[1 : description.index("]")].split(", ")


def print_inventory(names_by_kind: Mapping[str, Any], *, as_json: bool) -> None:
    """Print the inventory of names as one JSON object or as lines."""
    if as_json:
        typer.echo(json.dumps(names_by_kind))
        return
    for title, names in names_by_kind.items():
        note = " (after a name its configurations, used as NAME:CONFIGURATION)" if title == "benchmarks" else ""
        typer.echo(f"{title}{note}:")
        for name in names:
            details = names[name] if isinstance(names, dict) else ""
            description = details if isinstance(details, str) else ", ".join(details)
            typer.echo(f"  {name}{': ' + description if description else ''}")


# The content of the file, from the registries.


def collect_inventory() -> dict[str, Any]:
    """Collect the names that certigraph ships from its graphs, benchmarks, operators, models and limits."""
    from certigraph.adapters.benchmarks import load_benchmark, shipped_benchmarks
    from certigraph.adapters.models.chat_models import MODEL_FORMS
    from certigraph.adapters.protocols import Budget, Limits
    from certigraph.graphs.catalogue import slots_by_operator
    from certigraph.nodes.tool_choices import operators_for
    from certigraph.runtime.registry import GRAPHS, graph_slots
    from certigraph.runtime.result import ASK_BENCHMARK

    limits = {**Budget.model_fields, **Limits.model_fields}
    return {
        "graphs": {name: graph_slots(name) for name in GRAPHS},
        "benchmarks": {
            name: list(load_benchmark(name).configurations) for name in shipped_benchmarks() if name != ASK_BENCHMARK
        },
        "questions of your own": {ASK_BENCHMARK: f'certigraph {ASK_BENCHMARK} "QUESTION"'},
        "operators": {
            name: f"[{', '.join(slots)}] {_describe_operator(name)}" for name, slots in slots_by_operator().items()
        },
        "benchmarks' operators": {
            name: ", ".join(f"{name}.{operator}" for operator in operators_for(benchmark))
            for name in shipped_benchmarks()
            if (benchmark := load_benchmark(name)).operators()
        },
        "models": MODEL_FORMS.split(", "),
        "budget": {name: str(field.description) for name, field in sorted(limits.items())},
    }


def _describe_operator(name: str) -> str:
    """Describe an operator by its summary; a function that creates one also by its arguments."""
    import inspect

    from certigraph.graphs.catalogue import OPERATORS, summarize_operator

    summary, operator = summarize_operator(name), OPERATORS[name]
    if not getattr(operator, "makes_operator", False):
        return summary
    arguments = ", ".join(inspect.signature(operator).parameters)
    return f"{summary} Arguments: {arguments}." if arguments else summary


def write_inventory(path: Path) -> None:
    """Write the names that certigraph ships to a file."""
    path.write_text(json.dumps(collect_inventory(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_inventory(Path(__file__).with_name(INVENTORY_FILE))
