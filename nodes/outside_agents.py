"""An agent of somebody else's, as operators see it: its model, its tools and its instructions in a context."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from time import perf_counter
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.runtime import Runtime

from certigraph.adapters.models.given import model_fields, role_fields
from certigraph.adapters.models.usage import CallOrigin, Meter, find_meter, metering
from certigraph.adapters.protocols import AsyncOperator, Budget, Context, Limits
from certigraph.adapters.tools.builtin import is_builtin_look_up
from certigraph.adapters.tools.checks import Checks
from certigraph.adapters.tools.definitions import DEADLINE, load_tools, may_be_repeated, sets_value
from certigraph.adapters.tools.outcomes import Effect, check_effect
from certigraph.adapters.tools.world import Tools
from certigraph.state.records import Spent, Usage

Model = BaseChatModel | Runnable[Any, Any] | str
"""A chat model, a Runnable that answers as one, or the name of a model."""


DELEGATION = "task"
"""Name of the tool of deepagents by which an agent hands work to a sub-agent."""


class OutsideTools(Tools):
    """The tools of somebody else's agent, which has no calls of its own that a tool could be taken for."""

    reserved_names = frozenset()
    is_whole = False  # a request may offer some of them only
    declared: frozenset[str] = frozenset()
    """Names of the tools of which the user says what they change."""

    def is_look_up(self, tool: str) -> bool:
        """Return whether calls of a tool change nothing. A sub-agent that nobody declared so may change something."""
        loaded = self.loaded.get(tool)
        delegates = loaded is not None and tool == DELEGATION and is_builtin_look_up(loaded.tool)
        return super().is_look_up(tool) and (not delegates or tool in self.declared)


def load_outside_tools(
    tools: Sequence[Any],
    effects: Mapping[str, Effect] | None = None,
    *,
    instructions: str = "",
    checks: Checks | None = None,
    deadline: float = DEADLINE,
    limits: Limits | None = None,
) -> Tools:
    """Return the tools of an agent as a world in which its work is judged; the agent itself calls them.

    Args:
        tools: LangChain tools, functions, and dicts of tools that the model's provider executes. Of a tool that
            certigraph's own agents could not call, the name and the description are kept.
        effects: as for `agent`. What it says of tools that the agent does not have is for other agents.
        instructions: the agent's instructions.
        checks: as for `agent`.
        deadline: as for `agent`.
        limits: as for `agent`.
    """
    usable = [one for tool in tools if (one := tool if isinstance(tool, dict) else _usable(tool)) is not None]
    names = {tool.name if isinstance(tool, BaseTool) else getattr(tool, "__name__", "") for tool in usable}
    known = {name: effect for name, effect in (effects or {}).items() if name in names}
    if not names:
        usable = [_stand_in("none", "")]  # an agent without tools only answers
    world = OutsideTools(
        usable, effects=known, instructions=instructions, checks=checks, deadline=deadline, limits=limits
    )
    world.declared = frozenset(known)
    return world


@cache
def no_tools() -> Tools:
    """Return the world of an agent without tools."""
    return load_outside_tools(())


def _usable(tool: Any) -> Any:
    """Return a tool as it is, or what stands for it; None for one whose name no model can use."""
    for one in (tool, _stand_in(tool.name, tool.description)) if isinstance(tool, BaseTool) else (tool,):
        try:
            load_tools([one], reserved=frozenset())
        except ValueError:
            continue
        return one
    return None


def stand_in_tools(names: Iterable[str]) -> list[BaseTool]:
    """Return tools of which nothing but the names is known; nobody can call them."""
    return [_stand_in(name, "") for name in names]


def _stand_in(name: str, description: str) -> BaseTool:
    form = {"type": "object", "properties": {}, "additionalProperties": True}
    return StructuredTool(name=name, description=description, args_schema=form, func=_cannot_be_called)


def _cannot_be_called(**args: Any) -> str:
    raise NotImplementedError("only the name of this tool is known")


class OutsideEffects:
    """What the tools of an agent do, by what its user says of them and by their own hints.

    Args:
        effects: as for `agent`. What it says of tools that the agent does not have is for other agents.
        of_stack: whether `stack` gave them, and not the user to the middleware itself.

    Raises:
        ValueError, TypeError: something else than effects by the names of tools is given.
    """

    def __init__(self, effects: Mapping[str, Effect] | None = None, *, of_stack: bool = False) -> None:
        self.of_stack = of_stack
        if not isinstance(effects, Mapping | None):
            raise TypeError(f"effects={effects!r:.100}: give a dict, as in {{'look_up': 'repeatable'}}")
        self.given = dict(effects or {})
        for name, effect in self.given.items():
            check_effect(name, effect)

    def of(self, tool: BaseTool) -> Effect:
        """Return what a call of a tool does."""
        return self.given.get(tool.name) or ("repeatable" if may_be_repeated(tool) else "once")

    def is_look_up(self, tool: BaseTool | None) -> bool:
        """Return whether calls of a tool change nothing; of one that nobody knows they may."""
        return tool is not None and self.of(tool) == "repeatable" and not sets_value(tool)


class OutsideAgent(NamedTuple):
    """What operators know of an agent: its tools with its instructions, and the models that they ask."""

    world: Tools
    """Its tools; `no_tools()` for operators that need not know them."""
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
        outer = find_meter()
        origin = outer.origin if outer else CallOrigin()
        meter = Meter(name, budget or Budget(), spent or Spent(), origin, outer=outer)
        started = perf_counter()
        inner: Runtime[Context] = Runtime(context=context, store=runtime.store, stream_writer=runtime.stream_writer)
        with metering(meter):
            update = await operator(state, inner)
        return update, meter.usage(perf_counter() - started)


__all__ = ["Model", "OutsideAgent", "OutsideEffects", "load_outside_tools", "no_tools", "stand_in_tools"]
