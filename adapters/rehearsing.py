"""What the live world would answer: a second world of the task, brought to the same past, tries an action out.

The live world is never touched. A world is copied by opening it again and repeating the log, so that every simulator
that can be resumed can be rehearsed in; the copies are kept with the live episode, and gone on with where they stand
on the way to what is asked next.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import benchmark_of, context_of, in_world
from certigraph.adapters.context import Context
from certigraph.adapters.episode import Episode
from certigraph.adapters.protocols import Benchmark, Environment
from certigraph.state.endings import Fault
from certigraph.state.records import Action, Observation, Step, Task

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
