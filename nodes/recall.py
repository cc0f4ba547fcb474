"""The memory of agents that learn between episodes: lessons in LangGraph's Store, one item an episode."""

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
    """Read the latest lessons about the task, oldest first."""
    # The blocking half of the interface: a store of either kind answers it from a worker thread.
    items = await off_loop(store_of(runtime).search, namespace(state["task"], runtime), limit=1000)
    lessons = [Lesson.model_validate(item.value) for item in sorted(items, key=lambda item: item.key)]
    return {"lessons": tuple(lessons[-KEPT:])}


async def keep(lesson: Lesson, task: Task, runtime: Runtime[Context]) -> None:
    """Write a lesson. The same episode's lesson written again, after a crash, takes its own place."""
    await off_loop(store_of(runtime).put, namespace(task, runtime), f"{lesson.trial:04d}", lesson.as_json(), False)


def namespace(task: Task, runtime: Runtime[Context]) -> Namespace:
    """Where a task's lessons are kept: apart for every run, unless the context names a memory to share."""
    thread = runtime.execution_info.thread_id if runtime.execution_info else None
    # dots would divide a label for the store
    labels = ("lessons", context_of(runtime).memory or thread or "run", task.benchmark, task.id)
    return tuple(label.replace(".", "_") for label in labels)


def store_of(runtime: Runtime[Context]) -> BaseStore:
    """The store of the run.

    Raises:
        Fault: the graph was compiled without one.
    """
    if runtime.store is None:
        raise Fault("operator", "this graph remembers in a LangGraph store: build(store=InMemoryStore()), or any other")
    return runtime.store
