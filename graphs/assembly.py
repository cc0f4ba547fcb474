"""Assembly of graphs from slots and operators. Every graph lets the caller replace operators by keyword."""

import inspect
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, wraps
from itertools import pairwise
from threading import Lock
from typing import Annotated, Any, NamedTuple, Self, cast, get_args, get_origin, get_type_hints

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.graph import Graph
from langgraph.errors import InvalidUpdateError
from langgraph.graph import END, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, Overwrite, StateUpdate
from langgraph.utils.runnable import RunnableCallable  # type: ignore[attr-defined]
from pydantic import JsonValue, PydanticSchemaGenerationError, TypeAdapter, ValidationError
from typing_extensions import TypedDict, is_typeddict

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.episodes import graph_scope
from certigraph.adapters.models.served_contexts import SERVED_FIELDS, check_client_context, served_form
from certigraph.adapters.processes import wait_for_node
from certigraph.adapters.protocols import Benchmark, Context, Operator
from certigraph.adapters.tools.positions import RUNTIME_KEY, with_place
from certigraph.graphs.catalogue import check_slot
from certigraph.graphs.operator_names import name_running_operators
from certigraph.graphs.results import RESULT, create_result
from certigraph.nodes.beliefs import after_gate, after_gate_or_answer
from certigraph.nodes.slots import Slot, create_node, spec_of
from certigraph.nodes.specs import Spec
from certigraph.state.endings import LimitReached, UnknownName
from certigraph.state.records import Task

# Edits of a thread's state from outside: values may be JSON, and the routers of the last node need a runtime.

OVERWRITE_KEY = "__overwrite__"
"""Key that marks a JSON value which replaces a channel instead of adding to it, as in LangGraph."""

MAX_REMEMBERED_THREADS = 256


class ThreadContexts:
    """The contexts of the latest runs, by LangGraph thread; the oldest are forgotten. Safe to use in parallel."""

    def __init__(self) -> None:
        """Begin without any context."""
        self._contexts: OrderedDict[str, Context] = OrderedDict()
        self._lock = Lock()

    def remember(self, config: RunnableConfig | None, context: object) -> None:
        """Remember the context of a run that starts; runs without a thread or a context change nothing."""
        thread = _thread_of(config)
        if not thread or context is None:
            return
        with self._lock:
            self._contexts[thread] = Context.model_validate(context)
            self._contexts.move_to_end(thread)
            while len(self._contexts) > MAX_REMEMBERED_THREADS:
                self._contexts.popitem(last=False)

    def find(self, config: RunnableConfig | None) -> Context | None:
        """Return the context of the thread's latest run in this process; None if there was none."""
        with self._lock:
            return self._contexts.get(_thread_of(config))


def _thread_of(config: RunnableConfig | None) -> str:
    return str((config or {}).get("configurable", {}).get("thread_id", ""))


THREAD_CONTEXTS = ThreadContexts()


def with_runtime(config: RunnableConfig, default: Context) -> RunnableConfig:
    """Return the configuration with a LangGraph runtime.

    When the state is edited, routers need a runtime to decide where the run continues. Its context is that of the
    thread's latest run in this process, else `default`.
    """
    runtime = Runtime(context=THREAD_CONTEXTS.find(config) or default)
    return {**config, "configurable": {RUNTIME_KEY: runtime, **config.get("configurable", {})}}


def to_records(
    own: type[Any], schema: type[Any], supersteps: Sequence[Sequence[StateUpdate]]
) -> list[list[StateUpdate]]:
    """Convert the values of state updates to the types of the state's schema.

    Messages, and what a caller added to the state, may have every form that LangGraph takes: a value of another type
    than that of its key stays as it is.

    Args:
        own: the TypedDict of the method's state, whose values must fit.
        schema: the TypedDict of the graph's state: the method's, with further keys.
        supersteps: the updates, as `bulk_update_state` gets them.

    Raises:
        InvalidUpdateError: the state has no such key, or a value does not fit its type.
    """
    return [
        [update._replace(values=_convert(own, schema, update.values)) for update in updates] for updates in supersteps
    ]


def _convert(own: type[Any], schema: type[Any], values: Any) -> Any:
    """Convert what a node may return: values by key, a Command with such values, or a list of both."""
    if isinstance(values, Mapping):
        return {key: _to_record(own, schema, key, value) for key, value in values.items()}
    if isinstance(values, Command):
        return replace(values, update=_convert(own, schema, values.update))
    if isinstance(values, list | tuple) and any(isinstance(one, Command) for one in values):
        return [_convert(own, schema, one) for one in values]
    return values


def _to_record(own: type[Any], schema: type[Any], key: str, value: Any) -> Any:
    hints = get_type_hints(schema, include_extras=True)
    if key not in hints:
        raise InvalidUpdateError(f"the state has no key {key!r}; it has: {', '.join(hints)}")
    (replaces, plain), reduced = _unwrap(value), get_origin(hints[key]) is Annotated
    is_own = key in get_type_hints(own)
    record = plain
    if is_own or not reduced:  # a reducer of messages or of the caller's takes other values than the state holds
        try:
            record = _adapter(schema, key).validate_python(plain)  # type: ignore[arg-type]  # a class is hashable
        except PydanticSchemaGenerationError:  # a class of the caller's that pydantic does not know
            pass
        except ValidationError as error:
            if is_own:
                first = error.errors(include_url=False)[0]
                place = ".".join(map(str, (key, *first["loc"])))
                raise InvalidUpdateError(f"{place}: {first['msg']}; got {first['input']!r:.100}") from None
    return Overwrite(record) if replaces and reduced else record


def _unwrap(value: Any) -> tuple[bool, Any]:
    """Return whether a value replaces its channel, and the value alone."""
    if isinstance(value, Overwrite):
        return True, value.value
    if isinstance(value, Mapping) and set(value) == {OVERWRITE_KEY}:
        return True, value[OVERWRITE_KEY]
    if isinstance(value, Mapping) and value.get("type") == OVERWRITE_KEY:  # how LangGraph's SDK writes it
        return True, value.get("value")
    return False, value


@cache
def _adapter(schema: type[Any], key: str) -> TypeAdapter[Any]:
    return TypeAdapter(get_type_hints(schema, include_extras=True)[key])


@contextmanager
def _naming_missing_keys() -> Iterator[None]:
    """Raise InvalidUpdateError if a router reads a key that the edited state does not have yet; names the key."""
    try:
        yield
    except KeyError as error:
        if isinstance(error, UnknownName):
            raise
        missing = f"the state has no {error.args[0]!r} yet, by which the run would continue after this edit"
        raise InvalidUpdateError(f"{missing}: edit a later checkpoint, or set {error.args[0]!r} as well") from error


class EpisodicGraph(CompiledStateGraph[Any, Context, Any, Any]):
    """A compiled graph that closes the episodes it opened when a run of it ends.

    Every way to run a graph (invoke, batch, events, the development server, a node of another graph) goes through
    `stream` or `astream`. A run ends when it finishes, is interrupted or cancelled, fails, or when its stream is
    abandoned. If the thread is resumed later, its world is rebuilt from the log.

    Edits of the state (`update_state`, or in LangGraph Studio) may be JSON, which is converted to the types of the
    state. They work at every checkpoint.
    """

    served_fields: tuple[str, ...] = (*SERVED_FIELDS, "roles", "trial")
    """Fields of the context that a client of a server may set."""

    def stream(self, input: Any, config: Any = None, **kwargs: Any) -> Iterator[Any]:  # noqa: D102 - as LangGraph's
        check_client_context(kwargs.get("context"))
        THREAD_CONTEXTS.remember(config, kwargs.get("context"))
        chunks: Any = super().stream(input, with_place(config, begins=is_input(input)), **kwargs)
        scope = graph_scope()
        if scope is None:
            yield from chunks
            return
        try:
            while True:
                with scope.active():  # not across the yield: the caller's code runs there
                    try:
                        chunk = next(chunks)
                    except StopIteration:
                        return
                yield chunk
        except LimitReached as reached:
            if scope.parent is None:  # else a run folder or the graph around this one is resumed
                reached.advise_caller()
            raise
        finally:
            try:
                chunks.close()
            finally:
                scope.end()

    async def astream(self, input: Any, config: Any = None, **kwargs: Any) -> AsyncIterator[Any]:  # noqa: D102
        check_client_context(kwargs.get("context"))
        THREAD_CONTEXTS.remember(config, kwargs.get("context"))
        chunks: Any = super().astream(input, with_place(config, begins=is_input(input)), **kwargs)
        scope = graph_scope()
        if scope is None:
            async for chunk in chunks:
                yield chunk
            return
        try:
            while True:
                with scope.active():
                    try:
                        chunk = await anext(chunks)
                    except StopAsyncIteration:
                        return
                yield chunk
        except LimitReached as reached:
            if scope.parent is None:  # else a run folder or the graph around this one is resumed
                reached.advise_caller()
            raise
        finally:
            try:
                await chunks.aclose()
            finally:
                await scope.aend()

    def get_context_jsonschema(self) -> dict[str, Any]:
        """Return the form of the fields of the context that a client of a server may set."""
        return served_form(self.served_fields)

    def default_context(self) -> Context:
        """Return the context of a run to which the caller gives none."""
        return Context()

    def get_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Graph:
        """Draw the graph as LangGraph does, without nodes that the world does not need.

        Nodes that run only in worlds which take an answer are drawn if `config["configurable"]["benchmark"]` names such
        a benchmark.
        """
        return self._without_unused(super().get_graph(config, xray=xray), config)

    async def aget_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> Graph:
        """Draw the graph as `get_graph` does, asynchronously."""
        return self._without_unused(await super().aget_graph(config, xray=xray), config)

    def _without_unused(self, drawing: Graph, config: RunnableConfig | None) -> Graph:
        benchmark = (config or {}).get("configurable", {}).get("benchmark")
        nodes = getattr(self.builder, "answer_nodes", ())
        if nodes and not (benchmark and load_benchmark(benchmark).answers):
            for name in nodes:
                drawing.remove_node(drawing.nodes[name])
        return drawing

    def bulk_update_state(self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]) -> RunnableConfig:
        """Apply updates as in LangGraph; values may be JSON, and the routers after the last node get a runtime."""
        with _naming_missing_keys():
            return super().bulk_update_state(
                with_runtime(config, self.default_context()), self._to_records(config, supersteps)
            )

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """Apply updates as `bulk_update_state` does, asynchronously."""
        with _naming_missing_keys():
            return await super().abulk_update_state(
                with_runtime(config, self.default_context()), self._to_records(config, supersteps)
            )

    def _to_records(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> Sequence[Sequence[StateUpdate]]:
        inner = config.get("configurable", {}).get("checkpoint_ns")  # an inner graph's state, which it converts itself
        builder = cast(Assembly, self.builder)
        return supersteps if inner else to_records(builder.own_state, builder.state_schema, supersteps)


def is_input(given: Any) -> bool:
    """Return whether what a graph is invoked with begins a turn, and does not go on with one."""
    return given is not None and not isinstance(given, Command)


def extend_state(state: type[Any], further: type[Any] | None) -> type[Any]:
    """Return the schema of a state with the keys of another one in addition.

    A key that both have, such as the messages of LangGraph's `MessagesState`, keeps its reducer of the first one.

    Raises:
        TypeError: the other schema is not a TypedDict, or has a key of the first one with another type.
    """
    if further is None:
        return state
    if not is_typeddict(further):
        raise TypeError(
            f"state_schema={further!r:.100} is not a TypedDict: declare the keys in a class of typing.TypedDict"
        )
    usual, added = (get_type_hints(schema, include_extras=True) for schema in (state, further))
    types, other_types = get_type_hints(state), get_type_hints(further)
    if taken := [key for key in added if key in usual and other_types[key] != types[key]]:
        raise TypeError(f"the state key {taken[0]!r} of {further.__name__} is taken by the graph: rename it")
    return create_state(f"{state.__name__}With{further.__name__}", {**added, **usual})


def create_state(name: str, fields: Mapping[str, Any]) -> type[Any]:
    """Return a TypedDict of optional keys with the given types."""
    return TypedDict(name, dict(fields), total=False)  # type: ignore[operator, no-any-return]


class Assembly(StateGraph[Any, Context, Any, Any]):
    """Builder of an `EpisodicGraph`. Routers run without a thread; LangGraph would start one for each call."""

    method: str = ""
    """Name of the method whose graph this is, whatever its operators and further nodes are."""
    answer_nodes: Sequence[str] = ()
    """Nodes that run only in worlds which take an answer."""
    operators: Mapping[str, Any] = {}
    """Operators by slot, as they were given."""
    own_state: type[Any]
    """The method's state, without the keys with which the graph is extended."""

    gives_result: bool = True
    """Whether the graph ends with the node `result`."""

    def compile(self, *args: Any, **kwargs: Any) -> EpisodicGraph:
        """Compile the graph, as in LangGraph, with the node `result` at its end."""
        if self.gives_result and RESULT not in self.nodes:
            self.redirect(None, END, RESULT)
            node = create_result(self.method, specs_of_nodes(self), self.operators)
            self.add_node(RESULT, run_in_place(node), input_schema=self.state_schema)
            self.add_edge(RESULT, END)
        return EpisodicGraph(**vars(super().compile(*args, **kwargs)))

    def insert(self, name: str, node: Any, *, between: tuple[str, str]) -> Self:
        """Insert a node on the way from one node to another.

        Args:
            name: name of the new node.
            node: a function of the state, as LangGraph takes it.
            between: the node before, and the node after; START and END are allowed.

        Raises:
            ValueError: no edge leads from the one to the other.
        """
        source, target = between
        self.add_node(name, node, input_schema=self.state_schema)
        if not self.redirect(source, target, name):
            raise ValueError(f"no edge leads from {source!r} to {target!r}: the edges are {sorted(self.edges)}")
        return self.add_edge(name, target)

    def redirect(self, source: str | None, target: str, new: str) -> bool:
        """Let edges lead to another node, conditional ones included; return whether there was any.

        Args:
            source: the node before; None for all nodes.
            target: the node to which the edges lead.
            new: the node to which they lead from now on.
        """
        moved = {edge for edge in self.edges if edge[1] == target and source in (None, edge[0])}
        self.edges = (self.edges - moved) | {(start, new) for start, _ in moved}
        found = bool(moved)
        for start, branches in self.branches.items():
            for name, branch in branches.items():
                if source in (None, start) and branch.ends and target in branch.ends.values():
                    ends = {edge: new if end == target else end for edge, end in branch.ends.items()}
                    branches[name] = branch._replace(ends=ends)
                    found = True
        return found

    def add_exits(self, label: str, target: str, leaves: Callable[[Any], bool], nodes: Sequence[str]) -> None:
        """Add an edge to `target` after each node, which is taken instead of the others if `leaves(state)` holds.

        Args:
            label: name of the edge.
            target: the node to which the edges lead.
            leaves: function of the state after the node.
            nodes: the nodes.
        """
        for node in nodes:
            usual = [end for start, end in sorted(self.edges) if start == node]
            self.edges -= {(node, end) for end in usual}
            if usual:

                def unless_left(state: Any, usual: Sequence[str] = usual) -> str | list[str]:
                    return label if leaves(state) else [*usual]

                self.add_conditional_edges(node, unless_left, {label: target, **{end: end for end in usual}})
                continue
            for name, branch in self.branches[node].items():

                def unless(state: Any, config: RunnableConfig, path: Any = branch.path) -> Any:
                    return label if leaves(state) else path.invoke(state, config)

                ends = {label: target, **(branch.ends or {})}
                # without the schema of the path, which may lack what `leaves` reads, it gets the node's
                self.branches[node][name] = branch._replace(path=run_in_place(unless), ends=ends, input_schema=None)

    def add_conditional_edges(self, source: str, path: Any, path_map: Any = None) -> Self:
        """Add conditional edges, as in LangGraph; a `path` that is a plain function runs without a thread."""
        return super().add_conditional_edges(source, run_in_place(path) if inspect.isfunction(path) else path, path_map)


class Schemas(NamedTuple):
    """Schemas with which a graph is extended to be a part of a user's application."""

    state: type[Any] | None = None
    """TypedDict with further keys of the graph's state; its nodes leave them as they are."""
    input: type[Any] | None = None
    """Schema of the graph's input instead of the usual one, a task."""
    output: type[Any] | None = None
    """Schema of the graph's output; None for the complete state."""


UNEXTENDED = Schemas()
"""Schemas of a graph as it is."""


def assemble(
    method: str,
    state: type[Any],
    input_schema: type[Any],
    slots: Sequence[Slot],
    swaps: Mapping[str, object],
    schemas: Schemas = UNEXTENDED,
) -> Assembly:
    """Build a graph with one node for each slot. It has no edges yet.

    An optional slot becomes a node only if `swaps` has its operator. The spec of each operator is stored in the
    metadata of its node.

    Args:
        method: name of the method, which is that of its module.
        state: schema of the graph's state.
        input_schema: schema of the graph's input.
        slots: the slots with their defaults, in the order of the drawing.
        swaps: operators by slot that replace the defaults.
        schemas: schemas with which the graph is extended.

    Raises:
        TypeError: a swap names no slot, or is not an operator.
        UnknownName: a swap is one of certigraph's operators for other slots.
    """
    check_slots(swaps, [slot.name for slot in slots])
    for name, swap in swaps.items():
        check_slot(name, spec_of(cast(Operator, swap)).name)
    own_state, state = state, extend_state(state, schemas.state)
    builder = Assembly(
        state, context_schema=Context, input_schema=schemas.input or input_schema, output_schema=schemas.output
    )
    builder.method, builder.own_state = method, own_state
    builder.answer_nodes = [slot.name for slot in slots if slot.answers_only]
    given = {slot.name: swaps.get(slot.name, slot.default) for slot in slots}
    builder.operators = {name: operator for name, operator in given.items() if operator is not None}
    for slot in slots:
        operator: Any = given[slot.name]
        if operator is None:
            continue
        spec = spec_of(operator).model_dump(mode="json")
        builder.add_node(slot.name, create_node(slot, operator), metadata={"operator": spec}, input_schema=state)
    return builder


def check_slots(swaps: Iterable[str], known: Sequence[str]) -> None:
    """Check that the keywords `swaps` are names of the slots `known` of a graph.

    Raises:
        TypeError: a keyword names no slot; the message lists the slots.
    """
    if unknown := set(swaps) - set(known):
        raise TypeError(f"no operator slot {', '.join(sorted(unknown))!r}; this graph has: {', '.join(known)}")


def add_path(builder: Assembly, *nodes: str) -> list[str]:
    """Add an edge from each node to the next, leaving out optional slots that have no operator; return those left."""
    present = [node for node in nodes if node in builder.nodes]
    for source, target in pairwise(present):
        builder.add_edge(source, target)
    return present


def add_gate(builder: Assembly, following: str, *, stop: str = END, answer: str = "") -> str:
    """Add the edges of the optional node `gate`, and return the node to which an edge has to lead: the gate, if any.

    Args:
        builder: the graph, with its nodes.
        following: node that comes next while the search goes on.
        stop: node that comes next when the gate has ended the search.
        answer: node that gives an answer in worlds which take one when the gate has ended the search; empty for none.
    """
    if "gate" not in builder.nodes:
        return following
    if answer:
        edges = {"continue": following, "stop": stop, "forced": answer}
        builder.add_conditional_edges("gate", after_gate_or_answer, edges)
    else:
        builder.add_conditional_edges("gate", after_gate, {"continue": following, "stop": stop})
    return "gate"


def operators_of(graph: CompiledStateGraph[Any, Context, Any, Any]) -> dict[str, JsonValue]:
    """Return the specs of a compiled graph's operators by slot.

    For a user's own graph that was built by name, only the specs of replaced operators: its metadata lists them.
    """
    swapped: dict[str, JsonValue] | None = (graph.config or {}).get("metadata", {}).get(SWAPPED_KEY)
    return dict(swapped) if swapped is not None else specs_of_nodes(graph.builder)


def running_operators_of(
    graph: CompiledStateGraph[Any, Context, Any, Any], task: Task, benchmark: Benchmark
) -> dict[str, JsonValue]:
    """Return the specs of the operators of a compiled graph by slot, with the names of those that run on a task."""
    operators = graph.builder.operators if isinstance(graph.builder, Assembly) else {}
    return name_running_operators(operators_of(graph), operators, task, benchmark)


def method_of(graph: CompiledStateGraph[Any, Context, Any, Any]) -> str:
    """Return the name of the method of which a graph is one; empty if it was not built from one of certigraph's."""
    return graph.builder.method if isinstance(graph.builder, Assembly) else ""


def specs_of_nodes(builder: StateGraph[Any, Any, Any, Any]) -> dict[str, JsonValue]:
    """Return the specs of all operators of a graph by slot."""
    described = {name: node.metadata for name, node in builder.nodes.items() if node.metadata}
    return {name: metadata["operator"] for name, metadata in described.items() if "operator" in metadata}


SWAPPED_KEY = "certigraph_operators"
"""Metadata key of a user's own graph that was built by name: specs of the operators that replaced the graph's own."""


def slot_names(build: Callable[..., object]) -> list[str]:
    """Return the names of the slots that the keywords of a graph's `build` fill, read from its signature."""
    [operators] = get_args(get_type_hints(build)["operators"])
    return list(operators.__annotations__)


def swapped_specs(operators: Mapping[str, JsonValue], usual: Mapping[str, JsonValue]) -> dict[str, Spec]:
    """Return by slot the specs in `operators` that differ from those of the default operators, `usual`."""
    return {slot: Spec.model_validate(spec) for slot, spec in operators.items() if spec != usual.get(slot)}


def run_in_place(path: Callable[..., Any]) -> RunnableCallable:
    """Wrap a function as a router or node that works with `invoke` and `ainvoke` and never gets a thread of its own."""
    if inspect.iscoroutinefunction(path):

        @wraps(path)
        def blocking_path(*args: Any, **kwargs: Any) -> Any:
            return wait_for_node(path(*args, **kwargs))

        return RunnableCallable(blocking_path, path, name=path.__name__, trace=False)

    @wraps(path)
    async def apath(*args: Any, **kwargs: Any) -> Any:
        return path(*args, **kwargs)

    return RunnableCallable(path, apath, name=path.__name__, trace=False)
