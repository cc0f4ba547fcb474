"""Position of a graph in the graphs around it: equal after a replay or a fork, another one for every new request.

LangGraph names the run of a nested graph by a task id that a replay changes. What a replay keeps are the ancestors of
the checkpoints: the input that a turn began with, how often a node ran since, and which `Send` started it. The position
is made of them. All of it is read from the ambient configuration, whatever the caller of the nested graph passes on.
"""

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.serde.types import TASKS
from langgraph.constants import START
from langgraph.pregel import _algo as algorithm
from langgraph.types import Send

from certigraph.adapters.processes import is_invoked, run_in_thread
from certigraph.state.endings import Fault

CHECKPOINTER_KEY = "__pregel_checkpointer"
"""Key under which LangGraph keeps a run's checkpointer in `configurable`."""

DURABILITY_KEY = "__pregel_durability"
"""Key under which LangGraph keeps the durability that the caller of the outermost graph chose, if the caller did."""

CALL_KEY = "__certigraph_call"
"""Key in `configurable`: the call of a tool in which a graph runs, as an `OuterCall`."""

FORK_KEY = "__certigraph_fork"
"""Key in `configurable`: the checkpoint from which the caller begins a turn, if it is not the latest one."""

FRESH_KEY = "__certigraph_fresh"
"""Key in `configurable`: whether the run of the outermost graph begins a turn, of which nothing was entered before."""

SCRATCHPAD_KEY = "__pregel_scratchpad"
"""Key under which LangGraph counts what one run of a node does."""

CHECKPOINTS_KEY, NAMESPACE_KEY = "checkpoint_map", "checkpoint_ns"
"""Keys in `configurable`: checkpoints of the graphs around a node by namespace, and the namespace of the node."""

TASK_KEY = "__pregel_task_id"
"""Key in `configurable`: id of the run of a node."""

PUSH = "__pregel_push"
"""Part of the id of a task that `Send` started."""

COORDINATES = ("thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map")
"""Keys in `configurable` by which a caller gives a nested graph checkpoints of its own: it is an outermost one then."""

RUNTIME_KEY = "__pregel_runtime"
"""Key under which LangGraph keeps a run's runtime in `configurable`."""

SAVE_SECONDS = 30.0
"""Seconds for which a checkpoint that LangGraph saves in the background is awaited."""


MAX_KNOWN = 20_000
"""Number of facts about one checkpointer that are kept in memory."""

_KNOWN: WeakKeyDictionary[BaseCheckpointSaver[Any], dict[tuple[str, ...], Any]] = WeakKeyDictionary()


def known_of(saver: BaseCheckpointSaver[Any]) -> dict[tuple[str, ...], Any]:
    """Return what this process knows of a checkpointer and what does not change, such as that a checkpoint is saved."""
    try:
        known = _KNOWN.setdefault(saver, {})
    except TypeError:  # a checkpointer without a hash
        return {}
    if len(known) > MAX_KNOWN:
        known.clear()
    return known


async def use_saver(saver: BaseCheckpointSaver[Any], method: str, *args: Any) -> Any:
    """Call a method of a checkpointer: the synchronous one if the graph was invoked, since it may lack the other."""
    if is_invoked():
        return await run_in_thread(getattr(saver, method), *args)
    return await getattr(saver, f"a{method}")(*args)


def require_checkpointer(purpose: str, config: RunnableConfig) -> None:
    """Check that the graph of a node has a checkpointer, without which nobody could resume it after an interrupt.

    Raises:
        Fault: ("operator") it has none.
    """
    if not config.get("configurable", {}).get(CHECKPOINTER_KEY):
        fix = "give the outermost graph one: agent(..., checkpointer=InMemorySaver(serde=certigraph.serializer()))"
        raise Fault("operator", f"{purpose} interrupts the run, which needs a checkpointer to go on: {fix}")


class OuterCall(NamedTuple):
    """The call of a tool in which a graph runs."""

    namespace: str
    """Namespace of the node that makes the call."""
    key: str
    """What identifies the call: its key in the ledger."""


GRAPHS_PER_CALL = 1_000
"""How many numbers LangGraph's names of nested graphs have for each call of an action."""


@contextmanager
def inside_call(config: RunnableConfig, key: str, number: int) -> Iterator[RunnableConfig]:
    """Let graphs that a tool invokes know the call in which they run; yield the configuration of the call.

    LangGraph numbers the graphs that one run of a node invokes. A resumed node does not repeat the calls that have
    ended, so that each call has numbers of its own.

    Args:
        config: configuration of the node that makes the call.
        key: what identifies the call.
        number: a number that no other call of this run of the node has.
    """
    configurable = config.get("configurable", {})
    changes: dict[str, Any] = {CALL_KEY: OuterCall(configurable.get(NAMESPACE_KEY, ""), key)}
    if scratchpad := configurable.get(SCRATCHPAD_KEY):
        numbers = count(number * GRAPHS_PER_CALL).__next__
        changes[SCRATCHPAD_KEY] = dataclasses.replace(scratchpad, subgraph_counter=numbers)
    inner: RunnableConfig = {**config, "configurable": {**configurable, **changes}}
    token = var_child_runnable_config.set(inner)
    try:
        yield inner
    finally:
        var_child_runnable_config.reset(token)


def has_answers(config: RunnableConfig) -> bool:
    """Return whether a node goes on after an interrupt with an answer, or whether some node of the run does."""
    scratchpad = config.get("configurable", {}).get(SCRATCHPAD_KEY)
    return scratchpad is None or bool(scratchpad.resume) or scratchpad.get_null_resume(False) is not None


def is_sent(config: RunnableConfig) -> bool:
    """Return whether `Send` started the run of a node, as `create_agent` starts one for each call of a response."""
    path = (config.get("metadata") or {}).get("langgraph_path")
    return bool(path and path[0] == PUSH)


_INVOKED: WeakKeyDictionary[Callable[..., Any], dict[int, list[int]]] = WeakKeyDictionary()
"""Numbers of the graphs that each attempt of a node invoked, by an object that LangGraph makes for each task."""

_LOCK = Lock()


def with_place(config: RunnableConfig | None, *, begins: bool) -> RunnableConfig | None:
    """Return the configuration of a graph's run with what tells apart where it runs.

    LangGraph numbers the graphs that a node invokes, and goes on counting where the node is retried by a
    `retry_policy`. A graph that had ended would begin again; here, a retried node resumes the graphs of its first
    attempt.

    Args:
        config: the configuration that the caller gave.
        begins: whether the caller gave an input, and thus begins a turn.
    """
    given = (config or {}).get("configurable") or {}
    ambient = (var_child_runnable_config.get() or {}).get("configurable") or {}
    place = given if any(map(given.get, COORDINATES)) else {**ambient, **given}
    if TASK_KEY not in place and begins:
        fork = given.get("checkpoint_id")
        # a server gives its checkpointer, and the input once more where it goes on with a run
        may_go_on = CHECKPOINTER_KEY in place or "run_id" in ((config or {}).get("metadata") or {})
        began = {FORK_KEY: fork} if fork else {FRESH_KEY: not may_go_on}
        return {**(config or {}), "configurable": {**given, **began}}
    scratchpad, info = place.get(SCRATCHPAD_KEY), getattr(place.get(RUNTIME_KEY), "execution_info", None)
    if scratchpad is None or info is None:
        return config
    with _LOCK:
        number = scratchpad.subgraph_counter()
        attempts = _INVOKED.setdefault(scratchpad.get_null_resume, {})
        attempts.setdefault(info.node_attempt, []).append(number)
        before, now = attempts[min(attempts)], attempts[info.node_attempt]
    if len(now) <= len(before):
        number = before[len(now) - 1]
    alike = dataclasses.replace(scratchpad, subgraph_counter=lambda: number)
    return {**(config or {}), "configurable": {**given, SCRATCHPAD_KEY: alike}}


_CALLED: WeakKeyDictionary[Callable[..., Any], Counter[str]] = WeakKeyDictionary()
"""How often each attempt of a node made equal calls of tools, by such an object."""


def number_in_node(config: RunnableConfig, what: str) -> int:
    """Return how often the running attempt of a node has asked for this number before.

    Args:
        config: configuration of the node.
        what: what is counted.
    """
    place = config.get("configurable", {})
    scratchpad, info = place.get(SCRATCHPAD_KEY), getattr(place.get(RUNTIME_KEY), "execution_info", None)
    if scratchpad is None:
        return 0
    with _LOCK:
        counted = _CALLED.setdefault(scratchpad.get_null_resume, Counter())
        counted[key := f"{getattr(info, 'node_attempt', 1)}|{what}"] += 1
        return counted[key] - 1


class _Level(NamedTuple):
    """A graph around a node, and the node in it that leads inwards."""

    graph: str
    """Namespace of the graph."""
    node: str
    task: str
    """Id of the run of the node; empty if its graph keeps its state between runs."""
    calls: str
    """Which of the graphs that the node invokes it is; empty for the first one."""


async def find_node_position(config: RunnableConfig) -> str:
    """Return the position of the run of a node in its graph, as `find_position` returns that of the graph."""
    place = config.get("configurable", {})
    inside = {**place, NAMESPACE_KEY: f"{place.get(NAMESPACE_KEY, '')}|"}
    return await find_position({**config, "configurable": inside})


async def find_position(config: RunnableConfig) -> str:
    """Return the position of the graph whose node runs, which begins with the id of the turn and a colon.

    The turn is that of the outermost graph: the checkpoint of the input that it began with. An input that is given
    again at an earlier checkpoint, as when somebody edits a message, belongs to the turn that began there first.

    Args:
        config: configuration of the node.

    Returns:
        The position; empty without a checkpointer.

    Raises:
        Fault: ("environment") a checkpoint of a graph around it is not saved.
    """
    configurable = config.get("configurable", {})
    saver, checkpoints = configurable.get(CHECKPOINTER_KEY), configurable.get(CHECKPOINTS_KEY, {})
    if not isinstance(saver, BaseCheckpointSaver) or not configurable.get("thread_id"):
        return ""
    thread, levels = str(configurable["thread_id"]), _levels_of(configurable.get(NAMESPACE_KEY, ""))
    outer: OuterCall | None = configurable.get(CALL_KEY)
    if outer:  # what is around the call is in its key
        around = len(_levels_of(f"{outer.namespace}|"))
        position, levels = f"{outer.key}{levels[around - 1].calls}", levels[around:]
    elif "" in checkpoints:
        begin = await _find_begin(saver, thread, "", checkpoints[""])
        fork = configurable.get(FORK_KEY)
        position = f"{await _first_turn_from(saver, thread, fork, begin) if fork else begin}:"
    else:
        position = f"{levels[0].task if levels else thread}:"
    for level in levels:
        if level.graph not in checkpoints:  # a task of LangGraph's functional interface
            position += f"/{level.node}@{level.task}{level.calls}"
            continue
        run = await _find_run(saver, thread, level, checkpoints[level.graph])
        which = "" if run.sent is None else f".{run.sent}"
        position += f"/{level.node}@{run.runs}.{run.sends}{which}{level.calls}"
    return position


def turn_of(position: str) -> str:
    """Return the id of the turn with which a position begins, or what begins with a position."""
    return position.partition(":")[0]


async def _find_begin(saver: BaseCheckpointSaver[Any], thread: str, namespace: str, checkpoint: str) -> str:
    """Return the checkpoint in which the turn of a graph began."""
    known, passed = known_of(saver), list[tuple[str, ...]]()
    while (place := ("begin", thread, namespace, checkpoint)) not in known:
        found = await await_checkpoint(saver, thread, namespace, checkpoint)
        before, turn = _parent_of(found), ("turn", thread, namespace, _version_of_input(found))
        passed += [place, turn] if turn[-1] else [place]
        if turn in known:
            known[place] = known[turn]
        elif found.metadata.get("source") == "input" or not before:
            known[place] = str(found.checkpoint["id"])
        else:
            checkpoint = before
    begin = str(known[place])
    known.update(dict.fromkeys(passed, begin))
    return begin


def _version_of_input(found: CheckpointTuple) -> str:
    """Return the version of the latest input that a checkpoint descends from; empty if it does not identify it.

    The checkpointers of LangGraph make versions of a number and a random part. In one without a random part, two turns
    that began at the same checkpoint may have equal versions.
    """
    version = found.checkpoint["channel_versions"].get(START)
    return version if isinstance(version, str) and "." in version else ""


def _parent_of(found: CheckpointTuple) -> str:
    return str((found.parent_config or {}).get("configurable", {}).get("checkpoint_id", ""))


async def _first_turn_from(saver: BaseCheckpointSaver[Any], thread: str, fork: str, begin: str) -> str:
    """Return where the first turn from a checkpoint began: in it, if it is that of an input, or right after it."""
    place: RunnableConfig = {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
    inputs = await list_checkpoints(saver, place, {"source": "input"})
    return min(
        (one.checkpoint["id"] for one in inputs if fork in (one.checkpoint["id"], _parent_of(one))), default=begin
    )


async def list_checkpoints(
    saver: BaseCheckpointSaver[Any], place: RunnableConfig, wanted: dict[str, Any]
) -> list[CheckpointTuple]:
    """Return the checkpoints of a thread and namespace with certain metadata; none if the saver cannot list them."""
    try:
        if is_invoked():
            return await run_in_thread(lambda: list(saver.list(place, filter=wanted)))
        return [one async for one in saver.alist(place, filter=wanted)]
    except NotImplementedError:
        return []


def _levels_of(namespace: str) -> list[_Level]:
    *around, _ = namespace.split("|")
    levels: list[_Level] = []
    for index, part in enumerate(around):
        if part.isdigit() and levels:
            levels[-1] = levels[-1]._replace(calls=f"{levels[-1].calls}|{part}")
        else:
            node, _, task = part.partition(":")
            levels.append(_Level("|".join(around[:index]), node, task, ""))
    return levels


class _Run(NamedTuple):
    """A run of a node within a turn of its graph."""

    runs: int
    """How often edges started the node since."""
    sends: int
    """In how many steps it was started by `Send` since."""
    sent: int | str | None
    """Number of the `Send` that started this run; None if an edge did."""


async def _find_run(saver: BaseCheckpointSaver[Any], thread: str, level: _Level, checkpoint: str) -> _Run:
    latest = found = await await_checkpoint(saver, thread, level.graph, checkpoint)
    seen, sends, edited = set[str](), 0, False
    while True:
        if versions := found.checkpoint["versions_seen"].get(level.node):
            seen.add(repr(sorted(versions.items())))
        # an edit is a checkpoint of its own, which waits for what the edited one was to do
        sends += bool(_sends_to(level.node, found)) and not edited
        edited = found.metadata.get("source") in ("update", "fork")
        before = _parent_of(found)
        if found.metadata.get("source") == "input" or not before:
            return _Run(len(seen), sends, _number_of_send(level, latest))
        found = await await_checkpoint(saver, thread, level.graph, before)


def _sends_to(node: str, found: CheckpointTuple) -> list[tuple[int, Send]]:
    sends = enumerate(found.checkpoint["channel_values"].get(TASKS, ()))
    return [(number, send) for number, send in sends if send.node == node]


def _number_of_send(level: _Level, found: CheckpointTuple) -> int | str | None:
    """Return the number of the `Send` that started a task: the one of which LangGraph makes the id of the task.

    None if an edge started it, and the id itself if `Send`s to the node are waiting and none of them has it.
    """
    sends = _sends_to(level.node, found)
    namespace = "|".join(filter(None, (level.graph, level.node)))
    step = str(found.metadata.get("step", -2) + 1)
    checkpoint = bytes.fromhex(found.checkpoint["id"].replace("-", ""))
    for number, _ in sends:
        if algorithm._xxhash_str(checkpoint, namespace, step, level.node, PUSH, str(number)) == level.task:
            return number
    return level.task if sends else None


async def await_saved(saver: BaseCheckpointSaver[Any], thread: str, namespace: str, checkpoint: str) -> None:
    """Wait until a checkpoint is saved.

    Raises:
        Fault: ("environment") it is not saved within `SAVE_SECONDS`.
    """
    if ("saved", thread, namespace, checkpoint) not in known_of(saver):
        await await_checkpoint(saver, thread, namespace, checkpoint)


async def await_checkpoint(
    saver: BaseCheckpointSaver[Any], thread: str, namespace: str, checkpoint: str
) -> CheckpointTuple:
    """Return a checkpoint as soon as it is saved.

    Raises:
        Fault: ("environment") it is not saved within `SAVE_SECONDS`.
    """
    stateful = "|".join(part.partition(":")[0] for part in namespace.split("|"))
    loop = asyncio.get_running_loop()
    deadline, pause = loop.time() + SAVE_SECONDS, 0.001
    while True:
        for name in dict.fromkeys((namespace, stateful)):  # a graph with `checkpointer=True` has no task ids
            place = {"thread_id": str(thread), "checkpoint_ns": name, "checkpoint_id": checkpoint}
            found: CheckpointTuple | None = await use_saver(saver, "get_tuple", {"configurable": place})
            if found is not None:
                known_of(saver)["saved", thread, namespace, checkpoint] = True
                return found
        if loop.time() > deadline:
            reason = f"the checkpoint before a call was not saved within {SAVE_SECONDS:g} seconds"
            raise Fault(
                "environment", f"{reason}, so that its effect might happen twice: invoke with durability='sync'"
            )
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.1)
