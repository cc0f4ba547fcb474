"""Live episodes, kept out of graph state and rebuilt from the logged actions when the two disagree.

The table is keyed by the thread (`RunState.episode`). An episode whose past is not the logged prefix (a crash, a
fork from an old checkpoint) is opened anew and the log replayed, each answer compared with the logged digest.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import benchmark_of, context_of
from certigraph.adapters.context import Context
from certigraph.adapters.episode import Episode, guarded
from certigraph.state.endings import Fault
from certigraph.state.records import Step, Task

MOST_EPISODES = 64
"""Live episodes left open at once that nobody answers for (`answering_for`), as of graphs that a caller invokes
himself; the oldest is closed and, if asked for again, replayed."""


EPISODES: dict[str, Episode] = {}
_LOCK = threading.Lock()
_ANSWERING: ContextVar[set[str] | None] = ContextVar("certigraph_answering_for", default=None)


@contextmanager
def answering_for(keys: set[str]) -> Iterator[None]:
    """Leave every episode open that is used inside the block, however many others are; its key is added to `keys`.

    Hundreds of runs at once would else close each other's worlds and replay them for every step. Whoever answers for
    them closes them.
    """
    token = _ANSWERING.set(keys)
    try:
        yield
    finally:
        _ANSWERING.reset(token)


def live_episode(key: str, task: Task, history: Sequence[Step], runtime: Runtime[Context]) -> Episode:
    """The episode of a thread, brought to exactly the logged past. Blocks; call it from a worker thread."""
    episode = EPISODES.get(key)
    # An action cut off after stepping leaves the live episode ahead of the log; that too is rebuilt.
    if episode is None or episode.log != history:
        close_episode(key)
        episode = _opened(task, history, runtime)
        _keep(key, episode)
    with _LOCK:
        EPISODES[key] = EPISODES.pop(key, episode)  # the latest used is the last to go
    # The state's own records in place of equal ones: lists of the same objects compare without looking into them.
    episode.log[:] = history
    return episode


def steps_in_parallel(key: str) -> bool:
    """Whether copies of a live episode's world may be stepped at the same time; not of one that a caller handed in."""
    episode = EPISODES.get(key)  # who resets by an operator of his own may not open it before it is needed
    return episode is not None and episode.owned and episode.environment.concurrent


def _keep(key: str, episode: Episode) -> None:
    keys = _ANSWERING.get()
    if keys is not None:
        episode.answered_for = True
        keys.add(key)
    with _LOCK:
        EPISODES[key] = episode
        surplus = [old for old, live in EPISODES.items() if not live.answered_for][:-MOST_EPISODES]
    for old in surplus:
        close_episode(old)


def _opened(task: Task, history: Sequence[Step], runtime: Runtime[Context]) -> Episode:
    context = context_of(runtime)
    given = context.environment
    environment = given or guarded(benchmark_of(task, runtime).open, task)
    if context.faults:
        from certigraph.adapters.faults.world import FaultyEnvironment

        known = len(history)
        environment = FaultyEnvironment(environment, context.faults, task=task.id, trial=context.trial, spared=known)
    try:
        episode = Episode(environment, owned=given is None)
        episode.replay(history)
    except Fault:
        if given is None:
            environment.close()  # nobody else knows of it, and a simulator would run on
        raise
    return episode


def close_episode(key: str) -> None:
    """Close and forget the episode of a thread, if there is one."""
    with _LOCK:
        episode = EPISODES.pop(key, None)
    if episode is not None and episode.owned:
        episode.environment.close()
