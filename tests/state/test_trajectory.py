"""Model calls that brought no information, counted from events."""

import pytest

from certigraph.runtime.texts import format_empty_calls, format_empty_share
from certigraph.state.records import Action, Attempt, Finding, Observation, Predicate, Step, Usage, Verdict
from certigraph.state.run import finish
from certigraph.state.step import Approval, StepSubtask
from certigraph.state.subtask import Progress
from certigraph.state.trajectory import EmptyCalls, Event, count_empty_calls

ROLES = {"realize": "executor", "decide": "executor", "execute": "executor", "propose": "planner", "revise": "planner"}


def event(node="validate", calls=1, failures=0, scope="", forms=(), **update):
    call = {"role": ROLES.get(node, "validator"), "schema_name": "Actions"}
    sent = (
        [call | {"failure": "no JSON"}] * failures + [call] * calls + [call | {"schema_name": form} for form in forms]
    )
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


def chosen(text, *upcoming, calls=0, forms=(), **args):
    action = Action(text=text, args=args).as_json()
    return event(
        "realize", calls, forms=forms, action=action, upcoming=[Action(text=one).as_json() for one in upcoming]
    )


def answered(text="done", action=None, scope="", **more):
    step = Step(action=action or Action(text="go"), digest="d").as_json()
    seen, chain = Observation(text=text, **{k: v for k, v in more.items() if k != "upcoming"}), {}
    if "upcoming" in more:
        chain = {"upcoming": [Action(text=one).as_json() for one in more["upcoming"]]}
    return event("act", 0, scope=scope, history=[step], observation=seen.as_json(), **chain)


REFUSED = answered("No known action matches that input.", accepted=False)


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
    by_code, nobody = event(calls=0, **judged(decided_by="code")), event(calls=0, **judged(pending=True))
    assert count_empty_calls([by_code, nobody]).total == 0


def test_requests_without_a_usable_answer_count_once():
    assert count_empty_calls([event(failures=2, **judged(depth=1))]) == EmptyCalls(requests=2)
    assert count_empty_calls([event(failures=1, **judged())]) == EmptyCalls(verdicts=1, requests=1)
    lost = event(failures=1).model_copy(update={"update": None})
    assert count_empty_calls([lost]) == EmptyCalls(requests=1)


@pytest.mark.parametrize(
    ("node", "update", "empty"),
    [
        ("align", {"approval": Approval().as_json()}, 1),
        ("align", {"approval": Approval(approved=False, reason="a rule").as_json()}, 0),
        ("assess", {"subtask": StepSubtask(text="a").as_json(), "subtasks": []}, 1),
        ("assess", {"subtask": StepSubtask(text="a", status="completed").as_json(), "subtasks": [{}]}, 0),
        ("planner", {"subtask": StepSubtask(text="a").as_json()}, 0),
        ("revise", {"notes": [], "revisions": 1}, 1),
        ("revise", {"notes": [], "revisions": 1, "dag": {"nodes": [{}]}}, 0),
        ("revalidate", {}, 1),
        ("revalidate", {"invalidations": [{}]}, 0),
        ("audit", {"audits": [{"confirmed": True}]}, 0),
        ("memory", {"belief": {}}, 0),
    ],
)
def test_a_judgement_is_empty_if_it_leaves_everything_as_it_was(node, update, empty):
    assert count_empty_calls([event(node, **update)]) == EmptyCalls(verdicts=empty)


@pytest.mark.parametrize(
    ("progress", "empty"),
    [
        ({}, 1),
        ({"reason": "the door is open", "guidance": "Go to the kitchen"}, 1),
        ({"guidance": "as before"}, 1),
        ({"guidance": "look for another door"}, 0),
        ({"guidance": "as before", "done": 1}, 1),
        ({"guidance": "as before", "done": 2}, 0),
        ({"guidance": "as before", "off_plan": True}, 0),
        ({"status": "completed", "guidance": "as before"}, 0),
        ({"status": "failed"}, 0),
    ],
)
def test_progress_is_empty_if_neither_its_advice_nor_a_step_of_the_plan_is_new(progress, empty):
    planned = event("plan", 0, outline=["open the door", "go to the kitchen."])
    before = event("supervise", 0, progress=Progress(guidance="as before", done=1).as_json())
    latest = event("supervise", progress=Progress(**progress).as_json())
    assert count_empty_calls([planned, before, latest]) == EmptyCalls(verdicts=empty)
    elsewhere = latest.model_copy(update={"scope": "solve:1"})
    is_shown_there = bool(progress.get("guidance") or progress.get("done"))
    assert count_empty_calls([planned, before, elsewhere]).verdicts == (empty and not is_shown_there)


def test_a_chain_that_is_taken_to_its_end_costs_nothing():
    following = [chosen("b", "c"), answered(), chosen("c")]
    assert count_empty_calls([chosen("a", "b", "c", calls=1), answered(), *following]).total == 0


def test_a_chain_counts_if_the_name_of_an_action_is_refused_and_the_rest_has_to_be_chosen_again():
    begun = [chosen("a", "b", "c", calls=1), REFUSED]
    assert count_empty_calls([*begun, chosen("d", "e", calls=1)]) == EmptyCalls(chains=1)
    unlisted = [chosen("a", "b", "c", calls=1), answered(), chosen("d", calls=1)]
    assert count_empty_calls(unlisted) == EmptyCalls(chains=1)
    renamed = [*begun, chosen("a red", "b", "c", written="a"), answered(), chosen("b", "c")]
    assert count_empty_calls(renamed).total == 0
    alone = [chosen("a", calls=1), REFUSED, chosen("d", calls=1)]
    assert count_empty_calls(alone).total == 0
    checked = event("check", action=Action(text="a").as_json(), checks=[{}])
    assert count_empty_calls([*begun, checked]).total == 0  # the choice itself stands


@pytest.mark.parametrize("news", [{"data": {"result": "failed"}}, {"reward": -0.1}, {"text": "still cold"}])
def test_a_chain_that_the_worlds_answer_cuts_is_no_empty_call(news):
    cut = answered(**({"text": "no"} | news), upcoming=())
    assert count_empty_calls([chosen("a", "b", "c", calls=1), cut, chosen("d", calls=1)]).total == 0


def test_a_verdict_that_cuts_a_chain_and_a_new_episode_are_no_cut_chains():
    begun = [chosen("a", "b", calls=1), answered()]
    denied = event(upcoming=[], untaken=[{"text": "b"}], **judged())
    assert count_empty_calls([*begun, denied, chosen("c", calls=1)]) == EmptyCalls(verdicts=1)
    assert count_empty_calls([*begun, event("reset", 0, upcoming=[]), chosen("c", calls=1)]).total == 0
    other = chosen("c", calls=1).model_copy(update={"scope": "solve:1"})
    assert count_empty_calls([*begun, other]).total == 0


def test_each_question_what_an_action_means_counts():
    question = answered("Which?", accepted=False, data={"options": ["a red", "a green"]})
    begun = [chosen("a", "b", calls=1), question]
    assert count_empty_calls([*begun, chosen("a red", "b", forms=["choice"])]) == EmptyCalls(questions=1)
    declined = chosen("c", calls=1, forms=["choice"])
    assert count_empty_calls([*begun, declined]) == EmptyCalls(questions=1, chains=1)
    assert count_empty_calls([*begun, chosen("a green", "b")]).total == 0  # it was evident
    refused = [chosen("a", calls=1), REFUSED]
    assert count_empty_calls([*refused, chosen("a red", forms=["choice"], written="a")]) == EmptyCalls(questions=1)
    assert count_empty_calls([*refused, chosen("c", forms=["choice", "choice"])]) == EmptyCalls(questions=1)
    assert count_empty_calls([*refused, chosen("c", forms=["choice"])]).total == 0  # chosen from the world's list
    assert count_empty_calls([chosen("c", forms=["choice"])]).total == 0
    assert count_empty_calls([chosen("c", calls=1, forms=["Meaning"], written="d")]) == EmptyCalls(questions=1)


def test_calls_after_the_world_has_ended_count_whatever_they_ask():
    over = answered("You lose.", done=True, reward=-1.0)
    after = [event(**judged()), chosen("a", calls=2), event("propose", plan=[]), event("memory", belief={})]
    assert count_empty_calls([over, *after]) == EmptyCalls(ended=5)
    assert count_empty_calls([over, event("reset", 0, observation={"text": "a room"}), *after]).ended == 0
    elsewhere = [one.model_copy(update={"scope": "solve:1"}) for one in after]
    assert count_empty_calls([over, *elsewhere]).ended == 0


def test_what_is_due_after_the_end_is_no_empty_call():
    over = answered("The task is over.", done=True)
    due = [event(**judged(depth=1)), event("audit", audits=[{"confirmed": False}]), event("memory", lessons=[{}])]
    assert count_empty_calls([over, *due]).total == 0
    handed_in = answered("Handed in.", action=finish("42"), done=True)
    denied = [event(**judged()), event("supervise", progress=Progress(status="failed").as_json())]
    assert count_empty_calls([handed_in, *denied]) == EmptyCalls(verdicts=1)
    assert count_empty_calls([handed_in, chosen("a", calls=1)]) == EmptyCalls(ended=1)


def test_the_counts_in_words():
    assert format_empty_calls(EmptyCalls()) == ""
    assert format_empty_calls(EmptyCalls(2, 1, 0, 3, 1)) == (
        "2 verdicts that changed nothing, 1 chain cut at a refused name, 3 calls after the end, "
        "1 request without a usable answer"
    )
    assert format_empty_share(EmptyCalls(verdicts=3), 30) == "3 of 30 (10 %)"
    assert format_empty_share(EmptyCalls(), 0) == "0 of 0 (0 %)"
