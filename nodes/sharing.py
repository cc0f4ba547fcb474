"""What one of several graphs that run at the same time may spend."""

from certigraph.adapters.context import Budget, Context
from certigraph.state.records import Spent


def shared(context: Context, spent: Spent, share: int) -> Context:
    """The context of one of `share` graphs: an equal part of what is left to spend."""
    before = spent + context.lost
    return context.model_copy(update={"budget": _part(context.budget, before, share), "lost": before})


def _part(budget: Budget, spent: Spent, share: int) -> Budget:
    left = {name: (getattr(budget, name) - getattr(spent, name)) / share for name in ("calls", "tokens", "usd")}
    return budget.model_copy(
        update={
            "calls": spent.calls + int(left["calls"]),
            "tokens": spent.tokens + int(left["tokens"]),
            "usd": spent.usd + left["usd"],
        }
    )
