"""The slots of the agents that look ahead, and the bookkeeping around their operators' answers."""

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from certigraph.adapters.context import Context
from certigraph.nodes import acting_slots
from certigraph.nodes.slots import Slot, Update
from certigraph.state.appraising import (
    AppraisingState,
    appraise_view,
    choose_view,
    digest,
    lookahead_view,
    standing_view,
)
from certigraph.state.factored import FactoredState


def _knows_nothing(state: AppraisingState, update: Update, runtime: Runtime[Context]) -> Update:
    nowhere = {"factored": FactoredState(), "goal": FactoredState(), "reward": 0.0}
    nothing: Update = {"candidates": (), "foreseen": (), "appraisals": (), "visited": Overwrite([])}
    return {**acting_slots.RESET.record(state, update, runtime), **nowhere, **nothing}


def _rated(state: AppraisingState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "visited": [digest(state["factored"])]}


def _worth_only(state: AppraisingState, update: Update, runtime: Runtime[Context]) -> Update:
    """The states behind the figures are not needed again, and would weigh on checkpoints."""
    known = set(state["visited"])
    worth = ((one.appraisal, digest(one.factored) in known) for one in update["appraisals"])
    return {"appraisals": tuple(appraisal.model_copy(update={"seen": seen}) for appraisal, seen in worth)}


RESET = acting_slots.RESET._replace(record=_knows_nothing)
EXTRACT = Slot(
    "extract",
    frozenset({"factored"}),
    standing_view,
    skip=acting_slots.require_steps,
    types={"factored": FactoredState},
)
INTERPRET = Slot("interpret", frozenset({"goal"}), standing_view, types={"goal": FactoredState})
ROUTE = Slot("route", frozenset({"reward"}), standing_view, _rated)
PROPOSE = Slot("propose", frozenset({"candidates"}), lookahead_view)
IMAGINE = Slot("imagine", frozenset({"foreseen"}), lookahead_view)
APPRAISE = Slot("appraise", frozenset({"appraisals"}), appraise_view, _worth_only)
CHOOSE = acting_slots.DECIDE._replace(name="choose", view=choose_view)
ACT = acting_slots.ACT
