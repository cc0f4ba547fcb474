"""Checks of calls whose effect lasts, before they are made: rules, the validator, a person, consent."""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from helpers.cases import first_fast
from helpers.models.call_checkers import ALLOWED, CheckingScript
from helpers.worlds.support_database import GOAL, SCRIPT, SupportDatabase, scripted_model
from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from certigraph import Allow, Budget, Context, Forbidden, ScriptedChat, Tools, Unknown, run
from certigraph.adapters.models.schemas import minimal_instance
from certigraph.adapters.models.scripts import current_situation
from certigraph.graphs import react, tdp
from certigraph.graphs.agent import METHODS, AgentGraph, agent
from certigraph.nodes.call_checks import check_calls
from certigraph.state.call_checks import CallCheck

THREAD: Any = {"configurable": {"thread_id": "1"}}
Call = tuple[str, dict[str, Any]]
LOOK_UP: Call = ("look_up", {"order": 17})
REFUND: Call = ("refund", {"order": 17, "amount": 49.9})
TOO_MUCH: Call = ("refund", {"order": 17, "amount": 79})
FIVE = {"order": 17, "amount": 5}
MAIL: Call = ("send_mail", {"to": "ann@example.org", "text": "Order 17 was refunded."})

POLICY = "Refund no more than was paid. Ask the customer before each refund. Write a mail before each closing."


def choosing(*batches: Sequence[Call]) -> Callable[[str, Any], Any]:
    """Return a script that makes these calls, one batch after the other, and then hands in an answer."""
    left, last = iter(batches), [("finish", {"answer": "That is all."})]

    def respond(prompt: str, schema: Any) -> Any:
        if "calls" not in schema["properties"]:
            return {"reasoning": "", "tools": ["look_up", "refund", "send_mail"]}
        return {
            "thought": "A secret thought.",
            "calls": [{"name": name, "args": args} for name, args in next(left, last)],
        }

    return respond


def choosing_by_prompt(prompt: str, schema: Any) -> Any:
    """Look an order up in one sub-task, and refund it in another."""
    fields = schema["properties"]
    situation = current_situation()
    assert situation is not None
    if "tools" in fields:
        return {"reasoning": "", "tools": ["look_up", "refund"]}
    if "nodes" in fields:
        looked = {"id": "a", "task": "look it up", "needs": []}
        refunded = {"id": "b", "task": "refund it", "needs": ["a"]}
        return {"reasoning": "", "nodes": [looked, refunded, {"id": "c", "task": "say so", "needs": ["b"]}]}
    if "calls" not in fields:
        status = {"status": "completed"} if "status" in fields else {}
        return {**minimal_instance(schema), **status}
    made = [one.tool for one in situation.state.get("answers", ())]
    left = REFUND if situation.state["task"].goal.startswith("refund it") else LOOK_UP
    name, args = ("finish", {"answer": "done"}) if left[0] in made else left
    return {"thought": "", "calls": [{"name": name, "args": args}]}


def problem(call: int, outcome: str, *, rule: str = "", fact: str = "", next: str = "") -> dict[str, Any]:
    return {"call": call, "outcome": outcome, "rule": rule, "fact": fact, "next": next}


def finding(*problems: Any, consent: Sequence[Any] = (), reason: str = "So it is.") -> dict[str, Any]:
    return {"reason": reason, "problems": [*problems], "consent": [*consent]}


def answering(*findings: Any) -> Callable[[str], Any]:
    """Return a check that gives these findings, one after the other, and then allows every call."""
    left = iter(findings)
    return lambda prompt: next(left, ALLOWED)


def checked(database: SupportDatabase, script: CheckingScript, method: Any = "react", **options: Any) -> AgentGraph:
    effects = {"look_up": "repeatable"}
    settings = {
        "model": ScriptedChat(responder=script),
        "effects": effects,
        "instructions": POLICY,
        "audit": None,
        **options,
    }
    return agent(method, tools=database.tools, **settings)


def work(graph: AgentGraph, given: Any) -> Any:
    """Run an agent without a checkpointer, and return all of its last state."""
    *_, state = graph.stream(given, stream_mode="values")
    return state


def checks_of(state: Any) -> list[tuple[str, str, str]]:
    return [(one.tool, one.outcome, one.decided_by) for one in state["checks"]]


# The validator.


def test_a_call_that_a_rule_forbids_is_not_made_and_the_agent_reads_why(database: SupportDatabase) -> None:
    forbidden = problem(
        1, "forbidden", rule="no more than was paid", fact="order 17: 49.9 euros", next="Refund 49.9 euros."
    )
    script = CheckingScript(choosing([LOOK_UP], [TOO_MUCH], [REFUND]), answering(finding(forbidden)))
    state = work(checked(database, script), {"goal": GOAL})
    assert database.rows("refunds") == [(17, 49.9)]
    assert checks_of(state) == [("refund", "forbidden", "model"), ("refund", "allowed", "model")]
    read = state["turns"][1].observation
    assert all(text in read for text in ("no more than was paid", "order 17: 49.9 euros", "Refund 49.9 euros."))
    assert state["ending"] == "finished"


@pytest.mark.parametrize("outcome", ["forbidden", "read_first", "ask_first"])
def test_every_outcome_but_allowed_keeps_the_call_from_being_made(outcome: str, database: SupportDatabase) -> None:
    script = CheckingScript(choosing([REFUND]), answering(finding(problem(1, outcome, next="Do something else."))))
    state = work(checked(database, script), {"goal": GOAL})
    assert (database.rows("refunds"), checks_of(state)) == ([], [("refund", outcome, "model")])
    assert "Next: Do something else." in state["turns"][0].observation


def test_the_firmest_of_several_problems_of_a_call_counts(database: SupportDatabase) -> None:
    problems = [problem(1, outcome) for outcome in ("ask_first", "forbidden", "read_first")]
    script = CheckingScript(choosing([REFUND]), answering(finding(*problems)))
    assert checks_of(work(checked(database, script), {"goal": GOAL})) == [("refund", "forbidden", "model")]


def test_one_request_is_about_all_lasting_calls_of_a_response(database: SupportDatabase) -> None:
    script = CheckingScript(choosing([LOOK_UP], [LOOK_UP, REFUND, MAIL]), answering())
    state = work(checked(database, script), {"goal": GOAL})
    assert len(script.prompts) == 1
    assert checks_of(state) == [("refund", "allowed", "model"), ("send_mail", "allowed", "model")]
    assert (len(database.rows("refunds")), len(database.rows("mails")), database.looked_up) == (1, 1, 2)


def test_the_validator_sees_the_record_of_work_and_no_thought(database: SupportDatabase) -> None:
    denied = finding(problem(1, "forbidden", next="Refund 49.9 euros."))
    script = CheckingScript(choosing([LOOK_UP], [MAIL], [TOO_MUCH], [REFUND]), answering(ALLOWED, denied))
    given = [("user", "Hello"), ("ai", "I offer 30 euros."), ("user", GOAL)]
    work(checked(database, script), {"messages": given})
    last = script.prompts[-1]
    assert POLICY in last
    assert "eligible for a refund" in last
    assert "[its effect lasts]" in last.split("\n[call 2] ")[1].split("\n")[0]
    assert "refund(order=17, amount=49.9)" in last
    assert "refund(order: integer, amount: number): Refund an order." in last
    assert "Refund 49.9 euros." in last
    assert re.search(r"<world>\nI offer 30 euros\.\n</world>", last)
    assert "secret thought" not in last


def test_what_a_mail_lacks_keeps_only_the_closing_from_being_made(database: SupportDatabase) -> None:
    wrong = finding(problem(1, "forbidden", rule="a mail before each closing", next="Send the mail first."))
    script = CheckingScript(choosing([REFUND, MAIL], [REFUND]), answering(wrong))
    state = work(checked(database, script), {"goal": GOAL})
    # the call after the one that was refused was judged with that knowledge
    assert (len(database.rows("mails")), database.rows("refunds")) == (1, [(17, 49.9)])
    assert [one.outcome for one in state["checks"]] == ["forbidden", "allowed", "allowed"]


def test_a_call_after_one_that_failed_is_not_made_though_it_was_allowed(database: SupportDatabase) -> None:
    def refund(order: int, amount: float) -> str:
        """Refund an order."""
        raise ValueError("the bank is closed")

    tools = [database.look_up, refund, database.send_mail]
    script = CheckingScript(choosing([REFUND, MAIL]), answering())
    state = work(agent("react", model=ScriptedChat(responder=script), tools=tools), {"goal": GOAL})
    assert database.rows("mails") == []
    assert [one.outcome for one in state["checks"]] == ["allowed", "allowed"]


def test_words_that_nobody_wrote_are_left_out_of_the_record(database: SupportDatabase) -> None:
    invented = problem(1, "forbidden", rule="The moon has to be full.", fact="order 17: 12.0 euros", next="Wait.")
    script = CheckingScript(choosing([LOOK_UP], [REFUND]), answering(finding(invented, reason="The moon is new.")))
    state = work(checked(database, script), {"goal": GOAL})
    [record] = state["checks"]
    assert (record.outcome, record.rule, record.fact, record.reason) == ("forbidden", "", "", "The moon is new.")
    assert "The moon is new." in state["turns"][-2].observation


@pytest.mark.parametrize("answer", ["no JSON", {"reason": ""}, {"reason": "", "problems": [problem(7, "forbidden")]}])
def test_without_a_usable_answer_nothing_is_made(answer: Any, database: SupportDatabase) -> None:
    script = CheckingScript(choosing([LOOK_UP, REFUND, MAIL]), lambda prompt: answer)
    state = work(checked(database, script), {"goal": GOAL})
    assert (database.looked_up, database.rows("refunds"), database.rows("mails")) == (1, [], [])
    assert {one.outcome for one in state["checks"]} == {"unchecked"}


@pytest.mark.parametrize("method", first_fast(METHODS, 3))
def test_every_method_checks_before_it_acts(method: Any, database: SupportDatabase) -> None:
    script = CheckingScript(scripted_model().responder, answering())
    graph = checked(database, script, method)
    graph.invoke({"goal": GOAL})
    assert len(script.prompts) == 2
    assert (len(database.rows("refunds")), len(database.rows("mails"))) == (1, 1)
    refusing = CheckingScript(scripted_model().responder, lambda prompt: finding(problem(1, "forbidden")))
    state = work(checked(database, refusing, method), {"goal": GOAL})
    assert state["ending"] == "refused"
    assert (len(database.rows("refunds")), len(database.rows("mails"))) == (1, 1)


# Rules.


def within_price(call: Any, facts: Any) -> Any:
    order = facts.get("orders", {}).get(call.args["order"])
    if order is None:
        return Unknown(read="look_up")
    paid = float(order.split(" euros")[0].split(": ")[1])
    if call.args["amount"] > paid:
        return Forbidden("No more is refunded than was paid.", f"paid: {paid}", f"Refund {paid}.")
    return Allow()


RULES: Any = {"rules": {"refund": within_price}, "facts": {"look_up": "orders[order]"}}


def test_rules_decide_first_and_need_no_request(database: SupportDatabase) -> None:
    script = CheckingScript(choosing([REFUND], [LOOK_UP], [TOO_MUCH], [REFUND]), answering())
    state = work(checked(database, script, **RULES), {"goal": GOAL})
    assert script.prompts == []
    assert [(one.outcome, one.decided_by, one.fact) for one in state["checks"]] == [
        ("read_first", "code", ""),
        ("forbidden", "code", "paid: 49.9"),
        ("allowed", "code", ""),
    ]
    assert "Call look_up first." in state["turns"][0].observation
    assert database.rows("refunds") == [(17, 49.9)]


def test_the_validator_judges_only_what_rules_leave_open(database: SupportDatabase) -> None:
    script = CheckingScript(choosing([LOOK_UP], [TOO_MUCH, MAIL]), answering())
    state = work(checked(database, script, **RULES), {"goal": GOAL})
    assert [(one.tool, one.outcome, one.decided_by) for one in state["checks"]] == [
        ("refund", "forbidden", "code"),
        ("send_mail", "allowed", "model"),
    ]
    [prompt] = script.prompts
    assert "Judge call 2." in prompt
    assert re.search(r"1\. refund\(.*\[not made: .*No more is refunded than was paid", prompt)
    assert len(database.rows("mails")) == 1


def test_without_a_judge_only_rules_decide(database: SupportDatabase) -> None:
    script = CheckingScript(choosing([LOOK_UP], [MAIL], [TOO_MUCH], [TOO_MUCH, MAIL]), answering())
    check = check_calls(**RULES, judge=False)
    state = work(checked(database, script, check=check), {"goal": GOAL})
    assert script.prompts == []
    # nobody has judged the mail after the call that was refused
    assert (database.rows("refunds"), len(database.rows("mails"))) == ([], 1)
    assert {one.decided_by for one in state["checks"]} == {"code"}


@pytest.mark.filterwarnings("ignore:a rule for")
@pytest.mark.parametrize(("judge", "outcome", "by"), [(True, "allowed", "model"), (False, "unchecked", "code")])
def test_where_a_rule_fails_the_validator_decides_or_nobody(
    judge: bool, outcome: str, by: str, database: SupportDatabase
) -> None:
    script = CheckingScript(choosing([REFUND]), answering())
    check = check_calls(rules={"refund": lambda call, facts: facts["orders"][17]}, judge=judge)
    state = work(checked(database, script, check=check), {"goal": GOAL})
    assert checks_of(state) == [("refund", outcome, by)]
    assert bool(database.rows("refunds")) == judge


@pytest.mark.parametrize("order", [17, "17", 17.0])
def test_a_rule_judges_the_arguments_that_the_tool_gets(order: Any, database: SupportDatabase) -> None:
    def locked(call: Any, facts: Any) -> Any:
        return Forbidden("Order 17 is locked.") if call.args["order"] in {17} else Allow()

    chosen = {"order": order, "amount": 5}
    script = CheckingScript(choosing([("refund", chosen)]), answering())
    state = work(checked(database, script, rules={"refund": locked}), {"goal": GOAL})
    assert (database.rows("refunds"), checks_of(state)) == ([], [("refund", "forbidden", "code")])
    [record] = state["checks"]
    assert type(record.args["order"]) is type(order)


# Rules in later turns of a thread.


def in_two_turns(graph: AgentGraph) -> Any:
    """Take two turns of a thread, and return the state after the second."""
    for text in ("Refund order 17.", "Once more."):
        graph.invoke({"messages": [("user", text)]}, THREAD)
    return graph.get_state(THREAD).values


DONE: Call = ("finish", {"answer": "That is all."})


@pytest.mark.filterwarnings("ignore:the facts of the rules are incomplete")
@pytest.mark.parametrize("judge", [True, False])
def test_a_correction_of_what_an_earlier_turn_looked_up_disables_no_rule(
    judge: bool, database: SupportDatabase
) -> None:
    def note_mail(facts: Any, call: Any, answer: Any) -> None:
        facts["orders"][17] += " A mail was sent."

    def at_most_50(call: Any, facts: Any) -> Any:
        return Forbidden("Never more than 50 euros.") if call.args["amount"] > 50 else Allow()

    script = CheckingScript(choosing([LOOK_UP], [MAIL], [DONE], [TOO_MUCH], [DONE]), answering())
    check = check_calls(rules={"refund": at_most_50}, facts=RULES["facts"], after={"send_mail": note_mail}, judge=judge)
    state = in_two_turns(checked(database, script, check=check, checkpointer=InMemorySaver()))
    assert checks_of(state) == [("refund", "forbidden", "code")]
    assert (database.rows("refunds"), len(database.rows("mails"))) == ([], 1)


def test_a_rule_reads_long_answers_of_earlier_turns_and_prompts_show_their_beginning() -> None:
    refunded = list[float]()

    def refund(order: int, amount: float) -> str:
        """Refund an order."""
        refunded.append(amount)
        return json.dumps({"note": f"begins {'x' * 400} ends", "total": amount})

    def mail(text: str) -> str:
        """Send a mail."""
        return "sent"

    def at_most_50(call: Any, facts: Any) -> Any:
        before = facts.get("refunds", {}).get(17, {}).get("total", 0)
        return Forbidden("No more than 50 in all.") if before + call.args["amount"] > 50 else Allow()

    first, second = ("refund", {"order": 17, "amount": 40}), ("refund", {"order": 17, "amount": 41})
    script = CheckingScript(choosing([first], [DONE], [second], [("mail", {"text": "Hello"})], [DONE]), answering())
    rules: Any = {"rules": {"refund": at_most_50}, "facts": {"refund": "refunds[order]"}}
    model = ScriptedChat(responder=script)
    graph = agent(
        "react", model=model, tools=[refund, mail], audit=None, commitments=None, checkpointer=InMemorySaver(), **rules
    )
    state = in_two_turns(graph)
    assert checks_of(state) == [("refund", "forbidden", "code"), ("mail", "allowed", "model")]
    assert refunded == [40]
    [prompt] = script.prompts
    assert "[call 1] refund(" in prompt
    record = prompt[prompt.index("[call 1]") : prompt.index("[call 2]")]
    assert ("begins" in record, "ends" in record, len(record) < 500) == (True, False, True)


# Rules about calls that are chosen together.


def once(call: Any, facts: Any) -> Any:
    return Forbidden("An order is refunded once.") if call.args["order"] in facts.get("refunds", {}) else Allow()


def unless_done(call: Any, facts: Any) -> Any:
    return Forbidden("An order is refunded once.") if call.args["order"] in facts.get("refunds", {}) else None


def count_refund(facts: Any, call: Any, answer: Any) -> None:
    facts.setdefault("refunds", {})[call.args["order"]] = answer


AGAIN: Call = ("refund", FIVE)
FACTS: Any = {"facts": {"refund": "refunds[order]"}}


@pytest.mark.parametrize("judge", [True, False])
@pytest.mark.parametrize("declared", [FACTS, {"after": {"refund": count_refund}}], ids=["facts", "after"])
@pytest.mark.parametrize("rule", [once, unless_done])
def test_what_is_allowed_once_is_not_made_twice_in_one_action(
    rule: Any, declared: Any, judge: bool, database: SupportDatabase
) -> None:
    script = CheckingScript(choosing([REFUND, AGAIN], [AGAIN]), answering())
    check = check_calls(rules={"refund": rule}, judge=judge, **declared)
    state = work(checked(database, script, check=check), {"goal": GOAL})
    assert database.rows("refunds") == [(17, 49.9)]
    assert [one.outcome for one in state["checks"]] == ["allowed", "read_first", "forbidden"]
    assert "Next: Choose it again once the calls before it were answered." in state["turns"][0].observation


def test_calls_whose_answers_no_rule_reads_are_made_together(database: SupportDatabase) -> None:
    looked: list[Call] = [("look_up", {"order": 17 + number}) for number in range(5)]
    refunds: list[Call] = [("refund", {"order": 17 + number, "amount": 5}) for number in range(5)]
    known = {"rules": {"refund": lambda call, facts: Allow() if call.args["order"] in facts["orders"] else None}}
    script = CheckingScript(choosing(looked, [*looked[:1], *refunds]), answering())
    graph = checked(database, script, **known, facts={"look_up": "orders[order]"})
    assert checks_of(work(graph, {"goal": GOAL})) == [("refund", "allowed", "code")] * 5
    assert len(database.rows("refunds")) == 5


def test_calls_that_wait_for_each_other_are_not_stuck(database: SupportDatabase) -> None:
    refunds: list[Call] = [("refund", {"order": 17 + number, "amount": 5}) for number in range(6)]
    script = CheckingScript(choosing(*(refunds[number:] for number in range(6))), answering())
    state = work(checked(database, script, rules={"refund": once}, **FACTS), {"goal": GOAL})
    assert (state["ending"], len(database.rows("refunds")), script.prompts) == ("finished", 6, [])


def to_example(call: Any, facts: Any) -> Any:
    return Allow() if call.args["to"].endswith("@example.org") else Forbidden("Mails stay in the house.")


WITH_MAIL: Any = {"rules": {**RULES["rules"], "send_mail": to_example}, "facts": RULES["facts"]}


@pytest.mark.parametrize("right", [True, False])
def test_what_a_rule_allows_after_a_call_that_a_rule_denied_is_judged(right: bool, database: SupportDatabase) -> None:
    found = ALLOWED if right else finding(problem(2, "forbidden", next="Do not write that it was refunded."))
    script = CheckingScript(choosing([LOOK_UP], [TOO_MUCH, MAIL]), answering(found))
    state = work(checked(database, script, **WITH_MAIL), {"goal": GOAL})
    [prompt] = script.prompts
    assert re.search(r"1\. refund\(.*\[not made: .*No more is refunded than was paid", prompt)
    assert "Judge call 2." in prompt
    outcome = "allowed" if right else "forbidden"
    assert checks_of(state) == [("refund", "forbidden", "code"), ("send_mail", outcome, "model")]
    assert bool(database.rows("mails")) == right


def test_without_a_judge_what_a_rule_allows_after_a_denied_call_is_not_made(database: SupportDatabase) -> None:
    script = CheckingScript(choosing([LOOK_UP], [TOO_MUCH, MAIL]), answering())
    work(checked(database, script, check=check_calls(**WITH_MAIL, judge=False)), {"goal": GOAL})
    assert (script.prompts, database.rows("refunds"), database.rows("mails")) == ([], [], [])


@pytest.mark.parametrize(("problems", "by", "mails"), [((1, 2), "model", 0), ((1,), "model", 1), ((2,), "code", 1)])
def test_what_a_rule_allows_counts_unless_the_validator_denies_a_call_before_it(
    problems: Sequence[int], by: str, mails: int, database: SupportDatabase
) -> None:
    found = finding(*(problem(number, "forbidden") for number in problems))
    script = CheckingScript(choosing([REFUND, MAIL]), answering(found))
    state = work(checked(database, script, rules={"send_mail": to_example}), {"goal": GOAL})
    assert len(script.prompts) == 1
    assert (state["checks"][1].decided_by, len(database.rows("mails"))) == (by, mails)


# Two denials of one call.


def denying(*batches: Sequence[Call]) -> CheckingScript:
    return CheckingScript(choosing(*batches), lambda prompt: finding(problem(1, "forbidden", next="Leave it.")))


def test_after_two_denials_the_run_ends_where_nobody_can_decide(database: SupportDatabase) -> None:
    script = denying([REFUND], [REFUND], [REFUND])
    state = work(checked(database, script), {"goal": GOAL})
    assert (state["ending"], len(script.prompts), database.rows("refunds")) == ("refused", 2, [])
    assert "Leave it." in state["ending_reason"]
    assert state["messages"][-1].response_metadata["ending"] == "refused"


def test_after_two_denials_a_person_decides(database: SupportDatabase) -> None:
    script = denying([REFUND], [REFUND], [REFUND])
    graph = checked(database, script, checkpointer=InMemorySaver())
    waiting = graph.invoke({"goal": GOAL}, THREAD)
    [question] = waiting["__interrupt__"]
    assert question.value["action_requests"][0]["args"] == REFUND[1]
    assert "Leave it." in question.value["action_requests"][0]["description"]
    assert database.rows("refunds") == []
    state = graph.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    assert (database.rows("refunds"), state["ending"], len(script.prompts)) == ([(17, 49.9)], "finished", 2)
    assert checks_of(graph.get_state(THREAD).values)[-1] == ("refund", "allowed", "person")


@pytest.mark.parametrize(
    ("decision", "refunds", "read"),
    [
        ({"type": "reject", "message": "ask Ann"}, [], "ask Ann"),
        ({"type": "respond", "message": "The bank did it."}, [], "The bank did it."),
        (
            {"type": "edit", "edited_action": {"name": "refund", "args": {"order": 17, "amount": 5}}},
            [(17, 5)],
            "changed",
        ),
    ],
)
def test_a_person_decides_in_every_way(decision: Any, refunds: Any, read: str, database: SupportDatabase) -> None:
    script = denying([REFUND], [REFUND], [REFUND])
    graph = checked(database, script, checkpointer=InMemorySaver())
    graph.invoke({"goal": GOAL}, THREAD)
    graph.invoke(Command(resume=decision), THREAD)
    assert (database.rows("refunds"), len(script.prompts)) == (refunds, 2)
    assert read in graph.get_state(THREAD).values["turns"][-2].observation


def test_what_a_person_rejected_is_not_asked_again(database: SupportDatabase) -> None:
    script = denying([REFUND], [REFUND], [REFUND], [REFUND])
    graph = checked(database, script, checkpointer=InMemorySaver())
    graph.invoke({"goal": GOAL}, THREAD)
    state = graph.invoke(Command(resume={"type": "reject", "message": "ask Ann"}), THREAD)
    assert ("__interrupt__" in state, state["ending"]) == (False, "finished")
    assert "ask Ann" in graph.get_state(THREAD).values["turns"][-2].observation


def needs_order(call: Any, facts: Any) -> Any:
    return Allow() if call.args["order"] in facts.get("orders", {}) else Unknown(read="look_up")


@pytest.mark.parametrize("decision", ["reject", "approve"])
def test_what_a_person_rejected_only_a_person_allows_later(decision: str, database: SupportDatabase) -> None:
    script = CheckingScript(choosing([REFUND], [REFUND], [REFUND], [LOOK_UP], [REFUND]), answering())
    rules: Any = {"rules": {"refund": needs_order}, "facts": {"look_up": "orders[order]"}}
    graph = checked(database, script, **rules, checkpointer=InMemorySaver())
    graph.invoke({"goal": GOAL}, THREAD)
    waiting = graph.invoke(Command(resume={"type": "reject", "message": "ask Ann"}), THREAD)
    assert "ask Ann" in waiting["__interrupt__"][0].value["action_requests"][0]["description"]
    assert (database.looked_up, database.rows("refunds")) == (1, [])
    state = graph.invoke(Command(resume={"type": decision}), THREAD)
    assert (state["ending"], len(database.rows("refunds"))) == ("finished", decision == "approve")
    assert [one.decided_by for one in graph.get_state(THREAD).values["checks"]] == ["code", "code", "person", "person"]


def test_without_a_judge_nothing_is_made_after_what_a_person_rejected(database: SupportDatabase) -> None:
    script = CheckingScript(choosing([REFUND], [REFUND], [REFUND, MAIL]), answering())
    check = check_calls(rules={"refund": needs_order}, facts={"look_up": "orders[order]"}, judge=False)
    graph = checked(database, script, check=check, checkpointer=InMemorySaver())
    graph.invoke({"goal": GOAL}, THREAD)
    graph.invoke(Command(resume={"type": "reject", "message": "ask Ann"}), THREAD)
    assert (script.prompts, database.rows("refunds"), database.rows("mails")) == ([], [], [])


def test_the_other_calls_are_judged_after_the_person_decided(database: SupportDatabase) -> None:
    script = denying([REFUND], [REFUND], [MAIL, REFUND])
    script.check = answering(finding(problem(1, "forbidden")), finding(problem(1, "forbidden")), ALLOWED)
    graph = checked(database, script, checkpointer=InMemorySaver())
    graph.invoke({"goal": GOAL}, THREAD)
    assert len(script.prompts) == 2
    graph.invoke(Command(resume={"type": "reject", "message": "ask Ann"}), THREAD)
    assert (len(script.prompts), len(database.rows("mails"))) == (3, 1)
    assert re.search(r"2\. refund\(.*\[not made: A person rejected this call: ask Ann", script.prompts[-1])


def test_a_denial_does_not_count_once_something_new_was_learnt(database: SupportDatabase) -> None:
    other: Call = ("look_up", {"order": 18})
    findings = [finding(problem(1, "read_first"))] * 2
    script = CheckingScript(choosing([REFUND], [LOOK_UP], [REFUND], [other], [REFUND]), answering(*findings))
    state = work(checked(database, script), {"goal": GOAL})
    assert (state["ending"], database.rows("refunds")) == ("finished", [(17, 49.9)])


def test_what_is_looked_up_in_the_action_of_a_denial_is_new(database: SupportDatabase) -> None:
    findings = [finding(problem(2, "read_first")), finding(problem(1, "read_first"))]
    script = CheckingScript(choosing([LOOK_UP, REFUND], [REFUND], [REFUND]), answering(*findings))
    state = work(checked(database, script), {"goal": GOAL})
    assert (state["ending"], database.rows("refunds")) == ("finished", [(17, 49.9)])


def test_equal_calls_of_one_action_are_denied_once(database: SupportDatabase) -> None:
    denied = finding(problem(1, "read_first"), problem(2, "read_first"))
    script = CheckingScript(choosing([REFUND, REFUND], [REFUND]), answering(denied))
    state = work(checked(database, script), {"goal": GOAL})
    assert (state["ending"], database.rows("refunds")) == ("finished", [(17, 49.9)])


def test_what_is_looked_up_again_is_nothing_new(database: SupportDatabase) -> None:
    script = denying([LOOK_UP], [REFUND], [LOOK_UP], [REFUND], [LOOK_UP], [REFUND])
    assert work(checked(database, script), {"goal": GOAL})["ending"] == "refused"
    assert len(script.prompts) == 2


def test_denials_have_an_end_whatever_is_learnt(database: SupportDatabase) -> None:
    batches = [batch for order in range(9) for batch in ([("look_up", {"order": order})], [REFUND])]
    script = denying(*batches)
    assert work(checked(database, script), {"goal": GOAL})["ending"] == "refused"
    assert len(script.prompts) == 4


def test_a_case_of_an_evaluation_waits_for_nobody(database: SupportDatabase, tmp_path: Any) -> None:
    world = Tools(database.tools, [GOAL], effects={"look_up": "repeatable"}, reset=lambda case: database.clear())
    script = denying([REFUND], [REFUND], [REFUND])
    context = Context(chat=ScriptedChat(responder=script), budget=Budget(calls=20))
    result = run(react.build(check=check_calls()), world, "1", context=context, out=tmp_path)
    assert (result.ending, result.questions, result.scores and result.scores.value) == ("refused", [], 0)


def test_an_application_may_end_the_run_in_place_of_a_question(database: SupportDatabase) -> None:
    script = denying([REFUND], [REFUND], [REFUND])
    check = check_calls(on_denied="end")
    graph = checked(database, script, check=check, checkpointer=InMemorySaver())
    assert graph.invoke({"goal": GOAL}, THREAD)["ending"] == "refused"


def test_denials_of_an_earlier_turn_do_not_count(database: SupportDatabase) -> None:
    script = CheckingScript(
        choosing([REFUND], [REFUND], [("finish", {"answer": "It is not possible."})], [REFUND]),
        answering(*[finding(problem(1, "forbidden"))] * 2),
    )
    graph = checked(database, script, checkpointer=InMemorySaver())
    graph.invoke({"messages": [("user", "Refund order 17")]}, THREAD)
    state = graph.invoke({"messages": [("user", "Try again")]}, THREAD)
    assert (state["ending"], database.rows("refunds")) == ("finished", [(17, 49.9)])


# Consent.


def agreed(words: str, *calls: int) -> dict[str, Any]:
    return finding(consent=[{"calls": [*(calls or (1,))], "words": words}])


def test_consent_is_kept_with_the_users_words_and_the_values(database: SupportDatabase) -> None:
    script = CheckingScript(choosing([REFUND, MAIL]), answering(agreed("Yes, go ahead", 1, 2)))
    given = [("user", "Refund order 17"), ("ai", "49.9 euros and a mail?"), ("user", "Yes, go ahead!")]
    state = work(checked(database, script), {"messages": given})
    consents = [one.consent for one in state["checks"]]
    assert [(one.words, one.values) for one in consents] == [
        ("Yes, go ahead", REFUND[1]),
        ("Yes, go ahead", MAIL[1]),
    ]
    assert (len(database.rows("refunds")), len(database.rows("mails"))) == (1, 1)


@pytest.mark.parametrize("words", ["I agree to everything", "49.9 euros and a mail", "Yes, go ahead, and more", ""])
def test_consent_in_words_that_the_user_did_not_write_makes_the_call_ask_first(
    words: str, database: SupportDatabase
) -> None:
    script = CheckingScript(choosing([REFUND]), answering(agreed(words)))
    given = [("user", "Refund order 17"), ("ai", "49.9 euros and a mail?"), ("user", "Yes, go ahead!")]
    state = work(checked(database, script), {"messages": given})
    assert (checks_of(state), database.rows("refunds")) == ([("refund", "ask_first", "model")], [])
    assert "asks whether they agree" in state["turns"][-2].observation


def test_consent_is_shown_later_for_the_very_values_in_later_turns_too(database: SupportDatabase) -> None:
    def fails(name: str) -> None:
        if name == "refund" and not database.rows("mails"):
            raise ValueError("the bank is closed")

    broken = SupportDatabase(database.path, before=fails)
    script = CheckingScript(
        choosing([REFUND], [("finish", {"answer": "Later."})], [MAIL], [TOO_MUCH], [REFUND]),
        answering(agreed("Yes, refund it"), ALLOWED, finding(problem(1, "ask_first")), ALLOWED),
    )
    graph = checked(broken, script, checkpointer=InMemorySaver())
    given = [("user", "Refund order 17"), ("ai", "49.9 euros?"), ("user", "Yes, refund it")]
    graph.invoke({"messages": given}, THREAD)
    graph.invoke({"messages": [("user", "And now?")]}, THREAD)
    line = "refund(order=17, amount=49.9): 'Yes, refund it'"
    assert [line in prompt for prompt in script.prompts] == [False, False, True, True]
    assert database.rows("refunds") == [(17, 49.9)]


# Approval, commitments, edits.


def test_a_person_is_asked_only_about_calls_that_passed_the_check(database: SupportDatabase) -> None:
    script = CheckingScript(choosing([TOO_MUCH], [REFUND]), answering(finding(problem(1, "forbidden"))))
    graph = checked(database, script, interrupt_on={"refund": True}, checkpointer=InMemorySaver())
    waiting = graph.invoke({"goal": GOAL}, THREAD)
    assert waiting["__interrupt__"][0].value["action_requests"][0]["args"] == REFUND[1]
    edited = {"type": "edit", "edited_action": {"name": "refund", "args": {"order": 17, "amount": 60}}}
    graph.invoke(Command(resume=edited), THREAD)
    # what a person wrote is not checked
    assert (database.rows("refunds"), len(script.prompts)) == ([(17, 60)], 2)


def committing(names: Sequence[str], *batches: Sequence[Call]) -> Callable[[str, Any], Any]:
    """Return a script that commits to these tools, and chooses these calls."""
    choose = choosing(*batches)
    return lambda prompt, schema: (
        choose(prompt, schema) if "calls" in schema["properties"] else {"reasoning": "", "tools": [*names]}
    )


def test_a_call_beyond_the_commitment_is_not_put_to_the_validator(database: SupportDatabase) -> None:
    script = CheckingScript(committing(["send_mail"], [REFUND, MAIL]), answering())
    state = work(checked(database, script), {"goal": GOAL})
    [prompt] = script.prompts
    assert "Judge call 2." in prompt
    assert (checks_of(state), database.rows("refunds")) == ([("send_mail", "allowed", "model")], [])


@pytest.mark.parametrize("by_rules", [True, False])
def test_a_person_is_asked_about_a_call_beyond_the_commitment_only_after_the_check(
    by_rules: bool, database: SupportDatabase
) -> None:
    script = CheckingScript(
        committing(["look_up"], [LOOK_UP], [TOO_MUCH], [REFUND]),
        answering(finding(problem(1, "forbidden", next="Refund 49.9."))),
    )
    options = {**(RULES if by_rules else {}), "interrupt_on": {"refund": True}, "checkpointer": InMemorySaver()}
    graph = checked(database, script, **options)
    [question] = graph.invoke({"goal": GOAL}, THREAD)["__interrupt__"]
    [shown] = question.value["action_requests"]
    assert shown["args"] == REFUND[1]
    assert "not committed to" in shown["description"]
    by = "code" if by_rules else "model"
    assert checks_of(graph.get_state(THREAD).values) == [("refund", "forbidden", by), ("refund", "allowed", by)]
    graph.invoke(Command(resume={"type": "approve"}), THREAD)
    assert database.rows("refunds") == [(17, 49.9)]
    assert len(script.prompts) == (0 if by_rules else 2)
    assert not any(re.search(r"1\. refund\(.*\[not made", prompt) for prompt in script.prompts)


def test_whoever_decides_about_a_denied_call_reads_that_it_is_beyond_the_commitment(database: SupportDatabase) -> None:
    script = CheckingScript(
        committing(["look_up"], [REFUND], [REFUND], [REFUND]), lambda prompt: finding(problem(1, "forbidden"))
    )
    graph = checked(database, script, interrupt_on={"refund": True}, checkpointer=InMemorySaver())
    [question] = graph.invoke({"goal": GOAL}, THREAD)["__interrupt__"]
    description = question.value["action_requests"][0]["description"]
    assert "denied more than once" in description
    assert "not committed to" in description


# Resume and replay.


def test_a_resumed_run_sends_the_same_prompt(database: SupportDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    class Crash(Exception):
        """The process ends."""

    crashes = [True]

    def check(prompt: str) -> Any:
        if crashes:
            crashes.pop()
            raise Crash
        return ALLOWED

    script = CheckingScript(choosing([REFUND]), check)
    graph = checked(database, script, checkpointer=InMemorySaver())
    with pytest.raises(Exception):  # noqa: B017 - what the endpoint's failure becomes does not matter
        graph.invoke({"goal": GOAL}, THREAD)
    graph.invoke(None, THREAD)
    assert len(set(script.prompts)) == 1
    assert "The time: " in script.prompts[0]
    before = [one for one in graph.get_state_history(THREAD) if one.next == ("check",)]
    graph.invoke(None, before[0].config)
    assert len(set(script.prompts)) == 1
    assert database.rows("refunds") == [(17, 49.9)]


def test_no_clock_stands_in_the_prompts_of_cases(database: SupportDatabase, tmp_path: Any) -> None:
    world = Tools(database.tools, [GOAL], effects={"look_up": "repeatable"}, reset=lambda case: database.clear())
    script = CheckingScript(choosing([REFUND]), answering())
    context = Context(chat=ScriptedChat(responder=script))
    run(react.build(check=check_calls()), world, "1", context=context, out=tmp_path)
    assert "The time:" not in script.prompts[0]


def test_invoke_and_ainvoke_check_alike(database: SupportDatabase) -> None:
    script = CheckingScript(choosing([LOOK_UP], [TOO_MUCH]), answering())
    graph = checked(database, script, **RULES, checkpointer=InMemorySaver())
    asyncio.run(graph.ainvoke({"goal": GOAL}, THREAD))
    assert checks_of(graph.get_state(THREAD).values) == [("refund", "forbidden", "code")]


# Events, and how the check is chosen.


def test_a_denied_call_is_an_event(database: SupportDatabase) -> None:
    script = CheckingScript(choosing([LOOK_UP], [TOO_MUCH], [MAIL]), answering())
    events = checked(database, script, **RULES).stream({"goal": GOAL}, stream_mode="custom")
    [event] = [one for one in events if one["type"] == "checked"]
    assert event == {
        "type": "checked",
        "name": "refund",
        "args": TOO_MUCH[1],
        "outcome": "forbidden",
        "rule": "No more is refunded than was paid.",
        "fact": "paid: 49.9",
        "next": "Refund 49.9.",
        "decided_by": "code",
    }


def test_an_agent_without_lasting_tools_has_no_check(database: SupportDatabase) -> None:
    only_reads = agent("react", model=scripted_model(), tools=[database.look_up], effects={"look_up": "repeatable"})
    assert "check" not in only_reads.nodes
    assert "check" in agent("react", model=scripted_model(), tools=[database.look_up]).nodes
    assert "check" not in agent("react", model=scripted_model(), tools=database.tools, check=None).nodes


def test_own_checks_and_rules_exclude_each_other(database: SupportDatabase) -> None:
    for given in (check_calls(), None):
        with pytest.raises(ValueError, match=re.escape("check= takes the place of rules=")):
            checked(database, CheckingScript(choosing(), answering()), check=given, **RULES)


def test_rules_about_unknown_tools_are_refused_when_the_agent_is_built(database: SupportDatabase) -> None:
    with pytest.raises(ValueError, match=re.escape("rules names 'refunds', which is not a tool")):
        checked(database, CheckingScript(choosing(), answering()), rules={"refunds": within_price})


def test_a_graph_that_solves_sub_tasks_checks_there(database: SupportDatabase) -> None:
    script = CheckingScript(scripted_model().responder, answering())
    work(checked(database, script, "tdp", solve="react"), {"goal": GOAL})
    assert len(script.prompts) == 2
    with pytest.raises(ValueError, match="rules= belongs into the graph that solves the sub-tasks"):
        checked(database, script, "tdp", solve=tdp.solve(graph="react"), **RULES)


def test_an_operator_is_built_again_from_its_spec() -> None:
    from certigraph.graphs.assembly import operators_of
    from certigraph.graphs.catalogue import OPERATORS
    from certigraph.nodes.slots import build_operator
    from certigraph.nodes.specs import Spec, parse_spec

    check = check_calls(**RULES, judge=False)
    spec = Spec.model_validate(operators_of(react.build(check=check))["check"])
    assert spec.args["rules"] == {"refund": f"{__name__}:within_price"}
    assert build_operator(parse_spec(str(spec)), OPERATORS).spec == spec


def test_the_record_says_who_decided_and_what_was_denied() -> None:
    record = CallCheck(tool="refund", outcome="unchecked")
    assert (record.is_denied, record.decided_by) == (True, "model")


def test_the_usual_script_needs_two_more_requests(database: SupportDatabase) -> None:
    def count(**options: Any) -> int:
        script = CheckingScript(scripted_model(SCRIPT).responder, answering())
        state = work(checked(database, script, commitments=None, **options), {"goal": GOAL})
        return int(state["turn_usage"]["calls"])

    assert count() == count(check=None) + 2


def test_a_sub_task_is_judged_by_what_earlier_ones_were_answered(database: SupportDatabase) -> None:
    script = CheckingScript(choosing_by_prompt, answering())
    checked(database, script, "tdp").invoke({"goal": GOAL})
    [prompt] = script.prompts
    assert "\n order 17: 49.9 euros, customer ann@example.org, eligible for a refund" in prompt
    assert prompt.count("] look_up(order=17)") == 1
    assert f"who wrote:\n{GOAL}" in prompt
    assert database.rows("refunds") == [(17, 49.9)]


# What earlier turns did.

WORKERS: Any = [*((method, {}) for method in METHODS), *(("tdp", {"solve": name}) for name in ("sdp", "react", "tdp"))]
"""The methods, and the graphs that may work on a sub-task."""


def refunded_once(call: Any, facts: Any) -> Any:
    return Forbidden("An order is refunded once.") if facts.get("refunds") else Allow()


def count_refunds(facts: Any, call: Any, answer: Any) -> None:
    facts["refunds"] = facts.get("refunds", 0) + 1
    assert facts["refunds"] == 1  # an effect is counted once


def working(worker: Any, database: SupportDatabase, **options: Any) -> AgentGraph:
    method, solver = worker
    script = CheckingScript(scripted_model().responder, answering())
    settings = {"effects": {"look_up": "repeatable"}, "checkpointer": InMemorySaver(), **solver, **options}
    return agent(method, model=ScriptedChat(responder=script), tools=database.tools, **settings)


def refunds_in(state: Any) -> int:
    return sum(one["tool"] == "refund" for one in state["effects"])


ONCE: Any = {"rules": {"refund": refunded_once}, "after": {"refund": count_refunds}}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("worker", first_fast(WORKERS, 2))
def test_a_rule_knows_what_all_earlier_turns_did(worker: Any, database: SupportDatabase) -> None:
    graph = working(worker, database, **ONCE)
    states = [graph.invoke({"messages": [("user", GOAL)]}, THREAD) for _ in range(3)]
    assert database.rows("refunds") == [(17, 49.9)]
    assert [refunds_in(state) for state in states] == [1, 0, 0]


@pytest.mark.parametrize("worker", first_fast(WORKERS, 2))
def test_a_rule_knows_what_was_done_before_a_limit(worker: Any, database: SupportDatabase) -> None:
    graph = working(worker, database, **ONCE)
    for calls in range(3, 15):  # until the budget is spent after the refund
        state = graph.invoke({"messages": [("user", GOAL)]}, THREAD, context=Context(budget=Budget(calls=calls)))
        if database.rows("refunds"):
            break
    assert (state["ending"], refunds_in(state)) == ("limit:calls", 1)
    assert refunds_in(graph.invoke({"messages": [("user", GOAL)]}, THREAD)) == 0
    assert database.rows("refunds") == [(17, 49.9)]


@pytest.mark.parametrize("worker", first_fast(WORKERS, 2))
def test_what_was_done_before_a_denial_is_an_effect(worker: Any, database: SupportDatabase) -> None:
    def no_mail(call: Any, facts: Any) -> Any:
        return Forbidden("No mail is written.")

    rules, (method, solver) = {"send_mail": no_mail, **ONCE["rules"]}, worker
    check = check_calls(rules=rules, after=ONCE["after"], on_denied="end")
    checking: Any = {"solve": tdp.solve(graph=solver["solve"], check=check)} if solver else {"check": check}
    graph = working((method, checking), database)
    state = graph.invoke({"messages": [("user", GOAL)]}, THREAD)
    assert (state["ending"], refunds_in(state)) == ("refused", 1)
    assert [one.name for one in state["messages"] if isinstance(one, ToolMessage)][:2] == ["look_up", "refund"]
    assert refunds_in(graph.invoke({"messages": [("user", GOAL)]}, THREAD)) == 0
    assert database.rows("refunds") == [(17, 49.9)]


def test_a_sub_task_is_judged_by_what_earlier_turns_did(database: SupportDatabase) -> None:
    script = CheckingScript(choosing_by_prompt, answering())
    graph = checked(database, script, "tdp", checkpointer=InMemorySaver())
    for _ in range(2):
        graph.invoke({"messages": [("user", GOAL)]}, THREAD)
    prompt = script.prompts[-1]
    assert prompt.count("] refund(order=17, amount=49.9) [its effect lasts]\n refunded 17: 49.9") == 1
    assert prompt.count("] look_up(order=17)") == 1
