"""BlocksWorld's planners, and the scripted expert that answers the prompts of the generic operators."""

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

# Planners: breadth-first search for few blocks, a linear plan for many.

SEARCHABLE = 5
"""Maximum number of blocks for which `plan` is optimal; each further block multiplies the states by about eight."""


def plan(state: State, goal: Iterable[Fact]) -> list[Move]:
    """Find moves to a state in which the goal holds; optimal up to `SEARCHABLE` blocks, else about 4 moves per block.

    Args:
        state: Complete state.
        goal: Facts of any kind; what they do not determine is left unchanged where possible.

    Raises:
        Fault: ("data") no state satisfies the goal, or it names blocks that the state lacks.
    """
    return (shortest_plan if len(_blocks(state)) <= SEARCHABLE else linear_plan)(state, goal)


def shortest_plan(state: State, goal: Iterable[Fact]) -> list[Move]:
    """Find a shortest plan by breadth-first search over all states; raises as `plan`."""
    goal_facts = _checked(state, goal)
    came_from: dict[State, tuple[State, Move] | None] = {state: None}
    queue = deque([state])
    while not goal_facts <= (current := queue.popleft()):
        for move in applicable(current):
            if (successor := apply(current, move)) not in came_from:
                came_from[successor] = (current, move)
                queue.append(successor)
    moves = []
    while step := came_from[current]:
        current, move = step
        moves.append(move)
    return moves[::-1]


def linear_plan(state: State, goal: Iterable[Fact]) -> list[Move]:
    """Find a plan that first clears the blocks in the way, then builds bottom-up, in linear time; raises as `plan`."""
    goal_facts = _checked(state, goal)
    if goal_facts <= state:
        return []
    below, target = supports(state), supports(goal_facts)
    settled = _settled(_blocks(state), below, goal_facts)
    moves = []
    for x in [fact.args[0] for fact in state if fact.name == "holding"]:
        # Stack a held block if its place is ready: an agent that replans at every step would otherwise put it down
        # again and again.
        ready = target.get(x) in settled and Fact("clear", (target[x],)) in state
        moves.append(Move("stack", (x, target[x])) if ready else Move("put-down", (x,)))
        settled |= {x} if ready else set()
    for x in reversed(bottom_up(below)):
        if x in below and x not in settled:
            moves += [Move("unstack", (x, below[x])), Move("put-down", (x,))]
    for x in bottom_up(target):
        if x in target and x not in settled:
            moves += [Move("pick-up", (x,)), Move("stack", (x, target[x]))]
    return moves + [_grasp(fact.args[0], below, settled) for fact in goal_facts if fact.name == "holding"]


def _settled(blocks: set[str], below: dict[str, str], goal_facts: State) -> set[str]:
    # Blocks that need not move: neither they nor any block below them is out of place.
    target = supports(goal_facts)
    grounded = {fact.args[0] for fact in goal_facts if fact.name == "ontable"}
    claimed = {slot[1] for slot in slots(goal_facts) if slot[0] == "cover"}
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
    goal_facts = frozenset(goal)
    if unknown := _blocks(goal_facts) - _blocks(state):
        raise Fault("data", f"the goal names blocks that the state lacks: {sorted(unknown)}; plan for existing ones")
    if not possible(goal_facts):
        raise Fault("data", f"no state satisfies the goal {sorted(goal_facts)}; give facts that can hold together")
    return goal_facts


# Parsing a prompt: the state, the goal, and the current target.

TARGET = re.compile(r"(?:Condition to make true next|Assignment|Subtask): (.+(?:\nIt settles the whole task: .+)?)")
GIVEN = re.compile(r"(?:Task|Assignment): (.+)")
START = re.compile(r"At the start, ([^.]+)\.")
CONDITION = re.compile(r"^\d+\. (.+)$", re.MULTILINE)


def state_in(prompt: str) -> State:
    """Parse the state last observed in a prompt, or else the task's start; empty if the prompt has neither."""
    return parse_observed(prompt) or parse_facts("".join(START.findall(prompt)[:1]))


def goal_in(prompt: str) -> State:
    """Parse the goal of the task, or of a sub-task that the prompt shows alone."""
    return parse_goal(prompt) or parse_facts("".join(GIVEN.findall(prompt)[:1]))


def target_in(prompt: str) -> State:
    """Parse the operator's current target; for the sub-task that completes the task, the task's goal.

    The goal is preferred because the sub-task's text may have been cut.
    """
    text = TARGET.findall(prompt)[-1]
    return parse_goal(text) or parse_facts(text)


def conditions_in(prompt: str) -> list[State]:
    """Parse the conditions to judge, in order; one in an unknown wording is empty."""
    listed = prompt.rpartition("Conditions, in order:")[2]
    return [parse_facts(text) for text in CONDITION.findall(listed)]


def considered_in(prompt: str) -> list[str]:
    """Parse the actions whose outcomes are to be predicted, in order."""
    return CONDITION.findall(prompt.rpartition("Actions that are considered:")[2])


def holds(condition: State, state: State) -> bool:
    """Tell whether a condition holds in a state; one that could not be parsed does not."""
    return bool(condition) and condition <= state


# The scripted model `scripted:expert`: it parses the prompts of the generic operators and answers correctly.
#
# It knows only the prompt's text, so it also tests what the operators show and how worlds word it. It continues from
# any state that is shown. A condition in an unknown wording counts as false, and for an unknown target any legal move
# is accepted.

Answer = dict[str, Any]


def respond(prompt: str, form: dict[str, Any]) -> Any:
    """Answer a prompt of any graph's operators correctly; the kind of prompt is recognised by the answer's schema."""
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
    fulfilled = takewhile(lambda condition: holds(condition, state), conditions_in(prompt))
    return {"reason": "read off the observation", "holds": len(list(fulfilled))}


def _decomposition(prompt: str, limit: int) -> Answer:
    # A chain of the goal facts in the order in which they become true; the complete goal is last. The base of each
    # tower is included, because an agent knows only its own sub-task and would otherwise build on blocks that move.
    state, goal = state_in(prompt), goal_in(prompt)
    moves = plan(state, goal)
    end = state
    for move in moves:
        end = end if unmet(end, move) else apply(end, move)  # the plan may be impossible if the view was cut
    grounds = {ontable(base) for base in supports(goal).values()} & end
    facts = [fact for move in moves for fact in schema(move).adds if fact in goal or fact in grounds]
    size = -(-len(facts) // limit) or 1
    texts = [list_facts(facts[start : start + size]) for start in range(0, len(facts), size)][:-1]
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
    # Conditions that belong to the goal and no longer hold; all others were intermediate steps.
    state, goal = state_in(prompt), goal_in(prompt)
    conditions = enumerate(conditions_in(prompt), 1)
    undone = [n for n, condition in conditions if condition and condition <= goal and not holds(condition, state)]
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
    # One condition for each move, its effect; the goal replaces the last. The goal alone if the prompt shows no state,
    # as for a sub-task, whose prompt names the goal but not the start.
    goal, state = goal_in(prompt), state_in(prompt)
    moves = plan(state, goal) if state else []
    return [*(fact_text(schema(move).adds[0]) for move in moves[:-1]), list_facts(goal)]


def _next_move(prompt: str, listed: Sequence[str]) -> Move:
    # A move that reaches the target immediately, or else the first move of a plan.
    state, target = state_in(prompt), target_in(prompt)
    moves = [move for text in listed if (move := parse_action(text)) and not unmet(state, move)]
    at_once = (move for move in moves if target <= apply(state, move))
    first = [move for move in plan(state, target)[:1] if not moves or move in moves]
    return next(at_once, None) or (first or moves or applicable(state))[0]


def _proposals(prompt: str, part: dict[str, Any]) -> list[str]:
    # The next move first, then other moves up to the requested number.
    listed = part["items"].get("enum", ())
    best = _next_move(prompt, listed)
    others = [move_text(move) for move in applicable(state_in(prompt)) if move != best]
    return [move_text(best), *(text for text in others if not listed or text in listed)][: part["maxItems"]]


def _outcome(state: State, text: str) -> str:
    move = parse_action(text)
    return describe(apply(state, move)) if move and not unmet(state, move) else "Nothing happens."
