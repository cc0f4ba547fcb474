"""BlocksWorld's text as factored states: for each block what is below it, what is above it, and whether it is held."""

from certigraph.adapters.blocksworld.strips import State
from certigraph.adapters.blocksworld.wording import block_text, parse_facts, parse_goal, parse_observed
from certigraph.state.factored import FactoredState, as_mapping, factored

Supports = dict[str, str]
"""Block -> what is below it: a block, the table or the hand."""

TABLE, HAND, NOTHING = "table", "hand", "nothing"

LATER = "later"
"""The grip that is wanted of a block while there is no place for it: nothing fulfils it."""


class BlocksWorldFactors:
    """Observations tell the whole state, so that nothing needs to be remembered.

    Written by hand for PlanBench's sentences; the paper has a language model extract. Besides what the goal names it
    wants milestones that any plan passes: a block and its place clear, the block in hand.
    """

    def extract(self, state: FactoredState, goal: str, action: str, observation: str) -> FactoredState:
        """Each block with what is below and above it; the state before where an observation tells none."""
        below = _supports(parse_observed(observation) or parse_facts(observation))
        return factored({block: _told(block, below) for block in below}) if below else state

    def interpret(self, goal: str, state: FactoredState, before: FactoredState) -> FactoredState:
        """What the goal wants below each block, and what that needs: nothing above it or its place, a block in hand.

        A block that rests where it is wanted counts only if all that is wanted below it does too.
        """
        wanted = _supports(parse_goal(goal) or parse_facts(goal))
        below = {name: has["below"] for name, has in as_mapping(state).items() if "below" in has}
        goals: dict[str, dict[str, str]] = {}
        for block, under in wanted.items():
            done = _settled(block, wanted, below)
            goals.setdefault(block, {}).update({"below": under} if done else _unsettled(under, wanted, below))
            if under != TABLE:
                goals.setdefault(under, {})["above"] = block if done else NOTHING
        return factored(goals)


def _supports(facts: State) -> Supports:
    found: Supports = {}
    for fact in sorted(facts):
        if fact.name == "on":
            found[block_text(fact.args[0])] = block_text(fact.args[1])
        elif fact.name in ("ontable", "holding"):
            found[block_text(fact.args[0])] = TABLE if fact.name == "ontable" else HAND
    return found


def _told(block: str, below: Supports) -> dict[str, str]:
    # one word each where it can be: longer wordings of opposites embed closer together
    return {
        "below": below[block],
        "above": _above(block, below),
        "grip": "held" if below[block] == HAND else "resting",
    }


def _above(block: str, below: Supports) -> str:
    return next((other for other, under in below.items() if under == block), NOTHING)


def _unsettled(under: str, wanted: Supports, below: Supports) -> dict[str, str]:
    """What is wanted of a block on its way: to be clear, to be in hand once its place is free, to be there."""
    ready = _settled(under, wanted, below) and _above(under, below) == NOTHING
    return {"below": under, "grip": "held" if ready else LATER, "above": NOTHING}


def _settled(block: str, wanted: Supports, below: Supports) -> bool:
    """Whether a block is where the goal wants it, on blocks that are; one that the goal does not place always is."""
    for _ in wanted:
        if block not in wanted:
            return True
        if below.get(block) != wanted[block]:
            return False
        block = wanted[block]
    return block not in wanted
