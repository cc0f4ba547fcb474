"""The gate over messages: what a round brings up, and where it stops the graph of anybody's own."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from helpers.models.calling_chat import CallingChat, call
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from typing_extensions import TypedDict

from certigraph import Limits, ScriptedChat, agent, exhaustion_gate, smooth_gate
from certigraph.adapters.models.scripts import current_situation
from certigraph.adapters.protocols import Operator
from certigraph.nodes.conversations import rounds_in
from certigraph.nodes.gates import judged_gate
from certigraph.nodes.message_gates import after_gate, counted_rounds, gate, measure_rounds, observation_of

REQUEST: Any = {"messages": [("user", "Where is parcel 7?")]}
Script = Sequence[Sequence[Mapping[str, Any]]]


def search(query: str) -> str:
    """Search for something."""
    return f"Found for {query}:\nnothing that is new.\nSee elsewhere."


def build(replies: Sequence[Any], schema: Any = MessagesState, operator: Operator | None = None, **options: Any) -> Any:
    """A graph of agent, tools and gate."""
    model = CallingChat(replies=replies).bind_tools([search])

    def act(state: Any) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(schema)
    graph.add_node("agent", act)
    graph.add_node("tools", ToolNode([search]))
    graph.add_node("gate", gate(operator, **options))
    graph.add_edge(START, "agent")
    graph.add_edge("agent", "tools")
    graph.add_edge("tools", "gate")
    graph.add_conditional_edges("gate", after_gate, {"continue": "agent", "stop": END})
    return graph


def calls_of(script: Script) -> list[list[Any]]:
    """The script as responses of a model."""
    return [
        [call("search", f"{number}-{place}", **args) for place, args in enumerate(one)]
        for number, one in enumerate(script)
    ]


UNKNOWN: Any = {"name": "finish", "args": {"answer": "Unknown.", "asks": False}}


def rounds_of_agent(script: Script, operator: Operator) -> int:
    """How many rounds certigraph's own agent with the gate makes."""

    def respond(prompt: str, schema: Any) -> Any:
        situation = current_situation()
        assert situation is not None
        made, offered = len(situation.state["turns"]), str(schema["properties"]["calls"])
        chosen = [{"name": "search", "args": dict(args)} for args in script[min(made, len(script) - 1)]]
        return {"thought": "", "calls": chosen if "'search'" in offered else [UNKNOWN]}

    model = ScriptedChat(responder=respond)
    repeatable: Any = {"effects": {"search": "repeatable"}, "commitments": None, "limits": Limits(rounds=50)}
    graph = agent("react", model=model, tools=[search], gate=operator, **repeatable)
    return len(rounds_in(graph.invoke(REQUEST)["messages"]))


def search_for(*queries: str) -> list[dict[str, str]]:
    return [{"query": query} for query in queries]


SCRIPTS: dict[str, Script] = {
    "one call again and again": [search_for("parcel 7")] * 8,
    "two calls in turn": [search_for(("red", "blue")[number % 2]) for number in range(8)],
    "other words that find nothing new": [
        search_for(f"parcel 7 {word}") for word in ["where", "is", "it", "now", "then"] * 2
    ],
    "two calls in a response": [search_for("red", "blue")] * 8,
    "a loop after progress": [*(search_for(f"{n} {n * 7} {n * 11}") for n in range(4)), *[search_for("parcel")] * 5],
}
GATES: dict[str, Callable[[], Operator]] = {
    "exhaustion_gate": exhaustion_gate,
    "patient": lambda: exhaustion_gate(patience=3),
    "smooth_gate": smooth_gate,
}


@pytest.mark.parametrize("operator", GATES)
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_plain_graph_stops_at_the_same_round_as_react(name: str, operator: str) -> None:
    script = [*SCRIPTS[name], *[search_for("the end")] * 6]
    result = build(calls_of(script), operator=GATES[operator]()).compile().invoke(REQUEST)
    rounds = len(rounds_in(result["messages"]))
    assert rounds == rounds_of_agent(script, GATES[operator]())
    assert 3 <= rounds < len(script)


def test_sync_and_async_stop_at_the_same_round() -> None:
    graph = build(calls_of([search_for("parcel 7")] * 8)).compile()
    results = [graph.invoke(REQUEST), asyncio.run(graph.ainvoke(REQUEST))]
    assert [len(one["messages"]) for one in results] == [7, 7]


def test_edges_are_drawn_with_their_names() -> None:
    drawn = build([]).compile().get_graph()
    edges = {(one.source, one.data, one.target) for one in drawn.edges if one.conditional}
    assert edges == {("gate", "continue", "agent"), ("gate", "stop", "__end__")}


def test_a_graph_that_declares_the_key_sees_plain_json_and_keeps_what_stands_there() -> None:
    class State(MessagesState):
        certigraph: dict[str, Any]

    graph = build(calls_of([search_for("parcel 7")] * 8), State).compile()
    result = graph.invoke({**REQUEST, "certigraph": {"other": 1}})
    assert result["certigraph"]["other"] == 1
    assert result["certigraph"]["stagnation"]["stop"] is True
    assert "2 rounds in a row" in result["certigraph"]["stagnation"]["reason"]


def test_a_strict_serializer_keeps_it() -> None:
    saver = InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=None))
    graph = build(calls_of([search_for("parcel 7")] * 8)).compile(checkpointer=saver, interrupt_after=["gate"])
    thread: Any = {"configurable": {"thread_id": "1"}}
    graph.invoke(REQUEST, thread)
    for _ in range(2):
        graph.invoke(None, thread)
    assert graph.get_state(thread).next == ()
    assert len(graph.get_state(thread).values["messages"]) == 7


def test_a_gate_that_asks_a_model_gets_turns() -> None:
    prompts: list[str] = []

    def judge(prompt: str, schema: Any) -> Any:
        prompts.append(prompt)
        return {"reason": "It has run dry.", "verdict": "EXHAUSTED" if len(prompts) > 1 else "PRODUCTIVE"}

    model = ScriptedChat(responder=judge)
    result = (
        build(calls_of([search_for("parcel 7")] * 8), operator=judged_gate(), model=model).compile().invoke(REQUEST)
    )
    assert len(prompts) == 2 and len(rounds_in(result["messages"])) == 2
    assert 'search(query="parcel 7")' in prompts[0]


# What a round brings up.


def conversation(*answers: ToolMessage, each: int = 1) -> list[AnyMessage]:
    """A request, and responses with `each` calls that are answered so."""
    messages: list[AnyMessage] = [HumanMessage("Where?")]
    for start in range(0, len(answers), each):
        part = answers[start : start + each]
        called = [call(str(one.name), one.tool_call_id, query=one.tool_call_id) for one in part]
        messages += [AIMessage("", tool_calls=called), *part]
    return messages


def answered(id: str, text: str, *documents: Document, **fields: Any) -> ToolMessage:
    return ToolMessage(text, name="search", tool_call_id=id, artifact=list(documents) or None, **fields)


def new_shares(messages: Sequence[AnyMessage]) -> list[float]:
    return [one.upr for one in measure_rounds(counted_rounds(messages))]


def test_documents_are_what_is_counted_where_a_tool_returns_them() -> None:
    first, second = Document("It left.", id="a"), Document("It arrived.", id="b")
    shares = new_shares(
        conversation(
            answered("1", "1 of 2\nIt left.", first),
            answered("2", "1 of 9, in other words\nIt left.", Document("It left, they say.", id="a")),
            answered("3", "2 of 9\nIt left. It arrived.", first, second),
        )
    )
    assert shares == [1, 0, 0.5]


def test_documents_without_ids_are_distinguished_by_their_text() -> None:
    texts = ["It left.", "It arrived.", "It left."]
    shares = new_shares(conversation(*(answered(str(n), "found", Document(one)) for n, one in enumerate(texts))))
    assert shares == [1, 1, 0]


def test_lines_of_other_tools_count_next_to_documents() -> None:
    found = Document("It left.", id="a")
    pairs = [
        answered("1", "found", found),
        answered("2", "Open."),
        answered("3", "found", found),
        answered("4", "Shut."),
    ]
    assert new_shares(conversation(*pairs, each=2)) == [1, 0.5]


def test_an_artifact_of_another_kind_is_no_document() -> None:
    messages = conversation(answered("1", "Open."), answered("2", "Shut."))
    for one in messages:
        if isinstance(one, ToolMessage):
            one.artifact = [{"row": 1}]
    assert new_shares(messages) == [1, 1]


def test_calls_that_are_refused_bring_nothing() -> None:
    refused = {"status": "error", "response_metadata": {"certigraph_made": False}}
    messages = conversation(answered("1", "Open."), answered("2", "Not allowed: rule 5.", **refused))
    assert new_shares(messages) == [1, 0]
    assert not observation_of(counted_rounds(messages)[1]).accepted


def test_an_open_round_is_not_counted() -> None:
    messages = [*conversation(answered("1", "Open.")), AIMessage("", tool_calls=[call("search", "2", query="x")])]
    assert len(counted_rounds(messages)) == 1


def test_the_measures_are_those_of_the_messages_after_a_fork() -> None:
    stem = conversation(answered("1", "Open."), answered("2", "Shut."))
    fork = [*stem[:3], *conversation(answered("2", "Open."))[1:]]
    assert [new_shares(one) for one in (stem, fork, stem)] == [[1, 1], [1, 0], [1, 1]]


class Empty(TypedDict):
    """A state without messages."""

    certigraph: dict[str, Any]


def test_no_assessment_means_that_the_search_goes_on() -> None:
    assert after_gate({"messages": []}) == "continue"
    assert after_gate({"messages": [], "certigraph": {"stagnation": {"stop": True}}}) == "stop"
