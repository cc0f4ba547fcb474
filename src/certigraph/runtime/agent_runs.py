"""Runs of agents: an agent over the user's own tools takes a request in place of a benchmark's task.

Such a run has what every other one has: a folder with trajectory, checkpoints and prompts, a budget, and a report.
"""

import json
from collections.abc import Sequence
from typing import NamedTuple

from langchain_core.language_models import BaseChatModel

from certigraph.adapters.models.chat_models import check_model_available, check_model_name, is_scripted, label_object
from certigraph.adapters.protocols import Benchmark, Context
from certigraph.adapters.redaction import redact_record
from certigraph.graphs.agent import METHODS, AgentGraph
from certigraph.graphs.assembly import SWAPPED_KEY
from certigraph.runtime.graph_sources import AnyGraph, differing_operators
from certigraph.runtime.outside_runs import check_no_schema, is_outside_agent, load_tools_of
from certigraph.runtime.registry import GRAPHS, parse_budget, parse_roles
from certigraph.runtime.result import is_request
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Task
from certigraph.state.tools import REQUEST_ID, TOOLS_NAME
from certigraph.state.trajectory import Header

EXAMPLE_REQUEST = "Refund order 17."
"""Example of a request, for error messages."""


class AgentRun(NamedTuple):
    """What a run of an agent starts with: the agent under the name of its runs, its world, the request, its context."""

    graph: AnyGraph
    world: Benchmark
    task: Task
    context: Context


def prepare_agent_run(agent: AgentGraph, benchmark: str | Benchmark, request: object, context: Context) -> AgentRun:
    """Return what a run of an agent starts with.

    Args:
        agent: the agent.
        benchmark: must be empty, because the agent has tools of its own.
        request: what the agent is to do, a text.
        context: fields that the caller set; the others are the agent's own.

    Raises:
        UnknownName: a benchmark is named, there is no request, or roles name models that the agent would not use.
        TypeError: the request is not text.
        Fault: ("data") the request holds a secret, or the agent a context of its own, which no run keeps.
    """
    if benchmark or context.benchmark:
        given = f"{benchmark!r:.100}" if isinstance(benchmark, str) and benchmark else "the benchmark"
        reason = f"the agent {agent.name!r} has tools of its own and runs on no benchmark: leave {given} out"
        fix = "to evaluate its method, make a benchmark of the tools: certigraph.Tools(tools, cases=[...])"
        raise UnknownName(f"{reason}, and give a request as --task, in Python task=...; {fix}")
    task = _read_request(agent, request)
    check_no_schema(agent, agent.own_schema)
    completed = agent.complete_context(context).model_copy(update={"on_limit": "raise"})  # so that it can be resumed
    return AgentRun(name_agent(agent), agent.world, task, completed)


def prepare_outside_run(agent: AnyGraph, request: object, context: Context) -> AgentRun:
    """Return what a run of an agent that was made elsewhere starts with. Its model is its own.

    Args:
        agent: the agent.
        request: what the agent is to do, a text.
        context: budget, limits and other fields that the caller set.

    Raises:
        UnknownName, TypeError, Fault: as `prepare_agent_run`, for the request.
    """
    return AgentRun(agent, load_tools_of(agent), _read_request(agent, request), context)


def _read_request(agent: AnyGraph, request: object) -> Task:
    if request is not None and not isinstance(request, str):
        raise TypeError(f"task={request!r:.100}: give an agent its request as text, such as {EXAMPLE_REQUEST!r}")
    if not request or not request.strip():
        example = f"--task {json.dumps(EXAMPLE_REQUEST)}, or in Python task={json.dumps(EXAMPLE_REQUEST)}"
        raise UnknownName(f"the agent {agent.name!r} needs a request: {example}")
    task = Task(benchmark=TOOLS_NAME, id=REQUEST_ID, goal=request.strip())
    if redact_record(task) != task:
        raise Fault("data", "the request holds a secret, which no run keeps: let a tool read it from the environment")
    return task


def name_agent(graph: AnyGraph) -> AnyGraph:
    """Return a graph under the name of its runs: an agent named as one of certigraph's graphs gets another name.

    By its name such a graph could be built again, but not the tools of an agent. Its runs list the operators that
    differ from those of its method.
    """
    if not isinstance(graph, AgentGraph) or SWAPPED_KEY in (graph.config or {}).get("metadata", {}):
        return graph
    name = f"{graph.name}-agent" if graph.name in GRAPHS else graph.name
    return graph.copy({"name": name}).with_config(metadata={SWAPPED_KEY: differing_operators(graph)})


def check_same_agent(graph: AnyGraph, header: Header) -> None:
    """Check that an agent is the one with which a run was started, by its name.

    Raises:
        UnknownName: it has another name.
    """
    if isinstance(graph, AgentGraph) and graph.name != header.graph:
        fix = "give the agent with which it was started"
        raise UnknownName(f"run {header.run_id} was started with the graph {header.graph}, not {graph.name}: {fix}")


def is_unnamed_agent(header: Header) -> bool:
    """Whether a run was started with an agent that no name can create again."""
    return header.graph.removesuffix("-agent") in METHODS and header.graph not in GRAPHS


def world_of(graph: AnyGraph, header: Header) -> Benchmark | None:
    """Return the tools of an agent as the world of its run; None for a run over a benchmark."""
    if isinstance(graph, AgentGraph):
        return graph.world
    return load_tools_of(graph) if is_request(header) and is_outside_agent(graph) else None


def chat_model_of(graph: AnyGraph, header: Header) -> BaseChatModel | None:
    """Return the chat model object of an agent if the run was started with it; else None."""
    chat = graph.agent_context.chat if isinstance(graph, AgentGraph) else None
    is_same = chat is not None and header.context.get("model") == label_object(chat)
    return chat if is_same else None


def create_agent_context(
    agent: AgentGraph,
    model: str,
    roles: Sequence[str] | None,
    budget: Sequence[str] | None,
    cache: str | None = None,
    window: int = 0,
) -> Context:
    """Create the context of an agent's run from the texts of a command line; an empty text leaves what the agent has.

    Args and errors are those of `create_context`.
    """
    models = {role: check_model_name(name) for role, name in parse_roles(roles or []).items()}
    for name in {*([model] if model else []), *models.values()}:
        if is_scripted(name):
            fix = "leave it out for the agent's own model, or name another"
            raise UnknownName(f"{name} is a script that knows benchmarks, not the tools of {agent.name!r}: {fix}")
        check_model_available(name)
    fields: dict[str, object] = {"model": check_model_name(model)} if model else {}
    fields |= {"roles": models} if models else {}
    fields |= {"cache": cache} if cache else {}
    fields |= {"window": window} if window else {}
    if budget:
        own = agent.agent_context
        allowed = parse_budget(budget, own.limits or agent.world.limits, own.budget)
        fields |= {"budget": allowed.budget, "limits": allowed.limits}
    return Context.model_validate(fields)


def create_outside_context(agent: AnyGraph, models: Sequence[str], budget: Sequence[str] | None) -> Context:
    """Create the context of a run of an agent that was made elsewhere from the texts of a command line.

    Args:
        agent: the agent.
        models: models that are named for it; must be empty.
        budget: `KEY=N` texts.

    Raises:
        UnknownName: a model is named, or a key of the budget is unknown.
    """
    if models:
        raise UnknownName(f"--model, --role {', '.join(models)}: the agent {agent.name!r} has models of its own")
    allowed = parse_budget(budget or [], load_tools_of(agent).limits)
    return Context(budget=allowed.budget, limits=allowed.limits)
