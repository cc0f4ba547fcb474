"""Graphs as a LangGraph server serves them: the configuration of an assistant chooses their operators.

`langgraph.json` names a factory of this module for each graph. An assistant with `swaps` is an ablation: the server
draws and runs the graph with these operators. A client chooses among certigraph's operators, and those whose modules
the variable CERTIGRAPH_IMPORTS lists; it names no file of the server.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.graph import Graph
from langgraph_sdk.runtime import ServerRuntime

from certigraph.adapters.benchmarks import load_benchmark, may_import
from certigraph.graphs.assembly import EpisodicGraph, is_input
from certigraph.graphs.catalogue import operators_for_slot
from certigraph.nodes.specs import Spec, parse_spec
from certigraph.runtime.registry import (
    REWARD_GRAPHS,
    SEARCH_GRAPHS,
    build_graph,
    check_takes_answers,
    graph_slots,
)
from certigraph.state.endings import UnknownName

Factory = Callable[[RunnableConfig, ServerRuntime[Any]], Awaitable[EpisodicGraph]]

ASSISTANT_FIELDS = ("swaps", "benchmark")
"""Keys of an assistant's configuration besides those of the context."""

ACTING_TASKS = (
    {"benchmark": "blocksworld", "id": "4-0"},
    {"benchmark": "travelplanner", "id": "1"},
    {"benchmark": "textworld", "id": "coin_collector-5-0"},
)
SEARCH_TASKS = ({"benchmark": "musique", "id": "2hop__dev_0"}, {"benchmark": "web", "id": "gyms/1"})
REWARD_TASKS = ({"benchmark": "rewardprediction", "id": "blocksworld/3-0"},)
"""Examples of tasks, which need no data, for graphs that act, search, or predict rewards."""


class ServedGraph(EpisodicGraph):
    """The graph of an assistant, whose tasks are of the given benchmark where they name none."""

    def __init__(self, *, method: str, benchmark: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.method, self.benchmark = method, benchmark

    def stream(self, input: Any, config: Any = None, **kwargs: Any) -> Iterator[Any]:  # noqa: D102 - as LangGraph's
        given = self._complete_input(input)
        yield from super().stream(given, config, **self._without_choices(kwargs))

    async def astream(self, input: Any, config: Any = None, **kwargs: Any) -> AsyncIterator[Any]:  # noqa: D102
        given = await asyncio.to_thread(self._complete_input, input)
        async for chunk in super().astream(given, config, **self._without_choices(kwargs)):
            yield chunk

    def _complete_input(self, given: Any) -> Any:
        """Return a graph's input with the benchmark of the assistant, where it names none.

        Raises:
            UnknownName: the graph cannot run on the benchmark.
        """
        task = given.get("task") if is_input(given) and isinstance(given, Mapping) else None
        if not isinstance(task, Mapping):
            return given
        complete = {**({"benchmark": self.benchmark} if self.benchmark else {}), **task}
        if isinstance(name := complete.get("benchmark"), str):
            check_takes_answers(self.method, load_benchmark(name, import_own=may_import(name)))
        return {**given, "task": complete}

    def _without_choices(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        context = arguments.get("context")
        if not isinstance(context, Mapping):
            return dict(arguments)
        return {**arguments, "context": {key: context[key] for key in context if key not in ASSISTANT_FIELDS}}

    def get_context_jsonschema(self) -> dict[str, Any]:
        """Return the form of what an assistant may set: operators by slot, benchmark, model, budget and limits."""
        form = super().get_context_jsonschema()
        return {**form, "properties": {**self._choices(), **form["properties"]}}

    def _choices(self) -> dict[str, Any]:
        slots = {
            slot: {
                "type": "string",
                "enum": operators_for_slot(slot),
                "description": "an operator, in JSON also with arguments, as in capped:depth=1",
            }
            for slot in graph_slots(self.method)
        }
        described = {"swaps": "operators by slot in place of the graph's own", "benchmark": "where a task names none"}
        return {
            "swaps": {"type": "object", "properties": slots, "default": {}, "description": described["swaps"]},
            "benchmark": {"type": "string", "default": "", "description": described["benchmark"]},
        }

    def get_input_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """Return the form of the input with examples of tasks."""
        searches, predicts = self.method in SEARCH_GRAPHS, self.method in REWARD_GRAPHS
        tasks = SEARCH_TASKS if searches else REWARD_TASKS if predicts else ACTING_TASKS
        return {**super().get_input_jsonschema(config), "examples": [{"task": task} for task in tasks]}

    def _without_unused(self, drawing: Graph, config: RunnableConfig | None) -> Graph:
        named: RunnableConfig | None = {"configurable": {"benchmark": self.benchmark}} if self.benchmark else config
        return super()._without_unused(drawing, named)


def serve(name: str) -> Factory:
    """Return the factory of one of certigraph's graphs for a LangGraph server.

    Args:
        name: name of the graph.
    """

    async def make_graph(config: RunnableConfig, runtime: ServerRuntime[Any]) -> EpisodicGraph:
        if runtime.access_context == "threads.create_run":
            return await asyncio.to_thread(build_served, name, getattr(runtime, "context", None) or {})
        configured = config.get("configurable", {})  # the server's own keys stand there too
        chosen = {key: configured[key] for key in ASSISTANT_FIELDS if key in configured}
        try:
            return await asyncio.to_thread(build_served, name, chosen)
        except UnknownName as error:
            if runtime.access_context != "assistants.read":
                return await asyncio.to_thread(build_served, name, {})  # no run of such a graph has begun
            from starlette.exceptions import HTTPException  # a server has it

            raise HTTPException(422, str(error)) from error

    return make_graph


def build_served(name: str, given: Mapping[str, Any]) -> ServedGraph:
    """Build the graph of an assistant.

    Args:
        name: name of the graph.
        given: what the assistant and the run set.

    Raises:
        UnknownName: a key, a slot or an operator is unknown, or the operator is not one of the slot.
    """
    known = (*ASSISTANT_FIELDS, *EpisodicGraph.served_fields)
    if unknown := next((key for key in given if key not in known), ""):
        raise UnknownName(f"no key {unknown!r} in an assistant's configuration", unknown, known)
    swaps = {slot: _read_swap(slot, text) for slot, text in (given.get("swaps") or {}).items() if text}
    compiled = {**vars(build_graph(name, swaps)), "store": None}  # the server passes in its own
    return ServedGraph(method=name, benchmark=given.get("benchmark") or "", **compiled)


def _read_swap(slot: str, text: Any) -> Spec:
    if not isinstance(text, str):
        raise UnknownName(f"swaps.{slot}={text!r:.100} is not the name of an operator, as in always_pass")
    spec = parse_spec(text)
    if ":" in spec.name and not may_import(spec.name):
        raise UnknownName(f"{slot}={spec.name}: whoever runs the server lists its module in CERTIGRAPH_IMPORTS")
    if named := next((value for value in _texts_in(spec) if "/" in value or value.startswith((".", "~"))), ""):
        raise UnknownName(f"{slot}={spec}: an operator that a client chooses names no file, and {named!r} may be one")
    return spec


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, Spec):
        value = value.args
    if isinstance(value, str):
        yield value
    for part in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from _texts_in(part)


sdp = serve("sdp")
tdp = serve("tdp")
step = serve("step")
react = serve("react")
react_reward = serve("react_reward")
mcts = serve("mcts")
reflexion = serve("reflexion")
clin = serve("clin")
plan_and_solve = serve("plan_and_solve")
plan_and_act = serve("plan_and_act")
cot = serve("cot")
pbai = serve("pbai")
ircot = serve("ircot")
memgpt = serve("memgpt")
iter_retgen = serve("iter_retgen")
hypotheses = serve("hypotheses")
statefactory = serve("statefactory")
monotonic = serve("monotonic")
reward_judge = serve("reward_judge")
reward_head = serve("reward_head")
subtask = serve("subtask")
