"""Faults of a run that was begun before: what failed then is drawn anew, so that a resume or a retry can go on."""

from certigraph.adapters.context import Context
from certigraph.adapters.faults.rates import Faults


def begun_again(context: Context, times: int) -> Context:
    """The context of a run that was begun `times` times before; the same where it names no faults.

    Raises:
        UnknownName: the context's faults are none.
    """
    if not context.faults or not times:
        return context
    return context.model_copy(update={"faults": str(Faults.read(context.faults).again(times))})
