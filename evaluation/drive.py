"""Driving one run: stream the graph, name its ending, have it scored, and close the worlds that it opened."""

import asyncio
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import aiosqlite
from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.adapters.episodes import EPISODES, close_episode, live_episode
from certigraph.adapters.models.redact import redact
from certigraph.evaluation.memory import memory_of
from certigraph.evaluation.recorder import Recorder
from certigraph.evaluation.saver import Saver
from certigraph.evaluation.settings import AnyGraph, graph_module
from certigraph.state.endings import Fault, Stopped
from certigraph.state.lessons import best_of
from certigraph.state.records import Scores
from certigraph.state.serializing import serializer
from certigraph.state.trajectory import Footer, Resumed, read_trajectory, total

SUPERSTEPS_PER_STEP = 12
"""Room for retries and replans around one world step, far from LangGraph's own default of 10,007 in all."""


class _Outcome(NamedTuple):
    """Where a graph came to: its state, its ending and what that said; no ending while it waits for an answer."""

    state: Any
    ending: str
    message: str


async def drive(
    graph: AnyGraph, given: Any, context: Context, folder: Path, recorder: Recorder, *, resuming: bool = False
) -> None:
    """Run a graph from what it is given, or from its last checkpoint, to an ending, and write the footer.

    Args:
        graph: the compiled graph.
        given: its input.
        context: model, budget, limits, and the live benchmark.
        folder: the run's; its name is the thread.
        recorder: of the trajectory, whose header is written.
        resuming: whether the thread ran before.
    """
    try:
        with memory_of(graph, folder, context.memory) as store:
            async with aiosqlite.connect(folder / "checkpoints.sqlite") as connection:
                saver = Saver(connection, serde=serializer())
                ready = graph.copy({"checkpointer": saver, "store": store})
                outcome = await _outcome(ready, given, context, folder.name, recorder, resuming=resuming)
        if outcome.ending:
            scores = best_of(outcome.state, await _live_scores(outcome.state, context))
            usage = read_trajectory(folder / "trajectory.jsonl").usage
            message = redact(outcome.message)
            recorder.write(Footer(ending=outcome.ending, message=message, scores=scores, usage=usage))
    finally:
        await asyncio.to_thread(_close_worlds, folder.name)


async def _outcome(
    graph: AnyGraph, given: Any, context: Context, thread: str, recorder: Recorder, *, resuming: bool
) -> _Outcome:
    limits = context.limits or context.benchmark.limits
    config: Any = {
        "configurable": {"thread_id": thread},
        "recursion_limit": SUPERSTEPS_PER_STEP * (limits.steps + 1) * limits.trials,
    }
    if resuming:
        saver: Any = graph.checkpointer
        await saver.forget_unfinished(thread)
        given = await _checkpointed(graph, config, given, recorder)
        superseded = read_trajectory(recorder.path).superseded
        context = context.model_copy(update={"lost": total(e.usage for e in superseded).spent()})
    ending, message = await _stream(graph, given, config, context, recorder)
    snapshot = await graph.aget_state(config)
    if not snapshot.next:
        ending = ending or graph_module(graph.name).ending(snapshot.values)
    return _Outcome(snapshot.values, ending, message)


async def _stream(graph: AnyGraph, given: Any, config: Any, context: Context, recorder: Recorder) -> tuple[str, str]:
    """Run the graph; the name and message of an ending that was raised, empty when the graph came to its end."""
    try:
        if given is None:
            await _rebuild_world(graph, config, context)
        chunks = graph.astream(given, config, context=context, stream_mode=["updates", "custom"], durability="async")
        async for mode, chunk in chunks:
            recorder.take(mode, chunk)
    except Stopped as stopped:
        return stopped.ending, str(stopped)
    except Exception as error:  # noqa: BLE001 - an operator is anybody's code: its failure is an ending, not a crash
        return "error:operator", f"{type(error).__name__}: {error} ({_where(error)})"
    finally:
        recorder.write_failed()
    return "", ""


async def _rebuild_world(graph: AnyGraph, config: Any, context: Context) -> None:
    """The world as the log left it, before a model is asked: one that changed since is found out first."""
    state = (await graph.aget_state(config)).values
    if "episode" in state:
        past = (state["episode"], state["task"], state["history"], Runtime(context=context))
        await asyncio.to_thread(live_episode, *past)


def _where(error: Exception) -> str:
    """The line of code that raised, by file name: a trajectory holds no paths."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}"


async def _checkpointed(graph: AnyGraph, config: Any, given: Any, recorder: Recorder) -> Any:
    """What to hand the graph to go on: nothing when there is a checkpoint, else the task again."""
    snapshot = await graph.aget_state(config)
    step = (snapshot.metadata or {}).get("step", -1)
    recorder.write(Resumed(superstep=step))
    return None if snapshot.values else given


async def _live_scores(state: Any, context: Context) -> Scores | None:
    """The verdict on the world as the log left it, which is rebuilt where it is no longer live."""
    if "episode" not in state:
        return None
    try:
        past = (state["episode"], state["task"], state["history"], Runtime(context=context))
        episode = await asyncio.to_thread(live_episode, *past)
        return await asyncio.to_thread(episode.score)
    except Fault:
        return None


def _close_worlds(thread: str) -> None:
    for key in [key for key in EPISODES if key.startswith(f"{thread}:")]:
        with suppress(Exception):  # what is worth keeping is written; a world that cannot be closed takes nothing away
            close_episode(key)
