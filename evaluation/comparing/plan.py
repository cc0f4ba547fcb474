"""What a comparison is: which methods on which tasks, with what."""

import datetime
import os
import platform
from collections.abc import Sequence
from typing import NamedTuple

from pydantic import JsonValue

from certigraph.adapters.context import Budget, Context
from certigraph.adapters.protocols import Limits
from certigraph.evaluation.settings import (
    AnyGraph,
    build_graph,
    parse_swap,
    rebuilt_graph,
    shareable,
    versions,
)
from certigraph.graphs.assembly import operators_of
from certigraph.state.endings import UnknownName
from certigraph.state.records import Record


class Method(Record):
    """A graph with its operators, under the name it has in tables; the graph's own name unless given another."""

    name: str
    graph: str
    operators: dict[str, JsonValue]

    def build(self) -> AnyGraph:
        """The compiled graph."""
        return rebuilt_graph(self.graph, self.operators)


AND = " and "
"""Between the models of a comparison that has several."""


class Outline(NamedTuple):
    """What is compared: methods by name, on which tasks, how often each; `model` names all models, joined by AND."""

    benchmark: str
    model: str
    methods: tuple[str, ...]
    tasks: tuple[str, ...]
    trials: int = 1


class Plan(Record):
    """Everything that decides a comparison's figures, and where and when it was begun."""

    benchmark: str
    methods: tuple[Method, ...]
    tasks: tuple[str, ...]
    trials: int = 1
    """Runs of each method on each task."""
    model: str
    roles: dict[str, str]
    data: str
    budget: Budget
    limits: Limits
    faults: str = ""
    versions: dict[str, str]
    machine: str
    created: str

    @property
    def outline(self) -> Outline:
        """The plan without its circumstances."""
        models = AND.join(dict.fromkeys([self.model, *self.roles.values()]))
        return Outline(self.benchmark, models, tuple(m.name for m in self.methods), self.tasks, self.trials)


def methods_from(names: Sequence[str], swaps: Sequence[str] = ()) -> tuple[Method, ...]:
    """Methods as a command line names them: `GRAPH` or `NAME=GRAPH`, with swaps as `NAME:SLOT=OPERATOR`.

    Raises:
        UnknownName: a graph, slot or operator is unknown, a name is used twice, or a swap names no method.
    """
    graphs = {name: graph or name for name, _, graph in (text.partition("=") for text in names)}
    if len(graphs) < len(names):
        raise UnknownName(f"two methods of one name in {' '.join(names)}; write NAME=GRAPH, as in bare=step")
    chosen: dict[str, list[str]] = {name: [] for name in graphs}
    for text in swaps:
        name, _, swap = text.partition(":")
        if name not in chosen:
            raise UnknownName(f"--swap {text}: no method {name!r}; write METHOD:SLOT=OPERATOR for {', '.join(graphs)}")
        chosen[name].append(swap)
    return tuple(method_of(name, graph, chosen[name]) for name, graph in graphs.items())


def method_of(name: str, graph: str, swaps: Sequence[str], *, import_own: bool = True) -> Method:
    """A graph with swaps, `SLOT=OPERATOR`, under a name.

    Operators named `module:attribute` are imported, which runs the code of their module, unless `import_own` is false:
    then it is not known whether they exist.

    Raises:
        UnknownName: as `methods_from` does.
    """
    specs = dict(map(parse_swap, swaps))
    named = {} if import_own else {slot: spec for slot, spec in specs.items() if ":" in spec.name}
    built = build_graph(graph, {slot: spec for slot, spec in specs.items() if slot not in named})
    taken = {slot: spec.model_dump(mode="json") for slot, spec in named.items()}
    return Method(name=name, graph=graph, operators={**operators_of(built), **taken})


def plan_of(benchmark: str, methods: Sequence[Method], tasks: Sequence[str], context: Context, trials: int = 1) -> Plan:
    """The plan of these methods on these tasks; the context has its limits set."""
    shared = shareable(context)
    return Plan(
        benchmark=benchmark,
        methods=tuple(methods),
        tasks=tuple(dict.fromkeys(tasks)),
        trials=trials,
        model=_named(context.model),
        roles={role: _named(model) for role, model in context.roles.items()},
        data=str(shared["data"]),
        budget=context.budget,
        limits=context.limits or Limits(),
        faults=context.faults,
        versions={**versions(), "python": platform.python_version()},
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _named(model: str) -> str:
    """The model by the file that answers where it is a local one: `local` alone may stand for several."""
    if model.partition(":")[0] != "local":
        return model
    from certigraph.adapters.models.local import weights

    return f"local:{weights(model).name}"
