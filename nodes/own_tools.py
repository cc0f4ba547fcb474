"""Access to the user's own tools from the nodes of a graph."""

from typing import cast

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import benchmark_of, context_of
from certigraph.adapters.models.tool_calls import OfferedTool
from certigraph.adapters.protocols import Benchmark, Context
from certigraph.adapters.tools.world import Tools
from certigraph.state.endings import Fault
from certigraph.state.records import Task


def has_tools(benchmark: Benchmark) -> bool:
    """Return whether a world consists of tools."""
    return hasattr(benchmark, "offered")  # `isinstance` takes ten times as long for a protocol, and every node asks


def tools_of(task: Task, runtime: Runtime[Context]) -> Tools:
    """Return the tools of a run.

    Raises:
        Fault: ("operator") the world of the run is not made of tools.
    """
    benchmark = benchmark_of(task, runtime)
    if has_tools(benchmark):
        return cast(Tools, benchmark)
    name = benchmark.name
    raise Fault("operator", f"the world {name} has no tools: use its own operators, or certigraph.Tools")


def offered_tools(tools: Tools, runtime: Runtime[Context]) -> list[OfferedTool]:
    """Return the tools that a model may call, without `finish`.

    Those outside the run's commitment are hidden, unless a person may approve their calls. A call of a hidden one is
    read all the same, and refused when it is to be made.
    """
    commitment = context_of(runtime).commitment
    if commitment is None:
        return tools.offered()
    usable = {*commitment.tools, *commitment.approvable}
    return [one._replace(hidden=one.provided is None and one.name not in usable) for one in tools.offered()]


__all__ = ["has_tools", "offered_tools", "tools_of"]
