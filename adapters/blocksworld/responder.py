"""The mind behind `scripted:expert` in BlocksWorld: it reads the prompts of the generic operators and answers right.

It knows nothing but the prompt's text, so that what the operators show and how worlds word it are exercised too. It
goes on from whatever state is shown, however that came about; a condition in other words than the world's is false,
and any legal move is as good for it as any other.
"""

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

from certigraph.adapters.blocksworld.expert import plan
from certigraph.adapters.blocksworld.reading import conditions_in, considered_in, goal_in, holds, state_in, target_in
from certigraph.adapters.blocksworld.strips import Move, State, applicable, apply, ontable, schema, supports, unmet
from certigraph.adapters.blocksworld.wording import describe, fact_text, list_facts, move_text, parse_action
from certigraph.adapters.protocols import LEAST_NODES

Answer = dict[str, Any]


def respond(prompt: str, form: dict[str, Any]) -> Any:
    """The right answer to a question of any graph's operators, told apart by the answer's schema."""
    fields = frozenset(form.get("properties", ()))
    if not fields:
        return "Nothing to add."
    if "nodes" in fields:
        return _decomposition(prompt, form["properties"]["nodes"].get("maxItems", LEAST_NODES))
    if fields == {"actions"}:
        return {"actions": _proposals(prompt, form["properties"]["actions"])}
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
    state = state_in(prompt)
    held = takewhile(lambda wanted: holds(wanted, state), conditions_in(prompt))
    return {"reason": "read off the observation", "holds": len(list(held))}


def _decomposition(prompt: str, most: int) -> Answer:
    """A chain of what the goal wants, in the order in which it comes true, the whole goal last.

    Where a tower stands is said too: whoever builds it knows no other sub-task, and would build on what has to move.
    """
    state, goal = state_in(prompt), goal_in(prompt)
    moves = plan(state, goal)
    end = state
    for move in moves:
        end = end if unmet(end, move) else apply(end, move)  # of a view that was cut, a plan need not be possible
    grounds = {ontable(base) for base in supports(goal).values()} & end
    facts = [fact for move in moves for fact in schema(move).adds if fact in goal or fact in grounds]
    size = -(-len(facts) // most) or 1
    texts = [list_facts(facts[place : place + size]) for place in range(0, len(facts), size)][:-1]
    chain = enumerate([*texts, list_facts(goal)], 1)
    return {"nodes": [{"id": f"n{n}", "task": text, "needs": [f"n{n - 1}"] * (n > 1)} for n, text in chain]}


def _outline(prompt: str) -> Answer:
    moves = plan(state_in(prompt), goal_in(prompt))
    return {"steps": [move_text(move) for move in moves] or ["any move: nothing is left to do"]}


def _progress(prompt: str) -> Answer:
    status = "completed" if holds(target_in(prompt), state_in(prompt)) else "needs_more_steps"
    return {"reason": "read off the world", "status": status, "off_plan": False, "guidance": "", "result": status}


def _subtask(prompt: str) -> Answer:
    moves = plan(state_in(prompt), goal_in(prompt))
    text = fact_text(schema(moves[0]).adds[0]) if moves else list_facts(goal_in(prompt))
    return {"rationale": "it comes next", "subtask": text, "insights": []}


def _completion(prompt: str) -> Answer:
    return {"reason": "read off the world", "completed": holds(target_in(prompt), state_in(prompt))}


def _goal_check(prompt: str) -> Answer:
    return {"reason": "read off the world", "reached": holds(goal_in(prompt), state_in(prompt))}


def _undone(prompt: str) -> Answer:
    """What the goal wants of the conditions and the world has no longer; all others were steps on the way."""
    state, goal = state_in(prompt), goal_in(prompt)
    conditions = enumerate(conditions_in(prompt), 1)
    undone = [n for n, wanted in conditions if wanted and wanted <= goal and not holds(wanted, state)]
    return {"reason": "read off the world", "undone": undone}


_ANSWERS: dict[str, Callable[[str], Answer]] = {
    "conditions": _plan,
    "holds": _verdict,
    "reached": _goal_check,
    "undone": _undone,
    "subtask": _subtask,
    "completed": _completion,
    "steps": _outline,
    "status": _progress,
    "change": lambda prompt: {"reason": "all is as it was", "change": [], "add": [], "remove": []},
    "forbidden": lambda prompt: {"reason": "no rule speaks of it", "forbidden": False},
    "outcomes": lambda prompt: {"outcomes": [_outcome(state_in(prompt), text) for text in considered_in(prompt)]},
    "insights": lambda prompt: {"insights": []},
    "subtasks": lambda prompt: {"subtasks": []},
    "action": lambda prompt: {"action": move_text(_next_move(prompt, ()))},
}


def _conditions(prompt: str) -> list[str]:
    """One condition a move, what the move brings about; the goal in place of the last.

    The goal alone where the prompt tells no state: that of a sub-task names what is wanted and not where it starts.
    """
    goal, state = goal_in(prompt), state_in(prompt)
    moves = plan(state, goal) if state else []
    return [*(fact_text(schema(move).adds[0]) for move in moves[:-1]), list_facts(goal)]


def _next_move(prompt: str, listed: Sequence[str]) -> Move:
    """The move that makes the target true at once, else the first of a plan that gets there."""
    state, target = state_in(prompt), target_in(prompt)
    moves = [move for text in listed if (move := parse_action(text)) and not unmet(state, move)]
    at_once = (move for move in moves if target <= apply(state, move))
    first = [move for move in plan(state, target)[:1] if not moves or move in moves]
    return next(at_once, None) or (first or moves or applicable(state))[0]


def _proposals(prompt: str, part: dict[str, Any]) -> list[str]:
    """The next move, then any others, as many as are asked for."""
    listed = part["items"].get("enum", ())
    best = _next_move(prompt, listed)
    others = [move_text(move) for move in applicable(state_in(prompt)) if move != best]
    return [move_text(best), *(text for text in others if not listed or text in listed)][: part["maxItems"]]


def _outcome(state: State, text: str) -> str:
    move = parse_action(text)
    return describe(apply(state, move)) if move and not unmet(state, move) else "Nothing happens."
