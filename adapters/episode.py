"""One live environment and the log of what was done in it.

What the world shows is handed on without keys; digests are of what it said, so that a changed key changes none.
"""

from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from certigraph.adapters.models.redact import redact, redacted
from certigraph.adapters.protocols import Environment
from certigraph.state.endings import Fault
from certigraph.state.records import Action, Observation, Scores, Step
from certigraph.state.run import Evidence

P = ParamSpec("P")
T = TypeVar("T")


class Episode:
    """An episode under way. Its methods block."""

    def __init__(self, environment: Environment, *, owned: bool = True) -> None:
        self.environment = environment
        self.owned = owned
        """Whether it was opened here, and so is closed here; a caller's own live environment is not."""
        self.answered_for = False
        """Whether somebody closes it when its run is over, so that it is not closed to make room."""
        self.log: list[Step] = []
        self.first = redacted(guarded(environment.reset))
        self.ended = self.first.done

    def step(self, action: Action) -> Observation:
        """Act in the world; an ended one refuses."""
        return redacted(self._answered(action))

    def _answered(self, action: Action) -> Observation:
        if self.ended:
            return Observation(text="The episode is over: the world has ended.", accepted=False, done=True)
        observation = guarded(self.environment.step, action)
        self.log.append(Step(action=action, digest=observation.digest()))
        self.ended = observation.done
        return observation

    def replay(self, steps: Sequence[Step]) -> None:
        """Repeat logged actions. Raises Fault when the world answers otherwise than it did."""
        for number, step in enumerate(steps, 1):
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
        return Evidence(view=redact(guarded(self.environment.view)), sources=guarded(sources) if sources else ())

    def admissible(self) -> list[str] | None:
        """The actions that the world admits now, where it lists them."""
        return guarded(self.environment.admissible)

    def score(self) -> Scores:
        """The benchmark's verdict on the world as it stands."""
        return redacted(guarded(self.environment.score))


def guarded(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What the world answers. Raises Fault ("environment") whatever it raises."""
    try:
        return call(*args, **kwargs)
    except Fault:
        raise
    except Exception as error:
        raise Fault("environment", f"the world failed in {call.__qualname__}: {error!r}; start a new run") from error
