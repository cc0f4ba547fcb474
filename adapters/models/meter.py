"""What a node spends on models, and the one place where a budget ends a run."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter

from certigraph.adapters.context import Budget
from certigraph.adapters.models.price_table import Price, unpriced
from certigraph.adapters.models.prices import FREE
from certigraph.state.endings import Fault, LimitKind, LimitReached
from certigraph.state.records import Record, Spent, Usage


class Call(Record):
    """One try at one question: what it cost, and why its answer was refused if it was."""

    role: str
    model: str
    schema_name: str
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0
    failure: str = ""
    cached: bool = False
    """Whether the reply was kept from an earlier run, so that it cost nothing."""


@dataclass
class Meter:
    """Counts what one execution of a node spends, on top of what the run spent `before`."""

    node: str
    budget: Budget
    before: Spent = Spent()  # noqa: RUF009 - a frozen record may be shared
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float = 0.0
    records: list[Call] = field(default_factory=list)
    _waiting: int = 0
    _started: float = field(default_factory=perf_counter)

    def check(self, calls: int = 0, price: Price = FREE) -> None:
        """Make sure that the budget has room for a world step or for `calls` more model calls.

        Raises:
            LimitReached: a limit is overspent, or cannot take that many calls of at least one token each.
        """
        budget, spent = self.budget, self.spent()
        self._room("calls", budget.calls, spent.calls, calls)
        self._room("tokens", budget.tokens, spent.tokens, calls)
        self._room("usd", budget.usd, spent.usd, calls * price.least)
        self._room("seconds", budget.seconds, spent.seconds)

    @contextmanager
    def calling(self, model: str, price: Price | None) -> Iterator[None]:
        """Check the budget for one call and hold its place, so that parallel calls do not overrun it.

        Raises:
            LimitReached: the budget has no room.
            Fault: ("model") dollars are limited and the model has no known price.
        """
        if price is None and self.budget.priced:
            raise Fault("model", unpriced(model, self.budget.usd))
        self.check(calls=1, price=price or FREE)
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    @asynccontextmanager
    async def within_seconds(self) -> AsyncIterator[None]:
        """Break off what is awaited inside when the run's seconds are over, with LimitReached."""
        most = self.budget.seconds
        try:
            async with asyncio.timeout(most - self.spent().seconds) as left:
                yield
        except TimeoutError:
            if left.expired():
                raise LimitReached("seconds", most, self.spent().seconds) from None
            raise

    def charge(self, call: Call) -> None:
        """Add one call, useful or not."""
        self.calls += 1
        self.input_tokens += call.input_tokens
        self.output_tokens += call.output_tokens
        self.cached_tokens += call.cached_tokens
        self.usd += call.usd
        self.records.append(call)

    def spent(self) -> Spent:
        """What the run has spent so far; a call under way counts as the mean of those before it."""
        calls = self.before.calls + self.calls
        tokens, dollars = self.before.tokens + self.input_tokens + self.output_tokens, self.before.usd + self.usd
        waiting = self._waiting / max(calls, 1)
        return Spent(
            calls=calls + self._waiting,
            tokens=tokens + int(tokens * waiting),
            usd=dollars + dollars * waiting,
            seconds=self.before.seconds + perf_counter() - self._started,
        )

    def usage(self, seconds: float) -> Usage:
        """The record of this execution, which took `seconds` of wall-clock."""
        return Usage(
            node=self.node,
            calls=self.calls,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cached_tokens=self.cached_tokens,
            usd=self.usd,
            seconds=seconds,
        )

    def _room(self, kind: LimitKind, limit: float, spent: float, need: float = 0) -> None:
        if spent + need > limit:
            raise LimitReached(kind, limit, spent)


_METER: ContextVar[Meter | None] = ContextVar("certigraph_meter", default=None)


@contextmanager
def metering(meter: Meter) -> Iterator[Meter]:
    """Let `meter` count everything asked inside the block."""
    token = _METER.set(meter)
    try:
        yield meter
    finally:
        _METER.reset(token)


def current_meter() -> Meter:
    """The meter of the node that is running; outside a node a fresh one with the default budget."""
    return _METER.get() or Meter("", Budget())
