"""What middleware costs: the seconds of `create_agent` with it, divided by those of the bare agent.

    python scripts/middleware_speed.py --laps 15 --rounds 10
    python scripts/middleware_speed.py --only ordered effects --calls 1

A scripted model answers at once, the tools return at once, every call has an effect that lasts, and checkpoints go into
a file of SQLite. The agents work in turns, so that a change of the machine's speed affects all of them. Rounds have one
and two calls in turns, unless `--calls` says otherwise.
"""

import argparse
import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from certigraph.middleware.effects import EffectsOnce
from certigraph.middleware.ordered_calls import OrderedCalls

STACKS: Mapping[str, Callable[[], list[Any]]] = {
    "bare": list,
    "ordered": lambda: [OrderedCalls()],
    "effects": lambda: [EffectsOnce()],
    "ordered+effects": lambda: [OrderedCalls(), EffectsOnce()],
}
"""Middleware by name; the first is what the others are compared with."""


class RoundsModel(BaseChatModel):
    """A scripted model that makes so many calls in each round, and then answers."""

    calls: Sequence[int]

    @property
    def _llm_type(self) -> str:
        return "rounds"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Return the model itself, which knows the tools."""
        return self

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return self._generate(messages)

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        made = sum(isinstance(one, AIMessage) for one in messages)
        calls: list[Any] = [
            {"name": "book", "args": {"order": 10 * made + number}, "id": f"{made}-{number}"}
            for number in range(self.calls[made] if made < len(self.calls) else 0)
        ]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("" if calls else "done", tool_calls=calls))])


async def book(order: int) -> str:
    """Book an order."""
    return f"order {order} is booked"


async def measure(name: str, calls: Sequence[int], path: Path) -> float:
    """Return the seconds of one run of an agent.

    Args:
        name: name of its middleware.
        calls: number of calls in each round.
        path: file of its checkpoints.

    Raises:
        RuntimeError: the agent did not make all calls.
    """
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        await saver.setup()
        graph: Any = create_agent(RoundsModel(calls=calls), [book], middleware=STACKS[name](), checkpointer=saver)
        begun = perf_counter()
        state = await graph.ainvoke({"messages": [("user", "Book.")]}, {"configurable": {"thread_id": "t"}})
        seconds = perf_counter() - begun
    if sum(one.type == "tool" for one in state["messages"]) != sum(calls):
        raise RuntimeError(f"{name}: calls are missing")
    return seconds


def compare(names: Sequence[str], calls: Sequence[int], laps: int) -> dict[str, dict[str, float]]:
    """Return for each middleware the median milliseconds of a run, and the median ratio to the bare agent's lap."""
    seconds: dict[str, list[float]] = {name: [] for name in names}
    with TemporaryDirectory() as folder:
        for lap in range(laps + 1):  # the first lap fills caches
            for name in names:
                one = asyncio.run(measure(name, calls, Path(folder) / f"{lap}-{name}.sqlite"))
                seconds[name] += [one] if lap else []
    base = seconds[names[0]]
    return {
        name: {
            "ms": round(1000 * median(found), 1),
            "ratio": round(median(one / bare for one, bare in zip(found, base, strict=True)), 2),
        }
        for name, found in seconds.items()
    }


def main() -> None:
    """Measure, and print the comparison as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--laps", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--calls", type=int, nargs="+", default=[1, 2], help="calls of the rounds, in turns")
    parser.add_argument("--only", nargs="+", choices=list(STACKS)[1:], default=list(STACKS)[1:])
    given = parser.parse_args()
    calls = [given.calls[number % len(given.calls)] for number in range(given.rounds)]
    found = compare(["bare", *given.only], calls, given.laps)
    print(json.dumps({"rounds": given.rounds, "calls": given.calls, "laps": given.laps, **found}, indent=1))


if __name__ == "__main__":
    main()
