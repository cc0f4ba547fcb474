"""The slots of parallel hypotheses."""

from itertools import chain

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from certigraph.adapters.context import Context
from certigraph.nodes.gathering_slots import answering
from certigraph.nodes.slots import OPENED, Slot, Update
from certigraph.state.hypothesising import HypothesesState, aggregate_view, hypothesise_view
from certigraph.state.records import Action
from certigraph.state.searching import RETRIEVED


def _unexplored(state: HypothesesState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "branches": Overwrite([]), "hypotheses": ()}


def _unanswerable(state: HypothesesState, runtime: Runtime[Context]) -> Update | None:
    return None if answering(state, runtime) else {"hypotheses": ()}


def _borne_out(state: HypothesesState, update: Update, runtime: Runtime[Context]) -> Update:
    """Hand the answer in with what was retrieved for it, in worlds that this one has not seen."""
    found = chain.from_iterable(branch.retrieved for branch in aggregate_view(state)["branches"])
    action: Action = update["action"]
    retrieved = {RETRIEVED: list(dict.fromkeys(found))}
    return {**update, "action": action.model_copy(update={"args": {**action.args, **retrieved}})}


RESET = Slot("reset", OPENED, record=_unexplored, opens_books=True)
HYPOTHESISE = Slot("hypothesise", frozenset({"hypotheses"}), hypothesise_view, skip=_unanswerable)
EXPLORE = Slot("explore", frozenset({"branches"}))
AGGREGATE = Slot("aggregate", frozenset({"action"}), aggregate_view, _borne_out)
