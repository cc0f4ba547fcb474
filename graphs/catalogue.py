"""Operators by name, with the slots of graphs that take them: certigraph's own, and those that benchmarks bring."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from itertools import chain
from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import benchmark_of, find_benchmark, shipped_benchmarks, split_name
from certigraph.adapters.protocols import Context
from certigraph.nodes.operators import call_operator
from certigraph.nodes.slots import operators_for
from certigraph.nodes.specs import Spec
from certigraph.state.endings import UnknownName

OPERATOR_SLOTS: Mapping[str, Mapping[str, str]] = {
    "graphs.hypotheses": {"explore": "explore"},
    "graphs.tdp": {"solve": "solve"},
    "nodes.belief_checks": {
        "filtered": "memory, extract",
        "grounded": "memory, extract",
    },
    "nodes.beliefs": {
        "freeform": "memory, extract",
        "lobotomized": "memory, extract",
        "native": "memory, extract",
        "structured": "memory, extract",
    },
    "nodes.commitments": {"commit": "commit"},
    "nodes.factored_states": {
        "extract_state": "extract",
        "goal_by_rules": "interpret",
        "interpret_goal": "interpret",
        "offline_goal": "interpret",
        "prompted_goal": "interpret",
        "prompted_state": "extract",
        "state_by_rules": "extract",
    },
    "nodes.gates": {
        "either": "gate",
        "exhaustion_gate": "gate",
        "gap_gate": "gate",
        "judged_gate": "gate",
        "no_gate": "gate",
        "resampling": "gate",
        "satisfied_gate": "gate",
        "shadow": "gate",
        "smooth_gate": "gate",
    },
    "nodes.goal_checks": {
        "recheck": "revalidate",
        "votes": "audit",
        "world_check": "audit",
    },
    "nodes.lookahead": {
        "appraise": "appraise",
        "choose_by_reward": "choose",
        "greedy": "choose",
        "listed": "propose",
        "predicted": "imagine",
        "propose_actions": "propose",
        "rehearsed": "imagine",
        "reward_guided": "realize",
        "shortlisted": "propose",
    },
    "nodes.mcts": {
        "backpropagate": "backpropagate",
        "most_visited": "choose",
        "select": "select",
    },
    "nodes.memgpt": {
        "manage": "decide",
        "use_memory": "use_memory",
    },
    "nodes.plans": {
        "plan": "plan",
        "supervise": "supervise",
    },
    "nodes.react": {
        "decide": "decide, execute",
        "decide_freely": "decide, execute, executor",
        "execute": "execute, executor",
        "pursue": "decide",
    },
    "nodes.rewards": {
        "constant": "rate",
        "judge_reward": "rate",
        "monotonic": "rate",
        "route": "route",
        "supervised": "rate",
    },
    "nodes.sdp": {
        "always_pass": "validate",
        "capped": "validate",
        "give_up": "replan",
        "realize": "realize",
        "replan": "replan",
        "validate": "validate",
    },
    "nodes.search": {
        "abstain": "answer",
        "aggregate": "aggregate",
        "answer": "answer",
        "generate": "decide",
        "hypothesise": "hypothesise",
        "reason": "decide",
        "retrieving": "realize, decide",
    },
    "nodes.lessons": {
        "gain_insights": "memory",
        "memorise": "memory",
        "reflect": "reflect",
    },
    "nodes.step": {
        "align": "align",
        "assess": "assess",
        "assess_when_due": "assess",
        "execute_subtask": "executor",
        "none": "planner",
        "planner": "planner",
    },
    "nodes.tdp": {
        "decompose": "decompose",
        "revise": "revise",
        "undivided": "decompose",
        "unrevised": "revise",
    },
    "nodes.world": {"act": "act, deliver"},
}
"""Certigraph's operators, and functions that create operators, by the module that defines them, with their slots."""


class _Operators(Mapping[str, Callable[..., Any]]):
    """Operators by name. A module is imported only when one of its operators is needed.

    Only certigraph's own are listed. Those of a benchmark are found by `BENCHMARK.OPERATOR`.
    """

    def __init__(self) -> None:
        self._modules = {name: module for module, names in OPERATOR_SLOTS.items() for name in names}

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name in self._modules:
            operator: Callable[..., Any] = getattr(import_module(f"certigraph.{self._modules[name]}"), name)
            return operator
        if found := find_benchmark_operator(name):
            return found
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


OPERATORS: Mapping[str, Callable[..., Any]] = _Operators()
"""Operators by name. A command line may use these names."""


def find_benchmark_operator(name: str) -> Callable[..., Any] | None:
    """Return the operator of a benchmark, or the function that creates it; None if the name is none of a benchmark's.

    Nothing of a user's is imported: a benchmark of a user must have been loaded in this process. In a run on that
    benchmark the operator is the one of its configuration.
    """
    base, _, operator = name.rpartition(".")
    benchmark = find_benchmark(base) if base else None
    operators: Mapping[str, Any] = operators_for(benchmark) if benchmark else {}
    found: Callable[..., Any] | None = operators.get(operator)
    if found is None or getattr(found, "makes_operator", False):
        return found

    async def run_operator(state: Any, runtime: Runtime[Context]) -> dict[str, Any]:
        task = state["task"]
        own = split_name(task.benchmark)[0] == base
        configured: Mapping[str, Any] = operators_for(benchmark_of(task, runtime)) if own else {}
        return await call_operator(configured.get(operator, found), state, runtime)

    run_operator.__doc__, run_operator.spec = inspect.getdoc(found), Spec(name=name)  # type: ignore[attr-defined]
    return run_operator


def near_operators(name: str) -> list[str]:
    """Return the names of operators that are similar to an unknown one, those of shipped benchmarks included."""
    by_word: dict[str, list[str]] = {own: [own] for own in OPERATORS}
    for benchmark in map(find_benchmark, shipped_benchmarks()):
        named = {**{own: own for own in operators_for(benchmark)}, **benchmark.former_names} if benchmark else {}
        for word, own in named.items():
            by_word.setdefault(word, []).append(f"{benchmark.name}.{own}" if benchmark else own)
    return [found for near in get_close_matches(name.rpartition(".")[2], by_word) for found in by_word[near]][:MAX_NEAR]


MAX_NEAR = 4
"""Number of similar names in a message."""


def summarize_operator(name: str) -> str:
    """Return what one of certigraph's operators does: the first line of its docstring; empty for any other name."""
    return (inspect.getdoc(OPERATORS[name]) or "").partition("\n")[0] if name in OPERATORS else ""


@cache
def slots_by_operator() -> Mapping[str, Sequence[str]]:
    """Return the slots of each operator, in the order of the operators' names."""
    named = chain.from_iterable(slots.items() for slots in OPERATOR_SLOTS.values())
    return {name: slots.split(", ") for name, slots in sorted(named)}


ACTION_SLOTS = frozenset({"decide", "execute", "executor", "realize"})
"""Slots that choose an action: an operator of one of them may stand in the others, whose views may show it enough."""


def check_slot(slot: str, name: str) -> None:
    """Check that a slot takes an operator, if it is one of certigraph's.

    Raises:
        UnknownName: it does not; the message names the slots of the operator, and the operators of the slot.
    """
    slots, known = slots_by_operator(), _slots_of(name)
    takes = {*(known or [slot])}
    if takes & ACTION_SLOTS:
        takes |= ACTION_SLOTS
    if slot not in takes:
        fitting = ", ".join(operator for operator, names in slots.items() if slot in names)
        own = f"; certigraph's operators of {slot} are {fitting}" if fitting else ""
        raise UnknownName(f"{slot}={name}: {name} is an operator of {' and '.join(known)}{own}")


def _slots_of(name: str) -> Sequence[str]:
    """Return the slots that take an operator; none if they are unknown."""
    base, _, operator = name.rpartition(".")
    benchmark = find_benchmark(base) if base else None
    declared = benchmark.operator_slots if benchmark else {}
    known = [declared[operator]] if operator in declared else []
    return slots_by_operator().get(operator, known) if benchmark else slots_by_operator().get(name, known)


__all__ = [
    "OPERATORS",
    "OPERATOR_SLOTS",
    "check_slot",
    "find_benchmark_operator",
    "near_operators",
    "slots_by_operator",
    "summarize_operator",
]
