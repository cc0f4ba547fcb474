"""Tools whose effects happen once in agents that are not certigraph's: create_agent, deepagents, a ToolNode."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import pytest
from helpers.models.calling_models import Caller
from helpers.sample_runs import nested_payments
from helpers.worlds.failing_bank import FailingBank, Killed
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, ToolRuntime, tools_condition
from langgraph.types import Command, RetryPolicy

from certigraph.adapters.tools.outcomes import Once
from certigraph.nodes.wrapped_tools import once

ASK: Any = {"messages": [("user", "Pay ann 5 euros.")]}
THREAD: Any = {"configurable": {"thread_id": "t"}}
ANN = {"name": "ann"}
HAPPENED = {"decisions": [{"type": "happened", "result": "paid ann, says the bank"}]}
REPEAT = {"decisions": [{"type": "repeat"}]}


def built_agent(tools: Sequence[BaseTool], *rounds: Any, saver: Any = None, kind: str = "create_agent") -> Any:
    model = Caller(rounds=rounds)
    if kind == "create_agent":
        from langchain.agents import create_agent

        return create_agent(model, tools, checkpointer=saver)

    def choose(state: MessagesState) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    builder: Any = StateGraph(MessagesState).add_node("choose", choose).add_node("tools", ToolNode(tools))
    builder.add_edge(START, "choose").add_conditional_edges("choose", tools_condition).add_edge("tools", "choose")
    return builder.compile(checkpointer=saver)


def questions_of(state: Any) -> list[Any]:
    return [one.value for one in state.get("__interrupt__", ())]


KINDS = ("create_agent", "tool_node")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("saver", [None, InMemorySaver()])
def test_each_call_is_made_once_whatever_its_number(kind: str, saver: Any) -> None:
    bank = FailingBank()
    pay = ("pay", ANN)
    graph = built_agent(once([bank.pay]), [pay, pay], [pay], saver=saver, kind=kind)
    text = graph.invoke(ASK, {"configurable": {"thread_id": kind}})["messages"][-1].text
    assert sorted(text.splitlines()) == [f"paid ann, receipt {number}" for number in (1, 2, 3)]
    if saver:
        for snapshot in list(graph.get_state_history({"configurable": {"thread_id": kind}})):
            graph.invoke(None, snapshot.config)
    assert len(bank.paid) == 3


def test_a_plain_tool_is_entered_once_in_an_asynchronous_run() -> None:
    bank = FailingBank()
    graph = built_agent(once([bank.pay]), [("pay", ANN)], [("pay", ANN)], saver=InMemorySaver())
    state = asyncio.run(graph.ainvoke(ASK, THREAD))
    assert state["messages"][-1].text == "paid ann, receipt 1\npaid ann, receipt 2"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("decision", "paid"), [(HAPPENED, 1), (REPEAT, 2)])
@pytest.mark.parametrize("failure", [Killed(), TimeoutError("slow")])
def test_a_person_decides_about_a_call_of_unknown_outcome(kind: str, decision: Any, paid: int, failure: Any) -> None:
    bank = FailingBank(failure)
    graph = built_agent(once([bank.pay]), [("pay", ANN)], saver=InMemorySaver(), kind=kind)
    with suppress(Killed):
        graph.invoke(ASK, THREAD)
    [question] = questions_of(graph.invoke(None, THREAD))
    assert question["calls"] == [{"name": "pay", "args": ANN}]
    state = graph.invoke(Command(resume=decision), THREAD)
    assert len(bank.paid) == paid
    assert state["messages"][-1].text == ("paid ann, says the bank" if paid == 1 else "paid ann, receipt 2")


@pytest.mark.parametrize(("decision", "paid"), [(HAPPENED, 1), (REPEAT, 2)])
def test_a_new_turn_settles_what_an_earlier_one_left_open_before_it_pays(decision: Any, paid: int) -> None:
    bank = FailingBank(Killed())
    graph = built_agent(once([bank.pay]), [("pay", ANN)], saver=InMemorySaver())
    with suppress(Killed):
        graph.invoke(ASK, THREAD)
    assert questions_of(graph.invoke(ASK, THREAD))
    assert len(bank.paid) == 1
    state = graph.invoke(Command(resume=decision), THREAD)
    assert len(bank.paid) == 2, "the new turn makes a call of its own, which the earlier one does not stand for"
    assert len(state["messages"][-1].text.splitlines()) == 2
    assert paid


def test_the_agent_learns_of_the_outcome_where_several_calls_are_made_at_once() -> None:
    bank = FailingBank(TimeoutError("slow"), TimeoutError("slow"))
    calls = [("pay", ANN), ("pay", {"name": "bob"})]
    graph = built_agent(once([bank.pay]), calls, saver=InMemorySaver(), kind="tool_node")
    state = graph.invoke(ASK, THREAD)
    assert not questions_of(state)
    assert sorted(bank.paid) == ["ann", "bob"]


def test_a_failed_call_may_be_made_again_by_a_retry() -> None:
    bank = FailingBank(ConnectionRefusedError("nobody there"))
    tools = once([bank.pay])
    model = Caller(rounds=[[("pay", ANN)]])

    def choose(state: MessagesState) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    builder: Any = StateGraph(MessagesState).add_node("choose", choose)
    policy = RetryPolicy(max_attempts=3, initial_interval=0.001, retry_on=Exception)
    builder.add_node("tools", ToolNode(tools, handle_tool_errors=False), retry_policy=policy)
    builder.add_edge(START, "choose").add_edge("choose", "tools")
    graph = builder.compile(checkpointer=InMemorySaver())
    assert graph.invoke(ASK, THREAD)["messages"][-1].text == "paid ann, receipt 2"


def test_a_retried_node_gets_the_answers_of_the_calls_that_were_made() -> None:
    bank, failures = FailingBank(), [ConnectionError("after the calls")] * 2
    [pay] = once([bank.pay])

    def work(state: MessagesState) -> Any:
        made = [pay.invoke({"name": "pay", "args": ANN, "id": str(number), "type": "tool_call"}) for number in (1, 2)]
        if failures:
            raise failures.pop()
        return {"messages": made}

    policy = RetryPolicy(max_attempts=5, initial_interval=0.001)
    builder: Any = StateGraph(MessagesState).add_node("work", work, retry_policy=policy).add_edge(START, "work")
    state = builder.compile(checkpointer=InMemorySaver()).invoke(ASK, THREAD)
    assert [one.text for one in state["messages"][-2:]] == ["paid ann, receipt 1", "paid ann, receipt 2"]


def test_an_effect_happens_once_within_its_scope() -> None:
    bank = FailingBank()
    graph = built_agent(once([bank.pay], {"pay": Once(scope="thread")}), [("pay", ANN)], saver=InMemorySaver())
    texts = [graph.invoke(ASK, THREAD)["messages"][-1].text for _ in range(2)]
    assert (texts, bank.paid) == (["paid ann, receipt 1"] * 2, ["ann"])


def test_what_a_tool_returns_besides_text_comes_from_the_ledger_too() -> None:
    paid = []

    @tool(response_format="content_and_artifact")
    def pay(name: str, runtime: ToolRuntime, call: Annotated[str, InjectedToolCallId]) -> Any:
        """Pay somebody."""
        paid.append((name, call, len(runtime.state["messages"])))
        return f"paid {name}", {"receipt": 17}

    @tool
    def rename(name: str, call: Annotated[str, InjectedToolCallId]) -> Any:
        """Rename somebody."""
        paid.append(name)
        return Command(update={"messages": [ToolMessage(f"renamed {name}", tool_call_id=call)]})

    rounds = [("pay", ANN)], [("rename", ANN)]
    graph = built_agent(once([pay, rename]), *rounds, saver=InMemorySaver())
    state = graph.invoke(ASK, THREAD)
    assert [one.artifact for one in state["messages"] if one.type == "tool"] == [{"receipt": 17}, None]
    for snapshot in list(graph.get_state_history(THREAD)):
        again = graph.invoke(None, snapshot.config)
        assert [one.text for one in again["messages"] if one.type == "tool"] == ["paid ann", "renamed ann"]
        assert [one.artifact for one in again["messages"] if one.type == "tool"] == [{"receipt": 17}, None]
    assert len(paid) == 2


def test_tools_that_may_be_repeated_stay_as_they_are() -> None:
    bank = FailingBank()
    [pay] = once([bank.pay], {"pay": "repeatable"})
    graph = built_agent([pay], [("pay", ANN)], saver=InMemorySaver())
    graph.invoke(ASK, THREAD)
    for snapshot in list(graph.get_state_history(THREAD)):
        graph.invoke(None, snapshot.config)
    assert len(bank.paid) > 1
    with pytest.raises(ValueError, match="refund"):
        once([bank.pay], {"refund": "repeatable"})


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_payment_of_a_sub_agent_is_made_once_though_it_is_killed(moment: str, tmp_path: Path) -> None:
    from deepagents import create_deep_agent

    kills, paid = [Killed()], []

    async def pay(name: str) -> str:
        """Pay somebody."""
        if moment == "before" and kills:
            raise kills.pop()
        paid.append(name)
        if kills:
            raise kills.pop()
        return f"paid {name}"

    task = {"description": "Pay ann 5 euros.", "subagent_type": "payer"}
    outer, inner = Caller(rounds=[[("task", task)]]), Caller(rounds=[[("pay", ANN)]])
    payer: Any = {"name": "payer", "description": "It pays.", "system_prompt": "Pay.", "tools": once([pay])}

    async def work() -> Any:
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as saver:
            graph = create_deep_agent(model=outer, subagents=[{**payer, "model": inner}], checkpointer=saver)
            with suppress(Killed):
                await graph.ainvoke(ASK, THREAD)
            assert questions_of(await graph.ainvoke(None, THREAD))
            return await graph.ainvoke(Command(resume=HAPPENED if moment == "after" else REPEAT), THREAD)

    state = asyncio.run(work())
    assert paid == ["ann"]
    assert state["messages"][-1].text.startswith("paid ann")


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("moment", ["pay", "paid"])
def test_agents_below_wrapped_tools_resume_their_own_work(number: int, moment: str, tmp_path: Path) -> None:
    """Two calls of a tool that has an agent pay: a person repeats the call that was cut off, and the agent goes on."""
    seen: list[str] = []

    def before(now: str) -> None:
        seen.append(now)
        if seen.count(now) == number + 1 and now == moment and len(kills) == 0:
            kills.append(now)
            raise Killed

    kills: list[str] = []
    bank = nested_payments.Bank(tmp_path / "bank.sqlite", before=before)
    inner = nested_payments.paying_agent(bank)

    def delegate(description: str) -> str:
        """Have somebody pay."""
        return str(inner.invoke({"messages": [("user", description)]})["messages"][-1].text)

    setting = nested_payments.Setting("create_agent", "parallel", "different")
    calls = [("delegate", {"description": text}) for text in setting.requests]
    graph = built_agent(once([delegate]), calls, saver=InMemorySaver())
    with suppress(Killed):
        graph.invoke(ASK, THREAD)
    for _ in range(6):
        state = graph.get_state(THREAD)
        if not state.tasks:
            break
        answers = {}
        for one in state.interrupts:
            taken = nested_payments.delivered_receipts(graph.checkpointer, "t")
            is_payment = one.value["calls"][0]["name"] == "pay"
            answers[one.id] = nested_payments.decide(one.value, bank, taken) if is_payment else REPEAT
        graph.invoke(Command(resume=answers) if answers else None, THREAD)
    setting.check(bank, graph.get_state(THREAD).values["messages"][-1].text.splitlines())
