"""Prompts in an order that prefix caches serve: what lasts first, then what grows, then what changes with each call."""

import shutil
from collections.abc import Iterator

import pytest

import certigraph
from certigraph.nodes import decisions
from certigraph.runtime.prompts import PromptKind, collect_prompts, group_prompts

SHARE, EXECUTOR_SHARE = 0.6, 0.7
"""Least share of a kind's requests, from the third on, that an earlier one begins with too, the schema in front."""

LOWER = {
    # Sub-tasks of two or three actions: many requests are the first of a sub-task.
    ("tdp", "blocksworld:6-2", "executor"): 0.6,
    # Replans lie several actions apart, and each has another rest of the plan.
    ("sdp", "blocksworld:6-2", "planner"): 0.55,
    # Five short requests, each about another claim.
    ("sdp", "blocksworld:6-2", "validator"): 0.3,
    # Three short requests, each with another plan.
    ("plan_and_act", "hotpotqa:interactive:", "executor"): 0.65,
}
"""Bounds of kinds whose requests differ by nature."""

ERRORS = "simulated:act=0.3,seed=1"

CASES = (
    *(
        (graph, "blocksworld", "6-2", "")
        for graph in ("react", "step", "tdp", "plan_and_act", "plan_and_solve", "clin")
    ),
    *((graph, "blocksworld", "6-2", ERRORS) for graph in ("sdp", "step", "react_reward")),
    *((graph, "hotpotqa:interactive", "", "") for graph in ("react", "tdp", "step", "plan_and_act", "memgpt", "ircot")),
    ("sdp", "hotpotqa:interactive", "", "simulated:act=0.3"),
    ("tdp", "hotpotqa", "", ""),
)
NEEDS_JAVA = pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
SCIENCE = tuple(
    pytest.param(graph, "scienceworld", "", "", marks=[pytest.mark.slow, NEEDS_JAVA])
    for graph in ("react", "sdp", "step")
)


def kinds_of(graph: str, world: str, task: str, model: str, steps: int = 24) -> list[PromptKind]:
    live = certigraph.load_benchmark(world)
    return group_prompts(collect_prompts(graph, live, task or None, model=model, steps=steps).sent)


def unstable(kinds: list[PromptKind], graph: str, world: str, task: str) -> Iterator[str]:
    for kind in kinds:
        bound = EXECUTOR_SHARE if kind.role == "executor" else SHARE
        bound = LOWER.get((graph, f"{world}:{task}", kind.role), bound)
        if kind.stable_share is not None and kind.stable_share < bound:
            yield f"{kind.node} ({kind.role}) {kind.form}: {kind.stable_share:.0%} of {len(kind.prompts)} requests"


@pytest.mark.slow
@pytest.mark.parametrize(("graph", "world", "task", "model"), (*CASES, *SCIENCE))
def test_most_of_a_request_is_what_an_earlier_one_began_with(graph: str, world: str, task: str, model: str):
    kinds = kinds_of(graph, world, task, model)
    assert any(kind.stable_share is not None for kind in kinds)
    assert not list(unstable(kinds, graph, world, task))


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["react", "step"])
def test_a_counter_before_the_history_would_be_noticed(graph: str, monkeypatch: pytest.MonkeyPatch):
    class Counted(str):
        number = 0

        def __format__(self, spec: str) -> str:
            Counted.number += 1
            return f"Actions so far ({Counted.number}):"

    monkeypatch.setattr(decisions, "TURNS_HEADING", Counted())
    assert list(unstable(kinds_of(graph, "blocksworld", "6-2", ""), graph, "blocksworld", "6-2"))


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["react", "sdp", "step", "tdp", "react_reward", "mcts"])
def test_schemas_do_not_differ_from_request_to_request(graph: str):
    assert {kind.schemas for kind in kinds_of(graph, "blocksworld", "6-2", ERRORS, steps=6)} == {1}
