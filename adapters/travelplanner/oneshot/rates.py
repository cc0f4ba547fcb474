"""How plan-as-text fails before any constraint is judged: malformed outputs, and money overspent (section 4.1)."""

from collections.abc import Callable, Sequence

from certigraph.adapters.travelplanner.data.queries import Query
from certigraph.adapters.travelplanner.oneshot.desk import MALFORMED
from certigraph.state.records import Scores

Outcome = tuple[Query, Scores | None]
"""A run's query and scores; None where its world could not be asked."""


def text_rates(outcomes: Sequence[Outcome], feasible: Callable[[Query], bool]) -> dict[str, float]:
    """The rates `malformed` (of the outputs) and `over_budget` (of the feasible tasks) as fractions.

    Nothing where no run delivered text: methods that book option by option can produce neither. A malformed output
    costs nothing and so is not over budget; a run without any output counts among the feasible tasks only.
    """
    outputs = [scores.parts[MALFORMED] for _, scores in outcomes if scores and MALFORMED in scores.parts]
    if not outputs:
        return {}
    overspent = [_overspent(query, scores) for query, scores in outcomes if feasible(query)]
    return {
        "malformed": sum(map(bool, outputs)) / len(outputs),
        "over_budget": sum(overspent) / len(overspent) if overspent else 0.0,
    }


def _overspent(query: Query, scores: Scores | None) -> bool:
    cost = scores.parts.get("cost") if scores else None
    return cost is not None and cost > query.budget
