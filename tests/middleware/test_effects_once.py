"""Effects that happen once by middleware: create_agent, deepagents and a ToolNode with `EffectsOnce`."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import middleware_kills
import pytest
from helpers.models.calling_models import Caller, SameIdsCaller
from helpers.worlds.failing_bank import FailingBank, Killed
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, ToolRetryMiddleware
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, ToolRuntime, tools_condition
from langgraph.types import Command
from langgraph.utils.runnable import RunnableCallable

from certigraph.adapters.tools.outcomes import Once
from certigraph.middleware.effects import EffectsOnce
from certigraph.middleware.ordered_calls import OrderedCalls
from certigraph.nodes.conversations import STALE, write_note
from certigraph.nodes.wrapped_tools import once

ASK: Any = {"messages": [("user", "Pay ann and bob.")]}
THREAD: Any = {"configurable": {"thread_id": "t"}}
ANN, BOB = {"name": "ann"}, {"name": "bob"}
HAPPENED = {"decisions": [{"type": "happened", "result": "paid, says the bank"}]}
REPEAT = {"decisions": [{"type": "repeat"}]}
WAYS = ("invoke", "ainvoke")


Calls = Sequence[tuple[str, Mapping[str, Any]]]


def built(tools: Sequence[Any], *rounds: Calls, stack: Sequence[Any] | None = None, kind: str = "create_agent") -> Any:
    """An agent with a checkpointer: with a stack of middleware, or with a ToolNode that has the ledger only."""
    model, one = Caller(rounds=rounds), EffectsOnce()
    if kind == "create_agent":
        return create_agent(model, tools, middleware=[one] if stack is None else stack, checkpointer=InMemorySaver())

    async def choose(state: MessagesState) -> Any:
        return {"messages": [await model.ainvoke(state["messages"])]}

    def choose_now(state: MessagesState) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    node = ToolNode(tools, wrap_tool_call=one.wrap_tool_call, awrap_tool_call=one.awrap_tool_call)
    builder: Any = StateGraph(MessagesState).add_node("choose", RunnableCallable(choose_now, choose))
    builder.add_node("tools", node).add_edge(START, "choose")
    builder.add_conditional_edges("choose", tools_condition).add_edge("tools", "choose")
    return builder.compile(checkpointer=InMemorySaver())


def invoked(graph: Any, way: str, given: Any = ASK, config: Any = THREAD) -> Any:
    return graph.invoke(given, config) if way == "invoke" else asyncio.run(graph.ainvoke(given, config))


def questions_of(state: Any) -> list[Any]:
    return [one.value for one in state.get("__interrupt__", ())]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["create_agent", "tool_node"])
def test_each_call_is_made_once_and_a_replay_gets_its_answer(kind: str, way: str) -> None:
    bank = FailingBank()
    graph = built([bank.pay], [("pay", ANN), ("pay", ANN)], [("pay", ANN)], kind=kind)
    text = invoked(graph, way)["messages"][-1].text
    assert sorted(text.splitlines()) == [f"paid ann, receipt {number}" for number in (1, 2, 3)]
    for snapshot in list(graph.get_state_history(THREAD)):
        invoked(graph, way, None, snapshot.config)
    assert len(bank.paid) == 3


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["create_agent", "tool_node"])
@pytest.mark.parametrize(("decision", "paid"), [(HAPPENED, 1), (REPEAT, 2)])
@pytest.mark.parametrize("failure", [Killed(), TimeoutError("slow")])
def test_a_person_decides_about_an_unknown_outcome(kind: str, way: str, decision: Any, paid: int, failure: Any) -> None:
    bank = FailingBank(failure)
    graph = built([bank.pay], [("pay", ANN)], kind=kind)
    with suppress(Killed):
        invoked(graph, way)
    [question] = questions_of(invoked(graph, way, None))
    assert question["calls"] == [{"name": "pay", "args": ANN}]
    state = invoked(graph, way, Command(resume=decision))
    assert len(bank.paid) == paid
    assert state["messages"][-1].text == ("paid, says the bank" if paid == 1 else "paid ann, receipt 2")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_calls_of_a_chain_are_asked_about_one_by_one(way: str, number: int) -> None:
    bank = FailingBank(*[None] * number, TimeoutError("slow"))
    calls = [("pay", {"name": name}) for name in ("ann", "bob", "eve")]
    graph = built([bank.pay], calls, stack=[OrderedCalls(), EffectsOnce()])
    state = invoked(graph, way)
    [question] = questions_of(state)
    assert question["calls"] == [{"name": "pay", "args": calls[number][1]}]
    assert bank.paid == ["ann", "bob", "eve"][: number + 1]
    state = invoked(graph, way, Command(resume=HAPPENED))
    assert bank.paid == ["ann", "bob", "eve"]
    assert [one.status for one in state["messages"] if one.type == "tool"] == ["success"] * 3


def test_an_outcome_that_is_left_to_the_agent_stops_the_chain() -> None:
    bank = FailingBank(TimeoutError("slow"))
    stack = [OrderedCalls(), EffectsOnce({"pay": Once(on_unknown="tell")})]
    state = invoked(built([bank.pay], [("pay", ANN), ("pay", BOB)], stack=stack), "invoke")
    assert bank.paid == ["ann"]
    answers = [one for one in state["messages"] if one.type == "tool"]
    assert [one.status for one in answers] == ["error", "error"]
    assert "pay(name=" in answers[1].text


@pytest.mark.parametrize("way", WAYS)
def test_a_retry_repeats_what_failed_and_not_what_is_unknown(way: str) -> None:
    retry = ToolRetryMiddleware(max_retries=2, initial_delay=0.0, jitter=False)
    bank = FailingBank(ConnectionRefusedError("nobody there"))
    state = invoked(built([bank.pay], [("pay", ANN)], stack=[OrderedCalls(), retry, EffectsOnce()]), way)
    assert (bank.paid, state["messages"][-1].text) == (["ann", "ann"], "paid ann, receipt 2")
    bank = FailingBank(TimeoutError("slow"))
    state = invoked(built([bank.pay], [("pay", ANN)], stack=[OrderedCalls(), retry, EffectsOnce()]), way)
    assert questions_of(state)
    assert bank.paid == ["ann"]


@pytest.mark.parametrize("failure", [TimeoutError("slow"), Killed()])
def test_an_approval_holds_for_all_questions_about_its_call(failure: Any) -> None:
    bank = FailingBank(TimeoutError("slow"), failure)
    approval = HumanInTheLoopMiddleware(interrupt_on={"pay": True}, interrupt_mode="per_call")
    graph = built([bank.pay], [("pay", ANN), ("pay", BOB)], stack=[OrderedCalls(), approval, EffectsOnce()])
    approve = Command(resume={"type": "approve"})
    graph.invoke(ASK, THREAD)
    assert [one["type"] for one in questions_of(graph.invoke(approve, THREAD))] == ["unknown_outcome"]
    with suppress(Killed):
        graph.invoke(Command(resume=REPEAT), THREAD)
    assert [one["type"] for one in questions_of(graph.invoke(None, THREAD))] == ["unknown_outcome"]
    [question] = questions_of(graph.invoke(Command(resume=HAPPENED), THREAD))
    assert question["type"] == "tool_approval"
    graph.invoke(approve, THREAD)
    assert bank.paid == ["ann", "ann", "bob"]


def test_an_error_ends_the_run_and_the_call_is_made_again_when_it_goes_on() -> None:
    bank = FailingBank(ValueError("no money"))
    graph = built([bank.pay], [("pay", ANN)])
    with pytest.raises(ValueError, match="no money"):
        graph.invoke(ASK, THREAD)
    assert graph.invoke(None, THREAD)["messages"][-1].text == "paid ann, receipt 2"


def test_an_effect_happens_once_within_its_scope_and_by_its_key() -> None:
    bank = FailingBank()
    stack = [EffectsOnce({"pay": Once(scope="thread", key=lambda name: name[0]), "of another agent": "once"})]
    graph = built([bank.pay], [("pay", ANN)], [("pay", {"name": "amy"})], stack=stack)
    texts = [graph.invoke(ASK, THREAD)["messages"][-1].text for _ in range(2)]
    assert (texts, bank.paid) == (["paid ann, receipt 1\npaid ann, receipt 1"] * 2, ["ann"])


def test_what_a_tool_returns_besides_text_comes_from_the_ledger_too() -> None:
    paid = []

    @tool(response_format="content_and_artifact", return_direct=True)
    def pay(name: str, runtime: ToolRuntime, call: Annotated[str, InjectedToolCallId]) -> Any:
        """Pay somebody."""
        paid.append((name, call, len(runtime.state["messages"])))
        return f"paid {name}", {"receipt": 17}

    @tool
    def rename(name: str, call: Annotated[str, InjectedToolCallId]) -> Any:
        """Rename somebody."""
        paid.append(name)
        return Command(update={"messages": [ToolMessage(f"renamed {name}", tool_call_id=call)]})

    graph = built([pay, rename], [("rename", ANN)], [("pay", ANN)])
    state = graph.invoke(ASK, THREAD)
    assert state["messages"][-1].artifact == {"receipt": 17}
    for snapshot in list(graph.get_state_history(THREAD)):
        again = graph.invoke(None, snapshot.config)
        answers = [one for one in again["messages"] if one.type == "tool"]
        assert [one.text for one in answers] == ["renamed ann", "paid ann"]
        assert (answers[-1].artifact, again["messages"][-1]) == ({"receipt": 17}, answers[-1])
    assert len(paid) == 2


def test_equal_calls_after_a_note_of_a_middleware_are_calls_of_their_own() -> None:
    class Noting(AgentMiddleware[Any, Any, Any]):
        def before_model(self, state: Any, runtime: Any) -> Any:
            return {"messages": [write_note(STALE, "Go on.")]} if len(state["messages"]) == 3 else None

    bank = FailingBank()
    model = TurnCaller(rounds=[[("pay", ANN)], [("pay", ANN)]])
    graph = create_agent(model, [bank.pay], middleware=[Noting(), EffectsOnce()], checkpointer=InMemorySaver())
    graph.invoke(ASK, THREAD)
    assert bank.paid == ["ann", "ann"]


class TurnCaller(Caller):
    """Goes on with its rounds after a note."""

    def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        return super()._generate([one for one in messages if "lc_source" not in one.additional_kwargs], *args, **kwargs)


def test_calls_with_the_ids_of_earlier_ones_are_calls_of_their_own() -> None:
    bank = FailingBank()
    model = SameIdsCaller(rounds=[[("pay", ANN)], [("pay", ANN)]])
    graph = create_agent(model, [bank.pay], middleware=[EffectsOnce()], checkpointer=InMemorySaver())
    graph.invoke(ASK, THREAD)
    assert bank.paid == ["ann", "ann"]


def test_look_ups_wrapped_tools_and_tools_with_any_name_work() -> None:
    bank = FailingBank()
    [wrapped] = once([bank.pay])

    @tool
    def finish(order: int) -> str:
        """Finish an order."""
        bank.paid.append(f"order {order}")
        return "finished"

    def look(order: int) -> str:
        """Look at an order."""
        bank.paid.append(f"look {order}")
        return "looked"

    rounds = [[("pay", ANN)], [("finish", {"order": 1})], [("look", {"order": 1})]]
    graph = built([wrapped, finish, look], *rounds, stack=[EffectsOnce({"look": "repeatable"})])
    assert graph.invoke(ASK, THREAD)["messages"][-1].text == "paid ann, receipt 1\nfinished\nlooked"
    for snapshot in list(graph.get_state_history(THREAD)):
        graph.invoke(None, snapshot.config)
    assert [bank.paid.count(one) for one in ("ann", "order 1")] == [1, 1]
    assert bank.paid.count("look 1") > 1
    with pytest.raises(ValueError, match="pay"):
        EffectsOnce({"pay": "twice"})  # type: ignore[dict-item]


def test_a_call_in_a_long_turn_reads_as_few_checkpoints_as_one_in_a_short_turn() -> None:
    reads: list[int] = []

    class CountingSaver(InMemorySaver):
        def get_tuple(self, *args: Any, **kwargs: Any) -> Any:
            reads[-1:] = [reads[-1] + 1] if reads else []
            return super().get_tuple(*args, **kwargs)

    def pay(name: str) -> str:
        """Pay somebody."""
        reads.append(0)
        return name

    model = Caller(rounds=[[("pay", {"name": str(number)})] for number in range(20)])
    graph = create_agent(model, [pay], middleware=[EffectsOnce()], checkpointer=CountingSaver())
    graph.invoke(ASK, THREAD, durability="sync")
    assert len(set(reads[:-1])) == 1


class IntegerSaver(InMemorySaver):
    """A checkpointer whose versions are numbers without a random part."""

    def get_next_version(self, current: Any, channel: Any) -> Any:
        return (current or 0) + 1


@pytest.mark.parametrize("kind", [InMemorySaver, IntegerSaver])
def test_turns_that_begin_at_one_checkpoint_are_distinguished(kind: Any) -> None:
    bank = FailingBank()
    graph = create_agent(Caller(rounds=[[("pay", ANN)]]), [bank.pay], middleware=[EffectsOnce()], checkpointer=kind())
    graph.invoke(ASK, THREAD)
    begin = graph.get_state(THREAD).config
    for count in (2, 3):
        assert graph.invoke(ASK, begin)["messages"][-1].text == f"paid ann, receipt {count}"
    for snapshot in list(graph.get_state_history(THREAD)):
        graph.invoke(None, snapshot.config)
    assert len(bank.paid) == 3


def test_without_a_checkpointer_tools_work_as_they_are() -> None:
    bank = FailingBank()
    graph = create_agent(Caller(rounds=[[("pay", ANN)]]), [bank.pay], middleware=[EffectsOnce()])
    assert graph.invoke(ASK)["messages"][-1].text == "paid ann, receipt 1"


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_payment_of_the_general_purpose_sub_agent_is_made_once_though_it_is_killed(
    moment: str, tmp_path: Path
) -> None:
    from deepagents import create_deep_agent

    kills, paid = [Killed()], []

    async def pay(name: str) -> str:
        """Pay somebody."""
        if name == "ann" and moment == "before" and kills:
            raise kills.pop()
        paid.append(name)
        if name == "ann" and kills:
            raise kills.pop()
        return f"paid {name}"

    class Delegating(Caller):
        def _generate(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            inner = any(one.type == "human" and one.text == "Pay ann." for one in messages)
            chosen = Caller(rounds=[[("pay", ANN)]]) if inner else Caller(rounds=self.rounds)
            return chosen._generate(messages, *args, **kwargs)

    task = {"description": "Pay ann.", "subagent_type": "general-purpose"}
    model = Delegating(rounds=[[("pay", BOB), ("task", task), ("pay", {"name": "eve"})]])

    async def work() -> Any:
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "checkpoints.sqlite")) as saver:
            stack = [OrderedCalls(), EffectsOnce()]
            graph: Any = create_deep_agent(model, once([pay]), middleware=stack, checkpointer=saver)
            with suppress(Killed):
                await graph.ainvoke(ASK, THREAD)
            [question] = questions_of(await graph.ainvoke(None, THREAD))
            assert question["calls"] == [{"name": "pay", "args": ANN}]
            return await graph.ainvoke(Command(resume=HAPPENED if moment == "after" else REPEAT), THREAD)

    state = asyncio.run(work())
    assert paid == ["bob", "ann", "eve"]
    assert state["messages"][-1].text.startswith("paid bob")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", middleware_kills.KINDS)
def test_killed_agents_double_lose_and_reorder_nothing(kind: str, tmp_path: Path) -> None:
    outcome = middleware_kills.run_trials(kind, tmp_path, trials=8, seed=7)
    assert outcome.faults == []
    assert outcome.kills >= 8
