"""What TravelPlanner's operators, expert and world know of its tasks: queries, trips, and catalogs of options."""

from functools import cached_property
from pathlib import Path

from certigraph.adapters.benchmarks import check_configuration
from certigraph.benchmarks.travelplanner import planning
from certigraph.benchmarks.travelplanner.generator import load_generated_folder
from certigraph.benchmarks.travelplanner.options import Trip, TripCatalog, trip_of
from certigraph.benchmarks.travelplanner.planning import CatalogCache, OptionChooser, route_of
from certigraph.benchmarks.travelplanner.queries import QuerySplits, TravelQuery
from certigraph.benchmarks.travelplanner.sandbox import SandboxStore, open_store
from certigraph.state.records import Observation, Predicate, Record, Task

# Named configurations: extensions of the SDP paper, and the tool world of the TDP paper.


class TravelPlannerConfig(Record):
    """Switches for extensions that the SDP paper does not describe, and for the tool world of the TDP paper."""

    lookahead: bool = True
    """Offer only options after which the rest of the trip, missing cuisines included, is still affordable."""
    rollback: bool = True
    """Allow Replan to go back to an earlier certified state."""
    reorder: bool = True
    """Allow Replan to visit the cities in another order."""
    tools: bool = False
    """Hide the reference information: the agent looks things up with tools, keeps notes, and plans from the notes."""


CONFIGS = {
    "": TravelPlannerConfig(),
    "paper": TravelPlannerConfig(lookahead=False, rollback=False, reorder=False),
    "lookahead": TravelPlannerConfig(rollback=False, reorder=False),
    "rollback": TravelPlannerConfig(lookahead=False, reorder=False),
    "reorder": TravelPlannerConfig(lookahead=False, rollback=False),
    "tools": TravelPlannerConfig(tools=True),
}
"""Configurations by name. `travelplanner:paper` is as in the SDP paper, `travelplanner:tools` as in the TDP paper."""


def config_of(name: str) -> TravelPlannerConfig:
    """Return the configuration of a name.

    Raises:
        UnknownName: there is no such configuration; the message lists the known ones.
    """
    check_configuration("travelplanner", name, [*CONFIGS])
    return CONFIGS[name]


# The tasks with their data.


class TravelTrips:
    """The tasks of TravelPlanner in a configuration, with the trips and options that their data allow.

    Args:
        data: data folder; None: generated data.
        config: switches of the configuration.
    """

    def __init__(self, data: Path | None, config: TravelPlannerConfig) -> None:
        self._folder, self.config = data, config

    @cached_property
    def folder(self) -> Path:
        """Data folder; if none was given, a cached folder of generated data, which is written on first use."""
        return self._folder or load_generated_folder()

    @cached_property
    def sandbox(self) -> SandboxStore:
        """Database of flights, roads, restaurants, accommodations and attractions."""
        return open_store(self.folder / "database")

    @cached_property
    def splits(self) -> QuerySplits:
        """The queries by split."""
        return QuerySplits(self.folder)

    @cached_property
    def catalogs(self) -> CatalogCache:
        """The catalogs of options that were built so far."""
        return CatalogCache(self.sandbox)

    def query(self, task: Task) -> TravelQuery:
        """Return the query of a task."""
        return self.splits.query(task.id)

    def trip(self, query: TravelQuery) -> Trip:
        """Return the trip through the cities of the reference information, in their order."""
        return trip_of(query)

    def is_feasible(self, query: TravelQuery) -> bool:
        """Return whether a plan on the route of the reference information can meet all constraints and the budget."""
        return self.catalogs.is_feasible(query)

    def chooser(self, task: Task, target: Predicate) -> OptionChooser:
        """Return the chooser that offers options for a predicate, on the route that the predicate names."""
        query = self.query(task)
        return OptionChooser(self.catalog(query, route_of(target)), query.budget, lookahead=self.config.lookahead)

    def violations(self, task: Task, target: Predicate, observation: Observation) -> list[str]:
        """Return the reasons why an observation does not satisfy a predicate; empty if it does."""
        query = self.query(task)
        return planning.find_violations(self.catalog(query, route_of(target)), query.budget, target, observation)

    def catalog(self, query: TravelQuery, route: tuple[str, ...]) -> TripCatalog:
        """Return the catalog of options for a query's trip on a route; it is built once per query and route."""
        return self.catalogs.of(query, route)
