"""An agent whose searches have another depth or other weights than its own: what the retrieval ablations exchange."""

from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.adapters.protocols import Operator
from certigraph.nodes.specs import factory
from certigraph.state.acting import DecideView
from certigraph.state.records import Action
from certigraph.state.searching import SEARCH


@factory
def retrieving(*, decide: Operator, alpha: float | None = None, k: int | None = None) -> Operator:
    """Decide as `decide` does, and search with these settings.

    Args:
        decide: the agent.
        alpha: weight of BM25 against vectors, 0 to 1; None: the agent's own.
        k: passages that a search returns; None: the limits'.
    """
    settings = {name: value for name, value in (("alpha", alpha), ("k", k)) if value is not None}

    async def retrieving(state: DecideView, runtime: Runtime[Context]) -> dict[str, Any]:
        update = await decide(state, runtime)
        action: Action = update["action"]
        if action.kind != SEARCH:
            return update
        return {**update, "action": action.model_copy(update={"args": {**action.args, **settings}})}

    return retrieving
