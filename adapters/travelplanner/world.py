"""TravelPlanner as a world of bookings and as a world of tools."""

from collections.abc import Callable

from certigraph.adapters.models.calls import numbered
from certigraph.adapters.travelplanner.options import BUDGET, NOTHING, RENDER, Catalog, Draft, draft_of
from certigraph.adapters.travelplanner.planning import open_slots, repeats, unknown_entries
from certigraph.adapters.travelplanner.plans import Plan
from certigraph.adapters.travelplanner.queries import Query
from certigraph.adapters.travelplanner.scoring import score_plan
from certigraph.adapters.travelplanner.tools import WRITE, Call, Lookups, RefusedError, called
from certigraph.adapters.travelplanner.written_plans import COST, DELIVER, Desk
from certigraph.state.records import RESTORE, Action, Arguments, Observation, Scores
from certigraph.state.run import parsed

# TravelPlanner as a world: a draft itinerary that bookings fill, checked against the sandbox by the world itself.

Route = tuple[str, ...]


class TravelWorld:
    """One trip being planned. Actions book slots, clear them, add up, or write the itinerary.

    Agents that write the whole plan as text use the actions `cost` and `deliver` instead.
    """

    concurrent = False

    def __init__(self, query: Query, catalog_of: Callable[[Route | None], Catalog]) -> None:
        self._query, self._catalog_of = query, catalog_of
        self._catalog = catalog_of(None)
        self._draft = Draft()
        self._desk = Desk(query, self._catalog.sandbox)

    def reset(self) -> Observation:
        """An empty draft on the first route."""
        self._catalog, self._draft = self._catalog_of(None), Draft()
        self._desk = Desk(self._query, self._catalog.sandbox)
        return Observation(text=self._summary())

    def step(self, action: Action) -> Observation:
        """Carry out one action; what the sandbox does not know is refused."""
        if route := action.args.get("route"):
            self._catalog = self._catalog_of(tuple(map(str, route)) if isinstance(route, list) else None)
        if action.kind == "book":
            return self._book(action)
        if action.kind == RESTORE:
            return self._clear(action)
        if action.kind == BUDGET:
            unfilled = open_slots(self._catalog.trip, self._draft)
            return Observation(text=self._summary(), data={**self._totals(), "open": [*unfilled]})
        if action.kind == RENDER:
            return Observation(text=f"Itinerary of {self._catalog.trip.days} days written.", done=True)
        if action.kind in (COST, DELIVER):
            return self._desk.step(action)
        return Observation(text=action.text, accepted=False)

    def view(self) -> str:
        """The draft's totals."""
        return self._summary()

    def admissible(self) -> None:
        """Bookings are too many to list; Realize offers those that keep the constraints."""

    def score(self) -> Scores:
        """The official verdict on what was delivered as text, else on the draft so far; the plan is the answer."""
        plan = self._plan()
        score = score_plan(self._query, plan, self._catalog.sandbox)
        verdicts = {**score.commonsense, **score.hard}
        parts = {name: None if j.passed is None else float(j.passed) for name, j in verdicts.items()}
        parts |= {"cost": score.cost, **self._desk.parts}
        answer = None if plan is None else [dict(day) for day in plan]
        return Scores(value=float(score.passed), parts=parts, answer=answer)

    def close(self) -> None:
        """Nothing is held open."""

    def _plan(self) -> Plan | None:
        if self._desk.closed:
            return self._desk.plan
        return self._draft.plan(self._catalog.trip) if self._draft.booked else None

    def _book(self, action: Action) -> Observation:
        wanted = draft_of([action])
        unknown = unknown_entries(wanted, self._catalog.sandbox)
        if unknown or not wanted.booked:
            return Observation(text=f"Refused: not in the data: {'; '.join(unknown) or action.text}", accepted=False)
        before = self._draft
        self._draft = Draft({**before.booked, **wanted.booked})
        booked = "; ".join(dict.fromkeys(t for t in wanted.booked.values() if t != NOTHING)) or "nothing"
        data: Arguments = {"booked": dict(wanted.booked), **self._totals()}
        return Observation(text=f"Booked: {booked}. {self._summary()}", data=data)

    def _clear(self, action: Action) -> Observation:
        cleared = action.args.get("clear")
        slots = set(map(str, cleared)) if isinstance(cleared, list) else set()
        self._draft = Draft({slot: text for slot, text in self._draft.booked.items() if slot not in slots})
        return Observation(text=f"Cleared {len(slots)} entries. {self._summary()}", data={"cleared": sorted(slots)})

    def _totals(self) -> Arguments:
        catalog = self._catalog
        owed = self._draft.cuisines_owed(catalog.wanted.cuisine or (), catalog.sandbox)
        cost = self._draft.cost(catalog.trip, catalog.people, catalog.sandbox)
        return {
            "cost": cost,
            "owed": [*owed],
            "kinds": [*sorted(self._draft.kinds())],
            "repeats": [*repeats(self._draft)],
        }

    def _summary(self) -> str:
        totals = self._totals()
        owed = ", ".join(map(str, totals["owed"])) if isinstance(totals["owed"], list) and totals["owed"] else "none"
        return f"Cost so far ${totals['cost']:g} of ${self._query.budget}; cuisines still owed: {owed}."


# TravelPlanner as a world of tools: look up, keep a notebook, deliver the plan (TDP appendix A).


class ToolWorld(TravelWorld):
    """One query, a notebook and tools. It delivers and is scored as `TravelWorld` is; nothing is booked here.

    No answer tells what was done before it, not even that of the notebook: copies of the world that are stepped side
    by side agree when their steps are put one after another.
    """

    concurrent = True

    def __init__(self, query: Query, catalog_of: Callable[[Route | None], Catalog], lookups: Lookups) -> None:
        super().__init__(query, catalog_of)
        self._lookups = lookups
        self._notes: tuple[str, ...] = ()

    def reset(self) -> Observation:
        """An empty notebook, and nothing delivered."""
        super().reset()
        self._notes = ()
        return Observation(text="The notebook is empty.")

    def step(self, action: Action) -> Observation:
        """Use a tool, or hand in the plan in `args["plan"]`, which ends the episode.

        What is no call of a tool, or names what is not in the data, is refused with the right form and near names.
        """
        meant = parsed(action)
        if meant and meant.kind == DELIVER:
            plan = meant.args.get("plan", meant.args.get("query"))
            return super().step(meant.model_copy(update={"args": {"plan": plan}}))
        try:
            return self._answer(called(action))
        except RefusedError as error:
            return Observation(text=str(error), accepted=False)

    def view(self) -> str:
        """The notebook, its entries numbered."""
        return numbered(self._notes)

    def _answer(self, call: Call) -> Observation:
        if call.tool == WRITE:
            self._notes = (*self._notes, *call.values)
            return Observation(text="Written to the notebook.", data={"tool": WRITE})
        found = self._lookups.answer(call)
        return found.model_copy(update={"data": {"tool": call.tool, **found.data}})
