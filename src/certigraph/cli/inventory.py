"""Everything that a command line may name."""

import json
from collections.abc import Mapping
from typing import Any

import typer

from certigraph.adapters.benchmarks import BENCHMARKS, load_benchmark
from certigraph.adapters.models.chat import FORMS
from certigraph.evaluation.settings import GRAPHS, OPERATORS, build_graph, operators_of


def inventory() -> dict[str, Any]:
    """Everything that a command line may name."""
    return {
        "graphs": {name: list(operators_of(build_graph(name))) for name in GRAPHS},
        "benchmarks": {name: list(load_benchmark(name).configurations) for name in BENCHMARKS},
        "operators": sorted(OPERATORS),
        "models": FORMS.split(", "),
    }


def print_inventory(found: Mapping[str, Any], *, as_json: bool) -> None:
    """The inventory as one object or as lines."""
    if as_json:
        typer.echo(json.dumps(found))
        return
    for title, names in found.items():
        typer.echo(f"{title}:")
        for name in names:
            more = ", ".join(names[name]) if isinstance(names, dict) else ""
            typer.echo(f"  {name}{': ' + more if more else ''}")
