"""Checks: the user's functions that decide conditions of a plan, so that no model has to be trusted with them.

A check belongs to conditions of one form. The form is a template such as `"Order {order} is refunded."`, or a compiled
regular expression with named groups. `nodes.tool_checks` decides with them what it can, and asks the
model for the rest.
"""

import asyncio
import inspect
import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any, NamedTuple, TypeAlias

from langgraph.errors import GraphBubbleUp
from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

from certigraph.adapters.models.prompts import one_line
from certigraph.adapters.processes import is_async_callable, run_in_lone_thread
from certigraph.adapters.redaction import redact_message
from certigraph.adapters.tools.contents import bound_text
from certigraph.state.endings import Fault, Stopped
from certigraph.state.records import Predicate
from certigraph.state.run import AnsweredCall

ConditionForm: TypeAlias = str | re.Pattern[str]
"""Form of the conditions that a check decides: a template in which `{name}` stands for a value, or a compiled regular
expression that matches the complete condition and whose named groups are the values."""

CheckFunction: TypeAlias = Callable[..., Any]
"""A function that gets the values of a condition by name, and the calls that were made if it has a parameter `calls`.

The calls are a tuple of `AnsweredCall`, in their order, with `tool`, `args`, `answer` and `failed` of each. Calls that
were not made, and what a person answered in their place, are not among them. The function is plain or async. It returns
whether the condition holds, or that and a text that shows it. If it raises, it decides nothing: a warning says so, and
a model judges.
"""

Checks: TypeAlias = Mapping[ConditionForm, CheckFunction]

CALLS_PARAMETER = "calls"
"""Parameter for which a check gets the calls that were made so far, with their answers."""

CALLS_EXAMPLE = "any(one.tool == 'refund_order' and not one.failed and one.args['order'] == order for one in calls)"

MAX_CONDITION = 2_000
"""Maximum characters of a condition that is compared with the form of a check."""


class CheckOutcome(NamedTuple):
    """What checks found for a condition."""

    holds: bool | None
    """None if a check matches the condition and could not decide it."""
    shown: str
    """What shows it, or why it could not be decided."""


@dataclass(frozen=True)
class Check:
    """A check, with the form of the conditions that it decides."""

    form: str
    """The form as the user wrote it."""
    patterns: tuple[re.Pattern[str], ...]
    """Expressions that match a condition of this form; they must agree on the values, or the condition is ambiguous."""
    function: CheckFunction
    converters: Mapping[str, TypeAdapter[Any]]
    """Converters of values by the parameters whose annotations name a type."""
    required: frozenset[str]
    """Parameters without a default, for which a condition must have values."""
    takes_calls: bool

    def __str__(self) -> str:
        """Format the check for a planner: the form, and the first line of the function's docstring."""
        described = (inspect.getdoc(self.function) or "").partition("\n")[0] if inspect.isroutine(self.function) else ""
        return f"{self.form} ({described})" if described else self.form

    def unfilled_names(self, text: str) -> list[str]:
        """Return the names that a condition of this form has in braces in place of values.

        A planner that copies the form may leave them there, with or without the description that follows the form.
        """
        names = [f"{{{name}}}" for name in self.patterns[0].groupindex]
        if names and _trim(self.form) in text:
            return [name for name in names if name in self.form]
        found = self.patterns[0].fullmatch(_trim(text)) if len(text) <= MAX_CONDITION else None
        values = found.groupdict().values() if found else ()
        return [name for name in names if name in values]

    def match(self, text: str) -> dict[str, Any] | None:
        """Return the values of a condition by name; None if it has another form or if its values are not certain."""
        if len(text) > MAX_CONDITION:
            return None
        found = [pattern.fullmatch(_trim(text)) or pattern.fullmatch(text) for pattern in self.patterns]
        if not all(found):
            return None
        readings = [{name: _unquote(value) for name, value in one.groupdict().items() if value} for one in found if one]
        if any(reading != readings[0] for reading in readings):
            return None
        return self._convert(readings[0])

    def _convert(self, values: Mapping[str, str]) -> dict[str, Any] | None:
        if not self.required <= set(values):  # a group of a regular expression that took no part in the match
            return None
        converted: dict[str, Any] = {}
        for name, value in values.items():
            try:
                adapter = self.converters.get(name)
                converted[name] = adapter.validate_strings(value) if adapter else value
            except ValueError:
                return None
            if isinstance(converted[name], float) and not math.isfinite(converted[name]):
                return None
        return converted

    async def run(self, values: Mapping[str, Any], calls: tuple[AnsweredCall, ...], deadline: float) -> CheckOutcome:
        """Call the function.

        Args:
            values: the values of the condition.
            calls: the calls that were made so far, in order.
            deadline: seconds after which the function is given up.

        Raises:
            Fault: ("operator") the function returned something else than it should.
        """
        given = {**values, CALLS_PARAMETER: calls} if self.takes_calls else dict(values)
        try:
            found = await asyncio.wait_for(call_own_function(self.function, **given), deadline)
        except (GraphBubbleUp, Stopped):
            raise
        except TimeoutError as error:
            return self._give_up(values, f"no result: {error or f'{deadline:g} seconds passed'}")
        except Exception as error:  # noqa: BLE001 - the code of a check may raise anything; the model then judges
            return self._give_up(values, show_text(f"{type(error).__name__}: {error}"))
        holds, text = found if isinstance(found, tuple) and len(found) == 2 else (found, "")
        if not isinstance(holds, bool) or not isinstance(text, str):
            message = f"the check for {self.form!r} returned {found!r:.100}"
            raise Fault(
                "operator", f"{message}: return True, False, or one of them with a text, as in (True, 'row 17')"
            )
        return CheckOutcome(holds, show_text(text) or _format_call(self.form, values))

    def _give_up(self, values: Mapping[str, Any], reason: str) -> CheckOutcome:
        warnings.warn(f"{_format_call(self.form, values)} decided nothing ({reason}): a model judges", stacklevel=1)
        return CheckOutcome(None, reason)


def load_checks(checks: Checks) -> tuple[Check, ...]:
    """Bring checks into one form.

    Raises:
        TypeError: the checks are not a dict, a form is not a text or regular expression, or a check is not a function.
        ValueError: a form has no words or wrong names, or the function does not take the values of the form.
    """
    if not isinstance(checks, Mapping):
        example = '{"Order {order} is refunded.": is_refunded}'
        raise TypeError(f"checks={checks!r:.100}: give a dict of functions by the form of their conditions: {example}")
    return tuple(_load_check(form, function) for form, function in checks.items())


def _load_check(form: Any, function: Any) -> Check:
    if not callable(function) or isinstance(function, type):
        raise TypeError(f"checks[{form!r:.100}] is {function!r:.100}: give a function that returns True or False")
    if isinstance(form, str):
        names, patterns = _read_template(form)
    elif isinstance(form, re.Pattern) and isinstance(form.pattern, str):
        names, patterns = list(form.groupindex), (form,)
    else:
        raise TypeError(f"{form!r:.100} is not a form of conditions: give a template, or a compiled pattern of text")
    if CALLS_PARAMETER in names:
        raise ValueError(f"checks[{form!r:.100}]: {{calls}} is taken by the calls that were made; use another name")
    try:
        signature = inspect.signature(function, eval_str=True)
        signature.bind(**dict.fromkeys({*names, *({CALLS_PARAMETER, "evidence"} & set(signature.parameters))}))
        converters = {
            name: TypeAdapter(parameter.annotation)
            for name, parameter in signature.parameters.items()
            if name in names and parameter.annotation not in (parameter.empty, str)
        }
    except (TypeError, ValueError, NameError, PydanticUserError) as error:
        described = getattr(function, "__name__", function)
        raise ValueError(
            f"checks[{form!r:.100}] cannot call {described} ({error!s:.200}): rename its parameters"
        ) from None
    if "evidence" in signature.parameters and "evidence" not in names:
        fix = f"take `calls` in its place, the calls that were made, as in {CALLS_EXAMPLE}"
        raise ValueError(f"checks[{form!r:.100}] has a parameter `evidence`, which checks do not get: {fix}")
    required = {name for name, one in signature.parameters.items() if name in names and one.default is one.empty}
    shown = form if isinstance(form, str) else form.pattern
    return Check(shown, patterns, function, converters, frozenset(required), CALLS_PARAMETER in signature.parameters)


def _read_template(form: str) -> tuple[list[str], tuple[re.Pattern[str], ...]]:
    try:
        parts = list(Formatter().parse(_trim(form)))
    except ValueError as error:
        raise ValueError(f"checks[{form!r:.100}] is not a template ({error}): write values as {{name}}") from None
    names = [name for _, name, _, _ in parts if name is not None]
    wrong = [name for _, name, spec, conversion in parts if name is not None and not _is_name(name, spec, conversion)]
    if wrong or len(set(names)) < len(names):
        raise ValueError(f"checks[{form!r:.100}]: write each value once, as a name in braces such as {{order}}")
    if not any(character.isalnum() for literal, *_ in parts for character in literal):
        raise ValueError(f"checks[{form!r:.100}] would match every condition: add the words around the values")
    return names, tuple(
        re.compile(
            "".join(_literal(text) + (f"(?P<{name}>{value})" if name else "") for text, name, _, _ in parts), FLAGS
        )
        for value in (".+?", ".+")
    )


FLAGS = re.IGNORECASE | re.DOTALL


def _is_name(name: str, spec: str | None, conversion: str | None) -> bool:
    return name.isidentifier() and not spec and not conversion


def _literal(text: str) -> str:
    return r"\s+".join(map(re.escape, re.split(r"\s+", text)))


def _trim(text: str) -> str:
    return text.strip().rstrip(".").rstrip()


def _unquote(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 2 and value[0] == value[-1] and value[0] in "'\"`" else value


async def call_own_function(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function of the user's, plain or async; a plain one never blocks the event loop."""
    if is_async_callable(function):
        return await function(*args, **kwargs)
    found = await run_in_lone_thread(function, *args, **kwargs)
    return await found if inspect.isawaitable(found) else found


def show_text(text: str) -> str:
    """Return what a function of the user's answered, or the error that it raised, on one line and without secrets."""
    return redact_message(bound_text(one_line(text)))


def _format_call(form: str, values: Mapping[str, Any]) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in values.items())
    return f"the check for {form!r}" + (f" with {given}" if given else "")


async def check_condition(
    checks: Sequence[Check], condition: Predicate, calls: tuple[AnsweredCall, ...], deadline: float
) -> CheckOutcome | None:
    """Return what the checks find for a condition; None if no check has its form.

    All checks of that form have to agree that it holds. That the goal holds is not left to a check, because an answer
    belongs to it as well.
    """
    if condition.kind not in ("condition", "goal"):
        return None
    outcomes = [
        await check.run(values, calls, deadline)
        for check in checks
        if (values := check.match(condition.text)) is not None
    ]
    if refuted := [outcome for outcome in outcomes if outcome.holds is False]:
        return refuted[0]
    if not outcomes or condition.kind == "goal":
        return None
    return next((outcome for outcome in outcomes if outcome.holds is None), outcomes[0])


def find_unfilled(checks: Iterable[Check], text: str) -> list[str]:
    """Return the names that a condition has in braces, in place of values, as it stands in the form of a check."""
    return list(dict.fromkeys(name for check in checks for name in check.unfilled_names(text)))


def warn_of_unused(checks: Sequence[Check], conditions: Iterable[Predicate]) -> None:
    """Warn of checks whose form none of a run's conditions has; a run without conditions shows nothing about them."""
    texts = {condition.text for condition in conditions if condition.kind == "condition"}
    for check in checks if texts else ():
        if all(check.match(text) is None for text in texts):
            fix = "compare it with the texts in state['certificates']"
            warnings.warn(
                f"the check for {check.form!r} was not used: no condition of this run has its form; {fix}", stacklevel=1
            )


__all__ = [
    "Check",
    "CheckFunction",
    "CheckOutcome",
    "Checks",
    "ConditionForm",
    "call_own_function",
    "check_condition",
    "find_unfilled",
    "load_checks",
    "show_text",
    "warn_of_unused",
]
