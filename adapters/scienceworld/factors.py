"""ScienceWorld's text as factored states: what the agent knows of rooms and things, and what its task wants of them."""

from certigraph.adapters.scienceworld.factors_seen import seen
from certigraph.adapters.scienceworld.factors_wanted import sought, wanted
from certigraph.state.factored import FactoredState, as_mapping, factored


class ScienceWorldFactors:
    """Answers tell little of the world at a time, so that the state is everything that was told so far.

    Written by hand for the simulator's sentences and its thirty tasks; the paper has a language model extract. What is
    wanted are milestones that a task names or implies for any agent, some of them from general knowledge (life spans,
    paints: factors_kinds.py); no gold path is read. A task in other words wants nothing.
    """

    def extract(self, state: FactoredState, goal: str, action: str, observation: str) -> FactoredState:
        """The state before, with what the answer adds to it."""
        known = as_mapping(state)
        seen(known, action, observation, sought(goal))
        return factored(known)

    def interpret(self, goal: str, state: FactoredState, before: FactoredState) -> FactoredState:
        """The states that the task names or implies, of the things that are known by now."""
        return factored(wanted(goal, as_mapping(state))) if goal else before
