"""Loops that `certigraph bench` times on the same task: SDP's graph, a bare LangGraph loop and a plain Python loop."""

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
from certigraph.adapters.protocols import Benchmark, Context, Environment, Limits, Operator
from certigraph.graphs import sdp
from certigraph.state.records import Action, Fault, Observation, Predicate, Scores, Task, Verdict
from certigraph.state.sdp import ProposeView, RealizeView, ValidateView
from certigraph.state.trajectory import serializer

# The world: a ladder with one predicate per rung. It takes almost no time, so that the loop's overhead is measured.


def climb_action(rung: int) -> str:
    """Return the text of the action that climbs to a rung from the rung below."""
    return f"climb to rung {rung}"


def height_after(height: int, text: str) -> int:
    """Return the height after an action, given its text. Only the action for the next rung has an effect."""
    return height + 1 if text == climb_action(height + 1) else height


def describe_height(height: int) -> str:
    """Return the text of the observation at a height."""
    return f"You stand on rung {height}."


class LadderWorld(Environment):
    """One episode of climbing a ladder. `seconds` is the wall-clock time spent inside the methods of the world."""

    concurrent = False

    def __init__(self, rungs: int) -> None:
        self.rungs, self.height, self.seconds = rungs, 0, 0.0

    def reset(self) -> Observation:
        """Go back to the ground and return the first observation."""
        with self._timed():
            self.height = 0
            return Observation(text=describe_height(0))

    def step(self, action: Action) -> Observation:
        """Execute an action, which climbs at most one rung, and return the observation."""
        with self._timed():
            self.height = height_after(self.height, action.text)
            return Observation(text=describe_height(self.height), done=self.height == self.rungs)

    def view(self) -> str:
        """Return the observation at the current height."""
        return describe_height(self.height)

    def admissible(self) -> list[str] | None:
        """Return None: the world lists no actions."""
        return None

    def score(self) -> Scores:
        """Return the score: the share of the rungs that was reached."""
        return Scores(value=self.height / self.rungs)

    def close(self) -> None:
        """Do nothing: the world holds no resources."""

    @contextmanager
    def _timed(self) -> Iterator[None]:
        start = perf_counter()
        yield
        self.seconds += perf_counter() - start


class Ladder(Benchmark):
    """Benchmark with one task: a ladder of `rungs` rungs, climbed without a model."""

    name = "ladder"

    def __init__(self, rungs: int) -> None:
        self.rungs = rungs
        self.limits = Limits(steps=rungs)
        self._operators: Mapping[str, Operator] = {"propose": self._propose, "realize": _realize, "validate": _validate}

    def tasks(self, split: str = "") -> Sequence[Task]:
        """Return the only task."""
        return [self.task(str(self.rungs))]

    def task(self, task_id: str) -> Task:
        """Return the only task; its id is the number of rungs."""
        if task_id != str(self.rungs):
            raise KeyError(f"this ladder has no task {task_id!r}; its only one is {str(self.rungs)!r}")
        return Task(benchmark=self.name, id=task_id, goal=describe_height(self.rungs))

    def open(self, task: Task) -> LadderWorld:
        """Open an episode on the ground."""
        return LadderWorld(self.rungs)

    def operators(self) -> Mapping[str, Operator]:
        """Return the operators Propose, Realize and Validate; Replan is never needed."""
        return self._operators

    def expert(self) -> None:
        """Return None: no model is used."""

    async def _propose(self, state: ProposeView, runtime: Runtime[Context]) -> dict[str, Any]:
        rungs = range(1, self.rungs + 1)
        return {"plan": [Predicate(text=describe_height(rung), args={"rung": rung}) for rung in rungs]}


async def _realize(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
    rung = state["target"].args["rung"]
    return {"action": Action(text=climb_action(int(str(rung))))}


async def _validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
    held = state["observation"].text == state["tail"][0].text
    return {"verdict": Verdict(depth=int(held))}


# The reference loops: the same task as a bare LangGraph loop and as a plain Python loop.


class ClimbState(TypedDict):
    """Minimal state of the bare LangGraph loop; every field is a channel that holds its last value."""

    rungs: int
    head: int
    height: int
    action: str
    observation: str
    held: bool


BareGraph = CompiledStateGraph[ClimbState, None, ClimbState, ClimbState]
ClimbNode = Callable[[ClimbState], dict[str, Any]]


def initial_state(rungs: int) -> ClimbState:
    """Return the state of the bare loop before the first step."""
    return ClimbState(rungs=rungs, head=0, height=0, action="", observation=describe_height(0), held=False)


def bare_graph(checkpointer: Checkpointer = None) -> BareGraph:
    """Build the bare LangGraph loop: a graph with four small nodes and two conditional edges.

    The nodes are plain functions under `invoke` and coroutines under `ainvoke`.
    """
    builder = StateGraph(ClimbState)
    for name, node in CLIMB_NODES.items():
        builder.add_node(name, RunnableCallable(node, _to_coroutine(node), name=name, trace=False))
    builder.add_edge(START, "realize")
    builder.add_edge("realize", "act")
    builder.add_edge("act", "validate")
    builder.add_conditional_edges("validate", _after_validate, {"certified": "certify", "retry": "realize"})
    builder.add_conditional_edges("certify", _after_certify, {"advance": "realize", "goal": END})
    return builder.compile(checkpointer=checkpointer, name="bare")


def plain_loop(rungs: int) -> ClimbState:
    """Run the nodes of the bare loop in a Python loop, without a graph."""
    state = initial_state(rungs)
    while state["head"] < rungs:
        for node in CLIMB_NODES.values():
            state = cast(ClimbState, {**state, **node(state)})
    return state


def _bare_realize(state: ClimbState) -> dict[str, Any]:
    return {"action": climb_action(state["head"] + 1)}


def _act(state: ClimbState) -> dict[str, Any]:
    height = height_after(state["height"], state["action"])
    return {"height": height, "observation": describe_height(height)}


def _bare_validate(state: ClimbState) -> dict[str, Any]:
    return {"held": state["observation"] == describe_height(state["head"] + 1)}


def _certify(state: ClimbState) -> dict[str, Any]:
    return {"head": state["head"] + 1}


CLIMB_NODES: Mapping[str, ClimbNode] = {
    "realize": _bare_realize,
    "act": _act,
    "validate": _bare_validate,
    "certify": _certify,
}


def _after_validate(state: ClimbState) -> str:
    return "certified" if state["held"] else "retry"


def _after_certify(state: ClimbState) -> str:
    return "goal" if state["head"] == state["rungs"] else "advance"


def _to_coroutine(node: ClimbNode) -> Callable[[ClimbState], Awaitable[dict[str, Any]]]:
    async def awaited(state: ClimbState) -> dict[str, Any]:
        return node(state)

    return awaited


# One timed lap of a loop.

LoopName = Literal["sdp", "bare", "python"]
SUPERSTEPS_PER_RUNG = len(CLIMB_NODES)
"""Number of supersteps per rung, the same in every loop."""


class LoopSetting(NamedTuple):
    """A loop to time, how it is called, and whether LangGraph's AsyncSqliteSaver saves its checkpoints in a file."""

    loop: LoopName
    call: Literal["ainvoke", "invoke", "for"]
    saver: bool = False


class Lap(NamedTuple):
    """One timed climb: its number of supersteps, its wall-clock seconds, and how many of them the world took."""

    supersteps: int
    seconds: float
    world: float = 0.0

    @property
    def each(self) -> float:
        """Milliseconds per superstep."""
        return 1_000 * self.seconds / self.supersteps

    @property
    def own(self) -> float:
        """Milliseconds per superstep without the time that the world takes."""
        return 1_000 * (self.seconds - self.world) / self.supersteps


def time_lap(setting: LoopSetting, rungs: int) -> Lap:
    """Time one climb of a ladder with `rungs` rungs by the loop in `setting`.

    Raises:
        Fault: the climb ended below the top.
    """
    if setting.loop == "python":
        return _time_plain_lap(rungs)
    if setting.call == "invoke":
        return _time_blocking_lap(_PreparedClimb(setting.loop, rungs))
    if not setting.saver:
        return asyncio.run(_time_awaited_lap(_PreparedClimb(setting.loop, rungs)))
    with TemporaryDirectory() as folder:
        return time_saved_lap(setting.loop, rungs, Path(folder) / "checkpoints.sqlite")


def time_saved_lap(loop: LoopName, rungs: int, path: Path) -> Lap:
    """Time one climb with checkpoints in the SQLite file at `path`."""

    async def climb() -> Lap:
        async with AsyncSqliteSaver.from_conn_string(str(path)) as saver:
            saver.serde = serializer()
            await saver.setup()
            return await _time_awaited_lap(_PreparedClimb(loop, rungs, saver))

    return asyncio.run(climb())


class _PreparedClimb:
    """A compiled graph, ready to climb, with the arguments for calling it."""

    def __init__(self, loop: LoopName, rungs: int, saver: Checkpointer = None) -> None:
        ladder, self.world = Ladder(rungs), LadderWorld(rungs)
        self.rungs = rungs
        self.graph: Any = sdp.build(saver) if loop == "sdp" else bare_graph(saver)
        self.input: Any = {"task": ladder.tasks()[0]} if loop == "sdp" else initial_state(rungs)
        self.context = Context(benchmark=ladder, environment=self.world) if loop == "sdp" else None
        self.supersteps = SUPERSTEPS_PER_RUNG * rungs + (2 if loop == "sdp" else 0)  # SDP also resets and proposes
        self.options: Any = {"durability": "async"} if saver else {}
        self.config: Any = {"configurable": {"thread_id": "bench"}, "recursion_limit": self.supersteps + 1}

    def finished(self, seconds: float, state: dict[str, Any]) -> Lap:
        close_episode(state.get("episode", ""))
        if state["head"] < self.rungs:
            raise Fault("operator", f"{self.graph.name} ended at rung {state['head']} of {self.rungs}; see its state")
        return Lap(self.supersteps, seconds, self.world.seconds)


def _time_plain_lap(rungs: int) -> Lap:
    start = perf_counter()
    plain_loop(rungs)
    return Lap(SUPERSTEPS_PER_RUNG * rungs, perf_counter() - start)


def _time_blocking_lap(climb: _PreparedClimb) -> Lap:
    start = perf_counter()
    state = climb.graph.invoke(climb.input, climb.config, context=climb.context)
    return climb.finished(perf_counter() - start, state)


async def _time_awaited_lap(climb: _PreparedClimb) -> Lap:
    start = perf_counter()
    state = await climb.graph.ainvoke(climb.input, climb.config, context=climb.context, **climb.options)
    return climb.finished(perf_counter() - start, state)
