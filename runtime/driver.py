"""The driver: stream a graph, name its ending, score it and close its worlds."""

import traceback
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from langgraph.runtime import Runtime
from langgraph.types import StateSnapshot

from certigraph.adapters.benchmarks import in_world
from certigraph.adapters.episodes import Episode, live_episode, new_scope
from certigraph.adapters.faults import begun_again
from certigraph.adapters.models.usage import billed_to, logged_by
from certigraph.adapters.protocols import Context
from certigraph.adapters.redaction import redact_message
from certigraph.runtime.files import lacks_space, no_space
from certigraph.runtime.recorder import Recorder
from certigraph.runtime.registry import AnyGraph, graph_module
from certigraph.runtime.storage import opened
from certigraph.state.records import Fault, Scores, Stopped, Usage
from certigraph.state.step import best_of
from certigraph.state.trajectory import Event, Footer, Resumed, total

# The live worlds of a run: brought to where its log left them, scored, and closed.


async def rebuild(state: Any, context: Context) -> None:
    """The world as the log left it, before a model is asked: one that changed since is found out first."""
    if "episode" in state:
        await in_world(_live, state["task"], Runtime(context=context), state, context)


async def live_scores(state: Any, context: Context) -> Scores | None:
    """The verdict on the world as the log left it, which is rebuilt where it is no longer live; None without one."""
    if "episode" not in state:
        return None
    try:
        return await in_world(_scored, state["task"], Runtime(context=context), state, context)
    except Exception:  # noqa: BLE001 - of a log that was planted in a checkpoint anything; the run's ending stands
        return None


@asynccontextmanager
async def own_worlds() -> AsyncIterator[None]:
    """Leave the worlds open that are opened inside the block, also after their graph ended, and close them at its end.

    The first graph that runs inside is meant: the episodes of graphs in its nodes close with those graphs.
    """
    scope = new_scope(shared=True)
    try:
        with scope.active():
            yield
    finally:
        await scope.aend()


def _live(state: Any, context: Context) -> Episode:
    return live_episode(state["episode"], state["task"], state["history"], Runtime(context=context))


def _scored(state: Any, context: Context) -> Scores:
    return _live(state, context).score()


# Whether the trajectory and the checkpoints of a run hold the same work.
#
# Every execution of a node leaves a line in the trajectory, written before the checkpoint that holds what it did, and
# an entry in the state's `usage`, whose figures tell executions apart.

FIX = "restore trajectory.jsonl and the checkpoints, or delete the run (`certigraph delete`) and start it again"


def check_consistency(
    run: str, events: Iterable[Event], state: Mapping[str, Any], *, superstep: float = float("inf"), scope: str = ""
) -> None:
    """Make sure that the events of a graph account for its state and, up to a superstep, the state for the events.

    Args:
        run: the run's name, for the message.
        events: those of the run's trajectory that count.
        state: what a checkpoint holds, or what the graph ended with.
        superstep: of the checkpoint; events after it need not be in the state.
        scope: namespace of the graph, empty for the run's own.

    Raises:
        Fault: ("data") lines or checkpoints are missing; the message names their nodes.
    """
    within = [e for e in events if e.update is not None and _is_within(e.scope, scope)]
    kept = [e.usage for e in within if e.scope == scope and e.superstep <= superstep]
    stored: list[Usage] = state.get("usage", [])
    if lost := _difference(stored, [e.usage for e in within]):
        raise Fault("data", f"the trajectory of run {run} lacks lines that its state builds on: {lost}; {FIX}")
    if lost := _difference(kept, stored):
        raise Fault("data", f"the checkpoints of run {run} lack steps that its trajectory has: {lost}; {FIX}")


def _is_within(scope: str, outer: str) -> bool:
    return not outer or scope == outer or scope.startswith(f"{outer}|")


def _difference(usages: Iterable[Usage], others: Iterable[Usage]) -> str:
    """The nodes whose executions are among the first and not among the others."""
    left = Counter(map(_figures, others))
    missing = Counter[str]()
    for usage in usages:
        figures = _figures(usage)
        if left[figures]:
            left[figures] -= 1
        else:
            missing[usage.node] += 1
    return ", ".join(f"{count} of {node}" for node, count in sorted(missing.items()))


def _figures(usage: Usage) -> tuple[float, ...]:
    """What tells executions apart; the name of a node does not, and may be masked in a trajectory."""
    return usage.calls, usage.input_tokens, usage.output_tokens, usage.usd, usage.seconds


# Driving one run: stream the graph, name its ending, have it scored, and close the worlds that it opened.

SUPERSTEPS_PER_STEP = 300
"""Room for retries, replans and simulations around one world step. Budgets end a run long before it is used up."""

ANEW = "restore them, or start the run anew with `certigraph run`"

INTERRUPT = "__interrupt__"
"""LangGraph's mark of a graph that waits for an answer."""


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
    async with own_worlds():
        async with opened(graph, folder, context, resuming=resuming) as (saver, store):
            ready = graph.copy({"checkpointer": saver, "store": store})
            outcome = await _outcome(ready, given, context, folder.name, recorder, resuming=resuming)
        if outcome.ending:
            scores = best_of(outcome.state, await live_scores(outcome.state, context))
            usage = recorder.trajectory.usage
            message = redact_message(outcome.message)
            recorder.write(Footer(ending=outcome.ending, message=message, scores=scores, usage=usage))


async def _outcome(
    graph: AnyGraph, given: Any, context: Context, thread: str, recorder: Recorder, *, resuming: bool
) -> _Outcome:
    limits = context.limits or context.benchmark.limits
    config: Any = {
        "configurable": {"thread_id": thread},
        "callbacks": context.callbacks,
        "recursion_limit": SUPERSTEPS_PER_STEP * (limits.steps + 1) * limits.trials,
    }
    if resuming:
        given = await _checkpointed(graph, config, given, recorder)
        before = recorder.trajectory
        # no checkpoint holds it, and it was paid for: a run that was killed is granted no more than one that was not
        lost = total(e.usage for e in before.superseded).spent()
        context = begun_again(context, before.resumes).model_copy(update={"lost": lost})
    state, ending, message = await _stream(graph, given, config, context, recorder)
    events = recorder.trajectory.events
    superstep = float("inf")
    try:
        if state is None:
            snapshot = await graph.aget_state(config)
            if not ending and snapshot.next:
                return _Outcome(snapshot.values, "", message)  # it waits for an answer
            state = snapshot.values
            # the checkpoint of the superstep that was at work is not there, those before it are
            superstep = max((event.superstep for event in events if not event.scope), default=0) - 1
        check_consistency(thread, events, state, superstep=superstep)
    except Fault as fault:  # no score where the server of the checkpoints is away, or something is missing in them
        return _Outcome({}, *((ending, message) if ending.startswith("error:") else (fault.ending, str(fault))))
    if ending:
        return _Outcome(state, ending, message)
    module = graph_module(graph.name)
    return _Outcome(state, module.ending(state), module.message(state) if hasattr(module, "message") else "")


async def _stream(graph: AnyGraph, given: Any, config: Any, context: Context, recorder: Recorder) -> _Outcome:
    """Run the graph: the state it came to at its end, or what stopped it; neither while it waits for an answer."""
    state, waits = None, False
    try:
        if given is None:
            await rebuild((await graph.aget_state(config)).values, context)
        # a step is not begun before a server has the last one; a file has it at once
        durability: Literal["sync", "async"] = "sync" if context.checkpoints else "async"
        with billed_to(recorder.bill), logged_by(partial(recorder.begin_call, most=context.budget.calls)):
            states: Any = graph.astream(given, config, context=context, stream_mode="values", durability=durability)
            async for state in states:
                waits = waits or INTERRUPT in state
    except Stopped as stopped:
        return _Outcome(None, stopped.ending, str(stopped))
    except Exception as error:  # noqa: BLE001 - an operator is anybody's code: its failure is an ending, not a crash
        if lacks_space(error):
            return _Outcome(None, "error:data", str(no_space(recorder.path.parent)))
        return _Outcome(None, "error:operator", f"{type(error).__name__}: {error} ({_where(error)})")
    return _Outcome(None if waits else state, "", "")


def _where(error: Exception) -> str:
    """The line of code that raised, by file name: a trajectory holds no paths."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}"


async def _checkpointed(graph: AnyGraph, config: Any, given: Any, recorder: Recorder) -> Any:
    """What to hand the graph to go on: nothing when there is a checkpoint, else the task again.

    Raises:
        Fault: ("data") the checkpoints cannot be read.
    """
    thread, saver = config["configurable"]["thread_id"], cast(Any, graph.checkpointer)
    try:
        await saver.prepare_resume(thread)
        snapshot = await graph.aget_state(config, subgraphs=True)
        step = (snapshot.metadata or {}).get("step", -1)
        resumed = Resumed(superstep=step, scopes=await saver.inner_steps(thread))
        kept = [event for event in recorder.trajectory.events if resumed.keeps(event)]
        _check_snapshot(thread, snapshot, kept)
    except Stopped:
        raise
    except Exception as error:  # whatever LangGraph makes of rows that are spoilt or that somebody planted
        told = redact_message(f"{type(error).__name__}: {error}")
        raise Fault("data", f"the checkpoints of run {thread} cannot be read ({told!r:.200}): {ANEW}") from error
    recorder.write(resumed)
    return None if snapshot.values else given


def _check_snapshot(run: str, snapshot: StateSnapshot, kept: Sequence[Event], scope: str = "") -> None:
    """Check a checkpoint and those of graphs at work inside its nodes. Raises Fault as `check_consistency` does."""
    check_consistency(run, kept, snapshot.values, scope=scope)
    for task in snapshot.tasks:
        if isinstance(task.state, StateSnapshot):
            inner = task.state.config["configurable"]["checkpoint_ns"]
            _check_snapshot(run, task.state, kept, inner)
