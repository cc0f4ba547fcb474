"""`BudgetLimit`: what an agent may spend on requests to models, in a turn, in a thread or for a user."""

import asyncio
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from helpers.models.calling_chat import CallingChat, call
from helpers.processes.children import child_environment
from langchain.agents import create_agent
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    ModelFallbackMiddleware,
    ModelRetryMiddleware,
    SummarizationMiddleware,
)
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from pydantic import BaseModel, Field

import certigraph
from certigraph.middleware.budgets import BudgetLimit
from certigraph.middleware.commitments import CommitTools


def look(n: int) -> str:
    """Look something up."""
    return "seen"


def looking(first: int = 0, **fields: Any) -> CallingChat:
    """Return a model that looks things up without an end."""
    return CallingChat(replies=[[call("look", f"c{n}", n=n)] for n in range(first, first + 30)], **fields)


def run(agent: Any, given: Any = "Go.", *, use_async: bool = False, context: Any = None, **place: Any) -> Any:
    """Run an agent in a thread on a request, or on what resumes it; return its messages."""
    config = {"configurable": {"thread_id": "1", **place}}
    value = {"messages": [("user", given)]} if isinstance(given, str) else given
    if use_async:
        return asyncio.run(agent.ainvoke(value, config, context=context))["messages"]
    return agent.invoke(value, config, context=context)["messages"]


def ending(messages: list[AnyMessage]) -> str:
    """Return why a turn ended, as the last message says."""
    return str(messages[-1].response_metadata.get("ending", ""))


def unanswered(messages: list[AnyMessage]) -> set[str | None]:
    """Return the ids of calls without an answer."""
    answered = {one.tool_call_id for one in messages if isinstance(one, ToolMessage)}
    return {one["id"] for ai in messages if isinstance(ai, AIMessage) for one in ai.tool_calls} - answered


@pytest.mark.parametrize("use_async", [False, True])
@pytest.mark.parametrize(("by", "made"), [("run", [3, 6]), ("thread", [3, 3]), ("user", [3, 3])])
def test_calls_of_two_turns(by: Any, made: list[int], use_async: bool) -> None:
    chat = looking()
    saver = InMemorySaver(serde=JsonPlusSerializer(allowed_msgpack_modules=[]))
    agent = create_agent(
        chat, [look], middleware=[BudgetLimit(calls=3, by=by)], checkpointer=saver, store=InMemoryStore()
    )
    for most in made:
        messages = run(agent, use_async=use_async, user_id="ann")
        assert len(chat.requests) == most
        assert ending(messages) == "limit:calls"
        assert "3 of 3 calls" in messages[-1].text
        assert not unanswered(messages)


def test_nothing_is_noted_within_the_budget() -> None:
    chat = CallingChat(replies=[[call("look", "1", n=1)], "done"])
    messages = run(create_agent(chat, [look], middleware=[BudgetLimit(calls=2)]))
    assert (messages[-1].text, ending(messages)) == ("done", "")


def test_usage_is_no_input_and_no_output() -> None:
    agent: Any = create_agent(looking(), [look], middleware=[BudgetLimit(calls=2)])
    forged = {"messages": [("user", "Go.")], "certigraph_usage": [{"node": "model", "calls": -9}]}
    found = agent.invoke(forged)
    assert list(found) == ["messages"]
    assert sum(isinstance(one, AIMessage) for one in found["messages"]) == 3


def test_tokens() -> None:
    chat = looking()  # 15 tokens a request
    messages = run(create_agent(chat, [look], middleware=[BudgetLimit(tokens=40)]))
    assert (len(chat.requests), ending(messages)) == (3, "limit:tokens")


def test_tokens_that_a_model_does_not_report_are_estimated() -> None:
    chat = looking(tokens=(0, 0))
    messages = run(create_agent(chat, [look], middleware=[BudgetLimit(tokens=100)]))
    assert ending(messages) == "limit:tokens"


def test_dollars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prices.toml").write_text('["calling"]\nread = 100_000\nwritten = 100_000\n')  # 1.50 a request
    monkeypatch.setenv("CERTIGRAPH_PRICES", str(tmp_path / "prices.toml"))
    chat = looking()
    messages = run(create_agent(chat, [look], middleware=[BudgetLimit(usd=2)]))
    assert (len(chat.requests), ending(messages)) == (2, "limit:usd")


def test_dollars_need_a_price() -> None:
    with pytest.raises(certigraph.Fault, match="no known price"):
        run(create_agent(looking(), [look], middleware=[BudgetLimit(usd=2)]))


def wait(n: int) -> str:
    """Wait."""
    time.sleep(0.4)
    return "waited"


@pytest.mark.parametrize("use_async", [False, True])
def test_seconds_include_tools(use_async: bool) -> None:
    chat = CallingChat(replies=[[call("wait", str(n), n=n)] for n in range(9)])
    messages = run(create_agent(chat, [wait], middleware=[BudgetLimit(seconds=0.7)]), use_async=use_async)
    assert (len(chat.requests), ending(messages)) == (2, "limit:seconds")


def test_seconds_do_not_include_the_time_between_runs() -> None:
    chat = CallingChat(replies=[[call("look", "1", n=1)], "one", "two"])
    agent = create_agent(chat, [look], middleware=[BudgetLimit(seconds=0.5, by="thread")], checkpointer=InMemorySaver())
    run(agent)
    time.sleep(0.6)
    assert run(agent)[-1].text == "two"


class SleepingChat(CallingChat):
    """Takes its time for each reply, and for each failure."""

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        time.sleep(0.1)
        return super()._generate(*args, **kwargs)


def test_no_second_is_counted_twice() -> None:
    failures = [RuntimeError("down")] * 4
    chat = SleepingChat(replies=[[call("wait", "1", n=1)], *failures, [call("wait", "2", n=1)], "done"])
    retry = ModelRetryMiddleware(max_retries=5, initial_delay=0, jitter=False)
    agent: Any = create_agent(chat, [wait], middleware=[retry, BudgetLimit(seconds=99)], checkpointer=InMemorySaver())
    began = time.perf_counter()
    run(agent)
    passed = time.perf_counter() - began
    usages = agent.get_state({"configurable": {"thread_id": "1"}}).values["certigraph_usage"]
    assert 7 * 0.1 + 2 * 0.4 <= sum(one["seconds"] for one in usages) <= passed


class SlowChat(CallingChat):
    """Takes its time."""

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        await asyncio.sleep(30)


def test_request_is_cancelled_when_the_seconds_are_over() -> None:
    began = time.perf_counter()
    messages = run(create_agent(SlowChat(replies=["-"]), [look], middleware=[BudgetLimit(seconds=0.2)]), use_async=True)
    assert ending(messages) == "limit:seconds"
    assert time.perf_counter() - began < 10


def test_seconds_of_a_cancelled_request_count() -> None:
    chat = SlowChat(replies=["-"])
    middleware = [BudgetLimit(seconds=0.5, by="thread")]
    agent = create_agent(chat, [look], middleware=middleware, checkpointer=InMemorySaver())
    run(agent, use_async=True)
    began = time.perf_counter()
    assert ending(run(agent, use_async=True)) == "limit:seconds"
    assert time.perf_counter() - began < 0.5  # no further request was begun


# By user.


@dataclass
class Caller:
    """Context of an agent."""

    user_id: str


@pytest.mark.parametrize("use_async", [False, True])
def test_user_has_one_budget_in_all_threads(use_async: bool) -> None:
    chat = looking()
    middleware = [BudgetLimit(calls=5, by="user")]
    settings: Any = {"middleware": middleware, "store": InMemoryStore(), "context_schema": Caller}
    agent = create_agent(chat, [look], checkpointer=InMemorySaver(), **settings)
    run(agent, use_async=use_async, context=Caller("ann@x.org"))
    messages = run(agent, use_async=use_async, context=Caller("ann@x.org"), thread_id="2")
    assert (len(chat.requests), ending(messages)) == (5, "limit:calls")
    run(agent, use_async=use_async, context=Caller("bob"), thread_id="3")
    assert len(chat.requests) == 10


def test_users_runs_at_the_same_time_lose_nothing() -> None:
    chat = CallingChat(replies=["done"])
    store = InMemoryStore()
    agent = create_agent(chat, [look], middleware=[BudgetLimit(calls=100, by="user")], store=store)
    config = {"configurable": {"user_id": "ann"}}

    async def run_all() -> None:
        given: Any = {"messages": [("user", "Go.")]}
        places = ({"configurable": {**config["configurable"], "thread_id": str(n)}} for n in range(20))
        await asyncio.gather(*(agent.ainvoke(given, place) for place in places))  # type: ignore[arg-type]

    asyncio.run(run_all())
    items = store.search(("certigraph",), limit=100)
    assert sum(item.value["spent"]["calls"] for item in items) == 20


def test_all_threads_of_a_user_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("certigraph.middleware.budgets.PAGE", 2)
    chat = CallingChat(replies=["done"])
    agent = create_agent(chat, [look], middleware=[BudgetLimit(calls=5, by="user")], store=InMemoryStore())
    endings = [ending(run(agent, user_id="ann", thread_id=str(n))) for n in range(6)]
    assert endings == [""] * 5 + ["limit:calls"]


def test_user_needs_a_store_and_a_name() -> None:
    middleware = [BudgetLimit(calls=5, by="user")]
    with pytest.raises(certigraph.Fault, match="needs a store"):
        run(create_agent(looking(), [look], middleware=middleware), user_id="ann")
    with pytest.raises(certigraph.Fault, match="needs the user's id"):
        run(create_agent(looking(), [look], middleware=middleware, store=InMemoryStore()))


def test_users_other_requests_are_counted() -> None:
    chat = looking(answers=[{"reasoning": "", "tools": ["look"]}])
    middleware = [CommitTools(), BudgetLimit(calls=4, by="user")]
    messages = run(create_agent(chat, [look], middleware=middleware, store=InMemoryStore()), user_id="ann")
    assert (len(chat.prompts), len(chat.requests), ending(messages)) == (1, 3, "limit:calls")


@pytest.mark.parametrize("use_async", [False, True])
def test_user_pays_for_a_request_that_failed(use_async: bool) -> None:
    chat = CallingChat(replies=[RuntimeError("killed"), "done"])
    store = InMemoryStore()
    agent = create_agent(
        chat, [look], middleware=[BudgetLimit(calls=9, by="user")], store=store, checkpointer=InMemorySaver()
    )
    with pytest.raises(RuntimeError):
        run(agent, user_id="ann", use_async=use_async)
    run(agent, None, user_id="ann", use_async=use_async)
    [item] = store.search(("certigraph",))
    assert item.value["spent"]["calls"] == 2


def test_failed_requests_add_nothing_but_themselves() -> None:
    replies = [[call("look", "1", n=1)], RuntimeError("down"), RuntimeError("down"), "done"]
    chat = CallingChat(replies=replies, answers=[{"reasoning": "", "tools": ["look"]}])
    store, retry = InMemoryStore(), ModelRetryMiddleware(max_retries=5, initial_delay=0, jitter=False)
    middleware = [CommitTools(), retry, BudgetLimit(calls=9, by="user")]
    run(create_agent(chat, [look], middleware=middleware, store=store), user_id="ann")
    [item] = store.search(("certigraph",))
    assert item.value["spent"]["calls"] == 5


class WatchingChat(CallingChat):
    """Notes what a store holds while a request runs."""

    store: Any
    seen: list[Any] = Field(default_factory=list)

    def _generate(self, *args: Any, **kwargs: Any) -> Any:
        self.seen.append([item.value["spent"]["calls"] for item in self.store.search(("certigraph",))])
        return super()._generate(*args, **kwargs)


@pytest.mark.parametrize("use_async", [False, True])
def test_users_request_is_counted_before_it_is_sent(use_async: bool) -> None:
    store = InMemoryStore()
    chat = WatchingChat(replies=[[call("look", "1", n=1)], "done"], store=store)
    run(
        create_agent(chat, [look], middleware=[BudgetLimit(calls=9, by="user")], store=store),
        user_id="ann",
        use_async=use_async,
    )
    assert chat.seen == [[1], [2]]


# What else is counted, and what else ends.


def test_requests_of_our_middleware_are_counted() -> None:
    chat = looking(answers=[{"reasoning": "", "tools": ["look"]}])
    messages = run(create_agent(chat, [look], middleware=[CommitTools(), BudgetLimit(calls=4)]))
    assert (len(chat.prompts), len(chat.requests), ending(messages)) == (1, 3, "limit:calls")


@pytest.mark.parametrize("use_async", [False, True])
def test_repeated_requests_are_counted(use_async: bool) -> None:
    replies: list[Any] = [RuntimeError("down"), [call("look", "1", n=1)], RuntimeError("down"), "done"]
    chat = CallingChat(replies=replies)
    retry = ModelRetryMiddleware(max_retries=5, initial_delay=0, jitter=False)
    agent = create_agent(chat, [look], middleware=[retry, BudgetLimit(calls=3)])
    messages = run(agent, use_async=use_async)
    assert (len(chat.requests), ending(messages)) == (3, "limit:calls")


def test_requests_of_a_fallback_are_counted() -> None:
    broken, chat = CallingChat(replies=[RuntimeError("down")]), looking()
    agent = create_agent(broken, [look], middleware=[ModelFallbackMiddleware(chat), BudgetLimit(calls=5)])
    messages = run(agent)
    assert (len(broken.requests), len(chat.requests), ending(messages)) == (3, 2, "limit:calls")


def test_turn_goes_on_after_a_summary() -> None:
    chat, writer = looking(), CallingChat(replies=["a summary"])
    summary = SummarizationMiddleware(writer, trigger=("messages", 5), keep=("messages", 2))
    messages = run(create_agent(chat, [look], middleware=[BudgetLimit(calls=6), summary]))
    assert (len(chat.requests), ending(messages)) == (6, "limit:calls")


def test_waiting_for_a_person_does_not_begin_a_turn() -> None:
    chat = looking()
    review = HumanInTheLoopMiddleware(interrupt_on={"look": True}, interrupt_mode="per_call")
    agent = create_agent(chat, [look], middleware=[review, BudgetLimit(calls=2)], checkpointer=InMemorySaver())
    run(agent)
    run(agent, Command(resume={"type": "approve"}))
    messages = run(agent, Command(resume={"type": "approve"}))
    assert (len(chat.requests), ending(messages)) == (2, "limit:calls")


class Report(BaseModel):
    """A report."""

    text: str


def test_agent_with_a_structured_answer_ends() -> None:
    agent: Any = create_agent(
        looking(), [look], response_format=ToolStrategy(Report), middleware=[BudgetLimit(calls=2)]
    )
    messages = run(agent)
    assert ending(messages) == "limit:calls"


# Raising, and what goes on afterwards.


@pytest.mark.parametrize("use_async", [False, True])
def test_limit_is_raised_and_a_larger_one_goes_on(use_async: bool) -> None:
    saver = InMemorySaver()
    chat = looking()
    small = create_agent(chat, [look], middleware=[BudgetLimit(calls=2, on_limit="raise")], checkpointer=saver)
    with pytest.raises(certigraph.LimitReached, match="2 of 2 calls are spent; give BudgetLimit a larger calls"):
        run(small, use_async=use_async)
    large = create_agent(chat, [look], middleware=[BudgetLimit(calls=5)], checkpointer=saver)
    messages = run(large, None, use_async=use_async)
    assert (len(chat.requests), ending(messages)) == (5, "limit:calls")


def fail(n: int) -> str:
    """Fail."""
    raise RuntimeError("the process ends")


def test_open_calls_are_refused_so_that_the_thread_goes_on() -> None:
    saver = InMemorySaver()
    chat = CallingChat(replies=[[call("fail", "1", n=1)], "done"])
    agent = create_agent(chat, [fail], middleware=[BudgetLimit(calls=1, by="thread")], checkpointer=saver)
    with pytest.raises(RuntimeError):
        run(agent)
    messages = run(agent, "Go on.")
    assert ending(messages) == "limit:calls"
    # providers expect the answer behind the response with the call
    assert [one.type for one in messages] == ["human", "ai", "tool", "human", "ai"]
    assert messages[2].text == "The budget is used up, so this call was not made."
    again = create_agent(chat, [fail], middleware=[BudgetLimit(calls=9, by="thread")], checkpointer=saver)
    assert run(again, "Go on.")[-1].text == "done"


@pytest.mark.parametrize("by", ["run", "thread"])
def test_count_is_kept_where_a_run_was_cut_off(by: Any) -> None:
    saver, chat, failures = InMemorySaver(), looking(), iter([True, True, False, False, False])

    def look(n: int) -> str:
        """Look something up."""
        if next(failures):
            raise RuntimeError("the process ends")
        return "seen"

    def agent() -> Any:
        return create_agent(chat, [look], middleware=[BudgetLimit(calls=3, by=by)], checkpointer=saver)

    for given in ("Go.", None):
        with pytest.raises(RuntimeError):
            run(agent(), given)
    messages = run(agent(), None)
    assert (len(chat.requests), ending(messages)) == (3, "limit:calls")


KILLED = """
import os, sys
from helpers.models.calling_chat import CallingChat, call
from langchain.agents import create_agent
from langgraph.checkpoint.sqlite import SqliteSaver
from certigraph.middleware.budgets import BudgetLimit

def look(n: int) -> str:
    "Look something up."
    with open(sys.argv[2], "a") as log:
        log.write(f"{n}\\n")
    if sum(1 for _ in open(sys.argv[2])) in (2, 3):
        os._exit(9)
    return "seen"

class Chat(CallingChat):
    def _generate(self, messages, *args, **kwargs):
        with open(sys.argv[3], "a") as log:
            log.write("request\\n")
        n = sum(1 for _ in open(sys.argv[3]))
        self.replies = [[call("look", f"c{n}", n=n)]]
        return super()._generate(messages, *args, **kwargs)

with SqliteSaver.from_conn_string(sys.argv[1]) as saver:
    agent = create_agent(Chat(replies=["-"]), [look], middleware=[BudgetLimit(calls=5)], checkpointer=saver)
    config = {"configurable": {"thread_id": "1"}}
    begun = agent.get_state(config).values
    agent.invoke(None if begun else {"messages": [("user", "Go.")]}, config, durability="sync")
"""


@pytest.mark.slow
def test_count_is_exact_over_killed_processes(tmp_path: Path) -> None:
    database, calls, requests = (str(tmp_path / name) for name in ("thread.db", "calls", "requests"))
    command = [sys.executable, "-c", KILLED, database, calls, requests]
    codes = [subprocess.run(command, check=False, env=child_environment()).returncode for _ in range(3)]
    assert codes == [9, 9, 0]
    assert Path(requests).read_text().count("request") == 5
    with SqliteSaver.from_conn_string(database) as saver:
        kept = saver.get_tuple({"configurable": {"thread_id": "1"}})
        assert kept is not None
        assert ending(kept.checkpoint["channel_values"]["messages"]) == "limit:calls"


def test_budget_needs_a_limit() -> None:
    with pytest.raises(ValueError, match="needs a limit"):
        BudgetLimit()
    with pytest.raises(ValueError, match="by='day'"):
        BudgetLimit(calls=1, by="day")  # type: ignore[arg-type]
