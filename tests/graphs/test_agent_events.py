"""What an agent streams while it works: events, and its answer as a message."""

import asyncio
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from helpers.cases import first_fast
from helpers.worlds.support_database import CONDITIONS, GOAL, SCRIPT, SupportDatabase, scripted_model
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command, interrupt

from certigraph import Forbidden, LimitReached, Limits, Verdict
from certigraph.graphs.agent import METHODS, AgentGraph, agent
from certigraph.state.records import Audit

TASK: Any = {"goal": GOAL}
CALLS = [name for name, _ in SCRIPT]


def build(method: Any, database: SupportDatabase, **options: Any) -> AgentGraph:
    return agent(method, **{"model": scripted_model(), "tools": database.tools, **options})


def thread() -> Any:
    return {"configurable": {"thread_id": "1"}}


def stream(graph: Any, given: Any = TASK, **options: Any) -> list[Any]:
    return list(graph.stream(given, **{"config": thread(), "stream_mode": "custom", **options}))


async def astream(graph: Any, given: Any = TASK, **options: Any) -> list[Any]:
    settings = {"config": thread(), "stream_mode": "custom", **options}
    return [event async for event in graph.astream(given, **settings)]


def of(kind: str, events: list[Any]) -> list[Any]:
    return [event for event in events if event["type"] == kind]


@pytest.mark.parametrize("way", ["stream", "astream"])
def test_sdp_streams_its_plan_calls_certificates_and_answer(database: SupportDatabase, way: str) -> None:
    graph = build("sdp", database)
    events = stream(graph) if way == "stream" else asyncio.run(astream(graph))
    kinds = [event["type"] for event in events]
    assert kinds[:4] == ["planned", "acted", "acted", "acted"]
    assert kinds[-2:] == ["certified", "answered"]
    assert events[0]["conditions"][: len(CONDITIONS)] == CONDITIONS
    assert [call["name"] for event in of("acted", events) for call in event["calls"]] == CALLS
    certified = [(text, one["decided_by"]) for one in of("certified", events) for text in one["conditions"]]
    assert certified[: len(CONDITIONS)] == [(text, "model") for text in CONDITIONS]
    assert [event["goal"] for event in of("certified", events)] == [True]
    assert events[-1]["text"] == "Order 17 was refunded."
    assert events[-1]["ending"] == "goal"


@pytest.mark.parametrize("method", first_fast(METHODS, 2))
def test_every_method_streams_its_calls_once_and_its_answer(database: SupportDatabase, method: Any) -> None:
    events = stream(build(method, database))
    assert [call["name"] for event in of("acted", events) for call in event["calls"]] == CALLS
    assert len(of("answered", events)) == 1
    assert json.loads(json.dumps(events)) == events


def documented_keys() -> dict[str, set[str]]:
    """The keys of each type of event, by the table of the documentation; what follows a colon is about their values."""
    text = (Path(__file__).parent.parent.parent / "docs" / "own-tools.md").read_text(encoding="utf-8")
    keys: dict[str, set[str]] = {}
    for kind, cell in re.findall(r"^\| `(\w+)` \| (.*?) \| .* \|$", text.partition("| type | keys |")[2], re.MULTILINE):
        named = [name for part in cell.split(";") for name in re.findall(r"`(\w+)`", part.partition(":")[0])]
        keys.setdefault(kind, set()).update(named)
    return keys


def test_the_documentation_lists_the_types_and_keys_of_events(database: SupportDatabase) -> None:
    keys = documented_keys()
    approving = build("sdp", database, interrupt_on={"refund": True}, checkpointer=InMemorySaver())
    events = [*stream(approving), *stream(approving, Command(resume={"decisions": [{"type": "approve"}]}))]
    failing = build("sdp", database, validate=never, limits=Limits(attempts=1, replans=0, steps=2))
    asking = build("react", database, tools=asking_tools(database), checkpointer=InMemorySaver())
    events += stream(build("react", database, audit=deny))
    events += (
        [event for method in METHODS for event in stream(build(method, database))] + stream(failing) + stream(asking)
    )
    forbidden = Forbidden("Nothing is refunded.", fact="It is late.", next="Say so.")
    events += stream(build("react", database, rules={"refund": lambda call, facts: forbidden}))
    assert {event["type"] for event in events} == set(keys)
    streamed = {kind: {key for event in of(kind, events) for key in event} - {"type", "subtask"} for kind in keys}
    assert streamed == keys


def asking_tools(database: SupportDatabase) -> list[Any]:
    """The tools of customer support, of which `refund` asks a person."""

    def refund(order: int, amount: float) -> str:
        """Refund an order."""
        return f"refunded {order}: {amount}, by {interrupt('which account?')}"

    return [refund, *(tool for tool in database.tools if tool.__name__ != "refund")]


def deny(state: Any) -> Any:
    return {"audit": Audit(confirmed=False, reason="not all is done")}


def never(state: Any) -> Any:
    return {"verdict": Verdict(depth=0, reason="no")}


@pytest.mark.slow
def test_events_of_tdp_name_the_sub_task_whether_or_not_subgraphs_are_streamed(
    database: SupportDatabase, tmp_path: Path
) -> None:
    plain = stream(build("tdp", database))
    nested = stream(build("tdp", SupportDatabase(tmp_path / "other.sqlite")), subgraphs=True)
    assert plain == [event for _, event in nested]
    assert of("planned", plain)[0]["subtasks"]
    assert {event.get("subtask") for event in of("acted", plain)} == {"task"}
    assert any(namespace for namespace, event in nested if event["type"] == "acted")


@pytest.mark.slow
def test_tdp_streams_the_certificates_of_sub_tasks_asynchronously(database: SupportDatabase) -> None:
    events = asyncio.run(astream(build("tdp", database, solve="sdp")))
    assert of("certified", events)
    assert all(event["subtask"] for event in of("certified", events))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["sdp", "tdp"])
def test_an_approval_is_requested_and_decided_once(database: SupportDatabase, method: Any) -> None:
    graph = build(method, database, interrupt_on={"refund": True}, checkpointer=InMemorySaver())
    before = stream(graph)
    [question] = of("question", before)
    assert [request["name"] for request in question["question"]["action_requests"]] == ["refund"]
    assert before[-1] == question
    edited = {"name": "refund", "args": {"order": 17, "amount": 1.5}}
    after = stream(graph, Command(resume={"decisions": [{"type": "edit", "edited_action": edited}]}))
    [decided] = of("decided", after)
    assert decided["decisions"] == [{**edited, "approved": True}]
    assert of("acted", after)[0]["calls"] == [edited]


@pytest.mark.parametrize("method", ["react", "tdp"])
def test_a_question_that_a_tool_asks_is_streamed(method: Any, database: SupportDatabase) -> None:
    events = stream(build(method, database, tools=asking_tools(database), checkpointer=InMemorySaver()))
    assert [event["question"] for event in of("question", events)] == ["which account?"]
    assert ("subtask" in events[-1]) == (method == "tdp")


def test_a_rejected_call_is_streamed_with_the_reason(database: SupportDatabase) -> None:
    settings: Any = {"checkpointer": InMemorySaver(), "limits": Limits(steps=4)}
    graph = build("react", database, interrupt_on={"refund": True}, **settings)
    stream(graph)
    after: list[Any] = []
    with suppress(LimitReached):  # the script chooses the rejected call until no step is left
        rejection = Command(resume={"type": "reject", "message": "too much"})
        for event in graph.stream(rejection, thread(), stream_mode="custom"):
            after.append(event)
    assert of("question", after) == []  # a call that was rejected is not asked about again
    [call] = of("decided", after)[0]["decisions"]
    assert not call["approved"]
    assert "too much" in call["reason"]


def test_a_condition_that_is_not_reached_is_streamed_as_stuck(database: SupportDatabase) -> None:
    checks = {CONDITIONS[1]: lambda: (False, "no row of order 17")}
    events = stream(build("sdp", database, checks=checks, limits=Limits(steps=8, attempts=1, replans=1)))
    stuck = of("stuck", events)
    assert {event["condition"] for event in stuck} == {CONDITIONS[1]}
    assert "no row of order 17" in stuck[0]["reason"]
    assert len(of("planned", events)) > 1
    assert events[-1]["type"] == "answered"
    assert events[-1]["ending"] != "goal"


def test_a_long_answer_of_a_tool_is_cut_in_its_event() -> None:
    def look_up(order: int) -> str:
        """Look up an order."""
        return "eligible " * 10_000

    [acted] = of("acted", stream(agent("react", model=scripted_model([("look_up", {"order": 17})]), tools=[look_up])))
    assert acted["answer"].startswith("eligible")
    assert len(acted["answer"]) < 1_000


def test_an_agent_inside_a_graph_streams_its_events_with_those_of_subgraphs(database: SupportDatabase) -> None:
    outer: Any = StateGraph(MessagesState)
    outer.add_node("support", build("sdp", database))
    outer.add_edge(START, "support")
    outer.add_edge("support", END)
    events = stream(outer.compile(), {"messages": [("user", GOAL)]}, subgraphs=True)
    assert {namespace[0].partition(":")[0] for namespace, _ in events} == {"support"}
    assert events[-1][1]["type"] == "answered"


@pytest.mark.parametrize("method", first_fast(METHODS, 2))
@pytest.mark.parametrize("way", ["stream", "astream"])
def test_the_answer_is_streamed_once_as_a_message(database: SupportDatabase, method: Any, way: str) -> None:
    graph = build(method, database, checkpointer=InMemorySaver())
    given = {"messages": [("user", GOAL)]}
    if way == "stream":
        parts = stream(graph, given, stream_mode="messages")
    else:
        parts = asyncio.run(astream(graph, given, stream_mode="messages"))
    [answer] = [message for message, metadata in parts if metadata["langgraph_node"] == "respond"]
    assert (answer.type, answer.text) == ("ai", "Order 17 was refunded.")
    assert [message.text for message, _ in parts if message.type == "ai" and message.text] == [answer.text]
    assert graph.get_state(thread()).values["messages"][-1].id == answer.id
