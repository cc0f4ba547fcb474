"""Slots: names, specifications and checks of the operators that a graph is made of."""

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from difflib import get_close_matches
from functools import partial, wraps
from importlib import import_module
from typing import Annotated, Any, NamedTuple, ParamSpec

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from langgraph.utils.runnable import RunnableCallable  # type: ignore[attr-defined]
from pydantic import Field, JsonValue, ValidationError

from certigraph.adapters.benchmarks import benchmark_of, context_of, load_benchmark
from certigraph.adapters.episodes import Rehearsed, live_episode, rehearsed_in
from certigraph.adapters.models.scripted import Situation, situated
from certigraph.adapters.models.usage import (
    Bill,
    Meter,
    Origin,
    Place,
    billed_to,
    keeping_failed,
    metering,
    send_bill,
    settled,
)
from certigraph.adapters.processes import wait_for_node
from certigraph.adapters.protocols import Budget, Context, Operator
from certigraph.state.records import Fault, Record, Spent, Task, UnknownName, Usage
from certigraph.state.run import Belief, Stagnation

# Names for operators: what a run's header records, what the command line accepts, and the way back from both.

P = ParamSpec("P")


class Spec(Record):
    """An operator by name and arguments. A name with a colon is a user's own: `module:attribute`."""

    name: str
    args: dict[str, Annotated["Spec | JsonValue", Field(union_mode="left_to_right")]] = Field(default_factory=dict)

    def __str__(self) -> str:
        """The command line's form: `capped:depth=1`."""
        shown = [f"{key}={value}" for key, value in self.args.items()]
        return ":".join([self.name, ",".join(shown)]) if shown else self.name


def factory(make: Callable[P, Operator]) -> Callable[P, Operator]:
    """Decorate an operator factory so that what it makes remembers the call that made it."""

    @wraps(make)
    def remembering(*args: P.args, **kwargs: P.kwargs) -> Operator:
        operator = make(*args, **kwargs)
        given = _flat(inspect.signature(make).bind(*args, **kwargs))
        operator.spec = Spec(name=_name(make), args={k: _plain(v) for k, v in given.items()})  # type: ignore[attr-defined]
        return operator

    remembering.makes_operator = True  # type: ignore[attr-defined]
    return remembering


def _flat(bound: inspect.BoundArguments) -> dict[str, Any]:
    """The arguments by name, those of `**operators` too, as they are given again."""
    given = dict(bound.arguments)
    for name, parameter in bound.signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            given |= given.pop(name, {})
    return given


def spec_of(operator: Operator) -> Spec:
    """The name and arguments under which an operator can be made again."""
    remembered: Spec | None = getattr(operator, "spec", None)
    return remembered or Spec(name=_name(operator))


def operator_from(spec: Spec, shipped: Mapping[str, Callable[..., Any]]) -> Operator:
    """Make an operator from its spec: shipped ones by name, a user's by import.

    Raises:
        UnknownName: the name is unknown; the message lists the shipped ones.
    """
    made = shipped.get(spec.name) or _imported(spec.name, shipped)
    if not getattr(made, "makes_operator", False):
        if spec.args:
            raise UnknownName(f"operator {spec} takes no arguments: write {spec.name}")
        return made
    args = {k: operator_from(v, shipped) if isinstance(v, Spec) else v for k, v in spec.args.items()}
    operator: Operator = made(**args)
    return operator


def _imported(name: str, shipped: Mapping[str, object]) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    if not attribute:
        near = ", ".join(get_close_matches(name, shipped))
        known = f"did you mean {near}? `certigraph list` has all" if near else f"known: {', '.join(sorted(shipped))}"
        raise UnknownName(f"unknown operator {name!r}; {known}, or module:attribute for your own")
    try:
        found: Callable[..., Any] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        told = "put it at the top of a module that Python can import from here"
        raise UnknownName(f"operator {name!r} cannot be imported ({error}): {told}") from error
    return found


def _name(function: Callable[..., Any]) -> str:
    module = getattr(function, "__module__", None) or "__main__"
    name: str = getattr(function, "__qualname__", type(function).__qualname__)
    return name if module.startswith(("certigraph.nodes.", "certigraph.graphs.")) else f"{module}:{name}"


def _plain(value: Any) -> Any:
    return spec_of(value) if callable(value) else value


# Where a benchmark's own operator takes the place of the generic, prompted one of the same name.


def specialised(operator: Operator) -> Operator:
    """Let the benchmark answer with its operator of the same name, where it has one."""
    name = operator.__name__

    @wraps(operator)
    async def answering(state: Any, runtime: Runtime[Context]) -> dict[str, Any]:
        special = benchmark_of(state["task"], runtime).operators().get(name)
        return await (special or operator)(state, runtime)

    return answering


# What every operator finds in its runtime: the live benchmark, what its world admits, and what it would answer.


def at_home(state: Any, runtime: Runtime[Context]) -> Runtime[Context]:
    """The runtime with a context, defaults where none was given; in it the live benchmark and the world's hooks."""
    context = context_of(runtime)
    benchmark = context.benchmark or load_benchmark(_task(state).benchmark, context.data)
    home = replace(runtime, context=context.model_copy(update={"benchmark": benchmark}))
    opened = bool(state.get("episode"))
    home.context.admissible = partial(_admissible, state, home) if opened else None
    home.context.rehearse = partial(_rehearsed, state, home) if opened else None
    return home


def _admissible(state: Any, runtime: Runtime[Context]) -> list[str] | None:
    # Bound here, to the whole state, because an operator's view holds no log to rebuild a lost world from.
    return live_episode(state["episode"], state["task"], state["history"], runtime).admissible()


def _rehearsed(state: Any, runtime: Runtime[Context], path: Sequence[str]) -> Rehearsed:
    live = live_episode(state["episode"], state["task"], state["history"], runtime)
    return rehearsed_in(live, state["task"], path, runtime)


def _task(state: Any) -> Task:
    try:
        return Task.model_validate(state["task"])
    except (KeyError, ValidationError) as error:
        example = '{"task": {"benchmark": "blocksworld", "id": "4-0"}}'
        raise Fault("data", f"the graph's input needs a task, for example {example}; got {dict(state)}") from error


# Slots: what the graph does around an operator, so that an exchanged operator need not repeat it.
#
# A slot names the channels it reads, narrows them to the operator's view, and turns the operator's answer into the
# state update with its bookkeeping. `as_node` makes a LangGraph node of a slot and an operator.

Update = dict[str, Any]

OPENED = frozenset({"task", "episode", "observation", "evidence", "history"})
"""What an operator that opens an episode returns."""

ACTED = frozenset({"observation", "evidence", "history"})
"""What an operator that acts in the world returns."""


FRESH: Update = {"belief": Belief(), "rounds": Overwrite([]), "stagnation": Stagnation()}
"""What memory and gate begin an episode with."""


def forgotten(state: Mapping[str, Any]) -> Update:
    """What a new episode forgets of the one before; nothing where there was none, for it would weigh on checkpoints."""
    return {channel: empty for channel, empty in FRESH.items() if state.get(channel)}


SUBTASK = "subtask"
"""Key of the metadata that tell the nodes of an inner graph which node it solves."""


def _unchanged(state: Mapping[str, Any], update: Update, runtime: Runtime[Context]) -> Update:
    return update


def _all(state: Any) -> Any:
    return state


class Slot(NamedTuple):
    """A place for an operator in a graph."""

    name: str
    writes: frozenset[str]
    """Keys the operator must return, no more and no less: LangGraph would drop or miss them in silence."""
    view: Callable[[Any], Any] = _all
    record: Callable[[Any, Update, Runtime[Context]], Update] = _unchanged
    """Adds the slot's bookkeeping to the operator's answer."""
    skip: Callable[[Any, Runtime[Context]], Update | None] = lambda state, runtime: None
    """An answer that makes asking the operator pointless (its budget is spent), else None."""
    opens_books: bool = False
    """Whether a run begins here: what the thread spent before is another run's."""
    types: Mapping[str, type] = {}
    """Types of some of the keys, where a wrong one would only show elsewhere."""
    nests: bool = False
    """Whether the operator runs a graph, whose nodes send bills of their own; it returns `usage` and `spent` of all."""


def as_node(slot: Slot, operator: Operator) -> RunnableCallable:
    """A node that narrows, meters, checks and records, and serves `invoke` and `ainvoke` alike."""
    nested = getattr(operator, "graph", None)

    async def node(state: Any, config: RunnableConfig, runtime: Runtime[Context]) -> Update:
        context = context_of(runtime)
        before = Spent() if slot.opens_books else state.get("spent", Spent()) + context.lost
        step, place = _where(config)
        # calls inside a node that is no task graph's are the node's own
        origin = Origin(step, *(place if place.subtask else Place()))
        meter = Meter(slot.name, context.budget, before, origin)
        failed: list[Bill] = []
        started, update = time.perf_counter(), None
        try:
            # a graph that an operator runs hands its nodes' bills to nobody: they are no lines of this run
            with metering(meter), situated(Situation(slot.name, step, state)), _billing(slot, failed):
                update = await _answer(slot, operator, state, at_home(state, runtime))
        finally:
            inside = settled(failed, meter, went_on=update is not None)
            usage = meter.usage(inside if slot.nests else time.perf_counter() - started)
            send_bill(Bill(step, usage, meter.records, place, update))
        return {**update, **_booked(slot, update, usage)}

    def blocking_node(state: Any, config: RunnableConfig, runtime: Runtime[Context]) -> Update:
        _ = nested  # LangGraph draws the graph inside a node where the node's function closes over it
        return wait_for_node(node(state, config, runtime))

    return RunnableCallable(blocking_node, node, name=slot.name, trace=False)


def _where(config: RunnableConfig) -> tuple[int, Place]:
    """The superstep of a node and its place, as LangGraph's metadata tells them."""
    told = config.get("metadata", {})
    scope = str(told.get("langgraph_checkpoint_ns", "")).rpartition("|")[0]
    return told.get("langgraph_step", 0), Place(scope, told.get(SUBTASK, "") if scope else "")


def _billing(slot: Slot, failed: list[Bill]) -> AbstractContextManager[None]:
    return keeping_failed(failed) if slot.nests else billed_to(None)


async def _answer(slot: Slot, operator: Operator, state: Any, runtime: Runtime[Context]) -> Update:
    skipped = slot.skip(state, runtime)
    if skipped is not None:
        return skipped
    view, name = slot.view(state), getattr(operator, "__qualname__", repr(operator))
    try:
        update = await operator(view, runtime)
    except KeyError as error:
        if isinstance(error, UnknownName) or error.args[0] in view:
            raise
        told = f"operator {name} in slot {slot.name} read {error.args[0]!r}; the slot shows {sorted(view)}"
        raise Fault("operator", told) from error
    if set(update) != slot.writes:
        told = f"operator {name} in slot {slot.name} returned {sorted(update)}; it must return {sorted(slot.writes)}"
        raise Fault("operator", told)
    for key, kind in slot.types.items():
        if not isinstance(update[key], kind):
            told = f"operator {name} in slot {slot.name} returned {update[key]!r:.100} as {key}"
            raise Fault("operator", f"{told}; it must be a {kind.__module__}.{kind.__name__}")
    return slot.record(state, update, runtime)


def _booked(slot: Slot, update: Update, usage: Usage) -> Update:
    if slot.nests:
        return {"usage": [*update["usage"], usage], "spent": update["spent"] + usage.spent()}
    if slot.opens_books:
        return {"usage": Overwrite([usage]), "spent": Overwrite(usage.spent())}
    return {"usage": [usage], "spent": usage.spent()}


# What one of several graphs that run at the same time may spend.


def shared(context: Context, spent: Spent, share: int) -> Context:
    """The context of one of `share` graphs: an equal part of what is left to spend."""
    before = spent + context.lost
    return context.model_copy(update={"budget": _part(context.budget, before, share), "lost": before})


def _part(budget: Budget, spent: Spent, share: int) -> Budget:
    left = {name: (getattr(budget, name) - getattr(spent, name)) / share for name in ("calls", "tokens", "usd")}
    return budget.model_copy(
        update={
            "calls": spent.calls + int(left["calls"]),
            "tokens": spent.tokens + int(left["tokens"]),
            "usd": spent.usd + left["usd"],
        }
    )
