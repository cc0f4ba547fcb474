"""Operators by name, with the slots of graphs that take them: those in `nodes`, and those that benchmarks bring."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import benchmark_of, find_benchmark, split_name
from certigraph.adapters.protocols import Context
from certigraph.nodes.operators import call_operator
from certigraph.nodes.tool_choices import operators_for

OPERATOR_SLOTS: Mapping[str, Mapping[str, str]] = {
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
    "nodes.answer_audits": {"judge_answer": "audit"},
    "nodes.call_checks": {"check_calls": "check"},
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
        "execute_plan": "execute",
        "plan": "plan",
        "plan_always": "plan",
        "supervise": "supervise",
        "supervise_always": "supervise",
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
        "realize_one": "realize",
        "replan": "replan",
        "validate": "validate",
        "validate_always": "validate",
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
        "align_always": "align",
        "assess": "assess",
        "assess_when_due": "assess",
        "execute_subtask": "executor",
        "none": "planner",
        "planner": "planner",
    },
    "nodes.tdp": {
        "decompose": "decompose",
        "decompose_always": "decompose",
        "revise": "revise",
        "revise_always": "revise",
        "undivided": "decompose",
        "unrevised": "revise",
    },
    "nodes.world": {"act": "act, deliver"},
}
"""Certigraph's operators, and functions that create operators, by the module that defines them, with their slots."""


class Operators(Mapping[str, Callable[..., Any]]):
    """Operators by name. A module is imported only when one of its operators is needed.

    Only the listed ones are iterated over. Those of a benchmark are found by `BENCHMARK.OPERATOR`.
    """

    def __init__(self, slots: Mapping[str, Mapping[str, str]]) -> None:
        """List the operators of modules; `slots` is as OPERATOR_SLOTS."""
        self._modules = {name: module for module, names in slots.items() for name in names}

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


OPERATORS: Mapping[str, Callable[..., Any]] = Operators(OPERATOR_SLOTS)
"""Operators of this package and of benchmarks by name."""


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

    run_operator.__doc__, run_operator.__qualname__ = inspect.getdoc(found), name
    return run_operator
