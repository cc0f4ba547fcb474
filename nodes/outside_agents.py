"""An agent of somebody else's, as operators see it: its model, its tools and its instructions in a context."""

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langgraph.runtime import Runtime

from certigraph.adapters.models.given import model_fields, role_fields
from certigraph.adapters.models.usage import Meter, metering
from certigraph.adapters.protocols import AsyncOperator, Budget, Context
from certigraph.adapters.tools.checks import Checks
from certigraph.adapters.tools.outcomes import Effect
from certigraph.adapters.tools.world import Tools
from certigraph.state.records import Spent, Usage

Model = BaseChatModel | Runnable[Any, Any] | str
"""A chat model, a Runnable that answers as one, or the name of a model."""


def load_outside_tools(
    tools: Sequence[Any],
    effects: Mapping[str, Effect] | None = None,
    *,
    instructions: str = "",
    checks: Checks | None = None,
) -> Tools:
    """Return the tools of an agent as a world.

    Args:
        tools: LangChain tools, functions, and dicts of tools that the model's provider executes.
        effects: as for `agent`. What it says of tools that the agent does not have is for other agents.
        instructions: the agent's instructions.
        checks: as for `agent`.
    """
    names = {tool.name if isinstance(tool, BaseTool) else getattr(tool, "__name__", "") for tool in tools}
    known = {name: effect for name, effect in (effects or {}).items() if name in names}
    return Tools(tools, effects=known, instructions=instructions, checks=checks)


class OutsideAgent(NamedTuple):
    """What operators know of an agent: its tools with its instructions, and the models that they ask."""

    world: Tools | None
    """Its tools; None for operators that need not know them."""
    model: Model
    """Answers in every role that `roles` does not name."""
    roles: Mapping[str, Model] = {}

    async def call(
        self,
        name: str,
        operator: AsyncOperator,
        state: Any,
        runtime: Runtime[Any],
        *,
        budget: Budget | None = None,
        spent: Spent | None = None,
        **fields: Any,
    ) -> tuple[dict[str, Any], Usage]:
        """Call an operator for the agent; return its update, and what it spent.

        Args:
            name: name of the operator's node, for the usage.
            operator: the operator.
            state: what the operator reads.
            runtime: runtime of the node, hook or tool in which it is called.
            budget: what may be spent; None for the default.
            spent: what was spent of it before.
            **fields: further fields of the context.

        Raises:
            LimitReached: the budget does not allow a request.
        """
        given = {**model_fields(self.model), **role_fields(self.roles)}
        context = Context(benchmark=self.world, **given, **fields)
        meter = Meter(name, budget or Budget(), spent or Spent())
        started = perf_counter()
        inner: Runtime[Context] = Runtime(context=context, store=runtime.store, stream_writer=runtime.stream_writer)
        with metering(meter):
            update = await operator(state, inner)
        return update, meter.usage(perf_counter() - started)


__all__ = ["Model", "OutsideAgent", "load_outside_tools"]
