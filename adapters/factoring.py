"""Symbolic extractors: worlds whose text is templated are read into factored states by rules, without a model.

Each is written by hand for one world, from its templates and types of tasks, and reads no other. It so knows more than
the language model that StateFactory has extract (here `prompted_state`): beside its results, say which one was used.
"""

from functools import lru_cache
from importlib import import_module
from typing import Protocol

from certigraph.state.endings import Fault
from certigraph.state.factored import FactoredState
from certigraph.state.records import Task
from certigraph.state.rewarding import DOMAIN

FACTORS = {
    "alfworld": "certigraph.adapters.alfworld.factors:AlfworldFactors",
    "blocksworld": "certigraph.adapters.blocksworld.factors:BlocksWorldFactors",
    "scienceworld": "certigraph.adapters.scienceworld.factors:ScienceWorldFactors",
    "textworld": "certigraph.adapters.textworld.factors:TextWorldFactors",
    "webshop": "certigraph.adapters.webshop.factors:WebShopFactors",
}
"""By the benchmark whose wording they read."""


class Factors(Protocol):
    """Reads one world's text. Both methods are pure: they know the texts that they are given, and nothing else."""

    def extract(self, state: FactoredState, goal: str, action: str, observation: str) -> FactoredState:
        """The state after a step (StateFactory Eq. 4).

        Args:
            state: the state before it; empty where a trajectory begins.
            goal: the goal in words.
            action: what was done; empty where the world was only looked at.
            observation: what the world answered.
        """
        ...

    def interpret(self, goal: str, state: FactoredState, before: FactoredState) -> FactoredState:
        """The goal as a state (Eq. 6), anchored to what is known of the world; empty where none of it can be read.

        It may want milestones: states that the task implies for any agent. It knows no demonstration and plans nothing.

        Args:
            goal: the goal in words.
            state: the world's state now.
            before: the goal as it was interpreted a step ago; empty where a trajectory begins.
        """
        ...


def factors_of(task: Task) -> Factors | None:
    """The symbolic extractor of a task's world; None where there is none.

    The world is the one that `constants["domain"]` names, else the task's own benchmark.
    """
    return _loaded(_world(task))


def needed_factors(task: Task) -> Factors:
    """The same. Raises Fault("data") where there is none, saying what to do."""
    found = factors_of(task)
    if found is None:
        world, known = _world(task), ", ".join(sorted(FACTORS))
        raise Fault("data", f"no symbolic extractor reads {world}, only {known}; use extract=prompted_state")
    return found


def _world(task: Task) -> str:
    return str(task.constants.get(DOMAIN, task.benchmark)).partition(":")[0]  # all configurations have one wording


@lru_cache(maxsize=16)
def _loaded(domain: str) -> Factors | None:
    if domain not in FACTORS:
        return None
    module, _, name = FACTORS[domain].partition(":")
    found: Factors = getattr(import_module(module), name)()
    return found
