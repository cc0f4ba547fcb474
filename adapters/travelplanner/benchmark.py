"""TravelPlanner as a benchmark: tasks, worlds, operators, and what they share about a query."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from certigraph.adapters.limits import PAPER_LIMITS
from certigraph.adapters.protocols import Operator, Responder
from certigraph.adapters.travelplanner import judging
from certigraph.adapters.travelplanner.catalog import Catalog
from certigraph.adapters.travelplanner.catalogs import Catalogs, route_of
from certigraph.adapters.travelplanner.choosing import Chooser
from certigraph.adapters.travelplanner.configs import CONFIGS, config_of
from certigraph.adapters.travelplanner.data.queries import Query
from certigraph.adapters.travelplanner.data.splits import Splits, asked
from certigraph.adapters.travelplanner.data.store import Store, open_store
from certigraph.adapters.travelplanner.figures import Figures
from certigraph.adapters.travelplanner.generated.folder import generated_folder
from certigraph.adapters.travelplanner.official.scoring import PlanScore, aggregate, score_file
from certigraph.adapters.travelplanner.oneshot.operators import oneshot_operators
from certigraph.adapters.travelplanner.oneshot.simulated import SimulatedPlanner
from certigraph.adapters.travelplanner.operators import operators
from certigraph.adapters.travelplanner.tools.expert import expert_for
from certigraph.adapters.travelplanner.tools.forms import TOOLS
from certigraph.adapters.travelplanner.tools.lookups import Lookups, lookups_in
from certigraph.adapters.travelplanner.tools.operators import BRIEFING, tool_operators
from certigraph.adapters.travelplanner.tools.world import ToolWorld
from certigraph.adapters.travelplanner.trip import Trip, trip_of
from certigraph.adapters.travelplanner.world import TravelWorld
from certigraph.state.records import Observation, Predicate, Task
from certigraph.state.trajectory import Footer


class TravelPlanner:
    """TravelPlanner in sole-planning mode: the query's reference information names the cities and their order.

    The configuration `tools` hides it: see `ToolWorld`.
    """

    configurations = tuple(filter(None, CONFIGS))

    def __init__(self, folder: Path | None = None, config: str = "") -> None:
        self.config = config_of(config)
        self.name = f"travelplanner:{config}" if config else "travelplanner"
        self.limits = PAPER_LIMITS.get(self.name, PAPER_LIMITS["travelplanner"])
        self.delivers = self.concurrent = self.config.tools
        self.briefing = BRIEFING if self.config.tools else ""
        if self.config.tools:
            self.tools = TOOLS
        self._given = folder

    @cached_property
    def folder(self) -> Path:
        """The data folder; the generated world is written on first use."""
        return self._given or generated_folder()

    @cached_property
    def sandbox(self) -> Store:
        """The database."""
        return open_store(self.folder / "database")

    def tasks(self, split: str = "") -> Sequence[Task]:
        """The tasks of a split: validation (the default) or train."""
        return [self.task(task_id) for task_id in self._splits.ids(split)]

    def task(self, task_id: str) -> Task:
        """A task by the idx of its query; `train/IDX` for the train split."""
        query = self._splits.query(task_id)
        return Task(benchmark=self.name, id=task_id, goal=query.query, constants=asked(query))

    def open(self, task: Task) -> TravelWorld:
        """A world with an empty draft, or an empty notebook."""
        query = self.query(task)

        def catalog_of(route: tuple[str, ...] | None) -> Catalog:
            return self.catalog(query, route or self.trip(query).cities)

        return ToolWorld(query, catalog_of, self._lookups) if self.config.tools else TravelWorld(query, catalog_of)

    def operators(self) -> Mapping[str, Operator]:
        """SDP's four of appendix A.2 with the plan-as-text baselines' two, or Decide and Execute with tools."""
        return self._operators

    def expert(self) -> Responder | None:
        """With tools a gold itinerary's; else the first option, where a plan is written as text the cheapest."""
        return self._expert

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """`Figures` of the runs, all as fractions; a run whose world gave no plan counts as not delivered."""
        return self._figures.of([(self._splits.query(task_id), footer.scores) for task_id, footer in runs])

    def score_file(self, path: Path, split: str = "") -> list[PlanScore]:
        """The official scores of plans made elsewhere, JSONL with `idx` and `plan`; `rates` adds them up."""
        return score_file(path, self._splits.queries(split), self.sandbox)

    def rates(self, scores: Sequence[PlanScore]) -> dict[str, float]:
        """The six official rates of scored plans, and the share of those that lack a key and so pass nothing."""
        return aggregate(scores) | {"malformed": sum(bool(score.malformed) for score in scores) / len(scores)}

    def query(self, task: Task) -> Query:
        """The query behind a task."""
        return self._splits.query(task.id)

    def trip(self, query: Query) -> Trip:
        """The trip along the cities of the reference information, in their order."""
        return trip_of(query)

    def feasible(self, query: Query) -> bool:
        """Whether some plan along the trip keeps every constraint within the budget."""
        return self._catalogs.feasible(query)

    def chooser(self, task: Task, target: Predicate) -> Chooser:
        """What offers the options of a predicate, on the predicate's own route."""
        query = self.query(task)
        return Chooser(self.catalog(query, route_of(target)), query.budget, lookahead=self.config.lookahead)

    def violations(self, task: Task, target: Predicate, seen: Observation) -> list[str]:
        """Why an observation does not satisfy a predicate; empty when it does."""
        query = self.query(task)
        return judging.violations(self.catalog(query, route_of(target)), query.budget, target, seen)

    def catalog(self, query: Query, route: tuple[str, ...]) -> Catalog:
        """What a query's trip on a route can choose from; made once."""
        return self._catalogs.of(query, route)

    @cached_property
    def _splits(self) -> Splits:
        return Splits(self.folder)

    @cached_property
    def _catalogs(self) -> Catalogs:
        return Catalogs(self.sandbox)

    @cached_property
    def _figures(self) -> Figures:
        return Figures(self.sandbox, self.feasible)

    @cached_property
    def _lookups(self) -> Lookups:
        return lookups_in(self.folder / "database", self.sandbox, self._splits.legs())

    @cached_property
    def _expert(self) -> Responder:
        return expert_for(self) if self.config.tools else SimulatedPlanner()

    @cached_property
    def _operators(self) -> Mapping[str, Operator]:
        return tool_operators() if self.config.tools else {**operators(self), **oneshot_operators(self)}
