"""MemGPT's memory functions as LangChain tools: in a ToolNode, in an agent of certigraph, and alone."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import AsyncSqliteStore, SqliteStore

import certigraph
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.tools.definitions import load_tools
from certigraph.adapters.tools.memory import (
    DESCRIPTIONS,
    MemoryRefusal,
    MemorySizes,
    append_to_core,
    format_page,
    memory_namespace,
    memory_tools,
    rank_texts,
    replace_in_core,
)

ADA = ("ada",)


def call(store: BaseStore, name: str, *, namespace: Sequence[str] = ADA, sizes: Any = None, **args: Any) -> ToolMessage:
    """The answer of one tool that is called outside of a graph."""
    [tool] = [one for one in memory_tools(namespace, store=store, sizes=sizes) if one.name == name]
    message = tool.invoke({"name": name, "args": args, "id": "1", "type": "tool_call"})
    assert isinstance(message, ToolMessage)
    return message


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest) -> Any:
    if request.param == "memory":
        yield InMemoryStore()
        return
    with SqliteStore.from_conn_string(":memory:") as opened:
        opened.setup()
        yield opened


def texts(store: BaseStore) -> list[str]:
    return sorted(item.value["text"] for item in store.search(("memory",), limit=100) if "text" in item.value)


def test_there_are_five_and_each_shows_its_own_arguments_alone() -> None:
    shown = {name: set(tool.parameters["properties"]) for name, tool in load_tools(memory_tools(ADA)).items()}
    assert shown == {
        "core_memory_append": {"content"},
        "core_memory_replace": {"old_content", "new_content"},
        "archival_memory_insert": {"content"},
        "archival_memory_search": {"query", "page"},
        "conversation_search": {"query", "page"},
    }
    assert set(shown) == set(DESCRIPTIONS)


def test_core_memory_is_appended_to_and_replaced(store: BaseStore) -> None:
    call(store, "core_memory_append", content="Ada likes tea.\nShe lives in Tor.")
    call(store, "core_memory_append", content="Ada likes tea.")  # repeated by a node that started again
    assert call(store, "core_memory_replace", old_content="tea", new_content="milk").status == "success"
    [item] = [one for one in store.search(("memory",), limit=9) if "lines" in one.value]
    assert item.value["lines"] == ["Ada likes milk.", "She lives in Tor."]


def test_a_mistake_is_an_error_that_the_agent_reads(store: BaseStore) -> None:
    refused = call(store, "core_memory_replace", old_content="tea", new_content="milk")
    assert (refused.status, "'tea'" in str(refused.content)) == ("error", True)
    small = MemorySizes(core=10)
    assert call(store, "core_memory_append", content="more than ten characters", sizes=small).status == "error"
    assert call(store, "archival_memory_insert", content="  ").status == "error"


@pytest.mark.slow
def test_an_entry_is_stored_once_and_found_page_by_page(store: BaseStore) -> None:
    for _ in range(2):
        for number in range(12):
            call(store, "archival_memory_insert", content=f"note {number} about the river")
    assert len(texts(store)) == 12
    page = str(call(store, "archival_memory_search", query="river", page=3).content)
    assert (page.splitlines()[0], len(page.splitlines())) == ("Page 3 of 3 (12 found):", 3)
    assert call(store, "archival_memory_search", query="river", page=4).status == "error"
    assert "note 7 " in str(call(store, "archival_memory_search", query="7", page=1).content).splitlines()[1]


def test_memories_under_other_labels_stay_apart(store: BaseStore) -> None:
    call(store, "archival_memory_insert", content="RIVER of Ada")
    call(store, "archival_memory_insert", content="RIVER below", namespace=("ada", "archival"))
    call(store, "archival_memory_insert", content="RIVER of Adam", namespace=("adam",))
    found = str(call(store, "archival_memory_search", query="river").content)
    assert [name in found for name in ("of Ada\n", "below", "Adam")] == [False] * 3
    assert found.endswith("RIVER of Ada")


def test_no_two_namespaces_are_the_same() -> None:
    labels = [("a.b",), ("a_b",), ("a%2Eb",), ("a", "b"), ("",), ("%",), ("a%b",), ("a",)]
    assert len({memory_namespace(*given) for given in labels}) == len(labels)
    for given in labels:
        call(InMemoryStore(), "archival_memory_insert", content="RIVER", namespace=given)


def tool_graph(tools: Sequence[Any], **compiled: Any) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "tools")
    return graph.compile(**compiled)


def asking(name: str, **args: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": name, "type": "tool_call"}])


def test_a_tool_node_gives_them_its_store_its_thread_and_its_messages() -> None:
    store = InMemoryStore()
    graph = tool_graph(memory_tools(), store=store, checkpointer=InMemorySaver())
    one, other = ({"configurable": {"thread_id": name}} for name in ("1", "2"))
    graph.invoke({"messages": [asking("archival_memory_insert", content="RIVER")]}, one)
    assert texts(store) == ["RIVER"]
    search = asking("archival_memory_search", query="river")
    assert "RIVER" in graph.invoke({"messages": [search]}, one)["messages"][-1].content
    assert "RIVER" not in graph.invoke({"messages": [search]}, other)["messages"][-1].content
    messages = [HumanMessage("my cat is called Osk"), asking("conversation_search", query="cat")]
    assert "human: my cat is called Osk" in graph.invoke({"messages": messages}, other)["messages"][-1].content


def test_they_work_on_an_asynchronous_store(tmp_path: Path) -> None:
    async def found() -> str:
        async with AsyncSqliteStore.from_conn_string(str(tmp_path / "store.sqlite")) as store:
            await store.setup()
            graph = tool_graph(memory_tools(ADA), store=store)
            await graph.ainvoke({"messages": [asking("archival_memory_insert", content="RIVER")]})
            state = await graph.ainvoke({"messages": [asking("archival_memory_search", query="river")]})
            return str(state["messages"][-1].content)

    assert asyncio.run(found()).endswith("- RIVER")


def test_an_agent_of_certigraph_uses_them_on_its_store() -> None:
    calls = [
        {"name": "archival_memory_insert", "args": {"content": "RIVER"}},
        {"name": "archival_memory_search", "args": {"query": "river"}},
    ]
    read: list[str] = []

    def responder(prompt: str, schema: Any) -> Any:
        read.append(prompt)
        number = len(read) - 1
        chosen = calls[number] if number < len(calls) else {"name": "finish", "args": {"answer": "done"}}
        return {"thought": "", "calls": [chosen]}

    store = InMemoryStore()
    graph = certigraph.agent(
        "react",
        model=ScriptedChat(responder=responder),
        tools=memory_tools(),
        store=store,
        checkpointer=InMemorySaver(),
        commitments=None,
    )
    state = graph.invoke({"goal": "keep it"}, {"configurable": {"thread_id": "1"}})
    assert (state["messages"][-1].text, texts(store)) == ("done", ["RIVER"])
    assert "- RIVER" in read[2]


@pytest.mark.parametrize(
    ("tools", "fix"),
    [(memory_tools(ADA), "store="), (memory_tools(store=InMemoryStore()), "namespace=")],
)
def test_what_is_missing_is_named_with_the_call_that_gives_it(tools: Any, fix: str) -> None:
    with pytest.raises(ValueError, match=fix):
        tools[2].invoke({"content": "RIVER"})


def test_a_conversation_that_is_not_known_is_an_error_that_the_agent_reads() -> None:
    assert call(InMemoryStore(), "conversation_search", query="cat").status == "error"


def test_texts_with_the_rarest_words_of_a_query_come_first() -> None:
    known = ["the lake", "the river Ren", "the river Tor", "nothing"]
    assert rank_texts("the river Tor", known) == ["the river Tor", "the river Ren", "the lake"]
    assert rank_texts("?", known) == list(reversed(known))
    assert rank_texts("river", []) == []


def test_a_passage_over_several_lines_is_replaced() -> None:
    assert replace_in_core(("a b", "c d", "e"), "b\nc", "x\n\ny", 100) == ("a x", "y d", "e")
    for old in ("", " ", "zz"):
        with pytest.raises(MemoryRefusal):
            replace_in_core(("a b",), old, "x", 100)


def test_no_line_of_core_memory_is_written_twice_and_it_never_exceeds_its_limit() -> None:
    assert append_to_core(("a",), "a\n\n b  c \nb c", 100) == ("a", "b c")
    with pytest.raises(MemoryRefusal, match="11 characters, and 10"):
        append_to_core(("abcd",), "efghi", 10)


@pytest.mark.parametrize("page", [0, -1, 3, 10**30, "2", None])
def test_a_page_that_does_not_exist_is_refused(page: Any) -> None:
    with pytest.raises(MemoryRefusal, match="1 to 2"):
        format_page(["a"] * 6, page, MemorySizes())


def test_a_page_has_one_short_line_for_each_result() -> None:
    page = format_page(["a\nb", "c" * 50], 1, MemorySizes(characters=10))
    assert page.splitlines()[1:] == ["- a b", "- cccccc ..."]
    assert len(format_page([], 9, MemorySizes()).splitlines()) == 1
