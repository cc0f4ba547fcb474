"""Propose candidates without a model: all that the world admits, or those nearest to the assignment."""

from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.candidates import admissible
from certigraph.adapters.context import Context
from certigraph.adapters.embeddings import encoder
from certigraph.adapters.loops import off_loop
from certigraph.adapters.matching import shortlist
from certigraph.adapters.protocols import Operator
from certigraph.adapters.rehearsing import rehearse
from certigraph.nodes.situation import queries
from certigraph.nodes.specs import factory
from certigraph.state.appraising import LookaheadView
from certigraph.state.endings import Fault

WIDTH = 3
"""Candidates for one action, k."""


async def listed(state: LookaheadView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Every action that the world admits; further ahead, that a copy of it does.

    Raises:
        Fault: ("environment") the world does not list its actions.
    """
    return {"candidates": tuple(await _listing(state, runtime))}


@factory
def shortlisted(*, k: int = WIDTH) -> Operator:
    """The k admitted actions most similar to the assignment and the latest thought. Raises as `listed` does.

    Args:
        k: candidates.
    """

    async def shortlisted(state: LookaheadView, runtime: Runtime[Context]) -> dict[str, Any]:
        actions, wanted = await _listing(state, runtime), queries(state)
        nearest = await off_loop(lambda: shortlist(wanted, actions, most=k, encoder=encoder()))
        return {"candidates": tuple(nearest)}

    return shortlisted


async def _listing(state: LookaheadView, runtime: Runtime[Context]) -> list[str]:
    if state["path"]:
        copy = await rehearse(state["path"], state["task"], runtime)
        found = await off_loop(copy.admissible) or []
    else:
        found = await admissible(runtime)
    if not found:
        told = f"{state['task'].benchmark} lists no actions here; have the model write them: propose=propose_actions"
        raise Fault("environment", told)
    return found
