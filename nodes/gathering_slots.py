"""The slots of CGDP's two interventions and of the final answer. Any graph may take them; in some they are optional."""

from typing import Any

from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import benchmark_of, limits_of
from certigraph.adapters.context import Context
from certigraph.nodes.acting_slots import ACT, DECIDE
from certigraph.nodes.slots import Slot, Update
from certigraph.state.acting import turn_of
from certigraph.state.beliefs import BelievingState, Stagnation, stopped
from certigraph.state.gathering import (
    BY_GATE,
    BY_METHOD,
    BY_ROUNDS,
    BY_STEPS,
    answer_view,
    gate_view,
    latest_round,
    memory_view,
)
from certigraph.state.records import Action
from certigraph.state.run import RunState
from certigraph.state.searching import FINISH


def answering(state: RunState, runtime: Runtime[Context]) -> bool:
    """Whether the task's benchmark takes an answer, so that one can be forced at the end."""
    return getattr(benchmark_of(state["task"], runtime), "answers", False)


def steps_spent(state: BelievingState, runtime: Runtime[Context]) -> bool:
    """Whether the world takes no further step of this episode but an answer."""
    return len(state["history"]) >= limits_of(state["task"], runtime).steps


def forced_from(end: str, state: BelievingState, runtime: Runtime[Context]) -> str:
    """The edge by which a run leaves without its goal: `forced` where its world still takes an answer, else `end`."""
    return "forced" if answering(state, runtime) and not state["observation"].done else end


def unless_spent(edge: str, state: BelievingState, runtime: Runtime[Context]) -> str:
    """The edge on which a run goes on, unless its world takes nothing but an answer any more."""
    return forced_from(edge, state, runtime) if steps_spent(state, runtime) else edge


def _round_kept(state: BelievingState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "rounds": latest_round(state)}


def _nothing_yet(state: BelievingState, runtime: Runtime[Context]) -> Update | None:
    begun = state["history"] and state.get("action")  # a part of a run finds steps that are not its own
    return None if begun else {"stagnation": Stagnation(), "rounds": []}


def _forced(state: Any, update: Update, runtime: Runtime[Context]) -> Update:
    """Mark the answer with what forced it: it is certified by nobody."""
    action: Action = update["action"]
    if action.kind != FINISH:
        return update
    return {**update, "action": action.model_copy(update={"args": {**action.args, "forced": _force(state, runtime)}})}


def _force(state: Any, runtime: Runtime[Context]) -> str:
    if stopped(state):
        return BY_GATE
    if steps_spent(state, runtime):
        return BY_STEPS
    return BY_METHOD if "plan" in state else BY_ROUNDS


def _unanswerable(state: BelievingState, runtime: Runtime[Context]) -> Update | None:
    taken = answering(state, runtime) and not state["observation"].done
    return None if taken else {}


def _delivered(state: Any, update: Update, runtime: Runtime[Context]) -> Update:
    turned = {"turns": [turn_of("", state["action"], update["observation"])]} if "turns" in state else {}
    return {**update, **turned}


MEMORY = Slot("memory", frozenset({"belief"}), memory_view)
EXTRACT = MEMORY._replace(name="extract")
GATE = Slot("gate", frozenset({"stagnation"}), gate_view, _round_kept, _nothing_yet)
ANSWER = Slot("answer", frozenset({"action"}), answer_view, _forced, _unanswerable)
DELIVER = ACT._replace(name="deliver", record=_delivered)
DECIDE_REMEMBERING = DECIDE._replace(writes=DECIDE.writes | {"belief"})
"""For harnesses that keep a memory of their own, in the belief while that is native."""
