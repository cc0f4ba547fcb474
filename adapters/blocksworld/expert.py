"""BlocksWorld's planners, and the scripted expert that answers the prompts of the generic operators."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from typing import Any

from certigraph.adapters.blocksworld.domain import (
    BlockFact,
    BlockMove,
    BlocksState,
    applicable_moves,
    apply_move,
    describe_state,
    format_fact,
    format_facts,
    format_move,
    is_possible,
    occupied_slots,
    ontable,
    parse_action,
    parse_facts,
    parse_goal,
    parse_observed,
    schema_of,
    sort_bottom_up,
    supports_of,
    unmet_preconditions,
)
from certigraph.adapters.protocols import MIN_NODES
from certigraph.state.records import Fault

# Planners: breadth-first search for few blocks, a linear plan for many.

MAX_SEARCHED_BLOCKS = 5
"""Maximum number of blocks for which `find_plan` is optimal.

Each further block multiplies the states by about eight.
"""


def find_plan(state: BlocksState, goal: Iterable[BlockFact]) -> list[BlockMove]:
    """Find moves to a state in which the goal holds.

    They are optimal up to `MAX_SEARCHED_BLOCKS` blocks, else about 4 moves per block.

    Args:
        state: Complete state.
        goal: Facts of any kind; what they do not determine is left unchanged where possible.

    Raises:
        Fault: ("data") no state satisfies the goal, or it names blocks that the state lacks.
    """
    return (find_shortest_plan if len(_blocks_of(state)) <= MAX_SEARCHED_BLOCKS else find_linear_plan)(state, goal)


def find_shortest_plan(state: BlocksState, goal: Iterable[BlockFact]) -> list[BlockMove]:
    """Find a shortest plan by breadth-first search over all states; raises as `find_plan`."""
    goal_facts = _check_goal(state, goal)
    came_from: dict[BlocksState, tuple[BlocksState, BlockMove] | None] = {state: None}
    queue = deque([state])
    while not goal_facts <= (current := queue.popleft()):
        for move in applicable_moves(current):
            if (successor := apply_move(current, move)) not in came_from:
                came_from[successor] = (current, move)
                queue.append(successor)
    moves = []
    while step := came_from[current]:
        current, move = step
        moves.append(move)
    return moves[::-1]


def find_linear_plan(state: BlocksState, goal: Iterable[BlockFact]) -> list[BlockMove]:
    """Find a plan that first clears the blocks in the way, then builds bottom-up, in linear time.

    Raises as `find_plan`.
    """
    goal_facts = _check_goal(state, goal)
    if goal_facts <= state:
        return []
    below, target = supports_of(state), supports_of(goal_facts)
    settled = _placed_blocks(_blocks_of(state), below, goal_facts)
    moves = []
    for x in [fact.args[0] for fact in state if fact.name == "holding"]:
        # Stack a held block if its place is ready: an agent that replans at every step would otherwise put it down
        # again and again.
        ready = target.get(x) in settled and BlockFact("clear", (target[x],)) in state
        moves.append(BlockMove("stack", (x, target[x])) if ready else BlockMove("put-down", (x,)))
        settled |= {x} if ready else set()
    for x in reversed(sort_bottom_up(below)):
        if x in below and x not in settled:
            moves += [BlockMove("unstack", (x, below[x])), BlockMove("put-down", (x,))]
    for x in sort_bottom_up(target):
        if x in target and x not in settled:
            moves += [BlockMove("pick-up", (x,)), BlockMove("stack", (x, target[x]))]
    return moves + [_grasp_move(fact.args[0], below, settled) for fact in goal_facts if fact.name == "holding"]


def _placed_blocks(blocks: set[str], below: dict[str, str], goal_facts: BlocksState) -> set[str]:
    # Blocks that need not move: neither they nor any block below them is out of place.
    target = supports_of(goal_facts)
    grounded = {fact.args[0] for fact in goal_facts if fact.name == "ontable"}
    claimed = {slot[1] for slot in occupied_slots(goal_facts) if slot[0] == "cover"}
    settled = blocks - set(below) - set(target)
    for x in sort_bottom_up(below):
        if x not in below or below[x] not in settled or x in grounded:
            continue
        if target.get(x) == below[x] or (x not in target and below[x] not in claimed):
            settled.add(x)
    return settled


def _grasp_move(x: str, below: dict[str, str], settled: set[str]) -> BlockMove:
    return BlockMove("unstack", (x, below[x])) if x in below and x in settled else BlockMove("pick-up", (x,))


def _blocks_of(facts: Iterable[BlockFact]) -> set[str]:
    return {block for fact in facts for block in fact.args}


def _check_goal(state: BlocksState, goal: Iterable[BlockFact]) -> BlocksState:
    goal_facts = frozenset(goal)
    if unknown := _blocks_of(goal_facts) - _blocks_of(state):
        raise Fault("data", f"the goal names blocks that the state lacks: {sorted(unknown)}; plan for existing ones")
    if not is_possible(goal_facts):
        raise Fault("data", f"no state satisfies the goal {sorted(goal_facts)}; give facts that can hold together")
    return goal_facts


# Parsing a prompt: the state, the goal, and the current target.

TARGET = re.compile(r"(?:Condition to make true next|Assignment|Subtask): (.+(?:\nIt settles the whole task: .+)?)")
GIVEN = re.compile(r"(?:Task|Assignment): (.+)")
START = re.compile(r"At the start, ([^.]+)\.")
CONDITION = re.compile(r"^\d+\. (.+)$", re.MULTILINE)


def parse_state(prompt: str) -> BlocksState:
    """Parse the state last observed in a prompt, or else the task's start; empty if the prompt has neither."""
    return parse_observed(prompt) or parse_facts("".join(START.findall(prompt)[:1]))


def parse_task_goal(prompt: str) -> BlocksState:
    """Parse the goal of the task, or of a sub-task that the prompt shows alone."""
    return parse_goal(prompt) or parse_facts("".join(GIVEN.findall(prompt)[:1]))


def parse_target(prompt: str) -> BlocksState:
    """Parse the operator's current target; for the sub-task that completes the task, the task's goal.

    The goal is preferred because the sub-task's text may have been cut.
    """
    text = TARGET.findall(prompt)[-1]
    return parse_goal(text) or parse_facts(text)


def parse_conditions(prompt: str) -> list[BlocksState]:
    """Parse the conditions to judge, in order; one in an unknown wording is empty."""
    listed = prompt.rpartition("Conditions, in order:")[2]
    return [parse_facts(text) for text in CONDITION.findall(listed)]


def parse_considered_actions(prompt: str) -> list[str]:
    """Parse the actions whose outcomes are to be predicted, in order."""
    return CONDITION.findall(prompt.rpartition("Actions that are considered:")[2])


def is_fulfilled(condition: BlocksState, state: BlocksState) -> bool:
    """Tell whether a condition holds in a state; one that could not be parsed does not."""
    return bool(condition) and condition <= state


# The scripted model `scripted:expert`: it parses the prompts of the generic operators and answers correctly.
#
# It knows only the prompt's text, so it also tests what the operators show and how worlds word it. It continues from
# any state that is shown. A condition in an unknown wording counts as false, and for an unknown target any legal move
# is accepted.

FormAnswer = dict[str, Any]


def answer_prompt(prompt: str, form: dict[str, Any]) -> Any:
    """Answer a prompt of any graph's operators correctly; the kind of prompt is recognised by the answer's schema."""
    fields = frozenset(form.get("properties", ()))
    if not fields:
        return "Nothing to add."
    if "nodes" in fields:
        return _answer_decomposition(prompt, form["properties"]["nodes"].get("maxItems", MIN_NODES))
    if fields == {"actions"}:
        return {"actions": _propose_actions(prompt, form["properties"]["actions"])}
    if fields == {"choice"} or "thought" in fields:
        return _answer_choice(prompt, form["properties"])
    return next(answer(prompt) for name, answer in _ANSWERS.items() if name in fields)


def _answer_choice(prompt: str, parts: dict[str, Any]) -> FormAnswer:
    field = "choice" if "choice" in parts else "action"
    move = format_move(_next_move(prompt, parts[field].get("enum", ())))
    return {"thought": "it leads to the goal", field: move} if "thought" in parts else {field: move}


def _answer_plan(prompt: str) -> FormAnswer:
    return {"conditions": _plan_conditions(prompt)}


def _answer_verdict(prompt: str) -> FormAnswer:
    state = parse_state(prompt)
    fulfilled = takewhile(lambda condition: is_fulfilled(condition, state), parse_conditions(prompt))
    return {"reason": "read off the observation", "holds": len(list(fulfilled))}


def _answer_decomposition(prompt: str, limit: int) -> FormAnswer:
    # A chain of the goal facts in the order in which they become true; the complete goal is last. The base of each
    # tower is included, because an agent knows only its own sub-task and would otherwise build on blocks that move.
    state, goal = parse_state(prompt), parse_task_goal(prompt)
    moves = find_plan(state, goal)
    end = state
    for move in moves:
        end = (
            end if unmet_preconditions(end, move) else apply_move(end, move)
        )  # the plan may be impossible if the view was cut
    grounds = {ontable(base) for base in supports_of(goal).values()} & end
    facts = [fact for move in moves for fact in schema_of(move).adds if fact in goal or fact in grounds]
    size = -(-len(facts) // limit) or 1
    texts = [format_facts(facts[start : start + size]) for start in range(0, len(facts), size)][:-1]
    chain = enumerate([*texts, format_facts(goal)], 1)
    return {"nodes": [{"id": f"n{n}", "task": text, "needs": [f"n{n - 1}"] * (n > 1)} for n, text in chain]}


def _answer_outline(prompt: str) -> FormAnswer:
    moves = find_plan(parse_state(prompt), parse_task_goal(prompt))
    return {"steps": [format_move(move) for move in moves] or ["any move: nothing is left to do"]}


def _answer_progress(prompt: str) -> FormAnswer:
    status = "completed" if is_fulfilled(parse_target(prompt), parse_state(prompt)) else "needs_more_steps"
    return {"reason": "read off the world", "status": status, "off_plan": False, "guidance": "", "result": status}


def _answer_subtask(prompt: str) -> FormAnswer:
    moves = find_plan(parse_state(prompt), parse_task_goal(prompt))
    text = format_fact(schema_of(moves[0]).adds[0]) if moves else format_facts(parse_task_goal(prompt))
    return {"rationale": "it comes next", "subtask": text, "insights": []}


def _answer_completion(prompt: str) -> FormAnswer:
    return {"reason": "read off the world", "completed": is_fulfilled(parse_target(prompt), parse_state(prompt))}


def _answer_goal_check(prompt: str) -> FormAnswer:
    return {"reason": "read off the world", "reached": is_fulfilled(parse_task_goal(prompt), parse_state(prompt))}


def _answer_undone(prompt: str) -> FormAnswer:
    # Conditions that belong to the goal and no longer hold; all others were intermediate steps.
    state, goal = parse_state(prompt), parse_task_goal(prompt)
    conditions = enumerate(parse_conditions(prompt), 1)
    undone = [
        n for n, condition in conditions if condition and condition <= goal and not is_fulfilled(condition, state)
    ]
    return {"reason": "read off the world", "undone": undone}


_ANSWERS: dict[str, Callable[[str], FormAnswer]] = {
    "conditions": _answer_plan,
    "holds": _answer_verdict,
    "reached": _answer_goal_check,
    "undone": _answer_undone,
    "subtask": _answer_subtask,
    "completed": _answer_completion,
    "steps": _answer_outline,
    "status": _answer_progress,
    "change": lambda prompt: {"reason": "all is as it was", "change": [], "add": [], "remove": []},
    "forbidden": lambda prompt: {"reason": "no rule speaks of it", "forbidden": False},
    "outcomes": lambda prompt: {
        "outcomes": [_predict_outcome(parse_state(prompt), text) for text in parse_considered_actions(prompt)]
    },
    "insights": lambda prompt: {"insights": []},
    "subtasks": lambda prompt: {"subtasks": []},
    "action": lambda prompt: {"action": format_move(_next_move(prompt, ()))},
}


def _plan_conditions(prompt: str) -> list[str]:
    # One condition for each move, its effect; the goal replaces the last. The goal alone if the prompt shows no state,
    # as for a sub-task, whose prompt names the goal but not the start.
    goal, state = parse_task_goal(prompt), parse_state(prompt)
    moves = find_plan(state, goal) if state else []
    return [*(format_fact(schema_of(move).adds[0]) for move in moves[:-1]), format_facts(goal)]


def _next_move(prompt: str, listed: Sequence[str]) -> BlockMove:
    # A move that reaches the target immediately, or else the first move of a plan.
    state, target = parse_state(prompt), parse_target(prompt)
    moves = [move for text in listed if (move := parse_action(text)) and not unmet_preconditions(state, move)]
    at_once = (move for move in moves if target <= apply_move(state, move))
    first = [move for move in find_plan(state, target)[:1] if not moves or move in moves]
    return next(at_once, None) or (first or moves or applicable_moves(state))[0]


def _propose_actions(prompt: str, part: dict[str, Any]) -> list[str]:
    # The next move first, then other moves up to the requested number.
    listed = part["items"].get("enum", ())
    best = _next_move(prompt, listed)
    others = [format_move(move) for move in applicable_moves(parse_state(prompt)) if move != best]
    return [format_move(best), *(text for text in others if not listed or text in listed)][: part["maxItems"]]


def _predict_outcome(state: BlocksState, text: str) -> str:
    move = parse_action(text)
    return (
        describe_state(apply_move(state, move)) if move and not unmet_preconditions(state, move) else "Nothing happens."
    )
