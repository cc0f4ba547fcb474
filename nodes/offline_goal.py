"""Interpret with hindsight: the goal as it looks in the state that the expert left (StateFactory, section 4.3).

The upper bound that dynamic interpretation is compared with; it sees the end of a demonstration, so it is no predictor.
"""

from collections.abc import Sequence
from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import benchmark_of
from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Operator
from certigraph.nodes.factorise import extract_state, interpret_goal
from certigraph.nodes.specs import factory
from certigraph.state.endings import Fault
from certigraph.state.factored import Entity, FactoredState
from certigraph.state.records import Task
from certigraph.state.rewarding import FactorView, Seen


@factory
def offline_goal(*, extract: Operator = extract_state, interpret: Operator = interpret_goal) -> Operator:
    """Follow the expert's trajectory to its end; the goal's objects and attributes with the values they have there.

    Args:
        extract: reads the expert's steps.
        interpret: says which objects and attributes the goal is about.

    Raises:
        Fault: ("data") in the graph, where the benchmark knows no expert's trajectory for the task.
    """

    async def offline_goal(state: FactorView, runtime: Runtime[Context]) -> dict[str, Any]:
        if state["goal"].entities:
            return {"goal": state["goal"]}
        task, known, goal = state["task"], FactoredState(), FactoredState()
        for step in _oracle(task, runtime):
            view = FactorView(task=task, step=step, factored=known, goal=goal)
            known = (await extract(view, runtime))["factored"]
            goal = (await interpret({**view, "factored": known}, runtime))["goal"]
        return {"goal": in_hindsight(goal, known)}

    return offline_goal


def in_hindsight(goal: FactoredState, final: FactoredState) -> FactoredState:
    """The goal with the values of the final state, wherever that has the same object with the same attribute."""
    return FactoredState(entities=tuple(_as_left(wanted, final.get(wanted.identity)) for wanted in goal.entities))


def _as_left(wanted: Entity, left: Entity | None) -> Entity:
    has = left.attributes if left else {}
    return Entity(
        identity=wanted.identity,
        attributes={name: has.get(name, value) for name, value in wanted.attributes.items()},
    )


def _oracle(task: Task, runtime: Runtime[Context]) -> Sequence[Seen]:
    benchmark = benchmark_of(task, runtime)
    found = getattr(benchmark, "oracle", None)
    steps: Sequence[Seen] = found(task) if found else ()
    if not steps:
        told = "only rewardprediction's own tasks have one; leave interpret=offline_goal away"
        raise Fault("data", f"{benchmark.name} knows no expert's trajectory for {task.id}: {told}")
    return steps
