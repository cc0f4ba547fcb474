"""`ProgressGate`: when an agent that repeats itself gets a note, has to answer, and is stopped."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from helpers.models.calling_chat import CallingChat, call
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolCall, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel

from certigraph import ScriptedChat, smooth_gate
from certigraph.middleware.progress import ProgressGate
from certigraph.nodes.conversations import ANSWER_NOW, NOT_DONE, STALE, is_note, write_note
from certigraph.nodes.gates import exhaustion_gate, judged_gate, resampling
from certigraph.state.endings import Exhausted, Fault

THREAD: Any = {"configurable": {"thread_id": "1"}}
REQUEST: Any = {"messages": [("user", "Where is parcel 7?")]}
WAYS = ["invoke", "ainvoke"]


class Report(BaseModel):
    """A structured answer."""

    text: str


def search(query: str) -> str:
    """Search for something."""
    return f"Nothing about {query[:6]}."


def wait(seconds: int) -> str:
    """Wait, and look again."""
    return "Not there yet."


def searches(count: int, query: str = "parcel 7", first: int = 1) -> list[list[ToolCall]]:
    """Responses that each search for the same."""
    return [[call("search", f"{query} {number}", query=query)] for number in range(first, first + count)]


def run(replies: Sequence[Any], way: str = "invoke", gate: Any = None, request: Any = REQUEST, **options: Any) -> Any:
    """The final state of an agent with the gate."""
    model = CallingChat(replies=replies)
    graph: Any = create_agent(model, [search, wait], middleware=[gate or ProgressGate()], **options)
    result = graph.invoke(request) if way == "invoke" else asyncio.run(graph.ainvoke(request))
    return result["messages"]


def kinds(messages: Sequence[AnyMessage]) -> list[str]:
    """What each message is."""
    notes = {STALE: "note", ANSWER_NOW: "demand"}
    return [next((name for about, name in notes.items() if is_note(one, about)), one.type) for one in messages]


@pytest.mark.parametrize("way", WAYS)
def test_a_note_comes_after_two_stale_rounds_and_names_the_call(way: str) -> None:
    messages = run([*searches(3), "It is not known where it is."], way)
    assert kinds(messages) == ["human", *["ai", "tool"] * 3, "note", "ai"]
    assert '- search(query="parcel 7")\n' in messages[-2].text
    assert messages[-1].text == "It is not known where it is."


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_is_demanded_after_four(way: str) -> None:
    messages = run([*searches(5), "It is not known where it is."], way)
    assert kinds(messages) == ["human", *["ai", "tool"] * 3, "note", *["ai", "tool"] * 2, "demand", "ai"]


@pytest.mark.parametrize("way", WAYS)
def test_calls_after_the_demand_are_refused_twice_and_then_the_run_ends(way: str) -> None:
    messages = run(searches(30), way)
    assert kinds(messages)[-8:] == ["demand", *["ai", "tool"] * 3, "ai"]
    refused = [one for one in messages if isinstance(one, ToolMessage) and one.status == "error"]
    assert [one.tool_call_id for one in refused] == ["parcel 7 6", "parcel 7 7", "parcel 7 8"]
    assert messages[-1].response_metadata["ending"] == "exhausted"
    assert "4 rounds in a row" in messages[-1].text


def test_other_arguments_and_new_answers_are_no_loop() -> None:
    replies = [call("search", str(number), query=f"{number} {number * 7} {number * 11}") for number in range(8)]
    assert "note" not in kinds(run([*([one] for one in replies), "Done."]))


def test_the_note_is_given_once_a_streak_and_again_in_the_next_one() -> None:
    replies = [*searches(4), *searches(1, "the sender of it"), *searches(3, "parcel 7", 5), "Unknown."]
    names = kinds(run(replies, gate=ProgressGate(then="note", effects={"search": "repeatable"})))
    assert [place for place, name in enumerate(names) if name == "note"] == [7, 16]


def test_only_notes_are_given_if_that_is_chosen() -> None:
    names = kinds(run([*searches(9), "Unknown."], gate=ProgressGate(then="note")))
    assert names.count("note") == 1 and names.count("tool") == 9 and "demand" not in names


def test_grace_is_the_number_of_stale_rounds_after_the_note() -> None:
    names = kinds(run([*searches(9), "Unknown."], gate=ProgressGate(exhaustion_gate(patience=1), grace=1)))
    assert names[: names.index("demand")] == ["human", *["ai", "tool"] * 2, "note", "ai", "tool"]


def test_a_tool_that_waits_is_exempt() -> None:
    waits = [[call("wait", str(number), seconds=60)] for number in range(9)]
    assert "note" in kinds(run([*waits, "There."], gate=ProgressGate(then="note")))
    assert "note" not in kinds(run([*waits, "There."], gate=ProgressGate(then="note", exempt=["wait"])))


def test_rounds_of_exempt_tools_do_not_end_a_streak() -> None:
    pause = [call("wait", "w", seconds=60)]
    first, second, third = searches(3)
    names = kinds(run([first, pause, second, third, "Unknown."], gate=ProgressGate(exempt=["wait"])))
    assert names == ["human", *["ai", "tool"] * 4, "note", "ai"]


def test_repeated_errors_count() -> None:
    unknown = [[call("find", str(number), query="parcel 7")] for number in range(3)]
    assert "note" in kinds(run([*unknown, "Unknown."]))


def test_ids_of_calls_may_be_the_same_in_each_response() -> None:
    replies = [[call("search", "call_0", query=one)] for one in ("red bag", "tan bag", "lil bag", "ice bag")]
    assert "note" not in kinds(run([*replies, "Unknown."]))
    assert "note" in kinds(run([*[[call("search", "call_0", query="red bag")]] * 3, "Unknown."]))


@pytest.mark.parametrize("between", [HumanMessage("Look again, please."), write_note(NOT_DONE, "Parcel 7 is missing.")])
def test_a_request_and_an_answer_that_is_sent_back_start_the_count_again(between: HumanMessage) -> None:
    earlier = run([*searches(5), "Unknown."])
    graph: Any = create_agent(
        CallingChat(replies=[*searches(2, first=9), "Unknown."]), [search], middleware=[ProgressGate()]
    )
    since = graph.invoke({"messages": [*earlier, between]})["messages"][len(earlier) :]
    assert kinds(since) == ["human", *["ai", "tool"] * 2, "ai"]
    assert {one.status for one in since if isinstance(one, ToolMessage)} == {"success"}


def test_a_checkpointed_thread_starts_the_count_again_with_each_request() -> None:
    replies = [*searches(3), "Unknown.", *searches(3, first=9), "Unknown."]
    graph: Any = create_agent(
        CallingChat(replies=replies), [search], middleware=[ProgressGate()], checkpointer=InMemorySaver()
    )
    first = graph.invoke(REQUEST, THREAD)["messages"]
    second = graph.invoke(REQUEST, THREAD)["messages"][len(first) :]
    assert kinds(first) == kinds(second) == ["human", *["ai", "tool"] * 3, "note", "ai"]


@pytest.mark.parametrize("way", WAYS)
def test_the_exception_names_the_calls(way: str) -> None:
    with pytest.raises(Exhausted, match=r'4 rounds in a row.*search\(query="parcel 7"\)') as caught:
        run(searches(30), way, ProgressGate(then="raise"))
    assert caught.value.ending == "exhausted"


DECISIONS = {
    "continue": ({"type": "continue", "message": "Try once more."}, [*["ai", "tool"] * 3, "note"]),
    "answer": ("answer", ["demand", "ai", "tool"]),
    "stop": ({"type": "stop"}, ["ai"]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", DECISIONS)
def test_a_person_decides(name: str, way: str) -> None:
    decision, following = DECISIONS[name]
    gates, saver = [ProgressGate(then="ask")], InMemorySaver()
    graph: Any = create_agent(CallingChat(replies=searches(30)), [search], middleware=gates, checkpointer=saver)
    graph.invoke(REQUEST, THREAD)
    state = graph.get_state(THREAD)
    [question] = state.tasks[0].interrupts
    assert question.value["type"] == "stale_search" and question.value["calls"] == ['search(query="parcel 7")']
    before, resumed = len(state.values["messages"]), Command(resume=decision)
    result = graph.invoke(resumed, THREAD) if way == "invoke" else asyncio.run(graph.ainvoke(resumed, THREAD))
    since = result["messages"][before:]
    if name == "continue":
        assert "Try once more." in since.pop(0).text
    assert kinds(since)[: len(following)] == following


def test_an_unusable_decision_is_asked_again() -> None:
    gates, saver = [ProgressGate(then="ask")], InMemorySaver()
    graph: Any = create_agent(CallingChat(replies=searches(30)), [search], middleware=gates, checkpointer=saver)
    graph.invoke(REQUEST, THREAD)
    [question] = graph.invoke(Command(resume="perhaps"), THREAD)["__interrupt__"]
    assert "continue, answer, stop" in question.value["problem"]


def test_asking_needs_a_checkpointer() -> None:
    with pytest.raises(Fault, match="needs a checkpointer"):
        run(["Unknown."], gate=ProgressGate(then="ask"))


def test_events_say_how_long_the_streak_is() -> None:
    graph: Any = create_agent(CallingChat(replies=searches(30)), [search], middleware=[ProgressGate()])
    calls = ['search(query="parcel 7")']
    assert list(graph.stream(REQUEST, stream_mode="custom")) == [
        {"type": "stale", "streak": 2, "then": "note", "calls": calls},
        {"type": "stale", "streak": 4, "then": "answer", "calls": calls},
    ]


def report(text: str) -> ToolCall:
    return call("Report", text, text=text)


def test_a_structured_answer_after_the_demand_ends_the_run() -> None:
    options = {"response_format": ToolStrategy(Report)}
    messages = run([*searches(5), [report("unknown")]], **options)
    assert messages[-1].status == "success" and messages[-1].name == "Report"


def test_calls_next_to_a_structured_answer_are_refused_and_the_answer_stands() -> None:
    graph: Any = create_agent(
        CallingChat(replies=[*searches(5), [report("unknown"), *searches(1, first=6)[0]], "never"]),
        [search],
        middleware=[ProgressGate()],
        response_format=ToolStrategy(Report),
    )
    result = graph.invoke(REQUEST)
    assert result["structured_response"] == Report(text="unknown")
    assert [one.status for one in result["messages"][-2:]] == ["success", "error"]


def test_another_gate_can_be_given() -> None:
    gate = ProgressGate(smooth_gate(decay=1, patience=1), then="note")
    assert kinds(run([*searches(2), "Unknown."], gate=gate)) == ["human", *["ai", "tool"] * 2, "note", "ai"]


def test_a_gate_that_asks_a_model_sees_each_round_once() -> None:
    prompts: list[str] = []

    def judge(prompt: str, schema: Any) -> Any:
        prompts.append(prompt)
        return {"reason": "It has run dry.", "verdict": "EXHAUSTED" if len(prompts) == 2 else "PRODUCTIVE"}

    gate = ProgressGate(judged_gate(), model=ScriptedChat(responder=judge))
    assert kinds(run([*searches(3), "Unknown."], gate=gate)) == [
        "human",
        *["ai", "tool"] * 2,
        "note",
        "ai",
        "tool",
        "ai",
    ]
    assert len(prompts) == 3 and "Where is parcel 7?" in prompts[0]


def test_advice_of_a_gate_is_a_note() -> None:
    def advise(prompt: str, schema: Any) -> Any:
        return {name: ["ask the sender"] if name != "reasoning" else "" for name in schema["properties"]}

    gate = ProgressGate(resampling(exhaustion_gate(), times=1), model=ScriptedChat(responder=advise))
    messages = run([*searches(3), "Unknown."], gate=gate)
    assert kinds(messages)[-2:] == ["note", "ai"] and "ask the sender" in messages[-2].text


def test_a_gate_that_has_no_model_says_so() -> None:
    with pytest.raises(Fault, match="asks a model, and it has none"):
        run(searches(3), gate=ProgressGate(judged_gate()))


def test_edges_are_drawn() -> None:
    graph: Any = create_agent(CallingChat(replies=["Done."]), [search], middleware=[ProgressGate()])
    edges = {(one.source, one.target) for one in graph.get_graph().edges}
    assert {("ProgressGate.before_model", "__end__"), ("ProgressGate.before_model", "model")} <= edges


def test_the_state_is_private_and_plain_json() -> None:
    saver = InMemorySaver()
    graph: Any = create_agent(
        CallingChat(replies=[*searches(2), "Done."]), [search], middleware=[ProgressGate()], checkpointer=saver
    )
    assert set(graph.invoke(REQUEST, THREAD)) == {"messages"}
    kept = graph.get_state(THREAD).values["certigraph"]["stagnation"]
    assert kept["streak"] == 1 and set(map(type, kept.values())) <= {int, str, bool, float}


@pytest.mark.parametrize("options", [{"grace": 0}, {"then": "stop"}])
def test_wrong_arguments_are_named(options: Any) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        ProgressGate(**options)


def test_the_answer_is_an_ordinary_message() -> None:
    assert isinstance(run(["Done."])[-1], AIMessage)


def test_work_that_does_something_new_is_progress() -> None:
    names = ("Ann", "Bob", "Cid", "Dora", "Eve", "Finn", "Gus", "Hal")
    done = list[str]()

    def create_invoice(customer: str) -> str:
        """Create an invoice."""
        done.append(customer)
        return "created"

    replies = [[call("create_invoice", str(number), customer=name)] for number, name in enumerate(names)]
    model: Any = CallingChat(replies=[*replies, "Done."])
    agent: Any = create_agent(model, [create_invoice], middleware=[ProgressGate()])
    messages = agent.invoke({"messages": [("user", "Invoice all members.")]})["messages"]
    assert done == [*names]
    assert not any("certigraph" in one.additional_kwargs for one in messages)


def test_the_same_work_again_is_not() -> None:
    replies = [[call("wait", str(number), seconds=60)] for number in range(5)]
    assert "note" in kinds(run([*replies, "There."], gate=ProgressGate(then="note")))
