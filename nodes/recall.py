"""The memory of agents that learn between episodes: lessons in LangGraph's Store, one item an episode."""

import math
import time
import uuid
from typing import Any

from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore, SearchItem

from certigraph.adapters.benchmarks import context_of
from certigraph.adapters.context import Context
from certigraph.adapters.loops import off_loop
from certigraph.state.endings import Fault
from certigraph.state.lessons import KEPT, Lesson, RecallView
from certigraph.state.records import Task

Namespace = tuple[str, ...]

PAGE = 1000
"""Items that are read from a store at a time."""


async def recall(state: RecallView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Read the latest lessons about the task, oldest first; a memory of your own need not store what it returns."""
    items = await _items(store_of(runtime), namespace(state["task"], runtime))
    run = _run(runtime)
    # The store may be ahead of the checkpoint that a run went on from: what comes later in it, it has yet to learn.
    try:
        past = [item.value for item in items if item.value["run"] != run or item.value["trial"] < state["trial"]]
        stored = [_lesson(value) for value in sorted(past, key=lambda value: (value["written"], value["trial"]))]
    except (KeyError, TypeError, ValueError) as error:
        told = f"the memory holds what is no lesson ({type(error).__name__}: {error!s:.200})"
        raise Fault("data", f"{' '.join(told.split())}: take it out, or name another memory") from error
    unstored = [lesson for lesson in state["lessons"] if lesson not in stored]
    return {"lessons": (*stored, *unstored)[-KEPT:]}


async def keep(lesson: Lesson, task: Task, runtime: Runtime[Context]) -> None:
    """Write a lesson. The same episode's lesson written again, after a crash, takes its own place."""
    run, place, store = _run(runtime), namespace(task, runtime), store_of(runtime)
    key = f"{run}/{lesson.trial:04d}"
    before = await off_loop(store.get, place, key)
    written = _written(before.value) if before else None
    if written is None:
        times = [_written(item.value) or 0.0 for item in await _items(store, place)]
        # after all others also by a clock that is behind the one they were written by
        written = max(time.time(), math.nextafter(max(times, default=0.0), math.inf))
    value = {**lesson.as_json(), "run": run, "written": written}
    await off_loop(store.put, place, key, value, False)


async def _items(store: BaseStore, place: Namespace) -> list[SearchItem]:
    """Every item of a namespace. A store returns at most one page at a time, and its order is its own."""
    # By key: items that another run writes meanwhile may move others to a later page.
    items, start = dict[str, SearchItem](), 0
    while True:
        # The blocking half of the interface: a store of either kind answers it from a worker thread.
        page = await off_loop(store.search, place, limit=PAGE, offset=start)
        items |= {item.key: item for item in page}
        if len(page) < PAGE:
            return list(items.values())
        start += PAGE


def _written(value: dict[str, Any]) -> float | None:
    written = value.get("written")
    return written if isinstance(written, (int, float)) else None


def namespace(task: Task, runtime: Runtime[Context]) -> Namespace:
    """Where a task's lessons are kept: apart for every run, unless the context names a memory to share."""
    # dots would divide a label for the store
    labels = ("lessons", context_of(runtime).memory or _thread(runtime) or "run", task.benchmark, task.id)
    return tuple(label.replace(".", "_") for label in labels)


def store_of(runtime: Runtime[Context]) -> BaseStore:
    """The store of the run.

    Raises:
        Fault: the graph was compiled without one.
    """
    if runtime.store is None:
        raise Fault("operator", "this graph remembers in a LangGraph store: build(store=InMemoryStore()), or any other")
    return runtime.store


def _run(runtime: Runtime[Context]) -> str:
    """The mark of a run in its memory. Without a thread nothing is resumed, and one for every lesson will do."""
    return _thread(runtime) or (uuid.uuid4().hex if context_of(runtime).memory else "run")


def _thread(runtime: Runtime[Context]) -> str | None:
    return runtime.execution_info.thread_id if runtime.execution_info else None


def _lesson(value: dict[str, Any]) -> Lesson:
    return Lesson.model_validate({name: value[name] for name in Lesson.model_fields if name in value})
