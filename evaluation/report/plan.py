"""The plan as a column of predicates: what was certified and when, and everything tried under each."""

from collections.abc import Sequence
from itertools import groupby

from certigraph.evaluation.report.finding import finding_block
from certigraph.evaluation.report.html import Markup, counted, joined, shortened, tag
from certigraph.evaluation.report.parts import figure
from certigraph.evaluation.report.story import Audited, Replanned, Row, Status, Story, Try
from certigraph.evaluation.report.words import PASSED, passed_by, with_passed
from certigraph.state.records import Audit

OPEN_UP_TO = 2
"""So many rejected attempts are shown at once; more are folded away."""

LONGEST_ANSWER = 1_500
"""Characters of what the world answered."""

MARKS: dict[Status, str] = {
    "certified": "✓",
    "forced": "!",
    "undone": "↶",
    "restored": "↩",
    "failed": "✕",
    "target": "▸",
    "waiting": "",
}
LEGEND: dict[Status, str] = {
    "certified": "certified",
    "forced": PASSED,
    "undone": "certified, then undone or taken back",
    "restored": "returned to an earlier state",
    "failed": "failed here",
    "target": "target when the run stopped",
    "waiting": "never reached",
}


def plan_figures(story: Story) -> list[Markup]:
    """How far the plan came."""
    whole = story.count("certified", "forced", "failed", "target", "waiting")
    note = with_passed("predicates", story.count("forced"))
    return [
        figure("certified", f"{story.count('certified')}/{whole}", note),
        figure("world steps", f"{story.steps:,}", counted(story.replans, "replan")),
    ]


def plan_column(story: Story) -> Markup:
    """The whole column with its legend; a line in words for a run that made no plan."""
    if not story.rows:
        return tag("p", "No predicate was proposed.", class_="quiet")
    legend = [
        tag("span", tag("i", class_=f"dot {status}"), f"{count} {words}")
        for status, words in LEGEND.items()
        if (count := story.count(status))
    ]
    return joined(tag("p", *legend, class_="legend"), tag("ol", *map(_row, story.rows), class_="plan"))


def _row(row: Row) -> Markup:
    number = tag("span", str(row.position + 1), class_="number")
    text = tag("span", row.predicate.text, class_="condition")
    line = tag("div", number, text, *_when(row), class_="line")
    mark = tag("span", MARKS[row.status], class_="mark", title=LEGEND[row.status])
    joint = " joined" if row.certificate and row.position > row.certificate.position else ""
    return tag("li", mark, line, *_told(row), *_how(row), class_=f"row {row.status}{joint}")


def _when(row: Row) -> list[Markup]:
    certificate = row.certificate
    if certificate is None:
        return [tag("span", LEGEND[row.status], class_="when")] if row.status in ("failed", "target") else []
    if row.position > certificate.position:
        return [tag("span", "by the same action", class_="when")]
    cascade = [tag("span", f"cascade {certificate.depth}", class_="pill")] if certificate.depth > 1 else []
    return [*cascade, tag("span", f"step {certificate.step}", class_="when")]


def _how(row: Row) -> list[Markup]:
    certificate = row.certificate
    if certificate is None or row.position > certificate.position:
        return []
    if certificate.restores is not None:
        return [tag("p", f"returned to certified state {certificate.restores}", class_="how back")]
    found = [finding_block(certificate.finding)] if certificate.finding else []
    passed = [_passed(row, certificate.forced)] if certificate.forced else []
    return [*passed, tag("p", certificate.action.text, class_="how"), *found]


def _passed(row: Row, policy: str) -> Markup:
    """That the predicate was let pass, and why it would have been refused."""
    verdicts = [m.attempt.verdict for m in row.moments if isinstance(m, Try)]
    reason = next((v.reason for v in reversed(verdicts) if v.forced and v.reason), "")
    return tag("p", ": ".join(filter(None, [passed_by(policy), reason])), class_="passed")


def _told(row: Row) -> list[Markup]:
    """What happened at a row, in order, besides the attempt that its certificate already shows."""
    told = [m for m in row.moments if not isinstance(m, Try) or not m.discharged]
    shown: list[Markup] = []
    for _, run in groupby(told, key=type):
        moments = list(run)
        tries = [m for m in moments if isinstance(m, Try)]
        shown += _tries(tries, row) if tries else []
        shown += [_replanned(m) for m in moments if isinstance(m, Replanned)]
        shown += [_audited(m.audit) for m in moments if isinstance(m, Audited)]
    return shown


def _tries(tries: Sequence[Try], row: Row) -> list[Markup]:
    shown = [_try(t, row) for t in tries]
    kind = "attempts without a certificate" if any(t.attempt.verdict.depth for t in tries) else "rejected attempts"
    if len(tries) <= OPEN_UP_TO:
        return shown
    others = {t.attempt.target.text for t in tries if t.attempt.target != row.predicate}
    aims = f" at: {'; '.join(sorted(others))}" if others else ""
    last = tag("span", _reason(tries[-1]), class_="reason")
    summary = tag("summary", f"{len(tries)} {kind}{aims}", last)
    return [tag("details", summary, *shown, class_="many")]


def _replanned(moment: Replanned) -> Markup:
    done = "extended the plan" if moment.extends else "replanned"
    text = f"{done}: {counted(moment.tail, 'predicate')} from here" if moment.tail else "replanning gave up"
    return tag("p", f"⟲ {text}", tag("span", f"after step {moment.step}", class_="when"), class_="replan")


def _audited(audit: Audit) -> Markup:
    counts = f" by {sum(audit.votes)} of {len(audit.votes)} votes" if audit.votes else ""
    text = f"audit of the goal: {'confirmed' if audit.confirmed else 'denied'}{counts}"
    reason = [] if audit.confirmed else [tag("span", audit.reason, class_="reason")]
    return tag("p", text, tag("span", f"after step {audit.step}", class_="when"), *reason, class_="replan")


def _try(moment: Try, row: Row) -> Markup:
    attempt, verdict = moment.attempt, moment.attempt.verdict
    other = [] if attempt.target == row.predicate else [_part("aimed at", attempt.target.text)]
    evidence = [_part("evidence", shortened(verdict.evidence, LONGEST_ANSWER))] if verdict.evidence else []
    found = [finding_block(verdict.finding)] if verdict.finding else []
    answer = [_part("the world answered", shortened(moment.answer, LONGEST_ANSWER))] if moment.answer else []
    reason = tag("span", _reason(moment), class_="reason")
    step = tag("span", f"step {moment.step}", class_="when")
    summary = tag("summary", tag("span", attempt.action.text, class_="action"), step, reason)
    return tag("details", summary, *other, *found, *evidence, *answer, class_="try")


def _reason(moment: Try) -> str:
    """Why an attempt was not certified. The reason of a verdict that it holds is none."""
    if moment.attempt.verdict.depth:
        return "judged to hold, but not certified"
    return moment.attempt.verdict.reason or "the target does not hold"


def _part(name: str, text: str) -> Markup:
    return tag("p", tag("b", name), text, class_="part")
