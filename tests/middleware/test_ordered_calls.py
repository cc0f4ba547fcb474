"""The calls of one response in their order: create_agent with `OrderedCalls`."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest
from helpers.models.calling_models import Caller, SameIdsCaller
from helpers.processes.prepared_processes import FORK
from helpers.sample_runs.ordered_chains import work_in_order
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, hook_config
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import ToolRuntime
from langgraph.types import Command
from pydantic import BaseModel

from certigraph.middleware.ordered_calls import NOTE, OrderedCalls
from certigraph.nodes.conversations import is_made, refuse

ASK: Any = {"messages": [("user", "Close the case.")]}
THREAD: Any = {"configurable": {"thread_id": "t"}}
EFFECTS: Any = {"look": "repeatable", "check": "repeatable"}
SECONDS = 0.05


class Office:
    """Tools that note when they begin and end. A call with a number of `failing` raises an error."""

    def __init__(self, *failing: int) -> None:
        self.log: list[str] = []
        self._failing = failing

    def _work(self, name: str, number: int, seconds: float) -> str:
        self.log.append(f"{name} {number} begins")
        time.sleep(seconds)
        if number in self._failing:
            raise ValueError(f"{name} {number} failed")
        self.log.append(f"{name} {number} ends")
        return f"{name} {number}"

    @property
    def tools(self) -> list[Any]:
        def mail(number: int) -> str:
            """Send a mail."""
            return self._work("mail", number, SECONDS)

        def close(number: int) -> str:
            """Close a case."""
            return self._work("close", number, 0)

        def look(number: int) -> str:
            """Look at a case."""
            return self._work("look", number, SECONDS)

        return [tool(one) for one in (mail, close, look)]

    @property
    def begun(self) -> list[str]:
        return [one.removesuffix(" begins") for one in self.log if one.endswith("begins")]


class Failures(AgentMiddleware[Any, Any, Any]):
    """Turns errors of tools into answers."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except ValueError as error:
            return ToolMessage(str(error), tool_call_id=request.tool_call["id"], status="error")

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        try:
            return await handler(request)
        except ValueError as error:
            return ToolMessage(str(error), tool_call_id=request.tool_call["id"], status="error")


Calls = Sequence[tuple[str, Mapping[str, Any]]]


def numbered(*names: str) -> Calls:
    """Calls by their names, with their places as numbers."""
    return [(name, {"number": number}) for number, name in enumerate(names, 1)]


def built(office: Office, *rounds: Calls, after: Sequence[Any] = (), saver: Any = None, **options: Any) -> Any:
    stack = [OrderedCalls(EFFECTS), *after, Failures()]
    given = {"model": Caller(rounds=rounds), "tools": office.tools, "middleware": stack, "checkpointer": saver}
    return create_agent(**{**given, **options})


def invoked(graph: Any, way: str, given: Any = ASK, config: Any = THREAD) -> Any:
    return graph.invoke(given, config) if way == "invoke" else asyncio.run(graph.ainvoke(given, config))


def answers_in(state: Any) -> list[ToolMessage]:
    return [one for one in state["messages"] if isinstance(one, ToolMessage)]


WAYS = ("invoke", "ainvoke")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("saver", [None, "memory"])
def test_calls_are_made_one_after_another(way: str, saver: Any) -> None:
    office = Office()
    graph = built(office, numbered("mail", "close", "mail"), saver=InMemorySaver() if saver else None)
    state = invoked(graph, way)
    assert office.log == [f"{name} {step}" for name in ("mail 1", "close 2", "mail 3") for step in ("begins", "ends")]
    assert [one.text for one in answers_in(state)] == ["mail 1", "close 2", "mail 3"]
    assert state["messages"][-1].text == "mail 1\nclose 2\nmail 3"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("names", [("look", "look"), ("mail", "look", "look")])
def test_neighbouring_look_ups_run_together(way: str, names: Sequence[str]) -> None:
    office = Office()
    invoked(built(office, numbered(*names, "close")), way)
    assert office.begun[-1] == f"close {len(names) + 1}"
    looked = [one for one in office.log if one.startswith("look")]
    assert [one.split()[-1] for one in looked] == ["begins", "begins", "ends", "ends"]
    assert office.log.index("close 3 begins" if len(names) == 2 else "close 4 begins") > office.log.index(looked[-1])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("failing", "made"),
    [
        (1, ["look 1", "look 2", "look 5"]),  # a look-up: look-ups go on
        (3, ["look 1", "look 2", "mail 3"]),  # a call whose effect lasts: nothing goes on
        (4, ["look 1", "look 2", "mail 3", "close 4"]),
        (9, ["look 1", "look 2", "mail 3", "close 4", "look 5", "mail 6"]),
    ],
)
def test_a_failure_stops_what_depends_on_it(way: str, failing: int, made: list[str]) -> None:
    office = Office(failing)
    names = ("look", "look", "mail", "close", "look", "mail")
    state = invoked(built(office, numbered(*names)), way)
    assert sorted(office.begun) == sorted(made)
    answers = answers_in(state)
    assert len(answers) == len(names), "each call is answered once"
    assert {one.tool_call_id for one in answers} == {call["id"] for call in state["messages"][1].tool_calls}
    skipped = [one for one in answers if not is_made(one)]
    assert len(skipped) == len(names) - len(made)
    assert all(f"{names[failing - 1]}(number={failing})" in one.text and one.status == "error" for one in skipped)


def test_a_denied_call_does_not_stop_the_chain_and_a_refused_one_does() -> None:
    class Refusal(AgentMiddleware[Any, Any, Any]):
        def __init__(self, denied: bool) -> None:
            super().__init__()
            self._denied = denied

        def after_model(self, state: Any, runtime: Any) -> Any:
            calls = state["messages"][-1].tool_calls
            return {"messages": [refuse(calls[0], "not allowed", denied=self._denied)]} if calls else None

    for denied, made in ((True, ["close 2", "look 3"]), (False, ["look 3"])):
        office = Office()
        invoked(built(office, numbered("mail", "close", "look"), after=[Refusal(denied)]), "invoke")
        assert office.begun == made


def test_calls_of_a_later_response_with_the_same_ids_are_made() -> None:
    office = Office()
    rounds = [numbered("mail", "close"), [("mail", {"number": 3}), ("close", {"number": 4})]]
    invoked(built(office, model=SameIdsCaller(rounds=rounds)), "invoke")
    assert office.begun == ["mail 1", "close 2", "mail 3", "close 4"]


def test_calls_without_ids_of_their_own_are_made() -> None:
    class OneId(Caller):
        def _generate(self, *args: Any, **kwargs: Any) -> Any:
            result = super()._generate(*args, **kwargs)
            message: Any = result.generations[0].message
            for call in message.tool_calls:
                call["id"] = "call"
            return result

    office = Office()
    invoked(built(office, model=OneId(rounds=[numbered("mail", "close")])), "invoke")
    assert sorted(office.begun) == ["close 2", "mail 1"]


@pytest.mark.parametrize("way", WAYS)
def test_a_structured_answer_given_with_calls_ends_the_agent_after_them(way: str) -> None:
    class Report(BaseModel):
        text: str

    office = Office()
    calls = [*numbered("mail", "close"), ("Report", {"text": "closed"})]
    state = invoked(built(office, calls, response_format=ToolStrategy(Report)), way)
    assert office.begun == ["mail 1", "close 2"]
    assert state["structured_response"] == Report(text="closed")


@pytest.mark.parametrize("way", WAYS)
def test_tools_that_answer_directly_end_the_agent_after_the_chain(way: str) -> None:
    office = Office()
    tools = office.tools
    for one in tools:
        one.return_direct = True
    state = invoked(built(office, numbered("mail", "close"), tools=tools), way)
    assert office.begun == ["mail 1", "close 2"]
    assert [one.text for one in state["messages"][-2:]] == ["mail 1", "close 2"]


def test_commands_artifacts_and_injected_arguments_work_in_a_chain() -> None:
    seen: list[Any] = []

    @tool(response_format="content_and_artifact")
    def pay(name: str, runtime: ToolRuntime) -> Any:
        """Pay somebody."""
        seen.append(len(runtime.state["messages"]))
        return f"paid {name}", {"receipt": 17}

    @tool
    def rename(name: str, call: Annotated[str, InjectedToolCallId]) -> Any:
        """Rename somebody."""
        return Command(update={"messages": [ToolMessage(f"renamed {name}", tool_call_id=call)]})

    calls: Calls = [("rename", {"name": "ann"}), ("pay", {"name": "ann"}), ("rename", {"name": "bob"})]
    state = invoked(built(Office(), calls, tools=[pay, rename]), "invoke")
    answers = answers_in(state)
    assert [one.text for one in answers] == ["renamed ann", "paid ann", "renamed bob"]
    assert (answers[1].artifact, seen) == ({"receipt": 17}, [3]), "a call reads the answers of those before it"


def test_a_person_is_asked_about_one_call_at_a_time_and_a_rejection_stops_the_chain() -> None:
    office = Office()
    ask = HumanInTheLoopMiddleware(interrupt_on={"mail": True, "close": True}, interrupt_mode="per_call")
    graph = built(office, numbered("mail", "close", "close"), after=[ask], saver=InMemorySaver())
    state = graph.invoke(ASK, THREAD)
    assert len(state["__interrupt__"]) == 1
    state = graph.invoke(Command(resume={"type": "approve"}), THREAD)
    assert len(state["__interrupt__"]) == 1
    assert office.begun == ["mail 1"]
    state = graph.invoke(Command(resume={"type": "reject", "message": "not yet"}), THREAD)
    assert "__interrupt__" not in state
    assert office.begun == ["mail 1"]
    assert [is_made(one) for one in answers_in(state)] == [True, False, False]


def test_an_agent_that_was_ended_before_its_calls_stays_ended() -> None:
    class End(AgentMiddleware[Any, Any, Any]):
        @hook_config(can_jump_to=["end"])
        def after_model(self, state: Any, runtime: Any) -> Any:
            return {"jump_to": "end"}

    office = Office()
    invoked(built(office, numbered("mail", "close"), after=[End()]), "invoke")
    assert office.begun == []


def test_a_new_request_leaves_the_open_calls_of_the_last_one() -> None:
    office = Office()
    graph = built(office, numbered("mail", "close"), saver=InMemorySaver())
    half = AIMessage("", tool_calls=[{"name": name, "args": {"number": 7}, "id": name} for name in ("mail", "close")])
    messages = [HumanMessage("Old."), half, ToolMessage("mail 7", tool_call_id="mail"), HumanMessage("New.")]
    graph.invoke({"messages": messages}, THREAD)
    assert office.begun == ["mail 1", "close 2"]


def test_the_note_stands_at_the_end_of_the_instructions_and_is_constant() -> None:
    model = Caller(rounds=[numbered("mail", "close"), [("look", {"number": 3})]])
    for prompt, begin in (
        ("Be brief.", "Be brief."),
        (None, NOTE),
        (SystemMessage([{"type": "text", "text": "A"}]), "A"),
    ):
        invoked(built(Office(), model=model, system_prompt=prompt), "invoke")
        written = [messages[0] for messages in model.prompts[-3:]]
        assert all(isinstance(one, SystemMessage) for one in written)
        assert len({str(one.content) for one in written}) == 1
        assert written[0].text.startswith(begin)
        assert written[0].text.endswith(NOTE)


def test_hints_of_servers_say_what_is_a_look_up_and_effects_must_be_known() -> None:
    office = Office(1)
    tools = office.tools
    tools[2].metadata = {"readOnlyHint": True}
    names = numbered("look", "mail", "look")
    stack = [OrderedCalls(), Failures()]
    graph = create_agent(Caller(rounds=[names]), tools, middleware=stack)
    graph.invoke(ASK)
    assert sorted(office.begun) == ["look 1", "look 3"]
    with pytest.raises(ValueError, match="look"):
        OrderedCalls({"look": "read"})  # type: ignore[dict-item]


def test_streams_have_one_answer_for_each_call() -> None:
    graph = built(Office(), numbered("mail", "close", "close"))
    parts = [part for part, _ in graph.stream(ASK, stream_mode="messages") if isinstance(part, ToolMessage)]
    assert [one.text for one in parts] == ["mail 1", "close 2", "close 3"]


@pytest.mark.slow
@pytest.mark.parametrize("is_async", [False, True])
def test_a_chain_goes_on_in_its_order_in_another_process(is_async: bool, tmp_path: Path) -> None:
    for _ in range(2):
        process: Any = FORK.Process(target=work_in_order, args=(tmp_path, is_async))
        process.start()
        process.join(60)
    assert (tmp_path / "killed").exists()
    assert (tmp_path / "steps").read_text().split() == ["1", "2", "3"]
