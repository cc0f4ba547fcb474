"""What every operator finds in its runtime: the live benchmark, what its world admits, and what it would answer."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from langgraph.runtime import Runtime
from pydantic import ValidationError

from certigraph.adapters.benchmarks import context_of, load_benchmark
from certigraph.adapters.context import Context
from certigraph.adapters.episodes import live_episode
from certigraph.adapters.rehearsing import Rehearsed, rehearsed_in
from certigraph.state.endings import Fault
from certigraph.state.records import Task


def at_home(state: Any, runtime: Runtime[Context]) -> Runtime[Context]:
    """The runtime with a context, defaults where none was given; in it the live benchmark and the world's hooks."""
    context = context_of(runtime)
    benchmark = context.benchmark or load_benchmark(_task(state).benchmark, context.data)
    home = replace(runtime, context=context.model_copy(update={"benchmark": benchmark}))
    opened = bool(state.get("episode"))
    home.context.admissible = partial(_admissible, state, home) if opened else None
    home.context.rehearse = partial(_rehearsed, state, home) if opened else None
    return home


def _admissible(state: Any, runtime: Runtime[Context]) -> list[str] | None:
    # Bound here, to the whole state, because an operator's view holds no log to rebuild a lost world from.
    return live_episode(state["episode"], state["task"], state["history"], runtime).admissible()


def _rehearsed(state: Any, runtime: Runtime[Context], path: Sequence[str]) -> Rehearsed:
    live = live_episode(state["episode"], state["task"], state["history"], runtime)
    return rehearsed_in(live, state["task"], path, runtime)


def _task(state: Any) -> Task:
    try:
        return Task.model_validate(state["task"])
    except (KeyError, ValidationError) as error:
        example = '{"task": {"benchmark": "blocksworld", "id": "4-0"}}'
        raise Fault("data", f"the graph's input needs a task, for example {example}; got {dict(state)}") from error
