"""ScienceWorld's text as factored states: what the agent knows of rooms and things, and what its task wants of them."""

from certigraph.adapters.scienceworld.factors_seen import seen
from certigraph.adapters.scienceworld.factors_wanted import sought, wanted
from certigraph.state.factored import FactoredState, as_mapping, factored


class ScienceWorldFactors:
    """Answers tell little of the world at a time, so that the state is everything that was told so far."""

    def extract(self, state: FactoredState, goal: str, action: str, observation: str) -> FactoredState:
        """The state before, with what the answer adds to it."""
        known = as_mapping(state)
        seen(known, action, observation, sought(goal))
        return factored(known)

    def interpret(self, goal: str, state: FactoredState, before: FactoredState) -> FactoredState:
        """The states that the task names or implies, of the things that are known by now."""
        return factored(wanted(goal, as_mapping(state))) if goal else before
