"""Run a language model on AgentDojo by certigraph's methods and by LangChain's create_agent, at equal calls.

    python scripts/agentdojo_peers.py --out rows.csv --model local:qwen-1.5b --suites banking slack --tasks 20

Every agent has the same tasks, tools, data and model, and the same maximum number of model calls. What counts is the
utility that AgentDojo's own checks find, without an attack. create_agent has AgentDojo's instructions as system prompt,
and its answer is the text of its last message. Small models often write a call as JSON in their text, which LangChain
takes for the answer; here such a call is read for create_agent as it is for certigraph.

Rows are appended to the file as runs end; what it holds is not run again. Prints a Markdown table of all its rows, and
the differences to create_agent over the tasks that both have (95 % bootstrap interval).
"""

import argparse
import asyncio
import csv
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from uuid import uuid4

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelCallLimitMiddleware
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, StructuredTool

import certigraph
from certigraph import Budget
from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.models import clients
from certigraph.adapters.models.chat_models import chat_model
from certigraph.adapters.models.schemas import ParseError
from certigraph.adapters.models.tool_calls import OfferedTool, read_calls
from certigraph.adapters.protocols import Context
from certigraph.benchmarks.agentdojo.world import INSTRUCTIONS, SUITES, UTILITY, DojoEnvironment, DojoSuite
from certigraph.evaluation.statistics import bootstrap_interval, wilson_interval
from certigraph.state.records import Task
from certigraph.state.tools import ToolCall, create_tool_action

PEER = "create_agent"

LOCAL_WINDOW = 16_384
"""Tokens of a local model's window: create_agent does not shorten its history."""

COLUMNS = ("method", "task", "ending", "utility", "calls", "seconds")


class Outcome(NamedTuple):
    """How a run ended."""

    ending: str
    utility: float
    calls: int


def main() -> int:
    """Run what the file lacks, and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="CSV file to which rows are appended")
    parser.add_argument("--model", default="local:qwen-1.5b")
    parser.add_argument("--methods", nargs="+", default=["sdp", "react", PEER])
    parser.add_argument("--suites", nargs="+", default=list(SUITES), choices=SUITES)
    parser.add_argument("--tasks", type=int, default=20, help="number of tasks, drawn at random")
    parser.add_argument("--calls", type=int, default=12, help="maximum number of model calls of a run")
    parser.add_argument("--seed", type=int, default=0, help="seed of the draw")
    given = parser.parse_args()
    clients.CONTEXT_TOKENS = LOCAL_WINDOW
    benchmark = load_benchmark("agentdojo")
    tasks = [task for suite in given.suites for task in benchmark.tasks(suite)]
    Random(given.seed).shuffle(tasks)
    rows = read_rows(given.out)
    for task in tasks[: given.tasks]:
        for method in given.methods:
            if (method, task.id) not in rows:
                rows[method, task.id] = run_task(method, task, given.model, given.calls)
                append_row(given.out, rows[method, task.id])
    print(format_table(rows))
    return 0


def run_task(method: str, task: Task, model: str, calls: int) -> dict[str, Any]:
    """Run a method on a task, and return its row."""
    began = time.perf_counter()
    outcome = run_peer(task, model, calls) if method == PEER else run_method(method, task, model, calls)
    return {"method": method, "task": task.id, **outcome._asdict(), "seconds": f"{time.perf_counter() - began:.0f}"}


def run_method(method: str, task: Task, model: str, calls: int) -> Outcome:
    """Run one of certigraph's methods on a task."""
    context = Context(model=model, budget=Budget(calls=calls))
    with tempfile.TemporaryDirectory() as folder:
        result = certigraph.run(method, "agentdojo", task.id, context=context, out=folder, on_error="ignore")
        scores = result.scores
        return Outcome(result.ending, (scores.parts[UTILITY] or 0.0) if scores else 0.0, result.usage.calls)


def run_peer(task: Task, model: str, calls: int) -> Outcome:
    """Run LangChain's create_agent on a task."""
    suite: Any = load_benchmark("agentdojo").for_task(task)
    world = suite.open(task)
    world.reset()
    limit = ModelCallLimitMiddleware(run_limit=calls, exit_behavior="error")
    settings: Any = {"system_prompt": INSTRUCTIONS, "middleware": [limit, WrittenCalls(suite)]}
    agent: Any = create_agent(chat_model(model), give_tools(suite, world), **settings)
    given, config = {"messages": [("user", task.goal)]}, {"recursion_limit": 10 * calls}
    ending, messages = "", list[Any]()
    try:
        for state in agent.stream(given, config, stream_mode="values"):
            messages = state["messages"]
        ending = "answered"
    except Exception as error:  # noqa: BLE001 - whatever stops the run is its ending
        ending = f"error:{type(error).__name__}"
    replies = [message for message in messages if isinstance(message, AIMessage)]
    world.step(suite.finish_action({"answer": replies[-1].text if replies and ending == "answered" else ""}))
    return Outcome(ending, world.score().parts[UTILITY] or 0.0, len(replies))


class WrittenCalls(AgentMiddleware[Any, Any]):
    """Turns calls that the model wrote as JSON into calls of tools."""

    def __init__(self, suite: DojoSuite) -> None:
        super().__init__()
        self._offered = [OfferedTool(tool.name, "", {}) for tool in suite.offered()]

    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        """Replace a message with written calls; the arguments are checked where the tools are called."""
        message = state["messages"][-1]
        if message.tool_calls:
            return None
        try:
            calls = read_calls(message.text, self._offered).calls
        except ParseError:
            return None
        made = [{"name": call.name, "args": call.args, "id": uuid4().hex, "type": "tool_call"} for call in calls]
        return {"messages": [message.model_copy(update={"tool_calls": made})]}


def give_tools(suite: DojoSuite, world: DojoEnvironment) -> list[BaseTool]:
    """Create the tools of a suite that work on the data of an episode."""

    def bind(tool: BaseTool) -> BaseTool:
        def call(**args: Any) -> str:
            made = ToolCall(name=tool.name, args=args)
            answer = asyncio.run(world.call(made))
            world.recall(create_tool_action([made]))
            return answer.text

        return StructuredTool.from_function(
            call, name=tool.name, description=tool.description, args_schema=tool.args_schema
        )

    return [bind(loaded.tool) for loaded in suite.loaded.values()]


def read_rows(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Read the rows of a file; none if it does not exist."""
    if not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return {(row["method"], row["task"]): row for row in csv.DictReader(file)}


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Append a row to a file, which gets a line with the names of its columns first."""
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if new:
            writer.writeheader()
        writer.writerow(row)


def format_table(rows: Mapping[tuple[str, str], Mapping[str, Any]]) -> str:
    """Format a line for each method: utility with Wilson's interval, and the difference to create_agent."""
    lines = ["| method | utility | minus create_agent | calls of a run | endings |", "|---|---|---|---|---|"]
    for method in dict.fromkeys(method for method, _ in rows):
        mine = {task: row for (other, task), row in rows.items() if other == method}
        calls = sum(int(row["calls"]) for row in mine.values()) / len(mine)
        endings = [row["ending"] for row in mine.values()]
        counts = ", ".join(f"{name} {endings.count(name)}" for name in dict.fromkeys(endings))
        cells = (_format_rate([float(row["utility"]) for row in mine.values()]), _format_difference(mine, rows))
        lines.append(f"| {method} | {' | '.join(cells)} | {calls:.1f} | {counts} |")
    return "\n".join(lines)


def _format_rate(values: Sequence[float]) -> str:
    hits = int(sum(values))
    low, high = wilson_interval(hits, len(values))
    return f"{hits} of {len(values)} ({low:.0%} to {high:.0%})"


def _format_difference(mine: Mapping[str, Any], rows: Mapping[tuple[str, str], Mapping[str, Any]]) -> str:
    differences = [
        float(row["utility"]) - float(rows[PEER, task]["utility"]) for task, row in mine.items() if (PEER, task) in rows
    ]
    bounds = bootstrap_interval(differences) if differences else None
    if bounds is None:
        return ""
    return f"{100 * sum(differences) / len(differences):+.1f} ({100 * bounds[0]:+.1f} to {100 * bounds[1]:+.1f})"


if __name__ == "__main__":
    sys.exit(main())
