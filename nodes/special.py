"""Where a benchmark's own operator takes the place of the generic, prompted one of the same name."""

from functools import wraps
from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import benchmark_of
from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Operator


def specialised(operator: Operator) -> Operator:
    """Let the benchmark answer with its operator of the same name, where it has one."""
    name = operator.__name__

    @wraps(operator)
    async def answering(state: Any, runtime: Runtime[Context]) -> dict[str, Any]:
        special = benchmark_of(state["task"], runtime).operators().get(name)
        return await (special or operator)(state, runtime)

    return answering
