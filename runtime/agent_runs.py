"""Runs of agents: an agent over the user's own tools takes a request in place of a benchmark's task.

Such a run has what every other one has: a folder with trajectory, checkpoints and prompts, a budget, and a report.
"""

from collections.abc import Sequence
from typing import NamedTuple

from langchain_core.language_models import BaseChatModel

from certigraph.adapters.models.chat_models import check_model_available, check_model_name
from certigraph.adapters.models.profiles import check_profile_name
from certigraph.adapters.protocols import Benchmark, Context
from certigraph.graphs.agent import AgentGraph
from certigraph.graphs.assembly import SWAPPED_KEY, operators_of, swapped_specs
from certigraph.runtime.graph_sources import AnyGraph
from certigraph.runtime.registry import GRAPHS, graph_module, parse_budget, parse_roles
from certigraph.state.endings import UnknownName
from certigraph.state.records import Task
from certigraph.state.tools import REQUEST_ID, TOOLS_NAME

EXAMPLE_REQUEST = "Refund order 17."
"""Example of a request, for error messages."""


class AgentRun(NamedTuple):
    """What a run of an agent starts with: the agent under the name of its runs, its tools, the request, its context."""

    graph: AnyGraph
    tools: Benchmark
    task: Task
    context: Context


def prepare_agent_run(
    agent: AgentGraph, benchmark: str | Benchmark, request: str | Task | None, context: Context
) -> AgentRun:
    """Return what a run of an agent starts with.

    Args:
        agent: the agent.
        benchmark: must be empty, because the agent has tools of its own.
        request: what the agent is asked to do.
        context: fields that the caller set; the others are the agent's own.

    Raises:
        UnknownName: a benchmark is named, or there is no request.
    """
    if benchmark or context.benchmark:
        reason = f"the agent {agent.name!r} has tools of its own and runs on no benchmark"
        raise UnknownName(f"{reason}: leave the benchmark out, and give a request, task={EXAMPLE_REQUEST!r}")
    if not request:
        raise UnknownName(f"the agent {agent.name!r} needs a request, such as task={EXAMPLE_REQUEST!r}")
    goal = request.goal if isinstance(request, Task) else request
    task = Task(benchmark=TOOLS_NAME, id=REQUEST_ID, goal=goal)
    completed = agent.complete_context(context)
    return AgentRun(name_agent(agent), agent.world, task, completed)


def name_agent(graph: AnyGraph) -> AnyGraph:
    """Return a graph under the name of its runs: an agent named as one of certigraph's graphs gets another name.

    By its name such a graph could be built again, but not the tools of an agent. Its runs list the operators that
    differ from those of the graph.
    """
    if not isinstance(graph, AgentGraph) or graph.name not in GRAPHS:
        return graph
    swapped = swapped_specs(operators_of(graph), operators_of(graph_module(graph.name).graph))
    metadata = {SWAPPED_KEY: {slot: spec.model_dump(mode="json") for slot, spec in swapped.items()}}
    return graph.copy({"name": f"{graph.name}-agent"}).with_config(metadata=metadata)


def tools_of(graph: AnyGraph | None) -> Benchmark | None:
    """Return the tools of an agent as a benchmark; None for any other graph."""
    return graph.world if isinstance(graph, AgentGraph) else None


def chat_model_of(graph: AnyGraph | None) -> BaseChatModel | None:
    """Return the chat model object of an agent; None for any other graph, and for a model that has a name."""
    return graph.agent_context.chat if isinstance(graph, AgentGraph) else None


def create_agent_context(
    agent: AgentGraph,
    model: str,
    roles: Sequence[str] | None,
    budget: Sequence[str] | None,
    cache: str | None = None,
    profile: str = "",
) -> Context:
    """Create the context of an agent's run from the texts of a command line; an empty text leaves what the agent has.

    Args and errors are those of `create_context`.
    """
    models = {role: check_model_name(name) for role, name in parse_roles(roles or []).items()}
    for name in {*([model] if model else []), *models.values()}:
        check_model_available(name)
    fields: dict[str, object] = {"model": check_model_name(model)} if model else {}
    fields |= {"roles": models} if models else {}
    fields |= {"cache": cache} if cache else {}
    fields |= {"profile": check_profile_name(profile)} if profile else {}
    if budget:
        own = agent.agent_context
        allowed = parse_budget(budget, own.limits or agent.world.limits, own.budget)
        fields |= {"budget": allowed.budget, "limits": allowed.limits}
    return Context.model_validate(fields)

