"""One live environment and the log of what was done in it.

What the world shows is handed on without keys; digests are of what it said, so that a changed key changes none.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import ParamSpec, Protocol, TypeVar

from certigraph.adapters.models.redact import redact, redacted
from certigraph.adapters.protocols import Environment
from certigraph.state.endings import Fault
from certigraph.state.records import Action, Observation, Scores, Step
from certigraph.state.run import Evidence

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
