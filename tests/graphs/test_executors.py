"""Executors: agents that somebody already has work through the conditions of a certified plan."""

import asyncio
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from deepagents import create_deep_agent
from helpers.models.scripted_agents import LOOK_UPS, ScriptedAgent, calls, shop_tools
from helpers.processes.prepared_processes import FORK
from helpers.sample_runs.killed_executors import work
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, ToolRetryMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, ToolRuntime, tools_condition
from langgraph.types import Command
from pydantic import BaseModel

import certigraph
from certigraph.adapters.user_warnings import CallWarning
from certigraph.middleware.effects import EffectsOnce
from certigraph.middleware.ordered_calls import OrderedCalls
from certigraph.middleware.stacks import stack
from certigraph.nodes.executors import hand_over

ASK = {"messages": [("user", "Refund order 17 and close its ticket.")]}
CONFIG: Any = {"configurable": {"thread_id": "1"}}
PLAN = ["Order 17 was refunded.", "The ticket of order 17 is closed."]

LOOK = ("look_up", {"order": 17})
REFUND = ("refund", {"order": 17, "amount": 64.0})
CLOSE = ("close", {"order": 17})
IN_ONE_GO = [calls(LOOK), calls(REFUND, first="d"), calls(CLOSE, first="e"), "Refunded and closed."]


class Held(NamedTuple):
    """A verdict: how many of the conditions hold, and the words that show it."""

    holds: int
    evidence: str = "refunded 64.0 euros of order 17"
    reason: str = "seen"


class Judge:
    """The scripted planner and validator: plans and verdicts, one after another."""

    def __init__(self, *verdicts: Held, plans: Sequence[Sequence[str]] = (PLAN,)) -> None:
        self.verdicts, self.plans = iter(verdicts), iter(plans)
        self.prompts, self.planned = list[str](), list[str]()

    def __call__(self, prompt: str, schema: Any) -> Any:
        fields = schema["properties"]
        if "holds" in fields:
            self.prompts.append(prompt)
            found = next(self.verdicts)
            return {"reason": found.reason, "evidence": found.evidence, "reachable": True, "holds": found.holds}
        if "conditions" in fields:
            self.planned.append(prompt)
            return {"reasoning": "none is left", "conditions": list(next(self.plans, ()))}
        return {"thought": "", "calls": [{"name": "finish", "args": {"answer": "Not all was done."}}]}


def certified(executor: Any, judge: Judge, **given: Any) -> Any:
    model = certigraph.ScriptedChat(responder=judge)
    return certigraph.agent("sdp", model=model, executor=executor, effects=LOOK_UPS, **given)


def protected(done: list[str]) -> Any:
    return certigraph.once(shop_tools(done), effects=LOOK_UPS)


def plain_graph(model: ScriptedAgent, tools: Sequence[Any], **given: Any) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("ask", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode(tools, **given))
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", tools_condition)
    graph.add_edge("tools", "ask")
    return graph.compile()


BUILDS: dict[str, Callable[[ScriptedAgent, Sequence[Any]], Any]] = {
    "create_agent": create_agent,
    "deepagents": create_deep_agent,
    "graph": plain_graph,
}


def run(graph: Any, given: Any, is_async: bool) -> Any:
    return asyncio.run(graph.ainvoke(given, CONFIG)) if is_async else graph.invoke(given, CONFIG)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("kind", BUILDS)
def test_one_piece_of_work_certifies_the_whole_plan(kind: str, is_async: bool) -> None:
    done = list[str]()
    executor = BUILDS[kind](ScriptedAgent(replies=IN_ONE_GO), protected(done))
    graph = certified(executor, Judge(Held(3)), checkpointer=InMemorySaver())
    state = run(graph, ASK, is_async)
    assert done == ["refund 17 64.0", "close 17"]
    assert (state["ending"], state["messages"][-1].text) == ("goal", "Refunded and closed.")
    [certificate] = state["certificates"]
    assert [one.text for one in certificate.targets][:2] == PLAN
    assert [one["tool"] for one in state["effects"]] == ["refund", "close"]
    assert state["turn_usage"]["nodes"]["act"]["calls"] == 4


def test_messages_show_the_executors_calls_with_their_answers() -> None:
    replies = [*IN_ONE_GO[:-1], AIMessage("Refunded and closed.", id="as streamed")]
    graph = certified(create_agent(ScriptedAgent(replies=replies), protected([])), Judge(Held(3)))
    messages = graph.invoke(ASK)["messages"]
    assert [one.type for one in messages] == ["human", *["ai", "tool"] * 3, "ai"]
    assert [one.tool_call_id for one in messages if isinstance(one, ToolMessage)] == ["c1", "d1", "e1"]
    assert len({one.id for one in messages}) == len(messages)
    assert messages[-1].id == "as streamed"
    assert messages[-1].response_metadata["certigraph_sources"] == ["close", "look_up", "refund"]


def test_events_tell_which_calls_the_executor_made() -> None:
    graph = certified(create_agent(ScriptedAgent(replies=IN_ONE_GO), protected([])), Judge(Held(3)))
    events = list(graph.stream(ASK, stream_mode="custom"))
    assert [one["type"] for one in events] == ["planned", "acted", "certified", "answered"]
    assert [one["name"] for one in events[1]["calls"]] == ["look_up", "refund", "close"]


def test_conditions_are_certified_one_after_another_in_one_conversation() -> None:
    replies = [calls(REFUND), "It is refunded.", calls(CLOSE, first="d"), "Refunded and closed."]
    model = ScriptedAgent(replies=replies)
    judge = Judge(Held(1), Held(2, "ticket of order 17 is closed"))
    state = certified(create_agent(model, protected([])), judge).invoke(ASK)
    assert [len(one.targets) for one in state["certificates"]] == [1, 2]
    second = model.requests[2]
    assert [one.type for one in second] == ["human", "ai", "tool", "ai", "human"]
    assert all(one in second[0].text for one in PLAN) and "Refund order 17 and close" in second[0].text
    certified_part, _, open_part = second[-1].text.partition("The work is judged by")
    assert PLAN[0] in certified_part and PLAN[0] not in open_part and PLAN[1] in open_part
    assert [one["tool"] for one in state["effects"]] == ["refund", "close"]


def test_a_false_claim_is_denied_and_worked_on_again() -> None:
    done = list[str]()
    model = ScriptedAgent(replies=[calls(LOOK), "I refunded it and closed the ticket.", *IN_ONE_GO[1:]])
    denied = Held(0, "", "no answer says that the money was paid back")
    judge = Judge(denied, Held(3))
    state = certified(create_agent(model, protected(done)), judge).invoke(ASK)
    assert done == ["refund 17 64.0", "close 17"]
    assert state["ending"] == "goal"
    assert denied.reason in model.requests[2][-1].text
    assert "I refunded it and closed the ticket." in judge.prompts[0]


def test_tries_are_bounded_and_then_the_rest_is_planned_again() -> None:
    replies = [calls(LOOK), "Done.", "Really done.", calls(REFUND), "Refunded."]
    judge = Judge(Held(0), Held(0), Held(2), plans=[PLAN, ["The money of order 17 was paid back."]])
    model = ScriptedAgent(replies=replies)
    graph = certified(create_agent(model, protected([])), judge, limits=certigraph.Limits(attempts=2))
    state = graph.invoke(ASK)
    assert state["ending"] == "goal"
    assert "The money of order 17 was paid back." in model.requests[3][-1].text
    assert PLAN[0] not in model.requests[3][-1].text
    known = judge.planned[1].partition("Calls so far")[2]
    assert "look_up(order=17)" in known and "paid 64.00 euros" in known and "The work is judged by" not in known


def test_evidence_is_quoted_from_answers_of_tools_and_never_from_texts() -> None:
    text = "The bank confirmed the refund under number 4711."
    judge = Judge(*[Held(3, "The bank confirmed the refund under number 4711")] * 2, plans=[PLAN])
    executor = create_agent(ScriptedAgent(replies=[calls(LOOK, text=text), text]), protected([]))
    graph = certified(executor, judge, limits=certigraph.Limits(attempts=1, replans=0))
    state = graph.invoke(ASK)
    assert state["certificates"] == []
    assert state["ending"] != "goal"


class Report(BaseModel):
    """A report."""

    text: str


def test_an_answer_in_a_form_is_the_executors_own_word() -> None:
    report = ("Report", {"text": "The bank confirmed the refund under number 4711."})
    judge = Judge(*[Held(3, "The bank confirmed the refund under number 4711")] * 2)
    executor = create_agent(
        ScriptedAgent(replies=[calls(LOOK), calls(report, first="d")]),
        protected([]),
        response_format=ToolStrategy(Report),
    )
    state = certified(executor, judge, limits=certigraph.Limits(attempts=1, replans=0)).invoke(ASK)
    assert state["certificates"] == []
    assert '{"text": "The bank confirmed the refund under number 4711."}' in judge.prompts[0]
    assert state["effects"] == []
    assert [call["name"] for one in state["messages"] for call in getattr(one, "tool_calls", ())] == ["look_up"]


def test_of_a_response_with_a_call_and_an_answer_in_a_form_the_call_alone_is_shown() -> None:
    both = calls(LOOK, ("Report", {"text": "Looked up."}))
    executor = create_agent(ScriptedAgent(replies=[both]), protected([]), response_format=ToolStrategy(Report))
    state = certified(executor, Judge(Held(3, "order 17: paid 64.00 euros"))).invoke(ASK)
    assert state["ending"] == "goal"
    assert [call["name"] for one in state["messages"] for call in getattr(one, "tool_calls", ())] == ["look_up"]


def test_of_an_executor_without_visible_tools_only_the_form_is_no_call() -> None:
    report = ("Report", {"text": "Refunded and closed."})
    replies = [*IN_ONE_GO[:-1], calls(("Report", {}), first="f"), calls(report, first="g")]
    inner = create_agent(ScriptedAgent(replies=replies), protected([]), response_format=ToolStrategy(Report))
    judge = Judge(Held(3))
    state = certified(RunnableLambda(inner.invoke), judge).invoke(ASK)
    assert [one["tool"] for one in state["effects"]] == ["refund", "close"]
    assert state["ending"] == "goal"
    assert "Report(" not in judge.prompts[0]


def test_evidence_that_the_executor_removed_from_its_conversation_counts() -> None:
    def forget(state: MessagesState) -> dict[str, Any]:
        return {"messages": [RemoveMessage(str(one.id)) for one in state["messages"][1:]]}

    graph = StateGraph(MessagesState)
    graph.add_node("work", create_agent(ScriptedAgent(replies=IN_ONE_GO[1:]), protected([])))
    graph.add_node("forget", forget)
    graph.add_node("say", lambda state: {"messages": [AIMessage("Done.")]})
    graph.add_edge(START, "work")
    graph.add_edge("work", "forget")
    graph.add_edge("forget", "say")
    state = certified(graph.compile(), Judge(Held(3))).invoke(ASK)
    assert (state["ending"], state["messages"][-1].text) == ("goal", "Done.")


# Interrupts, failures, turns.


@pytest.mark.parametrize("is_async", [False, True])
def test_an_interrupt_of_the_executor_passes_through(is_async: bool) -> None:
    done = list[str]()
    hitl = HumanInTheLoopMiddleware({"refund": True}, interrupt_mode="per_call")
    model = ScriptedAgent(replies=IN_ONE_GO)
    executor = create_agent(model, shop_tools(done), middleware=stack(hitl, EffectsOnce(LOOK_UPS)))
    graph = certified(executor, Judge(Held(3)), checkpointer=InMemorySaver())
    stopped = run(graph, ASK, is_async)
    [question] = stopped["__interrupt__"]
    assert "refund" in str(question.value) and done == []
    state = run(graph, Command(resume={"type": "approve"}), is_async)
    assert done == ["refund 17 64.0", "close 17"]
    assert state["ending"] == "goal"
    assert len(model.requests) == 4
    assert [one.type for one in state["messages"]] == ["human", *["ai", "tool"] * 3, "ai"]


@pytest.mark.parametrize(
    ("decision", "shown"),
    [({"type": "respond", "message": "refunded 64.0 euros of order 17"}, "response"), ({"type": "reject"}, "refused")],
)
def test_what_a_person_answers_in_place_of_a_tool_is_no_evidence(decision: dict[str, Any], shown: str) -> None:
    hitl = HumanInTheLoopMiddleware({"refund": {"allowed_decisions": ["respond", "reject"]}}, interrupt_mode="per_call")
    executor = create_agent(ScriptedAgent(replies=[calls(REFUND), "Done."]), protected([]), middleware=[hitl])
    words = "refunded 64.0 euros" if shown == "response" else "User rejected the tool call for"
    limits = certigraph.Limits(attempts=1, replans=0)
    graph = certified(executor, Judge(*[Held(3, words)] * 2), checkpointer=InMemorySaver(), limits=limits)
    graph.invoke(ASK, CONFIG)
    state = graph.invoke(Command(resume=decision), CONFIG)
    assert (state["certificates"], state["effects"]) == ([], [])


def edit(mode: str, name: str, **args: Any) -> Any:
    """Return the command with which a person changes a call of HumanInTheLoopMiddleware."""
    decision = {"type": "edit", "edited_action": {"name": name, "args": args}}
    return Command(resume={"decisions": [decision]} if mode == "batched" else decision)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("mode", ["batched", "per_call"])
@pytest.mark.parametrize("tools_of", [shop_tools, protected])
def test_a_call_that_a_person_edited_counts_as_it_was_made(tools_of: Any, mode: Any, is_async: bool) -> None:
    done, seen = list[str](), list[Any]()
    hitl = HumanInTheLoopMiddleware({"refund": True}, interrupt_mode=mode)
    executor = create_agent(ScriptedAgent(replies=[calls(REFUND), "Refunded."]), tools_of(done), middleware=[hitl])
    checks = {"Order {order} was refunded.": lambda order, calls: not seen.append([one.args for one in calls])}
    judge = Judge(Held(2, "refunded 1.0 euros of order 17"), plans=[PLAN[:1]])
    graph = certified(executor, judge, checks=checks, checkpointer=InMemorySaver())
    run(graph, ASK, is_async)
    state = run(graph, edit(mode, "refund", order=17, amount=1.0), is_async)
    assert done == ["refund 17 1.0"]
    assert [one["args"]["amount"] for one in state["effects"]] == [1.0]
    assert seen[0] == [{"order": 17, "amount": 1.0}]


@pytest.mark.parametrize("mode", ["batched", "per_call"])
def test_edited_calls_before_another_question_count_as_they_were_made(mode: Any) -> None:
    done = list[str]()
    hitl = HumanInTheLoopMiddleware({"refund": True, "close": True}, interrupt_mode=mode)
    model = ScriptedAgent(replies=[calls(REFUND), calls(CLOSE, first="d"), "Refunded and closed."])
    graph = certified(
        create_agent(model, protected(done), middleware=[hitl]),
        Judge(Held(3, "refunded 1.0 euros of order 17")),
        checkpointer=InMemorySaver(),
    )
    graph.invoke(ASK, CONFIG)
    graph.invoke(edit(mode, "refund", order=17, amount=1.0), CONFIG)
    state = graph.invoke(edit(mode, "close", order=18), CONFIG)
    assert done == ["refund 17 1.0", "close 18"]
    assert [one["args"] for one in state["effects"]] == [{"order": 17, "amount": 1.0}, {"order": 18}]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("is_protected", [True, False])
def test_effects_happen_once_where_the_executor_fails_in_the_middle(is_protected: bool, is_async: bool) -> None:
    done, failures = list[str](), [ConnectionResetError("the line is cut")]

    @tool
    def close(order: int) -> str:
        """Close the ticket of an order."""
        if failures:
            raise failures.pop()
        done.append(f"close {order}")
        return f"ticket of order {order} is closed"

    refund = shop_tools(done)[1]
    tools = [*(certigraph.once([refund]) if is_protected else [refund]), close]
    model = ScriptedAgent(replies=[calls(REFUND, CLOSE), "Refunded and closed."])
    # one node makes both calls, and makes both again where the run goes on
    executor = plain_graph(model, tools, handle_tool_errors=False)
    graph = certified(executor, Judge(Held(3)), checkpointer=InMemorySaver())
    with pytest.raises(ConnectionResetError):
        run(graph, ASK, is_async)
    state = run(graph, None, is_async)
    assert done == ["refund 17 64.0"] * (1 if is_protected else 2) + ["close 17"]
    assert (state["ending"], len(model.requests)) == ("goal", 2)
    assert [one["tool"] for one in state["effects"]] == ["refund", "close"]


@pytest.mark.slow
@pytest.mark.parametrize("is_protected", [True, False])
def test_effects_happen_once_where_the_process_ends_in_the_middle(is_protected: bool, tmp_path: Path) -> None:
    for code in (9, 0):
        child: Any = FORK.Process(target=work, args=(str(tmp_path), is_protected))
        child.start()
        child.join()
        assert child.exitcode == code
    assert (tmp_path / "ending").read_text() == "goal"
    refunds = 1 if is_protected else 2
    assert sorted((tmp_path / "done").read_text().splitlines()) == ["close 17", *["refund 17"] * refunds]


def test_the_next_turn_begins_a_new_conversation_and_knows_the_earlier_one() -> None:
    model = ScriptedAgent(replies=[*IN_ONE_GO, "Order 17 was refunded before."])
    judge = Judge(Held(3), Held(1), plans=[PLAN, []])
    graph = certified(create_agent(model, protected([])), judge, checkpointer=InMemorySaver())
    graph.invoke(ASK, CONFIG)
    state = graph.invoke({"messages": [("user", "Was it refunded?")]}, CONFIG)
    [request] = model.requests[-1]
    assert "Was it refunded?" in request.text and "refunded 64.0 euros of order 17" in request.text
    assert state["messages"][-1].text == "Order 17 was refunded before."


def test_what_else_the_executors_graph_keeps_is_there_in_its_next_piece_of_work() -> None:
    write = calls(("write_file", {"file_path": "/note.txt", "content": "paid by card"}))
    read = calls(("read_file", {"file_path": "/note.txt"}), first="d")
    replies = [write, "Noted.", read, calls(REFUND, first="e"), "Refunded."]
    executor = create_deep_agent(ScriptedAgent(replies=replies), protected([]))
    state = certified(executor, Judge(Held(0, "", "not refunded"), Held(3))).invoke(ASK)
    answers = {one.tool_call_id: one.text for one in state["messages"] if isinstance(one, ToolMessage)}
    assert "paid by card" in answers["d1"]


# Tools, and what is known of them.


def warnings_of(build: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        build()
    return [str(one.message) for one in caught if issubclass(one.category, CallWarning)]


UNPROTECTED: dict[str, Callable[[ScriptedAgent], Any]] = {
    "create_agent": lambda model: create_agent(model, shop_tools([])),
    "deepagents": lambda model: create_deep_agent(model, shop_tools([])),
    "graph": lambda model: plain_graph(model, shop_tools([])),
    "nested": lambda model: (
        StateGraph(MessagesState)
        .add_node("inner", create_agent(model, shop_tools([])))
        .add_edge(START, "inner")
        .compile()
    ),
    "bound": lambda model: create_agent(model, shop_tools([])).with_retry(),
}

PROTECTED: dict[str, Callable[[ScriptedAgent], Any]] = {
    "once": lambda model: create_agent(model, protected([])),
    "middleware": lambda model: create_agent(model, shop_tools([]), middleware=[EffectsOnce(LOOK_UPS)]),
    "stack": lambda model: create_agent(
        model, shop_tools([]), middleware=stack(OrderedCalls(), ToolRetryMiddleware(), EffectsOnce(LOOK_UPS))
    ),
    "node": lambda model: plain_graph(model, shop_tools([]), wrap_tool_call=EffectsOnce(LOOK_UPS).wrap_tool_call),
    "deepagents": lambda model: create_deep_agent(model, protected([])),
    "look-ups": lambda model: create_agent(model, shop_tools([])[:1]),
}


@pytest.mark.parametrize("kind", UNPROTECTED)
def test_tools_without_a_ledger_are_warned_about_once(kind: str) -> None:
    executor = UNPROTECTED[kind](ScriptedAgent(replies=[]))
    [warning] = warnings_of(lambda: certified(executor, Judge()))
    named = warning.partition(" may happen twice")[0]
    assert all(name in named for name in ("refund", "mail", "close")) and "look_up" not in named


@pytest.mark.parametrize("kind", PROTECTED)
def test_protected_tools_are_not_warned_about(kind: str) -> None:
    executor = PROTECTED[kind](ScriptedAgent(replies=[]))
    assert warnings_of(lambda: certified(executor, Judge())) == []


def test_an_executor_may_be_any_runnable_with_messages() -> None:
    agent = create_agent(ScriptedAgent(replies=IN_ONE_GO), protected([]))
    state = certified(RunnableLambda(agent.invoke), Judge(Held(3))).invoke(ASK)
    assert state["ending"] == "goal"
    assert [one["tool"] for one in state["effects"]] == ["refund", "close"]


def test_of_an_unknown_tool_every_call_counts_as_lasting() -> None:
    agent = create_agent(ScriptedAgent(replies=IN_ONE_GO), protected([]))
    model = certigraph.ScriptedChat(responder=Judge(Held(3)))
    state = certigraph.agent("sdp", model=model, executor=RunnableLambda(agent.invoke)).invoke(ASK)
    assert [one["tool"] for one in state["effects"]] == ["look_up", "refund", "close"]


def test_tools_may_be_named_where_they_are_not_found() -> None:
    agent = create_agent(ScriptedAgent(replies=IN_ONE_GO), protected([]))
    graph = certified(RunnableLambda(agent.invoke), Judge(Held(3)), tools=shop_tools([]))
    assert list(graph.world.loaded) == ["look_up", "refund", "mail", "close"]
    assert [one["tool"] for one in graph.invoke(ASK)["effects"]] == ["refund", "close"]


def test_checks_decide_conditions_of_a_plan_that_an_executor_works_on() -> None:
    done = list[str]()
    checks = {"The ticket of order {order} is closed.": lambda order: f"close {order}" in done}
    executor = create_agent(ScriptedAgent(replies=IN_ONE_GO), protected(done))
    judge = Judge(Held(1, "ticket of order 17 is closed"), plans=[PLAN[1:]])
    state = certified(executor, judge, checks=checks).invoke(ASK)
    assert [one.decided_by for one in state["certificates"]] == ["code and model"]


def test_operators_of_an_executor_can_be_swapped() -> None:
    async def realize(state: Any, runtime: Any) -> dict[str, Any]:
        update = await hand_over(state, runtime)
        return {"action": update["action"].model_copy(update={"text": "Refund order 17 and close it."})}

    model = ScriptedAgent(replies=IN_ONE_GO)
    certified(create_agent(model, protected([])), Judge(Held(3)), realize=realize).invoke(ASK)
    assert model.requests[0][-1].text == "Refund order 17 and close it."


def test_tools_of_an_executor_get_the_callers_context_and_not_certigraphs() -> None:
    @tool
    def who(runtime: ToolRuntime[str, Any]) -> str:
        """Say who works."""
        return f"it is {runtime.context}"

    executor = create_agent(ScriptedAgent(replies=[calls(("who", {})), "Known."]), certigraph.once([who]))
    state = certified(executor, Judge(Held(3, "it is someone at work"))).invoke(ASK, context="someone at work")
    assert state["ending"] == "goal"


def test_an_executor_within_a_budget_ends_with_a_message() -> None:
    replies = [calls(LOOK), "Looked up.", *IN_ONE_GO[1:]]
    graph = certified(
        create_agent(ScriptedAgent(replies=replies), protected([])), Judge(Held(0)), budget=certigraph.Budget(calls=3)
    )
    state = graph.invoke(ASK)
    assert state["ending"] == "limit:calls"


def test_steps_are_pieces_of_work() -> None:
    executor = create_agent(ScriptedAgent(replies=[*IN_ONE_GO[:1], "Looked up."]), protected([]))
    graph = certified(executor, Judge(*[Held(0)] * 2), limits=certigraph.Limits(steps=1))
    assert graph.invoke(ASK)["ending"] == "limit:steps"


def test_the_executor_has_supersteps_of_its_own() -> None:
    looked = [calls(LOOK, first=f"c{number}-") for number in range(20)]
    executor = create_agent(ScriptedAgent(replies=[*looked, *IN_ONE_GO[1:]]), protected([]))
    state = certified(executor, Judge(Held(3))).invoke(ASK, {"recursion_limit": 30})
    assert state["ending"] == "goal"


def test_what_is_attached_to_the_request_is_handed_on_once() -> None:
    image = {"type": "image", "base64": "aGVsbG8=", "mime_type": "image/png"}
    model = ScriptedAgent(replies=[calls(REFUND), "It is refunded.", calls(CLOSE, first="d"), "Closed."])
    graph = certified(create_agent(model, protected([])), Judge(Held(1), Held(2, "ticket of order 17 is closed")))
    graph.invoke({"messages": [HumanMessage([{"type": "text", "text": "Refund it."}, image])]})
    first, second = (model.requests[number][-1].content for number in (0, 2))
    assert (first[-1], isinstance(second, str)) == (image, True)


WRONG: dict[str, tuple[dict[str, Any], type[Exception]]] = {
    "interrupt_on": ({"interrupt_on": {"refund": True}}, ValueError),
    "response_format": ({"response_format": Report}, ValueError),
    "rules": ({"rules": {"refund": lambda call, facts: None}}, ValueError),
    "commitments": ({"commitments": "arguments"}, ValueError),
    "executor": ({"executor": lambda state: state}, TypeError),
}


@pytest.mark.parametrize("keyword", WRONG)
def test_what_only_the_executor_itself_can_do_is_refused(keyword: str) -> None:
    given, error = WRONG[keyword]
    executor = create_agent(ScriptedAgent(replies=[]), protected([]))
    model = certigraph.ScriptedChat(responder=Judge())
    with pytest.raises(error, match=keyword):
        certigraph.agent("sdp", **{"model": model, "executor": executor, **given})


def test_a_runnable_without_messages_is_named() -> None:
    graph = certified(RunnableLambda(lambda given: "done"), Judge())
    with pytest.raises(certigraph.Fault, match="the executor returned 'done'"):
        graph.invoke(ASK)
