"""Begin: a run of several episodes starts with no episode behind it."""

from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from certigraph.adapters.context import Context
from certigraph.state.lessons import TrialState


async def begin(state: TrialState, runtime: Runtime[Context]) -> dict[str, Any]:
    """Forget the episodes of a run that the thread held before; what its store remembers is `recall`'s to read."""
    return {"trial": 0, "trials": Overwrite([]), "lessons": ()}
