"""How a right answer is spoiled: each field by its kind, told by its name and schema; it still fits its form.

In research steps are proposed, and whether a finding is adequate is a verdict. What is looked up, what is found and the
final answer stay right: `act` spoils nothing there (but the actions of ReAct), and `accept` meets no wrong finding.
"""

from random import Random
from typing import Any

from pydantic import Field

from certigraph.adapters.models.schemas import Schema
from certigraph.state.records import Record

PROPOSED = frozenset({"conditions", "steps", "subtask"})
"""Fields of answers that propose."""

CHOSEN = frozenset({"choice", "action"})
"""Fields of answers that act."""

MOST = 1_000
"""Proposals at most, where a form sets no limit."""

COUNTED = "holds"
"""The field of a verdict on several conditions: how many hold, from the first on."""

UNDONE = "undone"
"""The field of a verdict on conditions that held once: the numbers of those that do not hold any more."""

IMPOSSIBLE = "Something that no action brings about"
"""How a wrong proposal begins. It is in no world's words, so that experts and validators take it for false."""

GOAL = "goal"
"""The field of a step's text, where steps are objects."""

AGAIN = " (again)"
"""How the second of two equal conditions ends; plans merge equal texts."""

SLIP = "fumble"
"""A wrong action where actions are written freely: every world refuses it and stays as it was."""


class Errors(Record):
    """How often a simulated agent errs, each a probability for one condition, one action or one verdict.

    Where one verdict names those of several conditions that do not hold any more (revalidation), `accept` is drawn for
    each such condition, which is then not named. `reject` is drawn once for the verdict, which then also names one of
    the conditions that hold, chosen at random: of n of them, each is named wrongly at the rate `reject` / n.
    """

    propose: float = Field(0.1, ge=0, le=1, description="a proposed condition, step or subtask is an impossible one")
    split: float = Field(0.0, ge=0, le=1, description="a proposed condition comes twice: the plan is cut too finely")
    act: float = Field(0.2, ge=0, le=1, description="an action is another option, or a slip where it is written")
    accept: float = Field(0.1, ge=0, le=1, description="the validator accepts a condition that does not hold")
    reject: float = Field(0.1, ge=0, le=1, description="the validator rejects conditions that hold")
    seed: int = Field(0, description="another seed draws other errors at the same rates")


def is_impossible(text: str) -> bool:
    """Whether a condition is a wrong proposal of the simulated agent."""
    return text.startswith(IMPOSSIBLE)


def spoiled(answer: Any, schema: Schema, errors: Errors, draw: Random, *, goal: str = "", target: str = "") -> Any:
    """The answer as an agent gives it that errs at these rates.

    Args:
        answer: the right one; what is no object (prose) is left as it is, as are fields of other kinds.
        schema: its JSON schema.
        errors: the rates.
        draw: where chance comes from.
        goal: the condition that comes with the task and is not proposed: it is never exchanged.
        target: what the agent is to bring about; where that is impossible, it does anything.
    """
    if not isinstance(answer, dict):
        return answer
    parts = schema.get("properties", {})
    lost = is_impossible(target)
    return {
        name: _field(name, value, parts.get(name, {}), errors, draw, goal=goal, lost=lost)
        for name, value in answer.items()
    }


def _field(name: str, value: Any, form: Schema, errors: Errors, draw: Random, *, goal: str, lost: bool) -> Any:
    if name in PROPOSED:
        return _proposed(value, form.get("maxItems", MOST), errors, draw, goal)
    if name in CHOSEN:
        return _chosen(value, form.get("enum"), 1.0 if lost else errors.act, draw, anything=lost)
    if name == COUNTED:
        return _counted(value, form.get("maximum", value), errors, draw)
    if name == UNDONE:
        return _undone(value, form.get("items", {}).get("maximum", 0), errors, draw)
    if isinstance(value, bool):
        return value != (draw.random() < (errors.reject if value else errors.accept))
    return value


def _proposed(value: Any, most: int, errors: Errors, draw: Random, goal: str) -> Any:
    if not isinstance(value, list):
        return _condition(value, 1, errors.propose, draw, goal)
    parts = [part for one in value for part in _cut(one, errors.split, draw, goal)][:most]
    return [_with(one, _condition(_text(one), n, errors.propose, draw, goal)) for n, one in enumerate(parts, 1)]


def _text(one: Any) -> str:
    return str(one[GOAL]) if isinstance(one, dict) else str(one)


def _with(one: Any, text: str) -> Any:
    return {**one, GOAL: text} if isinstance(one, dict) else text


def _cut(one: Any, rate: float, draw: Random, goal: str) -> list[Any]:
    text = _text(one)
    twice = rate > 0 and text != goal and draw.random() < rate
    return [one, _with(one, text + AGAIN)] if twice else [one]


def _condition(text: str, number: int, rate: float, draw: Random, goal: str) -> str:
    # Numbered, because equal conditions are merged where plans are read.
    wrong = text != goal and draw.random() < rate
    return f"{IMPOSSIBLE} ({number})." if wrong else text


def _chosen(value: str, options: list[str] | None, rate: float, draw: Random, *, anything: bool) -> str:
    if draw.random() >= rate:
        return value
    if options is None:
        return SLIP
    others = [option for option in options if anything or option != value]
    return draw.choice(others) if others else value


def _counted(held: int, most: int, errors: Errors, draw: Random) -> int:
    """None of those that hold, or, each accepted after the one before it, some that do not."""
    if held and draw.random() < errors.reject:
        return 0
    while held < most and draw.random() < errors.accept:
        held += 1
    return held


def _undone(found: list[int], most: int, errors: Errors, draw: Random) -> list[int]:
    """Without those that are accepted although they do not hold, and with one that holds where the verdict rejects."""
    kept = [number for number in found if draw.random() >= errors.accept]
    held = [number for number in range(1, most + 1) if number not in found]
    wrong = [draw.choice(held)] if held and draw.random() < errors.reject else []
    return sorted([*kept, *wrong])
