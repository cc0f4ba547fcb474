"""Experts that always know what to do: breadth-first search for few blocks, a linear plan for many."""

from collections import deque
from collections.abc import Iterable

from certigraph.adapters.blocksworld.strips import (
    Fact,
    Move,
    State,
    applicable,
    apply,
    bottom_up,
    possible,
    slots,
    supports,
)
from certigraph.state.endings import Fault

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
