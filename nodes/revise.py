"""Self-Revision: mend and sharpen what is still to come of the task graph (TDP section 3.4)."""

from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.context import Context
from certigraph.nodes.special import specialised
from certigraph.state.tdp import ReviseView


@specialised
async def revise(state: ReviseView, runtime: Runtime[Context]) -> dict[str, Any]:
    """Ask the model what the outcomes change."""
    return {"dag": state["dag"], "notes": ()}
