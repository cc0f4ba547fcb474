"""The actions that a model is offered: those the live world admits, shortened to the relevant ones."""

from collections.abc import Sequence

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import context_of
from certigraph.adapters.context import Context
from certigraph.adapters.embeddings import encoder
from certigraph.adapters.loops import off_loop
from certigraph.adapters.matching import shortlist


async def admissible(runtime: Runtime[Context]) -> list[str]:
    """Every action that the world admits now; none where it lists none. Listing may take the world a moment."""
    listing = context_of(runtime).admissible
    return list(await off_loop(listing) or []) if listing else []


async def candidates(queries: Sequence[str], runtime: Runtime[Context], most: int) -> list[str]:
    """At most `most` admissible actions, the most relevant to any of the queries; none where the world lists none."""
    actions = await admissible(runtime)
    if len(actions) <= most:
        return actions
    return await off_loop(lambda: shortlist(queries, actions, most=most, encoder=encoder()))
