"""The live worlds of a run: brought to where its log left them, scored, and closed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import in_world
from certigraph.adapters.context import Context
from certigraph.adapters.episode import Episode
from certigraph.adapters.episodes import live_episode, new_scope
from certigraph.state.records import Scores


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
