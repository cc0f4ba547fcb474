"""Tools of the user in every state that they come in: each mistake is one clear line, and no answer ends a run."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from helpers.worlds.support_database import scripted_model
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, interrupt
from pydantic import BaseModel, Field, SecretStr, field_validator

from certigraph import Tools
from certigraph.adapters.tools.contents import MAX_ANSWER
from certigraph.adapters.tools.definitions import LoadedTool, load_tools
from certigraph.adapters.tools.effects import ToolAnswer
from certigraph.graphs.agent import agent

GOAL: Any = {"goal": "Look up order 17."}
WAYS = ["invoke", "ainvoke"]


class Row(BaseModel):
    order: int = 17
    state: str = "open"


class Own:
    """A type that has no form in JSON."""


def load(given: Any, **options: Any) -> LoadedTool:
    [loaded] = load_tools([given], **options).values()
    return loaded


def call(given: Any, args: Any = None, **options: Any) -> ToolAnswer:
    return asyncio.run(load(given, **options).call({"order": 17} if args is None else args))


def run(given: Any, way: str = "invoke", **options: Any) -> Any:
    """Let an agent call a tool and then `look_up`; return its answer and what it has seen."""

    def look_up(order: int) -> str:
        """Look up an order."""
        return f"order {order} is open"

    name = getattr(given, "name", None) or given.__name__
    script = [(name, {"order": 17}), ("look_up", {"order": 17})]
    graph = agent(
        "react", model=scripted_model(script), tools=[given, look_up], checkpointer=InMemorySaver(), **options
    )
    config: Any = {"configurable": {"thread_id": "1"}}
    result = graph.invoke(GOAL, config) if way == "invoke" else asyncio.run(graph.ainvoke(GOAL, config))
    return result, graph.get_state(config).values


class Note(BaseModel):
    title: str
    lines: list[Annotated[str, Field(description="One line.\nNo breaks.")]]
    due: int | None = Field(default=None, description="A day.")
    owner: Literal["ann", "bob"] = "ann"


def look_up(order: int) -> str:
    """Look up an order."""
    return f"order {order} is open"


def test_a_tool_is_listed_by_its_signature_and_a_line_for_each_described_argument() -> None:
    text = "Write it down.\nKeep it short."
    note = StructuredTool.from_function(lambda **_: "", name="note", description=text, args_schema=Note)
    signature, *arguments = str(load(note)).split("\n    ")
    types = 'title: string, lines: list of string, due: integer (optional), owner: "ann" | "bob" = "ann"'
    assert signature == f"note({types}): Write it down.\n  Keep it short."
    assert arguments == ["lines: One line.", "  No breaks.", "due: A day."]
    assert str(load(look_up)) == "look_up(order: integer): Look up an order."


def first_entry(values: Any) -> str:
    return str(values["evidence"].view.split("\n\n[call 2")[0])


# Tools that do not answer with a text.


def fail(order: int) -> str:
    """Fail."""
    raise ConnectionError("the database is gone")


def leave(order: int) -> str:
    """Leave the program."""
    raise SystemExit(3)


async def fail_in_group(order: int) -> str:
    """Fail as clients of MCP servers do."""
    raise ExceptionGroup("several", [ExceptionGroup("more", [ConnectionError("the server is gone")])])


async def cancel(order: int) -> str:
    """Fail as clients do that lose a connection."""
    raise asyncio.CancelledError("the stream was closed")


def time_out(order: int) -> str:
    """Fail by a time limit of its own."""
    raise TimeoutError("the socket timed out")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (fail, "ConnectionError: the database is gone"),
        (leave, "SystemExit: 3"),
        (fail_in_group, "ConnectionError: the server is gone"),
        (cancel, "CancelledError: the stream was closed"),
        (time_out, "TimeoutError: the socket timed out"),
    ],
)
def test_a_tool_that_raises_is_an_observation(given: Any, shown: str, way: str) -> None:
    result, values = run(given, way, effects={given.__name__: "repeatable"})
    assert result["ending"] == "finished"
    assert shown in first_entry(values)
    assert "order 17 is open" in values["evidence"].view


def test_a_cancelled_run_is_not_taken_for_a_failed_tool() -> None:
    async def wait(order: int) -> str:
        """Wait."""
        await asyncio.sleep(30)
        return "never"

    async def work() -> Any:
        task = asyncio.create_task(load(wait).call({"order": 17}))
        await asyncio.sleep(0.05)
        task.cancel()
        return await asyncio.gather(task, return_exceptions=True)

    [outcome] = asyncio.run(work())
    assert isinstance(outcome, asyncio.CancelledError)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_tool_that_hangs_is_given_up_at_the_deadline(way: str, is_async: bool) -> None:
    def hang(order: int) -> str:
        """Wait."""
        time.sleep(1)
        return "late"

    async def hang_async(order: int) -> str:
        """Wait."""
        await asyncio.sleep(60)
        return "late"

    started = time.monotonic()
    given: Any = hang_async if is_async else hang
    result, values = run(given, way, deadline=0.2, effects={given.__name__: "repeatable"})
    assert time.monotonic() - started < 20
    assert result["ending"] == "finished"
    assert "0.2 seconds" in first_entry(values)
    assert "late" not in values["evidence"].view


HANGING = """
import asyncio, sys, time
from helpers.worlds.support_database import scripted_model
from certigraph.graphs.agent import agent
from certigraph.state.run import FINISH

def hang(order: int) -> str:
    "Wait."
    time.sleep(600)
    return "never"

def never(order: int) -> bool:
    time.sleep(600)
    return True

options = {"checks": {"Order {order} is refunded.": never}} if sys.argv[1] == "sdp" else {}
graph = agent(sys.argv[1], model=scripted_model([("hang", {"order": 17})]), tools=[hang], deadline=0.2, **options)
given = {"goal": "Look up order 17."}
result = graph.invoke(given) if sys.argv[2] == "invoke" else asyncio.run(graph.ainvoke(given))
print(result["ending"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("method", ["react", "sdp"])
def test_a_program_ends_although_a_tool_and_a_check_never_do(method: str, way: str) -> None:
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    options: Any = {"env": {**os.environ, "PYTHONPATH": paths}, "capture_output": True, "text": True}
    done = subprocess.run([sys.executable, "-c", HANGING, method, way], timeout=120, check=True, **options)
    assert done.stdout.strip()


def test_a_long_answer_is_cut_and_the_cut_is_noted() -> None:
    def read(order: int) -> str:
        """Read a file."""
        return "x" * 5_000_000

    answer = call(read)
    assert len(answer.text) < MAX_ANSWER + 200
    assert "5,000,000" in answer.text
    assert not answer.failed
    result, values = run(read)
    assert result["ending"] == "finished"
    assert len(str(values)) < 1_000_000
    assert "order 17 is open" in values["evidence"].view


IMAGE = {"type": "image", "base64": "A" * 10_000, "mime_type": "image/png"}


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        (b"\x00\xffabc", "abc"),
        ([{"type": "text", "text": "a scan"}, IMAGE], "a scan\n{"),
        ([IMAGE], "image/png"),
        (None, "null"),
        (Row(), "order=17"),
        ([Row(), Row()], "order=17"),
        ({"order": 17, "rows": [Row()]}, "order"),
        ({"order": 17}, '{"order": 17}'),
        (17, "17"),
        ("", ""),
        ("half \ud83d", "half"),
    ],
)
def test_answers_that_are_not_text_are_shown_as_text(returned: Any, text: str) -> None:
    def look(order: int) -> Any:
        """Look."""
        return returned

    answer = call(look)
    assert text in answer.text
    assert not answer.failed
    assert len(answer.text) < 500
    answer.text.encode()


def test_a_command_for_a_graph_is_not_dropped_in_silence() -> None:
    @tool
    def move(order: int) -> Command[Any]:
        """Move on."""
        return Command(goto="other", update={"secret": 1})

    answer = call(move)
    assert "Command" in answer.text
    assert "secret" not in answer.text


def test_a_tool_that_reports_an_error_by_itself_failed() -> None:
    def check(order: int) -> str:
        """Check."""
        raise ValueError("order 17 is locked")

    handled = StructuredTool.from_function(check, handle_tool_error=True)
    assert call(handled).failed
    assert "locked" in call(handled).text


def test_a_tool_that_interrupts_pauses_the_run_and_goes_on_with_the_answer() -> None:
    def confirm(order: int) -> str:
        """Ask a person."""
        return f"confirmed by {interrupt('who?')}"

    graph = agent(
        "react", model=scripted_model([("confirm", {"order": 17})]), tools=[confirm], checkpointer=InMemorySaver()
    )
    config: Any = {"configurable": {"thread_id": "1"}}
    assert graph.invoke(GOAL, config)["__interrupt__"][0].value == "who?"
    assert graph.invoke(Command(resume="Ann"), config)["ending"] == "finished"
    assert "confirmed by Ann" in graph.get_state(config).values["evidence"].view


# Plain, async and LangChain's tools.


async def look_up_async(order: int) -> str:
    """Look up an order."""
    await asyncio.sleep(0)
    return f"row of {order}"


class LookUp(BaseTool):
    name: str = "look_up_class"
    description: str = "Look up an order."

    def _run(self, order: int) -> str:
        return f"row of {order}"


def look_up_untyped(order, day="today"):
    return f"row of {order}"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "given",
    [
        look_up_async,
        StructuredTool.from_function(coroutine=look_up_async, name="look_up_tool", description="Look up."),
        LookUp(),
        look_up_untyped,
    ],
    ids=["function", "tool", "class", "untyped"],
)
def test_tools_of_all_kinds_are_called(given: Any, way: str) -> None:
    result, values = run(given, way)
    assert result["ending"] == "finished"
    assert first_entry(values).endswith("row of 17")


# The arguments as a tool gets them.


class Kind(Enum):
    GIFT = "gift"


class Part(BaseModel):
    count: int
    price: Decimal = Decimal("1.5")


class Booking(BaseModel):
    order: int = Field(alias="order-number")
    day: date
    kind: Kind = Kind.GIFT
    sum: Decimal = Decimal(50)
    parts: list[Part] = []
    tags: set[str] = set()
    secret: SecretStr | None = None
    held: Annotated[dict[str, Any], InjectedState]
    note: Annotated[str, InjectedToolArg] = ""

    @field_validator("day", mode="before")
    @classmethod
    def read_day(cls, day: Any) -> Any:
        """Take a day with dots as well."""
        return "-".join(reversed(day.split("."))) if "." in day else day


@tool(args_schema=Booking)
def book(**given: Any) -> str:
    """Book an order."""
    return "ok"


def test_arguments_as_a_tool_gets_them_are_validated_and_complete() -> None:
    defaults = {"kind": "gift", "sum": 50, "parts": [], "tags": [], "secret": None}
    loaded = load(book)
    assert loaded.received({"order-number": "17", "day": "24.12.2026"}) == {
        "order-number": 17,
        "day": "2026-12-24",
        **defaults,
    }
    chosen = {"sum": "79.9", "parts": [{"count": "2"}], "tags": ["b", "a", "b"], "secret": "x"}
    received = loaded.received({"order-number": 17, "day": "2026-12-24T00:00:00", **chosen})
    assert received == {
        "order-number": 17,
        "day": "2026-12-24",
        "kind": "gift",
        "sum": 79.9,
        "parts": [{"count": 2, "price": 1.5}],
        "tags": ["a", "b"],
        "secret": "x",
    }


def test_arguments_that_do_not_fit_and_those_without_a_model_stay_as_they_are() -> None:
    for args in ({"order-number": "seventeen", "day": "2026-12-24"}, {"order-number": "17"}, {"other": 1}):
        assert load(book).received(args) == args
    assert load(LookUp()).received({"order": 17}) == {"order": 17}


@pytest.mark.parametrize("build", [Tools, lambda tools: agent("react", model=scripted_model(), tools=tools)])
def test_a_warning_of_a_tool_names_the_line_of_the_user(build: Callable[[Any], Any]) -> None:
    with pytest.warns(UserWarning, match="lacks a docstring") as warned:
        build([look_up_untyped])
    assert [one.filename for one in warned] == [__file__]


def test_a_function_without_type_hints_takes_any_value() -> None:
    loaded = load(look_up_untyped)
    assert set(loaded.parameters["properties"]) == {"order", "day"}
    assert loaded.parameters["required"] == ["order"]
    assert loaded.check_arguments({"order": [1, {"a": None}]}) == ""
    assert "order" in loaded.check_arguments({})


def test_wrong_arguments_are_described_in_one_line() -> None:
    def refund(order: int, amount: float, row: Row) -> str:
        """Refund."""
        return "done"

    loaded = load(refund)
    given = {"order": "x", "amount": 1, "row": {"order": "y"}}
    problem = loaded.check_arguments(given)
    assert "order" in problem
    assert "row.order" in problem
    assert "\n" not in problem
    assert "amount" not in problem
    assert "day" in loaded.check_arguments({**given, "day": 1})


# Arguments that LangChain or LangGraph give.


@tool
def with_call_id(order: int, call: Annotated[str, InjectedToolCallId]) -> str:
    """Look up an order."""
    return f"row of {order} for {len(call)}"


@tool
def with_default(order: int, user: Annotated[str, InjectedToolArg] = "Ann") -> str:
    """Look up an order."""
    return f"row of {order} for {user}"


@tool
def with_secret(order: int, secret: Annotated[str, InjectedToolArg]) -> str:
    """Look up an order."""
    return "never"


def test_the_id_of_a_call_is_given_and_defaults_are_kept() -> None:
    assert set(load(with_call_id).parameters["properties"]) == {"order"}
    assert load(with_call_id).check_arguments({"order": 17}) == ""
    assert call(with_call_id).text.startswith("row of 17 for")
    assert call(with_default).text == "row of 17 for Ann"


def test_tools_that_need_what_nobody_gives_are_refused() -> None:
    with pytest.raises(ValueError, match="needs secret") as raised:
        load(with_secret)
    assert "\n" not in str(raised.value)


# Tools that cannot be used.


def finish(order: int) -> str:
    """Finish an order."""
    return "done"


def target_holds(order: int) -> str:
    """Look whether a target holds."""
    return "yes"


def with_own_type(order: Own) -> str:
    """Take an object."""
    return "never"


@pytest.mark.parametrize(
    ("tools", "kind", "value"),
    [
        ([fail, StructuredTool.from_function(finish, name="fail")], ValueError, "'fail'"),
        ([finish], ValueError, "'finish'"),
        ([target_holds], ValueError, "'target_holds'"),
        ([with_own_type], ValueError, "'with_own_type'"),
        ([LookUp], TypeError, "LookUp"),
        ([lambda order: "row"], TypeError, "lambda"),
        (["look_up"], TypeError, "'look_up'"),
        ([None], TypeError, "None"),
        ([], ValueError, "tools"),
        (len, TypeError, "list"),
        ("look_up", TypeError, "list"),
    ],
)
def test_tools_that_cannot_be_used_are_refused(tools: Any, kind: type[Exception], value: str) -> None:
    with pytest.raises(kind, match=value) as raised:
        agent("sdp", model=scripted_model(), tools=tools)
    assert len(str(raised.value)) < 500
