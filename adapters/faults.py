"""Fault injection: rates of faults, and environments that fail at these rates.

Models that fail at these rates are in `adapters.models.faults`.
"""

import time
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Annotated, Any

from pydantic import Field, ValidationError
from pydantic.functional_validators import BeforeValidator

from certigraph.adapters.protocols import (
    Context,
    Environment,
    StateCheck,
    complete_environment,
)
from certigraph.state.endings import UnknownName
from certigraph.state.records import Action, Observation, Record, Scores

# Rates of faults: `timeout=0.1,crash=0.01,seed=3`.
#
# Each fault is drawn separately, seeded by the request and its number: equal in every process and order.

REQUEST_FAULTS = ("timeout", "rate_limit", "server_error", "dropped")
"""Faults of requests to a model: the client raises an exception."""

ANSWER_FAULTS = ("truncated", "malformed", "empty", "refusal", "wrong_schema")
"""Faults of a model's answers: an answer arrives, is paid for and cannot be used."""

SLOW_FAULT = "slow"
MODEL_FAULTS = (*REQUEST_FAULTS, *ANSWER_FAULTS, SLOW_FAULT)
WORLD_FAULTS = ("crash", "hang")

FAULTS_EXAMPLE = "timeout=0.1,crash=0.01,seed=3"


def _rate_field(description: str) -> float:
    rate: float = Field(default=0.0, ge=0, le=1, description=description)
    return rate


class Faults(Record):
    """Probability of each kind of fault for one model request, model answer or world step."""

    timeout: float = _rate_field("no answer within the time limit")
    rate_limit: float = _rate_field("429, with Retry-After")
    server_error: float = _rate_field("500")
    dropped: float = _rate_field("the connection breaks before an answer")
    truncated: float = _rate_field("the answer is cut off in the middle")
    malformed: float = _rate_field("the answer's JSON is broken")
    empty: float = _rate_field("the answer has no text")
    refusal: float = _rate_field("the model says that it cannot help")
    wrong_schema: float = _rate_field("the answer is JSON of another form")
    slow: float = _rate_field("the answer comes late")
    crash: float = _rate_field("the world raises instead of a step")
    hang: float = _rate_field("a world step takes too long and raises TimeoutError")
    seed: int = Field(default=0, description="seed of the draws: another seed gives other faults at the same rates")
    delay: float = Field(
        default=0.05, ge=0, le=600, description="seconds by which a slow answer is late and for which a world hangs"
    )
    retry_after: float = Field(default=1.0, ge=0, le=600, description="seconds that a 429 asks to wait")
    start: int = Field(
        default=0, ge=0, description="number of earlier starts of the run; faults are drawn again for each start"
    )

    @classmethod
    def read(cls, text: str) -> "Faults":
        """Parse a text such as FAULTS_EXAMPLE; the empty text means no faults.

        Raises:
            UnknownName: a name is unknown or repeated, or a value is not a number or outside its range; the message
                lists the known names.
        """
        pairs = [part.partition("=") for part in text.split(",")] if text.strip() else []
        values = {name.strip(): value.strip() for name, _, value in pairs}
        if len(values) < len(pairs):
            raise UnknownName(_format_faults_error(text, "a name is repeated"))
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise UnknownName(
                _format_faults_error(text, f"{'.'.join(map(str, first['loc']))!r}: {first['msg']}")
            ) from error

    def __str__(self) -> str:
        """Format as the text that `read` parses, without default values."""
        return ",".join(f"{name}={value}".removesuffix(".0") for name, value in self.as_json().items())

    def restarted(self, times: int = 1) -> "Faults":
        """Return the same rates for a run that is resumed or retried, for which faults are drawn at random again."""
        return self.model_copy(update={"start": self.start + times})

    def draw(self, kinds: Sequence[str], *what: object) -> str:
        """Decide at random, with the given rates, which fault happens: the first of `kinds`, or "" for none.

        Args:
            kinds: names of rates; each is decided separately, so that a rate does not affect the other kinds.
            *what: everything that distinguishes this request or step from others; it seeds the decision.
        """
        return next((kind for kind in kinds if self._draw_number(kind, what) < getattr(self, kind)), "")

    def _draw_number(self, kind: str, what: tuple[object, ...]) -> float:
        return Random(f"{self.seed}:{self.start}:{kind}:{what!r}").random()


Rates = Annotated[Faults, BeforeValidator(lambda given: Faults.read(given) if isinstance(given, str) else given)]
"""Type of a field that holds Faults, or the text that `Faults.read` parses."""


def _format_faults_error(text: str, reason: str) -> str:
    names = f"rates from 0 to 1: {', '.join(MODEL_FAULTS + WORLD_FAULTS)}; and: seed, delay, retry_after, start"
    return f"{text!r} is not a list of faults: {reason}; write {FAULTS_EXAMPLE}; {names}"


# Faults of a run that was started before. They are drawn again, so that a resume or a retry can get further.


def restarted_context(context: Context, times: int) -> Context:
    """Return the context of a run that was started `times` times before; unchanged if it injects no faults.

    Raises:
        UnknownName: the text of the context's faults is invalid.
    """
    if not context.faults or not times:
        return context
    return context.model_copy(update={"faults": str(Faults.read(context.faults).restarted(times))})


# Environments and benchmarks that fail at known rates.
#
# A world crashes or hangs; it never returns a wrong observation, because what it returned is logged and a replay must
# return the same. For the same reason no fault is injected into the steps of a replayed log.


class CrashError(RuntimeError):
    """Injected crash of a world."""


class FaultyEnvironment(Environment):
    """Environment whose steps fail at given rates; everything else is delegated to `environment`.

    Args:
        environment: the world; a step that fails does not reach it.
        faults: the rates, or the text that `Faults.read` parses.
        task: id of the task, so that tasks fail at different steps.
        trial: number of this repetition of the task.
        replayed_steps: number of first steps, which replay a log and never fail.
    """

    def __init__(
        self, environment: Environment, faults: Faults | str, *, task: str = "", trial: int = 0, replayed_steps: int = 0
    ) -> None:
        self.environment, self.replayed_steps = complete_environment(environment), replayed_steps
        self.concurrent, self.replayable = self.environment.concurrent, self.environment.replayable
        self.listing_draws = self.environment.listing_draws
        self.faults = Faults.read(faults) if isinstance(faults, str) else faults
        self.injected = Counter[str]()
        """Number of injected faults of each kind so far."""
        self._key = (task, trial)
        self._steps = 0

    def step(self, action: Action) -> Observation:
        """Take an action in the world, or raise an injected fault instead.

        Raises:
            CrashError: injected crash of the world.
            TimeoutError: injected step that takes too long.
        """
        self._steps += 1
        self._draw_fault(action, self._steps)
        return self.environment.step(action)

    def begin_calls(self, action: Action) -> None:
        """Raise an injected fault before any tool of an action is called, so that no outcome is unknown."""
        self._draw_fault(action, self._steps + 1)

    def recall(self, action: Action) -> None:
        """Note an action that was taken; no fault is injected here."""
        self._steps += 1
        self.environment.recall(action)

    def reset(self) -> Observation:
        """Reset the world; no fault is injected here."""
        return self.environment.reset()

    def view(self) -> str:
        """Return what the world shows now."""
        return self.environment.view()

    def admissible(self) -> Sequence[str] | None:
        """Return the actions that the world accepts now."""
        return self.environment.admissible()

    def score(self) -> Scores:
        """Return the benchmark's scores."""
        return self.environment.score()

    def sources(self) -> tuple[str, ...]:
        """Return the ids of the passages that the world has shown."""
        return self.environment.sources()

    def check_state(self, condition: str) -> StateCheck | None:
        """Check a condition in the world's own state."""
        return self.environment.check_state(condition)

    def close(self) -> None:
        """Close the world."""
        self.environment.close()

    def __getattr__(self, name: str) -> Any:
        """Delegate all other attributes to `environment`."""
        if name == "environment":  # not set yet while the object is being copied
            raise AttributeError(name)
        return getattr(self.environment, name)

    def _draw_fault(self, action: Action, step: int) -> None:
        kind = self.faults.draw(WORLD_FAULTS, *self._key, step, action.text)
        if not kind or step <= self.replayed_steps:
            return
        self.injected[kind] += 1
        if kind == "crash":
            raise CrashError(f"injected crash at step {step}")
        time.sleep(self.faults.delay)
        raise TimeoutError(f"injected hang at step {step}")
