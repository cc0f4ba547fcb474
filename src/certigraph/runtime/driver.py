"""The driver: run a graph to its ending, name the ending, score the run and close its worlds.

`drive_run` does all of it for one run. `check_consistency` compares the trajectory with the checkpoints, so that a run
whose files are incomplete is never scored or resumed.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from langgraph.errors import GraphRecursionError
from langgraph.runtime import Runtime
from langgraph.types import Command, StateSnapshot
from pydantic import JsonValue

from certigraph.adapters.benchmarks import call_world, live_benchmark
from certigraph.adapters.episodes import LiveEpisode, live_episode, new_scope
from certigraph.adapters.faults import restarted_context
from certigraph.adapters.models.exchanges import use_exchange_log
from certigraph.adapters.models.usage import UsageReceiver, send_usage_to, use_call_log
from certigraph.adapters.protocols import Context, Limits
from certigraph.adapters.redaction import redact_message
from certigraph.adapters.tools.world import Tools
from certigraph.adapters.user_warnings import error_location
from certigraph.graphs.agent import AgentGraph
from certigraph.graphs.assembly import EpisodicGraph, method_of, operators_of
from certigraph.nodes.specs import Spec
from certigraph.runtime.approvals import find_questions, match_answers
from certigraph.runtime.conversation_log import ConversationLog
from certigraph.runtime.files import disk_full_fault, is_disk_full
from certigraph.runtime.graph_sources import (
    AnyGraph,
    NamedEnding,
    ending_of,
    input_of,
    meter_own_nodes,
    own_nodes_of,
    score_own,
)
from certigraph.runtime.outside_runs import context_for, is_outside_agent, load_tools_of
from certigraph.runtime.recorder import Recorder
from certigraph.runtime.registry import GRAPHS, graph_module
from certigraph.runtime.storage import open_storage
from certigraph.state.endings import FINISHED, Fault, LimitReached, Stopped
from certigraph.state.records import Action, Scores, Task, Usage
from certigraph.state.step import best_scores
from certigraph.state.tools import name_ending
from certigraph.state.trajectory import Event, Footer, Resumed, total_usage

# Worlds of a run: rebuild, score and close them.


async def rebuild_world(state: Any, context: Context) -> None:
    """Rebuild the world of a state by repeating its logged actions.

    A world that has changed since is thus detected before any model is called.
    """
    if "episode" in state:
        await call_world(_live_world, state["task"], Runtime(context=context), state, context)


async def score_world(state: Any, context: Context) -> Scores | None:
    """Score the world of a state; None if the state has no world. A world that is no longer open is rebuilt.

    Raises:
        Fault: the world failed, or returned something else than scores.
    """
    if "episode" not in state:
        return None
    try:
        return await call_world(_score_live_world, state["task"], Runtime(context=context), state, context)
    except Fault:
        raise
    except Exception:  # noqa: BLE001 - a manipulated checkpoint may raise anything; the ending of the run is kept
        return None


@asynccontextmanager
async def keep_worlds_open() -> AsyncIterator[None]:
    """Context manager that keeps the worlds opened inside it open until its end, even if their graph ends earlier.

    This holds for the first graph that runs inside it. Graphs inside that graph's nodes close their worlds themselves.
    """
    scope = new_scope(shared=True)
    try:
        with scope.active():
            yield
    finally:
        await scope.aend()


def _live_world(state: Any, context: Context) -> LiveEpisode:
    return live_episode(state["episode"], state["task"], state["history"], Runtime(context=context))


def _score_live_world(state: Any, context: Context) -> Scores:
    return _live_world(state, context).score()


# Consistency of trajectory and checkpoints. Every execution of a node leaves a line in the trajectory, written before
# the checkpoint, and an entry in the state's `usage`, whose numbers distinguish executions.

RESTORE_ADVICE = (
    "restore trajectory.jsonl and the checkpoints, or delete the run (`certigraph delete`) and start it again"
)
"""Advice in error messages about a trajectory and checkpoints that do not fit together."""


def check_consistency(
    run: str, events: Iterable[Event], state: Mapping[str, Any], *, superstep: float = float("inf"), scope: str = ""
) -> None:
    """Check that trajectory and state contain the same executions of graph nodes.

    Every execution in the state must be in the trajectory, and every recorded one up to `superstep` in the state.

    Args:
        run: the name of the run, for the message.
        events: the events of the trajectory, without those whose work was done again after a resume.
        state: the state in a checkpoint, or the final state of the graph.
        superstep: the superstep of the checkpoint; later events need not be in the state.
        scope: the namespace of the graph; empty for the outermost graph of the run.

    Raises:
        Fault: ("data") lines or checkpoints are missing; the message names the nodes.
    """
    scoped = [e for e in events if e.update is not None and _is_within(e.scope, scope)]
    recorded = [e.usage for e in scoped if e.scope == scope and e.superstep <= superstep]
    stored: list[Usage] = state.get("usage", [])
    if missing := _missing_executions(stored, [e.usage for e in scoped]):
        raise Fault(
            "data", f"the trajectory of run {run} lacks lines that its state builds on: {missing}; {RESTORE_ADVICE}"
        )
    if missing := _missing_executions(recorded, stored):
        raise Fault(
            "data", f"the checkpoints of run {run} lack steps that its trajectory has: {missing}; {RESTORE_ADVICE}"
        )


def _is_within(scope: str, outer: str) -> bool:
    return not outer or scope == outer or scope.startswith(f"{outer}|")


def _missing_executions(usages: Iterable[Usage], others: Iterable[Usage]) -> str:
    """List the executions in `usages` that are not in `others`, as a text with one count for each node."""
    left = Counter(map(_usage_key, others))
    missing = Counter[str]()
    for usage in usages:
        figures = _usage_key(usage)
        if left[figures]:
            left[figures] -= 1
        else:
            missing[usage.node] += 1
    return ", ".join(f"{count} of {node}" for node, count in sorted(missing.items()))


def _usage_key(usage: Usage) -> tuple[float, ...]:
    # Without the name of the node, which may be masked in a trajectory.
    return usage.calls, usage.input_tokens, usage.output_tokens, usage.usd, usage.seconds


# Driving one run.

MAX_SUPERSTEPS_PER_STEP = 300
"""Maximum number of LangGraph supersteps for each world step, such as retries and replans.

A budget ends a run long before this limit does.
"""

SUPERSTEPS_PER_ROUND = 12
"""Maximum number of LangGraph supersteps of one simulation, one sub-task with its revision, or one round."""

RESTART_ADVICE = "restore them, or start the run again with `certigraph run`"
"""Advice in the error message about checkpoints that cannot be read."""

INTERRUPT_KEY = "__interrupt__"
"""LangGraph's state key for a graph that waits for an answer from outside (`interrupt`)."""


class _GraphOutcome(NamedTuple):
    """Final state of a graph, with the ending and message of its run.

    The ending is empty while the graph waits for an answer from outside. It is FINISHED if the graph reached its end
    and the method's own ending has yet to be found.
    """

    state: Any
    ending: str
    message: str


async def drive_run(
    graph: AnyGraph,
    task: Task,
    context: Context,
    folder: Path,
    recorder: Recorder,
    *,
    resuming: bool = False,
    answer: JsonValue = None,
) -> None:
    """Run a graph from its input, or from its last checkpoint, to an ending, and write the trajectory's footer.

    Args:
        graph: the compiled graph.
        task: the task, the input of the graph.
        context: model, budget, limits and benchmark.
        folder: the folder of the run; its name is the thread id.
        recorder: the recorder of the trajectory, which has a header already.
        resuming: whether the run was started before.
        answer: the answer to the question for which the run waits; None if it waits for none.

    Raises:
        Fault: ("data") the checkpoints cannot be read, or the answer is not one to the run's questions. The run stays
            as it was.
    """
    async with keep_worlds_open():
        async with open_storage(graph, folder, context, resuming=resuming) as (saver, store):
            stores = (graph.store, store) if isinstance(graph, AgentGraph) else (store, graph.store)
            ready = graph.copy({"checkpointer": saver, "store": next(filter(None, stores), None)})
            if not _is_shipped(graph):
                spent = lambda: recorder.trajectory.usage.spent()  # noqa: E731, PLW0108 - grows
                ready = meter_own_nodes(ready, context.budget, spent)
            log = _create_log(graph, context)
            outcome = await _run_graph(
                ready, task, context, folder.name, recorder, log, resuming=resuming, answer=answer
            )
        if outcome.ending:
            scores, problem = await _score_run(graph, outcome.state, task, context, log.actions if log else ())
            ending, message = outcome.ending, outcome.message
            if ending == FINISHED and problem:
                ending, message = problem.ending, str(problem)
            elif ending == FINISHED:
                ending, message = _name_ending(graph, outcome.state, None if log else scores)
                if isinstance(live_benchmark(context), Tools):
                    ending = name_ending(ending, outcome.state.get("history", ()), judged=True)  # by the score
            usage = recorder.trajectory.usage
            recorder.write(Footer(ending=ending, message=redact_message(message), scores=scores, usage=usage))


async def _score_run(
    graph: AnyGraph, state: Any, task: Task, context: Context, recorded: Sequence[Action]
) -> tuple[Scores | None, Fault | None]:
    """Return the scores of a run, and the failure of its world if the run cannot be scored.

    If a user's own graph did not act in the run's world, its recorded calls are scored, and what it left in its state.
    """
    try:
        if method_of(graph) and isinstance(found := state.get("scores"), Scores):  # by the node `result`
            return found, None
        live = await score_world(state, context)
        if method_of(graph):
            return best_scores(state, live), None
        return live or await score_own(state, task, context, recorded), None
    except Fault as fault:
        return (best_scores(state, None) if method_of(graph) else None), fault
    except Exception:  # noqa: BLE001 - as in `score_world`: the ending of the run is kept
        return None, None


def _name_ending(graph: AnyGraph, state: Any, scores: Scores | None) -> NamedEnding:
    if not _is_shipped(graph):
        return ending_of(graph, state, scores)
    module = graph_module(graph.name)
    return NamedEnding(module.ending(state), module.message(state) if hasattr(module, "message") else "")


async def _run_graph(
    graph: AnyGraph,
    task: Task,
    context: Context,
    thread: str,
    recorder: Recorder,
    log: ConversationLog | None,
    *,
    resuming: bool,
    answer: JsonValue,
) -> _GraphOutcome:
    limits = context.limits or (context.benchmark.limits if context.benchmark else Limits())
    config: Any = {
        "configurable": {"thread_id": thread},
        "callbacks": context.callbacks,
        "recursion_limit": _max_supersteps(graph, limits),
    }
    world = live_benchmark(context)
    try:
        inputs: Any = {"task": task} if _is_shipped(graph) else input_of(graph, task)
        if log and isinstance(world, Tools) and not resuming:
            await call_world(world.begin, task, Runtime(context=context), task)
    except Fault as fault:
        return _GraphOutcome({}, fault.ending, str(fault))
    if resuming:
        inputs = await _prepare_input(graph, config, inputs, recorder, answer)
        before = recorder.trajectory
        # Superseded work is in no checkpoint but was paid for: it counts against the budget of the resumed run.
        superseded_usage = total_usage(e.usage for e in before.superseded).spent()
        context = restarted_context(context, before.resumes).model_copy(update={"lost": superseded_usage})
    state, ending, message = await _stream_graph(graph, inputs, config, context, recorder, log)
    if isinstance(inputs, Command) and ending == "error:data":
        await _check_answer_used(graph, config, inputs, recorder, message)
    events = recorder.trajectory.events
    superstep = float("inf")
    try:
        if state is None:
            snapshot = await graph.aget_state(config)
            if not ending and snapshot.next:
                for question in find_questions(snapshot):
                    recorder.write(question)
                return _GraphOutcome(snapshot.values, "", message)  # the graph waits for an answer
            state = snapshot.values
            # The superstep that was stopped has no checkpoint; all supersteps before it have one.
            superstep = max((event.superstep for event in events if not event.scope), default=0) - 1
        if _counts_usage(graph):
            check_consistency(thread, events, state, superstep=superstep)
    except Fault as fault:  # checkpoints that are unreachable or incomplete are not scored
        return _GraphOutcome({}, *((ending, message) if ending.startswith("error:") else (fault.ending, str(fault))))
    return _GraphOutcome(state, ending or FINISHED, message)


def _max_supersteps(graph: AnyGraph, limits: Limits) -> int:
    """Return the number of supersteps that no run within its limits needs: LangGraph stops a graph that takes more."""
    bounds, specs = limits.effective(), operators_of(graph).values()
    counts = [Spec.model_validate(spec).args.get("simulations") for spec in specs]
    simulations = sum(count for count in counts if isinstance(count, int))
    each = MAX_SUPERSTEPS_PER_STEP + SUPERSTEPS_PER_ROUND * simulations
    others = SUPERSTEPS_PER_ROUND * (bounds.nodes + bounds.revisions + bounds.rounds)
    return (each * (bounds.steps + 1) + others) * bounds.trials


def _counts_usage(graph: AnyGraph) -> bool:
    """Whether the state of a graph lists all node executions.

    Nodes of a user's own do not write the channel `usage`.
    """
    return _is_shipped(graph) or not own_nodes_of(graph)


def _is_shipped(graph: AnyGraph) -> bool:
    # LangGraph's own builder makes the graph of a user's own, whatever its name.
    return graph.name in GRAPHS and isinstance(graph, EpisodicGraph)


async def _stream_graph(
    graph: AnyGraph, inputs: Any, config: Any, context: Context, recorder: Recorder, log: ConversationLog | None
) -> _GraphOutcome:
    """Run the graph. Return its final state, or else the ending that stopped it.

    While the graph waits for an answer from outside, there is neither a state nor an ending.
    """
    state, waits = None, False
    try:
        if inputs is None or isinstance(inputs, Command):
            await rebuild_world((await graph.aget_state(config)).values, context)
        # On a server the next step starts once the last one is saved; a file is written at once.
        # Before a tool of the user is called, the choice of the call is saved.
        saved_first = context.checkpoints or isinstance(live_benchmark(context), Tools)
        durability: Literal["sync", "async"] = "sync" if saved_first else "async"
        with (
            send_usage_to(_usage_receiver(recorder, log)),
            use_call_log(partial(recorder.begin_call, max_calls=context.budget.calls)),
            use_exchange_log(recorder.prompts.keep if recorder.prompts else None),
        ):
            given = context_for(graph, context) if log else context
            states: Any = graph.astream(inputs, config, context=given, stream_mode="values", durability=durability)
            async for state in states:
                waits = waits or INTERRUPT_KEY in state
    except Stopped as stopped:
        return _GraphOutcome(None, stopped.ending, str(stopped))
    except GraphRecursionError:
        taken = max((event.superstep for event in recorder.trajectory.events if not event.scope), default=0)
        happened = f"the graph took {taken} supersteps, more than its limits allow"
        reached = LimitReached("steps", config["recursion_limit"], taken, happened=happened)
        return _GraphOutcome(None, reached.ending, str(reached))
    except Exception as error:  # noqa: BLE001 - an operator is user code: its failure is an ending, not a crash
        if is_disk_full(error):
            return _GraphOutcome(None, "error:data", str(disk_full_fault(recorder.path.parent)))
        return _GraphOutcome(None, "error:operator", f"{type(error).__name__}: {error} ({error_location(error)})")
    return _GraphOutcome(None if waits else state, "", "")


def _create_log(graph: AnyGraph, context: Context) -> ConversationLog | None:
    """Return what makes records of the messages of an agent that was made elsewhere, None for any other graph."""
    world = live_benchmark(context)
    if not (isinstance(world, Tools) and is_outside_agent(graph)):
        return None
    return ConversationLog(load_tools_of(graph, world))


def _usage_receiver(recorder: Recorder, log: ConversationLog | None) -> UsageReceiver:
    """Return what receives the reports of nodes, with records of an agent's messages if there is a log of them."""
    if log is None:
        return recorder.record_usage
    log.recall(recorder.trajectory.events)
    return lambda report: recorder.record_usage(log.extend(report))


async def _prepare_input(graph: AnyGraph, config: Any, inputs: Any, recorder: Recorder, answer: JsonValue) -> Any:
    """Return the input that resumes the graph.

    It is a command with the answers to open questions, None if there is a checkpoint, else the original input.

    Raises:
        Fault: ("data") the checkpoints cannot be read, or the answer is not one to the open questions.
    """
    thread, saver = config["configurable"]["thread_id"], cast(Any, graph.checkpointer)
    waited = bool(recorder.trajectory.questions)
    try:
        await saver.prepare_resume(thread, waited=waited)
        snapshot = await graph.aget_state(config, subgraphs=True)
        step = (snapshot.metadata or {}).get("step", -1)
        answers = {} if answer is None else match_answers(find_questions(snapshot), answer, thread)
        scopes = await saver.inner_steps(thread)
        resumed = Resumed(superstep=step, scopes=scopes, answers=answers, waited=waited)
        events = [event for event in recorder.trajectory.events if resumed.keeps(event)]
        if _counts_usage(graph):
            _check_snapshot(thread, snapshot, events)
    except Stopped:
        raise
    except Exception as error:  # LangGraph may raise anything on corrupted or manipulated rows
        message = redact_message(f"{type(error).__name__}: {error}")
        raise Fault(
            "data", f"the checkpoints of run {thread} cannot be read ({message!r:.200}): {RESTART_ADVICE}"
        ) from error
    recorder.write(resumed)
    if answers:
        return Command(resume=answers)
    return None if snapshot.values else inputs


async def _check_answer_used(
    graph: AnyGraph, config: Any, command: Command[Any], recorder: Recorder, message: str
) -> None:
    """Record the questions again that are still open although they were answered: the answer could not be used.

    Raises:
        Fault: ("data") the answer could not be used; the run waits for another one.
    """
    pending = find_questions(await graph.aget_state(config))
    if still_open := [question for question in pending if question.id in cast(Any, command.resume)]:
        for question in still_open:
            recorder.write(question)
        raise Fault("data", message)


def _check_snapshot(run: str, snapshot: StateSnapshot, events: Sequence[Event], scope: str = "") -> None:
    """Check a checkpoint, and those of the graphs inside its nodes, against the events of the trajectory.

    Raises:
        Fault: as `check_consistency`.
    """
    check_consistency(run, events, snapshot.values, scope=scope)
    for task in snapshot.tasks:
        if isinstance(task.state, StateSnapshot):
            inner = task.state.config["configurable"]["checkpoint_ns"]
            _check_snapshot(run, task.state, events, inner)
