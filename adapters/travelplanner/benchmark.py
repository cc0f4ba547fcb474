"""TravelPlanner as a benchmark: tasks, world, operators, and the named configurations of its operators."""

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path

from certigraph.adapters.caching import cache_folder
from certigraph.adapters.limits import PAPER_LIMITS
from certigraph.adapters.protocols import Operator, Responder
from certigraph.adapters.remembering import remembered
from certigraph.adapters.travelplanner import judging
from certigraph.adapters.travelplanner.catalog import Catalog
from certigraph.adapters.travelplanner.choosing import Chooser
from certigraph.adapters.travelplanner.data.queries import Query, read_queries, split_file
from certigraph.adapters.travelplanner.data.store import Store, open_store
from certigraph.adapters.travelplanner.generated.generator import generate_world
from certigraph.adapters.travelplanner.lookahead import cheapest_cost
from certigraph.adapters.travelplanner.official.plans import PlanRow
from certigraph.adapters.travelplanner.official.scoring import PlanScore, aggregate, score_file, score_plan
from certigraph.adapters.travelplanner.oneshot.operators import oneshot_operators
from certigraph.adapters.travelplanner.oneshot.rates import text_rates
from certigraph.adapters.travelplanner.oneshot.simulated import SimulatedPlanner
from certigraph.adapters.travelplanner.operators import operators
from certigraph.adapters.travelplanner.trip import Trip, trip_of
from certigraph.adapters.travelplanner.world import TravelWorld
from certigraph.state.endings import UnknownName
from certigraph.state.records import Observation, Predicate, Record, Scores, Task
from certigraph.state.trajectory import Footer


class Config(Record):
    """What goes beyond the paper, each switchable."""

    lookahead: bool = True
    """Show only options that leave an affordable way to the end, cuisines still owed included."""
    rollback: bool = True
    """Replan may return to an earlier certified state."""
    reorder: bool = True
    """Replan may visit the cities in another order."""


CONFIGS = {
    "": Config(),
    "paper": Config(lookahead=False, rollback=False, reorder=False),
    "lookahead": Config(rollback=False, reorder=False),
    "rollback": Config(lookahead=False, reorder=False),
    "reorder": Config(lookahead=False, rollback=False),
}
"""Named configurations: `travelplanner:paper` is the paper's own behaviour."""

SPLIT = "validation"
SPLITS = (SPLIT, "train")


class TravelPlanner:
    """TravelPlanner in sole-planning mode: the query's reference information names the cities and their order."""

    configurations = tuple(filter(None, CONFIGS))
    briefing = ""
    limits = PAPER_LIMITS["travelplanner"]

    def __init__(self, folder: Path | None = None, config: str = "") -> None:
        if config not in CONFIGS:
            known = ", ".join(filter(None, CONFIGS))
            raise UnknownName(f"travelplanner has no configuration {config!r}; known: {known}")
        self.name = f"travelplanner:{config}" if config else "travelplanner"
        self.config = CONFIGS[config]
        self._given = folder
        # By identity, for a query holds dicts; it is kept beside its catalog, so that no other takes its identity.
        self._catalogs: dict[tuple[int, tuple[str, ...]], tuple[Query, Catalog]] = {}
        self._queries = cache(self._read)
        self._scored = remembered(self._score)

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
        if split and split not in SPLITS:
            raise UnknownName(f"travelplanner has no split {split!r}; known: {', '.join(SPLITS)}")
        return [self.task(task_id) for task_id in self._queries(split or SPLIT)]

    def task(self, task_id: str) -> Task:
        """A task by the idx of its query; `train/IDX` for the train split."""
        query = self._query(task_id)
        asked = query.model_dump(mode="json", by_alias=True, include=ASKED)
        return Task(benchmark=self.name, id=task_id, goal=query.query, constants=asked)

    def open(self, task: Task) -> TravelWorld:
        """A world with an empty draft."""
        query = self.query(task)
        return TravelWorld(query, lambda route: self.catalog(query, route or self.trip(query).cities))

    def operators(self) -> Mapping[str, Operator]:
        """Propose, Realize, Validate and Replan of appendix A.2; Decide and Outline of the plan-as-text baselines."""
        return self._operators

    def expert(self) -> Responder | None:
        """The first option, with look-ahead always right; where a plan is written as text, the cheapest that fits."""
        return SimulatedPlanner()

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """The six official rates as fractions; a run whose world gave no plan counts as not delivered.

        Where runs delivered their plans as text also the rates `malformed` and `over_budget` (`text_rates`).
        """
        outcomes = [(self._query(task_id), footer.scores) for task_id, footer in runs]
        official = aggregate([self._scored(query, scores) for query, scores in outcomes])
        return official | text_rates(outcomes, self.feasible)

    def score_file(self, path: Path, split: str = "") -> list[PlanScore]:
        """The official scores of plans made elsewhere, JSONL with `idx` and `plan`; `rates` adds them up."""
        return score_file(path, list(self._queries(split or SPLIT).values()), self.sandbox)

    def rates(self, scores: Sequence[PlanScore]) -> dict[str, float]:
        """The six official rates of scored plans."""
        return aggregate(scores)

    def query(self, task: Task) -> Query:
        """The query behind a task."""
        return self._query(task.id)

    def trip(self, query: Query) -> Trip:
        """The trip along the cities of the reference information, in their order."""
        return trip_of(query)

    def feasible(self, query: Query) -> bool:
        """Whether some plan along the trip keeps every constraint within the budget."""
        least = cheapest_cost(self.catalog(query, self.trip(query).cities), every_meal=False)
        return least is not None and least <= query.budget

    def chooser(self, task: Task, target: Predicate) -> Chooser:
        """What offers the options of a predicate, on the predicate's own route."""
        query = self.query(task)
        return Chooser(self.catalog(query, _route(target)), query.budget, lookahead=self.config.lookahead)

    def violations(self, task: Task, target: Predicate, seen: Observation) -> list[str]:
        """Why an observation does not satisfy a predicate; empty when it does."""
        query = self.query(task)
        return judging.violations(self.catalog(query, _route(target)), query.budget, target, seen)

    def catalog(self, query: Query, route: tuple[str, ...]) -> Catalog:
        """What a query's trip on a route can choose from; made once."""
        key = (id(query), route)
        if key not in self._catalogs:
            catalog = Catalog(query.people_number, query.local_constraint, trip_of(query, route), self.sandbox)
            self._catalogs[key] = (query, catalog)
        return self._catalogs[key][1]

    @cached_property
    def _operators(self) -> Mapping[str, Operator]:
        return {**operators(self), **oneshot_operators(self)}

    def _read(self, split: str) -> dict[str, Query]:
        prefix = "" if split == SPLIT else f"{split}/"
        return {f"{prefix}{query.idx}": query for query in read_queries(split_file(self.folder, split))}

    def _score(self, query: Query, scores: Scores | None) -> PlanScore:
        row = PlanRow.model_validate({"idx": query.idx, "plan": scores.answer if scores else None})
        return score_plan(query, row.plan, self.sandbox)

    def _query(self, task_id: str) -> Query:
        split = task_id.partition("/")[0] if "/" in task_id else SPLIT
        queries = self._queries(split)
        if task_id not in queries:
            some = ", ".join(list(queries)[:5])
            raise UnknownName(f"travelplanner has no task {task_id!r}; {len(queries)} there, for example {some}")
        return queries[task_id]


ASKED = {"org", "dest", "days", "people_number", "date", "local_constraint", "budget", "level"}


def generated_folder() -> Path:
    """The generated world that stands in where no data is given: same seed, same bytes, written once."""
    folder = cache_folder() / "travelplanner-generated-0"
    if not (folder / f"{SPLIT}.jsonl").is_file():
        generate_world(folder, seed=0)
    return folder


def _route(target: Predicate) -> tuple[str, ...]:
    route = target.args["route"]
    return tuple(map(str, route)) if isinstance(route, list) else ()
