"""Everything that a command line may name."""

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

import typer

from certigraph.adapters.benchmarks import BENCHMARKS, load_benchmark
from certigraph.adapters.context import Budget
from certigraph.adapters.models.chat import FORMS
from certigraph.adapters.protocols import Limits
from certigraph.evaluation.report.graded import ASK
from certigraph.evaluation.settings import graph_module
from certigraph.evaluation.shipped import GRAPHS, OPERATORS


def inventory() -> dict[str, Any]:
    """Everything that a command line may name."""
    return {
        "graphs": {name: list(graph_module(name).Operators.__annotations__) for name in GRAPHS},
        "benchmarks": {name: list(load_benchmark(name).configurations) for name in BENCHMARKS if name != ASK},
        "questions of your own": {ASK: f'certigraph {ASK} "QUESTION"'},
        "operators": {name: _described(OPERATORS[name]) for name in sorted(OPERATORS)},
        "models": FORMS.split(", "),
        "budget": {name: str(field.description) for name, field in sorted(_AMOUNTS.items())},
    }


def print_inventory(found: Mapping[str, Any], *, as_json: bool) -> None:
    """The inventory as one object or as lines."""
    if as_json:
        typer.echo(json.dumps(found))
        return
    for title, names in found.items():
        typer.echo(f"{title}:")
        for name in names:
            told = names[name] if isinstance(names, dict) else ""
            more = told if isinstance(told, str) else ", ".join(told)
            typer.echo(f"  {name}{': ' + more if more else ''}")


_AMOUNTS = {**Budget.model_fields, **Limits.model_fields}


def _described(operator: Callable[..., Any]) -> str:
    """What an operator does, in the first line of its docstring; the arguments of one that is made with some."""
    does = (inspect.getdoc(operator) or "").partition("\n")[0]
    if not getattr(operator, "makes_operator", False):
        return does
    arguments = ", ".join(inspect.signature(operator).parameters)
    return f"{does} Arguments: {arguments}."
