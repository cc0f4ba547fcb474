"""Plan in a report: predicates with their attempts, certificates, replans and audits."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from certigraph.adapters.models.scripts import is_impossible
from certigraph.runtime.approvals import outcome_decisions
from certigraph.runtime.history import RunHistory
from certigraph.runtime.pages import Total
from certigraph.runtime.progress import (
    PlanAttempt,
    PlanAudit,
    PlanHistory,
    PlanMoment,
    PlanReplan,
    PredicateRow,
    PredicateStatus,
    add_gave_up_count,
)
from certigraph.runtime.result import verdict_scores_of
from certigraph.runtime.texts import CERTIFIED_LABEL, add_passed_count, format_count, format_score, passed_label
from certigraph.state.records import Action
from certigraph.state.tools import calls_of, reasons_refused

MAX_OPEN_ATTEMPTS = 2
"""Maximum number of rejected attempts at a predicate that are shown expanded."""

MOMENT_KINDS = {PlanAttempt: "attempts", PlanReplan: "replans", PlanAudit: "audits"}
"""Kind of a group of moments in the template, by type of the moments."""

OUTCOME_LABELS = {"repeat": "made again, as a person decided", "happened": "it happened, as a person answered"}
"""What a person decided about a call that was cut off; `stop` ends the run before the call has an answer."""


class MomentGroup(NamedTuple):
    """Moments of one kind that follow each other at a predicate, folded below `summary` if there are many."""

    kind: str
    moments: Sequence[PlanMoment]
    summary: str = ""

    @property
    def refusals(self) -> list[str]:
        """Why calls of attempted actions were not made, each reason once."""
        return list(dict.fromkeys(text for m in self.moments if isinstance(m, PlanAttempt) for text in m.refusals))


class PlanTable(NamedTuple):
    """Plan of a run, and one row for each of its predicates."""

    plan: PlanHistory
    rows: list[PredicateRow]
    label: str = CERTIFIED_LABEL
    """Label of predicates with a certificate."""
    denied: str = ""
    """That the scorer denies the goal, which the last predicate stands for, and why it was certified; else empty."""
    outcomes: Mapping[tuple[int, str], str] = {}
    """What a person decided about calls that were cut off, by world step and call."""

    def count(self, *statuses: PredicateStatus) -> int:
        """Count the predicates of the plan that have one of the statuses."""
        return sum(row.status in statuses for row in self.rows)

    @property
    def forced(self) -> bool:
        """Whether a policy let the last predicate of the plan, its goal, pass uncertified."""
        return bool(self.rows) and self.rows[-1].status == "forced"

    @property
    def decided(self) -> bool:
        """Whether somebody checked a certified predicate, and the validator did not let all of them pass unseen."""
        return any(row.certificate.decided_by for row in self.rows if row.certificate)

    def totals(self) -> list[Total]:
        """Return the totals of the run: certified predicates and world steps."""
        certified = self.count("certified")
        total = certified + self.count("forced", "failed", "target", "waiting")
        note = add_passed_count("predicates", self.count("forced"))
        replans = add_gave_up_count(format_count(self.plan.replans, "replan"), self.plan.gave_up)
        return [
            Total(self.label, f"{certified}/{total}", note),
            Total("world steps", f"{self.plan.logged:,}", replans),
        ]

    def moment_groups(self, row: PredicateRow) -> list[MomentGroup]:
        """Group what happened at a predicate, in order, without the attempt that its certificate shows."""
        shown = [m for m in row.moments if not isinstance(m, PlanAttempt) or not m.discharged]
        groups = [(kind, list(moments)) for kind, moments in groupby(shown, key=type)]
        return [MomentGroup(MOMENT_KINDS[kind], moments, _attempts_summary(moments, row)) for kind, moments in groups]

    def certified_prompts(self, row: PredicateRow) -> list[int]:
        """Return the lines of `prompts.jsonl` of the attempts that `moment_groups` leaves out."""
        return [n for m in row.moments if isinstance(m, PlanAttempt) and m.discharged for n in m.prompts]

    def person_label(self, action: Action, step: int) -> str:
        """Return what a person did about the calls of an action at a world step; empty if nobody was asked."""
        calls = calls_of(action)
        done = {
            "approved": any(call.approved and not call.edited for call in calls),
            "edited": any(call.edited for call in calls),
            "answered": any(call.response for call in calls),
        }
        words = " and ".join(word for word, happened in done.items() if happened)
        outcomes = dict.fromkeys(self.outcomes.get((step, str(call)), "") for call in calls)
        return "; ".join(filter(None, [f"{words} by a person" if words else "", *outcomes]))

    def basis(self, row: PredicateRow) -> str:
        """Return what a certificate rests on: its evidence, else the reason of the verdict that it followed."""
        given = [moment.attempt.verdict.reason for moment in row.moments if isinstance(moment, PlanAttempt)]
        evidence = row.certificate.evidence if row.certificate else ""
        return evidence or (given[-1] if given else "")

    def answer(self, row: PredicateRow) -> str:
        """Return what the world answered to the action of a certificate; empty if what it rests on says so already."""
        answers = [moment.answer for moment in row.moments if isinstance(moment, PlanAttempt) and moment.discharged]
        latest = answers[-1].strip() if answers else ""
        return "" if latest in self.basis(row) else latest

    def is_injected(self, row: PredicateRow) -> bool:
        """Whether a simulated agent proposed the predicate as an error: no action makes it true."""
        return is_impossible(row.predicate.text)

    def passed_label(self, row: PredicateRow) -> str:
        """Return the label of a forced pass, with the reason for which the predicate was not certified."""
        policy = row.certificate.forced if row.certificate else ""
        verdicts = [m.attempt.verdict for m in row.moments if isinstance(m, PlanAttempt)]
        reason = next((v.reason for v in reversed(verdicts) if v.forced and v.reason), "")
        return ": ".join(filter(None, [passed_label(policy), reason]))


def plan_table(run: RunHistory) -> PlanTable:
    """Build the table of a run's plan.

    For a graph without a plan, the rows come from its certificates and attempts.
    """
    rows = run.plan.rows(run.ending, solved=run.solved)
    return PlanTable(run.plan, rows, run.certified, format_denial(run), _label_outcomes(run))


def _label_outcomes(run: RunHistory) -> dict[tuple[int, str], str]:
    # A decision does not say at which step its call was made: where only some of several equal calls were cut off,
    # none has a label.
    decided: defaultdict[str, list[str]] = defaultdict(list)
    for call, outcome in outcome_decisions(run.answered):
        decided[str(call)].append(OUTCOME_LABELS.get(outcome, ""))
    made: defaultdict[str, list[int]] = defaultdict(list)
    for moment in run.plan.attempts if decided else ():
        for call in calls_of(moment.attempt.action):
            made[str(call)].append(moment.step)
    equal = [(call, labels) for call, labels in decided.items() if len(labels) == len(made[call])]
    return {(step, call): label for call, labels in equal for step, label in zip(made[call], labels, strict=True)}


def format_denial(run: RunHistory) -> str:
    """Format that the scorer denies the goal of a run, with the validator's reason if there is one; else empty."""
    scores = verdict_scores_of(run.header, run.footer)
    if scores is None or not run.denied:
        return ""
    reason = run.plan.attempts[-1].attempt.verdict.reason if run.plan.attempts else ""
    denial = f"denied by the scorer: {format_score(scores.value)}"
    return f"{denial}; the validator had accepted it: {reason}" if reason else denial


def _attempts_summary(moments: Sequence[PlanMoment], row: PredicateRow) -> str:
    tries = [moment.attempt for moment in moments if isinstance(moment, PlanAttempt)]
    if len(tries) <= MAX_OPEN_ATTEMPTS:
        return ""
    judged = not any(t.verdict.depth or not t.verdict.is_counted or reasons_refused(t.action) for t in tries)
    kind = "rejected attempts" if judged else "attempts without a certificate"
    others = sorted({t.target.text for t in tries if t.target != row.predicate})
    return f"{len(tries)} {kind}" + (f" at: {'; '.join(others)}" if others else "")
