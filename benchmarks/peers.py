"""Own cost per model call: certigraph's agents beside LangChain's create_agent, on one scripted model without latency.

    python benchmarks/peers.py --calls 40 --repeats 5

Every agent makes the same calls of the same tool and then answers. The model answers at once, so that what is measured
is the processor time of the frameworks: with no checkpointer, in memory, and in a SQLite file. Ratios are comparable
only within one run.
"""

import argparse
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from certigraph import Limits, agent

ANSWER_TOOL = "finish"


class CountingModel(BaseChatModel):
    """Model that calls `look_up` a number of times, with tool calling, and then answers. It reads no prompt.

    It answers both ways, blocking and not, as LangChain's models of endpoints do.
    """

    calls: int
    made: int = 0
    tools: tuple[str, ...] = ()

    @property
    def _llm_type(self) -> str:
        return "counting"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:  # noqa: D102 - as LangChain's
        names = tuple(one["function"]["name"] if isinstance(one, dict) else one.name for one in tools)
        return _Bound(model=self, tools=names)

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        message = self.next_message(())
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        return self._generate(messages)

    def next_message(self, tools: tuple[str, ...]) -> AIMessage:
        """Return the next call, or the answer: as a call of `finish` where that is offered, else as text."""
        self.made += 1
        if self.made <= self.calls:
            return _call("look_up", {"order": self.made})
        return _call(ANSWER_TOOL, {"answer": "done"}) if ANSWER_TOOL in tools else AIMessage("done")


class _Bound(BaseChatModel):
    model: CountingModel
    tools: tuple[str, ...]

    @property
    def _llm_type(self) -> str:
        return "counting"

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        return ChatResult(generations=[ChatGeneration(message=self.model.next_message(self.tools))])

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        return self._generate(messages)


def _call(name: str, args: dict[str, Any]) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": uuid.uuid4().hex, "type": "tool_call"}])


@tool
def look_up(order: int) -> str:
    """Look up an order."""
    return f"order {order}: paid"


def _langchain(model: CountingModel, saver: Any) -> Callable[[Any], Any]:
    graph = create_agent(model, [look_up], checkpointer=saver)
    return lambda config: graph.invoke({"messages": [("user", "go")]}, {**config, "recursion_limit": 10_000})


def _certigraph(once: bool) -> Callable[[CountingModel, Any], Callable[[Any], Any]]:
    def build(model: CountingModel, saver: Any) -> Callable[[Any], Any]:
        limits = Limits(steps=model.calls + 5, repeats=0, trials=1)
        effects: Any = {} if once else {"look_up": "repeatable"}
        settings: Any = {"model": model, "tools": [look_up], "checkpointer": saver, "commitments": None}
        graph = agent("react", limits=limits, effects=effects, **settings)
        return lambda config: graph.invoke({"goal": "go"}, {**config, "recursion_limit": 10_000})

    return build


AGENTS: dict[str, Any] = {
    "langchain create_agent": _langchain,
    "certigraph react, repeatable tool": _certigraph(once=False),
    "certigraph react, effects once": _certigraph(once=True),
}


@contextmanager
def _savers(kind: str) -> Iterator[Any]:
    if kind == "none":
        yield None
    elif kind == "memory":
        yield InMemorySaver()
    else:
        with tempfile.TemporaryDirectory() as folder, SqliteSaver.from_conn_string(str(Path(folder) / "c.db")) as saver:
            yield saver


def measure(build: Any, kind: str, calls: int) -> float:
    """Return the milliseconds of processor time per model call."""
    with _savers(kind) as saver:
        run = build(CountingModel(calls=calls), saver)
        started = time.process_time()
        run({"configurable": {"thread_id": "1"}})
        return 1000 * (time.process_time() - started) / (calls + 1)


def main() -> None:
    """Print a table of the medians, and of the ratios to create_agent."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(
        f"{'ms of processor time per model call':38}" + "".join(f"{kind:>22}" for kind in ("none", "memory", "sqlite"))
    )
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(options.repeats + 1):  # the first round warms up
        for name, build in AGENTS.items():
            for kind in ("none", "memory", "sqlite"):
                found.setdefault((name, kind), []).append(measure(build, kind, options.calls))
    for name in AGENTS:
        cells = []
        for kind in ("none", "memory", "sqlite"):
            value = statistics.median(found[name, kind][1:])
            base = statistics.median(found["langchain create_agent", kind][1:])
            cells.append(f"{value:8.2f}  (x {value / base:.2f})")
        print(f"{name:38}" + "".join(f"{cell:>22}" for cell in cells))


if __name__ == "__main__":
    main()
