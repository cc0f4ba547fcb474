"""The memory of agents that learn between episodes: lessons in LangGraph's Store, one item an episode."""

import math
import time
import uuid
from typing import Any

from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore

from certigraph.adapters.benchmarks import context_of
from certigraph.adapters.context import Context
from certigraph.adapters.loops import off_loop
from certigraph.state.endings import Fault
from certigraph.state.lessons import KEPT, Lesson, RecallView
from certigraph.state.records import Task

Namespace = tuple[str, ...]


async def recall(state: RecallView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Read the latest lessons about the task, oldest first; a memory of your own need not store what it returns."""
    # The blocking half of the interface: a store of either kind answers it from a worker thread.
    items = await off_loop(store_of(runtime).search, namespace(state["task"], runtime), limit=1000)
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
    run, place = _run(runtime), namespace(task, runtime)
    key = f"{run}/{lesson.trial:04d}"
    items = await off_loop(store_of(runtime).search, place, limit=1000)
    known = {item.key: at for item in items if isinstance(at := item.value.get("written"), (int, float))}
    # after all others also by a clock that is behind the one they were written by
    written = known.get(key) or max(time.time(), math.nextafter(max(known.values(), default=0.0), math.inf))
    value = {**lesson.as_json(), "run": run, "written": written}
    await off_loop(store_of(runtime).put, place, key, value, False)


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
