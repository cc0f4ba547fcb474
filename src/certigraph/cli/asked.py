"""From options to a context."""

from collections.abc import Sequence
from pathlib import Path

from certigraph.adapters.benchmarks import load_benchmark, usable
from certigraph.adapters.context import Context
from certigraph.adapters.models.chat import check_model, ready
from certigraph.adapters.protocols import Limits
from certigraph.evaluation.budgets import Allowance, allowance, roles_in
from certigraph.evaluation.settings import load_local
from certigraph.state.reading import read_trajectory


def context_from(
    model: str,
    roles: Sequence[str] | None,
    data: str | None,
    budget: Sequence[str] | None,
    benchmark: str,
    cache: str | None = None,
) -> Context:
    """The context of a run from the command line's options."""
    named = {role: check_model(name) for role, name in roles_in(roles or []).items()}
    for name in {model, *named.values()}:
        ready(name)
    live = load_benchmark(benchmark, data)
    usable(live)
    allowed = allowance(budget or [], live.limits)
    return Context(
        model=check_model(model), roles=named, data=data, budget=allowed.budget, limits=allowed.limits, cache=cache
    )


def enlarged(folder: Path, budget: Sequence[str] | None) -> Allowance:
    """Budget and limits of a recorded run with the given changes."""
    read_trajectory(folder / "trajectory.jsonl")
    context = load_local(folder)
    return allowance(budget or [], context.limits or Limits(), context.budget)
