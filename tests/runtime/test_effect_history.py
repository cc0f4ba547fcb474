"""Effects read from trajectories: of graphs inside nodes, of resumed runs, and of real runs over tools."""

import json
from typing import Any

import pytest
from helpers.sample_runs.effect_runs import EffectTape, do, look

import certigraph
from certigraph.adapters.models.schemas import Schema, minimal_instance
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.cli.output import _result_fields
from certigraph.graphs.agent import agent
from certigraph.nodes.tdp import decompose_always
from certigraph.runtime.effect_history import read_effects
from certigraph.runtime.result import Result
from certigraph.state.effects import effects_of
from certigraph.state.trajectory import Resumed, assemble_trajectory


def test_effects_have_their_check_and_their_certificate():
    tape = EffectTape("refunded", "closed").check("refund", args={"order": 1}, rule="the price of the item")
    tape.act(do("refund", order=1)).judge().act(look("read", "ok")).judge(1, decided_by="code")
    tape.act(do("close", order=1)).judge(1)
    refund, close = read_effects(tape.trajectory("goal").events).effects
    assert (refund.certificate, refund.conditions) == (0, ("refunded",))
    assert refund.check.rule == "the price of the item"
    assert (close.certificate, close.check) == (None, None)


def test_calls_that_were_denied_are_no_effects():
    denied = do("refund", "no", order=1).model_copy(update={"made": False})
    tape = EffectTape("refunded").check("refund", "forbidden", args={"order": 1}).act(denied)
    history = read_effects(tape.trajectory().events)
    assert history.effects == []
    assert [one.check.tool for one in history.refused] == ["refund"]


def test_sub_tasks_have_logs_of_their_own():
    tape = EffectTape("paid", graph="tdp").enter("pay").act(do("pay")).judge(1, decided_by="code")
    tape.enter("mail", steps=1).act(do("mail"))
    pay, mail = read_effects(tape.trajectory().events).effects
    assert (pay.subtask, pay.action, pay.certificate) == ("pay", 1, 0)
    assert (mail.subtask, mail.action, mail.certificate) == ("mail", 1, None)


def test_work_that_a_resume_repeats_is_listed_once():
    tape = EffectTape("paid").act(do("pay"))
    lines = [tape.header, *tape.lines, Resumed(superstep=len(tape.lines) - 1), tape.lines[-1]]
    assert [str(one) for one in read_effects(assemble_trajectory(lines).events).effects] == ["pay()"]


def test_a_new_episode_keeps_earlier_calls_only_as_numbers():
    tape = EffectTape("paid").check("pay").act(do("pay"))
    kept = do("pay").as_json()
    tape.actions = 0
    tape.event("reset", ("history", "answers"), history=[], answers=[kept]).act(do("pay"))
    [effect] = read_effects(tape.trajectory().events).effects
    assert (effect.number, effect.action, effect.check) == (2, 1, None)


# Real runs.

CALLS = [("look_up", {"order": 17}), ("refund", {"order": 17}), ("finish", {"answer": "Order 17 is refunded."})]


def look_up(order: int) -> str:
    """Look up an order."""
    return f"order {order} was delivered 9 days ago"


REFUNDED: list[int] = []


@pytest.fixture(autouse=True)
def _forget_refunds() -> None:
    REFUNDED.clear()


def refund(order: int) -> str:
    """Refund an order."""
    REFUNDED.append(order)
    return f"refunded 49.9 euros for order {order}"


def is_refunded(order: str) -> bool:
    """Whether an order is refunded."""
    return int(order) in REFUNDED


def respond(prompt: str, schema: Schema) -> Any:
    fields = schema.get("properties", {})
    if "conditions" in fields:
        return {"reasoning": "", "conditions": ["Order 17 is refunded."]}
    if "calls" in fields:
        name, args = CALLS[("delivered 9 days ago" in prompt) + ("refunded 49.9 euros" in prompt)]
        return {"thought": "", "calls": [{"name": name, "args": args}]}
    if "holds" in fields:
        return {"reason": "", "evidence": "", "by_calls": [2], "absence": "", "reachable": True, "holds": 1}
    if "nodes" in fields:
        return {"reasoning": "", "nodes": [{"id": "pay", "task": "Refund order 17.", "needs": []}]}
    if "status" in fields:
        return {**minimal_instance(schema), "status": "needs_more_steps"}
    return minimal_instance(schema)


def build(method: str, **options: Any) -> Any:
    return agent(
        method,  # type: ignore[arg-type]
        model=ScriptedChat(responder=respond),
        tools=[look_up, refund],
        effects={"look_up": "repeatable"},
        commitments=None,
        **options,
    )


def options_of(method: str) -> dict[str, Any]:
    if method == "tdp":
        return {"decompose": decompose_always}  # a single sub-task would be the whole task
    return {"checks": {"Order {order} is refunded.": is_refunded}} if method == "sdp" else {}


@pytest.mark.parametrize("method", ["sdp", "react", "tdp", "step", "plan_and_act"])
def test_an_agent_hands_back_its_effects(method: str) -> None:
    state = build(method, **options_of(method)).invoke({"goal": "Refund order 17."})
    [effect] = state["effects"]
    assert (effect["tool"], effect["args"], effect["failed"]) == ("refund", {"order": 17}, False)
    assert effect["answer"] == "refunded 49.9 euros for order 17"
    assert effect["subtask"] == ("pay" if method == "tdp" else "")
    if method == "sdp":
        assert "refunded" in state["certificates"][effect["certificate"]].targets[0].text
    json.dumps(state["effects"])  # plain JSON


def test_a_later_turn_lists_the_effects_of_its_own_calls() -> None:
    from langgraph.checkpoint.memory import InMemorySaver

    graph, thread = build("react", checkpointer=InMemorySaver()), {"configurable": {"thread_id": "t"}}
    assert len(graph.invoke({"goal": "Refund order 17."}, thread)["effects"]) == 1
    later = graph.invoke({"messages": [("user", "Thanks: refunded 49.9 euros, delivered 9 days ago.")]}, thread)
    assert later["effects"] == []


@pytest.mark.parametrize("method", ["sdp", "react", "tdp", "step"])
def test_the_trajectory_has_the_effects_of_a_run(method: str, tmp_path: Any) -> None:
    result: Result = certigraph.run(build(method, **options_of(method)), task="Refund order 17.", out=tmp_path)
    [effect] = result.effects
    assert (effect.tool, effect.args) == ("refund", {"order": 17})
    assert [one["tool"] for one in _result_fields(result)["effects"]] == ["refund"]
    again = Result(result.folder)  # from the file alone
    assert again.effects == result.effects
    if method != "tdp":
        assert effects_of(again.state) == again.effects
    if method == "sdp":
        [first, *_] = _result_fields(result)["certificates"]
        assert first["actions"] == ["look_up(order=17)", "refund(order=17)"]
