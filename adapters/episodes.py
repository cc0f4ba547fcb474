"""Live episodes: kept outside graph state, rebuilt from logged actions, and copied for rehearsals.

`LiveEpisode` wraps one environment and its log, `EpisodeScope` closes the episodes of a graph run, `live_episode`
returns the episode of a thread, and `rehearse` tries actions out in a copy of the world.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from contextvars import ContextVar
from typing import Any, NamedTuple, ParamSpec, TypeVar

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import benchmark_of, call_world, context_of, is_instant, live_benchmark
from certigraph.adapters.encoders import find_encoder
from certigraph.adapters.matching import select_actions
from certigraph.adapters.processes import Setting, run_in_thread
from certigraph.adapters.protocols import (
    Benchmark,
    Context,
    Environment,
    StateCheck,
    complete_environment,
    missing_methods,
)
from certigraph.adapters.redaction import redact, redact_record
from certigraph.state.defaults import MATCHING_ENCODER
from certigraph.state.endings import Fault
from certigraph.state.records import CHECK, Action, Observation, Scores, Step, Task
from certigraph.state.run import Evidence

# One live environment and the log of its actions.
#
# Observations are returned with secrets masked; digests are of the unmasked text, so that a changed key does not change
# them.

P = ParamSpec("P")
T = TypeVar("T")


TOLERANCE = 1e-9
"""Rounding error by which a score may lie below 0 or above 1."""


class LiveEpisode:
    """A running episode: an environment and the log of the actions taken in it.

    Its methods block. Threads take turns, and `close` waits for the call that is running.
    """

    def __init__(self, environment: Environment, *, owned: bool = True) -> None:
        self.environment = complete_environment(environment)
        self.owned = owned
        """Whether certigraph opened the environment, and so closes it; false for the caller's own live environment."""
        self.closed_by_scope = False
        """Whether an `EpisodeScope` closes the episode when its run is over. Such an episode does not count towards
        MAX_EPISODES."""
        self.copies: list[_Copy] = []
        """Further worlds of the same task, which are closed with the episode."""
        self.lock = threading.RLock()
        """Lock that is held during every call of a method."""
        self.closed = False
        self.log: list[Step] = []
        self._listed: list[str] | None = None
        self._is_listed = False
        """Whether `_listed` has the actions that the world accepts since its latest action."""
        self.latest = call_typed(Observation, environment.reset)
        """The world's latest observation, with secrets."""
        self.first = redact_record(self.latest)
        self.ended = self.first.done

    def step(self, action: Action) -> Observation:
        """Act in the world; a world that has ended rejects the action. A check shows the world and does not act."""
        with self.lock:
            return redact_record(self._step(action))

    def close(self) -> None:
        """Close the copies, and the environment if it is owned; every later call raises Fault."""
        with self.lock, ExitStack() as closing:
            if not self.closed:
                self.closed = True
                if self.owned:
                    closing.callback(self.environment.close)
                for copy in self.copies:
                    closing.callback(copy.close)
                self.copies = []

    def check_open(self) -> None:
        """Raise Fault ("environment") if the episode is closed."""
        if self.closed:
            raise Fault("environment", "the episode was closed while it was in use: its run is over; start a new one")

    def _step(self, action: Action) -> Observation:
        self.check_open()
        if self.ended:
            return Observation(text="The episode is over: the world has ended.", accepted=False, done=True)
        is_check, listed = action.kind == CHECK, self.environment.listing_draws and self._is_listed
        self._is_listed = self._is_listed and is_check
        observation = self._look() if is_check else call_typed(Observation, self.environment.step, action)
        self.latest = observation
        self.log.append(Step(action=action, digest=observation.digest(), listed=listed))
        self.ended = observation.done
        return observation

    def _look(self) -> Observation:
        view = call_environment(self.environment.view)
        return self.latest.model_copy(update={"text": view, "accepted": True, "reward": 0.0})

    def replay(self, steps: Sequence[Step]) -> None:
        """Repeat logged actions. Raises Fault if an observation differs from the logged one."""
        if not self.environment.replayable:
            self.recall(steps)
            return
        for number, step in enumerate(steps, 1):
            with self.lock:
                if step.listed:
                    self.admissible()
                digest = self._step(step.action).digest()
            if digest != step.digest:
                raise Fault(
                    "environment",
                    f"replay differs at step {number} ({step.action.text!r}): logged {step.digest}, now {digest}; "
                    "the world or its data changed since the run started, or its `reset` does not start it again: "
                    "start a new run",
                )

    def recall(self, steps: Sequence[Step]) -> None:
        """Add actions that were taken elsewhere to the log, open or closed, without taking them again."""
        with self.lock:
            for step in steps:
                call_environment(self.environment.recall, step.action)
                self._is_listed = False
                self.log.append(step)

    def evidence(self) -> Evidence:
        """Return what the world shows now, and the ids of the passages that it has shown."""
        with self.lock:
            self.check_open()
            return Evidence(
                view=redact(call_environment(self.environment.view)),
                sources=call_environment(self.environment.sources),
            )

    def admissible(self) -> list[str] | None:
        """Return the actions that the world accepts now; None if it does not list them."""
        with self.lock:
            self.check_open()
            if not self._is_listed or not self.owned:  # the caller may act in a world of its own
                actions = call_environment(self.environment.admissible)
                self._listed, self._is_listed = None if actions is None else list(actions), True
            return None if self._listed is None else list(self._listed)

    def check_state(self, condition: str) -> StateCheck | None:
        """Check a condition in the world's own state; None if it cannot be decided there. For scripted models only."""
        with self.lock:
            self.check_open()
            return call_environment(self.environment.check_state, condition)

    def score(self) -> Scores:
        """Return the benchmark's scores of the world in its present state."""
        with self.lock:
            self.check_open()
            scores = call_typed(Scores, self.environment.score)
            if not -TOLERANCE <= scores.value <= 1 + TOLERANCE:
                message = f"{self.environment.score.__qualname__} returned the score {scores.value:g}"
                raise Fault("environment", f"{message}; `Scores.value` must be between 0 and 1")
            return redact_record(scores)


def call_environment(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a method of the world. Raises Fault ("environment") for every exception that it raises."""
    try:
        return call(*args, **kwargs)
    except Fault:
        raise
    except Exception as error:
        raise Fault("environment", f"the world failed in {call.__qualname__}: {error!r}; start a new run") from error


def call_typed(kind: type[T], call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a method of the world as `call_environment` does, and check what it returns.

    Raises:
        Fault: ("environment") the method raised an exception or returned no `kind`; the message names the method.
    """
    returned = call_environment(call, *args, **kwargs)
    if not isinstance(returned, kind):
        message = f"the world's {call.__qualname__} returned {returned!r:.100}"
        raise Fault("environment", f"{message}; it must return a certigraph.{kind.__name__}")
    return returned


# Live episodes, kept out of graph state and rebuilt from the logged actions if the two disagree.
#
# The table is keyed by the thread (`RunState.episode`). An episode whose log is not the logged prefix (after a crash,
# or a fork from an old checkpoint) is opened again and the log replayed; each observation is compared with the logged
# digest.

MAX_EPISODES = 64
"""Maximum number of open episodes that no `EpisodeScope` closes, such as those of a user's own graph.

If there are more, the least recently used one is closed. If it is needed again, it is replayed.
"""


EPISODES: dict[str, LiveEpisode] = {}
_LOCK = threading.RLock()


class EpisodeScope:
    """Closes the episodes of one graph run when the run ends, for whatever reason.

    Args:
        parent: the scope in which this one is created. The parent closes the episodes that were opened in it before.
        shared: whether the first graph that runs in this scope leaves its episodes open until this scope ends, so that
            its world can still be scored.
    """

    def __init__(self, parent: "EpisodeScope | None" = None, *, shared: bool = False) -> None:
        self.parent, self.keys, self.ended = parent, set[str](), False
        self._shared = shared

    @property
    def run(self) -> "EpisodeScope":
        """The outermost scope, which represents the complete run."""
        return self.parent.run if self.parent else self

    def share(self) -> bool:
        """Return whether a graph that starts now needs no scope of its own: true once, if this scope is shared."""
        shared, self._shared = self._shared, False
        return shared

    def owner(self, key: str) -> "EpisodeScope":
        """Return the scope that closes the episode of a key: the one in which it was opened before, else this one."""
        scope: EpisodeScope | None = self
        while scope and key not in scope.keys:
            scope = scope.parent
        return scope or self

    def active(self) -> "Setting[EpisodeScope]":
        """Let this scope close the episodes that are opened inside the block."""
        return Setting(_SCOPE, self)

    def end(self) -> None:
        """Close the episodes of this scope; one that is still being opened is closed when it is ready. Blocks.

        An episode in a live environment of the caller is kept with its log, because opening it again would reset the
        world.
        """
        with _LOCK:
            self.ended = True
            live = {key: EPISODES[key] for key in self.keys & EPISODES.keys()}
            for key, episode in live.items():
                episode.closed_by_scope = False
                if episode.owned:
                    del EPISODES[key]
        for episode in live.values():
            if episode.owned:
                with suppress(Exception):  # an error of one world must not keep the others open
                    episode.close()

    async def aend(self) -> None:
        """Close the episodes of this scope without blocking the event loop, even if the caller is cancelled."""
        try:
            await run_in_thread(self.end)
        except asyncio.CancelledError:
            self.end()
            raise


_SCOPE: ContextVar[EpisodeScope | None] = ContextVar("certigraph_episode_scope", default=None)


def new_scope(*, shared: bool = False) -> EpisodeScope:
    """Create a scope inside the active one."""
    return EpisodeScope(_SCOPE.get(), shared=shared)


def graph_scope() -> EpisodeScope | None:
    """Create the scope of a graph run that starts now; None if the enclosing scope closes the episodes of the run."""
    outer = _SCOPE.get()
    return None if outer and outer.share() else new_scope()


def current_run() -> object:
    """Return an object that identifies the running run; None outside of runs."""
    scope = _SCOPE.get()
    return scope.run if scope else None


def live_episode(key: str, task: Task, history: Sequence[Step], runtime: Runtime[Context]) -> LiveEpisode:
    """Return the episode of a thread, brought to exactly the logged history. Blocks; call it from a worker thread.

    Raises:
        Fault: the world cannot be opened or replayed, or its run ended meanwhile.
    """
    episode = EPISODES.get(key)
    # An action that was interrupted after its step leaves the live episode ahead of the log; it is rebuilt as well.
    if episode is None or episode.closed or episode.log != history:
        close_episode(key)
        episode = _open_episode(task, history, runtime)
    _register(key, episode)
    # Share the state's records: later comparisons of the lists then compare identities and not contents.
    episode.log[:] = history
    return episode


def can_step_in_parallel(key: str) -> bool:
    """Return whether copies of an episode's world may be stepped in parallel; false if the caller passed it in."""
    episode = EPISODES.get(key)  # an operator of the user's own may open the episode later
    return episode is not None and episode.owned and episode.environment.concurrent


def _register(key: str, episode: LiveEpisode) -> None:
    scope = _SCOPE.get()
    with _LOCK:
        owner = scope.owner(key) if scope else None
        if ended := owner is not None and owner.ended:
            surplus = []
        else:
            if owner:
                owner.keys.add(key)
            episode.closed_by_scope = owner is not None
            new = EPISODES.pop(key, None) is None
            EPISODES[key] = episode  # moved to the end: the most recently used is closed last
            surplus = _surplus_keys() if new else []
    if ended:
        episode.close()
    for old in surplus:
        close_episode(old)


def _surplus_keys() -> list[str]:
    return [old for old, live in EPISODES.items() if not live.closed_by_scope][:-MAX_EPISODES]


def _open_episode(task: Task, history: Sequence[Step], runtime: Runtime[Context]) -> LiveEpisode:
    context = context_of(runtime)
    live = context.environment
    environment = live or _open_world(benchmark_of(task, runtime), task)
    if context.faults:
        from certigraph.adapters.faults import FaultyEnvironment

        logged = len(history)
        environment = FaultyEnvironment(
            environment, context.faults, task=task.id, trial=context.trial, replayed_steps=logged
        )
    try:
        episode = LiveEpisode(environment, owned=live is None)
        episode.replay(history)
    except BaseException:
        if live is None:
            environment.close()  # there is no other reference, and a simulator would keep running
        raise
    return episode


def _open_world(benchmark: Benchmark, task: Task) -> Environment:
    """Open the world of a task, and check that it has the methods of an environment.

    Without this check, the operator that acts first would seem to be at fault instead of the benchmark.
    """
    opened: Any = call_environment(benchmark.open, task)
    if missing := missing_methods(opened, Environment):
        message = f"{benchmark.open.__qualname__} returned {opened!r:.100}, which has no {', '.join(missing)}"
        raise Fault("environment", f"{message}; it must return a certigraph.Environment")
    world: Environment = opened
    return world


def close_episode(key: str) -> None:
    """Close the episode of a thread and remove it, if there is one."""
    with _LOCK:
        episode = EPISODES.pop(key, None)
    if episode is not None:
        episode.close()


# Rehearsals: a copy of the task's world, brought to the same history, tries actions out.
#
# The live world is never touched. A world is copied by opening it again and repeating the log, so that every simulator
# that can be resumed can be copied. Copies are kept with the live episode and continued where their position is on the
# way to the next request.

MAX_COPIES = 3
"""Maximum number of copies of a live world. Each may be a simulator's process."""


class Rehearsal(NamedTuple):
    """Result of trying a path of actions in a copy of the world."""

    observation: Observation
    """Observation of the last action of the path."""
    admissible: Callable[[], list[str] | None]
    """Lists the actions that the copy accepts at the end of the path; call it before the next rehearsal."""


class _Copy:
    """A copy of the world and its latest observation."""

    def __init__(self, episode: LiveEpisode) -> None:
        self.episode, self.latest = episode, episode.first

    def close(self) -> None:
        self.episode.close()

    def is_prefix_of(self, past: Sequence[Step], path: Sequence[str]) -> bool:
        log, length = self.episode.log, len(past)
        imagined = [step.action.text for step in log[length:]]
        return log[:length] == list(past[: len(log)]) and imagined == list(path[: len(imagined)])

    def advance(self, past: Sequence[Step], path: Sequence[str]) -> None:
        done = len(self.episode.log)
        self.episode.replay(past[done:])
        for action in path[max(done - len(past), 0) :]:
            self.latest = self.episode.step(Action(text=action))


async def rehearse(path: Sequence[str], task: Task, runtime: Runtime[Context]) -> Rehearsal:
    """Return what the world would answer at the end of a path of actions from its present state.

    Raises:
        Fault: ("environment") no episode is open, its world cannot be copied, or the copy does not repeat the log.
    """
    hook = context_of(runtime).rehearse
    if hook is None:
        raise Fault("environment", f"no episode is open to rehearse in; {PREDICTION_ADVICE}, or reset first")
    result: Rehearsal = await call_world(hook, task, runtime, path)
    return result


def rehearse_in_copy(live: LiveEpisode, task: Task, path: Sequence[str], runtime: Runtime[Context]) -> Rehearsal:
    """Try a path of actions in a copy of a live episode's world, as `rehearse` does. Blocks."""
    if not live.owned:
        raise Fault("environment", f"a live environment passed by the caller cannot be copied; {PREDICTION_ADVICE}")
    with live.lock:
        live.check_open()
        copy = _select_copy(live, path, benchmark_of(task, runtime), task)
        try:
            copy.advance(live.log, path)
        except BaseException:
            live.copies.remove(copy)
            copy.close()
            raise
    return Rehearsal(copy.latest, copy.episode.admissible)


def _select_copy(live: LiveEpisode, path: Sequence[str], benchmark: Benchmark, task: Task) -> _Copy:
    """Return the copy of the world from which the end of `path` is reached with the fewest steps, else a new copy.

    If there are already MAX_COPIES, the new copy takes over the world of the oldest one.
    """
    ready = [copy for copy in live.copies if copy.is_prefix_of(live.log, path)]
    if ready:
        copy = max(ready, key=lambda copy: len(copy.episode.log))
        live.copies.remove(copy)
    else:
        is_full = len(live.copies) >= MAX_COPIES
        copy = _create_copy(live.copies.pop(0).episode.environment if is_full else benchmark.open(task))
    live.copies.append(copy)
    return copy


def _create_copy(world: Environment) -> _Copy:
    try:
        return _Copy(LiveEpisode(world))
    except BaseException:
        world.close()  # there is no other reference, and a simulator would keep running
        raise


PREDICTION_ADVICE = "have the model predict instead: imagine=predicted"


# Actions shown to a model: those that the live world accepts, shortened to the relevant ones.


async def admissible_actions(runtime: Runtime[Context]) -> list[str]:
    """Return every action that the world accepts now; empty if it lists none. Listing may take the world a moment."""
    context = context_of(runtime)
    listing = context.admissible
    if listing is None:
        return []
    benchmark = live_benchmark(context)
    instant = benchmark is not None and is_instant(context, benchmark)
    actions = listing() if instant else await run_in_thread(listing)
    return list(actions or ())


async def candidate_actions(queries: Sequence[str], runtime: Runtime[Context], most: int) -> list[str]:
    """Return at most `most` admissible actions, the most relevant to any query; empty if the world lists none."""
    actions = await admissible_actions(runtime)
    if len(actions) <= most:
        return actions
    return await run_in_thread(
        lambda: select_actions(queries, actions, most=most, encoder=find_encoder(MATCHING_ENCODER))
    )
