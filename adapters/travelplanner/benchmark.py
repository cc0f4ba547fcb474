"""TravelPlanner as a benchmark."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from certigraph.adapters.files import remembered
from certigraph.adapters.protocols import PAPER_LIMITS, Operator, Responder
from certigraph.adapters.travelplanner import planning
from certigraph.adapters.travelplanner.expert import SimulatedPlanner, expert_for
from certigraph.adapters.travelplanner.generated import generated_folder
from certigraph.adapters.travelplanner.operators import operators
from certigraph.adapters.travelplanner.options import Catalog, Trip, trip_of
from certigraph.adapters.travelplanner.planning import Catalogs, Chooser, route_of
from certigraph.adapters.travelplanner.plans import PlanRow
from certigraph.adapters.travelplanner.queries import Query, Splits, asked
from certigraph.adapters.travelplanner.sandbox import Sandbox, Store, open_store
from certigraph.adapters.travelplanner.scoring import PlanScore, aggregate, score_file, score_plan
from certigraph.adapters.travelplanner.tools import BRIEFING, TOOLS, Lookups, lookups_in, tool_operators
from certigraph.adapters.travelplanner.world import ToolWorld, TravelWorld
from certigraph.adapters.travelplanner.written_plans import Outcome, oneshot_operators, text_rates
from certigraph.state.records import Observation, Predicate, Record, Scores, Task, UnknownName
from certigraph.state.trajectory import Footer

# TravelPlanner's named configurations: what goes beyond the SDP paper, and the tool world of TDP.


class Config(Record):
    """What goes beyond the paper, each switchable, and whether the world is one of tools."""

    lookahead: bool = True
    """Show only options that leave an affordable way to the end, cuisines still owed included."""
    rollback: bool = True
    """Replan may return to an earlier certified state."""
    reorder: bool = True
    """Replan may visit the cities in another order."""
    tools: bool = False
    """No reference information is at hand: the agent looks up, keeps notes, and has the plan made from them."""


CONFIGS = {
    "": Config(),
    "paper": Config(lookahead=False, rollback=False, reorder=False),
    "lookahead": Config(rollback=False, reorder=False),
    "rollback": Config(lookahead=False, reorder=False),
    "reorder": Config(lookahead=False, rollback=False),
    "tools": Config(tools=True),
}
"""`travelplanner:paper` is SDP's own behaviour, `travelplanner:tools` TDP's setting."""


def config_of(name: str) -> Config:
    """The configuration of that name. Raises UnknownName, which lists the known ones."""
    if name not in CONFIGS:
        raise UnknownName(f"travelplanner has no configuration {name!r}; known: {', '.join(filter(None, CONFIGS))}")
    return CONFIGS[name]


# The figures of several runs: the official rates, their mean, and how plans that were written as text failed.


class Figures:
    """Figures over one database. Plans are scored once, however often runs are resampled."""

    def __init__(self, sandbox: Sandbox, feasible: Callable[[Query], bool]) -> None:
        self._sandbox, self._feasible = sandbox, feasible
        self._scored = remembered(self._score)

    def of(self, outcomes: Sequence[Outcome]) -> dict[str, float]:
        """The six rates, `average` and, of plans written as text, `text_rates`; all as fractions."""
        official = aggregate([self._scored(query, scores) for query, scores in outcomes])
        return official | {"average": average(official)} | text_rates(outcomes, self._feasible)

    def _score(self, query: Query, scores: Scores | None) -> PlanScore:
        row = PlanRow.model_validate({"idx": query.idx, "plan": scores.answer if scores else None})
        return score_plan(query, row.plan, self._sandbox)


def average(official: Mapping[str, float]) -> float:
    """The arithmetic mean of the six official rates: TravelPlanner's Avg in TDP's table 1."""
    rates = [rate for name, rate in official.items() if name != "n"]
    return sum(rates) / len(rates)


# TravelPlanner as a benchmark: tasks, worlds, operators, and what they share about a query.


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
        return planning.violations(self.catalog(query, route_of(target)), query.budget, target, seen)

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
