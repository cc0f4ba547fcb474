"""SDP's graph, a bare LangGraph loop and a plain loop on the same climb."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Literal, NamedTuple, TypedDict, cast

from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Checkpointer
from langgraph.utils.runnable import RunnableCallable  # type: ignore[attr-defined]

from certigraph.adapters.episodes import close_episode
from certigraph.adapters.protocols import Context, Limits, Operator
from certigraph.graphs import sdp
from certigraph.state.records import Action, Fault, Observation, Predicate, Scores, Task, Verdict
from certigraph.state.sdp import ProposeView, RealizeView, ValidateView
from certigraph.state.serialization import serializer

# A ladder to climb, one predicate a rung: a world that costs next to nothing, to measure what surrounds a world.


def order(rung: int) -> str:
    """The action that reaches a rung from the one below."""
    return f"climb to rung {rung}"


def climbed(height: int, text: str) -> int:
    """The height after an action; what is not the next rung changes nothing."""
    return height + 1 if text == order(height + 1) else height


def view(height: int) -> str:
    """What one sees at a height."""
    return f"You stand on rung {height}."


class LadderWorld:
    """One climb. `seconds` is the wall-clock spent inside its methods."""

    concurrent = False

    def __init__(self, rungs: int) -> None:
        self.rungs, self.height, self.seconds = rungs, 0, 0.0

    def reset(self) -> Observation:
        """Back to the ground."""
        with self._timed():
            self.height = 0
            return Observation(text=view(0))

    def step(self, action: Action) -> Observation:
        """Climb one rung."""
        with self._timed():
            self.height = climbed(self.height, action.text)
            return Observation(text=view(self.height), done=self.height == self.rungs)

    def view(self) -> str:
        """Where the climber is."""
        return view(self.height)

    def admissible(self) -> list[str] | None:
        """None: there is nothing to choose."""
        return None

    def score(self) -> Scores:
        """The fraction climbed."""
        return Scores(value=self.height / self.rungs)

    def close(self) -> None:
        """Nothing to release."""

    @contextmanager
    def _timed(self) -> Iterator[None]:
        began = perf_counter()
        yield
        self.seconds += perf_counter() - began


class Ladder:
    """One task: a ladder of `rungs` rungs, climbed without a model."""

    name = "ladder"

    def __init__(self, rungs: int) -> None:
        self.rungs = rungs
        self.limits = Limits(steps=rungs)
        self._operators: Mapping[str, Operator] = {"propose": self._propose, "realize": _realize, "validate": _validate}

    def tasks(self, split: str = "") -> Sequence[Task]:
        """The one task."""
        return [self.task(str(self.rungs))]

    def task(self, task_id: str) -> Task:
        """The one task, by its number of rungs."""
        if task_id != str(self.rungs):
            raise KeyError(f"this ladder has no task {task_id!r}; its only one is {str(self.rungs)!r}")
        return Task(benchmark=self.name, id=task_id, goal=view(self.rungs))

    def open(self, task: Task) -> LadderWorld:
        """A climber on the ground."""
        return LadderWorld(self.rungs)

    def operators(self) -> Mapping[str, Operator]:
        """Propose, Realize and Validate; nothing here ever needs Replan."""
        return self._operators

    def expert(self) -> None:
        """None: no question is ever asked."""

    async def _propose(self, state: ProposeView, runtime: Runtime[Context]) -> dict[str, Any]:
        rungs = range(1, self.rungs + 1)
        return {"plan": [Predicate(text=view(rung), args={"rung": rung}) for rung in rungs]}


async def _realize(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
    rung = state["target"].args["rung"]
    return {"action": Action(text=order(int(str(rung))))}


async def _validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    held = state["observation"].text == state["tail"][0].text
    return {"verdict": Verdict(depth=int(held))}


# What SDP's graph is measured against: the same climb as a bare LangGraph loop and as a plain Python loop.


class Climb(TypedDict):
    """The least state that the loop needs; every field is a plain last value."""

    rungs: int
    head: int
    height: int
    action: str
    observation: str
    held: bool


BareGraph = CompiledStateGraph[Climb, None, Climb, Climb]
Node = Callable[[Climb], dict[str, Any]]


def ground(rungs: int) -> Climb:
    """The state before the first step."""
    return Climb(rungs=rungs, head=0, height=0, action="", observation=view(0), held=False)


def bare_graph(checkpointer: Checkpointer = None) -> BareGraph:
    """Four small nodes and two conditional edges: plain functions under `invoke`, coroutines under `ainvoke`."""
    builder = StateGraph(Climb)
    for name, node in NODES.items():
        builder.add_node(name, RunnableCallable(node, _awaited(node), name=name, trace=False))
    builder.add_edge(START, "realize")
    builder.add_edge("realize", "act")
    builder.add_edge("act", "validate")
    builder.add_conditional_edges("validate", _after_validate, {"certified": "certify", "retry": "realize"})
    builder.add_conditional_edges("certify", _after_certify, {"advance": "realize", "goal": END})
    return builder.compile(checkpointer=checkpointer, name="bare")


def plain_loop(rungs: int) -> Climb:
    """The same nodes without a graph around them."""
    state = ground(rungs)
    while state["head"] < rungs:
        for node in NODES.values():
            state = cast(Climb, {**state, **node(state)})
    return state


def _bare_realize(state: Climb) -> dict[str, Any]:
    return {"action": order(state["head"] + 1)}


def _act(state: Climb) -> dict[str, Any]:
    height = climbed(state["height"], state["action"])
    return {"height": height, "observation": view(height)}


def _bare_validate(state: Climb) -> dict[str, Any]:
    return {"held": state["observation"] == view(state["head"] + 1)}


def _certify(state: Climb) -> dict[str, Any]:
    return {"head": state["head"] + 1}


NODES: Mapping[str, Node] = {"realize": _bare_realize, "act": _act, "validate": _bare_validate, "certify": _certify}


def _after_validate(state: Climb) -> str:
    return "certified" if state["held"] else "retry"


def _after_certify(state: Climb) -> str:
    return "goal" if state["head"] == state["rungs"] else "advance"


def _awaited(node: Node) -> Callable[[Climb], Awaitable[dict[str, Any]]]:
    async def awaited(state: Climb) -> dict[str, Any]:
        return node(state)

    return awaited


# One timed climb of the ladder: SDP's graph, the bare LangGraph loop or the plain Python loop.

Loop = Literal["sdp", "bare", "python"]
PER_RUNG = len(NODES)
"""Supersteps that one rung takes, in every loop."""


class Setting(NamedTuple):
    """A loop, the way it is called, and whether AsyncSqliteSaver keeps its checkpoints in a file."""

    loop: Loop
    call: Literal["ainvoke", "invoke", "for"]
    saver: bool = False


class Lap(NamedTuple):
    """One climb in wall-clock seconds, and those of them that the world took."""

    supersteps: int
    seconds: float
    world: float = 0.0

    @property
    def each(self) -> float:
        """Milliseconds per superstep."""
        return 1_000 * self.seconds / self.supersteps

    @property
    def own(self) -> float:
        """Milliseconds per superstep without the world."""
        return 1_000 * (self.seconds - self.world) / self.supersteps


def lap(setting: Setting, rungs: int) -> Lap:
    """Climb once.

    Raises:
        Fault: the climb ended below the top.
    """
    if setting.loop == "python":
        return _plain_lap(rungs)
    if setting.call == "invoke":
        return _blocking_lap(_Climb(setting.loop, rungs))
    if not setting.saver:
        return asyncio.run(_awaited_lap(_Climb(setting.loop, rungs)))
    with TemporaryDirectory() as folder:
        return saved_lap(setting.loop, rungs, Path(folder) / "checkpoints.sqlite")


def saved_lap(loop: Loop, rungs: int, path: Path) -> Lap:
    """Climb once with checkpoints in the SQLite file at `path`."""

    async def climb() -> Lap:
        async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
            saver.serde = serializer()
            await saver.setup()
            return await _awaited_lap(_Climb(loop, rungs, saver))

    return asyncio.run(climb())


class _Climb:
    """A compiled graph with all that a call of it takes."""

    def __init__(self, loop: Loop, rungs: int, saver: Checkpointer = None) -> None:
        ladder, self.world = Ladder(rungs), LadderWorld(rungs)
        self.rungs = rungs
        self.graph: Any = sdp.build(saver) if loop == "sdp" else bare_graph(saver)
        self.given: Any = {"task": ladder.tasks()[0]} if loop == "sdp" else ground(rungs)
        self.context = Context(benchmark=ladder, environment=self.world) if loop == "sdp" else None
        self.supersteps = PER_RUNG * rungs + (2 if loop == "sdp" else 0)  # SDP also resets and proposes
        self.options: Any = {"durability": "async"} if saver else {}
        self.config: Any = {"configurable": {"thread_id": "bench"}, "recursion_limit": self.supersteps + 1}

    def finished(self, seconds: float, state: dict[str, Any]) -> Lap:
        close_episode(state.get("episode", ""))
        if state["head"] < self.rungs:
            raise Fault("operator", f"{self.graph.name} ended at rung {state['head']} of {self.rungs}; see its state")
        return Lap(self.supersteps, seconds, self.world.seconds)


def _plain_lap(rungs: int) -> Lap:
    began = perf_counter()
    plain_loop(rungs)
    return Lap(PER_RUNG * rungs, perf_counter() - began)


def _blocking_lap(climb: _Climb) -> Lap:
    began = perf_counter()
    state = climb.graph.invoke(climb.given, climb.config, context=climb.context)
    return climb.finished(perf_counter() - began, state)


async def _awaited_lap(climb: _Climb) -> Lap:
    began = perf_counter()
    state = await climb.graph.ainvoke(climb.given, climb.config, context=climb.context, **climb.options)
    return climb.finished(perf_counter() - began, state)
