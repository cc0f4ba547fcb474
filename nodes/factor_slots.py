"""The slots of the graphs that predict rewards, and the bookkeeping around their operators' answers."""

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from certigraph.adapters.context import Context
from certigraph.nodes.slots import ACTED, OPENED, Slot, Update
from certigraph.state.factored import FactoredState
from certigraph.state.records import Action
from certigraph.state.rewarding import (
    Prediction,
    RewardState,
    by_recording,
    factor_view,
    interpret_view,
    rate_view,
    recorded,
    routed_view,
    without_recordings,
)
from certigraph.state.searching import FINISH


def _opened(state: RewardState, update: Update, runtime: Runtime[Context]) -> Update:
    task = update["task"]
    begun = {"steps": Overwrite(recorded(task)), "position": 0, "rewards": Overwrite([]), "note": "", "reward": 0.0}
    return {**update, **begun, "task": without_recordings(task), "factored": FactoredState(), "goal": FactoredState()}


def _predicted(state: RewardState, update: Update, runtime: Runtime[Context]) -> Update:
    recording = state["steps"][state["position"]].recording
    prediction = Prediction(reward=update["reward"], recording=recording)
    return {**update, "rewards": [prediction], "position": state["position"] + 1}


def _handed_in(state: RewardState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "action": _with_answer(state)["action"]}


def _with_answer(state: RewardState) -> RewardState:
    """The predicted rewards as the answer that the benchmark scores."""
    rewards = by_recording(state["rewards"])
    return {**state, "action": Action(text="rewards", kind=FINISH, args={"rewards": rewards})}


RESET = Slot("reset", OPENED, record=_opened, opens_books=True)
EXTRACT = Slot("extract", frozenset({"factored"}), factor_view, types={"factored": FactoredState})
INTERPRET = Slot("interpret", frozenset({"goal"}), interpret_view, types={"goal": FactoredState})
ROUTE = Slot("route", frozenset({"reward"}), routed_view, _predicted)
RATE = Slot("rate", frozenset({"reward", "note"}), rate_view, _predicted)
DELIVER = Slot("deliver", ACTED, _with_answer, _handed_in)
