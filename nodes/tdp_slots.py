"""The slots of TDP's graph, and the scheduling that is their bookkeeping."""

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.context import Context
from certigraph.adapters.episodes import steps_in_parallel
from certigraph.nodes.slots import ACTED, OPENED, Slot, Update
from certigraph.state.dag import Dag, Node
from certigraph.state.run import Entry
from certigraph.state.tdp import (
    SolveView,
    TDPState,
    decompose_view,
    latest_outcomes,
    revise_view,
    steps_taken,
)


def _undecomposed(state: TDPState, update: Update, runtime: Runtime[Context]) -> Update:
    concurrent = steps_in_parallel(update["episode"])
    begun = {"dag": Dag(), "outcomes": Overwrite([]), "gathered": 0, "revisions": 0, "notes": ()}
    return {**update, **begun, "concurrent": concurrent}


def _told(state: TDPState, update: Update, runtime: Runtime[Context]) -> Update:
    statuses = {outcome.node: outcome.status for outcome in latest_outcomes(state)}
    return {**update, "dag": state["dag"].with_status(statuses), "gathered": len(state["outcomes"])}


def _revised(state: TDPState, update: Update, runtime: Runtime[Context]) -> Update:
    return {**update, "revisions": state["revisions"] + 1}


def _unrevisable(state: TDPState, runtime: Runtime[Context]) -> Update | None:
    """Without revisions left the graph is carried out as it is."""
    left = state["revisions"] < limits_of(state["task"], runtime).revisions
    return None if left else {"dag": state["dag"], "notes": (), "revisions": state["revisions"]}


def over(state: TDPState, runtime: Runtime[Context]) -> bool:
    """Whether nothing can be done any more: the world has ended, or its steps are used up."""
    return state["observation"].done or steps_taken(state) >= limits_of(state["task"], runtime).steps


def solve_views(state: TDPState, runtime: Runtime[Context]) -> list[SolveView]:
    """What each node of the next batch gets; one node in a world that cannot be stepped in copies."""
    batch = state["dag"].ready[: None if state["concurrent"] else 1]
    left = limits_of(state["task"], runtime).steps - steps_taken(state)
    return [_solve_view(state, node, _allowed(left, state, len(batch)), len(batch)) for node in batch]


def _allowed(left: int, state: TDPState, batch: int) -> int:
    """The steps of one node: an equal part of what is left, or of the half of it that a batch may take at least.

    So a node that gets nowhere starves none, and one that needs much more than others may have it.
    """
    return max(left // len(state["dag"].pending), left // (2 * batch), 1)


def _solve_view(state: TDPState, node: Node, allowed: int, share: int) -> SolveView:
    return {
        "task": state["task"],
        "node": node,
        "entry": _entry(state, node),
        "steps": allowed,
        "share": share,
        "spent": state["spent"],
    }


def _entry(state: TDPState, node: Node) -> Entry:
    outcomes = {outcome.node: outcome for outcome in state["outcomes"]}
    known = tuple(f"{need}: {outcomes[need].result}" for need in node.needs)
    entry = Entry(
        episode=state["episode"],
        steps=tuple(state["history"]),
        observation=state["observation"],
        known=known,
        last=node == state["dag"].goal,
    )
    if not state["concurrent"]:
        return entry
    before = state["dag"].before(node.id)
    steps = tuple(step for id_ in state["dag"].order() if id_ in before for step in outcomes[id_].steps)
    return entry.model_copy(update={"episode": f"{entry.episode}/{node.id}", "steps": steps, "apart": True})


RESET = Slot("reset", OPENED, record=_undecomposed, opens_books=True)
DECOMPOSE = Slot("decompose", frozenset({"dag", "notes"}), decompose_view)
SOLVE = Slot("solve", frozenset({"outcomes", "usage", "spent"}), nests=True)
GATHER = Slot("gather", ACTED, record=_told)
REVISE = Slot("revise", frozenset({"dag", "notes"}), revise_view, _revised, _unrevisable)
