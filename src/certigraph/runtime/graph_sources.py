"""A user's own graphs: found by name, built, given the task, metered, and brought to an ending and a score.

A graph is named as `module:attribute` (a compiled graph, a builder or a function that builds it), as a module with a
function `build` or a graph `graph`, or by an entry point of the group `certigraph.graphs`.
"""

import inspect
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple, cast, get_args, get_type_hints
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages import ToolCall as CalledTool
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs, var_child_runnable_config
from langgraph.graph import StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, Overwrite
from langgraph.utils.runnable import RunnableCallable  # type: ignore[attr-defined]
from pydantic import JsonValue
from pydantic_core import to_jsonable_python

from certigraph.adapters.benchmarks import benchmark_of, call_world, shipped_benchmarks
from certigraph.adapters.episodes import LiveEpisode, call_environment
from certigraph.adapters.imports import import_installed, import_named, installed, unknown_name
from certigraph.adapters.models.exchanges import Exchange
from certigraph.adapters.models.prices import cached_tokens, cost_in_usd, price_of
from certigraph.adapters.models.usage import (
    Call,
    CallOrigin,
    Meter,
    UsageReport,
    is_call_open,
    metering,
    report_usage,
    usage_of,
)
from certigraph.adapters.own_modules import name_own_module
from certigraph.adapters.processes import Setting
from certigraph.adapters.protocols import Benchmark, Budget, Context
from certigraph.adapters.tools.world import Tools
from certigraph.graphs import GRAPH_GROUP
from certigraph.graphs.assembly import SWAPPED_KEY, method_of, operators_of, specs_of_nodes
from certigraph.graphs.results import RESULT
from certigraph.nodes.conversations import rounds_in, steps_of
from certigraph.nodes.made_calls import MadeCalls, find_unique
from certigraph.nodes.message_gates import records_of
from certigraph.nodes.slots import node_position, spec_of
from certigraph.state.endings import (
    EXHAUSTED,
    FINISHED,
    GAVE_UP,
    GOAL,
    QUESTION,
    REFUSED,
    STOPPED,
    WORLD_ENDED,
    Fault,
    UnknownName,
)
from certigraph.state.records import Action, Observation, Record, Scores, Spent, Task
from certigraph.state.run import finish

AnyGraph = CompiledStateGraph[Any, Context, Any, Any]
"""A compiled graph of any state."""

# A user's own graphs, by name.

EXAMPLE = "mypackage.graphs:build"
"""Example of the name of a user's own graph, for error messages."""

NO_SLOTS = ("checkpointer", "store", "cache", "retry_policy", "state_schema", "context_schema")
"""Parameters of a function `build` that are not slots for operators."""


class OwnGraph(NamedTuple):
    """A user's own graph, found by its name but perhaps not built yet.

    `target` is the graph or function that the name stands for. `module` is the module of that name, which may define
    `ending`.
    """

    name: str
    target: Any
    module: ModuleType | None

    def build(self, operators: Mapping[str, Any]) -> AnyGraph:
        """Build and compile the graph, under the name by which it can be found again.

        Args:
            operators: operators to use instead of the default ones, by slot.

        Raises:
            UnknownName: the graph has no such slots, or cannot be built.
        """
        if operators:
            self._check_slots(operators)
        graph = self.target if _is_graph(self.target) else self._call(operators)
        compiled: AnyGraph = graph.compile() if isinstance(graph, StateGraph) else graph
        swapped = {slot: spec_of(operator).model_dump(mode="json") for slot, operator in operators.items()}
        return compiled.copy({"name": self.name}).with_config(metadata={SWAPPED_KEY: swapped})

    def slots(self) -> list[str]:
        """List the operators that the graph's function takes by keyword; none for a graph that is built already."""
        if _is_graph(self.target):
            return []
        parameters = inspect.signature(self.target).parameters.values()
        slots = [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
        if any(p.kind is p.VAR_KEYWORD for p in parameters):
            slots += self._collected_slots()
        return [slot for slot in dict.fromkeys(slots) if slot not in NO_SLOTS]

    def _collected_slots(self) -> Sequence[str]:
        # Of `**operators`: those of its TypedDict, else those that the graph has by default.
        collected = next(p.name for p in inspect.signature(self.target).parameters.values() if p.kind is p.VAR_KEYWORD)
        try:
            hints = get_args(get_type_hints(self.target).get(collected))
        except (NameError, TypeError):  # a hint that exists for a type checker only
            hints = ()
        if hints:
            return list(getattr(hints[0], "__annotations__", {}))
        return slots_of(self.build({}))

    def _check_slots(self, operators: Mapping[str, Any]) -> None:
        if _is_graph(self.target):
            fix = f"name a function that takes them as keywords and builds the graph, such as {EXAMPLE}"
            raise UnknownName(
                f"graph {self.name!r} is built already, so {', '.join(operators)} cannot be swapped: {fix}"
            )
        takes_any = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(self.target).parameters.values())
        slots = self.slots()
        if (unknown := sorted(set(operators) - set(slots))) and not takes_any:
            fix = "" if slots else f"it has none: give {self.name} keywords for operators"
            raise UnknownName(f"graph {self.name!r} has no operator slot {unknown[0]!r}", unknown[0], slots, fix)

    def _call(self, operators: Mapping[str, Any]) -> Any:
        try:
            graph = self.target(**operators)
        except (Fault, UnknownName):
            raise
        except Exception as error:  # the function is user code
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise UnknownName(f"graph {self.name!r} cannot be built ({reason}): correct that function") from error
        if not _is_graph(graph):
            fix = "return a LangGraph graph, compiled or not"
            raise UnknownName(f"{self.name!r} returned {graph!r:.100}, not a graph: {fix}")
        return graph


def own_graph(name: str, shipped: Collection[str]) -> OwnGraph:
    """Find a user's own graph by its name. It is imported only once.

    Args:
        name: `module:attribute`, a module, or the name of an entry point.
        shipped: the names of certigraph's graphs, for error messages.

    Raises:
        UnknownName: there is no such graph, or it cannot be imported.
    """
    if name not in _OWN:
        _OWN[name] = _find_graph(name, shipped)
    return _OWN[name]


_OWN: dict[str, OwnGraph] = {}


def _find_graph(name: str, shipped: Collection[str]) -> OwnGraph:
    entries = installed(GRAPH_GROUP)
    if name in entries:
        module, target = entries[name].module, import_installed(entries[name], "graph")
    elif name in shipped_benchmarks():
        fix = f"certigraph run GRAPH {name}, or certigraph compare GRAPH... --on {name}"
        raise UnknownName(f"{name!r} is a benchmark, not a graph: {fix}")
    elif ":" in name or _is_module(name):
        module, target = name.partition(":")[0], import_named(name, "graph")
    else:
        raise unknown_name(name, "graph", [*shipped, *entries], EXAMPLE)
    if isinstance(target, ModuleType):
        module, target = target.__name__, getattr(target, "build", None) or getattr(target, "graph", None)
    if not _is_graph(target) and not (callable(target) and not isinstance(target, type)):
        fix = f"name a compiled graph, or a function that builds one, such as {EXAMPLE}"
        shown = "has no `build` and no `graph`" if target is None else f"is {target!r:.60}, not a graph"
        raise UnknownName(f"{name!r} {shown}: {fix}")
    return OwnGraph(name, target, sys.modules.get(module))


def _is_module(name: str) -> bool:
    """Whether a name without a colon is a module that may hold a graph. Modules of the standard library hold none."""
    if not all(part.isidentifier() for part in name.split(".")) or name.partition(".")[0] in sys.stdlib_module_names:
        return False
    if "." in name:
        return True  # if there is none, importing it names the reason
    name_own_module(name)
    try:
        spec = find_spec(name)
    except ValueError:  # `__main__` of an interactive session
        return False
    return spec is not None and spec.origin is not None  # a folder of runs is not a module


def slots_of(graph: AnyGraph) -> list[str]:
    """List the nodes of a graph that are slots: those whose metadata name an operator."""
    return [name for name, node in graph.builder.nodes.items() if "operator" in (node.metadata or {})]


def differing_operators(graph: AnyGraph) -> dict[str, JsonValue]:
    """Return the specs of a graph's operators that its method by default has not, by slot."""
    method = method_module(graph)
    usual = operators_of(method.graph) if method else {}
    return {slot: spec for slot, spec in specs_of_nodes(graph.builder).items() if spec != usual.get(slot)}


def own_operators_of(graph: AnyGraph) -> dict[str, JsonValue]:
    """Return the differing operators that a user's own graph has by itself, without those that a caller named."""
    listed = operators_of(graph)
    return {slot: spec for slot, spec in differing_operators(graph).items() if slot not in listed}


def _is_graph(target: object) -> bool:
    return isinstance(target, (StateGraph, CompiledStateGraph))


# The input of a user's own graph.


def input_of(graph: AnyGraph, task: Task) -> dict[str, Any]:
    """Return the input of a graph for a task: the task itself, its goal as a user's message, or both.

    Raises:
        Fault: ("operator") the input of the graph has neither the key `task` nor `messages`.
    """
    keys = graph.builder.schemas[graph.builder.input_schema]
    given = {"task": task, "messages": [("user", task.goal)]}
    if "task" not in keys and "messages" not in keys:
        fix = "declare `task: certigraph.Task` or `messages` in its state"
        raise Fault("operator", f"the graph {graph.name!r} takes {', '.join(sorted(keys))}, not the task: {fix}")
    return {key: value for key, value in given.items() if key in keys}


# The ending of a user's own graph.

METHOD_ENDINGS = (GOAL, WORLD_ENDED, GAVE_UP, EXHAUSTED, FINISHED, QUESTION, REFUSED, STOPPED)
"""Endings that a user's function `ending` may return, in addition to `limit:KIND` and `error:BOUNDARY`."""


class NamedEnding(NamedTuple):
    """Ending of a graph that reached its end, and a message that explains it; the message may be empty."""

    ending: str
    message: str = ""


def method_module(graph: AnyGraph) -> Any:
    """Return the module of the method of which a graph is one; None if it was not built from one of certigraph's."""
    name = method_of(graph)
    return import_module(f"certigraph.graphs.{name}") if name else None


def ending_of(graph: AnyGraph, state: Mapping[str, Any], scores: Scores | None) -> NamedEnding:
    """Find the ending of a user's own graph that reached its end.

    The first of these counts: the function `ending(state)` in the module by which the graph was named, or in the module
    that defines its state; the text `ending` in its state, or in what nodes of `for_messages` keep there, explained by
    `ending_reason`; for a graph that was built
    from one of certigraph's, what its method says; `goal` if the world reports the goal as reached or gave the full
    score; `world_ended` if the world ended the episode; `finished`.
    """
    module = _OWN[graph.name].module if graph.name in _OWN else None
    definer = sys.modules.get(graph.builder.state_schema.__module__)
    source = next((found for found in (module, definer) if callable(getattr(found, "ending", None))), None)
    if source is not None:
        return _call_ending(source, state)
    for named in (state, records_of(state)):
        if isinstance(given := named.get("ending"), str) and given:
            return _checked_ending(given, "the key `ending` of the state", str(named.get("ending_reason") or ""))
    if method := method_module(graph):
        return _call_ending(method, state)
    observation = state.get("observation")
    seen = observation if isinstance(observation, Observation) else Observation(text="")
    if seen.solved or (scores is not None and scores.value >= 1):
        return NamedEnding(GOAL)
    return NamedEnding(WORLD_ENDED if seen.done else FINISHED)


def _call_ending(module: Any, state: Mapping[str, Any]) -> NamedEnding:
    where = f"{module.__name__}.ending"
    try:
        message = module.message(state) if callable(getattr(module, "message", None)) else ""
        return _checked_ending(module.ending(state), where, str(message))
    except Exception as error:  # noqa: BLE001 - the functions are user code: their failure is an ending, not a crash
        return NamedEnding("error:operator", f"{where} failed: {type(error).__name__}: {error}")


def _checked_ending(ending: Any, where: str, message: str = "") -> NamedEnding:
    if isinstance(ending, str) and (ending in METHOD_ENDINGS or ending.startswith(("limit:", "error:"))):
        return NamedEnding(ending, message)
    known = ", ".join(METHOD_ENDINGS)
    return NamedEnding("error:operator", f"{where} is {ending!r:.100}, not an ending: use {known} or limit:KIND")


# The score of a user's own graph that did not act through the node `act`.


async def score_own(
    state: Mapping[str, Any], task: Task, context: Context, recorded: Sequence[Action] = ()
) -> Scores | None:
    """Score what a user's own graph left in its state, in a fresh world of the task; None if there is nothing to score.

    `scores` in the state are returned as they are. Else `actions` in the state, texts or Actions, are taken in order.
    Else `answer`, or the last message of the model, is submitted if the benchmark asks questions.

    Args:
        state: the graph's last state.
        task: the task.
        context: the context of the run.
        recorded: calls of tools that the run recorded; without any, those in the messages of the state count.
    """
    if isinstance(given := state.get("scores"), Scores):
        return given
    runtime = Runtime(context=context)
    benchmark = benchmark_of(task, runtime)
    actions = _actions_of(state, takes_answers=benchmark.answers)
    if isinstance(benchmark, Tools):
        actions = [*(recorded or _calls_in(state)), *actions]
    if not actions or context.environment is not None:
        return None
    return await call_world(_score_actions, task, runtime, task, actions, benchmark)


def _actions_of(state: Mapping[str, Any], *, takes_answers: bool) -> list[Action]:
    actions = state.get("actions")
    if isinstance(actions, Sequence) and not isinstance(actions, str):
        texts = [Action(text=action) if isinstance(action, str) else action for action in actions]
        return [action for action in texts if isinstance(action, Action)]
    answer, messages = state.get("answer"), state.get("messages")
    if not answer and isinstance(messages, Sequence) and messages and getattr(messages[-1], "type", "") == "ai":
        answer = messages[-1].text
    return [finish(str(answer))] if takes_answers and answer else []


def _calls_in(state: Mapping[str, Any]) -> list[Action]:
    """Return the calls that stand in the messages of a state, each response as an action. They are not made again."""
    messages = [one for one in state.get("messages") or () if isinstance(one, AIMessage | ToolMessage)]
    return [step.action for step in steps_of(rounds_in(messages))]


def _score_actions(task: Task, actions: Sequence[Action], benchmark: Benchmark) -> Scores:
    episode = LiveEpisode(call_environment(benchmark.open, task))
    try:
        for action in actions:
            episode.step(action)
        return episode.score()
    finally:
        episode.close()


# Usage of nodes that are not slots. A node of a slot measures its own usage; a copy of the graph measures the others.
# Their model calls count against the budget, even those made to a LangChain model directly, and every execution leaves
# an event in the trajectory.


def meter_own_nodes(graph: AnyGraph, budget: Budget, spent: Callable[[], Spent]) -> AnyGraph:
    """Return a copy of a graph that also measures the usage of nodes that are not slots.

    Nodes of slots measure their own usage, and those of graphs inside nodes too: nodes with either stay as they are.
    Without any other node the graph itself is returned.

    Args:
        graph: the compiled graph.
        budget: the budget of the run.
        spent: function that returns what the run has spent so far.
    """
    own = own_nodes_of(graph)
    wrapped = {
        name: node.copy({"bound": _metered(name, node.bound, budget, spent)})
        for name, node in graph.nodes.items()
        if name in own and not any(map(_has_slots, node.subgraphs or ()))
    }
    return graph.copy({"nodes": {**graph.nodes, **wrapped}}) if wrapped else graph


def own_nodes_of(graph: AnyGraph) -> set[str]:
    """Return the names of a graph's nodes that are neither slots nor certigraph's last node."""
    return graph.builder.nodes.keys() - {*slots_of(graph), RESULT}


def _has_slots(graph: object) -> bool:
    """Return whether a graph inside a node, or one inside that graph, has nodes that measure their own usage."""
    if not isinstance(graph, CompiledStateGraph):
        return True
    inner = [one for node in graph.nodes.values() for one in node.subgraphs or ()]
    return bool(slots_of(graph)) or any(map(_has_slots, inner))


def _metered(name: str, bound: Any, budget: Budget, spent: Callable[[], Spent]) -> RunnableCallable:
    async def node(state: Any, config: RunnableConfig) -> Any:
        step, place = node_position(config)
        meter, made = Meter(name, budget, spent(), CallOrigin(step, *place)), MadeCalls()
        started, update = time.perf_counter(), None
        try:
            meter.check()
            metered = merge_configs(config, {"callbacks": [_ChatUsage(meter), made]})
            with metering(meter), _child_config(metered):
                async with meter.within_seconds():
                    output = await bound.ainvoke(state, metered)
            update = _note_made(_update_of(output), made, state)
            return output
        finally:
            usage = meter.usage(time.perf_counter() - started)
            report_usage(UsageReport(step, usage, meter.records, place, update))

    return RunnableCallable(None, node, name=name, trace=False)


def _child_config(config: RunnableConfig) -> Setting[RunnableConfig]:
    """Context manager that passes a config to every runnable that is called inside it without one.

    LangGraph does the same for the function of a node.
    """
    return Setting(var_child_runnable_config, config)


def _update_of(output: Any) -> dict[str, Any]:
    """Return the keys and values that a node's output writes to the state, as the trajectory shows them."""
    if isinstance(output, Command):
        return _update_of(output.update)
    if isinstance(output, (list, tuple)):
        return _join_updates([_update_of(part) for part in output])
    return {key: _to_plain(value) for key, value in output.items()} if isinstance(output, Mapping) else {}


def _join_updates(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the updates of one output as one, with the messages of all. Of another key the last value is shown."""
    joined = {key: value for part in parts for key, value in part.items()}
    written = [part["messages"] for part in parts if "messages" in part]
    if len(written) > 1 and not any(isinstance(one, Overwrite) for one in written):
        joined["messages"] = [message for one in written for message in (one if isinstance(one, list) else [one])]
    return joined


def _note_made(update: dict[str, Any], made: MadeCalls, state: Any) -> dict[str, Any]:
    """Return the update of a node in which answers of tools name the call that was made, where it was changed."""
    messages = update.get("messages")
    if not made.calls or messages is None or isinstance(messages, Overwrite):
        return update
    written = messages if isinstance(messages, list) else [messages]
    inner = [call for one in written if isinstance(one, Mapping) for call in one.get("tool_calls") or ()]
    ids = {one["id"] for one in inner}  # a graph inside the node chose these calls itself
    chosen = find_unique([*inner, *(one for one in _chosen_calls(state) if one["id"] not in ids)])

    def note(one: Any) -> Any:
        if not isinstance(one, Mapping) or one.get("type") != "tool":
            return one
        return _to_plain(made.note(ToolMessage.model_validate(one), chosen.get(one["tool_call_id"])))

    return {**update, "messages": [note(one) for one in written]}


def _chosen_calls(state: Any) -> Sequence[CalledTool]:
    """Return the calls of the model in the input of a node: those that were sent to it, or those of the last response.

    These are the inputs that a `ToolNode` takes.
    """
    if isinstance(state, Mapping) and "tool_call" in state:
        return [state["tool_call"]]
    given = state.get("messages") if isinstance(state, Mapping) else getattr(state, "messages", state)
    parts = given if isinstance(given, list) else []
    sent = [one for one in parts if isinstance(one, dict) and one.get("type") == "tool_call"]
    return cast(list[CalledTool], sent) or next(
        (one.tool_calls for one in reversed(parts) if isinstance(one, AIMessage)), []
    )


def _to_plain(value: Any) -> Any:
    if isinstance(value, Overwrite):
        return Overwrite(_to_plain(value.value))
    if isinstance(value, (list, tuple)):
        return [_to_plain(part) for part in value]
    return value if isinstance(value, Record) else to_jsonable_python(value, fallback=repr, inf_nan_mode="null")


class _ChatUsage(BaseCallbackHandler):
    """Callback that counts the calls which a node makes to LangChain models directly against the budget.

    Calls through certigraph's own functions, such as `ask`, are counted there.
    """

    raise_error = True
    run_inline = True

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._started: dict[UUID, tuple[float, Exchange]] = {}

    def on_chat_model_start(
        self, serialized: dict[str, Any], messages: list[list[BaseMessage]], *, run_id: UUID, **kwargs: Any
    ) -> None:
        """Check the budget before a request to a chat model. Raises LimitReached."""
        self._start(run_id, [message for batch in messages for message in batch], kwargs)

    def on_llm_start(self, serialized: dict[str, Any], prompts: list[str], *, run_id: UUID, **kwargs: Any) -> None:
        """Check the budget before a request to a completion model. Raises LimitReached."""
        self._start(run_id, [HumanMessage(prompt) for prompt in prompts], kwargs)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Count an answered request against the budget."""
        self._charge(run_id, response)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        """Count a failed request against the budget."""
        self._charge(run_id, LLMResult(generations=[]), failure=type(error).__name__)

    def _start(self, run_id: UUID, messages: Sequence[BaseMessage], given: Mapping[str, Any]) -> None:
        if not is_call_open():
            self._meter.check(calls=1)
            tools = (given.get("invocation_params") or {}).get("tools")
            self._started[run_id] = time.perf_counter(), Exchange(messages, {"tools": tools} if tools else {})

    def _charge(self, run_id: UUID, response: LLMResult, failure: str = "") -> None:
        if run_id not in self._started:
            return
        started, exchange = self._started.pop(run_id)
        reply = next((part for batch in response.generations for part in batch), None)
        message: Any = reply.message if isinstance(reply, ChatGeneration) else None
        details = {**(response.llm_output or {}), **getattr(message, "response_metadata", {})}
        model = str(details.get("model_name") or details.get("model") or "unknown")
        exchange.reply = message or (reply.text if reply else "")
        usage = usage_of(getattr(message, "usage_metadata", None), exchange.messages, reply.text if reply else "")
        provider = details.get("model_provider")  # prices are listed by the names of provider and model
        names = {"priced_as": f"{provider}/{model}"} if provider else {"model_name": model}
        stand_in: Any = SimpleNamespace(metadata=None, **names)
        self._meter.charge(
            Call(
                role="",
                model=model,
                schema_name="",
                input_tokens=usage["input_tokens"],
                output_tokens=usage["output_tokens"],
                cached_tokens=cached_tokens(usage),
                usd=cost_in_usd(price_of(stand_in), usage),
                seconds=time.perf_counter() - started,
                failure=failure,
            ),
            exchange,
        )
