"""Fault injection: rates, and worlds that fail."""

import time
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Annotated, Any

from pydantic import Field, ValidationError
from pydantic.functional_validators import BeforeValidator

from certigraph.adapters.protocols import Benchmark, Context, Environment
from certigraph.state.records import Action, Observation, Record, Scores, Task, UnknownName

# Which faults are injected, and how often: `timeout=0.1,crash=0.01,seed=3`.
#
# Each fault is drawn by itself, from what is asked and how often it was: the same in every process and order.

FAILING = ("timeout", "rate_limit", "server_error", "dropped")
"""A request that fails: its client raises."""

ANSWERING = ("truncated", "malformed", "empty", "refusal", "wrong_schema")
"""An answer that comes, is billed and cannot be used."""

SLOW = "slow"
MODEL = (*FAILING, *ANSWERING, SLOW)
WORLD = ("crash", "hang")

EXAMPLE = "timeout=0.1,crash=0.01,seed=3"


def _rate(what: str) -> float:
    rate: float = Field(0.0, ge=0, le=1, description=what)
    return rate


class Faults(Record):
    """How often each kind of fault strikes, as a probability for one request, answer or world step."""

    timeout: float = _rate("no answer in time")
    rate_limit: float = _rate("429, with Retry-After")
    server_error: float = _rate("500")
    dropped: float = _rate("the connection breaks before an answer")
    truncated: float = _rate("the answer is cut off in the middle")
    malformed: float = _rate("the answer's JSON is broken")
    empty: float = _rate("the answer has no text")
    refusal: float = _rate("the model says that it cannot help")
    wrong_schema: float = _rate("the answer is JSON of another form")
    slow: float = _rate("the answer comes late")
    crash: float = _rate("the world raises instead of a step")
    hang: float = _rate("a world step takes too long and raises TimeoutError")
    seed: int = Field(0, description="another seed draws other faults at the same rates")
    delay: float = Field(0.05, ge=0, le=600, description="seconds by which a slow answer is late and a world hangs")
    retry_after: float = Field(1.0, ge=0, le=600, description="seconds that a 429 asks to wait")
    start: int = Field(0, ge=0, description="how often the run was begun before; faults are drawn anew for each time")

    @classmethod
    def read(cls, text: str) -> "Faults":
        """The faults that a text names, as EXAMPLE does; the empty text names none.

        Raises:
            UnknownName: an unknown or repeated name, a rate outside [0, 1], or no number; lists the known names.
        """
        pairs = [part.partition("=") for part in text.split(",")] if text.strip() else []
        given = {name.strip(): value.strip() for name, _, value in pairs}
        if len(given) < len(pairs):
            raise UnknownName(_wrong(text, "each name is given once"))
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            wrong = error.errors(include_url=False)[0]
            raise UnknownName(_wrong(text, f"{'.'.join(map(str, wrong['loc']))!r}: {wrong['msg']}")) from error

    def __str__(self) -> str:
        """The text that `read` reads, without what is as usual."""
        return ",".join(f"{name}={value}".removesuffix(".0") for name, value in self.as_json().items())

    def again(self, times: int = 1) -> "Faults":
        """The same rates for a run that is resumed or retried: what failed once is drawn anew."""
        return self.model_copy(update={"start": self.start + times})

    def strikes(self, kinds: Sequence[str], *what: object) -> str:
        """The first of some kinds that strikes here; empty where none does.

        Args:
            kinds: names of rates; each is drawn by itself, so that another's rate changes nothing for it.
            what: all that tells this request or step from others.
        """
        return next((kind for kind in kinds if self._draw(kind, what) < getattr(self, kind)), "")

    def _draw(self, kind: str, what: tuple[object, ...]) -> float:
        return Random(f"{self.seed}:{self.start}:{kind}:{what!r}").random()


Rates = Annotated[Faults, BeforeValidator(lambda given: Faults.read(given) if isinstance(given, str) else given)]
"""Faults, or the text that names them."""


def _wrong(text: str, reason: str) -> str:
    known = f"rates from 0 to 1: {', '.join(MODEL + WORLD)}; besides: seed, delay, retry_after, start"
    return f"{text!r} names no faults: {reason}; write {EXAMPLE}; {known}"


# Faults of a run that was begun before: what failed then is drawn anew, so that a resume or a retry can go on.


def begun_again(context: Context, times: int) -> Context:
    """The context of a run that was begun `times` times before; the same where it names no faults.

    Raises:
        UnknownName: the context's faults are none.
    """
    if not context.faults or not times:
        return context
    return context.model_copy(update={"faults": str(Faults.read(context.faults).again(times))})


# Any world, failing at known rates.
#
# A world crashes or hangs; it never lies. What a step was answered is logged, and whoever opens the world again must
# get the same answers. For the same reason the steps of a log that is repeated are spared: they have happened.


class CrashError(RuntimeError):
    """A world that went down, on purpose."""


class FaultyEnvironment:
    """An environment whose steps fail; everything else is that of `environment`.

    Args:
        environment: the world; a step that fails does not reach it.
        faults: the rates, or the text that names them.
        task: whose world it is, so that tasks fail at different steps.
        trial: which repetition of the task this is.
        spared: how many steps, the first ones, repeat what is logged.
    """

    def __init__(
        self, environment: Environment, faults: Faults | str, *, task: str = "", trial: int = 0, spared: int = 0
    ) -> None:
        self.environment, self.spared = environment, spared
        self.faults = Faults.read(faults) if isinstance(faults, str) else faults
        self.injected = Counter[str]()
        """How many faults of each kind were injected so far."""
        self._what = (task, trial)
        self._asked = 0

    def step(self, action: Action) -> Observation:
        """The world's answer.

        Raises:
            CrashError: the world went down.
            TimeoutError: the step took too long.
        """
        self._asked += 1
        kind = self.faults.strikes(WORLD, *self._what, self._asked, action.text)
        if kind and self._asked > self.spared:
            self._fail(kind)
        return self.environment.step(action)

    @property
    def concurrent(self) -> bool:
        """Whether the world's steps may be parallel."""
        return self.environment.concurrent

    def reset(self) -> Observation:
        """The world's beginning."""
        return self.environment.reset()

    def view(self) -> str:
        """What the world shows now."""
        return self.environment.view()

    def admissible(self) -> list[str] | None:
        """The actions that the world would accept now."""
        return self.environment.admissible()

    def score(self) -> Scores:
        """The benchmark's verdict."""
        return self.environment.score()

    def close(self) -> None:
        """Close the world."""
        self.environment.close()

    def __getattr__(self, name: str) -> Any:
        """Whatever else the world has, such as `sources`."""
        if name == "environment":  # not there yet: a copy that is being made
            raise AttributeError(name)
        return getattr(self.environment, name)

    def _fail(self, kind: str) -> None:
        self.injected[kind] += 1
        if kind == "crash":
            raise CrashError(f"injected crash at step {self._asked}")
        time.sleep(self.faults.delay)
        raise TimeoutError(f"injected hang at step {self._asked}")


class FaultyBenchmark:
    """A benchmark whose worlds fail, each of a task's differently; everything else is that of `benchmark`.

    A world that is opened again repeats the log without being spared, and may fail on the way. In a new process the
    count of openings begins anew: give it `faults.again()`. A run with `Context(faults=...)` sees to both.
    """

    def __init__(self, benchmark: Benchmark, faults: Faults | str) -> None:
        self.benchmark = benchmark
        self.faults = Faults.read(faults) if isinstance(faults, str) else faults
        self._opened = Counter[str]()

    def open(self, task: Task) -> FaultyEnvironment:
        """A world of the task that fails."""
        drawn = self.faults.again(self._opened[task.id])
        self._opened[task.id] += 1
        return FaultyEnvironment(self.benchmark.open(task), drawn, task=task.id)

    def __getattr__(self, name: str) -> Any:
        """Whatever else the benchmark has."""
        if name == "benchmark":
            raise AttributeError(name)
        return getattr(self.benchmark, name)
