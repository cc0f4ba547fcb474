"""Approval: a person approves, edits or rejects calls before they are made, or answers in place of the tool."""

import re
from typing import Any

import pytest
from helpers.cases import first_fast
from helpers.worlds.support_database import GOAL, SupportDatabase, scripted_model
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from certigraph import ScriptedChat
from certigraph.graphs.agent import METHODS, AgentGraph, agent

THREAD: Any = {"configurable": {"thread_id": "1"}}
REFUND, LOOK_UP = ("refund", {"order": 17, "amount": 49.9}), ("look_up", {"order": 17})


def choosing(*batches: list[tuple[str, dict[str, Any]]]) -> ScriptedChat:
    """Return a model that makes these calls, one batch after the other, and then hands in an answer."""
    left = iter([*batches, [("finish", {"answer": "That is all."})]])

    def respond(prompt: str, schema: Any) -> Any:
        if "calls" not in schema["properties"]:
            return {"reasoning": "", "tools": ["look_up", "refund"]}
        return {"thought": "", "calls": [{"name": name, "args": args} for name, args in next(left)]}

    return ScriptedChat(responder=respond)


def reject_all(graph: AgentGraph) -> tuple[Any, int]:
    """Run a graph and reject all that it asks about; return its last state and the number of questions."""
    questions, state = 0, graph.invoke({"goal": GOAL}, THREAD)
    while "__interrupt__" in state:
        questions += 1
        state = graph.invoke(Command(resume={"type": "reject", "message": "ask Ann"}), THREAD)
    return state, questions


def approving(database: SupportDatabase, method: str = "sdp", **options: Any) -> AgentGraph:
    rules = {"refund": True, "send_mail": {"allowed_decisions": ["approve", "reject"]}}
    settings = {"model": scripted_model(), "effects": {"look_up": "repeatable"}, "interrupt_on": rules, **options}
    return agent(method, tools=database.tools, checkpointer=InMemorySaver(), **settings)


@pytest.mark.parametrize("method", first_fast(METHODS, 2))
def test_calls_wait_for_approval_in_langchains_form(method: Any, database: SupportDatabase) -> None:
    graph = approving(database, method)
    waiting = graph.invoke({"goal": GOAL}, THREAD)
    question = waiting["__interrupt__"][0].value
    assert question["action_requests"][0]["name"] == "refund"
    assert question["action_requests"][0]["args"] == {"order": 17, "amount": 49.9}
    assert question["review_configs"][0]["allowed_decisions"] == ["approve", "edit", "reject", "respond"]
    assert database.rows("refunds") == []
    graph.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    result = graph.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    assert "__interrupt__" not in result
    assert (len(database.rows("refunds")), len(database.rows("mails"))) == (1, 1)


def test_edited_arguments_are_what_runs(database: SupportDatabase) -> None:
    graph = approving(database)
    graph.invoke({"goal": GOAL}, THREAD)
    edited = {"type": "edit", "edited_action": {"name": "refund", "args": {"order": 17, "amount": 10}}}
    graph.invoke(Command(resume={"decisions": [edited]}), THREAD)
    assert database.rows("refunds") == [(17, 10)]


def test_a_rejected_call_is_not_made_and_its_reason_is_observed(database: SupportDatabase) -> None:
    graph = approving(database, "react")
    graph.invoke({"goal": GOAL}, THREAD)
    reject = {"type": "reject", "message": "order 17 was refunded yesterday"}
    graph.invoke(Command(resume={"decisions": [reject]}), THREAD)
    assert database.rows("refunds") == []
    turn = graph.get_state(THREAD).values["turns"][-1]
    assert "refunded yesterday" in turn.observation
    assert not turn.accepted


def test_a_rejected_call_is_asked_about_again_only_after_another_call(database: SupportDatabase) -> None:
    model = choosing([LOOK_UP], [REFUND], [REFUND], [REFUND], [LOOK_UP], [REFUND])
    graph = approving(database, "react", model=model)
    _, questions = reject_all(graph)
    refused = [turn for turn in graph.get_state(THREAD).values["turns"] if not turn.accepted]
    assert (questions, len(refused)) == (2, 4)
    assert all("ask Ann" in turn.observation for turn in refused)
    assert database.rows("refunds") == []


def test_a_call_made_with_a_rejected_one_lets_it_be_asked_about_again(database: SupportDatabase) -> None:
    _, questions = reject_all(approving(database, "react", model=choosing([LOOK_UP], [REFUND, LOOK_UP], [REFUND])))
    assert (questions, database.looked_up, database.rows("refunds")) == (2, 2, [])


@pytest.mark.parametrize("method", first_fast(METHODS, 2))
def test_a_run_that_a_rejection_ended_says_so(method: Any, database: SupportDatabase) -> None:
    state, _ = reject_all(approving(database, method))
    assert state["ending"] in ("gave_up", "exhausted")
    assert state["ending_reason"].count("ask Ann") == 1


def test_a_rejection_ends_a_run_of_sdp_that_plans_the_same_again(database: SupportDatabase) -> None:
    state, questions = reject_all(approving(database))
    assert (questions, state["ending"], database.rows("refunds")) == (1, "gave_up", [])


@pytest.mark.parametrize(
    "answer",
    [
        "approve it",
        {"decisions": []},
        {"decisions": [{"type": "edit"}]},
        {"decisions": [{"type": "maybe"}]},
        {"decisions": [{"type": "edit", "edited_action": {"name": "refund", "args": {"order": 17}}}]},
        {"decisions": [7]},
        {"type": "respond"},
    ],
)
def test_a_decision_that_cannot_be_used_can_be_given_again(answer: Any, database: SupportDatabase) -> None:
    graph = approving(database)
    graph.invoke({"goal": GOAL}, THREAD)
    again = graph.invoke(Command(resume=answer), THREAD)
    assert again["__interrupt__"][0].value["problem"]
    assert database.rows("refunds") == []
    graph.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    assert len(database.rows("refunds")) == 1


def test_a_decision_that_the_rule_does_not_allow_is_asked_for_again(database: SupportDatabase) -> None:
    graph = approving(database, interrupt_on={"refund": {"allowed_decisions": ["approve"]}})
    graph.invoke({"goal": GOAL}, THREAD)
    assert graph.invoke(Command(resume={"type": "reject"}), THREAD)["__interrupt__"][0].value["problem"]
    assert database.rows("refunds") == []


def test_approvals_ask_the_model_nothing_again(database: SupportDatabase) -> None:
    def count_calls(interrupt_on: Any) -> int:
        graph = approving(database, "react", interrupt_on=interrupt_on)
        result = graph.invoke({"goal": GOAL}, THREAD)
        while "__interrupt__" in result:
            result = graph.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
        return int(graph.get_state(THREAD).values["spent"].calls)

    assert count_calls({"refund": True, "send_mail": True}) == count_calls(None)


# A person answers in place of the tool.


@pytest.mark.parametrize("method", first_fast(METHODS, 2))
def test_an_agent_reads_what_a_person_answered_and_the_tool_is_not_called(
    method: Any, database: SupportDatabase
) -> None:
    graph = approving(database, method, interrupt_on={"look_up": {"allowed_decisions": ["respond"]}})
    state = graph.invoke({"goal": GOAL}, THREAD)
    while "__interrupt__" in state:
        state = graph.invoke(Command(resume={"type": "respond", "message": "49.9 euros, eligible"}), THREAD)
    assert database.looked_up == 0
    assert database.rows("refunds") == [(17, 49.9)]
    assert state["ending"] in ("goal", "finished")


def test_an_answered_call_that_is_chosen_again_is_asked_about_and_made_once(database: SupportDatabase) -> None:
    graph = approving(database, "react", model=choosing([LOOK_UP], [REFUND], [REFUND]))
    graph.invoke({"goal": GOAL}, THREAD)
    graph.invoke(Command(resume={"type": "respond", "message": "The bank is closed."}), THREAD)
    assert graph.get_state(THREAD).values["turns"][-1].observation.endswith("The bank is closed.")
    assert database.rows("refunds") == []
    assert graph.invoke(Command(resume={"type": "approve"}), THREAD)["ending"] == "finished"
    assert database.rows("refunds") == [(17, 49.9)]


# Rules.


def test_a_question_has_the_words_of_its_rule(database: SupportDatabase) -> None:
    def describe(call: dict[str, Any], state: Any, runtime: Any) -> str:
        return f"Pay {call['args']['amount']} euros for {state['task'].goal!r}?"

    rules = {"refund": {"description": describe}, "send_mail": {"description": "Send it?"}}
    graph = approving(database, interrupt_on=rules)
    first = graph.invoke({"goal": GOAL}, THREAD)["__interrupt__"][0].value
    assert first["action_requests"][0]["description"] == f"Pay 49.9 euros for {GOAL!r}?"
    second = graph.invoke(Command(resume={"type": "approve"}), THREAD)["__interrupt__"][0].value
    assert second["action_requests"][0]["description"] == "Send it?"


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ("yes", "'yes'"),
        (None, "None"),
        (["approve"], "['approve']"),
        ({"allowed_decision": ["approve"]}, "'allowed_decision'"),
        ({"allowed_decisions": []}, "[]"),
        ({"allowed_decisions": "approve"}, "'approve'"),
        ({"allowed_decisions": ["approve", "accept"]}, "'accept'"),
        ({"description": 3}, "description 3"),
    ],
)
def test_a_rule_of_another_form_is_refused_when_the_agent_is_built(
    rule: Any, named: str, database: SupportDatabase
) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(named)):
        approving(database, interrupt_on={"refund": rule})
