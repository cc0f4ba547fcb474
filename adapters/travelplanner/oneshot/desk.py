"""Where plans are handed in as text: adds one up, or takes it and says what is wrong with it.

What an agent may learn here is what a booking desk could tell: that a text is no plan, that days are missing, what the
plan costs and that this is more than the budget, and which entries are not in the data. Each of these makes the
official verdict a fail. The verdict itself (commonsense, local constraints, the final pass) is never told.
"""

from collections.abc import Iterator

from certigraph.adapters.travelplanner.data.queries import Query
from certigraph.adapters.travelplanner.data.sandbox import Sandbox
from certigraph.adapters.travelplanner.official.commonsense import within_sandbox
from certigraph.adapters.travelplanner.official.costs import total_cost
from certigraph.adapters.travelplanner.official.plans import Plan
from certigraph.adapters.travelplanner.oneshot.written import COST, MalformedPlanError, read_plan
from certigraph.state.records import Action, Observation

MALFORMED = "malformed"
"""Part of the scores of a run that delivered text: 1 where the text held no plan."""


class Desk:
    """Answers the actions `cost` and `deliver`; `plan` is what was delivered, if it could be read."""

    def __init__(self, query: Query, sandbox: Sandbox) -> None:
        self._query, self._sandbox = query, sandbox
        self.plan: Plan | None = None
        self.closed = False

    @property
    def parts(self) -> dict[str, float | None]:
        """What a delivery adds to the scores; nothing without one."""
        return {MALFORMED: float(self.plan is None)} if self.closed else {}

    def step(self, action: Action) -> Observation:
        """Add up or take the plan that `args["plan"]` holds as text; only taking it ends the episode."""
        delivers = action.kind != COST
        self.closed = delivers
        try:
            plan = read_plan(str(action.args.get("plan", "")))
        except MalformedPlanError as error:
            return Observation(text=f"Malformed: {error}", accepted=False, done=delivers, data={MALFORMED: True})
        return self._taken(plan) if delivers else self._added_up(plan)

    def _taken(self, plan: Plan) -> Observation:
        self.plan = plan
        wrong = list(self._wrong(plan))
        told = f"Delivered, but {'; '.join(wrong)}" if wrong else "Delivered: nothing is wrong that the desk can see."
        # Here `solved` says no more than the text does. An episode that the desk faulted has failed officially too, so
        # an agent that goes on only after those learns nothing from being allowed to go on.
        return Observation(text=told, done=True, solved=not wrong, data={MALFORMED: False, **self._totals(plan)})

    def _added_up(self, plan: Plan) -> Observation:
        wrong = "; ".join(self._wrong(plan)) or "nothing is wrong that the desk can see"
        told = f"Cost ${self._cost(plan):g} of ${self._query.budget}: {wrong}."
        return Observation(text=told, data=dict(self._totals(plan)))

    def _wrong(self, plan: Plan) -> Iterator[str]:
        query, days = self._query, plan[: self._query.days]
        if (cost := self._cost(plan)) > query.budget:
            yield f"it costs ${cost:g}, the budget is ${query.budget}"
        if len(plan) < query.days:
            yield f"only {len(plan)} of {query.days} days are planned"
        yield from within_sandbox(query, days, self._sandbox)

    def _cost(self, plan: Plan) -> float:
        return total_cost(self._query.people_number, plan[: self._query.days], self._sandbox)

    def _totals(self, plan: Plan) -> dict[str, float]:
        return {"cost": self._cost(plan), "days": len(plan)}
