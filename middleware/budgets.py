"""Budgets: what an agent may spend on requests to models, in a turn, in a thread or for a user."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, get_args
from urllib.parse import quote

from langchain.agents.middleware import (
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
)
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.messages import AIMessage, AnyMessage, RemoveMessage
from langgraph.channels.untracked_value import UntrackedValue
from langgraph.config import get_config
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.types import Command

from certigraph.adapters.models.chat_models import model_label
from certigraph.adapters.models.prices import ListPrice, Price, cached_tokens, cost_in_usd, price_of
from certigraph.adapters.models.usage import Call, Meter, usage_of
from certigraph.adapters.processes import is_invoked, run_in_thread, wait_for_node
from certigraph.adapters.protocols import Budget
from certigraph.adapters.tools.positions import NAMESPACE_KEY, TASK_KEY
from certigraph.middleware.views import USAGE_KEY, MarksMessages, UsageState
from certigraph.nodes.conversations import refuse, rounds_in
from certigraph.nodes.requests import requests_in
from certigraph.state.endings import Fault, LimitReached
from certigraph.state.records import Spent, Usage
from certigraph.state.trajectory import total_usage

BudgetScope = Literal["run", "thread", "user"]
"""For what a budget holds: a turn, which a new human message begins, a thread, or all threads of a user."""

MODEL, ELSEWHERE = "model", "elsewhere"
"""Names in the usage: the agent's own requests, and the time between them that no usage has."""

ENDING_KEY = "ending"
"""Key in the `response_metadata` of the last message: why the turn ended, such as `limit:calls`."""

UNLIMITED = 10**15
"""Stands for a limit that is not set."""


class BudgetState(AgentState[Any], UsageState):
    """State of an agent with a budget."""

    certigraph_budget: NotRequired[Annotated[dict[str, Any], PrivateStateAttr]]
    certigraph_clock: NotRequired[Annotated[tuple[float, float], UntrackedValue(tuple, guard=False), PrivateStateAttr]]


class Period(NamedTuple):
    """The turn in which an agent is, and what was spent when it began."""

    request: str = ""
    """Id of the message that began it."""
    before: Spent = Spent()
    """What the thread had spent then."""
    noted: Spent = Spent()
    """What of the usage that is not the agent's own requests stands in the store, for budgets of users."""

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> "Period":
        """Read what the state holds."""
        return cls(stored["request"], *(Spent.model_validate(stored[name]) for name in ("before", "noted")))

    def as_json(self) -> dict[str, Any]:
        """Return what the state holds, as plain JSON."""
        return {"request": self.request, "before": self.before.as_json(), "noted": self.noted.as_json()}


class Standing(NamedTuple):
    """What an agent has spent up to a request."""

    period: Period
    usages: list[Usage]
    """What the state has counted, and the time since the last request that no usage has."""
    new: dict[str, Any]
    """Update of the state with what of this it does not have."""
    now: float
    """Time of the process's clock."""

    @classmethod
    def read(cls, state: Mapping[str, Any], failed: Spent, *, timed: bool) -> "Standing":
        """Read the state of an agent.

        Args:
            state: the state.
            failed: what requests spent that failed just now, and that no checkpoint has counted.
            timed: whether to count the time between requests.
        """
        usages = [Usage.model_validate(one) for one in state.get(USAGE_KEY) or ()]
        new, total, requests = dict[str, Any](), _sum(usages), requests_in(state["messages"])
        stored = state.get("certigraph_budget")
        period, now = Period.read(stored) if stored else Period(), perf_counter()
        if not stored or (requests and requests[-1].id != period.request):
            period = Period(str(requests[-1].id) if requests else "", total, period.noted)
            new["certigraph_budget"] = period.as_json()
        if timed:
            began, counted = state.get("certigraph_clock", (now, total.seconds))
            seconds = max(round(now - began - (total.seconds - counted) - failed.seconds, 6), 0.0)
            usages.append(Usage(node=ELSEWHERE, seconds=seconds))
            new |= {USAGE_KEY: [usages[-1].model_dump(mode="json")]}
            new |= {"certigraph_clock": (now, total.seconds + failed.seconds + seconds)}
        return cls(period, usages, new, now)

    @property
    def total(self) -> Spent:
        """Everything that was spent in the thread."""
        return _sum(self.usages)

    @property
    def elsewhere(self) -> Spent:
        """What of it is not the agent's own requests."""
        return _sum(one for one in self.usages if one.node != MODEL)

    def update(self, usage: Usage) -> dict[str, Any]:
        """Return the update of the state after a request."""
        return {**self.new, USAGE_KEY: [*self.new.get(USAGE_KEY, ()), usage.model_dump(mode="json")]}

    def note(self) -> "Standing":
        """Return it as it is once the store has what others than the agent's requests spent."""
        if (elsewhere := self.elsewhere) == self.period.noted:
            return self
        return self.within(self.period._replace(noted=elsewhere))

    def within(self, period: Period) -> "Standing":
        """Return it with another turn."""
        return self._replace(period=period, new={**self.new, "certigraph_budget": period.as_json()})


class Account(NamedTuple):
    """What a user has spent, in LangGraph's store: one item for each thread and each agent in it.

    Two threads write different items. So runs at the same time lose nothing.
    """

    store: BaseStore
    user: str
    key: str

    @property
    def namespace(self) -> tuple[str, ...]:
        """Namespace of the items; labels must not contain a full stop."""
        return ("certigraph", "budget", quote(self.user, safe="").replace(".", "%2E"))

    async def read(self) -> tuple[Spent, Spent]:
        """Return what this agent has spent in this thread, and what was spent elsewhere."""
        own, others, offset = Spent(), Spent(), 0
        while items := await self._use("search", self.namespace, limit=PAGE, offset=offset):
            for item in items:
                spent = Spent.model_validate(item.value["spent"])
                own, others = (spent, others) if item.key == self.key else (own, others + spent)
            offset += PAGE
            if len(items) < PAGE:
                break
        return own, others

    async def write(self, own: Spent) -> None:
        """Note what this agent has spent in this thread."""
        await self._use("put", self.namespace, self.key, {"spent": own.as_json()}, index=False)

    async def _use(self, method: str, *args: Any, **options: Any) -> Any:
        if is_invoked():  # the store may lack the async methods
            return await run_in_thread(getattr(self.store, method), *args, **options)
        return await getattr(self.store, f"a{method}")(*args, **options)


PAGE = 500
"""Number of items that are read of a store at once."""


class BudgetLimit(MarksMessages):
    """Limits the model calls, tokens, dollars and seconds of an agent, also over kills.

    The budget is checked before each request. If it is used up, a message that says so takes the place of the model's
    response and ends the turn; `{"ending": "limit:calls"}` stands in its `response_metadata`. Calls of tools that are
    still open are answered with a refusal, so that the thread can go on.

    - Counted are the agent's own requests, and those of certigraph's middleware, after they were made.
    - Tokens and dollars depend on the length of an answer. The request that reaches such a limit is the last one.
    - Seconds are the time in which the agent runs, its tools included. Waiting for a person does not count. In an async
      run a request is cancelled when they are over.
    - Dollars need a known price of each model. Prices are those of `CERTIGRAPH_PRICES` or of the provider.
    - What a checkpoint has counted stays counted after a kill. A request that was running when the process ended is not
      counted, except with `by="user"`: the store counts a request before it is sent, and its tokens after it.

    It does not see requests of tools, of sub-agents, and of other middleware such as `SummarizationMiddleware`. A
    sub-agent takes part in a budget by `by="user"` if its own list has a `BudgetLimit`.

    Place: after `ModelRetryMiddleware` and `ModelFallbackMiddleware`, so that each of their requests is counted, and
    after other middleware that changes the model of a request.

    Args:
        calls: maximum number of requests; None for no limit, as for the others.
        tokens: maximum number of input and output tokens together.
        usd: maximum US dollars.
        seconds: maximum seconds.
        by: what the budget is for: `run` for a turn, `thread`, or `user`, which needs a store.
        user_key: name of the user's id in the agent's context, or in `configurable`.
        on_limit: `end`, or `raise` for `certigraph.LimitReached`. `invoke(None, config)` goes on with a larger one.

    Raises:
        ValueError: no limit is given, or `by` or `on_limit` has another value.
    """

    state_schema = BudgetState

    def __init__(
        self,
        *,
        calls: int | None = None,
        tokens: int | None = None,
        usd: float | None = None,
        seconds: float | None = None,
        by: BudgetScope = "run",
        user_key: str = "user_id",
        on_limit: Literal["end", "raise"] = "end",
    ) -> None:
        super().__init__()
        limits = {"calls": calls, "tokens": tokens, "usd": usd, "seconds": seconds}
        if all(limit is None for limit in limits.values()):
            raise ValueError(f"a budget needs a limit: give {', '.join(limits)}")
        if by not in get_args(BudgetScope) or on_limit not in ("end", "raise"):
            raise ValueError(f"by={by!r}, on_limit={on_limit!r}: give 'run', 'thread' or 'user', and 'end' or 'raise'")
        given = {name: UNLIMITED if limit is None else limit for name, limit in limits.items()}
        self.budget = Budget.model_validate({**given, "priced": usd is not None})
        self.by, self.user_key, self.on_limit = by, user_key, on_limit
        self._timed = seconds is not None
        self._failed: OrderedDict[str, tuple[Usage, Period]] = OrderedDict()

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ExtendedModelResponse[Any]:
        """Count a request, or end the turn if the budget allows none."""
        standing = self._stand(request)
        meter, own = self._open(standing), Spent()
        if self.by == "user":
            meter, own, standing = wait_for_node(self._open_account(request, standing))
        try:
            with meter.open_call(_describe_call(request), price := price_of(request.model), logged=False) as opened:
                response = handler(request)
                opened.settle(_settle(opened.call, price, request, response))
        except LimitReached as reached:
            response = self._end(reached, request)
        finally:
            usage = self._count(meter, standing)
            if self.by == "user":
                wait_for_node(self._account(request.runtime).write(own + usage.spent()))
        return self._respond(response, standing)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ExtendedModelResponse[Any]:
        """Do the same asynchronously; a request that runs when the seconds are over is cancelled."""
        standing = self._stand(request)
        meter, own = self._open(standing), Spent()
        if self.by == "user":
            meter, own, standing = await self._open_account(request, standing)
        try:
            with meter.open_call(_describe_call(request), price := price_of(request.model), logged=False) as opened:
                async with meter.within_seconds():
                    response = await handler(request)
                opened.settle(_settle(opened.call, price, request, response))
        except LimitReached as reached:
            response = self._end(reached, request)
        finally:
            usage = self._count(meter, standing)
            if self.by == "user":
                await self._account(request.runtime).write(own + usage.spent())
        return self._respond(response, standing)

    def _stand(self, request: ModelRequest[Any]) -> Standing:
        failed = self._failed.get(_task_id())
        standing = Standing.read(request.state, failed[0].spent() if failed else Spent(), timed=self._timed)
        return standing.within(failed[1]) if failed else standing

    def _spent(self, standing: Standing) -> Spent:
        return standing.total - standing.period.before if self.by == "run" else standing.total

    def _open(self, standing: Standing) -> Meter:
        """Return the meter of a request, which knows what was spent before, requests that failed just now included."""
        failed, spent = self._failed.get(_task_id()), self._spent(standing)
        return Meter(MODEL, self.budget, spent + failed[0].spent() if failed else spent)

    async def _open_account(self, request: ModelRequest[Any], standing: Standing) -> tuple[Meter, Spent, Standing]:
        """Note that a user's request begins, if the budget allows it.

        Returns:
            The meter of the request, what this agent had spent in this thread, and its standing.
        """
        account = self._account(request.runtime)
        own, others = await account.read()
        own += standing.elsewhere - standing.period.noted
        meter = Meter(MODEL, self.budget, own + others)
        with suppress(LimitReached):  # it is raised again when the request is opened
            meter.check(calls=1)
            await account.write(own + Spent(calls=1))
        return meter, own, standing.note()

    def _count(self, meter: Meter, standing: Standing) -> Usage:
        """Return the usage of a request, and keep it for the next one of the same task, if that repeats it."""
        usage, before = meter.usage(perf_counter() - standing.now), self._failed.pop(_task_id(), None)
        self._failed[_task_id()] = total_usage([before[0], usage], MODEL) if before else usage, standing.period
        if len(self._failed) > MAX_FAILED:
            self._failed.popitem(last=False)
        return usage

    def _respond(self, response: ModelResponse[Any], standing: Standing) -> ExtendedModelResponse[Any]:
        """Return the response with the usage of the requests that led to it."""
        usage, _ = self._failed.pop(_task_id())
        return ExtendedModelResponse(response, Command(update=standing.update(usage)))

    def _end(self, reached: LimitReached, request: ModelRequest[Any]) -> ModelResponse[Any]:
        """Return the response that ends the turn, in place of the model's.

        Raises:
            LimitReached: the caller wants it to be raised.
        """
        if self.on_limit == "raise":
            advice = f"give BudgetLimit a larger {reached.kind}; with a checkpointer invoke(None, config) goes on"
            reached.args = (f"{reached.happened}; {advice}",)
            raise reached
        text = ENDED.format(whose=WHOSE[self.by], happened=reached.happened)
        message = AIMessage(text, response_metadata={ENDING_KEY: reached.ending})
        return ModelResponse([*_close_calls(request.state["messages"]), message])

    def _account(self, runtime: Runtime[Any]) -> Account:
        """Return the account of the user for whom the agent works.

        Raises:
            Fault: ("operator") there is no store, or nobody says who the user is.
        """
        if runtime.store is None:
            raise Fault("operator", "a budget by user needs a store: create_agent(..., store=InMemoryStore())")
        place = get_config().get("configurable", {})
        context = runtime.context
        given = context.get(self.user_key) if isinstance(context, Mapping) else getattr(context, self.user_key, None)
        user = given if given is not None else place.get(self.user_key)
        if user is None or user == "":
            fix = f'invoke(..., context={{"{self.user_key}": ...}}), or the key in configurable'
            raise Fault("operator", f"a budget by user needs the user's id: {fix}")
        graph = str(place.get(NAMESPACE_KEY, "")).rpartition("|")[0]
        return Account(runtime.store, str(user), "|".join([str(place.get("thread_id", "")), graph]))


MAX_FAILED = 1_000
"""Number of tasks whose failed requests are kept in memory until one succeeds."""


def _sum(usages: Iterable[Usage]) -> Spent:
    return total_usage(usages).spent()


def _task_id() -> str:
    return str(get_config().get("configurable", {}).get(TASK_KEY, ""))


def _describe_call(request: ModelRequest[Any]) -> Call:
    return Call(role="executor", model=model_label(request.model), schema_name="")


def _settle(
    call: Call,
    price: Price | ListPrice | None,
    request: ModelRequest[Any],
    response: ModelResponse[Any],
) -> Call:
    """Return the record of a request with what its response cost."""
    replies = [one for one in response.result if isinstance(one, AIMessage)]
    prompt = [*([request.system_message] if request.system_message else []), *request.messages]
    reported = replies[0].usage_metadata if replies else None
    used = usage_of(reported, prompt, "".join(str(one.content or one.tool_calls) for one in replies))
    return call.model_copy(
        update={
            "input_tokens": used["input_tokens"],
            "output_tokens": used["output_tokens"],
            "cached_tokens": cached_tokens(used),
            "usd": cost_in_usd(price, used),
        }
    )


def _close_calls(messages: Sequence[AnyMessage]) -> list[Any]:
    """Return what answers the open calls of the latest response that has some, where providers expect the answers."""
    latest = next((one for one in reversed(rounds_in(messages)) if one.open), None)
    if latest is None:
        return []
    parts = {id(one) for one in (latest.message, *latest.answers)}
    place = max(number for number, one in enumerate(messages, 1) if id(one) in parts)
    refused = [refuse(call, NOT_MADE) for call in latest.open]
    return [RemoveMessage(REMOVE_ALL_MESSAGES), *messages[:place], *refused, *messages[place:]]


NOT_MADE = "The budget is used up, so this call was not made."
ENDED = "I have to stop here: the budget of {whose} is used up ({happened})."
WHOSE: Mapping[BudgetScope, str] = {"run": "this turn", "thread": "this conversation", "user": "this user"}

__all__ = ["ENDING_KEY", "BudgetLimit", "BudgetScope", "BudgetState"]
