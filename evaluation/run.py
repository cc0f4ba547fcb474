"""The driver: runs a graph on a task under a budget, names its ending, and leaves a trajectory that can be resumed."""

import asyncio
import datetime
import traceback
import uuid
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import aiosqlite
from langchain_core.language_models import BaseChatModel
from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.context import Budget, Context
from certigraph.adapters.episodes import EPISODES, close_episode, live_episode
from certigraph.adapters.loops import wait_for
from certigraph.adapters.models.chat import check_model
from certigraph.adapters.models.redact import redact
from certigraph.adapters.protocols import Benchmark, Limits
from certigraph.evaluation.memory import memory_of
from certigraph.evaluation.recorder import Listener, Recorder
from certigraph.evaluation.result import Result
from certigraph.evaluation.saver import Saver
from certigraph.evaluation.settings import (
    LIVE,
    AnyGraph,
    build_graph,
    graph_module,
    load_local,
    operators_of,
    rebuilt_graph,
    save_local,
    shareable,
    versions,
)
from certigraph.state.endings import Fault, Stopped
from certigraph.state.lessons import best_of
from certigraph.state.records import Scores, Task
from certigraph.state.serializing import serializer
from certigraph.state.trajectory import Footer, Header, Resumed, read_trajectory, total

T = TypeVar("T")
SUPERSTEPS_PER_STEP = 12
"""Room for retries and replans around one world step, far from LangGraph's own default of 10,007 in all."""


def run(
    graph: str | AnyGraph = "sdp",
    benchmark: str | Benchmark = "blocksworld",
    task: str | Task | None = None,
    *,
    context: Context | None = None,
    out: Path | str = "runs",
    listener: Listener | None = None,
) -> Result:
    """Run a graph on a task to its ending and keep the trajectory.

    Args:
        graph: a graph's name, or one that you built: `sdp.build(validate=always_pass)`.
        benchmark: a benchmark's name, or a live one.
        task: a task or its id; the benchmark's first one when not given.
        context: model, budget, limits and data; all have defaults.
        out: the folder in which the run gets a folder of its own.
        listener: called with every trajectory line as it is written.

    Returns:
        The result, whatever the ending: faults and spent budgets are endings, not exceptions.
    """
    return _blocking(arun(graph, benchmark, task, context=context, out=out, listener=listener))


async def arun(
    graph: str | AnyGraph = "sdp",
    benchmark: str | Benchmark = "blocksworld",
    task: str | Task | None = None,
    *,
    context: Context | None = None,
    out: Path | str = "runs",
    listener: Listener | None = None,
) -> Result:
    """The same as `run`, to await."""
    context = context or Context()
    live = load_benchmark(benchmark, context.data) if isinstance(benchmark, str) else benchmark
    context = context.model_copy(update={"benchmark": live, "limits": context.limits or live.limits})
    chosen = task if isinstance(task, Task) else live.task(task) if task else live.tasks()[0]
    compiled = build_graph(graph) if isinstance(graph, str) else graph
    for name in (context.model, *context.roles.values()) if context.chat is None else ():
        check_model(name)
    folder = Path(out) / _run_id(compiled.name, chosen)
    await asyncio.to_thread(folder.mkdir, parents=True)
    save_local(folder, context)
    header = Header(
        run_id=folder.name,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        graph=compiled.name,
        operators=operators_of(compiled),
        task=chosen,
        context=shareable(context),
        versions=versions(),
    )
    with Recorder(folder / "trajectory.jsonl", listener) as recorder:
        recorder.write(header)
        await _drive(compiled, {"task": chosen}, context, folder, recorder)
    return Result(folder)


def resume(
    folder: Path | str,
    *,
    budget: Budget | None = None,
    limits: Limits | None = None,
    benchmark: Benchmark | None = None,
    chat: BaseChatModel | None = None,
    listener: Listener | None = None,
) -> Result:
    """Go on with a run that was killed, interrupted or stopped by its budget, from its last checkpoint.

    Args:
        folder: the run's folder.
        budget: a larger budget; the run's own otherwise.
        limits: larger limits; the run's own otherwise.
        benchmark: the live benchmark, for a run that was started with one.
        chat: the live chat model, for a run that was started with one.
        listener: called with every trajectory line, those of the first part included.

    Raises:
        Fault: the folder holds no run, or its run has reached an ending of its own.
    """
    return _blocking(aresume(folder, budget=budget, limits=limits, benchmark=benchmark, chat=chat, listener=listener))


async def aresume(
    folder: Path | str,
    *,
    budget: Budget | None = None,
    limits: Limits | None = None,
    benchmark: Benchmark | None = None,
    chat: BaseChatModel | None = None,
    listener: Listener | None = None,
) -> Result:
    """The same as `resume`, to await."""
    folder = Path(folder)
    trajectory = read_trajectory(folder / "trajectory.jsonl")
    header, footer = trajectory.header, trajectory.footer
    if footer and not footer.ending.startswith(("limit:", "error:")):
        raise Fault("data", f"run {header.run_id} has ended: {footer.ending}; start a new one with `certigraph run`")
    context = _with_mind(load_local(folder), header, chat)
    live = benchmark or load_benchmark(header.task.benchmark, context.data)
    changes = {"budget": budget or context.budget, "limits": limits or context.limits, "benchmark": live}
    context = context.model_copy(update=changes)
    compiled = rebuilt_graph(header.graph, header.operators)
    with Recorder(folder / "trajectory.jsonl", listener) as recorder:
        if listener:
            listener(header)
            for event in trajectory.events:
                listener(event)
        await _drive(compiled, {"task": header.task}, context, folder, recorder, resuming=True)
    return Result(folder)


def _with_mind(context: Context, header: Header, chat: BaseChatModel | None) -> Context:
    model = str(header.context.get("model"))
    if model.startswith(LIVE) and chat is None:
        raise Fault("data", f"run {header.run_id} asked the live model {model}: resume it with resume(..., chat=...)")
    return context.model_copy(update={"chat": chat})


class _Outcome(NamedTuple):
    """Where a graph came to: its state, its ending and what that said; no ending while it waits for an answer."""

    state: Any
    ending: str
    message: str


async def _drive(
    graph: AnyGraph, given: Any, context: Context, folder: Path, recorder: Recorder, *, resuming: bool = False
) -> None:
    try:
        with memory_of(graph, folder, context.memory) as store:
            async with aiosqlite.connect(folder / "checkpoints.sqlite") as connection:
                saver = Saver(connection, serde=serializer())
                ready = graph.copy({"checkpointer": saver, "store": store})
                outcome = await _outcome(ready, given, context, folder.name, recorder, resuming=resuming)
        if outcome.ending:
            scores = best_of(outcome.state, await _scores(outcome.state, context))
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


async def _scores(state: Any, context: Context) -> Scores | None:
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


def _run_id(graph: str, task: Task) -> str:
    slug = "".join(c if c.isalnum() else "-" for c in f"{graph}-{task.benchmark}-{task.id}")[:60]
    return f"{datetime.datetime.now():%Y%m%d-%H%M%S}-{slug}-{uuid.uuid4().hex[:4]}"


def _blocking(coroutine: Coroutine[Any, Any, T]) -> T:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(coroutine)
    return wait_for(coroutine)  # inside a notebook
