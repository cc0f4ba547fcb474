"""What middleware costs: the seconds of `create_agent` with it, divided by those of the bare agent.

    python scripts/middleware_speed.py --laps 15 --rounds 10
    python scripts/middleware_speed.py --only ordered effects --calls 1

A scripted model answers at once, the tools return at once, and checkpoints go into a file of SQLite. Every call has an
effect that lasts, but with `--look-ups`. The agents work in turns, so that a change of the machine's speed affects all
of them; each has worked in another thread before. Rounds have one and two calls in turns, unless `--calls` says
otherwise. `hooks` is a middleware with the hooks of `OrderedCalls`, which do nothing: the share of LangChain itself.
"""

import argparse
import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from operator import truediv
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any, NamedTuple

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.tools.outcomes import Effect
from certigraph.middleware import (
    BeliefMemory,
    BudgetLimit,
    Certified,
    CommitTools,
    EffectsOnce,
    OrderedCalls,
    ProgressGate,
    stack,
)


class Hooks(AgentMiddleware[Any, Any, Any]):
    """Middleware with the hooks of `OrderedCalls`, which do nothing."""

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        """Ask the model."""
        return await handler(request)

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        """Make the call."""
        return await handler(request)

    async def abefore_model(self, state: Any, runtime: Any) -> None:
        """Do nothing."""

    async def aafter_agent(self, state: Any, runtime: Any) -> None:
        """Do nothing."""


def create_validator() -> ScriptedChat:
    """Return a scripted validator that allows each call and confirms each answer."""
    verdict = {"reason": "", "problems": [], "missing": "", "by_calls": [1]}
    return ScriptedChat(
        responder=lambda prompt, schema: {key: verdict[key] for key in schema["properties"] if key in verdict}
    )


STACKS: Mapping[str, Callable[[Mapping[str, Effect]], list[Any]]] = {
    "bare": lambda effects: [],
    "hooks": lambda effects: [Hooks()],
    "ordered": lambda effects: [OrderedCalls(effects)],
    "effects": lambda effects: [EffectsOnce(effects)],
    "ordered+effects": lambda effects: [OrderedCalls(effects), EffectsOnce(effects)],
    "gate": lambda effects: [ProgressGate()],
    "belief": lambda effects: [BeliefMemory(effects=effects)],
    "commit": lambda effects: [CommitTools(tools=("book",))],
    "budget": lambda effects: [BudgetLimit(calls=1_000)],
    "certified": lambda effects: [Certified(model=create_validator(), effects=effects)],
    "all": lambda effects: stack(
        *(OrderedCalls(), ProgressGate(), EffectsOnce(), BeliefMemory(), CommitTools(tools=("book",))),
        *(BudgetLimit(calls=1_000), Certified(model=create_validator())),
        effects=effects,
    ),
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


class Cost(NamedTuple):
    """What a run took."""

    seconds: float
    processor: float
    """Seconds of all threads of the process."""


async def measure(name: str, calls: Sequence[int], path: Path, effects: Mapping[str, Effect]) -> Cost:
    """Return what one run of an agent costs.

    Args:
        name: name of its middleware.
        calls: number of calls in each round.
        path: file of its checkpoints.
        effects: what its tool does.

    Raises:
        RuntimeError: the agent did not make all calls.
    """
    async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
        await saver.setup()
        stack, request = STACKS[name](effects), {"messages": [("user", "Book.")]}
        graph: Any = create_agent(RoundsModel(calls=calls), [book], middleware=stack, checkpointer=saver)
        await graph.ainvoke(request, {"configurable": {"thread_id": "before"}})
        begun, used = perf_counter(), process_time()
        state = await graph.ainvoke(request, {"configurable": {"thread_id": "t"}})
        cost = Cost(perf_counter() - begun, process_time() - used)
    if sum(one.type == "tool" for one in state["messages"]) != sum(calls):
        raise RuntimeError(f"{name}: calls are missing")
    return cost


def compare(
    names: Sequence[str], calls: Sequence[int], laps: int, effects: Mapping[str, Effect]
) -> dict[str, dict[str, float]]:
    """Return for each middleware the median milliseconds of a run, and the median ratios to the bare agent's lap."""
    costs: dict[str, list[Cost]] = {name: [] for name in names}
    with TemporaryDirectory() as folder:
        for lap in range(laps + 1):  # the first lap fills caches
            for name in names:
                one = asyncio.run(measure(name, calls, Path(folder) / f"{lap}-{name}.sqlite", effects))
                costs[name] += [one] if lap else []
    return {
        name: {
            "ms": round(1000 * median(one.seconds for one in found), 1),
            "ratio": round(median(map(truediv, *(_seconds(costs[one]) for one in (name, names[0])))), 2),
            "processor ratio": round(median(map(truediv, *(_processor(costs[one]) for one in (name, names[0])))), 2),
        }
        for name, found in costs.items()
    }


def _seconds(found: Sequence[Cost]) -> list[float]:
    return [one.seconds for one in found]


def _processor(found: Sequence[Cost]) -> list[float]:
    return [one.processor for one in found]


def main() -> None:
    """Measure, and print the comparison as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--laps", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--calls", type=int, nargs="+", default=[1, 2], help="calls of the rounds, in turns")
    parser.add_argument("--only", nargs="+", choices=list(STACKS)[1:], default=list(STACKS)[1:])
    parser.add_argument("--look-ups", action="store_true", help="the calls are look-ups")
    given = parser.parse_args()
    effects: dict[str, Effect] = {"book": "repeatable"} if given.look_ups else {}
    calls = [given.calls[number % len(given.calls)] for number in range(given.rounds)]
    found = compare(["bare", *given.only], calls, given.laps, effects)
    setting = {"rounds": given.rounds, "calls": given.calls, "laps": given.laps, "look-ups": given.look_ups}
    print("\n".join(map(json.dumps, [setting, *({"stack": name, **one} for name, one in found.items())])))


if __name__ == "__main__":
    main()
