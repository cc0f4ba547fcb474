"""The kinds of tools that LangChain has: each works in an agent as in any other application of LangGraph."""

import asyncio
import base64
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest
from helpers.worlds.support_database import CONDITIONS, GOAL, SCRIPT, SupportDatabase, scripted_model
from langchain_core.messages import HumanMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId, StructuredTool, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, Send, interrupt
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from certigraph import ScriptedChat, agent, serializer
from certigraph.graphs.agent import AgentGraph
from certigraph.nodes.world import act

THREAD: Any = {"configurable": {"thread_id": "1"}}
REQUEST: Any = {"messages": [("user", "Look after order 17.")]}
WAYS = ["invoke", "ainvoke"]
METHODS = ["react", "sdp"]


class ShopKeys(TypedDict, total=False):
    """Keys of the application."""

    clerk: str
    notes: list[str]


class Shop(BaseModel):
    """Context of the application."""

    city: str


def build(given: Any, *, method: Any = "react", args: Any = None, **options: Any) -> AgentGraph:
    """Build an agent that calls one tool, and then hands in an answer."""
    name = getattr(given, "name", None) or given.__name__
    model = scripted_model([(name, {"order": 17} if args is None else args)])
    usual: dict[str, Any] = {"checkpointer": InMemorySaver(serde=serializer()), "state_schema": ShopKeys}
    return agent(method, model=model, tools=[given], **{**usual, **options})


def run(given: Any, way: str = "invoke", request: Any = REQUEST, **options: Any) -> tuple[Any, str]:
    """Let an agent call a tool; return what it returned, and what the agent read of the tool."""
    context = options.pop("context", None)
    graph = build(given, **options)
    further = {"context": context} if context else {}
    if way == "invoke":
        state = graph.invoke(request, THREAD, **further)
    else:
        state = asyncio.run(graph.ainvoke(request, THREAD, **further))
    return state, graph.get_state(THREAD).values["evidence"].view.partition("]\n")[2]


def answers_in(state: Any) -> list[ToolMessage]:
    """The messages that answer calls."""
    return [one for one in state["messages"] if isinstance(one, ToolMessage)]


# The kinds of tools.


def plain(order: int) -> str:
    """Look up an order."""
    return f"row of {order}"


@tool
async def awaited(order: int) -> str:
    """Look up an order."""
    await asyncio.sleep(0)
    return f"row of {order}"


class Order(BaseModel):
    order: int = Field(description="Its number.")
    detail: str = "row"


@tool(args_schema=Order)
def formed(order: int, detail: str) -> str:
    """Look up an order."""
    return f"{detail} of {order}"


class Desked(BaseTool):
    name: str = "desked"
    description: str = "Look up an order."

    def _run(self, order: int, config: RunnableConfig, run_manager: Any = None) -> str:
        return f"row of {order} in thread {config['configurable']['thread_id']}"


SCHEMA = {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]}


async def _of_schema(**arguments: Any) -> str:
    return f"row of {arguments['order']}"


by_schema = StructuredTool(name="by_schema", description="Look up.", args_schema=SCHEMA, coroutine=_of_schema)


@tool
def with_state(order: int, state: Annotated[dict[str, Any], InjectedState]) -> str:
    """Look up an order."""
    return f"row of {order} for {state['clerk']}, who read {state['messages'][0].text}"


@tool
def with_key(order: int, clerk: Annotated[str, InjectedState("clerk")]) -> str:
    """Look up an order."""
    return f"row of {order} for {clerk}"


@tool
async def with_runtime(order: int, runtime: ToolRuntime) -> str:
    """Look up an order."""
    runtime.stream_writer({"order": order})
    assert runtime.store is not None
    [found] = await runtime.store.asearch(("orders",))
    return f"row of {order} for {runtime.state['clerk']} of {runtime.context.city}: {found.value['text']}"


@tool
def with_store(order: int, store: Annotated[Any, InjectedStore()]) -> str:
    """Look up an order."""
    return f"row of {order}: {store.get(('orders',), '17').value['text']}"


@tool
def with_call(order: int, call: Annotated[str, InjectedToolCallId], user: Annotated[str, InjectedToolArg] = "x") -> str:
    """Look up an order."""
    return f"row of {order} by a call with a name: {bool(call)}"


KINDS: list[tuple[Any, str]] = [
    (plain, "row of 17"),
    (awaited, "row of 17"),
    (formed, "row of 17"),
    (Desked(), "row of 17 in thread 1"),
    (by_schema, "row of 17"),
    (with_state, "row of 17 for Ann, who read Look after order 17."),
    (with_key, "row of 17 for Ann"),
    (with_runtime, "row of 17 for Ann of Bonn: kept"),
    (with_store, "row of 17: kept"),
    (with_call, "row of 17 by a call with a name: True"),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("given", "read"), KINDS, ids=lambda value: getattr(value, "name", None))
def test_tools_of_every_kind_get_what_langgraph_gives(given: Any, read: str, method: str, way: str):
    store = InMemoryStore()
    store.put(("orders",), "17", {"text": "kept"})
    request = {**REQUEST, "clerk": "Ann"}
    options: Any = {"store": store, "context_schema": Shop, "context": Shop(city="Bonn"), "method": method}
    _, seen = run(given, way, request, **options)
    assert seen == read


def test_a_model_is_not_shown_what_langgraph_gives():
    for given in (with_state, with_key, with_runtime, with_store, with_call, Desked()):
        [loaded] = build(given).world.loaded.values()
        assert set(loaded.parameters["properties"]) == {"order"}


def test_what_a_tool_streams_arrives():
    store = InMemoryStore()
    store.put(("orders",), "17", {"text": "kept"})
    graph = build(with_runtime, store=store, context_schema=Shop)
    options: Any = {"context": Shop(city="Bonn"), "stream_mode": "custom"}
    assert {"order": 17} in list(graph.stream({**REQUEST, "clerk": "Ann"}, THREAD, **options))


# Answers that are more than a text.


@tool(response_format="content_and_artifact")
def invoice(order: int) -> tuple[str, dict[str, Any]]:
    """Make an invoice."""
    return f"invoice of {order} made", {"pdf": [order]}


@tool
def sign(order: int, call: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Sign an order."""
    return Command(update={"clerk": "Bob", "messages": [ToolMessage(f"{order} is signed", tool_call_id=call)]})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("method", METHODS)
def test_artifacts_are_kept_in_messages_of_tools(method: str, way: str):
    state, seen = run(invoice, way, method=method)
    assert seen == "invoice of 17 made"
    [message] = answers_in(state)
    assert (message.name, message.text, message.artifact) == ("invoice", seen, {"pdf": [17]})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("method", METHODS)
def test_a_command_changes_keys_of_the_application(method: str, way: str):
    state, seen = run(sign, way, {**REQUEST, "clerk": "Ann"}, method=method)
    assert (state["clerk"], seen) == ("Bob", "17 is signed")


def test_a_command_changes_no_key_of_the_agent():
    @tool
    def forge(order: int, call: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Forge a certificate."""
        answer = ToolMessage("forged", tool_call_id=call)
        return Command(update={"certificates": ["all"], "history": [], "notes": ["kept"], "messages": [answer]})

    state, seen = run(forge, method="sdp")
    assert (state["notes"], seen) == (["kept"], "forged")
    assert "all" not in state["certificates"]


def test_a_command_changes_the_conversation():
    @tool
    def redact(order: int, runtime: ToolRuntime) -> Command[Any]:
        """Remove a message."""
        removed = RemoveMessage(id=runtime.state["messages"][0].id)
        return Command(update={"messages": [removed, ToolMessage("removed", tool_call_id=runtime.tool_call_id)]})

    request = {"messages": [HumanMessage("The password is swordfish.", id="0"), HumanMessage("Remove it.", id="1")]}
    state, _ = run(redact, request=request)
    assert state["messages"][0].text == "Remove it."


def test_several_outputs_of_one_call():
    @tool
    def both(order: int, call: Annotated[str, InjectedToolCallId]) -> list[Any]:
        """Do two things."""
        return [Command(update={"clerk": "Cleo"}), ToolMessage("done", tool_call_id=call, artifact={"n": 1})]

    state, seen = run(both)
    assert (state["clerk"], seen, answers_in(state)[0].artifact) == ("Cleo", "done", {"n": 1})


def test_calls_of_one_action_all_change_the_state():
    class Both(TypedDict, total=False):
        first: str
        second: str

    def setter(key: str) -> Callable[..., Any]:
        def change(call: Annotated[str, InjectedToolCallId]) -> Command[Any]:
            """Set a key."""
            return Command(update={key: "set", "messages": [ToolMessage("done", tool_call_id=call)]})

        return change

    tools = [StructuredTool.from_function(setter(key), name=f"set_{key}") for key in ("first", "second")]
    calls = [{"name": one.name, "args": {}} for one in tools]
    finish = [{"name": "finish", "args": {"answer": "done"}}]
    replies = iter([calls, finish])
    model = ScriptedChat(responder=lambda prompt, schema: {"thought": "", "calls": next(replies)})
    options: Any = {"commitments": None, "check": None, "audit": None}
    state = agent("react", model=model, tools=tools, state_schema=Both, **options).invoke(REQUEST)
    assert (state["first"], state["second"]) == ("set", "set")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("method", METHODS)
def test_the_answer_of_a_tool_is_that_of_the_agent_where_the_tool_says_so(method: str, way: str):
    @tool(return_direct=True)
    def report(order: int) -> str:
        """Report on an order."""
        return f"all about {order}"

    state, seen = run(report, way, method=method)
    assert (state["messages"][-1].text, seen) == ("all about 17", "all about 17")
    assert state["ending"] in ("finished", "goal")


def test_nothing_is_done_after_such_an_answer_though_a_condition_has_come_true(tmp_path: Path):
    @tool(return_direct=True)
    def report(order: int) -> str:
        """Report on an order."""
        return f"all about {order}"

    database, script = SupportDatabase(tmp_path / "desk.sqlite"), [("report", {"order": 17}), *SCRIPT]
    tools: list[Any] = [*database.tools, report]
    checks: Any = {CONDITIONS[0]: lambda calls: any(one.tool == "report" for one in calls)}
    state = agent("sdp", model=scripted_model(script), tools=tools, checks=checks).invoke({"goal": GOAL})
    assert (state["ending"], [one.decided_by for one in state["certificates"]]) == ("finished", ["code"])
    assert (state["messages"][-1].text.split("\n")[0], database.rows("refunds")) == ("all about 17", [])


def test_a_call_whose_answer_ends_the_turn_is_an_event():
    @tool(return_direct=True)
    def report(order: int) -> str:
        """Report on an order."""
        return f"all about {order}"

    events: Any = build(report).stream(REQUEST, THREAD, stream_mode="custom")
    acted = [event for event in events if event["type"] == "acted"]
    assert [(event["calls"][0]["name"], event["answer"]) for event in acted] == [("report", "all about 17")]


def test_a_tool_that_fails_ends_no_turn():
    @tool(return_direct=True)
    def report(order: int) -> str:
        """Report on an order."""
        raise ToolException("no such order")

    state, _ = run(report)
    assert state["messages"][-1].text == "Order 17 was refunded."


def hand_over(target: Any) -> BaseTool:
    @tool
    def transfer(order: int, runtime: ToolRuntime) -> Command[Any]:
        """Hand an order over."""
        answer = ToolMessage(f"order {order} is with the cashier", tool_call_id=runtime.tool_call_id)
        return Command(goto=target, graph=Command.PARENT, update={"messages": [answer], "clerk": "Bob"})

    return transfer


class Office(MessagesState, total=False):
    clerk: str


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("target", ["cashier", [Send("cashier", {"clerk": "sent"})]])
def test_a_tool_hands_over_to_another_node_of_the_graph_around(target: Any, method: str, way: str):
    seen = []
    graph = StateGraph(Office)
    graph.add_node("desk", build(hand_over(target), method=method, checkpointer=None), destinations=("cashier",))
    graph.add_node("cashier", lambda state: seen.append(state.get("clerk")))
    graph.add_edge(START, "desk")
    graph.add_edge("cashier", END)
    compiled = graph.compile(checkpointer=InMemorySaver(serde=serializer()))
    request: Any = {**REQUEST, "clerk": "Ann"}
    state: Any = compiled.invoke(request, THREAD) if way == "invoke" else asyncio.run(compiled.ainvoke(request, THREAD))
    assert seen == ["Bob" if target == "cashier" else "sent"]
    if target == "cashier":  # LangGraph keeps no update with a list of `Send`
        assert state["messages"][-1].text == "order 17 is with the cashier"


PIXEL = base64.b64encode(b"\x89PNG" * 500).decode()


@pytest.mark.parametrize(
    ("blocks", "read"),
    [
        ([{"type": "text", "text": "Refund"}, {"type": "text", "text": "order 17"}], "Refund order 17"),
        ([{"type": "text", "text": "Refund\n"}, {"type": "text", "text": "order 17"}], "Refund\norder 17"),
        ([{"type": "image", "base64": PIXEL, "mime_type": "image/png"}], "image/png 2,000 bytes"),
        ([{"type": "audio", "base64": "UklGRg==", "mime_type": "audio/wav"}], "audio/wav 4 bytes"),
        ([{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}], "image/png 2,000 bytes"),
        (
            [{"type": "document", "title": "q3.pdf", "source": {"type": "base64", "data": PIXEL}}],
            "q3.pdf 2,000 bytes",
        ),
        ([{"type": "resource_link", "name": "q3", "uri": "reports://2026/q3"}], "q3 reports://2026/q3"),
        ([{"type": "file", "url": "https://example.org/q3.pdf"}], "https://example.org/q3.pdf"),
        ([{"type": "unheard_of", "payload": PIXEL, "n": 1}], "unheard_of 2,000 bytes"),
    ],
)
def test_content_blocks_are_read_without_their_data(blocks: Any, read: str):
    @tool
    def look(order: int, call: Annotated[str, InjectedToolCallId]) -> ToolMessage:
        """Look at an order."""
        return ToolMessage(blocks, tool_call_id=call)

    state, seen = run(look)
    assert PIXEL[:100] not in seen
    assert "UklGRg" not in seen
    [kept] = answers_in(state)
    if all(block["type"] == "text" for block in blocks):
        assert (seen, kept.content) == (read, read)
    else:
        assert all(part in seen for part in read.split(" "))
    if "bytes" in read:  # what the agent does not read is there for the application
        assert "UklGRg==" in str(kept.content) or PIXEL in str(kept.content)


@pytest.mark.parametrize("texts", [["Look after", "order 17."], ["Look after ", "order 17."]])
def test_texts_of_a_request_are_joined_by_a_space(texts: list[str]):
    blocks: Any = [{"type": "text", "text": text} for text in texts]
    goals = []
    model = ScriptedChat(responder=lambda prompt, schema: goals.append(prompt) or FINISHED)
    agent("react", model=model, tools=[plain], commitments=None).invoke({"messages": [HumanMessage(blocks)]})
    assert "Look after order 17." in goals[0]


FINISHED = {"thought": "", "calls": [{"name": "finish", "args": {"answer": "done"}}]}


# A crash after a call has ended: the ledger has the whole answer.


@tool(response_format="content_and_artifact")
def pay(order: int) -> tuple[str, dict[str, Any]]:
    """Pay an order."""
    PAID.append(order)
    return f"paid {order}", {"receipt": order}


@tool
def pay_and_sign(order: int, runtime: ToolRuntime) -> Command[Any]:
    """Pay an order."""
    PAID.append(order)
    message = ToolMessage(f"paid {order}", tool_call_id=runtime.tool_call_id, artifact={"receipt": order})
    return Command(update={"clerk": "Bob", "messages": [message]})


PAID: list[int] = []


@pytest.mark.parametrize("serde", [serializer(), JsonPlusSerializer()], ids=["own", "langgraph"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("given", [pay, pay_and_sign], ids=["artifact", "command"])
def test_a_resumed_run_takes_the_whole_answer_from_the_ledger(given: Any, method: str, serde: Any, tmp_path: Path):
    PAID.clear()
    crashed = []

    async def crash_once(state: Any, runtime: Any) -> Any:
        update = await act(state, runtime)
        if not crashed:
            crashed.append(True)
            raise ConnectionError("the process is gone")
        return update

    with SqliteSaver.from_conn_string(str(tmp_path / "desk.sqlite")) as saver:
        saver.serde = serde
        graph = build(given, method=method, act=crash_once, checkpointer=saver)
        with pytest.raises(Exception, match="the process is gone"):
            graph.invoke({**REQUEST, "clerk": "Ann"}, THREAD)
        state = graph.invoke(None, THREAD)
    assert PAID == [17]
    [message] = answers_in(state)
    assert message.artifact == {"receipt": 17}
    [call] = [call for one in state["messages"] for call in getattr(one, "tool_calls", ())]
    assert (call["name"], call["id"]) == (given.name, message.tool_call_id)
    assert state["clerk"] == ("Bob" if given is pay_and_sign else "Ann")


def test_a_call_has_one_id_however_often_it_begins():
    seen = []

    @tool
    def confirm(order: int, call: Annotated[str, InjectedToolCallId]) -> str:
        """Ask a person."""
        seen.append(call)
        return f"confirmed by {interrupt('who?')}"

    graph = build(confirm)
    graph.invoke(REQUEST, THREAD)
    graph.invoke(Command(resume="Ann"), THREAD)
    graph.invoke(REQUEST, THREAD)
    assert seen[0] == seen[1] != seen[2]


# Bugs.


def misspelt(order: int) -> str:
    """Look up an order."""
    return rows_of_orders[order]  # type: ignore[name-defined, no-any-return]  # noqa: F821


async def missing(order: int) -> str:
    """Look up an order."""
    found: Any = None
    return str(found.rows)


def mixed(order: int) -> str:
    """Look up an order."""
    return "row of " + order  # type: ignore[operator]


class BlockingError(Exception):
    """As LangGraph's server raises it in a tool that blocks its event loop."""


def blocking(order: int) -> str:
    """Look up an order."""
    raise BlockingError("Blocking call to socket.socket.connect")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("given", "error"),
    [
        (misspelt, "NameError"),
        (missing, "AttributeError"),
        (mixed, "TypeError"),
        (blocking, "BlockingError"),
    ],
)
def test_a_bug_in_a_tool_is_logged_and_named(given: Any, error: str, way: str, caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.ERROR, "certigraph"):
        state, seen = run(given, way)
    assert error in state["ending_reason"]
    assert given.__name__ in state["ending_reason"]
    assert error in seen
    [entry] = caplog.records
    assert entry.exc_info is not None
    assert f"in {given.__name__}" in logging.Formatter().formatException(entry.exc_info)


class HTTPStatusError(Exception):
    pass


@pytest.mark.parametrize("raised", [ToolException, ValueError, KeyError, RuntimeError, OSError, HTTPStatusError])
def test_an_error_that_a_tool_raises_on_purpose_is_an_answer(raised: type[Exception], caplog: pytest.LogCaptureFixture):
    def refuse(order: int) -> str:
        """Look up an order."""
        raise raised("no such order")

    state, seen = run(refuse)
    assert "no such order" in seen
    assert state["ending_reason"] == ""
    assert not caplog.records


def test_a_broken_tool_may_be_called_again():
    calls = []

    def shaky(order: int) -> str:
        """Look up an order."""
        calls.append(order)
        return "row" if len(calls) > 1 else None.rows  # type: ignore[attr-defined, no-any-return]

    graph = agent("react", model=scripted_model([("shaky", {"order": 17})]), tools=[shaky], commitments=None)
    for _ in range(2):
        graph.invoke(REQUEST)
    assert len(calls) == 2
