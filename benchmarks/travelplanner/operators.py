"""The SDP operators for TravelPlanner (SDP, appendix A.2).

Propose, Realize and Validate are deterministic, except that in Realize a model chooses among options. As in the SDP
paper, Replan retries the remaining predicates; as an extension, it goes back to an earlier state or tries another order
of cities.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any, NamedTuple

from langgraph.runtime import Runtime
from pydantic import JsonValue

from certigraph.adapters.benchmarks import limits_of
from certigraph.adapters.models.calls import choose, deliberate
from certigraph.adapters.models.prompts import Prompt, bullet_list, numbered_list, paragraphs
from certigraph.adapters.processes import run_in_thread
from certigraph.adapters.protocols import Context, Operator
from certigraph.benchmarks.travelplanner.options import (
    BUDGET,
    MEAL_DAY,
    RENDER,
    TRANSPORT,
    ItineraryDraft,
    Option,
    OptionOffer,
    Trip,
    draft_of,
    predicates_of,
    trip_of,
)
from certigraph.benchmarks.travelplanner.planning import (
    AFFORDABILITY,
    AVOID,
    CHEAPEST,
    MISSING_CUISINES,
    SKIP_MEALS,
    OptionChooser,
    book_option,
    choices_of,
)
from certigraph.benchmarks.travelplanner.trips import TravelTrips
from certigraph.state.certified_states import CertifiedState, certified_states
from certigraph.state.records import RESTORE, Action, Attempt, Predicate, Verdict
from certigraph.state.sdp import ProposeView, RealizeView, SDPReplanView, ValidateView

# Replan. As in the SDP paper it retries the remaining predicates; the extensions go back to an earlier state or change
# the route.
#
# Going back is itself a predicate ("the draft is again as it was after n decisions"): the world clears the entries,
# the validator checks it, and the certificate names the earlier certified state. The decision that is taken again
# carries an argument that restricts it. No decision gets the same argument twice, so replanning terminates.


class CertifiedDecision(NamedTuple):
    """Decision that was certified: its predicate `target`, the chooser of its options, and the drafts around it.

    `number` counts earlier decisions. `before` and `after` are the drafts of the itinerary without and with it.
    """

    number: int
    target: Predicate
    chooser: OptionChooser
    before: ItineraryDraft
    after: ItineraryDraft


class RedoDecision(NamedTuple):
    """Decision to take again: the first `keep` decisions remain, then `predicate` is decided with a restriction."""

    keep: int
    predicate: Predicate


def replan_tail(benchmark: TravelTrips, state: SDPReplanView) -> list[Predicate]:
    """Return the predicates that replace the remaining plan; empty if nothing is left to try."""
    tail, config = list(state["plan"][state["head"] :]), benchmark.config
    if not (config.rollback or config.reorder):
        return tail
    redo = next(_find_redos(benchmark, state), None) if config.rollback else None
    if redo:
        chain = [*state["certified"].predicates, *tail]
        return [*_restore_draft(benchmark, state, redo.keep), redo.predicate, *chain[redo.keep + 1 :]]
    if config.reorder and (trip := _find_untried_trip(benchmark, state)):
        return [*_restore_draft(benchmark, state, 0), *predicates_of(benchmark.query(state["task"]), trip)]
    return []


def _find_redos(benchmark: TravelTrips, state: SDPReplanView) -> Iterator[RedoDecision]:
    """Yield earlier decisions that may make the current predicate reachable if they are taken differently."""
    target, decisions = state["plan"][state["head"]], _certified_decisions(benchmark, state)
    if target.kind == TRANSPORT:
        yield from _change_mode(decisions)
    if target.kind == BUDGET:
        yield from _serve_missing_cuisines(decisions)
    if state["attempts"][-1].action.args.get("blocked") == AFFORDABILITY:
        yield from _reduce_costs(decisions)
        yield from _skip_meals(benchmark, state)


def _certified_decisions(benchmark: TravelTrips, state: SDPReplanView) -> list[CertifiedDecision]:
    """Return all certified decisions, the latest first."""
    certified: CertifiedState = state["certified"]
    drafts = [draft_of(certified.actions[:number]) for number in range(len(certified.actions) + 1)]
    choosers = [benchmark.chooser(state["task"], target) for target in certified.predicates]
    numbers = range(len(choosers))
    return [*map(CertifiedDecision, numbers, certified.predicates, choosers, drafts, drafts[1:])][::-1]


def _change_mode(decisions: list[CertifiedDecision]) -> Iterator[RedoDecision]:
    for number, target, chooser, before, after in decisions:
        if target.kind == TRANSPORT and AVOID not in target.args:
            self_driving = "self-driving" in after.kinds()
            restricted = _add_argument(target, AVOID, ["self-driving"] if self_driving else ["flight", "taxi"])
            if chooser.offer(choices_of(chooser.catalog, restricted)[0], before, restricted).options:
                yield RedoDecision(number, restricted)


def _serve_missing_cuisines(decisions: list[CertifiedDecision]) -> Iterator[RedoDecision]:
    missing = decisions[0].chooser.missing_cuisines(decisions[0].after)
    for number, target, chooser, before, _ in decisions:
        if target.kind == MEAL_DAY and MISSING_CUISINES not in target.args:
            restricted = _add_argument(target, MISSING_CUISINES)
            offered = chooser.offer(choices_of(chooser.catalog, restricted)[0], before, restricted).options
            if any(cuisine in option.cuisines for option in offered for cuisine in missing):
                yield RedoDecision(number, restricted)


def _reduce_costs(decisions: list[CertifiedDecision]) -> Iterator[RedoDecision]:
    """Yield the decision whose cheapest options save the most, if any saves something."""
    savings = [(_compute_saving(decision), decision) for decision in decisions]
    largest, decision = max(savings, key=lambda saving: saving[0], default=(0.0, None))
    if decision and largest > 0:
        yield RedoDecision(decision.number, _add_argument(decision.target, CHEAPEST))


def _compute_saving(decision: CertifiedDecision) -> float:
    """Return the dollars that the cheapest options would have saved in a decision."""
    chooser, draft = decision.chooser, decision.before
    for choice in choices_of(chooser.catalog, decision.target):
        offered = chooser.offer(choice, draft, decision.target).options
        if not offered:
            return 0.0
        draft = book_option(draft, choice, offered[0])
    return chooser.money_left(draft) - chooser.money_left(decision.after)


def _skip_meals(benchmark: TravelTrips, state: SDPReplanView) -> Iterator[RedoDecision]:
    """Yield decisions to leave out the meals of a travel day, which the official rules allow; the latest day first."""
    chain = [*state["certified"].predicates, state["plan"][state["head"]]]
    travel_days = benchmark.trip(benchmark.query(state["task"])).travel_days
    for number, target in reversed([*enumerate(chain)]):
        if target.kind == MEAL_DAY and target.args["day"] in travel_days and SKIP_MEALS not in target.args:
            yield RedoDecision(number, _add_argument(target, SKIP_MEALS))


def _add_argument(target: Predicate, name: str, value: JsonValue = True) -> Predicate:
    return target.model_copy(update={"args": {**target.args, name: value}})


def _restore_draft(benchmark: TravelTrips, state: SDPReplanView, keep: int) -> list[Predicate]:
    """Return, in a list, the predicate "the draft is again as it was after `keep` decisions"; empty if all are kept."""
    certified, stuck = state["certified"], state["plan"][state["head"]]
    actions = certified.actions[:keep]
    if len(actions) == len(certified.actions):
        return []
    to = next(n for n, earlier in enumerate(certified_states(state["certificates"])) if earlier.actions == actions)
    catalog = benchmark.chooser(state["task"], stuck).catalog
    slots = {str(slot) for choice in choices_of(catalog, stuck) for slot in choice.slots}
    cleared: list[JsonValue] = [*sorted({*draft_of(certified.actions[keep:]).booked, *slots})]
    text = f"the draft is again as it was after {keep} decisions"
    args: dict[str, JsonValue] = {"to": to, "clear": cleared, "route": stuck.args["route"]}
    return [Predicate(text=text, kind=RESTORE, args=args)]


def _find_untried_trip(benchmark: TravelTrips, state: SDPReplanView) -> Trip | None:
    """Return the trip in the next order of the cities that the run has not tried; None if all were tried."""
    query = benchmark.query(state["task"])
    predicates = [*state["plan"], *(attempt.target for attempt in state["attempts"])]
    tried = {tuple(route) for p in predicates if isinstance(route := p.args.get("route"), list)}
    cities = benchmark.trip(query).cities
    return next((trip_of(query, order) for order in permutations(cities) if order not in tried), None)


# Propose, Realize and Validate: deterministic except for one model call that chooses among options.


def create_operators(benchmark: TravelTrips) -> Mapping[str, Operator]:
    """Create the SDP operators propose, realize, validate and replan for one benchmark, by name."""

    async def propose(state: ProposeView, runtime: Runtime[Context]) -> dict[str, Any]:
        query = benchmark.query(state["task"])
        return {"plan": predicates_of(query, await run_in_thread(benchmark.trip, query))}

    async def realize(state: RealizeView, runtime: Runtime[Context]) -> dict[str, Any]:
        draft, target = draft_of(state["certified"].actions), state["target"]
        fixed = _fixed_action(target)
        return {"action": fixed or await _choose_bookings(benchmark, state, draft, runtime)}

    async def validate(state: ValidateView, runtime: Runtime[Context]) -> dict[str, Any]:
        target, observation = state["tail"][0], state["observation"]
        if not observation.accepted:
            return {"verdict": Verdict(depth=0, reason=observation.text, decided_by="code")}
        reasons = await run_in_thread(benchmark.violations, state["task"], target, observation)
        if reasons:
            return {"verdict": Verdict(depth=0, reason="; ".join(reasons), decided_by="code")}
        return {"verdict": Verdict(depth=1, evidence=observation.text, decided_by="code")}

    async def replan(state: SDPReplanView, runtime: Runtime[Context]) -> dict[str, Any]:
        return {"plan": await run_in_thread(replan_tail, benchmark, state)}

    return {"propose": propose, "realize": realize, "validate": validate, "replan": replan}


def _fixed_action(target: Predicate) -> Action | None:
    """Return the action of a predicate that leaves nothing to choose; None for other predicates."""
    route = target.args["route"]
    if target.kind == BUDGET:
        return Action(text="add up the costs and the cuisines", kind=BUDGET, args={"route": route})
    if target.kind == RENDER:
        return Action(text="write the itinerary", kind=RENDER, args={"route": route})
    if target.kind == RESTORE:
        return Action(text="clear entries", kind=RESTORE, args={"clear": target.args["clear"], "route": route})
    return None


async def _choose_bookings(
    benchmark: TravelTrips, state: RealizeView, draft: ItineraryDraft, runtime: Runtime[Context]
) -> Action:
    """Make the choices of the current predicate one after another, and return the action for all bookings."""
    target, chooser = state["target"], benchmark.chooser(state["task"], state["target"])
    max_options, book, chosen = limits_of(state["task"], runtime).options, dict[str, Any](), list[str]()
    for choice in choices_of(chooser.catalog, target):
        offered = await run_in_thread(chooser.offer, choice, draft, target)
        if not offered.options:
            return _blocked_action(offered, chosen)
        shown = offered.options[:max_options]
        option = shown[0]
        if len(shown) > 1:
            situation = await run_in_thread(_describe_situation, chooser, draft, state)
            option = await _choose_option(shown, choice.label, situation, state, runtime)
        draft = book_option(draft, choice, option)
        book |= {str(slot): option.text for slot in choice.slots}
        chosen.append(f"{choice.label}: {option.label}")
    text = "; ".join(dict.fromkeys(book.values()))
    return Action(text=text, kind="book", args={"book": book, "route": target.args["route"]})


def _blocked_action(offered: OptionOffer, chosen: Sequence[str]) -> Action:
    """Return the action of a predicate for which nothing can be booked; its text says what had been chosen before."""
    nothing = f"nothing to book: {offered.diagnosis}"
    text = f"{nothing}, after choosing {'; '.join(chosen)}" if chosen else nothing
    return Action(text=text, kind="none", args={"blocked": offered.blocked_by})


# The question by which a model chooses an option. What stays the same comes first, what grows next (prefix caches).


class TripSituation(NamedTuple):
    """What a choice depends on besides its options: the other choices of the trip, the money, the cuisines."""

    choices: tuple[str, ...]
    """All choices of the plan, made and to be made, in order."""
    spent: float
    budget: int
    missing_cuisines: tuple[str, ...]
    """Requested cuisines that no chosen restaurant serves yet."""


def _describe_situation(chooser: OptionChooser, draft: ItineraryDraft, state: RealizeView) -> TripSituation:
    chain = [*state["certified"].predicates, state["target"], *state["ahead"]]
    choices = [choice.label for predicate in chain for choice in choices_of(chooser.catalog, predicate)]
    spent = chooser.budget - chooser.money_left(draft)
    return TripSituation(tuple(dict.fromkeys(choices)), spent, chooser.budget, tuple(chooser.missing_cuisines(draft)))


async def _choose_option(
    offered: Sequence[Option], what: str, situation: TripSituation, state: RealizeView, runtime: Runtime[Context]
) -> Option:
    """Ask the model to choose one of several options; where money is at stake, it gives its reasons first."""
    labels = [_label_with_cuisines(one) if situation.missing_cuisines else one.label for one in offered]
    labels = _distinct_labels(labels)
    prompt = Prompt(RULES.format(query=state["task"].goal), _format_choice(labels, what, situation, state))
    if any(option.cost for option in offered):
        choice = (await deliberate(prompt, labels, role="executor", runtime=runtime)).choice
    else:
        choice = await choose(prompt, labels, role="executor", runtime=runtime)
    return offered[labels.index(choice)]


def _format_choice(labels: Sequence[str], what: str, situation: TripSituation, state: RealizeView) -> str:
    choices, spent, budget, missing = situation
    refused = [_describe_refusal(attempt) for attempt in state["attempts"]]
    tried = f"Tried before for the same condition ({state['target'].text}), and why it failed; choose something else"
    parts = {
        "The decisions of this trip, in this order": bullet_list(choices),
        tried: numbered_list(refused) if refused else "",
        "Options": bullet_list(labels),
    }
    return paragraphs(
        *(f"{title}:\n{text}" for title, text in parts.items() if text),
        f"Spent so far: ${spent:g} of ${budget}; ${budget - spent:g} are left.",
        OWED_CUISINES.format(cuisines=", ".join(missing)) if missing else "",
        f"Now choose {what}.",
    )


def _describe_refusal(attempt: Attempt) -> str:
    text, reason = attempt.action.text, attempt.verdict.reason
    return reason if reason == text else f"{text}: {reason or 'the condition did not hold'}"


def _label_with_cuisines(option: Option) -> str:
    return f"{option.label.removesuffix(')')}; {option.cuisines})" if option.cuisines else option.label


def _distinct_labels(labels: list[str]) -> list[str]:
    return [label if label not in labels[:n] else f"{label} no. {n + 1}" for n, label in enumerate(labels)]


RULES = """\
You plan a trip and decide one booking after another. Every option that you are shown exists and keeps the rules that a
single booking can break: it can be paid with the money that is left, it goes with the transport chosen before, a place
to stay has the room, the rules and the nights that the request asks for, and nothing is booked twice. You see to the
trip as a whole: think of what the request wants and of what must still be paid for, then give one option, copied
exactly. Prices in brackets are for all travellers, those of places to stay for all nights.

Request:
{query}
"""

OWED_CUISINES = """\
Requested cuisines that no chosen restaurant serves yet: {cuisines}. Which option serves one at a price that the rest of
the trip can bear?"""
