"""Certigraph's operators by name, with the slots of graphs that take them."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import chain
from typing import Any

from certigraph.state.endings import UnknownName

OPERATOR_SLOTS: Mapping[str, Mapping[str, str]] = {
    "adapters.research.operators": {"force_accept": "answer"},
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
        "force_pass": "validate",
        "generate": "decide",
        "hypothesise": "hypothesise",
        "reason": "decide",
        "retrieving": "realize, decide",
        "unforced": "validate",
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


class _ShippedOperators(Mapping[str, Callable[..., Any]]):
    """Certigraph's operators by name. A module is imported only when one of its operators is needed."""

    def __init__(self) -> None:
        self._modules = {name: module for module, names in OPERATOR_SLOTS.items() for name in names}

    def __getitem__(self, name: str) -> Callable[..., Any]:
        operator: Callable[..., Any] = getattr(import_module(f"certigraph.{self._modules[name]}"), name)
        return operator

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


OPERATORS: Mapping[str, Callable[..., Any]] = _ShippedOperators()
"""Certigraph's operators by name. A command line may use these names."""


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
    slots = slots_by_operator()
    takes = {*slots.get(name, [slot])}
    if takes & ACTION_SLOTS:
        takes |= ACTION_SLOTS
    if slot not in takes:
        fitting = ", ".join(operator for operator, names in slots.items() if slot in names)
        own = f"; certigraph's operators of {slot} are {fitting}" if fitting else ""
        raise UnknownName(f"{slot}={name}: {name} is an operator of {' and '.join(slots[name])}{own}")


__all__ = ["OPERATORS", "OPERATOR_SLOTS", "check_slot", "slots_by_operator", "summarize_operator"]
