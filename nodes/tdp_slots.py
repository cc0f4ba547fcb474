"""The slots of TDP's graph, and the scheduling that is their bookkeeping."""

from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from certigraph.adapters.benchmarks import context_of, limits_of
from certigraph.adapters.context import Context
from certigraph.adapters.episodes import steps_in_parallel
from certigraph.nodes.slots import ACTED, OPENED, Slot, Update
from certigraph.state.dag import Dag, Node
from certigraph.state.endings import Fault, LimitReached
from certigraph.state.records import Spent
from certigraph.state.revision import ran_otherwise
from certigraph.state.run import Entry
from certigraph.state.tdp import (
    SolveView,
    TDPState,
    decompose_view,
    latest_outcomes,
    revise_view,
    settled,
    steps_taken,
)

GRAPHED = frozenset({"dag", "notes"})

KEPT_STEPS = 3
"""World steps that are kept for every node that comes later."""


def _undecomposed(state: TDPState, update: Update, runtime: Runtime[Context]) -> Update:
    concurrent = steps_in_parallel(update["episode"])
    begun = {"dag": Dag(), "outcomes": Overwrite([]), "gathered": 0, "revisions": 0, "notes": Overwrite([])}
    return {**update, **begun, "concurrent": concurrent}


def _told(state: TDPState, update: Update, runtime: Runtime[Context]) -> Update:
    statuses = {outcome.node: outcome.status for outcome in latest_outcomes(state)}
    return {**update, "dag": state["dag"].with_status(statuses), "gathered": len(state["outcomes"])}


def _decomposed(state: TDPState, update: Update, runtime: Runtime[Context]) -> Update:
    dag, most = update["dag"], limits_of(state["task"], runtime).nodes
    if not 1 <= len(dag.nodes) <= most or len(dag.pending) < len(dag.nodes):
        told = f"decompose gave {len(dag.nodes)} nodes, {len(dag.pending)} of them pending; it must give 1 to {most}"
        raise Fault("operator", f"{told}, all pending; more of them with --budget nodes=N, or Limits(nodes=N)")
    return {**update, "notes": [f"decomposing: {note}" for note in update["notes"]]}


def _revised(state: TDPState, update: Update, runtime: Runtime[Context]) -> Update:
    if touched := ran_otherwise(state["dag"], update["dag"]):
        raise Fault("operator", f"revise changed what has run, or says that something has: {', '.join(touched)}")
    number = state["revisions"] + 1
    return {**update, "revisions": number, "notes": [f"revision {number}: {note}" for note in update["notes"]]}


def _unrevisable(state: TDPState, runtime: Runtime[Context]) -> Update | None:
    """Without revisions left the graph is carried out as it is.

    Raises LimitReached where the task is not settled and there are no steps left for it.
    """
    limits, left = limits_of(state["task"], runtime), _steps_left(state, runtime)
    if left <= 0 and not settled(state):
        raise LimitReached("steps", limits.steps, limits.steps - left)
    revisable = state["revisions"] < limits.revisions and left > 0
    return None if revisable else {"dag": state["dag"], "notes": [], "revisions": state["revisions"]}


def solve_views(state: TDPState, runtime: Runtime[Context]) -> list[SolveView]:
    """What each node of the next batch gets; one node in a world that cannot be stepped in copies."""
    batch = _batch(state)
    left, entered = _steps_left(state, runtime), context_of(runtime).entry
    return [
        _solve_view(state, _entry(state, node, entered), node, _allowed(left, state, len(batch)), len(batch))
        for node in batch
    ]


def _batch(state: TDPState) -> tuple[Node, ...]:
    """The ready nodes; one that spent its part of the budget waits until no other is ready, and then is alone."""
    cut_off = {outcome.node for outcome in state["outcomes"] if outcome.status == "pending"}
    fresh = tuple(node for node in state["dag"].ready if node.id not in cut_off)
    return fresh if fresh and state["concurrent"] else (fresh or state["dag"].ready)[:1]


def _steps_left(state: TDPState, runtime: Runtime[Context]) -> int:
    """World steps; the limit of a run that is a part of another counts what was done before it."""
    entered = context_of(runtime).entry
    before = len(entered.steps) if entered else 0
    return limits_of(state["task"], runtime).steps - before - steps_taken(state)


def _allowed(left: int, state: TDPState, batch: int) -> int:
    """The steps of one node: its part of what is left, a few kept for each that comes later, or else an equal part."""
    pending = len(state["dag"].pending)
    return max((left - KEPT_STEPS * (pending - batch)) // batch, left // pending, 1)


def _solve_view(state: TDPState, entry: Entry, node: Node, allowed: int, share: int) -> SolveView:
    return {
        "task": state["task"],
        "node": node,
        "entry": entry,
        "steps": allowed,
        "share": share,
        "spent": state["spent"],
    }


def _entry(state: TDPState, node: Node, entered: Entry | None) -> Entry:
    """Where a node begins; what was done before a run that is itself a part of another comes before everything."""
    outcomes = {outcome.node: outcome for outcome in state["outcomes"]}
    known = tuple(f"{need}: {outcomes[need].result}" for need in node.needs)
    entry = Entry(
        episode=state["episode"],
        steps=tuple(state["history"]),
        observation=state["observation"],
        known=known,
        last=node == state["dag"].goal and (entered is None or entered.last),
    )
    if not state["concurrent"]:
        return entry
    before = state["dag"].before(node.id)
    done = [step for id_ in state["dag"].order() if id_ in before for step in outcomes[id_].steps]
    steps = (*(entered.steps if entered else ()), *done)
    return entry.model_copy(update={"episode": f"{entry.episode}/{node.id}", "steps": steps, "apart": True})


RESET = Slot("reset", OPENED, record=_undecomposed, opens_books=True)
DECOMPOSE = Slot("decompose", GRAPHED, decompose_view, _decomposed, types={"dag": Dag})
SOLVE = Slot("solve", frozenset({"outcomes", "usage", "spent"}), nests=True, types={"outcomes": list, "spent": Spent})
GATHER = Slot("gather", ACTED, record=_told)
REVISE = Slot("revise", GRAPHED, revise_view, _revised, _unrevisable, types={"dag": Dag})
