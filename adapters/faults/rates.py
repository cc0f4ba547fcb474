"""Which faults are injected, and how often: `timeout=0.1,crash=0.01,seed=3`.

Each fault is drawn by itself, from what is asked and how often it was: the same in every process and order.
"""

from collections.abc import Sequence
from random import Random
from typing import Annotated

from pydantic import Field, ValidationError
from pydantic.functional_validators import BeforeValidator

from certigraph.state.endings import UnknownName
from certigraph.state.records import Record

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
