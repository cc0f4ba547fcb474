"""Operators of any form, and what is reported when one returns or reads what its slot does not allow."""

import asyncio
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda
from langgraph.runtime import Runtime

import certigraph
from certigraph import Context
from certigraph.graphs import react, sdp
from certigraph.graphs.assembly import slot_names
from certigraph.nodes.operators import View, call_operator, check_update, to_call
from certigraph.nodes.sdp import capped, validate
from certigraph.runtime.registry import GRAPHS, graph_module
from certigraph.state.endings import Fault
from certigraph.state.records import Action, Predicate, Verdict
from certigraph.state.sdp import ValidateView

PASSED = Verdict(depth=1, reason="as if it held")


async def passing(state: Any, runtime: Any) -> dict[str, Any]:
    return {"verdict": PASSED}


def plain(state: Any, runtime: Any) -> dict[str, Any]:
    return {"verdict": PASSED}


def without_runtime(state: Any) -> dict[str, Any]:
    return {"verdict": PASSED}


def weighted(weight: int, state: Any, runtime: Any) -> dict[str, Any]:
    return {"verdict": PASSED.model_copy(update={"depth": weight})}


def returning_a_coroutine(state: Any, runtime: Any) -> Any:
    return passing(state, runtime)


class Passing:
    async def __call__(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"verdict": PASSED}

    def judge(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"verdict": PASSED}


FORMS = [
    *(passing, plain, without_runtime, partial(weighted, 1), Passing(), Passing().judge),
    *(returning_a_coroutine, RunnableLambda(without_runtime)),
]


@pytest.mark.parametrize("operator", FORMS)
def test_an_operator_is_called_inside_another_one_in_every_form(operator: Any):
    update = asyncio.run(call_operator(operator, {"tail": ()}, Runtime(context=Context())))
    assert update == {"verdict": PASSED}


def test_a_wrapper_cuts_what_its_operator_returned():
    state: Any = {"tail": (Predicate(text="a"),) * 3}
    for depth in (1, 2):
        wrapped = capped(partial(weighted, 3), depth=depth)
        assert asyncio.run(call_operator(wrapped, state, Runtime(context=Context())))["verdict"].depth == depth


@pytest.mark.slow
@pytest.mark.parametrize("operator", [*FORMS, capped(plain)])
def test_an_operator_may_be_any_callable_or_a_runnable(operator: Any):
    result = certigraph.run(sdp.build(validate=operator), "blocksworld", "3-0")
    assert not result.ending.startswith("error:"), result.message
    certificates = result.state["certificates"]
    assert certificates and all(len(certificate.targets) == 1 for certificate in certificates)


@pytest.mark.parametrize(
    ("operator", "value"),
    [
        (3, "validate=3"),
        ("always_pass", "always_pass"),
        (Passing, "Passing"),
        (capped, "capped"),
        (lambda: {}, r"\(\)"),
        (weighted, "weighted"),
    ],
)
def test_what_is_not_an_operator_is_refused_when_the_graph_is_built(operator: Any, value: str):
    with pytest.raises(TypeError, match=value):
        sdp.build(validate=operator)


@pytest.mark.parametrize(
    ("graph", "slot", "returned", "value"),
    [
        (sdp, "validate", {"verdict": 3}, "3 as verdict"),
        (sdp, "validate", None, "None"),
        (sdp, "validate", {"verdict": Verdict(depth=99)}, "99"),
        (sdp, "validate", {"verdict": PASSED, "depth": 1}, "depth, verdict"),
        (sdp, "propose", {"plan": ["a is on b"]}, "item 0 is 'a is on b'"),
        (sdp, "propose", {"plan": "a is on b"}, "'a is on b' as plan"),
        (react, "decide", {"action": Action(text="x"), "thought": None}, "None as thought"),
    ],
)
def test_a_wrong_return_names_slot_and_value(graph: Any, slot: str, returned: Any, value: str):
    async def mine(state: Any, runtime: Any) -> Any:
        return returned

    with pytest.warns(certigraph.RunFailedWarning):
        result = certigraph.run(graph.build(**{slot: mine}), "blocksworld", "3-0")
    assert result.ending == "error:operator"
    assert f"in slot {slot} " in result.message and value in result.message


def test_json_in_place_of_a_record_becomes_the_record():
    writes = {"verdict": Verdict, "plan": Sequence[Predicate]}
    update = check_update("slot", writes, "mine", {"verdict": {"depth": 1}, "plan": [{"text": "a is on b"}]})
    assert update == {"verdict": Verdict(depth=1), "plan": [Predicate(text="a is on b")]}


def test_a_function_that_makes_operators_learns_how_to_say_so():
    def upto(n: int = 2) -> Any:
        return passing

    with pytest.raises(Fault, match=r"decorated with certigraph\.factory"):
        check_update("validate", {"verdict": Verdict}, "upto", upto())


@pytest.mark.parametrize("read", [lambda state: state["history"], lambda state: state.get("history", ())])
def test_a_hidden_key_cannot_be_read(read: Any):
    async def curious(state: Any, runtime: Any) -> Any:
        read(state)
        return await validate(state, runtime)

    with pytest.warns(certigraph.RunFailedWarning):
        result = certigraph.run(sdp.build(validate=curious), "blocksworld", "3-0")
    assert result.ending == "error:operator"
    shown = ", ".join(sorted(ValidateView.__annotations__))
    assert f"curious in slot validate read 'history'; the slot shows {shown}" in result.message


def test_an_errors_own_key_is_not_taken_for_a_read_of_the_state():
    async def clumsy(state: Any, runtime: Any) -> Any:
        return {}["history"]

    with pytest.warns(certigraph.RunFailedWarning):
        result = certigraph.run(sdp.build(validate=clumsy), "blocksworld", "3-0")
    assert result.ending == "error:operator"
    assert "KeyError" in result.message and "the slot shows" not in result.message


def test_a_failure_inside_a_library_is_reported_where_the_operator_called_it():
    async def careless(state: Any, runtime: Any) -> Any:
        return {"verdict": Verdict(depth="one")}  # type: ignore[arg-type]

    with pytest.warns(certigraph.RunFailedWarning):
        result = certigraph.run(sdp.build(validate=careless), "blocksworld", "3-0")
    assert result.ending == "error:operator"
    assert "(test_operators.py:" in result.message and "in careless)" in result.message


def test_a_declared_key_that_is_not_set_has_a_default():
    view = View({"task": 1}, "slot", "mine", frozenset({"task", "advice"}))
    assert view.get("advice", "none") == "none"
    with pytest.raises(Fault, match="mine in slot slot read 'plan'; the slot shows task"):
        view.get("plan")


def slots_with_types() -> list[Any]:
    nodes = {}
    for name in GRAPHS:
        module = graph_module(name)
        nodes |= {(slot.name, tuple(slot.writes)): slot for slot in getattr(module, "SLOTS", ())}
    return [*nodes.values()]


@pytest.mark.parametrize("slot", slots_with_types(), ids=lambda slot: slot.name)
def test_every_slot_checks_every_key(slot: Any):
    with pytest.raises(Fault, match=f"mine in slot {slot.name} returned None"):
        check_update(slot.name, slot.writes, "mine", None)
    for key in slot.writes:
        with pytest.raises(Fault, match=rf"mine in slot {slot.name} returned \w*"):
            check_update(slot.name, slot.writes, "mine", dict.fromkeys(slot.writes, object()))
        with pytest.raises(Fault, match="it must return"):
            check_update(slot.name, slot.writes, "mine", {other: None for other in slot.writes if other != key})


@pytest.mark.parametrize("name", GRAPHS)
def test_the_keywords_of_build_are_the_slots_of_the_graph(name: str):
    build = graph_module(name).build
    keywords = slot_names(build)
    assert set(build().builder.nodes) <= {*keywords, "result"}
    for slot in keywords:
        graph = build(**{slot: passing})
        assert slot in {*graph.builder.nodes, *inner_slots(graph)}
    with pytest.raises(TypeError, match="no operator slot 'unheard_of'; this graph has"):
        build(unheard_of=passing)
    with pytest.raises(TypeError, match=f"no operator slot '{keywords[-1]}s'.*{keywords[-1]}"):
        build(**{f"{keywords[-1]}s": passing})


def inner_slots(graph: Any) -> set[str]:
    return {slot for _, inner in graph.get_subgraphs() for slot in inner.builder.nodes}


def test_plain_functions_do_not_block_the_event_loop():
    async def both() -> None:
        threads = set()

        def where(state: Any) -> dict[str, Any]:
            threads.add(threading.get_ident())
            return {}

        await asyncio.gather(*(to_call("slot", where)({}, None) for _ in range(2)))  # type: ignore[arg-type]
        assert threading.get_ident() not in threads

    asyncio.run(both())


def test_a_predicate_list_may_be_a_tuple():
    plan = (Predicate(text="a is on b"),)
    assert check_update("propose", {"plan": Sequence[Predicate]}, "mine", {"plan": plan}) == {"plan": plan}
