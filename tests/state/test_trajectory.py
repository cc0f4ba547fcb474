"""Model calls that brought no information, counted from events."""

import pytest

from certigraph.runtime.texts import format_empty_calls
from certigraph.state.records import Action, Attempt, Finding, Predicate, Usage, Verdict
from certigraph.state.trajectory import EmptyCalls, Event, count_empty_calls


def event(node="validate", calls=1, failures=0, scope="", **update):
    sent = [{"role": "validator", "failure": "no JSON"}] * failures + [{"role": "validator"}] * calls
    return Event(t=0.0, superstep=1, node=node, usage=Usage(node=node), calls=sent, update=update, scope=scope)


def judged(**verdict):
    record = Attempt(
        position=0,
        target=Predicate(text="a"),
        action=Action(text="go"),
        digest="d",
        verdict=Verdict(**({"depth": 0, "reason": "not yet"} | verdict)),
    )
    return {"attempts": [record.as_json()]}


def chain(*texts):
    return [Action(text=text).as_json() for text in texts]


@pytest.mark.parametrize(
    ("verdict", "empty"),
    [
        ({}, 1),
        ({"looked": True}, 1),
        ({"depth": 1}, 0),
        ({"facts": ("the stove is off",)}, 0),
        ({"outdated": ("the stove is on",)}, 0),
        ({"unreachable": True}, 0),
        ({"finding": Finding(about="a", text="b")}, 0),
    ],
)
def test_a_verdict_is_empty_if_it_only_says_not_yet(verdict, empty):
    assert count_empty_calls([event(**judged(**verdict))]) == EmptyCalls(verdicts=empty)


def test_a_verdict_that_took_no_call_costs_nothing():
    assert (
        count_empty_calls([event(calls=0, **judged(decided_by="code")), event(calls=0, **judged(pending=True))]).total
        == 0
    )


def test_requests_without_a_usable_answer_count_once():
    assert count_empty_calls([event(failures=2, **judged(depth=1))]) == EmptyCalls(requests=2)
    assert count_empty_calls([event(failures=1, **judged())]) == EmptyCalls(verdicts=1, requests=1)


def test_a_chain_is_cut_where_its_rest_is_dropped():
    a, b, c = chain("a", "b", "c")
    chosen = event("realize", action=a, upcoming=[b, c])
    following = [event("realize", 0, action=b, upcoming=[c]), event("realize", 0, action=c, upcoming=[])]
    assert count_empty_calls([chosen, *following]).chains == 0
    assert count_empty_calls([chosen, event("act", 0, upcoming=[])]).chains == 1
    assert count_empty_calls([chosen, following[0], event("realize", action=a, upcoming=[b])]).chains == 1
    assert count_empty_calls([chosen, event("reset", 0, upcoming=[])]).chains == 0
    elsewhere = event("act", 0, upcoming=[], scope="solve:1")
    assert count_empty_calls([chosen, elsewhere, *following]).chains == 0


def test_the_counts_in_words():
    assert format_empty_calls(EmptyCalls()) == ""
    assert format_empty_calls(EmptyCalls(2, 1, 1)) == (
        "2 verdicts after which nothing was new, 1 chain cut before the end, 1 request without a usable answer"
    )
