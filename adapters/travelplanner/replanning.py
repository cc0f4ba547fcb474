"""TravelPlanner's Replan. The paper's retries the same tail; beyond it, a run can truly go back, or go another way.

Going back is itself a predicate ("the draft is again as it was after n decisions"): the world clears the entries, the
validator checks it, and the certificate names the certified state that was returned to.
"""

from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import TYPE_CHECKING, NamedTuple

from certigraph.adapters.travelplanner.choosing import Chooser, choices
from certigraph.adapters.travelplanner.draft import draft_of
from certigraph.adapters.travelplanner.options import Option
from certigraph.adapters.travelplanner.trip import BUDGET, MEAL_DAY, TRANSPORT, Trip, plan_of, trip_of
from certigraph.state.certified import certified_states
from certigraph.state.records import RESTORE, Arguments, Predicate
from certigraph.state.sdp import ReplanView

if TYPE_CHECKING:
    from certigraph.adapters.travelplanner.benchmark import TravelPlanner


class Culprit(NamedTuple):
    """A certified decision to take back: how many decisions stay, and the predicate to decide anew."""

    kept: int
    again: Predicate


def replanned(benchmark: "TravelPlanner", state: ReplanView) -> list[Predicate]:
    """The new plan tail; empty when there is nothing left to try."""
    tail = list(state["plan"][state["head"] :])
    config = benchmark.config
    if not (config.rollback or config.reorder):
        return tail
    culprit = next(_culprits(benchmark, state), None) if config.rollback else None
    if culprit:
        undone = state["certified"].predicates[culprit.kept + 1 :]
        return [_restore(benchmark, state, culprit.kept), culprit.again, *undone, *tail]
    if config.reorder and (trip := _untried(benchmark, state)):
        return [_restore(benchmark, state, 0), *plan_of(benchmark.query(state["task"]), trip)]
    return []


def _culprits(benchmark: "TravelPlanner", state: ReplanView) -> Iterator[Culprit]:
    """Decisions that, taken differently, may free the target; the latest first."""
    target, decided = state["plan"][state["head"]], state["certified"]
    for kept in reversed(range(len(decided.predicates))):
        decision = decided.predicates[kept]
        chooser = benchmark.chooser(state["task"], decision)
        for choice in choices(chooser.catalog, decision)[:1]:
            draft = draft_of(decided.actions[:kept])
            taken = draft_of([decided.actions[kept]]).booked[str(choice.slots[0])]
            again = _again(target, decision, taken)
            if _helps(target, decision, taken, chooser.offer(choice, draft, again).options, chooser):
                yield Culprit(kept, again)


def _helps(target: Predicate, decision: Predicate, taken: str, offered: Sequence[Option], chooser: Chooser) -> bool:
    if target.kind == TRANSPORT:
        return decision.kind == TRANSPORT and bool(offered)
    if target.kind == BUDGET and decision.kind == MEAL_DAY:
        return bool(offered) and not decision.args.get("owed")
    cost = chooser.cost_of(decision, taken)
    return any(option.cost < cost for option in offered)


def _again(target: Predicate, decision: Predicate, taken: str) -> Predicate:
    avoided = decision.args.get("avoid")
    owed = target.kind == BUDGET and decision.kind == MEAL_DAY
    extra: Arguments = {"owed": True} if owed else {"avoid": [*(avoided if isinstance(avoided, list) else []), taken]}
    return decision.model_copy(update={"args": {**decision.args, **extra}})


def _restore(benchmark: "TravelPlanner", state: ReplanView, kept: int) -> Predicate:
    """The predicate that the draft is as it was after the first `kept` decisions."""
    actions = state["certified"].actions[:kept]
    to = next(n for n, earlier in enumerate(certified_states(state["certificates"])) if earlier.actions == actions)
    stuck, gone = state["plan"][state["head"]], draft_of(state["certified"].actions[kept:])
    catalog = benchmark.chooser(state["task"], stuck).catalog
    slots: list[str] = [str(slot) for choice in choices(catalog, stuck) for slot in choice.slots]
    return Predicate(
        text=f"the draft is again as it was after {kept} decisions",
        kind=RESTORE,
        args={"to": to, "clear": [*sorted({*gone.booked, *slots})], "route": stuck.args["route"]},
    )


def _untried(benchmark: "TravelPlanner", state: ReplanView) -> Trip | None:
    """The trip along the next order of the cities that no predicate of the run has used."""
    query = benchmark.query(state["task"])
    seen = [*state["plan"], *(attempt.target for attempt in state["attempts"])]
    tried = {tuple(route) for p in seen if isinstance(route := p.args.get("route"), list)}
    cities = benchmark.trip(query).cities
    return next((trip_of(query, order) for order in permutations(cities) if order not in tried), None)
