"""Operators that wrap another one take it in every form, and keep what it returned."""

import asyncio
from functools import partial
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda
from langgraph.runtime import Runtime

from certigraph import Action, Context, Observation, Operator, Predicate, Verdict, capped
from certigraph.nodes.operators import call_operator

STATE: dict[str, Any] = {
    "tail": (Predicate(text="a"), Predicate(text="b")),
    "action": Action(text="go"),
    "observation": Observation(text="a, b"),
}


def verdict(state: Any) -> dict[str, Verdict]:
    return {"verdict": Verdict(depth=len(state["tail"]))}


def plain(state: Any, runtime: Runtime[Context]) -> dict[str, Verdict]:
    return verdict(state)


async def asynchronous(state: Any, runtime: Runtime[Context]) -> dict[str, Verdict]:
    return verdict(state)


async def with_prefix(prefix: str, state: Any, runtime: Runtime[Context]) -> dict[str, Verdict]:
    return verdict(state)


class Judge:
    def __call__(self, state: Any, runtime: Runtime[Context]) -> dict[str, Verdict]:
        return verdict(state)


FORMS: dict[str, Operator] = {
    "plain function": plain,
    "async function": asynchronous,
    "partial": partial(with_prefix, "x"),
    "callable object": Judge(),
    "method": Judge().__call__,
    "runnable": RunnableLambda(verdict),
}


@pytest.mark.parametrize("operator", FORMS.values(), ids=FORMS.keys())
def test_an_operator_is_called_in_every_form(operator: Operator):
    update = asyncio.run(call_operator(operator, STATE, Runtime(context=Context())))
    assert update == {"verdict": Verdict(depth=2)}


def test_a_wrapper_caps_what_a_plain_function_returned():
    update = asyncio.run(call_operator(capped(plain, depth=1), STATE, Runtime(context=Context())))
    assert update["verdict"].depth == 1
