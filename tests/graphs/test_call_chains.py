"""Calls that an agent makes together: they are made in the order given, and not all of them after one that fails."""

from itertools import product
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from certigraph.adapters.models.schemas import Schema, minimal_instance
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.graphs.agent import agent
from certigraph.state.records import Observation, Step
from certigraph.state.tools import ToolCall, calls_of, create_tool_action, number_calls

THREAD: Any = {"configurable": {"thread_id": "t"}}


class Office:
    """Tools that look and tools that act, each of which may fail."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def look(self, name: str) -> str:
        """Look something up."""
        return self._do(name)

    def act(self, name: str) -> str:
        """Change something."""
        return self._do(name)

    def _do(self, name: str) -> str:
        self.made.append(name)
        if "fails" in name:
            raise ValueError(name)
        return f"{name} is done"


def carry(office: Office, calls: list[tuple[str, str]], *, saver: Any, rules: Any = None) -> Any:
    left = [[(name, {"name": arg}) for name, arg in calls], [("finish", {"answer": "done"})]]

    def respond(prompt: str, schema: Schema) -> Any:
        if "calls" not in schema.get("properties", {}):
            return minimal_instance(schema)
        return {"thought": "", "calls": [{"name": name, "args": args} for name, args in left.pop(0)]}

    graph: Any = agent(
        "react",
        model=ScriptedChat(responder=respond),
        tools=[office.look, office.act],
        effects={"look": "repeatable"},
        checkpointer=saver,
        commitments=None,
        interrupt_on=rules,
    )
    graph.invoke({"goal": "Do it."}, THREAD)
    return graph


@pytest.mark.parametrize("saver", [None, InMemorySaver])
@pytest.mark.parametrize(
    ("calls", "made"),
    [
        ([("act", "a"), ("look", "b"), ("act", "c"), ("look", "d")], ["a", "b", "c", "d"]),
        ([("act", "a fails"), ("look", "b"), ("act", "c"), ("look", "d")], ["a fails"]),
        ([("look", "a fails"), ("look", "b"), ("act", "c"), ("look", "d")], ["a fails", "b", "d"]),
        ([("look", "a"), ("act", "b fails"), ("look", "c"), ("look", "d")], ["a", "b fails"]),
        ([("look", "a fails"), ("act", "b"), ("act", "c")], ["a fails"]),
    ],
)
def test_calls_are_made_until_one_fails(calls: Any, made: list[str], saver: Any) -> None:
    office = Office()
    carry(office, calls, saver=saver() if saver else None)
    assert sorted(office.made) == made


def test_the_rule_holds_for_every_chain_of_four() -> None:
    kinds = list(product(("look", "act"), (False, True)))
    for chain in product(kinds, repeat=3):
        office = Office()
        calls = [(kind, f"{number}{' fails' if fails else ''}") for number, (kind, fails) in enumerate(chain)]
        carry(office, calls, saver=None)
        wanted, stopped, looked = [], False, False
        for kind, name in calls:
            if stopped or (looked and kind == "act"):
                continue
            wanted.append(name)
            stopped |= kind == "act" and "fails" in name
            looked |= "fails" in name
        lasting = [name for kind, name in calls if kind == "act"]
        assert sorted(office.made) == wanted, calls  # neighbouring look-ups are made at the same time
        assert [name for name in office.made if name in lasting] == [name for name in wanted if name in lasting]


def test_what_a_person_rejects_does_not_stop_what_the_person_approves() -> None:
    office = Office()
    graph = carry(office, [("act", "a"), ("look", "b"), ("act", "c")], saver=InMemorySaver(), rules={"act": True})
    graph.invoke(Command(resume={"decisions": [{"type": "reject"}, {"type": "approve"}]}), THREAD)
    assert office.made == ["b", "c"]


def test_what_a_person_approves_is_not_made_after_a_failure() -> None:
    office = Office()
    graph = carry(office, [("act", "a fails"), ("act", "c")], saver=InMemorySaver(), rules={"act": True})
    graph.invoke(Command(resume={"decisions": [{"type": "approve"}, {"type": "approve"}]}), THREAD)
    assert office.made == ["a fails"]


# The numbers of equal calls.

PAY, MAIL = ToolCall(name="pay", args={"amount": 5}), ToolCall(name="mail")


def steps(*actions: list[ToolCall]) -> list[Step]:
    return [Step(action=create_tool_action(calls), digest=Observation(text="").digest()) for calls in actions]


@pytest.mark.parametrize(
    ("before", "calls", "numbers"),
    [
        ([], [PAY, MAIL, PAY, PAY], [0, 0, 1, 2]),
        ([[PAY]], [PAY, PAY], [1, 2]),
        ([[PAY, PAY], [MAIL]], [PAY, MAIL, PAY], [2, 1, 3]),
        ([[PAY.model_copy(update={"refused": "no"})]], [PAY], [0]),
        ([], [PAY.model_copy(update={"refused": "no"}), PAY], [0, 0]),
        ([], [PAY.model_copy(update={"approved": True}), PAY], [0, 1]),
        ([], [PAY.model_copy(update={"edited": True, "chosen": "pay(amount=9)"}), PAY], [0, 1]),
    ],
)
def test_equal_calls_are_numbered_over_the_episode(before: Any, calls: Any, numbers: list[int]) -> None:
    assert number_calls(steps(*before), calls) == numbers
    assert calls_of(create_tool_action(calls)) == tuple(calls)


# Edits.


def edited(name: str, arg: str) -> Any:
    return {"decisions": [{"type": "edit", "edited_action": {"name": name, "args": {"name": arg}}}]}


def test_an_edit_into_another_tool_is_decided_by_the_rule_of_that_tool() -> None:
    rules = {"look": {"allowed_decisions": ["approve", "edit"]}, "act": {"allowed_decisions": ["approve", "reject"]}}
    for answer, made in (("approve", ["b"]), ("reject", [])):
        office = Office()
        graph = carry(office, [("look", "a")], saver=InMemorySaver(), rules=rules)
        [question] = graph.invoke(Command(resume=edited("act", "b")), THREAD)["__interrupt__"]
        assert question.value["review_configs"] == [{"action_name": "act", "allowed_decisions": ["approve", "reject"]}]
        assert office.made == []
        graph.invoke(Command(resume={"decisions": [{"type": answer}]}), THREAD)
        assert office.made == made


@pytest.mark.parametrize("target", ["look", "act"])
def test_an_edit_into_a_tool_without_a_rule_is_made_and_the_agent_sees_what_was_changed(target: str) -> None:
    office = Office()
    other = "act" if target == "look" else "look"
    graph = carry(office, [(other, "a")], saver=InMemorySaver(), rules={other: True})
    graph.invoke(Command(resume=edited(target, "b")), THREAD)
    assert office.made == ["b"]
    assert f'{other}(name="a")' in graph.get_state(THREAD).values["turns"][0].observation


def test_questions_carry_the_schema_of_their_answers() -> None:
    office = Office()
    graph = carry(office, [("act", "a")], saver=InMemorySaver(), rules={"act": {"allowed_decisions": ["approve"]}})
    [waiting] = graph.get_state(THREAD).interrupts
    assert waiting.response_schema["properties"]["decisions"]["items"]["properties"]["type"] == {"enum": ["approve"]}


@pytest.mark.parametrize(
    "given",
    [{"interrupt_on": {"act": True}, "approve": lambda state, runtime: {}}, {"commit": lambda state, runtime: {}}],
)
def test_an_operator_that_would_drop_what_a_keyword_asks_for_is_refused(given: Any) -> None:
    with pytest.raises(ValueError, match=r"approve=|commit="):
        agent("react", model=ScriptedChat(responder=lambda prompt, schema: {}), tools=[Office().act], **given)
