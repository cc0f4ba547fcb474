"""TravelPlanner's two worlds: `TravelWorld` fills a draft by bookings, `ToolWorld` offers tools and a notebook."""

from collections.abc import Callable

from certigraph.adapters.models.prompts import numbered_list
from certigraph.adapters.protocols import Environment
from certigraph.benchmarks.travelplanner.options import BUDGET, NOTHING, RENDER, ItineraryDraft, TripCatalog, draft_of
from certigraph.benchmarks.travelplanner.planning import find_open_slots, find_repeats, find_unknown_entries
from certigraph.benchmarks.travelplanner.plans import WrittenPlan
from certigraph.benchmarks.travelplanner.queries import TravelQuery
from certigraph.benchmarks.travelplanner.scoring import score_plan
from certigraph.benchmarks.travelplanner.tools import RECORDS, WRITE, Lookups, RefusedError, TravelToolCall, parse_call
from certigraph.benchmarks.travelplanner.written_plans import COST, DELIVER, PlanSubmission
from certigraph.state.records import RESTORE, Action, Arguments, Observation, Scores
from certigraph.state.run import parse_action

# World of bookings: actions fill a draft itinerary, and the world checks each one against the database.

Route = tuple[str, ...]


class TravelWorld(Environment):
    """World in which one trip is planned. Actions book or clear plan entries, add up costs, or write the itinerary.

    Agents that write the complete plan as text use the actions `cost` and `deliver` instead.
    """

    concurrent = False

    def __init__(self, query: TravelQuery, catalog_of: Callable[[Route | None], TripCatalog]) -> None:
        self._query, self._catalog_of = query, catalog_of
        self._catalog = catalog_of(None)
        self._draft = ItineraryDraft()
        self._submission = PlanSubmission(query, self._catalog.sandbox)

    def reset(self) -> Observation:
        """Start with an empty draft, on the route of the reference information."""
        self._catalog, self._draft = self._catalog_of(None), ItineraryDraft()
        self._submission = PlanSubmission(self._query, self._catalog.sandbox)
        return Observation(text=self._summary())

    def step(self, action: Action) -> Observation:
        """Carry out one action; a booking of something that is not in the database is rejected."""
        if route := action.args.get("route"):
            self._catalog = self._catalog_of(tuple(map(str, route)) if isinstance(route, list) else None)
        if action.kind == "book":
            return self._book(action)
        if action.kind == RESTORE:
            return self._clear(action)
        if action.kind in (BUDGET, RENDER):
            return self._add_up(written=action.kind == RENDER)
        if action.kind in (COST, DELIVER):
            return self._submission.step(action)
        return Observation(text=action.text, accepted=False)

    def view(self) -> str:
        """Describe the cost of the draft, the budget, and the requested cuisines that no restaurant serves yet."""
        return self._summary()

    def admissible(self) -> None:
        """Return None: there are too many bookings to list. The operator Realize offers those that are allowed."""

    def score(self) -> Scores:
        """Score the plan delivered as text, or else the draft, by the official rules; `answer` is the scored plan."""
        plan = self._plan()
        score = score_plan(self._query, plan, self._catalog.sandbox)
        verdicts = {**score.commonsense, **score.hard}
        parts = {name: None if j.passed is None else float(j.passed) for name, j in verdicts.items()}
        parts |= {"cost": score.cost, **self._submission.parts}
        answer = None if plan is None else [dict(day) for day in plan]
        return Scores(value=float(score.passed), parts=parts, answer=answer)

    def close(self) -> None:
        """Do nothing: no resource is held."""

    def _plan(self) -> WrittenPlan | None:
        if self._submission.delivered:
            return self._submission.plan
        return self._draft.plan(self._catalog.trip) if self._draft.booked else None

    def _book(self, action: Action) -> Observation:
        requested = draft_of([action])
        unknown = find_unknown_entries(requested, self._catalog.sandbox)
        if unknown or not requested.booked:
            return Observation(text=f"Refused: not in the data: {'; '.join(unknown) or action.text}", accepted=False)
        before = self._draft
        self._draft = ItineraryDraft({**before.booked, **requested.booked})
        booked = "; ".join(dict.fromkeys(t.rstrip(";") for t in requested.booked.values() if t != NOTHING)) or "nothing"
        data: Arguments = {"booked": dict(requested.booked), **self._totals()}
        return Observation(text=f"Booked: {booked}. {self._summary()}", data=data)

    def _add_up(self, *, written: bool) -> Observation:
        unfilled = find_open_slots(self._catalog.trip, self._draft)
        data: Arguments = {**self._totals(), "open": [*unfilled]}
        if not written:
            return Observation(text=self._summary(), data=data)
        text = f"Itinerary of {self._catalog.trip.days} days written."
        return Observation(text=text, data={**data, "written": True}, done=True)

    def _clear(self, action: Action) -> Observation:
        cleared = action.args.get("clear")
        slots = set(map(str, cleared)) if isinstance(cleared, list) else set()
        self._draft = ItineraryDraft({slot: text for slot, text in self._draft.booked.items() if slot not in slots})
        return Observation(text=f"Cleared {len(slots)} entries. {self._summary()}", data={"cleared": sorted(slots)})

    def _totals(self) -> Arguments:
        catalog = self._catalog
        missing = catalog.missing_cuisines(self._draft)
        cost = self._draft.cost(catalog.trip, catalog.people, catalog.sandbox)
        return {
            "cost": cost,
            "owed": [*missing],
            "kinds": [*sorted(self._draft.kinds())],
            "repeats": [*find_repeats(self._draft)],
        }

    def _summary(self) -> str:
        totals = self._totals()
        owed = ", ".join(map(str, totals["owed"])) if isinstance(totals["owed"], list) and totals["owed"] else "none"
        return f"Cost so far ${totals['cost']:g} of ${self._query.budget}; cuisines still owed: {owed}."


# World of tools: look up, keep a notebook, deliver the plan (TDP appendix A).


class ToolWorld(TravelWorld):
    """World with tools and a notebook. Plans are delivered and scored as in `TravelWorld`; nothing is booked here.

    No observation depends on earlier steps, not even the reply to a note. So sub-tasks may run concurrently, each in
    its own copy of the world: observations are the same as in one world that takes all steps in sequence. The only
    exception is the answer to `RECORDS`, which no agent can call: it lists what the tools answered before.
    """

    concurrent = True

    def __init__(self, query: TravelQuery, catalog_of: Callable[[Route | None], TripCatalog], lookups: Lookups) -> None:
        super().__init__(query, catalog_of)
        self._lookups = lookups
        self._notes: tuple[str, ...] = ()
        self._answers: dict[str, str] = {}

    def reset(self) -> Observation:
        """Start with an empty notebook and no delivered plan."""
        super().reset()
        self._notes, self._answers = (), {}
        return Observation(text="The notebook is empty.")

    def step(self, action: Action) -> Observation:
        """Call a tool, or deliver the plan in `args["plan"]`, which ends the episode.

        An action that is not a tool call, or that names something not in the data, is rejected with the correct form or
        similar names.
        """
        if action.text == RECORDS:
            return Observation(text="", data={RECORDS: dict(self._answers)})
        parsed_action = parse_action(action)
        if parsed_action and parsed_action.kind == DELIVER:
            plan = parsed_action.args.get("plan", parsed_action.args.get("query"))
            return super().step(parsed_action.model_copy(update={"args": {"plan": plan}}))
        try:
            return self._answer(parse_call(action))
        except RefusedError as error:
            return Observation(text=str(error), accepted=False)

    def view(self) -> str:
        """Show the notebook with numbered entries."""
        return numbered_list(self._notes)

    def _answer(self, call: TravelToolCall) -> Observation:
        if call.tool == WRITE:
            self._notes = (*self._notes, *call.values)
            return Observation(text="Written to the notebook.", data={"tool": WRITE})
        observation = self._lookups.answer(call)
        self._answers[f"{call.tool}[{', '.join(call.values)}]"] = observation.text
        return observation.model_copy(update={"data": {"tool": call.tool, **observation.data}})
