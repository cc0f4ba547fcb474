"""Certified: lasting calls are checked before they are made, and the answer is judged before the turn ends."""

from typing import Any

import pytest
from deepagents import create_deep_agent
from helpers.models.scripted_agents import LOOK_UPS, ScriptedAgent, Validator, calls, shop_tools
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ModelCallLimitMiddleware, TodoListMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Command
from pydantic import BaseModel

import certigraph
from certigraph.middleware.certification import Certified

ASK = {"messages": [("user", "Refund order 17 and close its ticket after a mail.")]}


def agent_of(replies: list[Any], validator: Validator, done: list[str], **given: Any):
    middleware = Certified(model=validator.chat, effects=LOOK_UPS, **given)
    return create_agent(
        ScriptedAgent(replies=replies), shop_tools(done), middleware=[middleware], checkpointer=InMemorySaver()
    )


CONFIG = {"configurable": {"thread_id": "1"}}

WORK = [
    calls(("look_up", {"order": 17})),
    calls(("refund", {"order": 17, "amount": 64.0})),
    "Order 17 was refunded.",
]


def test_a_right_turn_is_checked_and_certified():
    done, validator = list[str](), Validator()
    state = agent_of(WORK, validator, done).invoke(ASK, CONFIG)
    assert done == ["refund 17 64.0"]
    assert [(one["tool"], one["outcome"]) for one in state["checked"]] == [("refund", "allowed")]
    assert state["ending"] == "goal"
    assert [one["decided_by"] for one in state["certificates"]] == ["model"]
    assert state["messages"][-1].response_metadata["ending"] == "goal"
    assert len(validator.prompts) == 2


def test_a_wrong_call_is_refused_before_it_takes_effect():
    done = list[str]()
    validator = Validator({"refund": {"outcome": "forbidden", "next": "Refund 64.00."}})
    replies = [
        calls(("refund", {"order": 17, "amount": 79.0})),
        calls(("refund", {"order": 17, "amount": 64.0}), first="d"),
        "Done.",
    ]
    state = agent_of(replies, validator, done).invoke(ASK, CONFIG)
    assert done == ["refund 17 64.0"]
    refused = next(one for one in state["messages"] if isinstance(one, ToolMessage))
    assert refused.status == "error" and "Refund 64.00." in refused.content
    assert [one["outcome"] for one in state["checked"]] == ["forbidden", "allowed"]


def test_a_premature_answer_is_sent_back_and_completed():
    done, validator = list[str](), Validator(missing=["Close the ticket of order 17."])
    replies = [*WORK, calls(("close", {"order": 17}), first="d"), "All is done."]
    state = agent_of(replies, validator, done).invoke(ASK, CONFIG)
    assert done == ["refund 17 64.0", "close 17"]
    assert any(
        "Close the ticket of order 17." in one.content for one in state["messages"] if isinstance(one, HumanMessage)
    )
    assert (state["ending"], state["messages"][-1].text) == ("goal", "All is done.")


# The validator is not there, or nobody knows it.


def test_without_a_usable_verdict_no_lasting_call_is_made():
    done = list[str]()
    broken = certigraph.ScriptedChat(responder=silent)
    middleware = Certified(model=broken, effects=LOOK_UPS)
    agent = create_agent(ScriptedAgent(replies=[*WORK]), shop_tools(done), middleware=[middleware])
    state = agent.invoke(ASK)
    assert done == []
    assert [one["outcome"] for one in state["checked"]] == ["unchecked"]
    assert state["ending"] == "finished" and "not judged" in state["ending_reason"]


def silent(prompt: str, schema: Any) -> str:
    return "I cannot say."


silent.answers_checks = True  # type: ignore[attr-defined]


def test_calls_of_a_process_that_ended_before_their_check_are_not_made():
    done, validator, saver = list[str](), Validator(), InMemorySaver()
    middleware = Certified(model=validator.chat, effects=LOOK_UPS)
    first = create_agent(
        ScriptedAgent(replies=WORK),
        shop_tools(done),
        middleware=[middleware],
        checkpointer=saver,
        interrupt_before=["Certified.after_model"],
    )
    first.invoke(ASK, CONFIG)
    first.invoke(None, CONFIG)
    assert saver.get(CONFIG)["channel_values"]["messages"][-1].tool_calls[0]["name"] == "refund"
    replies = [calls(("refund", {"order": 17, "amount": 64.0}), first="d"), "Order 17 was refunded."]
    second = create_agent(
        ScriptedAgent(replies=replies),
        shop_tools(done),
        middleware=[Certified(model=validator.chat, effects=LOOK_UPS)],
        checkpointer=saver,
    )
    state = second.invoke(None, CONFIG)
    assert done == ["refund 17 64.0"]
    assert [one["outcome"] for one in state["checked"]] == ["unchecked", "allowed"]
    assert state["ending"] == "goal"


# Turns that end otherwise.


def test_an_end_by_a_call_limit_is_named():
    done, validator = list[str](), Validator()
    middleware = [ModelCallLimitMiddleware(run_limit=1), Certified(model=validator.chat, effects=LOOK_UPS)]
    agent = create_agent(ScriptedAgent(replies=[*WORK]), shop_tools(done), middleware=middleware)
    state = agent.invoke(ASK)
    assert state["ending"] == "stopped" and "limit" in state["ending_reason"]


def test_a_second_turn_begins_without_the_records_of_the_first():
    done, validator = list[str](), Validator()
    agent = agent_of([*WORK, "Nothing to do."], validator, done)
    agent.invoke(ASK, CONFIG)
    state = agent.invoke({"messages": [("user", "Thanks.")]}, CONFIG)
    assert state["checked"] == []
    assert len(state["certificates"]) <= 1
    assert "Thanks." in validator.prompts[-1]


class Report(BaseModel):
    """What was done."""

    text: str


def test_a_structured_answer_with_a_lasting_call_is_taken_back():
    done, validator = list[str](), Validator()
    both = AIMessage(
        "",
        tool_calls=[
            {"name": "refund", "args": {"order": 17, "amount": 64.0}, "id": "c1", "type": "tool_call"},
            {"name": "Report", "args": {"text": "refunded"}, "id": "c2", "type": "tool_call"},
        ],
    )
    middleware = Certified(model=validator.chat, effects=LOOK_UPS)
    replies = [both, calls(("Report", {"text": "64.00 euros"}), first="d")]
    agent = create_agent(
        ScriptedAgent(replies=replies), shop_tools(done), middleware=[middleware], response_format=ToolStrategy(Report)
    )
    state = agent.invoke(ASK)
    assert [one["outcome"] for one in state["checked"]] == ["allowed"]
    assert done == ["refund 17 64.0"]
    assert (state["structured_response"], state["ending"]) == (Report(text="64.00 euros"), "goal")


def test_a_structured_answer_is_sent_back_and_given_again():
    done, validator = list[str](), Validator(missing=["Refund order 17."])
    replies = [calls(("Report", {"text": "done"})), *WORK[1:2], calls(("Report", {"text": "64.00 euros"}), first="d")]
    middleware = Certified(model=validator.chat, effects=LOOK_UPS)
    agent = create_agent(
        ScriptedAgent(replies=replies), shop_tools(done), middleware=[middleware], response_format=ToolStrategy(Report)
    )
    state = agent.invoke(ASK)
    assert (state["structured_response"], state["ending"], done) == (
        Report(text="64.00 euros"),
        "goal",
        ["refund 17 64.0"],
    )


@pytest.mark.parametrize(
    ("text", "judged"),
    [
        ("Which order do you mean?", 0),
        ("I refunded it. Anything else?", 1),
        ("There is no such order.", 1),
    ],
)
def test_only_a_mere_question_passes_unjudged(text: str, judged: int):
    validator = Validator()
    state = agent_of([text], validator, []).invoke(ASK, CONFIG)
    assert len(validator.prompts) == judged
    assert (state["ending"] == "question") == ("?" in text)


# A call that is denied twice.


def test_a_call_denied_twice_is_a_persons_decision():
    done = list[str]()
    validator = Denying()
    replies = [calls(("refund", {"order": 17, "amount": 79.0}), first=f"c{n}") for n in range(3)]
    agent = agent_of([*replies, "Refunded."], validator, done)
    state = agent.invoke(ASK, CONFIG)
    assert done == [] and "__interrupt__" in state
    state = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), CONFIG)
    assert done == ["refund 17 79.0"]
    assert [one["decided_by"] for one in state["checked"]] == ["model", "model", "person"]


def test_a_call_denied_twice_ends_a_run_without_a_checkpointer():
    done, middleware = list[str](), Certified(model=Denying().chat, effects=LOOK_UPS)
    replies = [calls(("refund", {"order": 17, "amount": 79.0}), first=f"c{n}") for n in range(9)]
    state = create_agent(ScriptedAgent(replies=replies), shop_tools(done), middleware=[middleware]).invoke(ASK)
    assert (done, state["ending"]) == ([], "refused")
    assert isinstance(state["messages"][-1], AIMessage)


class Denying(Validator):
    """Denies each call, and confirms each answer."""

    def __call__(self, prompt: Any, schema: Any) -> Any:
        self.problems = {"refund": {"outcome": "forbidden", "next": "Refund 64.00."}}
        return super().__call__(prompt, schema)


# Conditions.


def test_conditions_are_certified_each_by_itself():
    conditions = ["Order 17 is refunded.", "The ticket of order 17 is closed."]
    holds = [{"condition": 1, "reason": "seen", "evidence": "refunded 64.0 euros of order 17"}]
    done, validator = list[str](), Validator(holds=holds, missing=["Close the ticket."])
    again = [calls(("close", {"order": 17}), first="d"), "All is done."]
    agent = agent_of([*WORK, *again], validator, done, conditions=conditions)
    state = agent.invoke(ASK, CONFIG)
    texts = [one["targets"][0]["text"] for one in state["certificates"]]
    assert state["conditions"] == conditions
    assert texts[0] == conditions[0] and texts.count(conditions[0]) == 1


def test_code_decides_conditions_for_nothing():
    done, validator = list[str](), Validator()
    checks = {"Order {order} is refunded.": lambda order: f"refund {order} 64.0" in done}
    agent = agent_of(["Done.", *WORK[1:]], validator, done, conditions=["Order 17 is refunded."], checks=checks)
    state = agent.invoke(ASK, CONFIG)
    assert [one["decided_by"] for one in state["certificates"]] == ["code", "model"]
    assert done == ["refund 17 64.0"]
    assert len(validator.prompts) == 2  # the false end cost none


@pytest.mark.parametrize(("left", "judged"), [("", 1), ("close the ticket", 2)])
def test_unless_left_saves_the_verdict_where_the_check_found_nothing_left(left: str, judged: int):
    done, validator = list[str](), Validator(left=left)
    state = agent_of(WORK, validator, done, end="unless_left").invoke(ASK, CONFIG)
    assert len(validator.prompts) == judged
    assert state["ending"] == ("finished" if judged == 1 else "goal")


# Other middleware, other frameworks.


def test_a_person_is_asked_only_about_calls_that_passed():
    done = list[str]()
    validator = Validator({"mail": {"outcome": "forbidden", "next": "Leave it."}})
    person = HumanInTheLoopMiddleware({"refund": True, "mail": True}, interrupt_mode="per_call")
    middleware = [person, Certified(model=validator.chat, effects=LOOK_UPS)]
    replies = [calls(("mail", {"order": 17}), ("refund", {"order": 17, "amount": 64.0})), "Done."]
    agent = create_agent(
        ScriptedAgent(replies=replies), shop_tools(done), middleware=middleware, checkpointer=InMemorySaver()
    )
    state = agent.invoke(ASK, CONFIG)
    [question] = state["__interrupt__"]
    assert question.value["name"] == "refund"
    agent.invoke(Command(resume={"type": "approve"}), CONFIG)
    assert done == ["refund 17 64.0"]


def test_streams_and_checkpoints_have_nothing_of_the_agents_parts():
    done, validator, saver = (
        list[str](),
        Validator(),
        InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=[])),
    )
    middleware = Certified(model=validator.chat, effects=LOOK_UPS)
    agent = create_agent(
        ScriptedAgent(replies=WORK),
        shop_tools(done),
        middleware=[middleware],
        checkpointer=saver,
        system_prompt="PROMPT-OF-THE-AGENT",
    )
    events = list(agent.stream(ASK, CONFIG, stream_mode=["updates", "values", "custom"]))
    assert "PROMPT-OF-THE-AGENT" not in repr(events)
    assert "certigraph_parts" not in saver.get(CONFIG)["channel_values"]


def test_built_in_tools_of_deepagents_are_not_checked():
    done, validator = list[str](), Validator(by_calls=(3,))
    plan = {"todos": [{"content": "refund", "status": "in_progress"}]}
    replies = [
        calls(("write_todos", plan)),
        calls(("write_file", {"file_path": "/notes", "content": "x"}), first="b"),
        *WORK[1:],
    ]
    model = ScriptedAgent(replies=replies)
    middleware = [TodoListMiddleware(), Certified(model=validator.chat, effects=LOOK_UPS)]
    state = create_deep_agent(model=model, tools=shop_tools(done), middleware=middleware).invoke(ASK)
    assert [one["tool"] for one in state["checked"]] == ["refund"]
    assert state["ending"] == "goal"


def test_the_agent_commits_to_conditions_before_its_calls_are_checked():
    done, holds = list[str](), [{"condition": 1, "reason": "seen", "evidence": "refunded 64.0 euros of order 17"}]
    commit = ("commit_to_conditions", {"conditions": ["Order 17 is refunded."]})
    validator = Validator(holds=holds)
    replies = [calls(commit, ("refund", {"order": 17, "amount": 64.0})), "Order 17 was refunded."]
    state = agent_of(replies, validator, done, conditions="agent").invoke(ASK, CONFIG)
    assert state["conditions"] == ["Order 17 is refunded."]
    assert [one["targets"][0]["kind"] for one in state["certificates"]] == ["condition", "goal"]
    assert [one["tool"] for one in state["checked"]] == ["refund"]
    assert done == ["refund 17 64.0"]


def test_two_commitments_at_once_are_both_kept_and_none_is_taken_back():
    first, second = (("commit_to_conditions", {"conditions": [text]}) for text in ("a is so", "b is so"))
    validator = Validator(missing=["Do it.", ""])
    replies = [
        calls(first, second),
        "Done.",
        calls(("commit_to_conditions", {"conditions": ["c is so"]}), first="d"),
        "Done.",
        "Done.",
    ]
    state = agent_of(replies, validator, [], conditions="agent").invoke(ASK, CONFIG)
    assert state["conditions"] == ["a is so", "b is so", "c is so"]
    assert state["ending"] == "gave_up"
    assert state["messages"][-1].response_metadata["open"][:3] == ["a is so", "b is so", "c is so"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"rules": {"refnd": lambda call, facts: None}}, "rules names 'refnd'"),
        ({"facts": {"look_up": "orders[name]"}}, "names 'name'; the arguments of look_up are order"),
    ],
)
def test_declarations_that_no_tool_meets_are_warned_about(given: Any, words: str):
    agent = agent_of(["Done."], Validator(), [], **given)
    with pytest.warns(UserWarning, match=words):
        agent.invoke(ASK, CONFIG)


def test_an_answer_that_could_not_be_judged_says_so():
    agent = create_agent(
        ScriptedAgent(replies=["Order 17 was refunded."]),
        shop_tools([]),
        middleware=[Certified(model=certigraph.ScriptedChat(responder=silent))],
    )
    state = agent.invoke(ASK)
    assert state["ending"] == "finished"
    assert "not confirmed" in state["messages"][-1].text


def test_a_misspelt_name_in_effects_is_warned_about():
    middleware = Certified(
        model=Validator().chat, effects={"look_upp": "repeatable", "a_tool_of_a_sub_agent": "repeatable"}
    )
    agent = create_agent(ScriptedAgent(replies=["Done."]), shop_tools([]), middleware=[middleware])
    with pytest.warns(UserWarning, match="did you mean 'look_up'") as warned:
        agent.invoke(ASK)
    assert not any("sub_agent" in str(one.message) for one in warned)


def test_a_function_is_no_validator():
    with pytest.raises(TypeError, match="ScriptedChat"):
        Certified(model=lambda prompt, schema: {})  # type: ignore[arg-type]
