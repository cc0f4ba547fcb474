"""Effects as a function of records: which calls are listed, what was found about them, and what covers them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certigraph.state.call_checks import CallCheck
from certigraph.state.effects import actions_behind, effects_of, list_effects, steps_behind
from certigraph.state.records import CHECK, Action, Certificate, Observation, Predicate, Step
from certigraph.state.run import AnsweredCall
from certigraph.state.tdp import Outcome
from certigraph.state.tools import ToolCall, create_tool_action

ORDERS = st.integers(1, 3)


def call(action, tool="refund", order=1, **fields):
    return AnsweredCall(tool=tool, args={"order": order}, answer="done", action=action, **fields)


def certificate(step, *, calls=(), decided_by="model", texts=("it is refunded",), **fields):
    targets = tuple(Predicate(text=text) for text in texts)
    action = Action(text="close()")
    return Certificate(
        step=step, position=0, targets=targets, action=action, digest="d", calls=calls, decided_by=decided_by, **fields
    )


def step(*calls, kind="tool"):
    action = create_tool_action(calls) if kind == "tool" else Action(text="check", kind=kind)
    return Step(action=action, digest="d")


def check(action, order=1, outcome="allowed", tool="refund", **fields):
    return CallCheck(tool=tool, args={"order": order}, outcome=outcome, action=action, **fields)


# Which calls are listed.

calls = st.lists(
    st.builds(
        AnsweredCall,
        tool=st.sampled_from(["refund", "look"]),
        args=st.fixed_dictionaries({"order": ORDERS}),
        made=st.booleans(),
        lasting=st.booleans(),
        failed=st.booleans(),
        action=st.integers(0, 6),
    ),
    max_size=12,
)
certificates = st.lists(
    st.builds(
        certificate,
        st.integers(1, 8),
        calls=st.lists(st.integers(1, 12), max_size=3).map(tuple),
        decided_by=st.sampled_from(["model", "code", "oracle", "code and model", ""]),
        forced=st.sampled_from(["", "", "capped"]),
    ),
    max_size=5,
).map(lambda found: sorted(found, key=lambda one: one.step))


@given(calls, certificates)
def test_exactly_the_lasting_calls_that_were_made_are_listed_by_their_number(answers, certificates):
    effects = list_effects(answers, certificates=certificates)
    listed = [number for number, one in enumerate(answers, 1) if one.made and one.lasting and one.action]
    assert [one.number for one in effects] == listed
    for one in effects:
        answered = answers[one.number - 1]
        assert (one.tool, one.args, one.failed) == (answered.tool, answered.args, answered.failed)


@given(calls, certificates)
def test_a_call_is_covered_by_name_or_by_what_exact_means_decided_about_its_span(answers, certificates):
    for one in list_effects(answers, certificates=certificates):
        covering = set()
        for index, given_ in enumerate(certificates):
            before = max((other.step for other in certificates if other.step < given_.step), default=0)
            is_in_span = before < one.action <= given_.step and not one.failed
            is_exact = given_.decided_by in ("code", "oracle", "code and model", "code and oracle")
            if not given_.forced and (one.number in given_.calls or (is_exact and is_in_span)):
                covering.add(index)
        assert one.certificate == min(covering, default=None)
        assert bool(one.conditions) == bool(covering)


# The certificate that covers a call.


@pytest.mark.parametrize(
    ("decided_by", "named", "covered"), [("model", (), None), ("model", (2,), 0), ("code", (), 0), ("", (), None)]
)
def test_a_model_covers_what_it_names_and_code_what_was_done_since(decided_by, named, covered):
    answers = [call(1, lasting=False), call(2)]
    [effect] = list_effects(answers, certificates=[certificate(2, calls=named, decided_by=decided_by)])
    assert effect.certificate == covered


def test_code_covers_nothing_before_the_last_certificate():
    earlier = certificate(1)
    answers, later = [call(1), call(2, order=2)], certificate(2, decided_by="code", texts=("closed",))
    first, second = list_effects(answers, certificates=[earlier, later])
    assert first.certificate is None
    assert (second.certificate, second.conditions) == (1, ("closed",))


def test_a_certificate_that_only_lists_all_calls_gives_way_to_one_that_shows_the_effect():
    absent = certificate(1, calls=(1,), rests_on=("absence",), texts=("nothing was mailed",))
    shown = certificate(2, calls=(1,), rests_on=("calls",))
    assert list_effects([call(1)], certificates=[absent, shown])[0].certificate == 1
    assert list_effects([call(1)], certificates=[absent])[0].certificate == 0


def test_a_failed_call_is_covered_only_where_it_is_named():
    failed = [call(1, failed=True)]
    assert list_effects(failed, certificates=[certificate(1, decided_by="code")])[0].certificate is None
    assert list_effects(failed, certificates=[certificate(1, calls=(1,))])[0].certificate == 0


def test_what_a_policy_let_pass_covers_nothing():
    assert list_effects([call(1)], certificates=[certificate(1, calls=(1,), forced="capped")])[0].certificate is None


def test_steps_that_only_look_and_steps_of_an_outer_run_are_no_actions_of_their_own():
    refund = ToolCall(name="refund", args={"order": 1})
    history = [step(refund), step(kind=CHECK), step(refund)]
    answers = [call(0), call(1)]  # the first is the outer run's
    [effect] = list_effects(answers, certificates=[certificate(3, decided_by="code")], history=history, outer=1)
    assert (effect.number, effect.action, effect.certificate) == (2, 1, 0)


# What was found before the call.


def test_the_check_is_found_by_action_tool_and_arguments():
    checks = [check(1, outcome="forbidden", next="read the policy"), check(2, order=2), check(2), check(2, tool="look")]
    [effect] = list_effects([call(2)], checks)
    assert effect.check == check(2)
    [changed] = list_effects([call(2, order=3)], checks)
    assert changed.check is None
    [once] = list_effects([call(2)], [check(2), check(2, outcome="forbidden")])
    assert once.check == check(2), "the other one of two equal calls was denied"


@pytest.mark.parametrize(
    ("fields", "person"), [({}, ""), ({"approved": True}, "approved"), ({"edited": True, "approved": True}, "edited")]
)
def test_what_a_person_did_is_read_from_the_step(fields, person):
    history = [step(ToolCall(name="refund", args={"order": 1}, **fields))]
    assert list_effects([call(1)], history=history)[0].person == person
    rejected = ToolCall(name="refund", args={"order": 1}, refused="no")
    history = [step(rejected, ToolCall(name="refund", args={"order": 1}, **fields))]
    assert list_effects([call(1)], history=history)[0].person == person


# What brought a certificate about.


@given(st.lists(st.integers(1, 20), max_size=8).map(sorted))
def test_the_steps_behind_certificates_are_apart_unless_they_share_a_step(steps):
    spans = steps_behind(steps)
    assert [span[-1] for span in spans] == steps
    for one, other in pairwise(spans):
        assert one == other or one[-1] + 1 == other[0]
    assert {number for span in spans for number in span} == set(range(1, max(steps, default=0) + 1))


def test_actions_behind_leave_out_what_did_nothing():
    refund, look = ToolCall(name="refund", args={"order": 1}), ToolCall(name="look", refused="not allowed")
    lost = ToolCall(name="mail", error="no answer")
    history = [step(refund), step(look), step(kind=CHECK), step(lost), step(lost, ToolCall(name="close"))]
    behind = actions_behind([certificate(1), certificate(5)], history)
    assert [[action.text for action in actions] for actions in behind] == [["refund(order=1)"], ["mail(); close()"]]


def test_a_state_without_checks_and_certificates_has_effects():
    [effect] = effects_of({"answers": [call(1)]})
    assert effect.as_output()["certificate"] is None
    assert effect.as_output()["check"] is None


def test_effects_of_sub_tasks_follow_those_of_the_run():
    inner = list_effects([call(1)], subtask="pay")
    outcome = Outcome(
        node="pay", status="completed", result="", ending="goal", observation=Observation(text=""), effects=tuple(inner)
    )
    assert [(one.tool, one.subtask) for one in effects_of({"outcomes": [outcome]})] == [("refund", "pay")]
