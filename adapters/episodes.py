"""Live episodes, kept out of graph state and rebuilt from the logged actions when the two disagree.

The table is keyed by the thread (`RunState.episode`). An episode whose past is not the logged prefix (a crash, a
fork from an old checkpoint) is opened anew and the log replayed, each answer compared with the logged digest.
"""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import benchmark_of, context_of
from certigraph.adapters.context import Context
from certigraph.adapters.episode import Episode, guarded
from certigraph.adapters.loops import off_loop
from certigraph.state.records import Step, Task

MOST_EPISODES = 64
"""Live episodes left open at once that no scope closes, as of a graph of the caller's own whose nodes use them; the
oldest is closed and, if asked for again, replayed."""


EPISODES: dict[str, Episode] = {}
_LOCK = threading.RLock()


class EpisodeScope:
    """What closes the episodes of one graph run when it ends, however it ends.

    Args:
        parent: the scope in which this one begins. What that one opened, it closes.
        shared: whether the first graph that runs inside is closed with this scope and not with its own end, so that its
            world can still be scored.
    """

    def __init__(self, parent: "EpisodeScope | None" = None, *, shared: bool = False) -> None:
        self.parent, self.keys, self.ended = parent, set[str](), False
        self._shared = shared

    @property
    def run(self) -> "EpisodeScope":
        """The outermost scope, which stands for the whole run."""
        return self.parent.run if self.parent else self

    def share(self) -> bool:
        """Whether a graph that begins now is part of this scope: true once, of a shared one."""
        shared, self._shared = self._shared, False
        return shared

    def owner(self, key: str) -> "EpisodeScope":
        """The scope that closes an episode: the one that opened it before, else this."""
        scope: EpisodeScope | None = self
        while scope and key not in scope.keys:
            scope = scope.parent
        return scope or self

    @contextmanager
    def active(self) -> Iterator[None]:
        """Open episodes inside the block for this scope."""
        token = _SCOPE.set(self)
        try:
            yield
        finally:
            _SCOPE.reset(token)

    def end(self) -> None:
        """Close the episodes. One that is still being opened is closed when it is ready. Blocks.

        Of an episode in a caller's own live environment the log is kept, for to open it again would reset the world.
        """
        with _LOCK:
            self.ended = True
            live = {key: EPISODES[key] for key in self.keys & EPISODES.keys()}
            for key, episode in live.items():
                episode.answered_for = False
                if episode.owned:
                    del EPISODES[key]
        for episode in live.values():
            if episode.owned:
                with suppress(Exception):  # a world that cannot be closed keeps nobody from closing the others
                    episode.close()

    async def aend(self) -> None:
        """The same without blocking the event loop; also where the caller is cancelled again meanwhile."""
        try:
            await off_loop(self.end)
        except asyncio.CancelledError:
            self.end()
            raise


_SCOPE: ContextVar[EpisodeScope | None] = ContextVar("certigraph_episode_scope", default=None)


def new_scope(*, shared: bool = False) -> EpisodeScope:
    """A scope inside the one that is active here."""
    return EpisodeScope(_SCOPE.get(), shared=shared)


def graph_scope() -> EpisodeScope | None:
    """The scope of a graph run that begins now; None where the block around it closes what it opens."""
    outer = _SCOPE.get()
    return None if outer and outer.share() else new_scope()


def current_run() -> object:
    """What stands for the run that is under way here; None outside of runs."""
    scope = _SCOPE.get()
    return scope.run if scope else None


def live_episode(key: str, task: Task, history: Sequence[Step], runtime: Runtime[Context]) -> Episode:
    """The episode of a thread, brought to exactly the logged past. Blocks; call it from a worker thread.

    Raises:
        Fault: the world cannot be opened or replayed, or its run ended meanwhile.
    """
    episode = EPISODES.get(key)
    # An action cut off after stepping leaves the live episode ahead of the log; that too is rebuilt.
    if episode is None or episode.closed or episode.log != history:
        close_episode(key)
        episode = _opened(task, history, runtime)
    _keep(key, episode)
    # The state's own records in place of equal ones: lists of the same objects compare without looking into them.
    episode.log[:] = history
    return episode


def steps_in_parallel(key: str) -> bool:
    """Whether copies of a live episode's world may be stepped at the same time; not of one that a caller handed in."""
    episode = EPISODES.get(key)  # who resets by an operator of his own may not open it before it is needed
    return episode is not None and episode.owned and episode.environment.concurrent


def _keep(key: str, episode: Episode) -> None:
    scope = _SCOPE.get()
    with _LOCK:
        owner = scope.owner(key) if scope else None
        if late := owner is not None and owner.ended:
            surplus = []
        else:
            if owner:
                owner.keys.add(key)
            episode.answered_for = owner is not None
            new = EPISODES.pop(key, None) is None
            EPISODES[key] = episode  # the latest used is the last to go
            surplus = _surplus() if new else []
    if late:
        episode.close()
    for old in surplus:
        close_episode(old)


def _surplus() -> list[str]:
    return [old for old, live in EPISODES.items() if not live.answered_for][:-MOST_EPISODES]


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
    except BaseException:
        if given is None:
            environment.close()  # nobody else knows of it, and a simulator would run on
        raise
    return episode


def close_episode(key: str) -> None:
    """Close and forget the episode of a thread, if there is one."""
    with _LOCK:
        episode = EPISODES.pop(key, None)
    if episode is not None:
        episode.close()
