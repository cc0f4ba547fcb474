"""A sweep's graphs x variants as the methods of its comparisons, and its benchmarks as their orders."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from certigraph.adapters.context import Context
from certigraph.evaluation.budgets import context_from
from certigraph.evaluation.comparing.command import Choice, Order, order
from certigraph.evaluation.comparing.plan import Method, method_of
from certigraph.evaluation.settings import graph_module
from certigraph.evaluation.sweeping.asked import Case, Sweep
from certigraph.state.endings import UnknownName


class Expansion(NamedTuple):
    """The methods, each graph's own first where the file has it; and what is left out and why."""

    methods: tuple[Method, ...]
    left_out: tuple[str, ...]


def expanded(sweep: Sweep, *, import_own: bool = True) -> Expansion:
    """Every graph with every variant for which it has the slots.

    Args:
        sweep: what the file says.
        import_own: whether operators named `module:attribute` are imported; else their names are taken as they are.

    Raises:
        UnknownName: a graph, slot or operator is unknown, or no graph has the slots of a variant.
    """
    slots = {graph: slots_of(graph) for graph in sweep.graphs}
    methods: list[Method] = []
    left_out = [told for variant in sweep.operators if (told := _unfit(variant, slots))]
    for graph, mine in slots.items():
        for variant in sweep.operators:
            if set(variant) <= set(mine):
                _add(_varied(graph, variant, import_own=import_own), methods, left_out)
    return Expansion(tuple(methods), tuple(left_out))


def slots_of(graph: str) -> list[str]:
    """The slots whose operators may be exchanged, optional ones included. Raises UnknownName for an unknown graph."""
    return list(graph_module(graph).Operators.__annotations__)


def order_of(sweep: Sweep, case: Case, methods: tuple[Method, ...], home: Path) -> Order:
    """The comparison of the methods on one benchmark; `home` is the file's folder.

    Raises:
        UnknownName: a benchmark, split, task, role, model or budget is unknown.
        Fault: a key, weights, a server or data are missing.
    """
    chosen = sweep.choosing(case)
    choice = Choice(chosen.tasks, chosen.split, chosen.limit, sweep.trials, chosen.stratify)
    return order(methods, case.name, choice, _context(sweep, case, home))


def _context(sweep: Sweep, case: Case, home: Path) -> Context:
    roles = [f"{role}={model}" for role, model in sweep.roles.items()]
    budget = [f"{key}={value:.12g}" for key, value in sweep.budget.items()]
    data, cache = (str(home / Path(path).expanduser()) if path else None for path in (sweep.data, sweep.cache))
    context = context_from(sweep.model, roles, data, budget, case.name, cache)
    return context.model_copy(update={"faults": sweep.faults, "checkpoints": sweep.checkpoints})


def _varied(graph: str, variant: Mapping[str, str], *, import_own: bool) -> Method:
    name = f"{graph} {_named(variant)}" if variant else graph
    swaps = [f"{slot}={operator}" for slot, operator in variant.items()]
    return method_of(name, graph, swaps, import_own=import_own)


def _add(method: Method, methods: list[Method], left_out: list[str]) -> None:
    same = (m for m in methods if (m.graph, m.operators) == (method.graph, method.operators))
    if twin := next(same, None):
        left_out.append(f"{method.name} has the operators of {twin.name}: run once")
    else:
        methods.append(method)


def _unfit(variant: Mapping[str, str], slots: Mapping[str, list[str]]) -> str:
    """Which graphs a variant is not run in, and why; nothing where it fits all."""
    lacking = {graph: [slot for slot in variant if slot not in mine] for graph, mine in slots.items()}
    if all(lacking.values()):
        known = "; ".join(f"{graph}: {', '.join(mine)}" for graph, mine in slots.items())
        raise UnknownName(f"no graph of the sweep has the slots of {_named(variant)}; {known}")
    unfit = ", ".join(f"{graph} (no slot {', '.join(names)})" for graph, names in lacking.items() if names)
    return f"{_named(variant)} is not run in {unfit}" if unfit else ""


def _named(variant: Mapping[str, str]) -> str:
    return "+".join(f"{slot}={operator}" for slot, operator in variant.items()) or "its own operators"
