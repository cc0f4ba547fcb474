"""Planners for BlocksWorld, and the scripted expert, which answers the operators' requests in place of a model."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from certigraph.adapters.models.experts import TARGET_FIELD, chained_nodes, minimal_answer, unchanged_revision
from certigraph.adapters.models.schemas import Schema
from certigraph.adapters.models.scripts import current_situation
from certigraph.adapters.protocols import MIN_NODES
from certigraph.benchmarks.blocksworld.domain import (
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
    parse_condition,
    parse_facts,
    parse_goal,
    parse_observed,
    schema_of,
    sort_bottom_up,
    supports_of,
    unmet_preconditions,
)
from certigraph.state.endings import Fault

# Planners: breadth-first search for few blocks, a linear plan for many.

MAX_SEARCHED_BLOCKS = 5
"""Maximum number of blocks for which `find_plan` is optimal.

Each further block multiplies the states by about eight.
"""


def find_plan(state: BlocksState, goal: Iterable[BlockFact]) -> list[BlockMove]:
    """Find moves to a state in which the goal holds.

    For up to `MAX_SEARCHED_BLOCKS` blocks the plan is as short as possible, else it has about 4 moves per block.

    Args:
        state: Complete state.
        goal: Facts of any kind; what they do not determine is left unchanged where possible.

    Raises:
        Fault: ("data") no state satisfies the goal, or it names blocks that the state lacks.
    """
    return (find_shortest_plan if len(_blocks_of(state)) <= MAX_SEARCHED_BLOCKS else find_linear_plan)(state, goal)


def find_shortest_plan(state: BlocksState, goal: Iterable[BlockFact]) -> list[BlockMove]:
    """Find a shortest plan by breadth-first search over all states. Raises the same errors as `find_plan`."""
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
    """Find, in linear time, a plan that first clears the blocks in the way and then builds bottom-up.

    Raises the same errors as `find_plan`.
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


# What a request is about, read from the operator's view: the state, the goal, and what is to be reached or judged.

START = re.compile(r"At the start, ([^.]+)\.")
QUOTED = re.compile(r"<world>.*?</world>", re.DOTALL)
ITEM = re.compile(r"- |\d+\. ")
NUMBERED = re.compile(r"^\d+\. (.+)$", re.MULTILINE)


class BlocksPosition(NamedTuple):
    """What an operator's request is about, parsed into facts: the state, the goal, and what to reach or to judge."""

    state: BlocksState
    """State that was observed last, or else the task's initial state; empty if neither is shown."""
    goal: BlocksState
    """Goal of the task, or of the sub-task if the operator sees only that."""
    target: BlocksState
    """Facts that the operator works towards; for the sub-task that completes the task, the task's goal."""
    conditions: tuple[BlocksState, ...]
    """Conditions to judge, in order; a condition in an unknown wording is an empty set."""
    candidates: tuple[str, ...] = ()
    """Actions whose outcomes are to be predicted."""


def read_position(view: Mapping[str, Any]) -> BlocksPosition:
    """Parse what a request is about from `view`, the part of the graph's state that the operator reads."""
    goal = str(view.get("assignment") or (view["task"].goal if "task" in view else ""))
    subtask = view.get("subtask")
    target = view["target"].text if "target" in view else getattr(subtask, "text", subtask) or goal
    return BlocksPosition(
        state=_observed_state(view) or parse_facts("".join(START.findall(goal)[:1])),
        goal=_parse_aim(goal),
        target=_parse_aim(target),
        conditions=tuple(_parse_claim(predicate.text) for predicate in view.get("checked", view.get("tail", ()))),
        candidates=tuple(view.get("candidates", ())),
    )


def read_text(text: str) -> BlocksPosition:
    """Parse what a request is about from the prompt alone, as a language model behind an endpoint has to.

    Only BlocksWorld's own sentences and the layout of lists are used, not the labels in a prompt. The target is the
    last line with facts that is not a list item; the conditions are the numbered items.
    """
    outside = [line for line in QUOTED.sub("", text).splitlines() if parse_facts(line)]
    aims = [line for line in outside if not ITEM.match(line)] or [""]
    return BlocksPosition(
        state=parse_observed(text) or parse_facts("".join(START.findall(text)[:1])),
        goal=parse_goal("\n".join(outside)) or parse_facts(aims[0]),
        target=_parse_aim(aims[-1]),
        conditions=tuple(_parse_claim(text) for text in NUMBERED.findall(QUOTED.sub("", text))),
    )


def _parse_claim(text: str) -> BlocksState:
    # A condition that claims anything besides facts is never counted as true.
    return parse_condition(text) or frozenset()


def _observed_state(view: Mapping[str, Any]) -> BlocksState:
    shown = view["evidence"].view if "evidence" in view else ""
    return parse_observed(shown) or parse_observed(view["observation"].text if "observation" in view else "")


def _parse_aim(text: str) -> BlocksState:
    # the goal of the task is preferred: the text of the sub-task that completes it may have been cut
    return parse_goal(text) or parse_facts(text.partition("\n")[0])


def is_fulfilled(condition: BlocksState, state: BlocksState) -> bool:
    """Return whether a condition holds in a state; False for an empty condition, which could not be parsed."""
    return bool(condition) and condition <= state


# The scripted model `scripted:expert`: it answers the requests of the generic operators correctly.
#
# It knows only what the operator reads, so it also tests what operators see and how worlds word it. It continues from
# any state that is observed. A condition in an unknown wording counts as false, and for an unknown target any legal
# move is accepted.

FormAnswer = dict[str, Any]


def answer_request(prompt: str, form: Schema) -> Any:
    """Answer an operator's request correctly, from the state that the operator reads, in the answer schema `form`.

    Outside a graph node the answer is the smallest instance of the schema.
    """
    situation = current_situation()
    return answer_at(read_position(situation.view), form) if situation else minimal_answer(form)


COMPARED = "checked against the positions of the blocks that the world describes"
"""Reason of every judgement. It is neutral, because a simulated agent may give it with a wrong verdict."""


def answer_at(at: BlocksPosition, form: Schema) -> Any:
    """Answer a request about a position. The fields of the answer schema `form` tell which kind of request it is.

    For an unknown kind the answer is the smallest instance of the schema.
    """
    fields = form.get("properties", {})
    if not fields:
        return "Nothing to add."
    answer = next((answer for name, answer in _ANSWERS.items() if name in fields), None)
    return answer(at, fields) if answer else minimal_answer(form)


def _answer_choice(at: BlocksPosition, fields: Schema) -> FormAnswer:
    field = "choice" if "choice" in fields else "action"
    answer = {field: format_move(_next_move(at, fields[field].get("enum", ())))}
    if TARGET_FIELD in fields:
        answer[TARGET_FIELD] = "holds" if is_fulfilled(at.target, at.state) else "open"
    return {"thought": "it leads to the goal", **answer} if "thought" in fields else answer


def _answer_plan(at: BlocksPosition, fields: Schema) -> FormAnswer:
    # One condition for each move, its effect; the goal replaces the last. The goal alone if no state is visible, as for
    # a sub-task, whose Propose sees the goal but not the start.
    moves = find_plan(at.state, at.goal) if at.state else []
    return {"conditions": [*(format_fact(schema_of(move).adds[0]) for move in moves[:-1]), format_facts(at.goal)]}


def _answer_verdict(at: BlocksPosition, fields: Schema) -> FormAnswer:
    most = fields["holds"].get("maximum", len(at.conditions))
    fulfilled = takewhile(lambda condition: is_fulfilled(condition, at.state), at.conditions[:most])
    return {"reason": COMPARED, "holds": len(list(fulfilled))}


def _answer_decomposition(at: BlocksPosition, fields: Schema) -> FormAnswer:
    # A chain of the goal facts in the order in which they become true; the complete goal is last. The base of each
    # tower is included, because an agent knows only its own sub-task and would otherwise build on blocks that move.
    limit, moves, end = fields["nodes"].get("maxItems", MIN_NODES), find_plan(at.state, at.goal), at.state
    for move in moves:
        end = (
            end if unmet_preconditions(end, move) else apply_move(end, move)
        )  # the plan may be impossible if the view was cut
    grounds = {ontable(base) for base in supports_of(at.goal).values()} & end
    facts = [fact for move in moves for fact in schema_of(move).adds if fact in at.goal or fact in grounds]
    size = -(-len(facts) // limit) or 1
    texts = [format_facts(facts[start : start + size]) for start in range(0, len(facts), size)][:-1]
    return {"nodes": chained_nodes({f"n{n}": text for n, text in enumerate([*texts, format_facts(at.goal)], 1)})}


def _answer_outline(at: BlocksPosition, fields: Schema) -> FormAnswer:
    moves = find_plan(at.state, at.goal)
    return {"steps": [format_move(move) for move in moves] or ["any move: nothing is left to do"]}


def _answer_progress(at: BlocksPosition, fields: Schema) -> FormAnswer:
    status = "completed" if is_fulfilled(at.target, at.state) else "needs_more_steps"
    return {"reason": COMPARED, "status": status, "off_plan": False, "guidance": "", "result": status}


def _answer_subtask(at: BlocksPosition, fields: Schema) -> FormAnswer:
    moves = find_plan(at.state, at.goal)
    text = format_fact(schema_of(moves[0]).adds[0]) if moves else format_facts(at.goal)
    return {"rationale": "it comes next", "subtask": text, "insights": []}


def _answer_completion(at: BlocksPosition, fields: Schema) -> FormAnswer:
    return {"reason": COMPARED, "completed": is_fulfilled(at.target, at.state)}


def _answer_goal_check(at: BlocksPosition, fields: Schema) -> FormAnswer:
    return {"reason": COMPARED, "reached": is_fulfilled(at.goal, at.state)}


def _answer_undone(at: BlocksPosition, fields: Schema) -> FormAnswer:
    # Conditions that belong to the goal and no longer hold; all others were intermediate steps.
    needed = (n for n, condition in enumerate(at.conditions, 1) if condition and condition <= at.goal)
    return {"reason": COMPARED, "undone": [n for n in needed if not at.conditions[n - 1] <= at.state]}


def _answer_candidates(at: BlocksPosition, fields: Schema) -> FormAnswer:
    # The next move first, then other moves up to the requested number.
    form = fields["actions"]
    listed = form["items"].get("enum", ())
    best = _next_move(at, listed)
    others = [format_move(move) for move in applicable_moves(at.state) if move != best]
    candidates = [format_move(best), *(text for text in others if not listed or text in listed)]
    return {"actions": candidates[: form["maxItems"]]}


def _answer_outcomes(at: BlocksPosition, fields: Schema) -> FormAnswer:
    return {"outcomes": [_predict_outcome(at.state, text) for text in at.candidates]}


_ANSWERS: dict[str, Callable[[BlocksPosition, Schema], FormAnswer]] = {
    "nodes": _answer_decomposition,
    "actions": _answer_candidates,
    "choice": _answer_choice,
    "thought": _answer_choice,
    "conditions": _answer_plan,
    "holds": _answer_verdict,
    "reached": _answer_goal_check,
    "undone": _answer_undone,
    "subtask": _answer_subtask,
    "completed": _answer_completion,
    "steps": _answer_outline,
    "status": _answer_progress,
    "change": unchanged_revision,
    "forbidden": lambda at, fields: {"reason": "no rule speaks of it", "forbidden": False},
    "outcomes": _answer_outcomes,
    "insights": lambda at, fields: {"insights": []},
    "subtasks": lambda at, fields: {"subtasks": []},
    "action": _answer_choice,
}


def _next_move(at: BlocksPosition, listed: Sequence[str]) -> BlockMove:
    # A move that reaches the target immediately, or else the first move of a plan.
    moves = [move for text in listed if (move := parse_action(text)) and not unmet_preconditions(at.state, move)]
    at_once = (move for move in moves if at.target <= apply_move(at.state, move))
    first = [move for move in find_plan(at.state, at.target)[:1] if not moves or move in moves]
    return next(at_once, None) or (first or moves or applicable_moves(at.state))[0]


def _predict_outcome(state: BlocksState, text: str) -> str:
    move = parse_action(text)
    return (
        describe_state(apply_move(state, move)) if move and not unmet_preconditions(state, move) else "Nothing happens."
    )
