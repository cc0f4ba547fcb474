"""The slots of the graphs that act without predicates, and the bookkeeping around their operators' answers."""

from collections import Counter
from typing import Any

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.context import Context
from certigraph.nodes.slots import ACTED, OPENED, Slot, Update, forgotten
from certigraph.state.acting import ActingState, decide_view, outline_view, outlined_view, turn_of
from certigraph.state.beliefs import stopped
from certigraph.state.endings import LimitReached
from certigraph.state.lessons import TrialState, advised_view, nothing_learnt, recall_view, reflect_view
from certigraph.state.records import Action
from certigraph.state.run import RunState
from certigraph.state.searching import SEARCH


def _no_turns(state: ActingState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, **forgotten(state), "turns": Overwrite([]), "thought": ""}


def _turned(state: ActingState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "turns": [turn_of(state["thought"], state["action"], update["observation"])]}


def _next_trial(state: TrialState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**_no_turns(state, update, runtime), "trial": state["trial"] + 1}


def episode_reached(state: Any, runtime: Runtime[Context]) -> LimitReached | None:
    """The limit that ended the episode, if one did: its steps, or STEP's completed or failed subtasks."""
    if finished(state, runtime):
        return None
    limits, subtasks = limits_of(state["task"], runtime), Counter(s.status for s in state.get("subtasks", ()))
    for option, status in (("subtasks", "completed"), ("failures", "failed")):
        most, count = getattr(limits, option), subtasks[status]
        if count > most:
            told = f"an episode ended at {count} {status} subtasks of {most} that it may have"
            return LimitReached("subtasks", most, count, happened=told, option=option)
    return steps_reached(state, runtime)


def _no_further_episode(state: TrialState, runtime: Runtime[Context]) -> Update | None:
    """Raises LimitReached where a limit ended the last episode and no other one is left, or would be the same again."""
    last = state["trials"][-1] if state["trials"] else None
    if last is None or not last.cut:
        return None
    left = state["trial"] < limits_of(state["task"], runtime).trials
    if (not left or nothing_learnt(state["lessons"])) and (reached := episode_reached(state, runtime)):
        raise reached
    return None


def _to_depth(state: ActingState, update: Update, runtime: Runtime[Context]) -> Update:
    """A search that does not say how many passages it wants gets as many as the limits say: no world knows them."""
    action: Action = update["action"]
    if action.kind != SEARCH or "k" in action.args:
        return update
    args = {**action.args, "k": limits_of(state["task"], runtime).passages}
    return {**update, "action": action.model_copy(update={"args": args})}


def over(state: ActingState, runtime: Runtime[Context]) -> bool:
    """Whether the episode is over: as for `finished`, or its steps are used up."""
    return finished(state, runtime) or steps_reached(state, runtime) is not None


def finished(state: ActingState, runtime: Runtime[Context]) -> bool:
    """Whether the world or a gate ended the episode, or it goes round in circles."""
    return state["observation"].done or stopped(state) or _repeats(state, limits_of(state["task"], runtime).repeats)


def steps_reached(state: RunState, runtime: Runtime[Context]) -> LimitReached | None:
    """The limit of world steps, once the episode has used them up."""
    most, taken = limits_of(state["task"], runtime).steps, len(state["history"])
    return LimitReached("steps", most, taken) if taken >= most else None


def require_steps(state: RunState, runtime: Runtime[Context]) -> None:
    """Ask no model for an action that the world would not take. Raises LimitReached where no steps are left."""
    if reached := steps_reached(state, runtime):
        raise reached


def _repeats(state: ActingState, most: int) -> bool:
    latest = [turn.action for turn in state["turns"][-most:]] if most else []
    return len(latest) == most > 0 and len(set(latest)) == 1


BEGIN = Slot("begin", frozenset({"trial", "trials", "lessons"}), opens_books=True)
RESET = Slot("reset", OPENED, record=_no_turns, opens_books=True)
RESET_TRIAL = Slot("reset", OPENED, record=_next_trial, skip=_no_further_episode)
RECALL = Slot("recall", frozenset({"lessons"}), recall_view)
OUTLINE = Slot("outline", frozenset({"outline"}), outline_view)
DECIDE = Slot(
    "decide", frozenset({"action", "thought"}), decide_view, _to_depth, require_steps, types={"action": Action}
)
DECIDE_OUTLINED = DECIDE._replace(view=outlined_view)
DECIDE_ADVISED = DECIDE._replace(view=advised_view)
ACT = Slot("act", ACTED, record=_turned)
CONCLUDE = Slot("conclude", frozenset({"trials"}))
REFLECT = Slot("reflect", frozenset({"lessons"}), reflect_view)
MEMORY = REFLECT._replace(name="memory")
