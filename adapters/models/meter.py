"""What a node spends on models, and the one place where a budget ends a run."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter
from typing import NamedTuple

from langchain_core.messages.ai import UsageMetadata

from certigraph.adapters.context import Budget
from certigraph.adapters.models.call_log import begin_call
from certigraph.adapters.models.price_table import Price, unpriced
from certigraph.adapters.models.prices import FREE
from certigraph.adapters.models.redact import redact_message
from certigraph.state.endings import Fault, LimitKind, LimitReached, Stopped
from certigraph.state.json_text import replace_surrogates
from certigraph.state.records import Record, Spent, Usage
from certigraph.state.trajectory import CallBegun


class Call(Record):
    """One try at one question: what it cost, and why its answer was refused if it was."""

    id: int = 0
    """Number of the call in its run; 0 where no request was sent, or no run is recorded."""
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


class Origin(NamedTuple):
    """Where the calls of a meter are made: superstep, and the inner graph as in the events of a trajectory."""

    superstep: int = 0
    scope: str = ""
    subtask: str = ""


@dataclass
class OpenCall:
    """A call under way, as it is to be recorded."""

    call: Call
    settled: bool = False
    """Whether `call` says what came of it."""

    def settle(self, call: Call) -> None:
        """Say what came of it."""
        self.call, self.settled = call.model_copy(update={"id": self.call.id}), True


@dataclass
class Meter:
    """Counts what one execution of a node spends, on top of what the run spent `before`."""

    node: str
    budget: Budget
    before: Spent = Spent()  # noqa: RUF009 - a frozen record may be shared
    origin: Origin = Origin()  # noqa: RUF009 - so may this
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
    def calling(
        self, call: Call, price: Price | None, *, prompt_tokens: int = 0, logged: bool = True
    ) -> Iterator[OpenCall]:
        """Check the budget for one call and charge that call when the block ends, however it ends.

        While it is under way it holds its place, so that parallel calls do not overrun the budget. `logged`: whether it
        is a request that has to be on record before it is sent, with an estimate of its `prompt_tokens`.

        Raises:
            LimitReached: the budget has no room.
            Fault: ("model") dollars are limited and the model has no known price.
        """
        if price is None and self.budget.priced:
            raise Fault("model", unpriced(call.model, self.budget.usd))
        self.check(calls=1, price=price or FREE)
        opened = OpenCall(self._begun(call, price or FREE, prompt_tokens) if logged else call)
        self._waiting += 1
        try:
            yield opened
        except BaseException as lost:
            if not opened.settled:
                opened.settle(opened.call.model_copy(update={"failure": _failure(lost)}))
            raise
        finally:
            self._waiting -= 1
            self.charge(opened.call)

    def _begun(self, call: Call, price: Price, prompt_tokens: int) -> Call:
        cost = price.of(UsageMetadata(input_tokens=prompt_tokens, output_tokens=0, total_tokens=prompt_tokens))
        about = {"role": call.role, "model": call.model, "schema_name": call.schema_name}
        line = CallBegun(node=self.node, input_tokens=prompt_tokens, usd=cost, **about, **self.origin._asdict())
        return call.model_copy(update={"id": begin_call(line)})

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


def _failure(lost: BaseException) -> str:
    if isinstance(lost, asyncio.CancelledError):
        return str(lost) or "cancelled"
    return (
        str(lost) if isinstance(lost, Stopped) else redact_message(replace_surrogates(f"{type(lost).__name__}: {lost}"))
    )


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
