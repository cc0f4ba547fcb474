"""The figures of several runs: the official rates, their mean, and how plans that were written as text failed."""

from collections.abc import Callable, Mapping, Sequence

from certigraph.adapters.remembering import remembered
from certigraph.adapters.travelplanner.data.queries import Query
from certigraph.adapters.travelplanner.data.sandbox import Sandbox
from certigraph.adapters.travelplanner.official.plans import PlanRow
from certigraph.adapters.travelplanner.official.scoring import PlanScore, aggregate, score_plan
from certigraph.adapters.travelplanner.oneshot.rates import Outcome, text_rates
from certigraph.state.records import Scores


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
