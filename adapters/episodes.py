"""Live episodes: kept outside graph state, rebuilt from logged actions, and copied for rehearsals."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from typing import NamedTuple, ParamSpec, Protocol, TypeVar

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import benchmark_of, context_of, in_world
from certigraph.adapters.matching import encoder, shortlist
from certigraph.adapters.processes import off_loop
from certigraph.adapters.protocols import Benchmark, Context, Environment
from certigraph.adapters.redaction import redact, redacted
from certigraph.state.records import Action, Fault, Observation, Scores, Step, Task
from certigraph.state.run import Evidence

# One live environment and the log of what was done in it.
#
# What the world shows is handed on without keys; digests are of what it said, so that a changed key changes none.

P = ParamSpec("P")
T = TypeVar("T")


class Closable(Protocol):
    """What is closed with an episode."""

    def close(self) -> None:
        """End it."""
        ...


class Episode:
    """An episode under way. Its methods block; threads take turns, and whoever closes it waits for the last call."""

    def __init__(self, environment: Environment, *, owned: bool = True) -> None:
        self.environment = environment
        self.owned = owned
        """Whether it was opened here, and so is closed here; a caller's own live environment is not."""
        self.answered_for = False
        """Whether somebody closes it when its run is over, so that it is not closed to make room."""
        self.copies: list[Closable] = []
        """Second worlds of the same task, which are closed with it."""
        self.lock = threading.RLock()
        """Held during every call."""
        self.closed = False
        self.log: list[Step] = []
        self.first = redacted(guarded(environment.reset))
        self.ended = self.first.done

    def step(self, action: Action) -> Observation:
        """Act in the world; an ended one refuses."""
        with self.lock:
            return redacted(self._answered(action))

    def close(self) -> None:
        """End the copies, and the world unless it is a caller's own; after that every call is a Fault."""
        with self.lock, ExitStack() as closing:
            if not self.closed:
                self.closed = True
                if self.owned:
                    closing.callback(self.environment.close)
                for copy in self.copies:
                    closing.callback(copy.close)
                self.copies = []

    def check_open(self) -> None:
        """Raise Fault ("environment") once it is closed."""
        if self.closed:
            raise Fault("environment", "the episode was closed while it was in use: its run is over; start a new one")

    def _answered(self, action: Action) -> Observation:
        self.check_open()
        if self.ended:
            return Observation(text="The episode is over: the world has ended.", accepted=False, done=True)
        observation = guarded(self.environment.step, action)
        self.log.append(Step(action=action, digest=observation.digest()))
        self.ended = observation.done
        return observation

    def replay(self, steps: Sequence[Step]) -> None:
        """Repeat logged actions. Raises Fault when the world answers otherwise than it did."""
        for number, step in enumerate(steps, 1):
            with self.lock:
                found = self._answered(step.action).digest()
            if found != step.digest:
                raise Fault(
                    "environment",
                    f"replay differs at step {number} ({step.action.text!r}): logged {step.digest}, now {found}; "
                    "the world or its data changed since the run began: start a new run",
                )

    def evidence(self) -> Evidence:
        """What the world shows now, and the passages at hand where it finds some (`sources() -> tuple of ids`)."""
        sources = getattr(self.environment, "sources", None)
        with self.lock:
            self.check_open()
            return Evidence(view=redact(guarded(self.environment.view)), sources=guarded(sources) if sources else ())

    def admissible(self) -> list[str] | None:
        """The actions that the world admits now, where it lists them."""
        with self.lock:
            self.check_open()
            return guarded(self.environment.admissible)

    def score(self) -> Scores:
        """The benchmark's verdict on the world as it stands."""
        with self.lock:
            self.check_open()
            return redacted(guarded(self.environment.score))


def guarded(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What the world answers. Raises Fault ("environment") whatever it raises."""
    try:
        return call(*args, **kwargs)
    except Fault:
        raise
    except Exception as error:
        raise Fault("environment", f"the world failed in {call.__qualname__}: {error!r}; start a new run") from error


# Live episodes, kept out of graph state and rebuilt from the logged actions when the two disagree.
#
# The table is keyed by the thread (`RunState.episode`). An episode whose past is not the logged prefix (a crash, a
# fork from an old checkpoint) is opened anew and the log replayed, each answer compared with the logged digest.

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
        from certigraph.adapters.faults import FaultyEnvironment

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


# What the live world would answer: a second world of the task, brought to the same past, tries an action out.
#
# The live world is never touched. A world is copied by opening it again and repeating the log, so that every
# simulator that can be resumed can be rehearsed in; the copies are kept with the live episode, and gone on with where
# they stand on the way to what is asked next.

MOST_COPIES = 3
"""Copies of a live world. Each may be a simulator's process, and of k candidates one alone is gone on with."""


class Rehearsed(NamedTuple):
    """A copy of the world at the end of a path."""

    observation: Observation
    """What the last action was answered."""
    admissible: Callable[[], list[str] | None]
    """What the copy admits; to be asked before the next rehearsal."""


class _Copy:
    """A second world, and what it answered last."""

    def __init__(self, episode: Episode) -> None:
        self.episode, self.latest = episode, episode.first

    def close(self) -> None:
        self.episode.close()

    def is_on_the_way(self, past: Sequence[Step], path: Sequence[str]) -> bool:
        log, length = self.episode.log, len(past)
        imagined = [step.action.text for step in log[length:]]
        return log[:length] == list(past[: len(log)]) and imagined == list(path[: len(imagined)])

    def go_on(self, past: Sequence[Step], path: Sequence[str]) -> None:
        done = len(self.episode.log)
        self.episode.replay(past[done:])
        for action in path[max(done - len(past), 0) :]:
            self.latest = self.episode.step(Action(text=action))


async def rehearse(path: Sequence[str], task: Task, runtime: Runtime[Context]) -> Rehearsed:
    """What the world would answer at the end of a path of actions from the present.

    Raises:
        Fault: ("environment") there is no world that can be opened twice, or it answers otherwise than logged.
    """
    hook = context_of(runtime).rehearse
    if hook is None:
        raise Fault("environment", f"no world is open to rehearse in; {OTHERWISE}, or reset first")
    found: Rehearsed = await in_world(hook, task, runtime, path)
    return found


def rehearsed_in(live: Episode, task: Task, path: Sequence[str], runtime: Runtime[Context]) -> Rehearsed:
    """The same in a copy of a live episode's world. Blocks."""
    if not live.owned:
        raise Fault("environment", f"a world that the caller handed in cannot be copied; {OTHERWISE}")
    with live.lock:
        live.check_open()
        copy = _copy_for(live, path, benchmark_of(task, runtime), task)
        try:
            copy.go_on(live.log, path)
        except BaseException:
            live.copies.remove(copy)
            copy.close()
            raise
    return Rehearsed(copy.latest, copy.episode.admissible)


def _copy_for(live: Episode, path: Sequence[str], benchmark: Benchmark, task: Task) -> _Copy:
    """The copy that is nearest on the way; else a new one, in the world of the longest unused where they are many."""
    copies = [copy for copy in live.copies if isinstance(copy, _Copy)]
    ready = [copy for copy in copies if copy.is_on_the_way(live.log, path)]
    if ready:
        copy = max(ready, key=lambda copy: len(copy.episode.log))
        live.copies.remove(copy)
    else:
        if len(copies) >= MOST_COPIES:
            live.copies.remove(copies[0])
        copy = _begun(copies[0].episode.environment if len(copies) >= MOST_COPIES else benchmark.open(task))
    live.copies.append(copy)
    return copy


def _begun(world: Environment) -> _Copy:
    try:
        return _Copy(Episode(world))
    except BaseException:
        world.close()  # nobody else knows of it, and a simulator would run on
        raise


OTHERWISE = "have the model predict instead: imagine=predicted"


# The actions that a model is offered: those the live world admits, shortened to the relevant ones.


async def admissible(runtime: Runtime[Context]) -> list[str]:
    """Every action that the world admits now; none where it lists none. Listing may take the world a moment."""
    listing = context_of(runtime).admissible
    return list(await off_loop(listing) or []) if listing else []


async def candidates(queries: Sequence[str], runtime: Runtime[Context], most: int) -> list[str]:
    """At most `most` admissible actions, the most relevant to any of the queries; none where the world lists none."""
    actions = await admissible(runtime)
    if len(actions) <= most:
        return actions
    return await off_loop(lambda: shortlist(queries, actions, most=most, encoder=encoder()))
