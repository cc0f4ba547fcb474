"""What a model's verdict over tools rests on: quotations in answers, calls that were made, all calls that last."""

from typing import Any

import pytest

from certigraph.nodes.tool_verdicts import GroundedHolds, find_grounds, find_quotations
from certigraph.state.run import AnsweredCall

ROW = "Order 17: delivered 9 days ago,\n49.90 euros, customer ann@example.org"
CALLS = (
    AnsweredCall(tool="look_up", args={"order": 17}, answer=ROW, lasting=False),
    AnsweredCall(
        tool="refund", args={"order": 17, "reason": "it came broken and late"}, answer="refunded", failed=False
    ),
    AnsweredCall(
        tool="refund", args={"order": 18}, answer="a person says: order 18 is settled", failed=True, made=False
    ),
    AnsweredCall(tool="mail", args={"text": "order 17 is paid back in full"}, answer="sent to the customer at once"),
    AnsweredCall(
        tool="mail",
        args={"text": "order 19 is paid back in full"},
        answer="error: no mail with 'order 19 is paid back in full' because the server is closed",
        failed=True,
    ),
    AnsweredCall(tool="table", answer="| **Order** | State |\n|---|---|\n| `A-17` | *sent out today* |", lasting=False),
    AnsweredCall(
        tool="draft",
        args={"lines": ["order 20 is paid back", {"B-20": 1}]},
        answer="kept: order 20 is paid back, B-20",
        lasting=False,
    ),
)


@pytest.mark.parametrize(
    ("evidence", "numbers"),
    [
        ("delivered 9 days ago", (1,)),
        ("DELIVERED 9\n  days AGO, 49.90 euros", (1,)),
        ('"delivered 9 days ago"\n- "sent to the customer"', (1, 4)),
        ("Order 17: ... ann@example.org", (1,)),
        ("delivered 9 days ago; sent to the customer", (1, 4)),
        ("ann@example.org", (1,)),
        ("refunded", (2,)),
        ("the server is closed", (5,)),
        ("A-17 | sent out today", (6,)),
        ("**A-17** sent out today", (6,)),
    ],
)
def test_passages_are_found_in_answers(evidence: str, numbers: tuple[int, ...]) -> None:
    found = find_quotations(evidence, CALLS)
    assert (found.kinds, found.calls, found.problems) == (("quotes",), numbers, ())


@pytest.mark.parametrize(
    "evidence",
    [
        "it came broken and late",
        "order 18 is settled",
        "a person says: order 18",
        "order 17 is paid back in full",
        "order 19 is paid back in full",
        "no mail with 'order 19 is paid back in full'",
        "order 20 is paid back",
        "B-20",
        "refund(order=17",
        "delivered 10 days ago",
        "delivered 9 days ago\nand nothing else happened",
        "delivered 9 days ago; refused by the desk",
        "a",
        "order",
        "17",
        "days ago",
    ],
)
def test_what_no_answer_says_by_itself_or_says_too_little_is_not_found(evidence: str) -> None:
    found = find_quotations(evidence, CALLS)
    assert found.problems


DONE = "order 47 was refunded in full"
ECHOES: list[tuple[dict[str, Any], str, bool, str]] = [
    ({"text": DONE}, f"Noted: {DONE}", False, ""),
    ({"text": DONE}, f"Noted: {DONE}", False, "order 47 was refunded"),
    ({"order": 471193}, "No order 471193 exists.", False, "471193"),
    (
        {"code": DONE},
        "bad, input_value='order 47 was ref...'",
        True,
        "input_value='order 47 was",
    ),
    ({"a": "order 47 was", "b": "refunded in full"}, DONE, False, ""),
    ({"notes": [{"order 47": 49.9}]}, "saved: order 47, 49.9", False, "order 47, 49.9"),
]


@pytest.mark.parametrize(("args", "answer", "failed", "quoted"), ECHOES)
def test_an_answer_that_repeats_arguments_shows_nothing(
    args: dict[str, Any], answer: str, failed: bool, quoted: str
) -> None:
    call = AnsweredCall(tool="note", args=args, answer=answer, failed=failed)
    assert find_quotations(quoted or answer, [call]).problems


def test_a_passage_that_says_too_little_counts_for_nothing_among_others() -> None:
    assert find_quotations("order 17", CALLS).problems
    found = find_quotations("order 17\ndelivered 9 days ago", CALLS)
    assert (found.shown, found.calls, found.problems) == ("delivered 9 days ago", (1,), ())


def test_an_answer_about_an_argument_shows_what_it_adds() -> None:
    call = AnsweredCall(tool="refund", args={"order": 17, "reason": "late"}, answer="refunded 49.9 euros for order 17")
    assert not find_quotations("49.9 euros for order 17", [call]).problems
    assert not find_quotations("17: sent", [AnsweredCall(tool="send", args={"order": 17}, answer="17: sent")]).problems


@pytest.mark.parametrize("answers", [(), CALLS[2:3]])
def test_nothing_is_found_where_no_call_was_made(answers: tuple[AnsweredCall, ...]) -> None:
    assert find_quotations("order 18 is settled", answers).problems


@pytest.mark.parametrize(
    ("answer", "kinds", "numbers"),
    [
        ({"by_calls": [2, 4, 2]}, ("calls",), (2, 4)),
        ({"absence": "another refund"}, ("absence",), (2, 4, 5)),
        ({"evidence": "delivered 9 days ago", "by_calls": [4]}, ("quotes", "calls"), (1, 4)),
        ({"evidence": "delivered 9 days ago", "absence": "None."}, ("quotes",), (1,)),
    ],
)
def test_a_verdict_rests_on_what_was_found(answer: Any, kinds: tuple[str, ...], numbers: tuple[int, ...]) -> None:
    grounds = find_grounds(GroundedHolds(reason="", holds=1, **answer), CALLS)
    assert (grounds.kinds, grounds.calls, grounds.problems) == (kinds, numbers, ())


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"absence": "none"},
        {"evidence": "..."},
        {"by_calls": [3]},
        {"by_calls": [5]},
        {"by_calls": [0]},
        {"by_calls": [8]},
        {"by_calls": [2, 3]},
        {"evidence": "delivered 9 days ago", "by_calls": [3]},
        {"evidence": "it came broken and late", "by_calls": [2]},
    ],
)
def test_one_thing_that_is_not_found_is_a_problem_of_the_whole_verdict(answer: Any) -> None:
    assert find_grounds(GroundedHolds(reason="", holds=1, **answer), CALLS).problems
