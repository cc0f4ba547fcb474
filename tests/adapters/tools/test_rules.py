"""Rules: the user's functions that decide whether a call may be made, and the facts that they read."""

import asyncio
import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certigraph import Allow, Forbidden, Tools, Unknown
from certigraph.adapters.tools.rules import CallRules, RuleOutcome, load_rules, parse_fact_form
from certigraph.state.endings import Fault, LimitReached
from certigraph.state.run import AnsweredCall
from certigraph.state.tools import ToolCall

REFUND = ToolCall(name="refund", args={"order": "17", "amount": 64})
PAID = AnsweredCall(tool="get_order", args={"order": "17"}, answer='{"paid": 64, "state": "lost"}', lasting=False)


def declared(*rules: Any, facts: Any = None, after: Any = None) -> CallRules:
    return load_rules({"refund": list(rules)}, facts or {"get_order": "orders[order]"}, after or {})


def decide(rules: CallRules, *answers: AnsweredCall, call: ToolCall = REFUND, deadline: float = 5.0) -> RuleOutcome:
    [found] = asyncio.run(rules.decide([call], answers, deadline))
    return found


def no_more_than_paid(call: ToolCall, facts: Any) -> Any:
    order = facts.get("orders", {}).get(call.args["order"])
    if order is None:
        return Unknown(read="get_order")
    if call.args["amount"] > order["paid"]:
        return Forbidden("No more is refunded than was paid.", f"paid: {order['paid']}", f"Refund {order['paid']}.")
    return Allow()


# Facts.


def test_answers_stand_under_their_names_and_arguments() -> None:
    forms = {"get_order": "orders[order]", "read_policy": "policy", "price": "prices[city][day]"}
    rules = load_rules({}, forms, {})
    facts = rules.read_facts(
        [
            PAID,
            AnsweredCall(tool="read_policy", args={"name": "refunds"}, answer="Refunds are generous."),
            AnsweredCall(tool="price", args={"city": "Bonn", "day": 3}, answer="12.5"),
            AnsweredCall(tool="price", args={"city": "Bonn"}, answer="11"),
            AnsweredCall(tool="price", args={"city": ["Bonn", "Ulm"], "day": 3}, answer="1"),
            AnsweredCall(tool="other", args={}, answer="nothing is declared for it"),
        ]
    ).facts
    assert facts == {
        "orders": {"17": {"paid": 64, "state": "lost"}},
        "policy": "Refunds are generous.",
        "prices": {"Bonn": {3: 12.5, None: 11}, "['Bonn', 'Ulm']": {3: 1}},
    }


def test_a_later_answer_takes_the_place_of_an_earlier_one() -> None:
    later = PAID.model_copy(update={"answer": '{"paid": 10}'})
    assert declared().read_facts([PAID, later]).facts["orders"]["17"] == {"paid": 10}


def test_an_answer_is_read_after_a_note_about_its_call() -> None:
    noted = PAID.model_copy(update={"answer": f"(A person changed this call from get_order(order=1).)\n{PAID.answer}"})
    assert declared().read_facts([noted]).facts == declared().read_facts([PAID]).facts
    quoted = PAID.model_copy(update={"answer": "(see below)\nnot found"})
    assert declared().read_facts([quoted]).facts["orders"]["17"] == "(see below)\nnot found"


def test_an_answer_that_is_not_known_here_says_nothing() -> None:
    assert declared().read_facts([PAID.model_copy(update={"answer": ""})]).facts == {}


def test_a_correction_changes_what_an_answer_left_stale() -> None:
    def note_cabin(facts: Any, call: ToolCall, answer: Any) -> None:
        facts["orders"][call.args["order"]]["state"] = call.args["state"]

    forms = {"get_order": "orders[order]", "set_state": "orders[order]"}
    rules = declared(facts=forms, after={"set_state": note_cabin})
    stale = AnsweredCall(tool="set_state", args={"order": "17", "state": "found"}, answer=PAID.answer)
    assert rules.read_facts([PAID, stale]).facts["orders"]["17"] == {"paid": 64, "state": "found"}
    failed = stale.model_copy(update={"failed": True})
    assert rules.read_facts([PAID, failed]).facts["orders"]["17"]["state"] == "lost"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda part: st.lists(part, max_size=2) | st.dictionaries(st.text(max_size=2), part, max_size=2),
    max_leaves=4,
)
CALLS = st.builds(
    AnsweredCall,
    tool=st.sampled_from(["get_order", "set_state", "other"]),
    args=st.fixed_dictionaries({"order": VALUES, "state": VALUES}),
    answer=VALUES.map(json.dumps) | st.text(max_size=8),
    failed=st.booleans(),
    made=st.booleans(),
)


def keep_states(facts: Any, call: ToolCall, answer: Any) -> None:
    facts.setdefault("states", []).append([call.args["state"], answer])
    call.args["state"] = "changed by the correction"


@given(st.lists(CALLS, max_size=8))
def test_facts_depend_on_the_calls_that_succeeded_alone(calls: list[AnsweredCall]) -> None:
    rules = load_rules({}, {"get_order": "orders[order][state]"}, {"set_state": keep_states})
    before = [one.as_json() for one in calls]
    facts = rules.read_facts(calls).facts
    assert repr(facts) == repr(rules.read_facts([one for one in calls if one.made and not one.failed]).facts)
    assert [one.as_json() for one in calls] == before
    answered = [one for one in calls if one.tool == "get_order" and one.made and not one.failed and one.answer]
    assert bool(facts.get("orders")) == bool(answered)


# What rules decide.


def test_a_rule_reads_the_facts_and_decides() -> None:
    rules = declared(no_more_than_paid)
    assert decide(rules).decision == Unknown(read=("get_order",))
    assert decide(rules, PAID).decision == Allow()
    too_much = REFUND.model_copy(update={"args": {"order": "17", "amount": 79}})
    found = decide(rules, PAID, call=too_much).decision
    assert found == Forbidden("No more is refunded than was paid.", "paid: 64", "Refund 64.")


async def forbids(call: ToolCall, facts: Any) -> Any:
    return Forbidden("It is late.")


def allows(call: ToolCall, facts: Any) -> Any:
    return Allow()


def wants(call: ToolCall, facts: Any) -> Any:
    return Unknown(read=["get_order", "read_policy"])


def wants_more(call: ToolCall, facts: Any) -> Any:
    return Unknown(read="get_order")


def is_silent(call: ToolCall, facts: Any) -> Any:
    return None


def breaks(call: ToolCall, facts: Any) -> Any:
    raise KeyError("paid")


@pytest.mark.filterwarnings("ignore:a rule for")
@given(st.lists(st.sampled_from([forbids, allows, wants, wants_more, is_silent, breaks]), max_size=5))
def test_the_firmest_answer_of_several_rules_counts(rules: list[Any]) -> None:
    found = decide(declared(*rules), PAID).decision
    if forbids in rules:
        assert found == Forbidden("It is late.")
    elif wants in rules or wants_more in rules:
        assert isinstance(found, Unknown)
        assert set(found.read) == ({"get_order", "read_policy"} if wants in rules else {"get_order"})
    else:
        assert found == (Allow() if allows in rules and breaks not in rules else None)


def test_a_call_of_a_tool_without_rules_is_not_decided() -> None:
    assert decide(declared(forbids), call=ToolCall(name="mail")) == RuleOutcome()


def test_a_rule_that_raises_decides_nothing_and_says_so() -> None:
    with pytest.warns(UserWarning, match=re.escape("a rule for refund(") + ".*KeyError: 'paid'.*a model judges"):
        found = decide(declared(breaks, allows), PAID)
    assert (found.decision, "KeyError" in found.broken) == (None, True)


def test_a_rule_that_does_not_return_is_given_up() -> None:
    def hangs(call: ToolCall, facts: Any) -> Any:
        time.sleep(3)

    began = time.monotonic()
    with pytest.warns(UserWarning, match="0.1 seconds passed"):
        assert decide(declared(hangs), deadline=0.1).decision is None
    assert time.monotonic() - began < 2


def note_refund(facts: Any, call: ToolCall, answer: Any) -> None:
    facts["orders"][call.args["order"]].update(answer)


UPDATED = AnsweredCall(tool="update", args={"order": "17"}, answer='{"state": "held"}')
"""A call of an earlier turn, of which the answer that it corrects is known no more."""


@pytest.mark.filterwarnings("ignore:the facts of the rules are incomplete")
@pytest.mark.parametrize(
    ("rules", "decision"),
    [
        ([allows], None),
        ([allows, forbids], Forbidden("It is late.")),
        ([wants_more], Unknown(read=("get_order",))),
        ([is_silent], None),
    ],
)
def test_a_correction_that_raises_takes_away_what_rules_allow_and_nothing_else(rules: Any, decision: Any) -> None:
    found = decide(declared(*rules, after={"update": note_refund}), UPDATED, PAID)
    assert found.decision == decision
    assert ("after['update']: KeyError: 'orders'" in found.broken) == (decision is None)


def test_a_correction_that_raises_is_named_and_later_answers_are_read() -> None:
    rules = declared(no_more_than_paid, after={"update": note_refund})
    too_much = REFUND.model_copy(update={"args": {"order": "17", "amount": 79}})
    with pytest.warns(UserWarning, match=re.escape("the facts of the rules are incomplete (after['update']: KeyError")):
        assert isinstance(decide(rules, UPDATED, PAID, call=too_much).decision, Forbidden)


def test_a_correction_that_does_not_return_is_given_up_with_the_facts_before_it() -> None:
    def hangs(facts: Any, call: ToolCall, answer: Any) -> None:
        time.sleep(3)

    too_much = REFUND.model_copy(update={"args": {"order": "17", "amount": 79}})
    with pytest.warns(UserWarning, match=re.escape("incomplete (0.2 seconds passed)")):
        found = decide(declared(no_more_than_paid, after={"update": hangs}), PAID, UPDATED, call=too_much, deadline=0.2)
    assert isinstance(found.decision, Forbidden)


def test_a_rule_changes_neither_the_call_nor_what_other_rules_read() -> None:
    def changes(call: ToolCall, facts: Any) -> Any:
        call.args["amount"] = 1
        facts["orders"]["17"]["paid"] = 1_000

    too_much = REFUND.model_copy(update={"args": {"order": "17", "amount": 79}})
    found = decide(declared(changes, no_more_than_paid), PAID, call=too_much)
    assert isinstance(found.decision, Forbidden)
    assert too_much.args["amount"] == 79


def test_a_rule_that_returns_something_else_is_a_mistake_of_its_author() -> None:
    with pytest.raises(Fault, match=re.escape("the rule for 'refund' returned True: return Allow(), Forbidden(")):
        decide(declared(lambda call, facts: True))


def test_a_spent_budget_is_not_taken_for_a_mistake_of_a_rule() -> None:
    def spends(call: ToolCall, facts: Any) -> Any:
        raise LimitReached("calls", 1, 1)

    with pytest.raises(LimitReached):
        decide(declared(spends))


# Declarations.


@pytest.mark.parametrize(
    ("declarations", "error", "named"),
    [
        ({"rules": [allows]}, TypeError, 'give a dict by names of tools, such as {"refund_order"'),
        (
            {"rules": {"refund": "allows"}},
            TypeError,
            "rules['refund'] is 'allows': give a function, def rule(",
        ),
        ({"rules": {"refund": Allow}}, TypeError, "rules['refund'] is"),
        ({"rules": {"refund": [allows, 3]}}, TypeError, "rules['refund'] is 3"),
        ({"rules": {"refund": lambda call: None}}, ValueError, "rules['refund'] cannot be called"),
        ({"facts": {"get_order": keep_states}}, TypeError, "and functions in after="),
        ({"facts": {"get_order": "orders[order"}}, ValueError, "'orders[order' is not a name of facts"),
        ({"facts": {"get_order": "my orders"}}, ValueError, "'my orders' is not a name of facts"),
        ({"facts": {"get_order": "orders[order]", "list": "orders"}}, ValueError, "give one of them another name"),
        ({"after": {"refund": forbids}}, ValueError, "after['refund'] cannot be called"),
        ({"after": 3}, TypeError, "after=3"),
    ],
)
def test_a_declaration_of_another_form_is_refused(declarations: Any, error: Any, named: str) -> None:
    with pytest.raises(error, match=re.escape(named)):
        load_rules(**{"rules": {}, "facts": {}, "after": {}, **declarations})


async def correct_slowly(facts: Any, call: ToolCall, answer: Any) -> None:
    """Do nothing."""


def test_an_async_correction_is_refused() -> None:
    with pytest.raises(TypeError, match=re.escape("after['refund'] is async")):
        load_rules({}, {}, {"refund": correct_slowly})


def test_a_function_may_be_named_by_its_module() -> None:
    rules = load_rules({"refund": f"{__name__}:no_more_than_paid"}, {"get_order": "orders[order]"}, {})
    assert decide(rules, PAID).decision == Allow()


def get_order(order: str) -> str:
    """Get an order."""
    return "{}"


def refund(order: str, amount: float) -> str:
    """Refund an order."""
    return "ok"


@pytest.mark.parametrize(
    ("declarations", "named"),
    [
        ({"rules": {"refunds": allows}}, "rules names 'refunds', which is not a tool; the tools are get_order, refund"),
        ({"facts": {"orders": "orders"}}, "facts names 'orders', which is not a tool"),
        ({"facts": {"get_order": "orders[id]"}}, "facts['get_order'] names 'id'; the arguments of get_order are order"),
        ({"rules": {"get_order": allows}}, "rules names 'get_order', which may be repeated and changes nothing"),
    ],
)
def test_a_declaration_about_something_unknown_is_refused(declarations: Any, named: str) -> None:
    world = Tools([get_order, refund], effects={"get_order": "repeatable"})
    with pytest.raises(ValueError, match=re.escape(named)):
        load_rules(**{"rules": {}, "facts": {}, "after": {}, **declarations}).check_tools(world)


# Arguments as the tools get them.


def test_rules_and_facts_are_about_the_arguments_that_the_tools_get() -> None:
    def look_up(number: int) -> str:
        """Look up an order."""
        return "{}"

    def pay_back(number: int, amount: float = 1_000) -> str:
        """Pay back an order."""
        return "ok"

    def cap(call: ToolCall, facts: Any) -> Any:
        paid = facts["orders"][call.args["number"]]["paid"] - facts["returned"][17]
        return Forbidden("Too much.") if call.args["amount"] > paid else Allow()

    def note(facts: Any, call: ToolCall, answer: Any) -> None:
        facts.setdefault("returned", {})[call.args["number"]] = call.args["amount"]

    rules = load_rules({"pay_back": cap}, {"look_up": "orders[number]"}, {"pay_back": note})
    loaded = Tools([look_up, pay_back], effects={"look_up": "repeatable"}).loaded
    answered = [
        AnsweredCall(tool="look_up", args={"number": "17"}, answer='{"paid": 64}'),
        AnsweredCall(tool="pay_back", args={"number": 17.0, "amount": "10"}, answer="ok"),
    ]
    given = [{"number": "17", "amount": "54"}, {"number": 17, "amount": "55"}, {"number": "17"}]
    calls = [ToolCall(name="pay_back", args=args) for args in given]
    found = asyncio.run(rules.decide(calls, answered, 5.0, loaded))
    assert [one.decision for one in found] == [Allow(), Forbidden("Too much."), Forbidden("Too much.")]
    assert [call.args for call in calls] == given


@given(st.from_regex(r"[a-z_]\w{0,5}(\[[a-z]\w{0,3}\]){0,3}", fullmatch=True))
def test_a_name_of_facts_is_read_as_it_is_written(text: str) -> None:
    form = parse_fact_form(text)
    assert form.name + "".join(f"[{one}]" for one in form.arguments) == text
