"""The mind behind `scripted:expert` in BlocksWorld: it reads the prompts of SDP's generic operators and answers right.

It knows nothing but the prompt's text, so that what the operators show and how worlds word it are exercised too.
"""

import re
from collections.abc import Sequence
from typing import Any

from certigraph.adapters.blocksworld.expert import plan
from certigraph.adapters.blocksworld.strips import Fact, Move, State, apply, schema, unmet
from certigraph.adapters.blocksworld.wording import (
    fact_text,
    list_facts,
    move_text,
    parse_action,
    parse_facts,
    parse_goal,
    parse_observed,
)

TARGET = re.compile(r"Condition to make true next: (.+)")
START = re.compile(r"At the start, ([^.]+)\.")
CONDITION = re.compile(r"^\d+\. (.+)$", re.MULTILINE)


def respond(prompt: str, form: dict[str, Any]) -> dict[str, Any]:
    """The right answer to a question of Propose, Realize, Validate or Replan, told apart by the answer's schema."""
    fields = set(form["properties"])
    if "conditions" in fields:
        return {"conditions": _conditions(prompt)}
    if "holds" in fields:
        return {"reason": "read off the observation", "holds": _held(prompt)}
    (field,) = fields
    return {field: move_text(_next_move(prompt, form["properties"][field].get("enum", ())))}


def _conditions(prompt: str) -> list[str]:
    """One condition a move, what the move brings about; the goal in place of the last."""
    goal = parse_goal(prompt)
    moves = plan(_state(prompt), goal)
    return [*(fact_text(schema(move).adds[0]) for move in moves[:-1]), list_facts(goal)]


def _held(prompt: str) -> int:
    state, held = _state(prompt), 0
    for text in CONDITION.findall(prompt.rpartition("Conditions, in order:")[2]):
        if not parse_facts(text) <= state:
            break
        held += 1
    return held


def _next_move(prompt: str, listed: Sequence[str]) -> Move:
    """The move that makes the target true at once, else the first of a plan that gets there."""
    state, target = _state(prompt), parse_facts(TARGET.findall(prompt)[-1])
    moves = [move for text in listed if (move := parse_action(text)) and not unmet(state, move)]
    at_once = (move for move in moves if target <= apply(state, move))
    return next(at_once, None) or (plan(state, target) or moves)[0]


def _state(prompt: str) -> State:
    """The state last observed; before any observation, the one the task starts from."""
    return parse_observed(prompt) or _start(prompt)


def _start(prompt: str) -> State:
    found: frozenset[Fact] = parse_facts(START.findall(prompt)[0])
    return found
