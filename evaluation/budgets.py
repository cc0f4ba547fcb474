"""`KEY=VALUE` texts of a command line, read into models by role, a budget and limits."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from pydantic import ValidationError

from certigraph.adapters.benchmarks import load_benchmark, usable
from certigraph.adapters.context import ROLES, Budget, Context
from certigraph.adapters.models.chat import chat_model, check_model, model_label, ready
from certigraph.adapters.models.price_table import unpriced
from certigraph.adapters.models.prices import price_of
from certigraph.adapters.protocols import Limits
from certigraph.state.endings import Fault, UnknownName

R = TypeVar("R", Budget, Limits)


class Allowance(NamedTuple):
    """What a run may spend, and its method's own limits."""

    budget: Budget
    limits: Limits


def roles_in(texts: Sequence[str]) -> dict[str, str]:
    """Models by role from `ROLE=MODEL`; inspect's own names of models, PROVIDER/NAME, are let through.

    Raises:
        UnknownName: a role or a form of model is unknown; the message lists the known ones.
    """
    named = _pairs(texts, "executor=local")
    if unknown := sorted(set(named) - set(ROLES)):
        raise UnknownName(f"no role {unknown[0]!r}; known: {', '.join(ROLES)}")
    for model in named.values():
        if "/" not in model:
            check_model(model)
    return named


def allowance(texts: Sequence[str], limits: Limits, budget: Budget | None = None) -> Allowance:
    """Budget and limits with the changes `KEY=N`.

    Raises:
        UnknownName: a key is unknown or its value is out of range.
    """
    amounts = _pairs(texts, "steps=120")
    known = {*Budget.model_fields, *Limits.model_fields} - {"priced"}
    if unknown := sorted(set(amounts) - known):
        raise UnknownName(f"no budget {unknown[0]!r}; known: {', '.join(sorted(known))}")
    return Allowance(_changed(budget or Budget(), amounts), _changed(limits, amounts))


def context_from(
    model: str,
    roles: Sequence[str] | None,
    data: str | None,
    budget: Sequence[str] | None,
    benchmark: str,
    cache: str | None = None,
) -> Context:
    """The context of a run on a benchmark, from texts.

    Raises:
        UnknownName: a benchmark, role, model or key is unknown, or a value is out of range.
        Fault: a key, weights, a server or data are missing.
    """
    named = {role: check_model(name) for role, name in roles_in(roles or []).items()}
    for name in {model, *named.values()}:
        ready(name)
    live = load_benchmark(benchmark, data)
    usable(live)
    allowed = allowance(budget or [], live.limits)
    return Context(
        model=check_model(model), roles=named, data=data, budget=allowed.budget, limits=allowed.limits, cache=cache
    )


def must_be_priced(models: Iterable[str], budget: Budget) -> None:
    """Make sure that a limit of dollars can hold, before anything is asked.

    Raises:
        Fault: dollars are limited and a model of an endpoint has no known price; or it could not be asked at all.
    """
    for name in filter(lambda model: model.startswith("openai:"), models if budget.priced else ()):
        model = chat_model(name)
        if price_of(model) is None:
            raise Fault("model", unpriced(model_label(model), budget.usd))


def _pairs(texts: Sequence[str], example: str) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    if bad := [name for name, equals, _ in pairs if not equals]:
        raise UnknownName(f"{bad[0]!r} is not KEY=VALUE; write for example {example}")
    return {name: value for name, _, value in pairs}


def _changed(record: R, amounts: Mapping[str, str]) -> R:
    kind = type(record)
    mine: dict[str, object] = {key: value for key, value in amounts.items() if key in kind.model_fields}
    if "usd" in mine:
        mine["priced"] = True
    try:
        return kind.model_validate({**record.model_dump(), **mine})
    except ValidationError as error:
        first = error.errors()[0]
        raise UnknownName(f"--budget {first['loc'][0]}={first['input']}: {first['msg']}") from error
