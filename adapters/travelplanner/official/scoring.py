"""TravelPlanner's official score of a plan, and of many. Only a plan's first `query.days` entries are looked at."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal

from certigraph.adapters.travelplanner.data.queries import Query
from certigraph.adapters.travelplanner.data.sandbox import Sandbox
from certigraph.adapters.travelplanner.official.checks import Judgement, judge
from certigraph.adapters.travelplanner.official.commonsense import COMMONSENSE
from certigraph.adapters.travelplanner.official.costs import total_cost
from certigraph.adapters.travelplanner.official.hard import HARD, requested
from certigraph.adapters.travelplanner.official.plans import Plan, missing_key, read_plans
from certigraph.state.endings import Fault
from certigraph.state.records import Record

NEEDED_FOR_HARD = ("Within Sandbox", "Complete Information")


class PlanScore(Record):
    """The judgement on every constraint, by its official name, and the plan's cost in dollars."""

    idx: int
    level: Literal["easy", "medium", "hard"]
    delivered: bool
    commonsense: dict[str, Judgement]
    hard: dict[str, Judgement]
    requested: int
    """How many hard constraints the query sets, the budget included."""
    cost: float | None = None
    malformed: str = ""
    """Why the official evaluation cannot judge the plan, which it ends on with an error: nothing is evaluated."""

    @cached_property
    def commonsense_held(self) -> int:
        """How many of the eight hold."""
        return _held(self.commonsense)

    @cached_property
    def hard_held(self) -> int:
        """How many hard constraints hold."""
        return _held(self.hard)

    @cached_property
    def commonsense_passed(self) -> bool:
        """All eight hold."""
        return all(judgement.passed for judgement in self.commonsense.values())

    @cached_property
    def hard_passed(self) -> bool:
        """They were evaluated and none is violated."""
        evaluated = [judgement.passed for judgement in self.hard.values() if judgement.passed is not None]
        return bool(evaluated) and all(evaluated)

    @property
    def passed(self) -> bool:
        """The final pass: both of the above."""
        return self.commonsense_passed and self.hard_passed


def score_plan(query: Query, plan: Plan | None, sandbox: Sandbox) -> PlanScore:
    """Scores one plan; null or an empty list is not delivered and leaves everything unevaluated, as a malformed one."""
    days = (plan or ())[: query.days]
    if malformed := missing_key(days):
        return PlanScore(
            idx=query.idx,
            level=query.level,
            delivered=True,
            commonsense=dict.fromkeys(COMMONSENSE, Judgement()),
            hard=dict.fromkeys(HARD, Judgement()),
            requested=len(requested(query)),
            malformed=malformed,
        )
    commonsense = _commonsense(query, days, sandbox)
    evaluable = all(commonsense[name].passed for name in NEEDED_FOR_HARD)
    return PlanScore(
        idx=query.idx,
        level=query.level,
        delivered=bool(days),
        commonsense=commonsense,
        hard=_hard(query, days, sandbox) if evaluable else dict.fromkeys(HARD, Judgement()),
        requested=len(requested(query)),
        cost=total_cost(query.people_number, days, sandbox) if days else None,
    )


def aggregate(scores: Sequence[PlanScore]) -> dict[str, float]:
    """The benchmark's six rates as fractions of the scores given, and their number `n`.

    A query without a plan must be among the scores: `score_plan(query, None, sandbox)`.

    Raises:
        ValueError: there are no scores.
    """
    if not scores:
        raise ValueError("no scores to aggregate: pass one PlanScore a query")
    n = len(scores)
    return {
        "n": n,
        "delivery": sum(score.delivered for score in scores) / n,
        "commonsense_micro": sum(score.commonsense_held for score in scores) / (len(COMMONSENSE) * n),
        "commonsense_macro": sum(score.commonsense_passed for score in scores) / n,
        "hard_micro": sum(score.hard_held for score in scores) / sum(score.requested for score in scores),
        "hard_macro": sum(score.hard_passed for score in scores) / n,
        "final_pass": sum(score.passed for score in scores) / n,
    }


def score_file(path: Path, queries: Sequence[Query], sandbox: Sandbox) -> list[PlanScore]:
    """Scores a plan file (JSONL, `idx` and `plan`) against queries; a query without a plan is not delivered.

    Raises:
        Fault: the file cannot be read, or names a query that is not among those given.
    """
    plans = read_plans(path)
    if strangers := sorted(set(plans) - {query.idx for query in queries}):
        raise Fault("data", f"{path}: idx {strangers[:5]} are not among the {len(queries)} queries: name their --split")
    return [score_plan(query, plans.get(query.idx), sandbox) for query in queries]


def _commonsense(query: Query, plan: Plan, sandbox: Sandbox) -> dict[str, Judgement]:
    if not plan:
        return dict.fromkeys(COMMONSENSE, Judgement())
    return {name: judge(check, query, plan, sandbox) for name, check in COMMONSENSE.items()}


def _hard(query: Query, plan: Plan, sandbox: Sandbox) -> dict[str, Judgement]:
    wanted = requested(query)
    return {name: judge(check, query, plan, sandbox) if name in wanted else Judgement() for name, check in HARD.items()}


def _held(judgements: dict[str, Judgement]) -> int:
    return sum(judgement.passed is True for judgement in judgements.values())
