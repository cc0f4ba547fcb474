"""The slots of STEP's graph, and the guards against loops that are its bookkeeping (limits: adapters/protocols.py)."""

from collections import Counter

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from certigraph.adapters.benchmarks import benchmark_of, limits_of
from certigraph.adapters.context import Context
from certigraph.nodes import acting_slots
from certigraph.nodes.slots import Slot, Update
from certigraph.state.step import (
    Approval,
    StepState,
    Subtask,
    align_view,
    assess_view,
    executor_view,
    planner_view,
)

MOST_REFUSALS = 3
"""Candidates for one action that the Evaluator may refuse; the next one is taken."""

MOST_UNACHIEVABLE = 3
"""Times that the world may refuse the same action before its subtask is refined."""


def _no_subtasks(state: StepState, update: Update, runtime: Runtime[Context]) -> Update:
    update = acting_slots.RESET_TRIAL.record(state, update, runtime)
    return {**update, "subtasks": Overwrite([]), "begun": 0, "refusals": ()}


def _begun(state: StepState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "begun": len(state["turns"]), "refusals": ()}


def _ruled(state: StepState, update: Update, runtime: Runtime[Context]) -> Update:
    approval: Approval = update["approval"]
    refused = () if approval.approved else (f"{state['action'].text}: {approval.reason}",)
    return {**update, "refusals": (*state["refusals"], *refused)}


def _nothing_to_rule(state: StepState, runtime: Runtime[Context]) -> Update | None:
    rules = state["lessons"][-1].rules if state["lessons"] else ()
    return None if rules and len(state["refusals"]) < MOST_REFUSALS else {"approval": Approval()}


def _acted(state: StepState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**acting_slots.ACT.record(state, update, runtime), "refusals": ()}


def _guarded(state: StepState, update: Update, runtime: Runtime[Context]) -> Update:
    subtask: Subtask = update["subtask"]
    if subtask.status == "open" and (reason := _stuck(state, runtime)) and not subtask.whole:
        subtask = subtask.model_copy(update={"status": "failed", "reason": reason})
    return {"subtask": subtask, "subtasks": [subtask] if subtask.status != "open" else []}


def _stuck(state: StepState, runtime: Runtime[Context]) -> str:
    """Why the subtask is to be refined; empty when it may go on."""
    turns, most = state["turns"][state["begun"] :], limits_of(state["task"], runtime).substeps
    refused = Counter(turn.action for turn in turns if not turn.accepted)
    if refused and max(refused.values()) >= MOST_UNACHIEVABLE:
        return f"the world refused {refused.most_common(1)[0][0]!r} {MOST_UNACHIEVABLE} times"
    return f"it was not reached in {most} actions" if len(turns) >= most else ""


def _nothing_to_assess(state: StepState, runtime: Runtime[Context]) -> Update | None:
    unassessed = state["subtask"].whole or state["observation"].done
    return {"subtask": state["subtask"], "subtasks": []} if unassessed else None


def over(state: StepState, runtime: Runtime[Context]) -> bool:
    """Whether the episode is over: as for any agent, or by too many subtasks."""
    reached = acting_slots.episode_reached(state, runtime)
    gold = limits_of(state["task"], runtime).gold
    return acting_slots.finished(state, runtime) or reached is not None or _past_gold(state, gold, runtime)


def _past_gold(state: StepState, times: float, runtime: Runtime[Context]) -> bool:
    # It leaks how long the solution is: the rule of the public code, off unless asked for.
    if not times:
        return False
    length = getattr(benchmark_of(state["task"], runtime), "gold_length", None)
    return length is not None and len(state["history"]) >= times * length(state["task"])


RESET = acting_slots.RESET_TRIAL._replace(record=_no_subtasks)
PLANNER = Slot("planner", frozenset({"subtask"}), planner_view, _begun)
EXECUTOR = Slot("executor", frozenset({"action", "thought"}), executor_view)
ALIGN = Slot("align", frozenset({"approval"}), align_view, _ruled, _nothing_to_rule)
ACT = acting_slots.ACT._replace(record=_acted)
ASSESS = Slot("assess", frozenset({"subtask"}), assess_view, _guarded, _nothing_to_assess)
