"""`BeliefMemory`: what an agent's model reads once a belief stands for its older tool calls."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from helpers.models.calling_chat import CallingChat, call
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import BaseModel

from certigraph import UnknownName
from certigraph.middleware.beliefs import BeliefMemory
from certigraph.nodes.conversations import BELIEF, is_note
from certigraph.nodes.message_beliefs import belief, with_belief

THREAD: Any = {"configurable": {"thread_id": "1"}}
REQUEST: Any = {"messages": [("user", "Where is parcel 7?")]}
WAYS = ["invoke", "ainvoke"]
NOTHING: dict[str, Any] = {"facts": [], "resolved": [], "questions": []}
LEFT = {**NOTHING, "facts": [{"fact": "Parcel 7 left Oslo.", "source": "search"}], "questions": ["Where did it go?"]}
LOOK_UPS: Any = {"search": "repeatable"}


class Report(BaseModel):
    """A structured answer."""

    text: str


def search(query: str) -> str:
    """Search for something."""
    return f"A page about {query}. " * 40


def pay(amount: int) -> str:
    """Pay an amount."""
    return f"Paid {amount} euros."


def rounds(count: int, first: int = 1) -> list[Any]:
    """Responses that each make one search."""
    return [[call("search", f"s{number}", query=f"word{number}")] for number in range(first, first + count)]


def build(replies: Sequence[Any], answers: Any = (LEFT, NOTHING), **options: Any) -> tuple[Any, CallingChat]:
    """An agent with a small belief memory, and its model."""
    model = CallingChat(replies=replies, answers=answers)
    further = {name: options.pop(name) for name in ("checkpointer", "response_format") if name in options}
    memory = BeliefMemory(**{"above": 0, "keep": 1, "effects": LOOK_UPS, **options})
    return create_agent(model, [search, pay], middleware=[memory], **further), model


def run(graph: Any, way: str = "invoke", request: Any = REQUEST, config: Any = None) -> Any:
    if way == "invoke":
        return graph.invoke(request, config)
    return asyncio.run(graph.ainvoke(request, config))


def kinds(messages: Sequence[AnyMessage]) -> list[str]:
    return ["belief" if is_note(one, BELIEF) else one.type for one in messages]


def pairs_are_whole(messages: Sequence[AnyMessage]) -> bool:
    """Whether each call has its answer, and each answer its call."""
    called = [one["id"] for message in messages if isinstance(message, AIMessage) for one in message.tool_calls]
    return called == [one.tool_call_id for one in messages if isinstance(one, ToolMessage)]


@pytest.mark.parametrize("way", WAYS)
def test_the_model_reads_the_belief_in_place_of_older_rounds(way: str) -> None:
    graph, model = build([*rounds(4), "In Bergen."])
    result = run(graph, way)
    assert [kinds(one) for one in model.requests] == [
        ["human"],
        ["human", "ai", "tool"],
        *[["human", "belief", "ai", "tool"]] * 3,
    ]
    shown = model.requests[-1][1].text
    assert "- Parcel 7 left Oslo. (search)" in shown and "- Where did it go?" in shown
    assert model.requests[-1][2].tool_calls[0]["id"] == "s4"
    assert kinds(result["messages"]) == ["human", *["ai", "tool"] * 4, "ai"]
    assert all(map(pairs_are_whole, model.requests))


def test_each_round_is_taken_in_once_and_alone() -> None:
    graph, model = build([*rounds(4), "In Bergen."])
    run(graph)
    assert len(model.prompts) == 3
    found = [prompt.partition("Just found:")[2] for prompt in model.prompts]
    for number, text in enumerate(found, 1):
        assert f'search(query="word{number}")' in text and f"word{number + 1}" not in text
    assert all("Where is parcel 7?" in prompt for prompt in model.prompts)
    assert "Parcel 7 left Oslo." in model.prompts[1]


def test_a_short_run_costs_nothing() -> None:
    graph, model = build([*rounds(4), "In Bergen."], above=32_000)
    run(graph)
    assert not model.prompts and "belief" not in {kind for one in model.requests for kind in kinds(one)}


def test_rounds_gather_until_they_are_long_enough() -> None:
    graph, model = build([*rounds(8), "In Bergen."], above=600)  # a round has some 250 tokens
    run(graph)
    shown = [kinds(one).count("tool") for one in model.requests]
    assert shown == [0, 1, 2, 3, 1, 2, 3, 1, 2]
    assert len(model.prompts) == 6


@pytest.mark.parametrize("keep", [0, 2])
def test_the_latest_rounds_are_kept(keep: int) -> None:
    graph, model = build([*rounds(4), "In Bergen."], keep=keep)
    run(graph)
    assert kinds(model.requests[-1]).count("tool") == keep


def test_calls_whose_effect_lasts_stay_listed() -> None:
    paid = [call("pay", "p1", amount=20), call("search", "p2", query="other")]
    graph, model = build([paid, *rounds(3), "Paid."])
    run(graph)
    shown = model.requests[-1][1].text
    assert "- pay(amount=20) -> Paid 20 euros." in shown
    assert "search(query" not in shown


def test_all_calls_stay_listed_where_nothing_is_declared() -> None:
    graph, model = build([*rounds(3), "In Bergen."], effects=None)
    run(graph)
    assert 'search(query="word1") -> A page about word1.' in model.requests[-1][1].text


def test_earlier_turns_keep_their_words() -> None:
    graph, model = build([*rounds(2), "In Bergen.", *rounds(2, 5), "In Oslo."], checkpointer=InMemorySaver())
    run(graph, config=THREAD)
    run(graph, request={"messages": [("user", "And before?")]}, config=THREAD)
    last = model.requests[-1]
    assert [one.text for one in last if one.type in ("human", "ai") and not is_note(one, BELIEF)] == [
        *("Where is parcel 7?", "In Bergen.", "And before?", ""),
    ]
    assert kinds(last) == ["human", "ai", "human", "belief", "ai", "tool"]
    assert "And before?" in model.prompts[-1] and "Where is parcel 7?" in model.prompts[-1]


def test_a_round_is_taken_in_for_the_request_that_it_was_made_for() -> None:
    graph, model = build([*rounds(2), "In Bergen.", *rounds(1, 5), "In Oslo."], checkpointer=InMemorySaver())
    run(graph, config=THREAD)
    run(graph, request={"messages": [("user", "And before?")]}, config=THREAD)
    assert ["And before?" in prompt for prompt in model.prompts] == [False, False]


def test_a_structured_answer_of_an_earlier_turn_is_kept() -> None:
    report = [call("Report", "r1", text="In Bergen.")]
    replies = [*rounds(2), report, *rounds(2, 5), report]
    graph, model = build(replies, checkpointer=InMemorySaver(), response_format=ToolStrategy(Report))
    run(graph, config=THREAD)
    run(graph, request={"messages": [("user", "And before?")]}, config=THREAD)
    last = model.requests[-1]
    called = [one["name"] for message in last if isinstance(message, AIMessage) for one in message.tool_calls]
    assert called == ["Report", "search"] and pairs_are_whole(last)


def test_a_structured_answer_next_to_a_call_keeps_that_call() -> None:
    both = [call("Report", "r1", text="In Bergen."), *rounds(1, 3)[0]]
    replies = [*rounds(2), both, *rounds(2, 5), [call("Report", "r2", text="In Oslo.")]]
    graph, model = build(replies, checkpointer=InMemorySaver(), response_format=ToolStrategy(Report))
    run(graph, config=THREAD)
    run(graph, request={"messages": [("user", "And before?")]}, config=THREAD)
    called = {one["id"] for part in model.requests[-1] if isinstance(part, AIMessage) for one in part.tool_calls}
    assert called == {"r1", "s3", "s6"}
    assert called == {one.tool_call_id for one in model.requests[-1] if isinstance(one, ToolMessage)}


def test_a_model_of_its_own_is_asked() -> None:
    other = CallingChat(replies=["never"], answers=[LEFT])
    graph, model = build([*rounds(3), "In Bergen."], model=other)
    run(graph)
    assert len(other.prompts) == 2 and not model.prompts


def test_a_model_that_cannot_take_a_round_in_leaves_it_where_it_is() -> None:
    graph, model = build([*rounds(3), "In Bergen."], answers=[{"facts": "none"}])
    assert run(graph)["messages"][-1].text == "In Bergen."
    assert kinds(model.requests[-1]).count("tool") == 3


def test_notes_in_plain_text_can_be_kept_instead() -> None:
    other = CallingChat(replies=["Notes:\n- Parcel 7 left Oslo (search)"])
    graph, model = build([*rounds(3), "In Bergen."], memory="freeform", model=other)
    run(graph)
    assert "Parcel 7 left Oslo (search)" in model.requests[-1][1].text


def test_the_belief_is_private_plain_json_and_survives_a_new_process() -> None:
    saver = InMemorySaver()
    graph, _ = build([*rounds(3), "In Bergen."], checkpointer=saver)
    assert set(run(graph, config=THREAD)) == {"messages"}
    kept = graph.get_state(THREAD).values["certigraph"]
    assert kept["belief"]["facts"] == [{"text": "Parcel 7 left Oslo.", "source": "search"}]
    other, model = build([*rounds(1, 9), "In Oslo."], checkpointer=saver)
    run(other, request={"messages": [("user", "And before?")]}, config=THREAD)
    assert "Parcel 7 left Oslo." in next(one.text for one in model.requests[0] if is_note(one, BELIEF))


def test_its_requests_are_not_streamed_as_the_agents_text() -> None:
    graph, _ = build([*rounds(3), "In Bergen."])
    texts = [one.text for one, _ in graph.stream(REQUEST, stream_mode="messages") if isinstance(one, AIMessage)]
    assert "".join(texts) == "In Bergen."


def test_events_say_what_was_taken_in_and_what_it_cost() -> None:
    graph, _ = build([*rounds(3), "In Bergen."])
    events = list(graph.stream(REQUEST, stream_mode="custom"))
    assert [(one["type"], one["rounds"], one["facts"], one["questions"]) for one in events] == [("belief", 1, 1, 1)] * 2
    assert [one["usage"][0]["calls"] for one in events] == [1, 1]


@pytest.mark.parametrize("way", WAYS)
def test_the_same_as_nodes_of_a_plain_graph(way: str) -> None:
    model = CallingChat(replies=[*rounds(4), "In Bergen."], answers=[LEFT, NOTHING])
    bound = model.bind_tools([search])
    graph = StateGraph(MessagesState)
    graph.add_node("belief", belief(model=model, keep=1, above=0))
    graph.add_node("agent", lambda state: {"messages": [bound.invoke(with_belief(state))]}, input_schema=_WithRecords)
    graph.add_node("tools", ToolNode([search]))
    graph.add_edge(START, "belief")
    graph.add_edge("belief", "agent")
    graph.add_conditional_edges("agent", tools_condition, ["tools", END])
    graph.add_edge("tools", "belief")
    run(graph.compile(), way)
    agent, other = build([*rounds(4), "In Bergen."], effects=None)
    run(agent, way)
    assert [[one.text for one in part] for part in model.requests] == [
        [one.text for one in part] for part in other.requests
    ]


class _WithRecords(MessagesState):
    certigraph: dict[str, Any]


@pytest.mark.parametrize("options", [{"keep": -1}, {"above": -1}])
def test_wrong_arguments_are_named(options: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        BeliefMemory(**options)


def test_an_unknown_memory_is_named() -> None:
    with pytest.raises(UnknownName, match="structured"):
        BeliefMemory("none such")
