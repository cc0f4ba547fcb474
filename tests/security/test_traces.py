"""Threat 7 in traces: what callbacks of LangChain, and so LangSmith and OpenTelemetry, get of tools holds no key."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from helpers.models.prompt_logs import AGENT_METHODS, PromptLog
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, ToolException, tool
from langchain_core.tracers.base import BaseTracer
from langgraph.types import Command
from pydantic import BaseModel

import certigraph
from certigraph.adapters.tools.definitions import load_tools

KEY = "tok3nZx81Qw72Rt63Kb90"


class Events(BaseCallbackHandler):
    """Keeps all that callbacks get, as text."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("on_"):
            return super().__getattribute__(name)
        return lambda *args, **kwargs: self.seen.append((name, f"{args!r} {kwargs!r}"))

    def kinds(self, text: str) -> set[str]:
        return {name for name, seen in self.seen if text in seen}


class Spans(BaseTracer):
    """Keeps the spans of a run, as a tracer stores them."""

    def __init__(self) -> None:
        super().__init__()
        self.spans: list[Any] = []

    def _persist_run(self, run: Any) -> None:
        pass

    def _end_trace(self, run: Any) -> None:
        self.spans.append(run)
        super()._end_trace(run)

    def text(self, *kinds: str) -> str:
        return "\n".join(str(vars(span)) for span in self.spans if not kinds or span.run_type in kinds)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@dataclass
class Row:
    key: str


class Reply(BaseModel):
    key: str


class Status(Exception):
    """An error whose text is not in its arguments."""

    def __init__(self, key: str) -> None:
        self.key = key

    def __str__(self) -> str:
        return f"refused {self.key}"


class Silent(Exception):
    """An error that shows its arguments in its representation only."""

    def __str__(self) -> str:
        return "refused"


def raising(error: Callable[[], BaseException], cause: Callable[[], BaseException | None] = lambda: None) -> Any:
    def work() -> str:
        """Work."""
        raise error() from cause()

    return work


def returning(answer: Any) -> Any:
    def work() -> Any:
        """Work."""
        return answer

    return work


def later(work: Any) -> Any:
    async def later() -> Any:
        """Work."""
        return work()

    later.__name__ = "work"
    return later


def of_class(work: Any) -> BaseTool:
    class Work(BaseTool):
        name: str = "work"
        description: str = "Work."

        def _run(self, config: RunnableConfig) -> Any:
            assert "callbacks" in config
            return work()

    return Work()


def handled(error: Callable[[], Exception]) -> BaseTool:
    return StructuredTool.from_function(raising(error), name="work", description="Work.", handle_tool_error=True)


def artifact(content: Any, artifact: Any) -> BaseTool:
    return StructuredTool.from_function(
        returning((content, artifact)), name="work", description="Work.", response_format="content_and_artifact"
    )


TEXT = f"the key is {KEY} of example"
MESSAGE = ToolMessage(TEXT, tool_call_id="1", artifact={TEXT: TEXT})
ANSWERS = [TEXT, {"key": [TEXT]}, {TEXT: 1}, [{"type": "text", "text": TEXT}], Row(TEXT), Reply(key=TEXT), (TEXT, TEXT)]
ANSWERS += [{"row": Row(TEXT)}, {TEXT}, TEXT.encode(), Command(update={"notes": TEXT}), [Row(TEXT)]]
ERRORS: list[Callable[[], BaseException]] = [
    lambda: ValueError(TEXT),
    lambda: KeyError(TEXT),
    lambda: OSError(2, TEXT, TEXT),
    lambda: Status(TEXT),
    lambda: Silent(TEXT),
    lambda: ToolException(TEXT),
    lambda: ExceptionGroup("several", [ValueError(TEXT)]),
    lambda: SystemExit(TEXT),
    lambda: NameError(TEXT),
]

WORKS: list[Any] = [
    *map(returning, ANSWERS),
    *map(raising, ERRORS),
    *(raising(lambda: ValueError("no"), cause) for cause in ERRORS[:5]),
    *(raising(lambda: ToolException("no"), cause) for cause in ERRORS[:2]),
    *(later(returning(TEXT)), *map(later, map(raising, ERRORS))),
    *(of_class(returning(TEXT)), of_class(raising(ERRORS[3]))),
    *(handled(lambda: ToolException(TEXT)), artifact(TEXT, {"key": TEXT}), artifact([{"type": "text"}], MESSAGE)),
]


@pytest.mark.parametrize("way", ["invoke", pytest.param("ainvoke", marks=pytest.mark.slow)])
@pytest.mark.parametrize("work", WORKS, ids=range(len(WORKS)))
def test_no_answer_and_no_error_of_a_tool_reaches_a_trace_with_a_key(
    work: Any, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    events, spans, log = Events(), Spans(), PromptLog([("work", {})])
    graph = certigraph.agent("react", model=log.chat, tools=[work], commitments=None, audit=None)
    request: Any = {"messages": [("user", "Work.")]}
    config: Any = {"callbacks": [events, spans]}
    with caplog.at_level(logging.DEBUG):
        result: Any = graph.invoke(request, config) if way == "invoke" else asyncio.run(graph.ainvoke(request, config))
    assert result["ending"] == "finished"
    assert events.kinds("") & {"on_tool_end", "on_tool_error"}
    assert events.kinds(KEY) == set()
    assert KEY not in spans.text() + caplog.text + str(result)


@pytest.mark.parametrize("method", AGENT_METHODS)
def test_no_method_traces_a_key(method: Any) -> None:
    @tool
    def show() -> str:
        """Show."""
        return TEXT

    @tool
    def fail() -> str:
        """Fail."""
        raise ValueError(TEXT)

    events, spans, log = Events(), Spans(), PromptLog([("show", {}), ("fail", {})])
    graph = certigraph.agent(method, model=log.chat, tools=[show, fail])
    graph.invoke({"messages": [("user", "Work.")]}, {"callbacks": [events, spans]})
    assert {"on_tool_end", "on_tool_error"} <= events.kinds("")
    assert events.kinds(KEY) == set()
    assert KEY not in spans.text()
    assert spans.text("tool").count("[redacted]") >= 2


def call(given: Any, **options: Any) -> Any:
    [loaded] = load_tools([given], **options).values()
    return asyncio.run(loaded.call({}))


@pytest.mark.parametrize(
    ("error", "text", "unknown", "broken"),
    [
        (ValueError, "ValueError: the key is [redacted]", False, False),
        (ConnectionResetError, "ConnectionResetError", True, False),
        (NameError, "itself is broken", False, True),
    ],
)
def test_a_masked_error_is_judged_by_its_own_type(error: Any, text: str, unknown: bool, broken: bool) -> None:
    answer = call(raising(lambda: error(TEXT)))
    assert answer.failed
    assert text in answer.text
    assert (answer.unknown, bool(answer.broken)) == (unknown, broken)


@pytest.mark.parametrize("answer", ["plain", {"a": [1]}, [{"type": "text", "text": "plain"}]])
def test_an_answer_without_a_key_is_the_object_that_the_tool_returned(answer: Any) -> None:
    given: list[Any] = []

    class Work(BaseTool):
        name: str = "work"
        description: str = "Work."
        response_format: Any = "content_and_artifact"

        def _run(self) -> Any:
            return "text", answer

    [output] = call(Work()).outputs
    given.append(output.artifact)
    assert given[0] is answer


def test_a_tool_keeps_what_it_notes_in_itself() -> None:
    class Counter(BaseTool):
        name: str = "work"
        description: str = "Work."
        count: int = 0
        _private: int = 0

        def _run(self) -> str:
            self.count += 1
            self._private += 1
            return f"{self.count}"

    counter = Counter()
    assert [call(counter).text, call(counter).text] == ["1", "2"]
    assert (counter.count, counter._private) == (2, 2)
    assert type(counter) is Counter
