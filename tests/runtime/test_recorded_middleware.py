"""Agents of LangChain's `create_agent` as recorded runs: trajectory, result and report, with and without middleware."""

import asyncio
import json
import operator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pytest
from deepagents import create_deep_agent
from helpers.models.scripted_agents import LOOK_UPS, ScriptedAgent, Validator, calls, shop_tools
from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelCallLimitMiddleware,
    SummarizationMiddleware,
    hook_config,
)
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, RemoveMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, ToolRuntime, tools_condition
from langgraph.types import Command
from pydantic import BaseModel

import certigraph
from certigraph.middleware import Certified, EffectsOnce, OrderedCalls, ProgressGate, stack
from certigraph.nodes.for_messages import audit, certified_end, certify
from certigraph.runtime.report import write_report
from certigraph.runtime.result import Result

REQUEST = "Refund order 17 and write a mail."
WORK: list[Any] = [
    calls(("look_up", {"order": 17})),
    calls(("refund", {"order": 17, "amount": 64.0}), ("mail", {"order": 17}), first="d"),
    "Order 17 is refunded.",
]


@pytest.fixture(autouse=True)
def _scripts_allow_calls() -> None:
    """Take the place of the fixture by which scripts that do not know the check allow every call."""


def certified(validator: Validator, **given: Any) -> list[AgentMiddleware[Any, Any, Any]]:
    judge = Certified(model=validator.chat, **given)
    return stack(OrderedCalls(), ProgressGate(), EffectsOnce(), judge, effects=LOOK_UPS)


def agent_of(
    replies: list[Any], done: list[str], *middleware: Any, **given: Any
) -> CompiledStateGraph[Any, Any, Any, Any]:
    return create_agent(ScriptedAgent(replies=replies), shop_tools(done), middleware=middleware, **given)


def run(agent: Any, folder: Path, **given: Any) -> Result:
    return certigraph.run(agent, task=REQUEST, out=folder, **given)


def test_an_agent_with_middleware_has_effects_checks_and_certificates(tmp_path: Path):
    done = list[str]()
    result = run(agent_of(WORK, done, *certified(Validator(by_calls=[2]))), tmp_path)
    assert done == ["refund 17 64.0", "mail 17"]
    assert (result.ending, [one.decided_by for one in result.certificates]) == ("goal", ["model"])
    assert [(one.tool, one.action, one.check and one.check.outcome) for one in result.effects] == [
        ("refund", 2, "allowed"),
        ("mail", 2, "allowed"),
    ]
    assert [len(behind) for behind in result.actions_behind] == [2]
    assert result.usage.calls == 5, "three of the agent, two of its validator"
    assert Result(result.folder).effects == result.effects, "the file alone has them"


def test_a_bare_agent_ends_finished_and_its_effects_are_listed(tmp_path: Path):
    result = run(agent_of(WORK, []), tmp_path)
    assert (result.ending, result.certificates) == ("finished", [])
    # nobody declared that it changes nothing
    assert [one.tool for one in result.effects] == ["look_up", "refund", "mail"]
    assert (result.trajectory.header.task.goal, result.usage.calls) == (REQUEST, 3)


def test_the_report_shows_effects_certificates_and_what_was_denied(tmp_path: Path):
    validator = Validator({"refund": {"outcome": "forbidden", "next": "Refund 64.00."}})
    too_much = calls(("refund", {"order": 17, "amount": 79.0}), first="x")
    result = run(agent_of([WORK[0], too_much, *WORK[1:]], [], *certified(validator)), tmp_path)
    page = write_report(result).read_text(encoding="utf-8")
    assert "2 lasting calls, 2 not covered, 1 refused before being made" in page
    assert "refund(order=17, amount=79.0)" in page and "goal certified" in page
    assert "order 17: paid 64.00 euros, not refunded" in page
    assert "scripted:expert" not in page, "its model is its own"


def test_an_answer_that_is_sent_back_is_judged_again_and_certified_once(tmp_path: Path):
    checks = {"Order {order} is refunded.": lambda order, calls: any(one.tool == "refund" for one in calls)}
    validator = Validator(missing=["Write the mail."])
    replies = [
        *WORK[:1],
        calls(("refund", {"order": 17, "amount": 64.0}), first="d"),
        "Done.",
        calls(("mail", {"order": 17}), first="e"),
        "All is done.",
    ]
    judge = certified(validator, conditions=["Order 17 is refunded."], checks=checks)
    result = run(agent_of(replies, [], *judge), tmp_path)
    assert [one.targets[0].text for one in result.certificates] == ["Order 17 is refunded.", REQUEST]
    assert [one.conditions for one in result.effects] == [("Order 17 is refunded.",), ()]
    assert [str(step.action.text) for step in result.state["history"]] == [
        "look_up(order=17)",
        "refund(order=17, amount=64.0)",
        "mail(order=17)",
    ]


def test_checks_of_calls_with_a_secret_are_recorded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SHOP_API_KEY", KEY)

    @tool
    def log_in(key: str) -> str:
        """Log in."""
        return "logged in"

    asks = HumanInTheLoopMiddleware({"refund": True}, interrupt_mode="per_call")
    middleware = stack(OrderedCalls(), asks, EffectsOnce(), Certified(model=Validator().chat), effects=LOOK_UPS)
    replies = [calls(("log_in", {"key": KEY})), *WORK[1:]]
    agent = create_agent(ScriptedAgent(replies=replies), [log_in, *shop_tools([])], middleware=middleware)
    waiting = run(agent, tmp_path)
    resumed = certigraph.resume(waiting.folder, graph=agent, answer={"type": "approve"})
    assert [one.tool for one in resumed.state["checks"]] == ["log_in", "refund", "mail"]
    assert KEY not in (resumed.folder / "trajectory.jsonl").read_text()


def test_a_person_answers_and_the_run_goes_on(tmp_path: Path):
    done = list[str]()
    asks = HumanInTheLoopMiddleware({"refund": True}, interrupt_mode="per_call")
    middleware = stack(OrderedCalls(), asks, EffectsOnce(), Certified(model=Validator().chat), effects=LOOK_UPS)
    agent = agent_of(WORK, done, *middleware)
    waiting = run(agent, tmp_path)
    assert (waiting.ending, len(waiting.questions), done) == ("interrupted", 1, [])
    resumed = certigraph.resume(waiting.folder, graph=agent, answer={"type": "approve"})
    assert (resumed.ending, done) == ("goal", ["refund 17 64.0", "mail 17"])
    assert [one.tool for one in resumed.effects] == ["refund", "mail"]
    assert len(resumed.state["history"]) == 2, "what was recorded before the question is not recorded again"


@pytest.mark.parametrize(
    ("ending", "replies"),
    [
        ("question", ["Which order do you mean?"]),
        ("gave_up", ["It is refunded."] * 3),
        ("stopped", [calls(("look_up", {"order": 17}), first=f"l{number}-") for number in range(3)]),
    ],
)
def test_endings_of_middleware_are_endings_of_the_run(ending: str, replies: list[Any], tmp_path: Path):
    limit = ModelCallLimitMiddleware(run_limit=3, exit_behavior="end")
    validator = Validator(missing=["Refund it."] * 3)
    result = run(agent_of(replies, [], limit, *certified(validator)), tmp_path)
    assert (result.ending, result.effects) == (ending, [])
    assert bool(result.message) == (ending != "question")


def test_calls_that_are_no_work_are_not_recorded(tmp_path: Path):
    class Report(BaseModel):
        """What was done."""

        done: bool

    replies = [
        calls(("commit_to_conditions", {"conditions": ["Order 17 is refunded."]}), ("look_up", {"order": 17})),
        calls(("refund", {"order": 17, "amount": 64.0}), first="d"),
        calls(("Report", {"done": True}), first="e"),
    ]
    middleware = certified(Validator(holds=[{"evidence": "refunded 64.0 euros"}]), conditions="agent")
    result = run(agent_of(replies, [], *middleware, response_format=ToolStrategy(Report)), tmp_path)
    assert [step.action.text for step in result.state["history"]] == [
        "look_up(order=17)",
        "refund(order=17, amount=64.0)",
    ]
    assert [(one.tool, one.check and one.check.outcome) for one in result.effects] == [("refund", "allowed")]


def test_a_summary_takes_no_effect_out_of_the_record(tmp_path: Path):
    result = run(summing_up(), tmp_path)
    assert [one.args for one in result.effects] == [{"order": number} for number in range(4)]


def test_a_summary_takes_no_call_from_the_check_of_a_case(tmp_path: Path):
    cases = certigraph.Tools(shop_tools([]), ["Send mails 0 to 3."], check=lambda episode: len(episode.calls) == 4)
    result = certigraph.run(summing_up(), cases, out=tmp_path)
    assert result.scores and result.scores.value == 1


def summing_up() -> CompiledStateGraph[Any, Any, Any, Any]:
    """An agent that sends four mails, and whose messages a summary takes the place of."""
    summary = SummarizationMiddleware(
        ScriptedAgent(replies=["so far"] * 9), trigger=("messages", 4), keep=("messages", 1)
    )
    rounds = [calls(("mail", {"order": number}), first=f"m{number}-") for number in range(4)]
    return agent_of([*rounds, "All mails are sent."], [], summary)


REFUND, MAIL = ("refund", {"order": 17, "amount": 64.0}), ("mail", {"order": 17})


class TakesBack(AgentMiddleware[Any, Any, Any]):
    """Lets the model choose again where it called `close`; `removes` says whether the response is removed."""

    def __init__(self, *, removes: bool) -> None:
        self.removes = removes

    @hook_config(can_jump_to=["model"])
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        last = state["messages"][-1]
        if all(one["name"] != "close" for one in last.tool_calls):
            return None
        return {"messages": [RemoveMessage(last.id)] if self.removes else [], "jump_to": "model"}


@pytest.mark.parametrize("removes", [True, False])
def test_a_response_without_answers_takes_no_later_effect_out_of_the_record(removes: bool, tmp_path: Path):
    done = list[str]()
    replies = [calls(("close", {"order": 17})), calls(REFUND, first="d"), calls(MAIL, first="e"), "Refunded."]
    result = run(agent_of(replies, done, TakesBack(removes=removes)), tmp_path)
    assert done == ["refund 17 64.0", "mail 17"]
    assert [one.tool for one in result.effects] == ["refund", "mail"]
    # a response that stays in the conversation is counted, as middleware counts it
    assert [one.action for one in result.effects] == ([1, 2] if removes else [2, 3])
    assert len(result.state["history"]) == (2 if removes else 3)


def test_an_open_response_before_a_text_is_recorded(tmp_path: Path):
    replies = [calls(REFUND), calls(("close", {"order": 17}), first="d"), "Refunded."]
    result = run(agent_of(replies, [], TakesBack(removes=False)), tmp_path)
    assert [step.action.text for step in result.state["history"]] == [
        "refund(order=17, amount=64.0)",
        "close(order=17)",
    ]
    assert [one.tool for one in result.effects] == ["refund"]


def test_answers_in_commands_and_in_messages_of_one_node_are_recorded(tmp_path: Path):
    @tool
    def note(text: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Note a text."""
        return Command(update={"messages": [ToolMessage("noted", tool_call_id=tool_call_id)]})

    model = ScriptedAgent(replies=[calls(REFUND, ("note", {"text": "x"})), calls(MAIL, first="d"), "Done."])
    graph = StateGraph(MessagesState)
    graph.add_node("agent", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([*shop_tools([]), note]))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", tools_condition)
    graph.add_edge("tools", "agent")
    result = run(graph.compile(), tmp_path)
    assert [one.tool for one in result.effects] == ["refund", "note", "mail"]


@pytest.mark.slow
def test_a_deep_agent_is_recorded(tmp_path: Path):
    replies = [calls(("write_todos", {"todos": []})), *WORK[1:]]
    middleware = certified(Validator(by_calls=[2]))
    agent = create_deep_agent(ScriptedAgent(replies=replies), shop_tools([]), middleware=middleware)
    result = run(agent, tmp_path)
    assert (result.ending, [one.tool for one in result.effects]) == ("goal", ["refund", "mail"])


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_graph_with_nodes_of_for_messages_is_recorded(is_nested: bool, tmp_path: Path):
    graph = ending_with(is_nested=is_nested)
    result = run(graph, tmp_path)
    assert (result.ending, len(result.certificates), len(result.effects)) == ("goal", 1, 3)
    assert result.usage.calls == 4, "three of the agent, one of the validator"
    limited = run(graph, tmp_path, context=certigraph.Context(budget=certigraph.Budget(calls=3)))
    assert (limited.ending, limited.usage.calls) == ("limit:calls", 3)


def ending_with(*, is_nested: bool) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A graph that ends with `audit` and `certify`, which `certified_end` has in a graph of its own."""
    tools, judge = shop_tools([]), Validator().chat

    class State(MessagesState):
        certigraph: dict[str, Any]

    def agent(state: MessagesState) -> dict[str, Any]:
        made = sum(isinstance(one, AIMessage) for one in state["messages"])
        return {"messages": [ScriptedAgent(replies=WORK[made:]).invoke(state["messages"])]}

    graph = StateGraph(State)
    graph.add_node("agent", agent)
    graph.add_node("tools", ToolNode(tools))
    graph.add_node("end", certified_end(tools, model=judge) if is_nested else audit(tools, model=judge))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", tools_condition, {"tools": "tools", END: "end"})
    graph.add_edge("tools", "agent")
    if not is_nested:
        graph.add_node("certify", certify())
        graph.add_edge("end", "certify")
    return graph.compile(name="own")


def test_logs_with_a_reducer_are_recorded_once(tmp_path: Path):
    tools, model = shop_tools([]), ScriptedAgent(replies=["Nothing is to be done."])

    class State(MessagesState):
        certificates: Annotated[list[dict[str, Any]], operator.add]

    def certificate(text: str) -> dict[str, Any]:
        target, action = {"text": text}, {"text": "", "kind": "text"}
        return {"step": 1, "position": 0, "targets": [target], "action": action, "digest": ""}

    graph = StateGraph(State)
    graph.add_node("one", lambda state: {"certificates": [certificate("first")]})
    graph.add_node("two", lambda state: {"certificates": [certificate("second")]})
    graph.add_node("agent", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode(tools))
    for one, other in [(START, "one"), ("one", "two"), ("two", "agent")]:
        graph.add_edge(one, other)
    graph.add_conditional_edges("agent", tools_condition)
    result = run(graph.compile(name="own"), tmp_path)
    assert [one.targets[0].text for one in result.certificates] == ["first", "second"]


def test_the_budget_of_the_run_counts_the_validator(tmp_path: Path):
    done = list[str]()
    agent = agent_of(WORK, done, *certified(Validator()))
    limited = run(agent, tmp_path, context=certigraph.Context(budget=certigraph.Budget(calls=2)))
    assert (limited.ending, done) == ("limit:calls", []), "without the check no call is made"
    resumed = certigraph.resume(limited.folder, graph=agent, budget=certigraph.Budget(calls=9))
    assert (resumed.ending, len(done), resumed.usage.calls) == ("goal", 2, 5)


def test_prompts_of_the_agent_and_of_its_validator_are_kept(tmp_path: Path):
    result = run(agent_of(WORK, [], *certified(Validator())), tmp_path, keep_prompts=True)
    kept = [json.loads(line) for line in (result.folder / "prompts.jsonl").read_text().splitlines()]
    assert [one["node"] for one in kept] == ["model", "model", "check", "model", "audit"]
    assert [number for event in result.trajectory.events for number in event.prompts] == [1, 2, 3, 4, 5]


def test_a_request_is_needed_and_holds_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SHOP_API_KEY", "sk-shop-0123456789abcdef")
    with pytest.raises(certigraph.UnknownName, match="needs a request"):
        certigraph.run(agent_of([], []), task=" ", out=tmp_path)
    with pytest.raises(certigraph.Fault, match="holds a secret"):
        certigraph.run(agent_of([], []), task="Use sk-shop-0123456789abcdef.", out=tmp_path)


EDITED = {"type": "edit", "edited_action": {"name": "refund", "args": {"order": 17, "amount": 1.0}}}


@pytest.mark.parametrize(("mode", "answer"), [("batched", {"decisions": [EDITED]}), ("per_call", EDITED)])
def test_a_call_that_a_person_edited_is_recorded_as_it_was_made(mode: Any, answer: Any, tmp_path: Path):
    done = list[str]()
    asks = HumanInTheLoopMiddleware({"refund": True}, interrupt_mode=mode)
    agent = agent_of([calls(REFUND, MAIL), "Refunded."], done, asks)
    waiting = run(agent, tmp_path)
    result = certigraph.resume(waiting.folder, graph=agent, answer=answer)
    assert sorted(done) == ["mail 17", "refund 17 1.0"]
    assert [(one.tool, one.args.get("amount")) for one in result.effects] == [("refund", 1.0), ("mail", None)]
    assert [step.action.text for step in result.state["history"]] == ["refund(order=17, amount=1.0); mail(order=17)"]


class Customer(NamedTuple):
    """Context of an agent."""

    name: str


@tool
def who(runtime: ToolRuntime[Any, Any]) -> str:
    """Say for whom the agent works."""
    return f"it is {runtime.context}"


@pytest.mark.parametrize(("own", "seen"), [(None, "it is None"), (Customer("Eve"), "it is Customer(name='Eve')")])
def test_tools_of_an_agent_get_the_callers_context_and_not_certigraphs(own: Any, seen: str, tmp_path: Path):
    agent = create_agent(ScriptedAgent(replies=[calls(("who", {})), "Done."]), [who])
    result = run(agent, tmp_path, context=certigraph.Context(own=own))
    assert result.state["observation"].text == seen


@pytest.mark.parametrize("given", [{"task": REQUEST}, {"benchmark": certigraph.Tools([who], ["Who is it?"])}])
def test_an_agent_with_a_context_of_its_own_is_refused(given: dict[str, Any], tmp_path: Path):
    agent = create_agent(ScriptedAgent(replies=[]), [who], context_schema=Customer)
    with pytest.raises(certigraph.Fault, match="Customer"):
        certigraph.run(agent, **given, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


# Spans of OpenTelemetry.

KEY = "sk-shop-0123456789abcdef"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The finished spans of OpenInference's instrumentation, by name, and a secret that they must not hold."""
    instrumentation = pytest.importorskip("openinference.instrumentation.langchain")
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    monkeypatch.setenv("SHOP_API_KEY", KEY)
    provider = trace.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(memory))
    instrumentation.LangChainInstrumentor().instrument(tracer_provider=provider)
    yield lambda: {span.name: span.attributes for span in memory.get_finished_spans()}
    instrumentation.LangChainInstrumentor().uninstrument()


def by_invoke(agent: Any, state: Any) -> None:
    agent.invoke(state)


def by_ainvoke(agent: Any, state: Any) -> None:
    asyncio.run(agent.ainvoke(state))


@pytest.mark.slow
@pytest.mark.parametrize("call", [by_invoke, by_ainvoke])
def test_the_agents_span_has_certificates_denials_and_effects(spans: Any, call: Any):
    @tool
    def refund(order: int, amount: float) -> str:
        """Refund an amount of an order."""
        return f"refunded {amount} euros by the key {KEY}"

    validator = Validator({"refund": {"outcome": "forbidden", "next": "Refund 64.00."}}, by_calls=[2])
    replies = [
        calls(("refund", {"order": 17, "amount": 79.0})),
        calls(("refund", {"order": 17, "amount": 64.0}), first="d"),
        "Order 17 is refunded.",
    ]
    middleware = stack(OrderedCalls(), EffectsOnce(), Certified(model=validator.chat))
    agent = create_agent(ScriptedAgent(replies=replies), [refund], middleware=middleware, name="refunds")
    call(agent, {"messages": [("user", REQUEST)]})
    noted = {name: value for name, value in spans()["refunds"].items() if name.startswith("certigraph.")}
    assert noted["certigraph.ending"] == "goal"
    [certificate] = map(json.loads, noted["certigraph.certificates"])
    [denied] = map(json.loads, noted["certigraph.denied"])
    [effect] = map(json.loads, noted["certigraph.effects"])
    assert (certificate["decided_by"], denied["args"]["amount"], effect["args"]["amount"]) == ("model", 79.0, 64.0)
    assert KEY not in str(noted) and "refunded 64.0 euros" in effect["answer"]


@pytest.mark.slow
def test_without_instrumentation_the_span_around_the_agent_has_them():
    trace = pytest.importorskip("opentelemetry.sdk.trace")
    tracer = trace.TracerProvider().get_tracer("test")
    with tracer.start_as_current_span("request") as span:
        agent_of(WORK, [], *certified(Validator())).invoke({"messages": [AIMessage("Hello."), ("user", REQUEST)]})
        assert span.attributes["certigraph.ending"] == "goal"
        assert len(span.attributes["certigraph.effects"]) == 2


@pytest.mark.slow
def test_the_span_of_certigraphs_own_agent_has_them_too(spans: Any):
    from helpers.worlds.compared_desk import TOOLS, respond

    model = certigraph.ScriptedChat(responder=respond)
    agent = certigraph.agent("react", model=model, tools=TOOLS, effects=LOOK_UPS)
    agent.invoke({"messages": [("user", "Refund order 18.")]})
    noted = spans()["react"]
    assert [json.loads(one)["args"]["amount"] for one in noted["certigraph.denied"]] == [79.0]
    assert len(noted["certigraph.certificates"]) == len(noted["certigraph.effects"]) == 1
