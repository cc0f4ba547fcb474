"""The mind behind `scripted:expert` in BlocksWorld: it reads the prompts of SDP's generic operators and answers right.

It knows nothing but the prompt's text, so that what the operators show and how worlds word it are exercised too. It
goes on from whatever state is shown, however that came about; a condition in other words than the world's is false,
and any legal move is as good for it as any other.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from certigraph.adapters.blocksworld.expert import plan
from certigraph.adapters.blocksworld.strips import Fact, Move, State, applicable, apply, schema, unmet
from certigraph.adapters.blocksworld.wording import (
    fact_text,
    list_facts,
    move_text,
    parse_action,
    parse_facts,
    parse_goal,
    parse_observed,
)

TARGET = re.compile(r"(?:Condition to make true next|Assignment|Subtask): (.+)")
START = re.compile(r"At the start, ([^.]+)\.")
CONDITION = re.compile(r"^\d+\. (.+)$", re.MULTILINE)

Answer = dict[str, Any]


def respond(prompt: str, form: dict[str, Any]) -> Any:
    """The right answer to a question of any graph's operators, told apart by the answer's schema."""
    fields = frozenset(form.get("properties", ()))
    if not fields:
        return "Nothing to add."
    if fields == {"choice"} or "thought" in fields:
        return _choice(prompt, form["properties"])
    return next(answer(prompt) for name, answer in _ANSWERS.items() if name in fields)


def _choice(prompt: str, parts: dict[str, Any]) -> Answer:
    field = "choice" if "choice" in parts else "action"
    move = move_text(_next_move(prompt, parts[field].get("enum", ())))
    return {"thought": "it leads to the goal", field: move} if "thought" in parts else {field: move}


def _plan(prompt: str) -> Answer:
    return {"conditions": _conditions(prompt)}


def _verdict(prompt: str) -> Answer:
    return {"reason": "read off the observation", "holds": _held(prompt)}


def _subtask(prompt: str) -> Answer:
    moves = plan(_state(prompt), parse_goal(prompt))
    text = fact_text(schema(moves[0]).adds[0]) if moves else list_facts(parse_goal(prompt))
    return {"rationale": "it comes next", "subtask": text, "insights": []}


def _completion(prompt: str) -> Answer:
    return {"reason": "read off the world", "completed": _holds(TARGET.findall(prompt)[-1], _state(prompt))}


_ANSWERS: dict[str, Callable[[str], Answer]] = {
    "conditions": _plan,
    "holds": _verdict,
    "subtask": _subtask,
    "completed": _completion,
    "steps": lambda prompt: {"steps": [move_text(move) for move in plan(_state(prompt), parse_goal(prompt))][:12]},
    "forbidden": lambda prompt: {"reason": "no rule speaks of it", "forbidden": False},
    "insights": lambda prompt: {"insights": []},
    "subtasks": lambda prompt: {"subtasks": []},
    "action": lambda prompt: {"action": move_text(_next_move(prompt, ()))},
}


def _conditions(prompt: str) -> list[str]:
    """One condition a move, what the move brings about; the goal in place of the last."""
    goal = parse_goal(prompt)
    moves = plan(_state(prompt), goal)
    return [*(fact_text(schema(move).adds[0]) for move in moves[:-1]), list_facts(goal)]


def _held(prompt: str) -> int:
    state, held = _state(prompt), 0
    for text in CONDITION.findall(prompt.rpartition("Conditions, in order:")[2]):
        if not _holds(text, state):
            break
        held += 1
    return held


def _holds(text: str, state: State) -> bool:
    facts = parse_facts(text)
    return bool(facts) and facts <= state


def _next_move(prompt: str, listed: Sequence[str]) -> Move:
    """The move that makes the target true at once, else the first of a plan that gets there."""
    state = _state(prompt)
    wanted = TARGET.findall(prompt)[-1]
    target = parse_goal(wanted) or parse_facts(wanted)
    moves = [move for text in listed if (move := parse_action(text)) and not unmet(state, move)]
    at_once = (move for move in moves if target <= apply(state, move))
    return next(at_once, None) or (plan(state, target) or moves or applicable(state))[0]


def _state(prompt: str) -> State:
    """The state last observed; before any observation, the one the task starts from."""
    return parse_observed(prompt) or _start(prompt)


def _start(prompt: str) -> State:
    found: frozenset[Fact] = parse_facts(START.findall(prompt)[0])
    return found
