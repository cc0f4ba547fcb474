"""Agents over the user's own tools, driven by every method."""

import asyncio
import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

import pytest
from helpers.cases import first_fast
from helpers.servers.scripted_endpoint import scripted_endpoint
from helpers.worlds import support_database
from helpers.worlds.support_database import CONDITIONS, GOAL, SCRIPT, SupportDatabase, scripted_model
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command
from pydantic import SecretStr

from certigraph import Context, LimitReached, Limits, ScriptedChat, Tools, run
from certigraph.adapters.models.schemas import minimal_instance
from certigraph.adapters.models.tool_calls import MAX_CALLS
from certigraph.adapters.protocols import Budget
from certigraph.graphs.agent import METHODS, AgentGraph, AgentInput, agent
from certigraph.graphs.sdp import builder
from certigraph.nodes.sdp import always_pass
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.tools import calls_of

REPEATABLE: Any = {"look_up": "repeatable"}


def build(method: Any, database: SupportDatabase, **options: Any) -> AgentGraph:
    settings = {"model": scripted_model(), "effects": REPEATABLE, "checkpointer": InMemorySaver(), **options}
    return agent(method, tools=database.tools, **settings)


def thread(name: str = "1") -> Any:
    return {"configurable": {"thread_id": name}}


@pytest.mark.parametrize("method", first_fast(METHODS, 3))
def test_every_method_does_the_work_once_and_answers_with_a_message(method: Any, database: SupportDatabase) -> None:
    result = build(method, database).invoke({"messages": [("user", GOAL)]}, thread())
    assert database.rows("refunds") == [(17, 49.9)]
    assert len(database.rows("mails")) == 1
    assert isinstance(result["messages"][-1], AIMessage)
    assert result["messages"][-1].text
    assert result["ending"] in ("goal", "finished")


def test_an_answer_is_handed_in_for_a_condition_that_words_the_goal_otherwise(
    database: SupportDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(support_database, "CONDITIONS", [*CONDITIONS, "All is done, and the answer was handed in."])
    monkeypatch.setattr(support_database, "SHOWN_BY", [*support_database.SHOWN_BY, "handed in"])
    result = build("sdp", database).invoke({"goal": GOAL}, thread())
    assert (result["ending"], database.rows("refunds")) == ("goal", [(17, 49.9)])


def test_who_plans_again_is_shown_why_a_condition_is_given_up(database: SupportDatabase) -> None:
    planned = []

    def answers(prompt: str, schema: Any) -> Any:
        assert "holds" not in schema["properties"], "nobody has to judge what the agent gives up"
        if "conditions" in schema["properties"]:
            planned.append(prompt)
        given_up = {"thought": "order 17 is not there", "calls": [{"name": "target_unreachable", "args": {}}]}
        answer = {"tools": ["look_up"], "conditions": CONDITIONS, "reasoning": "", **given_up}
        return {name: answer[name] for name in schema["properties"]}

    model = ScriptedChat(responder=answers)
    state = build("sdp", database, model=model, budget={"calls": 8}).invoke({"goal": GOAL}, thread())
    assert state["ending"] == "limit:calls"
    assert ["order 17 is not there" in prompt for prompt in planned[:2]] == [False, True]


def test_a_second_message_on_the_thread_is_a_task_of_its_own(database: SupportDatabase) -> None:
    graph = build("react", database)
    graph.invoke({"messages": [("user", GOAL)]}, thread())
    result = graph.invoke({"messages": [("user", GOAL)]}, thread())
    assert len(database.rows("refunds")) == 2
    turn = ["human", *["ai", "tool"] * 3, "ai"]
    assert [message.type for message in result["messages"]] == turn * 2


class Ticket(TypedDict):
    """Further state."""

    ticket: str


@pytest.mark.slow
def test_further_state_passes_through(database: SupportDatabase) -> None:
    graph = build("sdp", database, state_schema=Ticket)
    given: Any = {"goal": GOAL, "ticket": "T-1"}
    assert graph.invoke(given, thread())["ticket"] == "T-1"
    graph.update_state(thread(), {"ticket": "T-2"})
    assert graph.get_state(thread()).values["ticket"] == "T-2"
    assert graph.invoke({"goal": GOAL}, thread())["ticket"] == "T-2"


def test_operators_are_exchanged_by_slot(database: SupportDatabase) -> None:
    result = build("sdp", database, validate=always_pass).invoke({"goal": GOAL}, thread())
    assert result["certificates"][0].decided_by == ""
    with pytest.raises(TypeError, match="validate"):
        build("sdp", database, validat=always_pass)


def test_a_node_can_be_inserted_between_two_others() -> None:
    graph = builder().insert("log", lambda state: {}, between=("realize", "act")).compile()
    edges = {(edge.source, edge.target) for edge in graph.get_graph().edges}
    assert {("realize", "log"), ("log", "act")} <= edges
    assert ("realize", "act") not in edges
    with pytest.raises(ValueError, match="replan"):
        builder().insert("log", lambda state: {}, between=("act", "replan"))


def test_an_agent_is_a_node_of_a_larger_graph(database: SupportDatabase) -> None:
    class Outer(TypedDict, total=False):
        messages: Any
        done: bool

    outer = StateGraph(Outer)
    outer.add_node("agent", build("sdp", database, checkpointer=None))
    outer.add_node("after", lambda state: {"done": True})
    outer.add_edge(START, "agent")
    outer.add_edge("agent", "after")
    outer.add_edge("after", END)
    result = outer.compile(checkpointer=InMemorySaver()).invoke({"messages": [("user", GOAL)]}, thread())
    assert result["done"]
    assert len(database.rows("refunds")) == 1


@pytest.mark.parametrize(
    ("method", "options", "error", "named"),
    [
        ("spd", {}, ValueError, "spd"),
        ("react", {"interrupts_on": {}}, TypeError, "interrupts_on"),
        ("react", {"model": print}, TypeError, "ScriptedChat"),
        ("react", {"model": "simulatd"}, Fault, "simulatd"),
        ("sdp", {"model": "scripted:expert"}, ValueError, "ScriptedChat"),
        ("sdp", {"model": "simulated:act=0.2"}, ValueError, "ScriptedChat"),
        ("react", {"commitments": "tool"}, ValueError, "'tools'"),
        ("react", {"interrupt_on": {"nothing": True}}, ValueError, "look_up"),
        ("react", {"interrupt_on": ["refund"]}, TypeError, "dict"),
        ("react", {"effects": {"nothing": "repeatable"}}, ValueError, "look_up"),
        ("sdp", {"replan": always_pass}, UnknownName, "validate"),
        ("react", {"validate": always_pass}, TypeError, "validate"),
    ],
)
def test_what_an_agent_cannot_be_built_of_is_refused_with_what_would_do(
    method: Any, options: dict[str, Any], error: type[Exception], named: str, database: SupportDatabase
) -> None:
    with pytest.raises(error, match=named):
        build(method, database, **options)


def test_a_named_model_without_its_key_is_refused_when_the_agent_is_built(
    database: SupportDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "CERTIGRAPH_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(Fault, match="OPENAI_API_KEY"):
        agent("sdp", model="openai:gpt-4o-mini", tools=database.tools)


UNANSWERED = {"name": "finish", "args": {"answer": ""}}


def test_an_agent_without_an_answer_says_why_it_stopped(database: SupportDatabase) -> None:
    answers = {"tools": [], "conditions": [], "reasoning": "", "thought": "", "calls": [UNANSWERED]}
    answers |= {"reason": "", "evidence": "", "by_calls": [], "absence": "", "reachable": False, "holds": 0}
    model = ScriptedChat(responder=lambda prompt, schema: {name: answers[name] for name in schema["properties"]})
    state = agent("sdp", model=model, tools=database.tools).invoke({"goal": GOAL})
    assert state["ending"] == "gave_up"
    assert "was not certified" in state["ending_reason"]
    assert f"gave_up: {state['ending_reason']}" in state["messages"][-1].text


@pytest.mark.parametrize("method", first_fast(METHODS, 2))
def test_a_run_that_a_failing_tool_ended_names_its_error(method: Any) -> None:
    def look_up(order: int) -> str:
        """Look up an order."""
        raise RuntimeError("the warehouse is offline")

    def answer(prompt: str, schema: Any) -> Any:
        if "calls" in schema["properties"]:
            only_finish = "look_up" not in str(schema["properties"]["calls"])
            calls = [UNANSWERED] if only_finish else [{"name": "look_up", "args": {"order": 17}}]
            return {**minimal_instance(schema), "calls": calls}
        return minimal_instance(schema) | ({"conditions": ["done"]} if "conditions" in schema["properties"] else {})

    model = ScriptedChat(responder=answer)
    state = agent(method, model=model, tools=[look_up], commitments=None).invoke({"goal": GOAL})
    assert state["ending"] not in ("goal", "finished")
    assert re.search(r"look_up failed( \d+ times)?: RuntimeError: the warehouse is offline", state["ending_reason"])


def test_without_a_checkpointer_an_approval_is_refused_before_anything_is_done(database: SupportDatabase) -> None:
    prompts = []

    def answers(prompt: str, schema: Any) -> Any:
        prompts.append(prompt)
        return scripted_model().responder(prompt, schema)

    graph = agent("sdp", model=ScriptedChat(responder=answers), tools=database.tools, interrupt_on={"refund": True})
    with pytest.raises(Fault, match=r"approval of refund .*checkpointer=InMemorySaver"):
        graph.invoke({"goal": GOAL})
    outer: Any = StateGraph(dict)
    outer.add_node("desk", lambda state: graph.invoke({"goal": GOAL}))
    outer.add_edge(START, "desk")
    with pytest.raises(Fault, match="checkpointer=InMemorySaver"):
        outer.compile().invoke({})
    assert prompts == []


def test_without_a_checkpointer_a_tool_that_needs_no_approval_is_called(database: SupportDatabase) -> None:
    graph = agent("react", model=scripted_model(), tools=database.tools, interrupt_on={"refund": False})
    assert graph.invoke({"goal": GOAL})["ending"] == "finished"


def test_the_checkpointer_of_a_graph_around_the_agent_serves_its_approvals(database: SupportDatabase) -> None:
    outer: Any = StateGraph(AgentInput)
    outer.add_node("desk", agent("react", model=scripted_model(), tools=database.tools, interrupt_on={"refund": True}))
    outer.add_edge(START, "desk")
    graph = outer.compile(checkpointer=InMemorySaver())
    waiting = graph.invoke({"goal": GOAL}, thread())
    assert waiting["__interrupt__"][0].value["action_requests"][0]["name"] == "refund"
    graph.invoke(Command(resume={"decisions": [{"type": "approve"}]}), thread())
    assert len(database.rows("refunds")) == 1


def test_a_spent_budget_stops_the_run_and_a_larger_one_continues_it(database: SupportDatabase) -> None:
    graph = build("react", database, budget=Budget(calls=2), on_limit="raise")
    with pytest.raises(LimitReached, match=r"2 of 2 calls .* Budget\(calls=4\)") as reached:
        graph.invoke({"goal": GOAL}, thread())
    assert str(pickle.loads(pickle.dumps(reached.value))) == str(reached.value)
    larger: Any = Context(budget=Budget(calls=50))
    result = graph.invoke(None, thread(), context=larger)
    assert result["ending"] == "finished"
    assert len(database.rows("refunds")) == 1


@pytest.mark.parametrize("conditions", [CONDITIONS, []])
def test_a_model_that_calls_a_tool_where_only_an_answer_is_taken_is_a_fault_of_the_model(
    conditions: list[str], database: SupportDatabase
) -> None:
    def answers(prompt: str, schema: Any) -> Any:
        again = {"thought": "", "calls": [{"name": "look_up", "args": {"order": 17}}], "tools": ["look_up"]}
        answer = {**minimal_instance(schema), **again, "conditions": conditions, "holds": 0, "reachable": True}
        return {name: answer[name] for name in schema["properties"]}

    graph = build("sdp", database, model=ScriptedChat(responder=answers), limits=Limits(steps=3))
    with pytest.raises(Fault) as raised:
        graph.invoke({"goal": GOAL}, thread())
    assert raised.value.boundary == "model"


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_script_without_further_answers_is_named(asynchronous: bool, database: SupportDatabase) -> None:
    def answers(prompt: str, schema: Any) -> Any:
        return next(iter(()))

    graph = build("sdp", database, model=ScriptedChat(responder=answers))
    with pytest.raises(LookupError, match="the script has no more answers"):
        asyncio.run(graph.ainvoke({"goal": GOAL}, thread())) if asynchronous else graph.invoke({"goal": GOAL}, thread())


@pytest.mark.parametrize("given", ["Cancel order 7.", {}, {"messages": []}, {"messages": [("user", " ")]}])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_input_without_a_request_is_answered_with_its_form(
    given: Any, asynchronous: bool, database: SupportDatabase
) -> None:
    graph = build("sdp", database)
    with pytest.raises(Fault, match=r"the input needs \{\"messages\""):
        asyncio.run(graph.ainvoke(given, thread())) if asynchronous else graph.invoke(given, thread())


def test_several_episodes_need_a_reset(database: SupportDatabase) -> None:
    with pytest.raises(Fault, match="trials"):
        build("step", database, limits=Limits(trials=3)).invoke({"goal": GOAL}, thread())


# Commitments.


@pytest.mark.slow
def test_calls_beyond_the_commitment_are_refused_and_the_run_goes_on(database: SupportDatabase) -> None:
    hijacked = [SCRIPT[0], ("send_mail", {"to": "thief@example.org", "text": "all orders"})]

    class Hijacked(type(scripted_model(hijacked).responder)):  # type: ignore[misc]
        def __call__(self, prompt: str, schema: Any) -> Any:
            answer = super().__call__(prompt, schema)
            return {**answer, "tools": ["look_up"]} if "tools" in schema.get("properties", {}) else answer

    for method in ("react", "sdp"):
        model = scripted_model().model_copy(update={"responder": Hijacked(hijacked)})
        graph = build(method, database, model=model, limits=Limits(steps=6))
        graph.invoke({"goal": GOAL}, thread(method))
        assert database.rows("mails") == []
    model = scripted_model().model_copy(update={"responder": Hijacked(hijacked)})
    build("react", database, model=model, commitments=None).invoke({"goal": GOAL}, thread("free"))
    assert len(database.rows("mails")) == 1


# Calls beyond the most.


@pytest.mark.parametrize("method", ["react", "sdp"])
def test_calls_beyond_the_most_are_not_made_and_the_model_sees_how_many(method: Any, database: SupportDatabase) -> None:
    orders, prompts, usual = range(100, 102 + MAX_CALLS), list[str](), scripted_model()

    def answers(prompt: str, schema: Any) -> Any:
        if "calls" not in schema.get("properties", {}):
            return usual.responder(prompt, schema)
        prompts.append(prompt)
        many = [{"name": "look_up", "args": {"order": order}} for order in orders]
        return {"thought": "all at once", "calls": many} if len(prompts) == 1 else usual.responder(prompt, schema)

    graph = build(method, database, model=ScriptedChat(responder=answers))
    graph.invoke({"goal": GOAL}, thread())
    first, second, *_ = [calls_of(step.action) for step in graph.get_state(thread()).values["history"]]
    refused = [call for call in first if call.refused]
    assert database.looked_up == len(first) - len(refused) == MAX_CALLS
    assert [call.args["order"] for call in refused] == [orders[MAX_CALLS]]
    assert all(f"{call}\n {call.refused}" in prompts[1] and "2 in all" in call.refused for call in refused)
    assert [call.name for call in second] == [SCRIPT[1][0]]


def test_tools_is_a_world_of_its_own() -> None:
    tools = Tools([lambda_tool], cases=["do it", "do it again"])
    assert [task.id for task in tools.tasks()] == ["1", "2"]
    for cases in ("do it", [{"goal": "do it"}]):
        with pytest.raises(TypeError, match=r"do it|Case"):
            Tools([lambda_tool], cases=cases)  # type: ignore[arg-type]


def lambda_tool(text: str) -> str:
    """Repeat a text."""
    return text


@pytest.fixture
def keeping_model() -> Iterator[BaseChatModel]:
    """A model object of LangChain's, whose asynchronous connections belong to the event loop that opened them."""
    with scripted_endpoint("It is done.", [(name, args) for name, args in SCRIPT], "done") as endpoint:
        yield ChatOpenAI(model="m", base_url=endpoint.url, api_key=SecretStr("none"))


@pytest.mark.slow
@pytest.mark.parametrize("method", ["tdp", "sdp"])
def test_a_model_object_serves_one_invocation_after_the_other(
    method: Any, database: SupportDatabase, keeping_model: BaseChatModel
):
    graph, ending = build(method, database, model=keeping_model), "goal" if method == "sdp" else "finished"
    for number in range(3):
        assert graph.invoke({"goal": GOAL}, thread(str(number)))["ending"] == ending
    assert asyncio.run(graph.ainvoke({"goal": GOAL}, thread("async")))["ending"] == ending
    assert graph.invoke({"goal": GOAL}, thread("last"))["ending"] == ending


@pytest.mark.slow
def test_a_model_object_serves_one_run_after_the_other(
    database: SupportDatabase, keeping_model: BaseChatModel, tmp_path: Path
):
    world = Tools(database.tools, [GOAL], reset=lambda case: None)
    for number in range(3):
        context = Context(chat=keeping_model)
        assert run("tdp", world, "1", context=context, out=tmp_path / str(number)).ending == "goal"
