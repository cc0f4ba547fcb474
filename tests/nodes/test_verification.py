"""verify: whether conditions hold by the messages of an agent, whatever framework wrote them."""

import asyncio
import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

import certigraph
from certigraph import Forbidden

REFUNDED, CLOSED = "Order 17 is refunded.", "The ticket of order 17 is closed."


def call(name: str, id: str, **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": id, "type": "tool_call"}])


CONVERSATION = [
    HumanMessage("Refund order 17."),
    call("look_up", "1", order=17),
    ToolMessage("order 17: paid 64.00 euros", tool_call_id="1"),
    AIMessage("Shall I refund 64.00 euros?"),
    HumanMessage("Yes."),
    call("refund", "2", order=17, amount=64.0),
    ToolMessage("refunded 64.0 euros of order 17", tool_call_id="2"),
    AIMessage("Order 17 was refunded."),
]


def as_openai(message: Any) -> dict[str, Any]:
    match message:
        case HumanMessage():
            return {"role": "user", "content": message.text}
        case ToolMessage():
            return {"role": "tool", "content": message.text, "tool_call_id": message.tool_call_id}
    calls = [
        {"id": one["id"], "type": "function", "function": {"name": one["name"], "arguments": json.dumps(one["args"])}}
        for one in message.tool_calls
    ]
    return {"role": "assistant", "content": message.text, **({"tool_calls": calls} if calls else {})}


FORMS = pytest.mark.parametrize(
    "messages", [CONVERSATION, list(map(as_openai, CONVERSATION))], ids=["LangChain", "OpenAI"]
)


def is_refunded(order: int, calls: tuple[certigraph.AnsweredCall, ...]) -> tuple[bool, str]:
    found = [one for one in calls if one.tool == "refund" and one.args["order"] == order]
    return bool(found), found[0].answer if found else "there is no refund"


@FORMS
def test_code_decides_without_a_model(messages: list[Any]):
    found = certigraph.verify(messages, [REFUNDED, CLOSED], checks={"Order {order} is refunded.": is_refunded})
    assert (found.holds, found.open) == (False, (CLOSED,))
    assert found.evidence == {REFUNDED: "refunded 64.0 euros of order 17"}
    assert found.decided_by == {REFUNDED: "code"}


@FORMS
def test_a_model_decides_by_words_of_all_turns(messages: list[Any]):
    prompts = list[str]()
    model = certigraph.ScriptedChat(responder=lambda prompt, schema: [prompts.append(prompt), VERDICT][1])
    found = certigraph.verify(messages, [REFUNDED, CLOSED], model=model)
    assert (found.open, found.decided_by, found.missing) == ((CLOSED,), {REFUNDED: "model"}, "Close the ticket.")
    assert "paid 64.00 euros" in prompts[0] and "refunded 64.0" in prompts[0]


VERDICT = {
    "reason": "seen",
    "missing": "Close the ticket.",
    "holds": [
        {"condition": 1, "reason": "seen", "evidence": "refunded 64.0 euros of order 17"},
        {"condition": 2, "reason": "seen", "evidence": "the ticket of order 17 is closed now"},
    ],
}


@FORMS
def test_rules_judge_each_call_by_what_was_known_before_it(messages: list[Any]):
    def at_most(call: Any, facts: Any) -> Any:
        paid = str(facts["orders"])
        return (
            Forbidden("No more than was paid is refunded.", paid, "Refund less.") if call.args["amount"] > 50 else None
        )

    found = certigraph.verify(messages, rules={"refund": at_most}, facts={"look_up": "orders[order]"})
    assert not found.holds
    assert [(one.tool, one.rule) for one in found.forbidden] == [("refund", "No more than was paid is refunded.")]
    assert "64.00" in found.forbidden[0].fact


def test_it_works_inside_an_event_loop_too():
    checks = {"Order {order} is refunded.": is_refunded}
    assert asyncio.run(certigraph.averify(CONVERSATION, [REFUNDED], checks=checks)).holds


def test_a_question_at_the_end_is_judged_like_any_answer():
    ended = [*CONVERSATION[:-1], AIMessage("Order 17 was refunded. Is there anything else I can help you with?")]
    found = certigraph.verify(ended, model=certigraph.ScriptedChat(responder=lambda prompt, schema: VERDICT))
    assert (found.holds, found.missing) == (False, "Close the ticket.")


def test_answered_calls_count_although_another_one_was_cut_off():
    cut = AIMessage("", tool_calls=[*CONVERSATION[5].tool_calls, *call("mail", "3", order=17).tool_calls])
    found = certigraph.verify(
        [*CONVERSATION[:5], cut, CONVERSATION[6]], [REFUNDED], checks={"Order {order} is refunded.": is_refunded}
    )
    assert found.holds


def test_nothing_to_go_by_is_refused():
    with pytest.raises(ValueError, match="model="):
        certigraph.verify(CONVERSATION)
