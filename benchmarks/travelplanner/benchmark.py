"""The TravelPlanner benchmark: its configurations, tasks, worlds, operators and rates.

`TravelPlanner` plays the sole-planning mode (the reference information of a query is given), as in the SDP paper, or,
with the configuration `tools`, the setting of the TDP paper, in which an agent looks everything up with tools.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from certigraph.adapters.benchmarks import mean_score
from certigraph.adapters.files import memoize_by_identity
from certigraph.adapters.protocols import Benchmark, Limits, Operator, Responder
from certigraph.benchmarks.travelplanner.expert import SimulatedPlanner, create_expert
from certigraph.benchmarks.travelplanner.operators import create_operators
from certigraph.benchmarks.travelplanner.options import TripCatalog
from certigraph.benchmarks.travelplanner.plans import PlanRow
from certigraph.benchmarks.travelplanner.queries import TravelQuery, constants_of
from certigraph.benchmarks.travelplanner.sandbox import Sandbox
from certigraph.benchmarks.travelplanner.scoring import PlanScore, aggregate_scores, score_file, score_plan
from certigraph.benchmarks.travelplanner.tools import BRIEFING, TOOLS, Lookups, create_lookups, create_tool_operators
from certigraph.benchmarks.travelplanner.trips import CONFIGS, TravelTrips, config_of
from certigraph.benchmarks.travelplanner.world import ToolWorld, TravelWorld
from certigraph.benchmarks.travelplanner.written_plans import ScoredQuery, create_oneshot_operators, text_rates
from certigraph.state.records import Scores, Task
from certigraph.state.trajectory import Footer

# Rates over several runs: the official ones, their mean, and those of plans that were written as text.


class RunRates:
    """Computes rates of runs over one database. Every plan is scored once, even if the bootstrap resamples its run."""

    def __init__(self, sandbox: Sandbox, feasible: Callable[[TravelQuery], bool]) -> None:
        self._sandbox, self._feasible = sandbox, feasible
        self._scored = memoize_by_identity(self._score)

    def of(self, outcomes: Sequence[ScoredQuery]) -> dict[str, float]:
        """Return, as fractions, the six official rates, their mean `average` and, if plans are text, `text_rates`."""
        official = aggregate_scores([self._scored(query, scores) for query, scores in outcomes])
        return official | {"average": average_rate(official)} | text_rates(outcomes, self._feasible)

    def _score(self, query: TravelQuery, scores: Scores | None) -> PlanScore:
        row = PlanRow.model_validate({"idx": query.idx, "plan": scores.answer if scores else None})
        return score_plan(query, row.plan, self._sandbox)


def average_rate(official: Mapping[str, float]) -> float:
    """Return the arithmetic mean of the six official rates, which is the column Avg of table 1 in the TDP paper."""
    rates = [rate for name, rate in official.items() if name != "n"]
    return sum(rates) / len(rates)


# The benchmark itself.


class TravelPlanner(TravelTrips, Benchmark):
    """TravelPlanner in sole-planning mode: a query's reference information names the cities and their order.

    The configuration `tools` hides this information; see `ToolWorld`.
    """

    configurations = tuple(filter(None, CONFIGS))
    limits = Limits(attempts=3, replans=5, steps=60)
    """Attempts, replans and steps are those of SDP (appendix A.2)."""
    configured_limits: Mapping[str, Limits] = {
        "tools": Limits(steps=50, replans=2),  # steps: TDP, appendix B; replans: ours
    }
    score_metrics = ("final_pass",)
    published = Path(__file__).with_name("published.json")

    def __init__(self, data: Path | None = None, config: str = "") -> None:
        super().__init__(data, config_of(config))
        self.name = f"travelplanner:{config}" if config else "travelplanner"
        self.limits = self.configured_limits.get(config, self.limits)
        self.delivers = self.concurrent = self.config.tools
        if self.config.tools:
            self.briefing, self.tools = BRIEFING, TOOLS
        else:
            self.no_written_actions = "take travelplanner:tools, where agents act by tools"

    def horizon(self, task: Task) -> tuple[float, str]:
        """Return the number of days of a trip."""
        days = float(str(task.constants["days"]))
        return days, f"{days:g} days"

    def tasks(self, split: str = "") -> Sequence[Task]:
        """Return the tasks of a split: `validation` (the default) or `train`."""
        return [self.task(task_id) for task_id in self.splits.ids(split)]

    def task(self, task_id: str) -> Task:
        """Return a task. Its id is the `idx` of its query, or `train/IDX` in the train split."""
        query = self.splits.query(task_id)
        return Task(benchmark=self.name, id=task_id, goal=query.query, constants=constants_of(query))

    def open(self, task: Task) -> TravelWorld:
        """Create the world of a task, with an empty draft of the itinerary or, with tools, an empty notebook."""
        query = self.query(task)

        def catalog_of(route: tuple[str, ...] | None) -> TripCatalog:
            return self.catalog(query, route or self.trip(query).cities)

        return ToolWorld(query, catalog_of, self._lookups) if self.config.tools else TravelWorld(query, catalog_of)

    def operators(self) -> Mapping[str, Operator]:
        """Return the operators with which this benchmark replaces the graphs' generic ones, by name.

        Without tools these are the four SDP operators (SDP, appendix A.2), and Decide and Outline of baselines that
        write a plan as text. With tools they are Decide and Execute.
        """
        return self._operators

    def expert(self) -> Responder | None:
        """Return the scripted model `scripted:expert`.

        With tools it follows a correct itinerary. Otherwise it takes the first option offered or, where a plan is
        written as text, the cheapest entries.
        """
        return self._expert

    def figures(self, runs: Sequence[tuple[str, Footer]]) -> dict[str, float]:
        """Return the rates of runs as fractions (see `RunRates.of`); a run without a plan counts as not delivered."""
        return self._figures.of([(self.splits.query(task_id), footer.scores) for task_id, footer in runs])

    def score_file(self, path: Path, split: str = "") -> list[PlanScore]:
        """Score a JSONL file of plans (`idx` and `plan`) by the official rules; `rates` aggregates the scores."""
        return score_file(path, self.splits.queries(split), self.sandbox)

    def rates(self, scores: Sequence[PlanScore]) -> dict[str, float]:
        """Return the six official rates of scored plans, and the share of malformed plans, which pass no constraint."""
        return aggregate_scores(scores) | {"malformed": mean_score([bool(score.malformed) for score in scores])}

    @cached_property
    def _figures(self) -> RunRates:
        return RunRates(self.sandbox, self.is_feasible)

    @cached_property
    def _lookups(self) -> Lookups:
        return create_lookups(self.folder / "database", self.sandbox, self.splits.legs())

    @cached_property
    def _expert(self) -> Responder:
        return create_expert(self) if self.config.tools else SimulatedPlanner()

    @cached_property
    def _operators(self) -> Mapping[str, Operator]:
        return (
            create_tool_operators(self)
            if self.config.tools
            else {**create_operators(self), **create_oneshot_operators(self)}
        )
