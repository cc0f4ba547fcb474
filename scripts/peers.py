"""Own cost per model call: certigraph's agents beside those of other libraries, on one fake model without latency.

    python scripts/peers.py --calls 40 --repeats 7

Every agent makes the same calls of one tool and then answers. The model answers at once, so that what is measured is
the processor time of the libraries: of the agent alone, and with everything saved that it takes to resume. The runs
alternate. Only ratios within one table can be compared.

The peers are not dependencies of certigraph. Rows of those that are missing are left out; to have them all:

    python -m venv --system-site-packages peers
    peers/bin/pip install "langchain>=1,<2" smolagents pydantic-ai-slim inspect-ai aiosqlite
"""

import argparse
import asyncio
import importlib
import json
import os
import platform
import statistics
import tempfile
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from itertools import count
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.utils.runnable import RunnableCallable
from speed import Ladder, LadderWorld

from certigraph import Context, Limits, Tools, agent
from certigraph.adapters.episodes import close_episode
from certigraph.graphs import sdp
from certigraph.runtime.checkpoints import SqliteCheckpointSaver
from certigraph.runtime.run import arun
from certigraph.state.trajectory import serializer

MANY = 100_000
"""A limit of supersteps that no run reaches."""


class Cost(NamedTuple):
    """Processor time of a run, in milliseconds, and the number of its model calls."""

    milliseconds: float
    calls: int

    @property
    def each(self) -> float:
        """Milliseconds per model call."""
        return self.milliseconds / self.calls


# The fake model of LangChain's form, which create_agent and certigraph use.


class FakeModel(BaseChatModel):
    """Model that calls `look_up` a number of times and then answers. It reads no prompt.

    It answers in whatever form is asked for: by calls of tools, by `finish` where that is offered, or by a schema.
    """

    serves_any_loop: bool = True
    calls: int
    looked_up: int = 0
    asked: int = 0

    @property
    def _llm_type(self) -> str:
        return "fake"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:  # noqa: D102 - as LangChain's
        names = tuple(one["function"]["name"] if isinstance(one, dict) else one.name for one in tools)
        return self.bind(offered=names)

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        self.asked += 1
        form = kwargs.get("response_format", {}).get("json_schema", {}).get("name", "")
        message = self._answer_form(form) if form else self._next_message(kwargs.get("offered", ()))
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        return self._generate(messages, **kwargs)

    def _answer_form(self, form: str) -> AIMessage:
        if form == "Conditions":  # SDP's plan
            return AIMessage(json.dumps({"conditions": [f"order {number} is known" for number in range(self.calls)]}))
        verdict = {"reason": "it was looked up", "by_calls": [min(self.looked_up, self.calls)], "holds": 1}
        return AIMessage(json.dumps(verdict))  # SDP's verdict

    def _next_message(self, offered: tuple[str, ...]) -> AIMessage:
        self.looked_up += 1
        if self.looked_up <= self.calls:
            return _call("look_up", {"order": self.looked_up})
        return _call("finish", {"answer": "done"}) if "finish" in offered else AIMessage("done")


def _call(name: str, args: dict[str, Any]) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": uuid.uuid4().hex, "type": "tool_call"}])


def look_up(order: int) -> str:
    """Look up an order.

    Args:
        order: number of the order.
    """
    return f"order {order}: paid"


# Runs: each makes a number of calls of the tool and returns its cost. `folder` is where a run saves what it saves.

Run = Callable[[int, Path], Awaitable[Cost]]


@asynccontextmanager
async def _sqlite(folder: Path) -> Any:
    async with AsyncSqliteSaver.from_conn_string(str(folder / "checkpoints.sqlite")) as saver:
        await saver.setup()
        yield saver


async def _timed(work: Awaitable[Any], model: FakeModel) -> Cost:
    started = process_time()
    await work
    milliseconds = 1000 * (process_time() - started)
    if model.looked_up <= model.calls:
        raise SystemExit(f"the agent looked up {model.looked_up} of {model.calls} orders")
    return Cost(milliseconds, model.asked)


Build = Callable[[FakeModel, Any], tuple[Any, dict[str, Any], dict[str, Any]]]
"""Function of a model and a checkpointer that builds a graph, its input and the arguments of its call."""


def _graph_runs(build: Build) -> dict[str, Run]:
    """Return the runs of a LangGraph graph: alone, and with LangGraph's saver."""

    async def run(calls: int, saver: Any = None) -> Cost:
        model = FakeModel(calls=calls)
        graph, given, arguments = build(model, saver)
        config = {"configurable": {"thread_id": "1"}, "recursion_limit": MANY}
        return await _timed(graph.ainvoke(given, config, **arguments), model)

    async def saved(calls: int, folder: Path) -> Cost:
        async with _sqlite(folder) as saver:
            return await run(calls, saver)

    return {ALONE: lambda calls, folder: run(calls), SAVED: saved}


def _create_agent(model: FakeModel, saver: Any) -> Any:
    build: Any = importlib.import_module("langchain.agents").create_agent
    return build(model, [tool(look_up)], checkpointer=saver), {"messages": [("user", "go")]}, {}


REPEATABLE: Any = {"look_up": "repeatable"}


def _limits(calls: int) -> Limits:
    return Limits(steps=calls + 5, repeats=0, trials=1, plan=calls + 5)


def _agent(model: FakeModel, saver: Any, *, method: Any = "react", effects: Any = REPEATABLE) -> Any:
    settings: Any = {"limits": _limits(model.calls), "effects": effects, "commitments": None}
    built = agent(method, model=model, tools=[look_up], checkpointer=saver, **settings)
    return built, {"goal": "go"}, {}


def _method(model: FakeModel, saver: Any, *, name: str) -> Any:
    world = Tools([look_up], cases=["go"], effects=REPEATABLE, limits=_limits(model.calls))
    graph: Any = importlib.import_module(f"certigraph.graphs.{name}")
    return graph.build(saver), {"task": world.tasks()[0]}, {"context": Context(benchmark=world, chat=model)}


def _recorded(name: str) -> Run:
    """Return the run of a graph as `certigraph.run` makes it, with checkpoints and trajectory."""

    async def run(calls: int, folder: Path) -> Cost:
        model = FakeModel(calls=calls)
        graph, given, arguments = _method(model, None, name=name)
        context = arguments["context"]
        work = arun(graph, context.benchmark, given["task"], context=context, out=folder, on_error="raise")
        return await _timed(work, model)

    return run


# Peers with models of their own form.


async def _smolagents(calls: int, folder: Path) -> Cost:
    module: Any = importlib.import_module("smolagents")
    models: Any = importlib.import_module("smolagents.models")
    numbers = count(1)

    class Fake(models.Model):  # type: ignore[misc]
        def generate(self, messages: Any, **kwargs: Any) -> Any:
            number = next(numbers)
            chosen = ("look_up", {"order": number}) if number <= calls else ("final_answer", {"answer": "done"})
            function = models.ChatMessageToolCallFunction(name=chosen[0], arguments=chosen[1])
            called = models.ChatMessageToolCall(function=function, id=uuid.uuid4().hex, type="function")
            return models.ChatMessage(role=models.MessageRole.ASSISTANT, content="", tool_calls=[called])

    runner = module.ToolCallingAgent(tools=[module.tool(look_up)], model=Fake(), max_steps=calls + 5, verbosity_level=0)
    started = process_time()
    runner.run("go")
    return Cost(1000 * (process_time() - started), next(numbers) - 1)


async def _pydantic_ai(calls: int, folder: Path) -> Cost:
    module: Any = importlib.import_module("pydantic_ai")
    messages: Any = importlib.import_module("pydantic_ai.messages")
    function: Any = importlib.import_module("pydantic_ai.models.function")
    usage: Any = importlib.import_module("pydantic_ai.usage")
    numbers = count(1)

    def answer(history: Any, info: Any) -> Any:
        number = next(numbers)
        part = messages.ToolCallPart("look_up", {"order": number}) if number <= calls else messages.TextPart("done")
        return messages.ModelResponse(parts=[part])

    runner = module.Agent(function.FunctionModel(answer), tools=[look_up])
    started = process_time()
    await runner.run("go", usage_limits=usage.UsageLimits(request_limit=None))
    return Cost(1000 * (process_time() - started), next(numbers) - 1)


async def _inspect(calls: int, folder: Path) -> Cost:
    """Run inspect's react inside an evaluation, whose fixed cost is not counted; it always writes a log."""
    inspect, numbers, costs = import_parts("inspect_ai"), count(1), list[Cost]()

    @inspect.tool.tool(name="look_up")  # type: ignore[untyped-decorator]
    def looking_up() -> Any:
        async def execute(order: int) -> str:
            """Look up an order.

            Args:
                order: number of the order.
            """
            return look_up(order)

        return execute

    def answer(*_: Any) -> Any:
        number = next(numbers)
        chosen = ("look_up", {"order": number}) if number <= calls else ("submit", {"answer": "done"})
        output = inspect.model.ModelOutput.for_tool_call("mockllm/model", *chosen)
        output.usage = inspect.model.ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    @inspect.solver.solver  # type: ignore[untyped-decorator]
    def timed() -> Any:
        solve = inspect.agent.as_solver(inspect.agent.react(tools=[looking_up()]))

        async def run(state: Any, generate: Any) -> Any:
            started = process_time()
            state = await solve(state, generate)
            costs.append(Cost(1000 * (process_time() - started), next(numbers) - 1))
            return state

        return run

    model = inspect.model.get_model("mockllm/model", custom_outputs=answer, memoize=False)
    task = inspect.Task(dataset=[inspect.dataset.Sample(input="go")], solver=timed())
    await asyncio.to_thread(inspect.eval, task, model=model, log_dir=str(folder / "logs"), display="none")
    return costs[0]


def import_parts(package: str) -> Any:
    """Import inspect's modules, which are reached as attributes of its package."""
    for part in ("agent", "dataset", "model", "solver", "tool"):
        importlib.import_module(f"{package}.{part}")
    return importlib.import_module(package)


ALONE, SAVED, OWN = "alone", "AsyncSqliteSaver", "own files"
COLUMNS: Mapping[str, str] = {
    ALONE: "the agent alone",
    SAVED: "with checkpoints in LangGraph's AsyncSqliteSaver",
    OWN: "as the library saves a run itself: certigraph its checkpoints and its trajectory, inspect its log",
}

AGENTS: Mapping[str, tuple[str, Mapping[str, Run]]] = {
    "langchain create_agent": ("langchain", _graph_runs(_create_agent)),
    "smolagents ToolCallingAgent": ("smolagents", {ALONE: _smolagents}),
    "pydantic-ai Agent": ("pydantic_ai", {ALONE: _pydantic_ai}),
    "inspect react": ("inspect_ai", {OWN: _inspect}),
    "certigraph react": ("", {**_graph_runs(partial(_method, name="react")), OWN: _recorded("react")}),
    "certigraph sdp": ("", {**_graph_runs(partial(_method, name="sdp")), OWN: _recorded("sdp")}),
    "certigraph agent(react)": ("", _graph_runs(_agent)),
    "certigraph agent(sdp)": ("", _graph_runs(partial(_agent, method="sdp"))),
    "certigraph agent(react), effects once": ("", _graph_runs(partial(_agent, effects={}))),
}
"""Agents: the module that each needs, and its runs by column of the table."""

BASE = "langchain create_agent"


def available_agents() -> dict[str, Mapping[str, Run]]:
    """Return the runs of the agents whose libraries are installed."""
    found = {}
    for name, (module, runs) in AGENTS.items():
        try:
            importlib.import_module(module or "certigraph")
        except ImportError:
            print(f"left out: {name}, which needs the module {module}")
            continue
        found[name] = runs
    return found


# SDP's graph beside a bare LangGraph loop that writes the same values into the same channels.


def _replaying(state: type[Any], updates: list[tuple[str, dict[str, Any]]], saver: Any) -> Any:
    """Build a bare loop with the nodes of a run, which return what they returned there."""
    given = iter([update for _, update in updates])
    builder: Any = StateGraph(state)
    names = list(dict.fromkeys(name for name, _ in updates))
    following = iter([name for name, _ in updates[1:]] + [END])
    for name in names:

        async def node(state: Any) -> Any:
            return next(given)

        async def route(state: Any) -> Any:
            return next(following)

        builder.add_node(name, RunnableCallable(None, node, name=name, trace=False))
        builder.add_conditional_edges(name, RunnableCallable(None, route, name="route", trace=False), [*names, END])
    builder.add_edge(START, updates[0][0])
    return builder.compile(checkpointer=saver)


async def _superstep(rungs: int, *, bare: bool, saver: Any) -> float:
    """Return the processor time of a superstep of SDP's graph, or of the bare loop, in milliseconds."""
    ladder, world = Ladder(rungs), LadderWorld(rungs)
    given: Any = {"task": ladder.tasks()[0]}
    config: Any = {"configurable": {"thread_id": "1"}, "recursion_limit": MANY}
    options: Any = {"durability": "async"} if saver else {}
    context = Context(benchmark=ladder, environment=world)
    updates: list[tuple[str, dict[str, Any]]] = []
    if bare:
        stream = sdp.build().astream(given, config, context=context, stream_mode="updates")
        updates = [pair async for step in stream for pair in step.items()]
    graph: Any = _replaying(sdp.State, updates, saver) if bare else sdp.build(saver)
    arguments: Any = {} if bare else {"context": context}
    started = process_time()
    state = await graph.ainvoke(given, config, **options, **arguments)
    milliseconds = 1000 * (process_time() - started)
    close_episode(state["episode"])
    return milliseconds / (4 * rungs + 2)


async def measure_superstep(kind: str, rungs: int, *, bare: bool) -> float:
    """Return the processor time of a superstep with a saver: none, LangGraph's, or certigraph's own."""
    with tempfile.TemporaryDirectory() as folder:
        if kind == ALONE:
            return await _superstep(rungs, bare=bare, saver=None)
        if kind == SAVED:
            async with _sqlite(Path(folder)) as saver:
                saver.serde = serializer()
                return await _superstep(rungs, bare=bare, saver=saver)
        with SqliteCheckpointSaver.open(Path(folder) / "checkpoints.sqlite") as own:
            return await _superstep(rungs, bare=bare, saver=own)


# The tables.


async def _measure_run(run: Run, calls: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return (await run(calls, Path(folder))).each


def measure(calls: int, repeats: int, only: str = "") -> dict[tuple[str, str], list[float]]:
    """Return milliseconds per model call by agent and column: one value for each of the rounds, which alternate.

    `only` is a text in the names of the agents that are measured besides create_agent.
    """
    agents = {name: runs for name, runs in available_agents().items() if only in name or name == BASE}
    found: dict[tuple[str, str], list[float]] = {}
    for number in range(repeats + 1):  # the first round warms up
        for name, runs in agents.items():
            for column, run in runs.items():
                each = asyncio.run(_measure_run(run, calls))
                if number:
                    found.setdefault((name, column), []).append(each)
    return found


def measure_supersteps(rungs: int, repeats: int) -> dict[tuple[str, str], list[float]]:
    """Return milliseconds per superstep of SDP's graph and of the bare loop, as `measure` does."""
    found: dict[tuple[str, str], list[float]] = {}
    for number in range(repeats + 1):
        for column in COLUMNS:
            for name in (SDP_ROW, BARE_ROW):
                each = asyncio.run(measure_superstep(column, rungs, bare=name == BARE_ROW))
                if number:
                    found.setdefault((name, column), []).append(each)
    return found


SDP_ROW, BARE_ROW = "sdp, ladder without a model", "bare loop, same channels"


def format_table(found: Mapping[tuple[str, str], list[float]], base: str) -> Iterator[str]:
    """Yield the rows of a table: medians, and in brackets the median ratio to the row `base` of the same round."""
    yield f"{'':40}" + "".join(f"{column:>22}" for column in COLUMNS)
    for name in dict.fromkeys(name for name, _ in found):
        cells = []
        for column in COLUMNS:
            values = found.get((name, column))
            # certigraph saves a run itself: its counterpart is create_agent with LangGraph's saver
            beside = found.get((base, column)) or found.get((base, SAVED))
            if not values:
                cells.append("-")
                continue
            ratio = statistics.median(a / b for a, b in zip(values, beside, strict=True)) if beside else None
            cells.append(f"{statistics.median(values):6.2f}" + (f" ({ratio:.2f})" if ratio else ""))
        yield f"{name:40}" + "".join(f"{cell:>22}" for cell in cells)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=40, help="calls of the tool in each run")
    parser.add_argument("--repeats", type=int, default=7, help="rounds that are measured")
    parser.add_argument("--rungs", type=int, default=60, help="length of the ladder that SDP climbs")
    parser.add_argument("--only", default="", help="measure only agents with this text in their name")
    options = parser.parse_args()
    packages = ("langgraph", "langchain-core", "langchain", "smolagents", "pydantic-ai-slim", "inspect-ai")
    print(f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}, {', '.join(map(_version_of, packages))}")
    print("\nProcessor time per model call in ms (ratio to create_agent)")
    print("\n".join(format_table(measure(options.calls, options.repeats, options.only), BASE)))
    print("\nProcessor time per superstep in ms (ratio to the bare loop)")
    print("\n".join(format_table(measure_supersteps(options.rungs, options.repeats), BARE_ROW)))
    print("\n" + "\n".join(f"{column}: {meaning}" for column, meaning in COLUMNS.items()))
    print(f"Load at the end {os.getloadavg()[0]:.1f}")


def _version_of(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"no {package}"


if __name__ == "__main__":
    main()
