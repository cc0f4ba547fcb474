"""Rules: the user's functions that decide whether a call of a tool may be made, so that no model has to be trusted.

A rule belongs to a tool. It gets the call and the facts, and answers `Allow`, `Forbidden`, `Unknown`, or None where it
has nothing to say. Facts are what tools answered so far, under the names that the user declared; they are computed
from the records of calls alone, so that a resumed or replayed run finds the same.
"""

import asyncio
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from langgraph.errors import GraphBubbleUp
from pydantic import JsonValue

from certigraph.adapters.imports import import_named
from certigraph.adapters.json_lines import parse_json
from certigraph.adapters.processes import find_call_problem, is_async_callable, run_in_lone_thread
from certigraph.adapters.tools.checks import call_own_function, show_text
from certigraph.adapters.tools.definitions import LoadedTool
from certigraph.adapters.tools.world import Tools
from certigraph.state.endings import Fault, Stopped
from certigraph.state.run import AnsweredCall
from certigraph.state.tools import ToolCall


@dataclass(frozen=True)
class Allow:
    """A rule's answer: the call may be made."""


@dataclass(frozen=True)
class Forbidden:
    """A rule's answer: the call must not be made."""

    sentence: str
    """The rule in words, for the agent and for whoever reads the record."""
    fact: str = ""
    """The fact that the rule is about."""
    next: str = ""
    """What to do instead."""


@dataclass(frozen=True)
class Unknown:
    """A rule's answer: nobody can know before something was looked up."""

    read: str | Sequence[str]
    """The tool, or the tools, that know it."""


Decision: TypeAlias = Allow | Forbidden | Unknown

Facts: TypeAlias = dict[str, Any]
"""What tools answered, by name: `facts["orders"]["17"]` for the declaration `orders[order_id]`."""

Rule: TypeAlias = Callable[[ToolCall, Facts], Any]
"""A function, plain or async, of the call (with `name` and `args`) and the facts."""

Rules: TypeAlias = Mapping[str, Rule | str | Sequence[Rule | str]]
"""Rules by tool, one or several. A text names a function that is imported, as `module:function`."""

FactForms: TypeAlias = Mapping[str, str]
"""By tool, under which name its answer stands: `"orders[order_id]"`, or a name alone."""

Correction: TypeAlias = Callable[[Facts, ToolCall, Any], object]

Corrections: TypeAlias = Mapping[str, Correction | str]
"""By tool, a plain function of the facts, the call and its answer that changes the facts in place, where an answer does
not say all, or makes earlier answers untrue."""

FACT_FORM = re.compile(r"([^\W\d]\w*)((?:\[[^\W\d]\w*\])*)")


class FactForm(NamedTuple):
    """Under which name an answer stands, and by the values of which arguments."""

    name: str
    arguments: tuple[str, ...] = ()

    def put(self, facts: Facts, args: Mapping[str, JsonValue], answer: Any) -> None:
        """Put an answer into the facts; it takes the place of an earlier one under the same values."""
        keys: list[Any] = [self.name, *(_to_key(args.get(argument)) for argument in self.arguments)]
        place = facts
        for key in keys[:-1]:
            place = place.setdefault(key, {})
        place[keys[-1]] = answer


def _to_key(value: JsonValue) -> Any:
    # a list or an object as an argument is no key of a dict
    return repr(value) if isinstance(value, list | dict) else value


def parse_fact_form(text: str) -> FactForm:
    """Parse `name`, `name[argument]` or `name[argument][argument]`.

    Raises:
        ValueError: the text has another form.
    """
    found = FACT_FORM.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r:.100} is not a name of facts: write one such as 'orders[order_id]' or 'policy'")
    return FactForm(found[1], tuple(re.findall(r"\w+", found[2])))


class RuleOutcome(NamedTuple):
    """What the rules of a tool say about a call."""

    decision: Decision | None = None
    """None if they have nothing to say."""
    broken: str = ""
    """Why a rule decided nothing, if one failed."""


@dataclass
class Known:
    """The facts, as far as they could be read."""

    facts: Facts = field(default_factory=dict)
    broken: str = ""
    """Why a part of them is missing, if a form or a correction failed."""


@dataclass(frozen=True)
class CallRules:
    """The user's rules, and the declarations from which their facts are computed."""

    rules: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)
    forms: Mapping[str, FactForm] = field(default_factory=dict)
    corrections: Mapping[str, Correction] = field(default_factory=dict)

    def check_tools(self, world: Tools) -> None:
        """Check that every declaration is about a tool whose calls it meets, and about arguments that the tool has.

        Raises:
            ValueError: one is not.
        """
        for keyword, declared in (("rules", self.rules), ("facts", self.forms), ("after", self.corrections)):
            if unknown := [name for name in declared if name not in world.loaded]:
                known = ", ".join(world.loaded)
                raise ValueError(f"{keyword} names {unknown[0]!r}, which is not a tool; the tools are {known}")
        if unchecked := [name for name in self.rules if world.is_look_up(name)]:
            reason = "which may be repeated and changes nothing, so that its calls are not checked"
            raise ValueError(f"rules names {unchecked[0]!r}, {reason}: leave the rule out")
        for name, form in self.forms.items():
            arguments = world.loaded[name].parameters.get("properties", {})
            if strange := [one for one in form.arguments if one not in arguments]:
                known = ", ".join(arguments) or "none"
                raise ValueError(f"facts[{name!r}] names {strange[0]!r}; the arguments of {name} are {known}")

    def read_facts(
        self, calls: Sequence[AnsweredCall], loaded: Mapping[str, LoadedTool] | None = None, so_far: Known | None = None
    ) -> Known:
        """Return the facts after calls, in their order. Calls that failed or were not made say nothing.

        An answer that is JSON stands as its value, any other one as its text. A form or a correction that raises is
        passed over.

        Args:
            calls: the calls with their answers.
            loaded: the tools by name, which say with what arguments they were called.
            so_far: filled with the facts while they are read, for whoever gives up waiting.
        """
        known = Known() if so_far is None else so_far
        for one in calls:
            form, correct = self.forms.get(one.tool), self.corrections.get(one.tool)
            if not one.made or one.failed or (form is None and correct is None):
                continue
            at_work = "facts"
            try:
                call = _as_received(ToolCall(name=one.tool, args=one.args), loaded)
                if form and one.answer:  # the answer of another sub-task's call is not known here
                    form.put(known.facts, call.args, _parse_answer(one.answer))
                at_work = "after"
                if correct:
                    correct(known.facts, call, _parse_answer(one.answer))
            except (GraphBubbleUp, Stopped):
                raise
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything; rules read what there is
                known.broken = known.broken or f"{at_work}[{one.tool!r}]: {_describe_error(error)}"
        return known

    async def decide(
        self,
        calls: Sequence[ToolCall],
        answered: Sequence[AnsweredCall],
        deadline: float,
        loaded: Mapping[str, LoadedTool] | None = None,
    ) -> list[RuleOutcome]:
        """Return what the rules say about each of some calls: `Forbidden` before `Unknown` before `Allow`.

        Rules and facts are about the arguments that the tools get, which may be others than those that were chosen.

        A rule that raises decides nothing, with a warning, and then no other rule allows the call either. Nor does any
        rule where a part of the facts is missing, because a form or a correction raised; what it forbids is forbidden.

        Args:
            calls: the calls.
            answered: the calls so far, in order, with their answers.
            deadline: seconds after which a rule is given up.
            loaded: the tools by name.

        Raises:
            Fault: ("operator") a rule returned something else than it should.
        """
        if not any(call.name in self.rules for call in calls):
            return [RuleOutcome() for _ in calls]
        known = Known()
        try:
            await asyncio.wait_for(run_in_lone_thread(self.read_facts, answered, loaded, known), deadline)
        except TimeoutError:
            known = Known(known.facts, f"{deadline:g} seconds passed")
        if known.broken:
            follows = "rules may forbid a call, and none allows it"
            warnings.warn(f"the facts of the rules are incomplete ({known.broken}): {follows}", stacklevel=2)
        return [await self._decide_one(call, known, deadline, loaded) for call in calls]

    async def _decide_one(
        self, call: ToolCall, known: Known, deadline: float, loaded: Mapping[str, LoadedTool] | None
    ) -> RuleOutcome:
        rules, found = self.rules.get(call.name, ()), list[Decision]()
        broken = known.broken if rules else ""
        for rule in rules:
            try:
                given = _as_received(call, loaded), deepcopy(known.facts)
                answer = await asyncio.wait_for(call_own_function(rule, *given), deadline)
            except (GraphBubbleUp, Stopped):
                raise
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything; a model then judges
                timed_out = isinstance(error, TimeoutError) and not str(error)
                broken = f"{deadline:g} seconds passed" if timed_out else _describe_error(error)
                warnings.warn(f"a rule for {call} decided nothing ({broken}): a model judges", stacklevel=2)
                continue
            if not isinstance(answer, Allow | Forbidden | Unknown | None):
                forms = "Allow(), Forbidden('why'), Unknown(read='tool') or None"
                raise Fault("operator", f"the rule for {call.name!r} returned {answer!r:.100}: return {forms}")
            found += [answer] if answer is not None else []
        if forbidden := [one for one in found if isinstance(one, Forbidden)]:
            return RuleOutcome(forbidden[0])
        if unknown := [name for one in found if isinstance(one, Unknown) for name in tools_to_read(one)]:
            return RuleOutcome(Unknown(read=tuple(dict.fromkeys(unknown))))
        return RuleOutcome(Allow() if found and not broken else None, broken)


def tools_to_read(unknown: Unknown) -> tuple[str, ...]:
    """Return the tools that a rule wants to be called first."""
    return (unknown.read,) if isinstance(unknown.read, str) else tuple(map(str, unknown.read))


def _as_received(call: ToolCall, loaded: Mapping[str, LoadedTool] | None) -> ToolCall:
    """Return a copy of a call with the arguments that its tool gets."""
    tool = (loaded or {}).get(call.name)
    return call.model_copy(update={"args": tool.received(call.args) if tool else call.args}).model_copy(deep=True)


def _describe_error(error: Exception) -> str:
    return show_text(f"{type(error).__name__}: {error}")


def _parse_answer(text: str) -> Any:
    note, _, rest = text.partition("\n")
    # an answer may follow a note, such as that a person changed the call
    for part in (text, rest) if note.startswith("(") and note.endswith(")") else (text,):
        with suppress(ValueError):
            return parse_json(part)
    return text


def load_rules(rules: Rules, facts: FactForms, after: Corrections) -> CallRules:
    """Bring the user's declarations into one form.

    Raises:
        TypeError: one of them is not a dict, or holds something else than a function or a text where it should.
        ValueError: a name of facts has another form, or a function does not take what it gets.
    """
    for keyword, given in (("rules", rules), ("facts", facts), ("after", after)):
        if not isinstance(given, Mapping):
            raise TypeError(f"{keyword}={given!r:.100}: give a dict by names of tools, such as {EXAMPLES[keyword]}")
    loaded = {name: tuple(_load_rule(name, one) for one in _to_list(given)) for name, given in rules.items()}
    forms = dict[str, FactForm]()
    for name, form in facts.items():
        if not isinstance(form, str):
            fix = "give a text such as 'orders[order_id]', and functions in after="
            raise TypeError(f"facts[{name!r}] is {form!r:.100}: {fix}")
        forms[name] = parse_fact_form(form)
    _check_fact_names(forms)
    return CallRules(loaded, forms, {name: _load_correction(name, one) for name, one in after.items()})


EXAMPLES = {
    "rules": '{"refund_order": may_be_refunded}',
    "facts": '{"get_order": "orders[order_id]"}',
    "after": '{"update_order": note_update}',
}
"""An example of each declaration, for error messages."""


def _check_fact_names(forms: Mapping[str, FactForm]) -> None:
    counts: dict[str, int] = {}
    for tool, form in forms.items():
        count = counts.setdefault(form.name, len(form.arguments))
        if count != len(form.arguments):
            reason = f"{form.name} has {count} arguments in brackets elsewhere and {len(form.arguments)} here"
            raise ValueError(f"facts[{tool!r}]: {reason}; give one of them another name")


def _to_list(given: Any) -> Sequence[Any]:
    return given if isinstance(given, list | tuple) else [given]


def _load_rule(tool: str, given: Any) -> Rule:
    return _load_function(f"rules[{tool!r}]", given, 2, "def rule(call, facts)")


def _load_correction(tool: str, given: Any) -> Correction:
    where = f"after[{tool!r}]"
    function: Callable[..., object] = _load_function(where, given, 3, "def correct(facts, call, answer)")
    if is_async_callable(function):
        raise TypeError(f"{where} is async: give a plain function, `def` without `async`")
    return function


def _load_function(where: str, given: Any, count: int, form: str) -> Callable[..., Any]:
    function: Any = import_named(given, "rule") if isinstance(given, str) and ":" in given else given
    if not callable(function) or isinstance(function, type):
        raise TypeError(f"{where} is {given!r:.100}: give a function, {form}")
    if problem := find_call_problem(function, *[None] * count):
        raise ValueError(f"{where} cannot be called ({problem}): write {form}")
    loaded: Callable[..., Any] = function
    return loaded


__all__ = [
    "Allow",
    "CallRules",
    "Corrections",
    "Decision",
    "FactForm",
    "FactForms",
    "Facts",
    "Forbidden",
    "Rule",
    "RuleOutcome",
    "Rules",
    "Unknown",
    "load_rules",
    "parse_fact_form",
    "tools_to_read",
]
