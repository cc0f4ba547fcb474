"""What a model's verdict over tools rests on: quotations in answers, calls that were made, all calls that last."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certigraph.nodes.call_checks import LEAST_WORDS
from certigraph.nodes.tool_verdicts import GroundedHolds, find_grounds, find_quotations, has_words
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


# Where a passage may begin and end.


def is_found(passage: str, answer: str, **call: Any) -> bool:
    return not find_quotations(passage, [AnsweredCall(tool="look_up", answer=answer, **call)]).problems


@pytest.mark.parametrize(
    ("passage", "answer"),
    [
        ("eligible for a refund", "order 17: ineligible for a refund"),
        ("eligible for a refund", "order 17: non-eligible for a refund"),
        ("eligible for a refund", "order 17: **in**eligible for a refund"),
        ("eligible for a refund", "order 17: in\u00adeligible for a refund"),
        ("17 was closed", "order 117 was closed"),
        ("order 1 was closed", "order 1 was closedown"),
        ("order 17 costs 49", "order 17 costs 49.90 euros"),
        ("90 euros were paid", "49.90 euros were paid"),
        ("000 euros were paid", "1,000 euros were paid"),
        ("5 euros are left", "-5 euros are left"),
        ("the order is ... eligible for a refund", "the order is ineligible for a refund"),
        ("\u0e51\u0e57 was closed again", "\u0e51\u0e51\u0e57 was closed again"),
        ("\u092f\u094b\u0917\u094d\u092f a b c", "\u0905\u092f\u094b\u0917\u094d\u092f a b c"),
        ("a b c \u0915\u0930", "a b c \u0915\u0930\u094b"),
    ],
)
def test_a_passage_neither_begins_nor_ends_inside_a_word(passage: str, answer: str) -> None:
    assert not is_found(passage, answer)
    assert not has_words(passage, answer)


@pytest.mark.parametrize(
    ("passage", "answer"),
    [
        ("closed by ann today", "<td>closed by ann today</td>"),
        ("closed by ann today", '{"text": "order 17\\nclosed by ann today\\tand paid"}'),
        ("order 17\nclosed by ann", '{"text": "order 17\\nclosed by ann"}'),
        ("state:closed, by ann", "order:17,state:closed, by ann"),
        ("17 was closed", "order #17 was closed"),
        (": closed by ann", "17: closed by ann,"),
        ("已经全额退款", "17已经全额退款ok"),
    ],
)
def test_what_stands_between_words_parts_them(passage: str, answer: str) -> None:
    assert is_found(passage, answer)
    assert has_words(passage, answer)


def test_an_argument_that_ends_inside_a_word_does_not_uncover_the_rest_of_it() -> None:
    answer = "the order 17 is ineligible for a refund"
    assert not is_found("eligible for a refund", answer, args={"note": "the order 17 is in"}, failed=True)


LETTERS = st.sampled_from("abzéλжאبकக한0179")
SPACED_WORD = st.builds(
    str.__add__, LETTERS, st.text(LETTERS | st.sampled_from("\u0301\u064b\u094d\u093f"), min_size=1)
)
UNSPACED_WORD = st.builds(str.__add__, st.sampled_from("退のกກကក"), st.text("款カーั", min_size=3))
SEPARATOR = st.sampled_from([" ", ", ", ": ", '": "', " | ", ":", "=", " ~ "])


@given(st.lists(SPACED_WORD | UNSPACED_WORD, min_size=3, max_size=8), SEPARATOR, st.data())
def test_a_passage_cut_out_at_the_ends_of_words_is_found(words: list[str], between: str, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(words) - 3))
    last = data.draw(st.integers(first + 3, len(words)))
    assert has_words(between.join(words[first:last]), between.join(words))


@given(st.lists(SPACED_WORD, min_size=2, max_size=8, unique=True), SEPARATOR, st.data())
def test_a_passage_cut_inside_a_word_is_never_found(words: list[str], between: str, data: st.DataObject) -> None:
    """The word that is left whole stands once in the answer."""
    at = data.draw(st.integers(0, len(words) - 2))
    left, right = words[at : at + 2]
    for passage in (
        f"{left[data.draw(st.integers(1, len(left) - 1)) :]}{between}{right}",
        f"{left}{between}{right[: data.draw(st.integers(1, len(right) - 1))]}",
    ):
        assert not is_found(passage, between.join(words))
        assert not has_words(passage, between.join(words))


# Scripts that put no spaces between words.

REFUNDABLE = "订单17\uff1a客户符合退款条件\uff0c金额四十九欧元。"
NOTE = "订单四十七已全额退款"


@pytest.mark.parametrize(
    ("passage", "answer"),
    [
        ("客户符合退款条件\uff0c金额四十九欧元", REFUNDABLE),
        ("符合退款", REFUNDABLE),
        ("已付款 49 欧元", "订单17\uff1a已付款 49 欧元。"),
        ("注文は承認されました", "状態: 注文は承認されました。"),
        ("ลูกค้ามีสิทธิ์ได้รับเงินคืน", "คำสั่งซื้อ: ลูกค้ามีสิทธิ์ได้รับเงินคืน วันนี้"),
        ("ລູກຄ້າມີສິດໄດ້ຮັບເງິນຄືນ", "17: ລູກຄ້າມີສິດໄດ້ຮັບເງິນຄືນ"),
        ("ငွေပြန်အမ်းပြီးပါပြီ", "17: ငွေပြန်အမ်းပြီးပါပြီ။"),
        ("បានសងប្រាក់វិញ", "17: បានសងប្រាក់វិញ។"),
    ],
)
def test_a_passage_of_a_script_without_spaces_is_found(passage: str, answer: str) -> None:
    assert is_found(passage, answer, args={"order": 17, "reason": "太迟"})
    assert has_words(passage, answer, least=LEAST_WORDS)


@pytest.mark.parametrize("passage", ["客户", "十九欧", "不符合退款", "ได้", "เงิน"])
def test_few_characters_show_nothing(passage: str) -> None:
    assert not is_found(passage, f"{REFUNDABLE} ได้เงินคืนแล้ว")
    assert not has_words(passage, f"{REFUNDABLE} ได้เงินคืนแล้ว", least=LEAST_WORDS)


def test_a_short_whole_answer_of_a_script_without_spaces_is_found() -> None:
    assert is_found("已退款", "已退款", args={"order": 17})


@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize(
    ("passage", "answer"),
    [
        (NOTE, f"备注\uff1a{NOTE}"),
        (f"注{NOTE}", f"备注{NOTE}。"),
        (f"已记录{NOTE}", f"已记录{NOTE}"),
        (f"已将{NOTE}记下", f"已将{NOTE}记下"),
        ("已全额退款", f"备注\uff1a{NOTE}"),
        ("录订单四十七已", f"已记录{NOTE}"),
    ],
)
def test_an_answer_without_spaces_that_repeats_arguments_shows_nothing(passage: str, answer: str, failed: bool) -> None:
    assert not is_found(passage, answer, args={"text": NOTE}, failed=failed)


def test_what_an_answer_without_spaces_adds_to_an_argument_is_found() -> None:
    assert is_found(f"{NOTE}的备注已经保存", f"{NOTE}的备注已经保存。", args={"text": NOTE})
    assert is_found("订单A-17X已发货", "订单A-17X已发货。", args={"order": "A-17"})


@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize("piece", ["a ", "a-", "1,", "款", "\u0e31", "\\", "a.", "- "])
def test_long_texts_take_linear_time(piece: str, failed: bool) -> None:
    start, text = time.perf_counter(), piece * 30_000
    find_quotations(f"{text}b", [AnsweredCall(tool="note", args={"text": text}, answer=text * 2, failed=failed)])
    has_words(f"{text}b", text * 2)
    assert time.perf_counter() - start < 10


def test_the_rest_of_an_error_is_found_where_an_argument_stands_inside_a_longer_word() -> None:
    answer = "xorder 19 is paid back in full because the server is closed"
    call: Any = {"args": {"text": "order 19 is paid back in full"}, "failed": True}
    assert is_found("because the server is closed", answer, **call)
    assert not is_found("19 is paid back in full because the server is closed", answer, **call)
