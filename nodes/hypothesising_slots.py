"""The slots of parallel hypotheses."""

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from certigraph.adapters.context import Context
from certigraph.nodes.gathering_slots import answering
from certigraph.nodes.slots import OPENED, Slot, Update
from certigraph.state.hypothesising import HypothesesState, aggregate_view, hypothesise_view


def _unexplored(state: HypothesesState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "branches": Overwrite([]), "hypotheses": ()}


def _unanswerable(state: HypothesesState, runtime: Runtime[Context]) -> Update | None:
    return None if answering(state, runtime) else {"hypotheses": ()}


RESET = Slot("reset", OPENED, record=_unexplored, opens_books=True)
HYPOTHESISE = Slot("hypothesise", frozenset({"hypotheses"}), hypothesise_view, skip=_unanswerable)
EXPLORE = Slot("explore", frozenset({"branches"}))
AGGREGATE = Slot("aggregate", frozenset({"action"}), aggregate_view)
