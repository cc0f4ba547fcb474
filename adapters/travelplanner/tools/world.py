"""TravelPlanner as a world of tools: look up, keep a notebook, deliver the plan (TDP appendix A)."""

from collections.abc import Callable

from certigraph.adapters.prompting import numbered
from certigraph.adapters.travelplanner.catalog import Catalog
from certigraph.adapters.travelplanner.data.queries import Query
from certigraph.adapters.travelplanner.oneshot.written import DELIVER
from certigraph.adapters.travelplanner.tools.forms import WRITE, Call, RefusedError, called
from certigraph.adapters.travelplanner.tools.lookups import Lookups
from certigraph.adapters.travelplanner.world import Route, TravelWorld
from certigraph.state.records import Action, Observation
from certigraph.state.searching import parsed


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
