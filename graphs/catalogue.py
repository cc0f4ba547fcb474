"""All operators by name, with the slots of graphs that take them."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any

from certigraph.adapters.benchmarks import find_benchmark, shipped_benchmarks
from certigraph.nodes.catalogue import OPERATOR_SLOTS, Operators
from certigraph.nodes.tool_choices import operators_for
from certigraph.state.endings import UnknownName

ALL_SLOTS: Mapping[str, Mapping[str, str]] = {
    "graphs.hypotheses": {"explore": "explore"},
    "graphs.tdp": {"solve": "solve"},
    **OPERATOR_SLOTS,
}
"""Certigraph's operators, and functions that create operators, by the module that defines them, with their slots.

Two of them run graphs, and are defined where these are.
"""

OPERATORS: Mapping[str, Callable[..., Any]] = Operators(ALL_SLOTS)
"""Operators by name. A command line may use these names."""


def known_operators() -> Iterator[str]:
    """Yield the names of all operators, those of shipped benchmarks as `BENCHMARK.OPERATOR`."""
    yield from OPERATORS
    for benchmark in filter(None, map(find_benchmark, shipped_benchmarks())):
        yield from (f"{benchmark.name}.{name}" for name in operators_for(benchmark))


def summarize_operator(name: str) -> str:
    """Return what one of certigraph's operators does: the first line of its docstring; empty for any other name."""
    return (inspect.getdoc(OPERATORS[name]) or "").partition("\n")[0] if name in OPERATORS else ""


@cache
def slots_by_operator() -> Mapping[str, Sequence[str]]:
    """Return the slots of each operator, in the order of the operators' names."""
    named = chain.from_iterable(slots.items() for slots in ALL_SLOTS.values())
    return {name: slots.split(", ") for name, slots in sorted(named)}


def operators_for_slot(slot: str) -> list[str]:
    """Return the names of certigraph's operators that a slot takes."""
    return [operator for operator, slots in slots_by_operator().items() if slot in slots]


ACTION_SLOTS = frozenset({"decide", "execute", "executor", "realize"})
"""Slots that choose an action: an operator of one of them may stand in the others, whose views may show it enough."""


def check_slot(slot: str, name: str) -> None:
    """Check that a slot takes an operator, if it is one of certigraph's.

    Raises:
        UnknownName: it does not; the message names the slots of the operator, and the operators of the slot.
    """
    known = _slots_of(name)
    takes = {*(known or [slot])}
    if takes & ACTION_SLOTS:
        takes |= ACTION_SLOTS
    if slot not in takes:
        fitting = ", ".join(operators_for_slot(slot))
        own = f"; certigraph's operators of {slot} are {fitting}" if fitting else ""
        raise UnknownName(f"{slot}={name}: {name} is an operator of {' and '.join(known)}{own}")


def _slots_of(name: str) -> Sequence[str]:
    """Return the slots that take an operator; none if they are unknown."""
    base, _, operator = name.rpartition(".")
    benchmark = find_benchmark(base) if base else None
    declared = benchmark.operator_slots if benchmark else {}
    known = [declared[operator]] if operator in declared else []
    return slots_by_operator().get(operator, known) if benchmark else slots_by_operator().get(name, known)
