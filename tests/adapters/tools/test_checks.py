"""Checks: the user's functions that decide conditions, by the forms of conditions."""

import asyncio
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from certigraph.adapters.tools.checks import Check, load_checks
from certigraph.state.endings import Fault, LimitReached
from certigraph.state.run import AnsweredCall


def one(form: Any, function: Callable[..., Any]) -> Check:
    [check] = load_checks({form: function})
    return check


# Forms of conditions.


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        ("Order 17 is refunded.", {"order": 17}),
        ("order 17 is  refunded", {"order": 17}),
        ("Order '17' is refunded.", {"order": 17}),
        ("Order seventeen is refunded.", None),
        ("Order 17 is not refunded.", None),
        ("Order 17 and order 18 is refunded.", None),
        ("It is known whether order 17 is refunded.", None),
        ("Order  is refunded.", None),
        ("Order 17 is refunded." + " " * 3000, None),
    ],
)
def test_a_template_matches_a_complete_condition_of_its_form(condition: str, values: Any) -> None:
    def is_refunded(order: int) -> bool:
        return True

    assert one("Order {order} is refunded.", is_refunded).match(condition) == values


def test_values_have_the_annotated_type() -> None:
    def check(name: str, amount: float, paid: bool, note) -> bool:
        return True

    check = one("{name} owes {amount}, paid: {paid}, note: {note}", check)
    assert check.match("Ann owes 4.5, paid: true, note: 7.") == {
        "name": "Ann",
        "amount": 4.5,
        "paid": True,
        "note": "7",
    }
    assert check.match("Ann owes nan, paid: true, note: 7") is None
    assert check.match("Ann owes much, paid: true, note: 7") is None


def test_a_condition_that_can_be_read_in_two_ways_is_not_decided() -> None:
    check = one("{item} of {owner} is paid", lambda item, owner: True)
    assert check.match("The box of Ann is paid.") == {"item": "The box", "owner": "Ann"}
    assert check.match("The copy of the box of Ann is paid.") is None


def test_a_regular_expression_matches_by_its_named_groups() -> None:
    def is_open(order: int, day: str = "today") -> bool:
        return True

    check = one(re.compile(r"Order (?P<order>\d+) is open(?: on (?P<day>\w+))?\."), is_open)
    assert check.match("Order 17 is open.") == {"order": 17}
    assert check.match("Order 17 is open on Monday.") == {"order": 17, "day": "Monday"}
    assert check.match("Perhaps order 17 is open.") is None


def test_a_missing_group_of_a_required_value_is_not_a_match() -> None:
    check = one(re.compile(r"Open(?: on (?P<day>\w+))?"), lambda day: True)
    assert check.match("Open") is None


@pytest.mark.parametrize(
    ("form", "function", "message"),
    [
        ("Order {order} is refunded.", lambda number: True, "order"),
        ("Order {} is refunded.", lambda order: True, "name in braces"),
        ("Order {order:d} is refunded.", lambda order: True, "name in braces"),
        ("Order {order.id} is refunded.", lambda order: True, "name in braces"),
        ("{order} or {order}", lambda order: True, "name in braces"),
        ("Order {order is refunded.", lambda order: True, "not a template"),
        ("{anything}", lambda anything: True, "words"),
        ("  ", lambda: True, "words"),
        ("The {calls} are in", lambda calls: True, "calls"),
        ("Order {order} is refunded.", lambda order, evidence: True, "`calls`.*one.tool == 'refund_order'"),
        ("It is done", lambda evidence="": True, "`calls`"),
        ("It is done", lambda order: True, "order"),
    ],
)
def test_forms_that_cannot_be_used_are_refused_in_one_line(form: str, function: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        load_checks({form: function})
    assert "\n" not in str(raised.value)


def misspelt(order: "Unknown") -> bool:  # type: ignore[name-defined]  # noqa: F821 - a name that nothing defines
    return True


def test_checks_that_are_none_are_refused() -> None:
    with pytest.raises(TypeError, match=r"give a dict of functions.*\{order\}"):
        load_checks([misspelt])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="function"):
        load_checks({"It is done": True})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="form"):
        load_checks({re.compile(b"done"): lambda: True})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="Unknown"):
        load_checks({"Order {order} is in": misspelt})


# What a function may return.


def run(function: Callable[..., Any], *, deadline: float = 5, calls: tuple[AnsweredCall, ...] = ()) -> Any:
    return asyncio.run(one("It is done", function).run({}, calls, deadline))


async def _later() -> tuple[bool, str]:
    await asyncio.sleep(0)
    return False, "row 17"


def test_plain_and_async_checks_return_what_they_found_and_what_shows_it() -> None:
    assert run(lambda: (True, "row 17")) == (True, "row 17")
    assert run(_later) == (False, "row 17")
    outcome = run(lambda: True)
    assert outcome.holds is True
    assert "It is done" in outcome.shown


def test_a_check_reads_the_calls_if_it_has_such_a_parameter() -> None:
    def is_refunded(calls: tuple[AnsweredCall, ...]) -> bool:
        return any("refunded" in one.answer for one in calls)

    assert run(is_refunded, calls=(AnsweredCall(tool="refund", answer="refunded 17"),)).holds is True
    assert run(is_refunded).holds is False
    assert one("The {evidence} is in", lambda evidence: True).match("The mail is in") == {"evidence": "mail"}


def test_a_check_that_raises_or_hangs_decides_nothing() -> None:
    def fail() -> bool:
        raise ConnectionError("no\ndatabase")

    with pytest.warns(UserWarning, match="ConnectionError: no database"):
        assert run(fail) == (None, "ConnectionError: no database")
    started = time.monotonic()
    with pytest.warns(UserWarning, match="no result"):
        assert run(lambda: time.sleep(0.6), deadline=0.1).holds is None
    assert time.monotonic() - started < 5


def test_a_limit_that_a_check_reaches_ends_the_run() -> None:
    def spend() -> bool:
        raise LimitReached("calls", 1, 1)

    with pytest.raises(LimitReached):
        run(spend)


@pytest.mark.parametrize("returned", [None, 1, "yes", (True,), (True, 17), ("yes", "row 17")])
def test_any_other_result_is_a_mistake_of_the_check(returned: Any) -> None:
    with pytest.raises(Fault, match="True, False") as raised:
        run(lambda: returned)
    assert raised.value.boundary == "operator"
