"""Slots: what the graph does around an operator, so that an exchanged operator need not repeat it.

A slot names the channels it reads, narrows them to the operator's view, and turns the operator's answer into the
state update with its bookkeeping. `as_node` makes a LangGraph node of a slot and an operator.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from langgraph.utils.runnable import RunnableCallable  # type: ignore[attr-defined]

from certigraph.adapters.benchmarks import context_of
from certigraph.adapters.context import Context
from certigraph.adapters.loops import wait_for_node
from certigraph.adapters.models.billing import Bill, Place, billed_to, keeping_failed, send_bill, settled
from certigraph.adapters.models.meter import Meter, Origin, metering
from certigraph.adapters.models.situation import Situation, situated
from certigraph.adapters.protocols import Operator
from certigraph.nodes.home import at_home
from certigraph.state.beliefs import Belief, Stagnation
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Spent, Usage

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
