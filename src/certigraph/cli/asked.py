"""From options to a context."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.adapters.context import ROLES, Budget, Context
from certigraph.adapters.models.chat import check_model, ready
from certigraph.adapters.protocols import Limits
from certigraph.evaluation.settings import load_local
from certigraph.state.endings import UnknownName
from certigraph.state.trajectory import read_trajectory

R = TypeVar("R", Budget, Limits)


def context_from(
    model: str, roles: Sequence[str] | None, data: str | None, budget: Sequence[str] | None, benchmark: str
) -> Context:
    """The context of a run from the command line's options."""
    named = {role: check_model(name) for role, name in _pairs(roles, "--role executor=local").items()}
    if unknown := sorted(set(named) - set(ROLES)):
        raise UnknownName(f"no role {unknown[0]!r}; known: {', '.join(ROLES)}")
    for name in {model, *named.values()}:
        ready(name)
    amounts = _amounts(budget)
    limits = _changed(load_benchmark(benchmark, data).limits, amounts)
    return Context(model=check_model(model), roles=named, data=data, budget=_changed(Budget(), amounts), limits=limits)


def enlarged(folder: Path, budget: Sequence[str] | None) -> tuple[Budget, Limits]:
    """Budget and limits of a recorded run with the given changes."""
    read_trajectory(folder / "trajectory.jsonl")
    context, amounts = load_local(folder), _amounts(budget)
    return _changed(context.budget, amounts), _changed(context.limits or Limits(), amounts)


def _pairs(texts: Sequence[str] | None, example: str) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts or []]
    if bad := [name for name, equals, _ in pairs if not equals]:
        raise UnknownName(f"{bad[0]!r} is not KEY=VALUE; write for example {example}")
    return {name: value for name, _, value in pairs}


def _amounts(budget: Sequence[str] | None) -> dict[str, str]:
    amounts = _pairs(budget, "--budget steps=120")
    known = {*Budget.model_fields, *Limits.model_fields}
    if unknown := sorted(set(amounts) - known):
        raise UnknownName(f"no budget {unknown[0]!r}; known: {', '.join(sorted(known))}")
    return amounts


def _changed(record: R, amounts: Mapping[str, str]) -> R:
    kind = type(record)
    mine = {key: value for key, value in amounts.items() if key in kind.model_fields}
    try:
        return kind.model_validate({**record.model_dump(), **mine})
    except ValidationError as error:
        first = error.errors()[0]
        raise UnknownName(f"--budget {first['loc'][0]}={first['input']}: {first['msg']}") from error
