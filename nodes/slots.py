"""Slots: the places in a graph that operators fill, and what surrounds an operator there.

`build_operator` builds an operator from its spec, and `spec_of` returns that spec. `Slot` declares what an operator
reads and returns. `create_node` makes a LangGraph node of an operator and its slot: it narrows the state to the
operator's view, measures usage, checks the returned update and adds the slot's bookkeeping.
"""

import inspect
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial, wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphInterrupt
from langgraph.runtime import Runtime
from langgraph.types import Overwrite
from langgraph.utils.runnable import RunnableCallable  # type: ignore[attr-defined]
from pydantic import ValidationError

from certigraph.adapters.benchmarks import benchmark_of, context_of, live_benchmark
from certigraph.adapters.episodes import Rehearsal, live_episode, rehearse_in_copy
from certigraph.adapters.imports import import_named
from certigraph.adapters.models.attachments import find_attachments
from certigraph.adapters.models.prompts import ViewLine, divide_view, join_lines
from certigraph.adapters.models.scripts import Situation, use_situation, use_view
from certigraph.adapters.models.usage import (
    CallOrigin,
    Meter,
    NodeScope,
    UsageReport,
    collect_failed_usage,
    metering,
    report_usage,
    send_usage_to,
    settle_failed_usage,
)
from certigraph.adapters.processes import Setting, wait_for_node
from certigraph.adapters.protocols import (
    AsyncOperator,
    Budget,
    Context,
    Operator,
    StateCheck,
)
from certigraph.nodes.chains import advance_chain
from certigraph.nodes.events import collect_nested_events, write_events, write_question
from certigraph.nodes.operators import Call, View, call_operator, check_update, declared_keys, operator_label, to_call
from certigraph.nodes.requests import requests_in
from certigraph.nodes.specs import Spec
from certigraph.nodes.tool_choices import operators_for
from certigraph.state.call_checks import CallCheck
from certigraph.state.endings import Fault, LimitReached, Refused, UnknownName
from certigraph.state.records import Action, Observation, Spent, Step, Task, Usage
from certigraph.state.run import AnsweredCall, Belief, Evidence, Stagnation
from certigraph.state.tools import next_message_id

# Operators from specs, and specs of operators.

P = ParamSpec("P")
OperatorT = TypeVar("OperatorT", bound=Operator)


def factory(make: Callable[P, OperatorT]) -> Callable[P, OperatorT]:
    """Decorate a function that creates operators, so that each operator records the call that created it as `spec`."""

    @wraps(make)
    def create(*args: P.args, **kwargs: P.kwargs) -> OperatorT:
        operator = make(*args, **kwargs)
        arguments = _bound_arguments(inspect.signature(make).bind(*args, **kwargs))
        operator.spec = Spec(name=_operator_name(make), args={k: _spec_or_value(v) for k, v in arguments.items()})  # type: ignore[union-attr]
        return operator

    create.makes_operator = True  # type: ignore[attr-defined]
    return create


def _bound_arguments(bound: inspect.BoundArguments) -> dict[str, Any]:
    """Return the arguments by name. Those that a `**keywords` parameter collects are listed by their own names."""
    arguments = dict(bound.arguments)
    for name, parameter in bound.signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            arguments |= arguments.pop(name, {})
    return arguments


def spec_of(operator: Operator) -> Spec:
    """Return the spec from which `build_operator` builds the operator again."""
    spec: Spec | None = getattr(operator, "spec", None)
    return spec or Spec(name=_operator_name(operator))


def build_operator(spec: Spec, shipped: Mapping[str, Callable[..., Any]], known: Iterable[str] = ()) -> Operator:
    """Build an operator from its spec: one of `shipped` by its name, a user's own by importing it.

    `known` are the names that the message about an unknown one may suggest; they are read only then.

    Raises:
        UnknownName: the name is unknown, or the operator takes no arguments.
    """
    target = shipped.get(spec.name) or _import_operator(spec.name, known)
    if not getattr(target, "makes_operator", False):
        if spec.args:
            advice = f"write {spec.name}, or decorate it with certigraph.factory if it makes operators from arguments"
            raise UnknownName(f"operator {spec} takes no arguments: {advice}")
        return target
    args = {k: build_operator(v, shipped, known) if isinstance(v, Spec) else v for k, v in spec.args.items()}
    operator: Operator = target(**args)
    return operator


def _import_operator(name: str, known: Iterable[str]) -> Callable[..., Any]:
    if ":" not in name:
        more = "`certigraph list operators` shows all, such as always_pass; yours is module:attribute"
        raise UnknownName(f"unknown operator {name!r}", name, known, more)
    operator: Callable[..., Any] = import_named(name, "operator")
    return operator


def _operator_name(function: object) -> str:
    module = getattr(function, "__module__", None) or "__main__"
    name: str = getattr(function, "__qualname__", type(function).__qualname__)
    return name if module.partition(".")[0] == "certigraph" else f"{module}:{name}"


def _spec_or_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return [*map(_spec_or_value, value)]  # a spec is JSON
    if isinstance(value, Mapping):
        return {key: _name_functions(part) for key, part in value.items()}
    return spec_of(value) if callable(value) else value


def _name_functions(value: Any) -> Any:
    """Return a part of a dict with the names by which the functions in it are imported."""
    if isinstance(value, list | tuple):
        return [*map(_name_functions, value)]
    return _operator_name(value) if callable(value) else value


# Benchmark operators, which replace the generic, prompted operator of the same name.


def prefer_benchmark_operator(operator: AsyncOperator, other: str = "") -> AsyncOperator:
    """Decorate a generic operator so that the benchmark's operator of the same name, if there is one, runs instead.

    Args:
        operator: the generic operator.
        other: name of the benchmark's operator that runs instead where it has none of the same name.
    """
    names = tuple(filter(None, (operator.__name__, other)))

    @wraps(operator)
    async def dispatch(state: Any, runtime: Runtime[Context]) -> dict[str, Any]:
        own = operators_for(benchmark_of(state["task"], runtime))
        special = next((own[name] for name in names if name in own), operator)
        return await call_operator(cast(Operator, special), state, runtime)

    dispatch.replaced_by = names  # type: ignore[attr-defined]
    return dispatch


# The runtime that operators receive: its context holds the loaded benchmark and callbacks into the live world.


def bind_runtime(state: Any, runtime: Runtime[Context]) -> Runtime[Context]:
    """Return the runtime with a complete context: the loaded benchmark and, in an open episode, the world's callbacks.

    The callbacks are `admissible` (list the actions that the world accepts) and `rehearse` (try actions on a copy).
    """
    context = context_of(runtime)
    live = live_benchmark(context)
    benchmark = live if live is not None and "task" not in state else benchmark_of(_task_of(state), runtime)
    commitment = state.get("commitment") or (context.entry.commitment if context.entry else None)
    attachments = find_attachments(requests_in(state["messages"])) if "messages" in state else context.attachments
    has_episode = bool(state.get("episode"))
    update = {
        "benchmark": benchmark,
        "commitment": commitment,
        "attachments": attachments,
        "message_id": next_message_id(state) if has_episode else "",
        "admissible": partial(_list_admissible, state, runtime) if has_episode else None,
        "rehearse": partial(_rehearse_path, state, runtime) if has_episode else None,
    }
    return replace(runtime, context=context.model_copy(update=update))


def _list_admissible(state: Any, runtime: Runtime[Context]) -> list[str] | None:
    # Bound to the complete state, because an operator's view has no log from which a lost world could be rebuilt.
    return live_episode(state["episode"], state["task"], state["history"], runtime).admissible()


def _check_state(state: Any, runtime: Runtime[Context], condition: str) -> StateCheck | None:
    if not state.get("episode"):
        return None
    return live_episode(state["episode"], state["task"], state["history"], runtime).check_state(condition)


def _rehearse_path(state: Any, runtime: Runtime[Context], path: Sequence[str]) -> Rehearsal:
    live = live_episode(state["episode"], state["task"], state["history"], runtime)
    return rehearse_in_copy(live, state["task"], path, runtime)


def _task_of(state: Any) -> Task:
    try:
        return Task.model_validate(state["task"])
    except (KeyError, ValidationError) as error:
        example = '{"task": {"benchmark": "NAME", "id": "ID"}}'
        raise Fault("data", f"the graph's input needs a task, for example {example}; got {dict(state)}") from error


# Slots: the work around an operator (view, usage, checks, bookkeeping), which a swapped operator need not repeat.

Update = dict[str, Any]

ACT_KEYS: Mapping[str, Any] = {"observation": Observation, "evidence": Evidence, "history": Sequence[Step]}
"""Keys, with their types, that an operator which acts in the world must return."""

COMMANDS = "commands"
"""Key under which an operator returns commands for LangGraph, which the node carries out with its update."""

CALL_KEYS: Mapping[str, Any] = {
    COMMANDS: Sequence[Any],
    "answers": Sequence[AnsweredCall],
    "checks": Sequence[CallCheck],
}
"""Keys, with their types, that an operator may return if it calls tools."""

RESET_KEYS: Mapping[str, Any] = {"task": Task, "episode": str, **ACT_KEYS}
"""Keys, with their types, that an operator which opens an episode must return."""

UPCOMING_KEYS: Mapping[str, Any] = {"upcoming": Sequence[Action]}
"""Keys, with their types, that an operator may return if it chooses several actions together, or drops the later ones.
"""

EMPTY_MEMORY: Update = {"belief": Belief(), "rounds": Overwrite([]), "stagnation": Stagnation()}
"""Values of the memory and gate channels at the start of an episode."""


def clear_memory(state: Mapping[str, Any]) -> Update:
    """Return the update that clears the previous episode's memory and gate.

    Channels that were never written are not in the update, so that they take no space in checkpoints.
    """
    return {channel: empty for channel, empty in EMPTY_MEMORY.items() if state.get(channel)}


def set_chain(state: Mapping[str, Any], upcoming: Sequence[Action] = (), untaken: Sequence[Action] = ()) -> Update:
    """Return the update that sets the actions still to be taken of a chain, and those that were cut off from it.

    Runs without any take no space for them in checkpoints.
    """
    chain = {"upcoming": tuple(upcoming), "untaken": tuple(untaken)}
    return {key: actions for key, actions in chain.items() if actions or state.get(key)}


def cut_chain(state: Mapping[str, Any]) -> Update:
    """Return the update that cuts off what is left of a chain."""
    return set_chain(state, untaken=state.get("upcoming") or state.get("untaken", ()))


def continue_after(state: Mapping[str, Any], update: Update, runtime: Runtime[Context]) -> Update:
    """Return the update of what is left of a chain after the action that an update of the slot `act` reports."""
    if not (upcoming := state.get("upcoming")):
        return {}
    action, benchmark = update.get("action", state["action"]), benchmark_of(state["task"], runtime)
    return set_chain(state, *advance_chain(upcoming, action, update["observation"], update["evidence"].view, benchmark))


def new_lines_of(state: Mapping[str, Any], update: Update, runtime: Runtime[Context]) -> str:
    """Return what is new in the world's view after an action that it took; empty where agents do not see a view."""
    benchmark, observation = benchmark_of(state["task"], runtime), update["observation"]
    if benchmark.answers or not observation.accepted:
        return ""
    before, after = state["evidence"].view, update["evidence"].view
    return find_new_lines(before, after, observation.text, benchmark.status_lines)


def find_new_lines(before: str, after: str, observation: str, status: Sequence[str]) -> str:
    """Return the lines that a view has since an action, unless the observation says them.

    Args:
        before: the view before the action.
        after: the view after it.
        observation: text of the observation.
        status: beginnings of lines that are not news, such as counts of moves, and left out (`Benchmark.status_lines`).
    """
    # a view that begins with another line is that of another place, and shown whole
    same_place = before.partition("\n")[0] == after.partition("\n")[0]
    known = Counter(divide_view(before, status) if same_place else ())
    answered = [f". {line.strip()}" for line in observation.splitlines()]  # each as the end of a sentence
    new = list[ViewLine]()
    for one in divide_view(after, status):
        known[one] -= 1
        if known[one] < 0 and not any(text.endswith(f". {one.line.strip()}") for text in answered):
            new.append(one)
    return join_lines([one for one in new if one.heading], after.partition("\n")[0])


SUBTASK_KEY = "subtask"
"""Key in LangGraph's metadata of the id of the TDP sub-task that an inner graph works on."""


def _return_update(state: Mapping[str, Any], update: Update, runtime: Runtime[Context]) -> Update:
    return update


def _full_state(state: Any) -> Any:
    return state


class Slot(NamedTuple):
    """A place for an operator in a graph, declared once.

    It says what the operator reads, what it must return, which bookkeeping surrounds it, and which operator is the
    default. `build`, `certigraph list` and the checks of what operators return all follow this declaration.
    """

    name: str
    """Name of the node, and of the keyword that replaces its operator."""
    writes: Mapping[str, Any]
    """Keys that the operator must return, no more and no less, with their types: LangGraph checks neither."""
    view: Callable[[Any], Any] = _full_state
    """Narrows the state to what the operator may read."""
    record: Callable[[Any, Update, Runtime[Context]], Update] = _return_update
    """Adds the slot's bookkeeping to the operator's update."""
    skip: Callable[[Any, Runtime[Context]], Update | None] = lambda state, runtime: None
    """Returns an update that replaces the operator's call (for example when its budget is spent), else None."""
    starts_run: bool = False
    """Whether a run starts with this node, so that usage is counted from zero: earlier usage is that of another run."""
    nests: bool = False
    """Whether the operator runs a graph whose nodes report their own usage; it returns their `usage` and `spent`."""
    default: Any = None
    """The operator that is used if `build` is given no other one. A slot without a default is optional: it becomes a
    node only if `build` is given an operator for it."""
    answers_only: bool = False
    """Whether the node runs only in worlds that take an answer; drawings show it only for those."""
    may_write: Mapping[str, Any] = {}
    """Keys that the operator may return besides those in `writes`, with their types."""

    def filled(self, operator: Any) -> "Slot":
        """Return a copy of the slot with `operator` as its default."""
        return self._replace(default=operator)


def create_node(slot: Slot, operator: Any) -> RunnableCallable:
    """Create the LangGraph node of a slot and its operator. It works with `invoke` and `ainvoke`.

    The node narrows the state to the operator's view, calls the operator, checks the update that it returns, adds the
    slot's bookkeeping, and measures usage.
    """
    nested, call = getattr(operator, "graph", None), to_call(slot.name, operator)
    label = operator_label(operator)

    async def node(state: Any, config: RunnableConfig, runtime: Runtime[Context]) -> Update | list[Any]:
        context = context_of(runtime)
        spent_before = Spent() if slot.starts_run else state.get("spent", Spent()) + context.lost
        step, place = node_position(config)
        # Calls of a graph inside a node count as the node's own, unless the graph solves a TDP sub-task.
        origin = CallOrigin(step, *(place if place.subtask else NodeScope()))
        meter = Meter(slot.name, context.budget, spent_before, origin)
        failed_reports: list[UsageReport] = []
        started, update, reached = time.perf_counter(), None, None
        try:
            # Unless the slot nests, reports of a graph that the operator runs are dropped: its calls are the node's.
            with (
                metering(meter),
                use_situation(Situation(slot.name, step, state, check_state=partial(_check_state, state, runtime))),
                _reporting_scope(slot, failed_reports),
                collect_nested_events(runtime) if slot.nests else nullcontext(),
            ):
                update = await _call_operator(slot, label, call, state, bind_runtime(state, runtime))
                commands = update.pop(COMMANDS, ())
            write_events(slot.name, place.subtask, state, update, runtime)
        except (LimitReached, Refused) as cut:
            reached = cut
            raise
        except GraphInterrupt as stopped:
            if not slot.nests:  # the node of the inner graph has written it
                write_question(place.subtask, stopped, runtime)
            raise
        finally:
            failed_seconds = settle_failed_usage(failed_reports, meter, went_on=update is not None)
            usage = meter.usage(failed_seconds if slot.nests else time.perf_counter() - started)
            report_usage(UsageReport(step, usage, meter.records, place, update))
            if reached:
                reached.usage = usage
        is_again = slot.starts_run and state.get("ending")  # the thread's run before has a result
        no_result = {"ending": "", "ending_reason": "", "scores": None} if is_again else {}
        complete = {**no_result, **update, **_usage_update(slot, update, usage)}
        return [complete, *commands] if commands else complete

    def blocking_node(state: Any, config: RunnableConfig, runtime: Runtime[Context]) -> Update | list[Any]:
        _ = nested  # LangGraph draws the graph inside a node where the node's function closes over it
        return wait_for_node(node(state, config, runtime))

    return RunnableCallable(blocking_node, node, name=slot.name, trace=False)


def node_position(config: RunnableConfig) -> tuple[int, NodeScope]:
    """Return the superstep of a node and its place in nested graphs, read from LangGraph's metadata."""
    metadata = config.get("metadata", {})
    scope = str(metadata.get("langgraph_checkpoint_ns", "")).rpartition("|")[0]
    return metadata.get("langgraph_step", 0), NodeScope(scope, metadata.get(SUBTASK_KEY, "") if scope else "")


def _reporting_scope(slot: Slot, failed_reports: list[UsageReport]) -> Setting[Any]:
    return collect_failed_usage(failed_reports) if slot.nests else send_usage_to(None)


async def _call_operator(slot: Slot, label: str, call: Call, state: Any, runtime: Runtime[Context]) -> Update:
    skipped = slot.skip(state, runtime)
    if skipped is not None:
        return skipped
    shown = slot.view(state)
    with use_view(shown):
        answer = await call(View(shown, slot.name, label, declared_keys(slot.view)), runtime)
    optional = {key: slot.may_write[key] for key in slot.may_write if isinstance(answer, Mapping) and key in answer}
    update = check_update(slot.name, {**slot.writes, **optional}, label, answer)
    return slot.record(state, update, runtime)


def _usage_update(slot: Slot, update: Update, usage: Usage) -> Update:
    if slot.nests:
        return {"usage": [*update["usage"], usage], "spent": update["spent"] + usage.spent()}
    if slot.starts_run:
        return {"usage": Overwrite([usage]), "spent": Overwrite(usage.spent())}
    return {"usage": [usage], "spent": usage.spent()}


# The budget of one of several graphs that run at the same time.


def share_context(context: Context, spent: Spent, share: int) -> Context:
    """Return the context of one of `share` parallel graphs, whose budget is an equal part of what is left."""
    spent_before = spent + context.lost
    return context.model_copy(
        update={"budget": _share_budget(context.budget, spent_before, share), "lost": spent_before}
    )


def _share_budget(budget: Budget, spent: Spent, share: int) -> Budget:
    left = {name: (getattr(budget, name) - getattr(spent, name)) / share for name in ("calls", "tokens", "usd")}
    return budget.model_copy(
        update={
            "calls": spent.calls + int(left["calls"]),
            "tokens": spent.tokens + int(left["tokens"]),
            "usd": spent.usd + left["usd"],
        }
    )
