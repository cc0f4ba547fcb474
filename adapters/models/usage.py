"""Usage of models: tokens, prices, budgets and the record of calls."""

import asyncio
import os
import tomllib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.utils import count_tokens_approximately
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from certigraph.adapters.files import expanded
from certigraph.adapters.protocols import Budget
from certigraph.adapters.redaction import redact_message
from certigraph.state.records import Fault, LimitKind, LimitReached, Record, Spent, Stopped, Usage, replace_surrogates
from certigraph.state.trajectory import CallBegun

# The price table of the user: what models cost, in a TOML file.

TABLE = "CERTIGRAPH_PRICES"
"""Environment variable that names a price table."""

EXAMPLE = '["gpt-4o-mini"]\nread = 0.15\ncached = 0.075\nwritten = 0.60'
"""One entry of a price table, in TOML."""

MOST_BYTES = 1_000_000
"""Size of a price table."""


class Price(Record):
    """US dollars per million tokens."""

    read: float = Field(ge=0, allow_inf_nan=False)
    cached: float | None = Field(None, ge=0, allow_inf_nan=False)
    """Of tokens read from a prefix cache; as `read` where it is not given."""
    written: float = Field(ge=0, allow_inf_nan=False)

    def of(self, usage: UsageMetadata) -> float:
        """US dollars of one call."""
        cached = cached_tokens(usage)
        kept = self.read if self.cached is None else self.cached
        read = (usage["input_tokens"] - cached) * self.read
        return (read + cached * kept + usage["output_tokens"] * self.written) / 1e6

    @property
    def least(self) -> float:
        """US dollars that no call stays under: those of one token."""
        return min(self.read, self.written) / 1e6


def own_prices() -> dict[str, Price]:
    """The user's prices by model; none where CERTIGRAPH_PRICES is unset.

    Raises:
        Fault: ("data") the file that it names is no price table.
    """
    named = os.environ.get(TABLE)
    if not named:
        return {}
    try:
        path = expanded(named)
        return _read(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise Fault("data", f"{TABLE}={named}: {error}; name a file of prices, or unset {TABLE}") from error


@lru_cache(maxsize=4)
def _read(path: Path, changed: int) -> dict[str, Price]:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES:,} bytes")
        return _TABLE.validate_python(tomllib.loads(path.read_text(encoding="utf-8")))
    except (ValueError, RecursionError) as error:  # of TOML, of text that is no UTF-8 and of pydantic alike
        told = f"{path} is no price table: {_brief(error)}; an entry, in US dollars per million tokens:\n{EXAMPLE}"
        raise Fault("data", told) from error


_TABLE = TypeAdapter(dict[str, Price])


def _brief(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    # a key that is misspelt says more than the one that is missing for it
    first = max(error.errors(include_url=False), key=lambda told: told["type"] == "extra_forbidden")
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def unpriced(model: str, dollars: float) -> str:
    """What to tell whoever limits dollars where a model has no known price."""
    entry = EXAMPLE.replace("gpt-4o-mini", model)
    return (
        f"{model} has no known price, so that usd={dollars:g} cannot hold: leave usd away, or name a table of prices, "
        f"{TABLE}=prices.toml; an entry of it, in US dollars per million tokens:\n{entry}"
    )


def cached_tokens(usage: UsageMetadata) -> int:
    """Input tokens that the endpoint read from its prefix cache."""
    return (usage.get("input_token_details") or {}).get("cache_read") or 0


# What a call costs: the user's own price table first, then the few public prices that are known and stable.

FREE = Price(read=0, written=0)

OPENAI = {
    "gpt-4o": Price(read=2.50, cached=1.25, written=10.00),
    "gpt-4o-mini": Price(read=0.15, cached=0.075, written=0.60),
    "gpt-4.1": Price(read=2.00, cached=0.50, written=8.00),
    "gpt-4.1-mini": Price(read=0.40, cached=0.10, written=1.60),
    "gpt-4.1-nano": Price(read=0.10, cached=0.025, written=0.40),
}
"""OpenAI's list prices. Dated snapshots of one name differ in price, so only the plain names stand here."""


def price_of(model: BaseChatModel) -> Price | None:
    """The price of a model; None where neither the user's table nor this one has it.

    Raises:
        Fault: ("data") the file that CERTIGRAPH_PRICES names is no price table.
    """
    if getattr(model, "free", False) or "weights" in (model.metadata or {}):
        return FREE
    own, name = own_prices(), str(getattr(model, "priced_as", None) or getattr(model, "model_name", ""))
    listed = {} if _elsewhere(model) else OPENAI
    found = (own.get(form) for form in _forms(name))
    return next(filter(None, found), None) or listed.get(name.removeprefix("openai/"))


def _forms(name: str) -> tuple[str, ...]:
    """The names under which a table may have a model: inspect's, the endpoint's, certigraph's."""
    plain = name.rpartition("/")[2]
    served = plain.removeprefix("openai:").partition("?")[0]
    return name, plain, served, f"openai:{served}"


def usd(price: Price | None, usage: UsageMetadata) -> float:
    """US dollars of one call; 0 where the price is not known."""
    return price.of(usage) if price else 0.0


def _elsewhere(model: BaseChatModel) -> bool:
    return bool(getattr(model, "openai_api_base", None) or os.environ.get("OPENAI_BASE_URL"))


# What a call is billed: the endpoint's own count of tokens where it can be believed, else one made here.

NO_USAGE = UsageMetadata(input_tokens=0, output_tokens=0, total_tokens=0)

MOST_TOKENS = 1_000_000_000
"""Tokens of one call that an endpoint is believed; less than nothing would let a budget never end."""


def usage_of(told: UsageMetadata | None, asked: Sequence[BaseMessage], text: str) -> UsageMetadata:
    """What was read and written: what the endpoint told, or about what it was where it told nothing that can be."""
    if told and _believable(told):
        return told
    read, wrote = count_tokens_approximately(asked), count_tokens_approximately([AIMessage(text)])
    return UsageMetadata(input_tokens=read, output_tokens=wrote, total_tokens=read + wrote)


def credible(used: Any) -> bool:
    """Whether what an OpenAI-compatible endpoint sends as `usage`, a mapping or an object, has usable counts."""
    read, wrote = _part(used, "prompt_tokens"), _part(used, "completion_tokens")
    read_details, wrote_details = _part(used, "prompt_tokens_details"), _part(used, "completion_tokens_details")
    details = [
        *(_part(read_details, name) for name in ("cached_tokens", "audio_tokens", "cache_write_tokens")),
        *(_part(wrote_details, name) for name in ("reasoning_tokens", "audio_tokens")),
        _part(used, "total_tokens"),
    ]
    if not all(part is None or isinstance(part, (dict, BaseModel)) for part in (read_details, wrote_details)):
        return False
    return _is_count(read) and _is_count(wrote) and all(count is None or _is_count(count) for count in details)


def _part(whole: Any, name: str) -> Any:
    return whole.get(name) if isinstance(whole, dict) else getattr(whole, name, None)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MOST_TOKENS


def _believable(told: UsageMetadata) -> bool:
    read, wrote, cached = told.get("input_tokens"), told.get("output_tokens"), cached_tokens(told)
    return _is_count(read) and _is_count(wrote) and _is_count(cached) and cached <= (read or 0)


# Where a model call is recorded before its request is sent, so that a process that is killed leaves it on record.

CallLog = Callable[[CallBegun], int]
"""Records a call that begins and returns its id. Raises LimitReached where the run has no call left."""

_LOG: ContextVar[CallLog | None] = ContextVar("certigraph_call_log", default=None)


@contextmanager
def logged_by(log: CallLog) -> Iterator[None]:
    """Have `log` record every call that begins inside the block, in graphs inside nodes and in threads as well."""
    token = _LOG.set(log)
    try:
        yield
    finally:
        _LOG.reset(token)


def begin_call(call: CallBegun) -> int:
    """The id under which a call that begins is recorded; 0 where no run is recorded.

    Raises:
        LimitReached: the calls of all parts of the run together, those lost in a crash included, use up its budget.
    """
    log = _LOG.get()
    return log(call) if log else 0


# What a node spends on models, and the one place where a budget ends a run.


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


# Where a node's bill goes: to the driver that runs the graph, before a checkpoint can hold what the node did.
#
# LangGraph's own stream would tell it after that, so that a kill between the two would lose the line.


class Place(NamedTuple):
    """Where a node ran: in the graph itself, or in one that solved a node of it."""

    scope: str = ""
    """LangGraph's namespace of the inner graph; empty in the outer one."""
    subtask: str = ""
    """Id of the node that the inner graph solved; the namespace tells graphs within graphs apart."""


class Bill(NamedTuple):
    """What one execution of a node cost, and the model calls that it made."""

    superstep: int
    usage: Usage
    calls: list[Call]
    place: Place = Place()
    update: Mapping[str, Any] | None = None
    """What the node returned; None where it raised."""


Payer = Callable[[Bill], None]

_PAYER: ContextVar[Payer | None] = ContextVar("certigraph_payer", default=None)


@contextmanager
def billed_to(payer: Payer | None) -> Iterator[None]:
    """Hand the bill of every node that runs inside the block to `payer`, of one that failed too; None: to nobody."""
    token = _PAYER.set(payer)
    try:
        yield
    finally:
        _PAYER.reset(token)


@contextmanager
def keeping_failed(failed: list[Bill]) -> Iterator[None]:
    """Keep the bills of nodes that raise inside the block, to be handed in by whoever keeps them; others go on."""
    payer = _PAYER.get()

    def note(bill: Bill) -> None:
        if bill.update is None:
            failed.append(bill)
        elif payer:
            payer(bill)

    with billed_to(note):
        yield


def send_bill(bill: Bill) -> None:
    """Hand in a bill; without a payer it is in the graph's state alone."""
    if payer := _PAYER.get():
        payer(bill)


def settled(failed: Sequence[Bill], meter: Meter, *, went_on: bool) -> float:
    """The seconds of nodes that raised inside a node, which pays for them where it went on; else each has its line.

    So what they cost is in a checkpoint exactly if this node's own update is.
    """
    if not went_on:
        for bill in failed:
            send_bill(bill)
        return 0.0
    for call in (call for bill in failed for call in bill.calls):
        meter.charge(call)
    return sum(bill.usage.seconds for bill in failed)
