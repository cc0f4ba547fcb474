"""What a comparison is: which methods on which tasks with what, written down before its first run and held to after."""

import datetime
import json
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import JsonValue, ValidationError

from certigraph.adapters.context import Budget, Context
from certigraph.adapters.protocols import Limits
from certigraph.evaluation.settings import (
    AnyGraph,
    build_graph,
    operators_of,
    parse_swap,
    rebuilt_graph,
    shareable,
    versions,
)
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Record

FILE = "comparison.json"

SHOWN = 5
"""Differences between two plans that are named; more say nothing new."""


class Method(Record):
    """A graph with its operators, under the name it has in tables; the graph's own name unless given another."""

    name: str
    graph: str
    operators: dict[str, JsonValue]

    def build(self) -> AnyGraph:
        """The compiled graph."""
        return rebuilt_graph(self.graph, self.operators)


class Plan(Record):
    """Everything that decides a comparison's figures, and where and when it was begun."""

    benchmark: str
    methods: tuple[Method, ...]
    tasks: tuple[str, ...]
    model: str
    roles: dict[str, str]
    data: str
    budget: Budget
    limits: Limits
    versions: dict[str, str]
    machine: str
    created: str


CIRCUMSTANCES = {"versions", "machine", "created"}
"""Parts of a plan that may change while it is carried out."""


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
    return tuple(_method(name, graph, chosen[name]) for name, graph in graphs.items())


def plan_of(benchmark: str, methods: Sequence[Method], tasks: Sequence[str], context: Context) -> Plan:
    """The plan of these methods on these tasks; the context has its limits set."""
    shared = shareable(context)
    return Plan(
        benchmark=benchmark,
        methods=tuple(methods),
        tasks=tuple(dict.fromkeys(tasks)),
        model=_named(context.model),
        roles={role: _named(model) for role, model in context.roles.items()},
        data=str(shared["data"]),
        budget=context.budget,
        limits=context.limits or Limits(),
        versions={**versions(), "python": platform.python_version()},
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def read_plan(folder: Path) -> Plan:
    """The plan of a folder. Raises Fault where there is none, or one that cannot be read."""
    path = folder / FILE
    if not path.is_file():
        raise Fault(
            "data", f"{folder} holds no comparison: name methods, --on BENCHMARK and --model to begin one there"
        )
    try:
        return Plan.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise Fault(
            "data", f"{path} is no plan ({error.errors()[0]['msg']}): restore it or use another --out"
        ) from error


def settle(plan: Plan, folder: Path) -> None:
    """Write the plan into its folder, or make sure that it is the one the folder was begun with.

    Raises:
        Fault: the folder holds another comparison; the message says what differs.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / FILE).is_file():
        draft = folder / f"{FILE}.tmp"  # renamed when whole: a killed process leaves no half plan
        draft.write_text(plan.model_dump_json(indent=1), encoding="utf-8")
        draft.replace(folder / FILE)
    elif found := differences(read_plan(folder), plan):
        more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        told = "; ".join(found[:SHOWN]) + more
        fix = f"go on with that one by `certigraph compare --out {folder}`, or begin this one in another --out"
        raise Fault("data", f"{folder} holds another comparison ({told}): {fix}")


def differences(there: Plan, here: Plan) -> list[str]:
    """What two plans do not have in common, in words; circumstances aside."""
    one, other = (dict(_flat(plan.model_dump(mode="json", exclude=CIRCUMSTANCES))) for plan in (there, here))
    keys = [key for key in {**one, **other} if one.get(key) != other.get(key)]
    return [f"{key}: {_told(one.get(key))} there, {_told(other.get(key))} here" for key in keys]


def _method(name: str, graph: str, swaps: Sequence[str]) -> Method:
    return Method(name=name, graph=graph, operators=operators_of(build_graph(graph, dict(map(parse_swap, swaps)))))


def _named(model: str) -> str:
    """The model by the file that answers where it is a local one: `local` alone may stand for several."""
    if model.partition(":")[0] != "local":
        return model
    from certigraph.adapters.models.local import weights

    return f"local:{weights(model).name}"


def _flat(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(value, (Mapping, list)):
        yield at, value
        return
    for key, part in value.items() if isinstance(value, Mapping) else enumerate(value, 1):
        yield from _flat(part, f"{at}.{key}" if at else str(key))


def _told(value: Any) -> str:
    return "nothing" if value is None else json.dumps(value, ensure_ascii=False)
