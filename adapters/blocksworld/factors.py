"""BlocksWorld's text as factored states: each block, where it is, and what is on it."""

from certigraph.adapters.blocksworld.strips import Fact
from certigraph.adapters.blocksworld.wording import block_text, parse_facts, parse_goal, parse_observed
from certigraph.state.factored import FactoredState, factored


class BlocksWorldFactors:
    """Observations tell the whole state, so that nothing needs to be remembered."""

    def extract(self, state: FactoredState, goal: str, action: str, observation: str) -> FactoredState:
        """Each block with its place and what is on it; the state before where an observation tells none."""
        facts = parse_observed(observation) or parse_facts(observation)
        return _entities(facts) if facts else state

    def interpret(self, goal: str, state: FactoredState, before: FactoredState) -> FactoredState:
        """The places that the goal wants; BlocksWorld's goals name the blocks themselves, so they never change."""
        return before if before.entities else _entities(parse_goal(goal) or parse_facts(goal))


def _entities(facts: frozenset[Fact]) -> FactoredState:
    places: dict[str, dict[str, str]] = {}
    for fact in sorted(facts):
        for name, value in _told(fact).items():
            places.setdefault(block_text(fact.args[0]), {})[name] = value
    return factored(places)


def _told(fact: Fact) -> dict[str, str]:
    if fact.name == "on":
        return {"location": f"on top of the {block_text(fact.args[1])}"}
    if fact.name == "ontable":
        return {"location": "on the table"}
    return {"location": "in the hand"} if fact.name == "holding" else {}
