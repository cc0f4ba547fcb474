"""Driving one run: stream the graph, name its ending, have it scored, and close the worlds that it opened."""

import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from langgraph.types import StateSnapshot

from certigraph.adapters.context import Context
from certigraph.adapters.faults.again import begun_again
from certigraph.adapters.models.billing import billed_to
from certigraph.adapters.models.call_log import logged_by
from certigraph.adapters.models.redact import redact_message
from certigraph.evaluation.consistency import check_consistency
from certigraph.evaluation.keeping import opened
from certigraph.evaluation.recorder import Recorder
from certigraph.evaluation.settings import AnyGraph, graph_module
from certigraph.evaluation.sound import lacks_space, no_space
from certigraph.evaluation.worlds import live_scores, own_worlds, rebuild
from certigraph.state.endings import Fault, Stopped
from certigraph.state.lessons import best_of
from certigraph.state.trajectory import Event, Footer, Resumed, total

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
