"""BlocksWorld's planner and scripted expert."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import Any

from certigraph.adapters.blocksworld.domain import (
    Fact,
    Move,
    State,
    applicable,
    apply,
    bottom_up,
    describe,
    fact_text,
    list_facts,
    move_text,
    ontable,
    parse_action,
    parse_facts,
    parse_goal,
    parse_observed,
    possible,
    schema,
    slots,
    supports,
    unmet,
)
from certigraph.adapters.protocols import LEAST_NODES
from certigraph.state.records import Fault

# Experts that always know what to do: breadth-first search for few blocks, a linear plan for many.

SEARCHABLE = 5
"""Blocks up to which `plan` is optimal. Every further block multiplies the states by about eight."""


def plan(state: State, goal: Iterable[Fact]) -> list[Move]:
    """Moves that make every goal fact hold; optimal up to SEARCHABLE blocks, at most about four moves a block above.

    Args:
        state: A complete state.
        goal: Any facts, not only `on`; what they leave open is left as it is where possible.

    Raises:
        Fault: ("data") when no state satisfies the goal, or it names blocks that the state lacks.
    """
    return (shortest_plan if len(_blocks(state)) <= SEARCHABLE else linear_plan)(state, goal)


def shortest_plan(state: State, goal: Iterable[Fact]) -> list[Move]:
    """A plan of least length, by breadth-first search over all states. Raises as `plan` does."""
    wanted = _checked(state, goal)
    came_from: dict[State, tuple[State, Move] | None] = {state: None}
    queue = deque([state])
    while not wanted <= (here := queue.popleft()):
        for move in applicable(here):
            if (there := apply(here, move)) not in came_from:
                came_from[there] = (here, move)
                queue.append(there)
    moves = []
    while step := came_from[here]:
        here, move = step
        moves.append(move)
    return moves[::-1]


def linear_plan(state: State, goal: Iterable[Fact]) -> list[Move]:
    """Put down what is in the way, then build bottom-up; time grows with the blocks. Raises as `plan` does."""
    wanted = _checked(state, goal)
    if wanted <= state:
        return []
    below, target = supports(state), supports(wanted)
    settled = _settled(_blocks(state), below, wanted)
    moves = []
    for x in [fact.args[0] for fact in state if fact.name == "holding"]:
        # Stacked where it belongs if that is ready: who plans anew at every step would else put it down for ever.
        ready = target.get(x) in settled and Fact("clear", (target[x],)) in state
        moves.append(Move("stack", (x, target[x])) if ready else Move("put-down", (x,)))
        settled |= {x} if ready else set()
    for x in reversed(bottom_up(below)):
        if x in below and x not in settled:
            moves += [Move("unstack", (x, below[x])), Move("put-down", (x,))]
    for x in bottom_up(target):
        if x in target and x not in settled:
            moves += [Move("pick-up", (x,)), Move("stack", (x, target[x]))]
    return moves + [_grasp(fact.args[0], below, settled) for fact in wanted if fact.name == "holding"]


def _settled(blocks: set[str], below: dict[str, str], wanted: State) -> set[str]:
    """The blocks that need not move: neither they nor any block under them is out of place."""
    target = supports(wanted)
    grounded = {fact.args[0] for fact in wanted if fact.name == "ontable"}
    claimed = {slot[1] for slot in slots(wanted) if slot[0] == "cover"}
    settled = blocks - set(below) - set(target)
    for x in bottom_up(below):
        if x not in below or below[x] not in settled or x in grounded:
            continue
        if target.get(x) == below[x] or (x not in target and below[x] not in claimed):
            settled.add(x)
    return settled


def _grasp(x: str, below: dict[str, str], settled: set[str]) -> Move:
    return Move("unstack", (x, below[x])) if x in below and x in settled else Move("pick-up", (x,))


def _blocks(facts: Iterable[Fact]) -> set[str]:
    return {block for fact in facts for block in fact.args}


def _checked(state: State, goal: Iterable[Fact]) -> State:
    wanted = frozenset(goal)
    if strangers := _blocks(wanted) - _blocks(state):
        raise Fault("data", f"the goal names blocks that the state lacks: {sorted(strangers)}; plan for existing ones")
    if not possible(wanted):
        raise Fault("data", f"no state satisfies the goal {sorted(wanted)}; give facts that can hold together")
    return wanted


# What the scripted expert reads off a prompt about blocks: the state, the goal, and what is asked for.

TARGET = re.compile(r"(?:Condition to make true next|Assignment|Subtask): (.+(?:\nIt settles the whole task: .+)?)")
GIVEN = re.compile(r"(?:Task|Assignment): (.+)")
START = re.compile(r"At the start, ([^.]+)\.")
CONDITION = re.compile(r"^\d+\. (.+)$", re.MULTILINE)


def state_in(prompt: str) -> State:
    """The state last observed; before any observation, the one the task starts from; empty where none is told."""
    return parse_observed(prompt) or parse_facts("".join(START.findall(prompt)[:1]))


def goal_in(prompt: str) -> State:
    """The facts of the task, or of a sub-task that is told alone."""
    return parse_goal(prompt) or parse_facts("".join(GIVEN.findall(prompt)[:1]))


def target_in(prompt: str) -> State:
    """What the operator is after now; all of the task for who settles it, whose own words may have been cut."""
    wanted = TARGET.findall(prompt)[-1]
    return parse_goal(wanted) or parse_facts(wanted)


def conditions_in(prompt: str) -> list[State]:
    """The conditions to be judged, in order; one in other words than the world's is empty."""
    listed = prompt.rpartition("Conditions, in order:")[2]
    return [parse_facts(text) for text in CONDITION.findall(listed)]


def considered_in(prompt: str) -> list[str]:
    """The actions whose outcomes are to be foretold, in order."""
    return CONDITION.findall(prompt.rpartition("Actions that are considered:")[2])


def holds(wanted: State, state: State) -> bool:
    """Whether what is wanted is so; what is not understood is not."""
    return bool(wanted) and wanted <= state


# The mind behind `scripted:expert` in BlocksWorld: it reads the prompts of the generic operators and answers right.
#
# It knows nothing but the prompt's text, so that what the operators show and how worlds word it are exercised too. It
# goes on from whatever state is shown, however that came about; a condition in other words than the world's is false,
# and any legal move is as good for it as any other.

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
