"""Usage of models: token counts, budgets and the record of calls.

A `Meter` counts the calls, tokens and dollars of one execution of a node, and enforces the budget of the run.
`report_usage` passes these counts to the driver, which runs the graph.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.utils import count_tokens_approximately
from pydantic import BaseModel

from certigraph.adapters.json_lines import replace_surrogates
from certigraph.adapters.models.exchanges import Exchange, keep_exchange
from certigraph.adapters.models.prices import (
    FREE_PRICE,
    ListPrice,
    Price,
    cache_writes,
    cached_tokens,
    format_missing_price,
)
from certigraph.adapters.processes import Setting
from certigraph.adapters.protocols import Budget
from certigraph.adapters.redaction import redact_message
from certigraph.state.endings import Fault, LimitKind, LimitReached, Stopped
from certigraph.state.records import Record, Spent, Usage
from certigraph.state.trajectory import CallStarted

# Token counts of a call: the endpoint's if they are plausible, else an estimate.

NO_USAGE = UsageMetadata(input_tokens=0, output_tokens=0, total_tokens=0)

MAX_TOKENS = 1_000_000_000
"""Maximum token count of one call that is accepted from an endpoint; negative counts are rejected too."""


def usage_of(reported: UsageMetadata | None, messages: Sequence[BaseMessage], text: str) -> UsageMetadata:
    """Return the token counts that the endpoint reported, or an estimate if it reported none or implausible ones.

    A count below a hundredth of the estimate is implausible: a budget would never end a run that costs nothing.
    """
    read, wrote = count_tokens_approximately(messages), count_tokens_approximately([AIMessage(text)]) if text else 0
    if reported and _is_plausible(reported) and _is_enough(reported, read, wrote):
        return reported
    return UsageMetadata(input_tokens=read, output_tokens=wrote, total_tokens=read + wrote)


def has_plausible_counts(used: Any) -> bool:
    """Return whether the field `usage` of an OpenAI-compatible reply has plausible token counts.

    Args:
        used: that field's value, a mapping or an object.
    """
    read, wrote = get_part(used, "prompt_tokens"), get_part(used, "completion_tokens")
    read_details, wrote_details = get_part(used, "prompt_tokens_details"), get_part(used, "completion_tokens_details")
    details = [
        *(get_part(read_details, name) for name in ("cached_tokens", "audio_tokens", "cache_write_tokens")),
        *(get_part(wrote_details, name) for name in ("reasoning_tokens", "audio_tokens")),
        get_part(used, "total_tokens"),
    ]
    if not all(part is None or isinstance(part, (dict, BaseModel)) for part in (read_details, wrote_details)):
        return False
    return _is_count(read) and _is_count(wrote) and all(count is None or _is_count(count) for count in details)


def get_part(container: Any, name: str) -> Any:
    """Return a field of a response, which is a mapping or an object; None if it has no such field."""
    return container.get(name) if isinstance(container, dict) else getattr(container, name, None)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_TOKENS


def _is_plausible(reported: UsageMetadata) -> bool:
    read, wrote = reported.get("input_tokens"), reported.get("output_tokens")
    cached, stored = cached_tokens(reported), cache_writes(reported)
    return all(map(_is_count, (read, wrote, cached, stored))) and cached + stored <= (read or 0)


def _is_enough(reported: UsageMetadata, read: int, wrote: int) -> bool:
    return 100 * reported["input_tokens"] >= read and 100 * reported["output_tokens"] >= wrote


# Log of calls, written before a request is sent, so that a killed process leaves a record of it.

CallLog = Callable[[CallStarted], int]
"""Function that records the start of a model call and returns the call's id. It raises LimitReached if the run's budget
allows no more calls."""

_LOG: ContextVar[CallLog | None] = ContextVar("certigraph_call_log", default=None)


def use_call_log(log: CallLog) -> Setting[CallLog]:
    """Record every model call that starts inside the block in `log`, also calls of inner graphs and worker threads."""
    return Setting(_LOG, log)


def log_call_start(call: CallStarted) -> int:
    """Record the start of a model call in the call log and return the call's id; 0 if there is no log.

    Raises:
        LimitReached: the run has used up its budget of calls. Calls lost in a crash count too.
    """
    log = _LOG.get()
    return log(call) if log else 0


# Meter of a node's calls: the only place where a budget ends a run.


class Call(Record):
    """One request to a model: its usage, its cost, and in `failure` why it failed or its answer was rejected."""

    id: int = 0
    """Number of the call in its run; 0 if no request was sent, or no run is recorded."""
    role: str
    model: str
    schema_name: str
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0
    failure: str = ""
    cut: tuple[str, ...] = ()
    """What was left out of the prompt because it does not fit into the model's context window."""
    window: int = 0
    """Tokens of that window; 0 if nothing was left out."""
    cached: bool = False
    """Whether the reply came from the cache of an earlier run, at no cost."""
    unpriced: bool = False
    """Whether the price of the model is unknown, so that `usd` lacks the cost of this call."""
    prompt: int = 0
    """Line of the run's `prompts.jsonl` that has the request and the reply; 0 if they were not kept."""


class CallOrigin(NamedTuple):
    """Where the calls of a meter were made: the superstep and, for an inner graph, its `scope` and `subtask`.

    `scope` and `subtask` are those of `NodeScope`; both are empty in the outermost graph.
    """

    superstep: int = 0
    scope: str = ""
    subtask: str = ""


@dataclass
class OpenCall:
    """A model call that is still running, and the record of it."""

    call: Call
    repeat: Callable[[str], None] = lambda failure: None
    """Charges the request as failed, with the failure, and starts another one of the same call.

    A model with retries or fallbacks sends several requests. It raises LimitReached if the budget allows no more.
    """
    settled: bool = False
    """Whether `call` already contains the result."""

    def settle(self, call: Call) -> None:
        """Replace the record of the call by one with the result; its id stays, and whether its price is unknown."""
        kept = {"id": self.call.id, "unpriced": self.call.unpriced and not call.cached}
        self.call, self.settled = call.model_copy(update=kept), True


@dataclass
class Meter:
    """Counts the calls, tokens, dollars and seconds of one execution of a node; `before` is what the run spent earlier.

    Attributes:
        node: name of the node.
        budget: limits of the complete run.
        before: what the run had spent when the node started.
        origin: where the node runs.
        records: the finished calls.
        outer: the meter of the node in which these calls are made with a budget of their own; it counts them too.
    """

    node: str
    budget: Budget
    before: Spent = Spent()  # noqa: RUF009 - a frozen record may be shared
    origin: CallOrigin = CallOrigin()  # noqa: RUF009 - so may this
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd: float = 0.0
    records: list[Call] = field(default_factory=list)
    outer: "Meter | None" = None
    _running: int = 0
    _started: float = field(default_factory=perf_counter)

    def check(self, calls: int = 0, price: Price | ListPrice = FREE_PRICE) -> None:
        """Check that the budget allows a world step, or `calls` more model calls.

        Raises:
            LimitReached: a limit is exceeded, or would be exceeded by `calls` calls of one token each.
        """
        if self.outer:
            self.outer.check(calls, price)
        budget, spent = self.budget, self.spent()
        self._check_limit("calls", budget.calls, spent.calls, calls)
        self._check_limit("tokens", budget.tokens, spent.tokens, calls)
        self._check_limit("usd", budget.usd, spent.usd, calls * price.minimum)
        self._check_limit("seconds", budget.seconds, spent.seconds)

    @contextmanager
    def open_call(
        self,
        call: Call,
        price: Price | ListPrice | None,
        exchange: Exchange | None = None,
        *,
        prompt_tokens: int = 0,
        logged: bool = True,
    ) -> Iterator[OpenCall]:
        """Check the budget for one call, and charge the call when the block ends, with or without an error.

        A running call already counts, so that parallel calls do not exceed the budget together.

        Args:
            call: the call, without its result.
            price: price of the model; None if unknown.
            exchange: the request, whose reply is filled in before the block ends, for a run that keeps prompts.
            prompt_tokens: estimated tokens of the prompt, for the call log.
            logged: whether to write the call to the call log before the block starts. A request over the network needs
                it.

        Raises:
            LimitReached: the budget does not allow the call.
            Fault: ("model") dollars are limited and the model has no known price.
        """
        if price is None and self.budget.priced:
            raise Fault("model", format_missing_price(call.model, self.budget.usd))
        self.check(calls=1, price=price or FREE_PRICE)
        call = call.model_copy(update={"unpriced": price is None})

        def start() -> Call:
            return self._log_start(call, price or FREE_PRICE, prompt_tokens) if logged else call

        def repeat(failure: str) -> None:
            self.check(calls=1, price=price or FREE_PRICE)
            self.charge(opened.call.model_copy(update={"failure": redact_message(replace_surrogates(failure))}))
            opened.call = start()

        opened = OpenCall(start(), repeat)
        self._running += 1
        token = _CALL_OPEN.set(True)
        try:
            yield opened
        except BaseException as error:
            if not opened.settled:
                opened.settle(opened.call.model_copy(update={"failure": _format_failure(error)}))
            raise
        finally:
            _CALL_OPEN.reset(token)
            self._running -= 1
            self.charge(opened.call, exchange)

    def _log_start(self, call: Call, price: Price | ListPrice, prompt_tokens: int) -> Call:
        cost = price.of(UsageMetadata(input_tokens=prompt_tokens, output_tokens=0, total_tokens=prompt_tokens))
        fields = {"role": call.role, "model": call.model, "schema_name": call.schema_name}
        start = CallStarted(node=self.node, input_tokens=prompt_tokens, usd=cost, **fields, **self.origin._asdict())
        return call.model_copy(update={"id": log_call_start(start)})

    @asynccontextmanager
    async def within_seconds(self) -> AsyncIterator[None]:
        """Cancel the block when the run's budget of seconds is used up, and raise LimitReached."""
        limit = self.budget.seconds
        try:
            async with asyncio.timeout(limit - self.spent().seconds) as timeout:
                yield
        except TimeoutError:
            if timeout.expired():
                raise LimitReached("seconds", limit, self.spent().seconds) from None
            raise

    def charge(self, call: Call, exchange: Exchange | None = None) -> None:
        """Add one call to the counts, whether its answer was usable or not.

        `exchange` has its request and reply, for a run that keeps prompts.
        """
        self.calls += 1
        self.input_tokens += call.input_tokens
        self.output_tokens += call.output_tokens
        self.cached_tokens += call.cached_tokens
        self.usd += call.usd
        if prompt := keep_exchange(exchange, call, node=self.node, **self.origin._asdict()):
            call = call.model_copy(update={"prompt": prompt})
        self.records.append(call)
        if self.outer:
            self.outer.charge(call)

    def spent(self) -> Spent:
        """Return what the run has spent so far. A running call counts with the mean cost of the previous calls."""
        calls = self.before.calls + self.calls
        tokens, dollars = self.before.tokens + self.input_tokens + self.output_tokens, self.before.usd + self.usd
        running_share = self._running / max(calls, 1)
        return Spent(
            calls=calls + self._running,
            tokens=tokens + int(tokens * running_share),
            usd=dollars + dollars * running_share,
            seconds=self.before.seconds + perf_counter() - self._started,
        )

    def usage(self, seconds: float) -> Usage:
        """Return the usage record of this execution of the node; `seconds` is its wall-clock time."""
        return Usage(
            node=self.node,
            calls=self.calls,
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            cached_tokens=self.cached_tokens,
            usd=self.usd,
            seconds=round(seconds, 6),
        )

    def _check_limit(self, kind: LimitKind, limit: float, spent: float, need: float = 0) -> None:
        if spent + need > limit:
            raise LimitReached(kind, limit, spent)


def _format_failure(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return str(error) or "cancelled"
    return (
        str(error)
        if isinstance(error, Stopped)
        else redact_message(replace_surrogates(f"{type(error).__name__}: {error}"))
    )


_CALL_OPEN: ContextVar[bool] = ContextVar("certigraph_call_open", default=False)


def is_call_open() -> bool:
    """Return whether the calling code runs inside a model call that a meter already counts."""
    return _CALL_OPEN.get()


_METER: ContextVar[Meter | None] = ContextVar("certigraph_meter", default=None)


def metering(meter: Meter) -> Setting[Meter]:
    """Let `meter` count every model call inside the block."""
    return Setting(_METER, meter)


def find_meter() -> Meter | None:
    """Return the meter of the running node; None outside a node."""
    return _METER.get()


def current_meter() -> Meter:
    """Return the meter of the running node; outside a node a new one with the default budget."""
    return _METER.get() or Meter("", Budget())


# Usage reports of nodes, handed to the driver before a checkpoint can contain the node's update.
#
# LangGraph's own stream reports the update later, so that a kill between the two would lose the usage.


class NodeScope(NamedTuple):
    """Graph in which a node ran: the outer graph, or an inner graph that solves one sub-task of a task graph."""

    scope: str = ""
    """LangGraph's namespace of the inner graph, which is unique also for graphs within graphs; empty in the outer one.
    """
    subtask: str = ""
    """Id of the sub-task that the inner graph solves; empty in the outer graph."""


class UsageReport(NamedTuple):
    """Usage of one execution of a node, and the model calls that it made."""

    superstep: int
    usage: Usage
    calls: list[Call]
    place: NodeScope = NodeScope()
    update: Mapping[str, Any] | None = None
    """The update that the node returned; None if it raised."""


UsageReceiver = Callable[[UsageReport], None]
"""Function that receives usage reports."""

_RECEIVER: ContextVar[UsageReceiver | None] = ContextVar("certigraph_payer", default=None)


def send_usage_to(receiver: UsageReceiver | None) -> Setting[UsageReceiver | None]:
    """Send the usage report of every node that runs inside the block to `receiver`, also of nodes that fail.

    If `receiver` is None, the reports are discarded.
    """
    return Setting(_RECEIVER, receiver)


def collect_failed_usage(failed: list[UsageReport]) -> Setting[UsageReceiver]:
    """Append the usage reports of nodes that raise inside the block to `failed`, instead of sending them.

    Reports of other nodes go to the receiver that was set before.
    """
    receiver = _RECEIVER.get()

    def collect(report: UsageReport) -> None:
        if report.update is None:
            failed.append(report)
        elif receiver:
            receiver(report)

    return Setting(_RECEIVER, collect)


def report_usage(report: UsageReport) -> None:
    """Send a usage report to the receiver of `send_usage_to`. Without one, only the graph's state has the usage."""
    if receiver := _RECEIVER.get():
        receiver(report)


def settle_failed_usage(failed: Sequence[UsageReport], meter: Meter, *, went_on: bool) -> float:
    """Account for the usage of inner nodes that raised while an outer node ran.

    If the outer node continued, the calls of the failed nodes are charged to `meter`; else each report is sent to the
    receiver. So a checkpoint has their cost exactly if it has the outer node's update.

    Args:
        failed: reports of the failed inner nodes.
        meter: meter of the outer node.
        went_on: whether the outer node continued after the errors.

    Returns:
        Seconds of the failed nodes that the outer node's usage must include.
    """
    if not went_on:
        for report in failed:
            report_usage(report)
        return 0.0
    for call in (call for report in failed for call in report.calls):
        meter.charge(call)
    return sum(report.usage.seconds for report in failed)
