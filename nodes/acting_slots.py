"""The slots of the graphs that act without predicates, and the bookkeeping around their operators' answers."""

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.context import Context
from certigraph.nodes.slots import ACTED, OPENED, Slot, Update, forgotten
from certigraph.state.acting import ActingState, decide_view, outline_view, outlined_view, turn_of
from certigraph.state.beliefs import stopped
from certigraph.state.lessons import TrialState, advised_view, recall_view, reflect_view
from certigraph.state.records import Action
from certigraph.state.searching import SEARCH


def _no_turns(state: ActingState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, **forgotten(state), "turns": Overwrite([]), "thought": ""}


def _turned(state: ActingState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "turns": [turn_of(state["thought"], state["action"], update["observation"])]}


def _next_trial(state: TrialState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**_no_turns(state, update, runtime), "trial": state["trial"] + 1}


def _to_depth(state: ActingState, update: Update, runtime: Runtime[Context]) -> Update:
    """A search that does not say how many passages it wants gets as many as the limits say: no world knows them."""
    action: Action = update["action"]
    if action.kind != SEARCH or "k" in action.args:
        return update
    args = {**action.args, "k": limits_of(state["task"], runtime).passages}
    return {**update, "action": action.model_copy(update={"args": args})}


def over(state: ActingState, runtime: Runtime[Context]) -> bool:
    """Whether the episode is over: the world or a gate ended it, its steps are used up, or it goes round in circles."""
    limits = limits_of(state["task"], runtime)
    if stopped(state):
        return True
    return state["observation"].done or len(state["history"]) >= limits.steps or _repeats(state, limits.repeats)


def _repeats(state: ActingState, most: int) -> bool:
    latest = [turn.action for turn in state["turns"][-most:]] if most else []
    return len(latest) == most > 0 and len(set(latest)) == 1


BEGIN = Slot("begin", frozenset({"trial", "trials", "lessons"}), opens_books=True)
RESET = Slot("reset", OPENED, record=_no_turns, opens_books=True)
RESET_TRIAL = Slot("reset", OPENED, record=_next_trial)
RECALL = Slot("recall", frozenset({"lessons"}), recall_view)
OUTLINE = Slot("outline", frozenset({"outline"}), outline_view)
DECIDE = Slot("decide", frozenset({"action", "thought"}), decide_view, _to_depth, types={"action": Action})
DECIDE_OUTLINED = DECIDE._replace(view=outlined_view)
DECIDE_ADVISED = DECIDE._replace(view=advised_view)
ACT = Slot("act", ACTED, record=_turned)
CONCLUDE = Slot("conclude", frozenset({"trials"}))
REFLECT = Slot("reflect", frozenset({"lessons"}), reflect_view)
MEMORY = REFLECT._replace(name="memory")
