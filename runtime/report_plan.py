"""Plan in a report: findings, predicates with their attempts, and the drawing of progress."""

from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from certigraph.runtime.history import RunHistory
from certigraph.runtime.html import Markup, join_markup, tag, total_cell
from certigraph.runtime.progress import (
    PlanAttempt,
    PlanAudit,
    PlanHistory,
    PlanReplan,
    PredicateRow,
    PredicateStatus,
)
from certigraph.runtime.texts import (
    PASSED_LABEL,
    add_passed_count,
    clip_text,
    format_count,
    passed_label,
    shorten_text,
)
from certigraph.state.records import Audit, Finding

# Findings.

LINK_PREFIXES = ("http://", "https://")
"""Beginnings of the URLs that are shown as links."""

MAX_FINDING_CHARACTERS, MAX_URL_CHARACTERS = 1_500, 160
"""Maximum number of characters of a finding, and of a URL."""


def finding_block(finding: Finding) -> Markup:
    """Show a finding with its sources and the sources that contradict it. URLs of web pages are links."""
    text = tag("p", shorten_text(finding.text, MAX_FINDING_CHARACTERS))
    by = [tag("p", "by ", _links(finding.sources), class_="sources")] if finding.sources else []
    return tag("div", text, *_item_list(finding), *by, *_contradiction_parts(finding), class_="found")


def _item_list(finding: Finding) -> list[Markup]:
    if not finding.items:
        return []
    items = (
        tag(
            "li",
            shorten_text(item.text, MAX_FINDING_CHARACTERS),
            *([" by ", _link(item.source)] if item.source else []),
        )
        for item in finding.items
    )
    return [tag("ol", *items, class_="items")]


def _contradiction_parts(finding: Finding) -> list[Markup]:
    if not finding.against and not finding.dispute:
        return []
    named = join_markup("contradicted by ", _links(finding.against)) if finding.against else Markup("disputed")
    dispute = f": {shorten_text(finding.dispute, MAX_FINDING_CHARACTERS)}" if finding.dispute else ""
    return [tag("p", named, dispute, class_="against")]


def _links(urls: Sequence[str]) -> Markup:
    links = [_link(url) for url in urls]
    return join_markup(*(join_markup(", ", link) if number else link for number, link in enumerate(links)))


def _link(url: str) -> Markup:
    # Only web addresses become links: a page that was read may contain a URL that runs a script.
    shown = clip_text(url, MAX_URL_CHARACTERS)
    if not url.lower().startswith(LINK_PREFIXES) or not url.isprintable():
        return join_markup(shown)
    return tag("a", shown, href=url, rel="noopener noreferrer nofollow")


# The plan as a report shows it.


class PlanTable(NamedTuple):
    """Plan of a run, and one row for each of its predicates."""

    plan: PlanHistory
    rows: list[PredicateRow]

    def count(self, *statuses: PredicateStatus) -> int:
        """Count the predicates of the plan that have one of the statuses."""
        return sum(row.status in statuses for row in self.rows)

    @property
    def forced(self) -> bool:
        """Whether a policy let the last predicate of the plan, its goal, pass uncertified."""
        return bool(self.rows) and self.rows[-1].status == "forced"


def plan_table(run: RunHistory) -> PlanTable:
    """Build the table of a run's plan.

    For a graph without a plan, the rows come from its certificates and attempts.
    """
    return PlanTable(run.plan, run.plan.rows(run.ending))


# The column of predicates.

MAX_OPEN_ATTEMPTS = 2
"""Maximum number of rejected attempts at a predicate that are shown expanded."""

MAX_ANSWER_CHARACTERS = 1_500
"""Maximum number of characters of an observation."""

STATUS_MARKS: dict[PredicateStatus, str] = {
    "certified": "✓",
    "forced": "!",
    "undone": "↶",
    "restored": "↩",
    "failed": "✕",
    "target": "▸",
    "waiting": "",
}
"""Mark for a predicate, by its status."""

STATUS_LABELS: dict[PredicateStatus, str] = {
    "certified": "certified",
    "forced": PASSED_LABEL,
    "undone": "certified, then undone or taken back",
    "restored": "returned to an earlier state",
    "failed": "failed here",
    "target": "target when the run stopped",
    "waiting": "never reached",
}


def plan_figures(story: PlanTable) -> list[Markup]:
    """Build the totals of a run with a plan: certified predicates and world steps."""
    total = story.count("certified", "forced", "failed", "target", "waiting")
    note = add_passed_count("predicates", story.count("forced"))
    return [
        total_cell("certified", f"{story.count('certified')}/{total}", note),
        total_cell("world steps", f"{story.plan.logged:,}", format_count(story.plan.replans, "replan")),
    ]


def plan_column(story: PlanTable) -> Markup:
    """Show all predicates of the plan with a legend; a notice if there is no plan."""
    if not story.rows:
        return tag("p", "No predicate was proposed.", class_="quiet")
    legend = [
        tag("span", tag("i", class_=f"dot {status}"), f"{count} {words}")
        for status, words in STATUS_LABELS.items()
        if (count := story.count(status))
    ]
    return join_markup(tag("p", *legend, class_="legend"), tag("ol", *map(_row_item, story.rows), class_="plan"))


def _row_item(row: PredicateRow) -> Markup:
    number = tag("span", str(row.position + 1), class_="number")
    text = tag("span", row.predicate.text, class_="condition")
    line = tag("div", number, text, *_row_time(row), class_="line")
    mark = tag("span", STATUS_MARKS[row.status], class_="mark", title=STATUS_LABELS[row.status])
    joint = " joined" if row.certificate and row.position > row.certificate.position else ""
    return tag("li", mark, line, *_event_parts(row), *_certificate_parts(row), class_=f"row {row.status}{joint}")


def _row_time(row: PredicateRow) -> list[Markup]:
    certificate = row.certificate
    if certificate is None:
        return [tag("span", STATUS_LABELS[row.status], class_="when")] if row.status in ("failed", "target") else []
    if row.position > certificate.position:
        return [tag("span", "by the same action", class_="when")]
    cascade = [tag("span", f"cascade {certificate.depth}", class_="pill")] if certificate.depth > 1 else []
    return [*cascade, tag("span", f"step {certificate.step}", class_="when")]


def _certificate_parts(row: PredicateRow) -> list[Markup]:
    certificate = row.certificate
    if certificate is None or row.position > certificate.position:
        return []
    if certificate.restores is not None:
        return [tag("p", f"returned to certified state {certificate.restores}", class_="how back")]
    finding = [finding_block(certificate.finding)] if certificate.finding else []
    passed = [_passed_paragraph(row, certificate.forced)] if certificate.forced else []
    return [*passed, tag("p", certificate.action.text, class_="how"), *finding]


def _passed_paragraph(row: PredicateRow, policy: str) -> Markup:
    # The label of the forced pass, with the reason for which the predicate was not certified.
    verdicts = [m.attempt.verdict for m in row.moments if isinstance(m, PlanAttempt)]
    reason = next((v.reason for v in reversed(verdicts) if v.forced and v.reason), "")
    return tag("p", ": ".join(filter(None, [passed_label(policy), reason])), class_="passed")


def _event_parts(row: PredicateRow) -> list[Markup]:
    # All events at a row, in order, except the attempt that its certificate shows.
    shown_moments = [m for m in row.moments if not isinstance(m, PlanAttempt) or not m.discharged]
    shown: list[Markup] = []
    for _, run in groupby(shown_moments, key=type):
        moments = list(run)
        tries = [m for m in moments if isinstance(m, PlanAttempt)]
        shown += _attempts_details(tries, row) if tries else []
        shown += [_replan_paragraph(m) for m in moments if isinstance(m, PlanReplan)]
        shown += [_audit_paragraph(m.audit) for m in moments if isinstance(m, PlanAudit)]
    return shown


def _attempts_details(tries: Sequence[PlanAttempt], row: PredicateRow) -> list[Markup]:
    shown = [_attempt_details(t, row) for t in tries]
    kind = "attempts without a certificate" if any(t.attempt.verdict.depth for t in tries) else "rejected attempts"
    if len(tries) <= MAX_OPEN_ATTEMPTS:
        return shown
    others = {t.attempt.target.text for t in tries if t.attempt.target != row.predicate}
    aims = f" at: {'; '.join(sorted(others))}" if others else ""
    last = tag("span", _rejection_reason(tries[-1]), class_="reason")
    summary = tag("summary", f"{len(tries)} {kind}{aims}", last)
    return [tag("details", summary, *shown, class_="many")]


def _replan_paragraph(moment: PlanReplan) -> Markup:
    done = "extended the plan" if moment.extends else "replanned"
    text = f"{done}: {format_count(moment.tail, 'predicate')} from here" if moment.tail else "replanning gave up"
    return tag("p", f"⟲ {text}", tag("span", f"after step {moment.step}", class_="when"), class_="replan")


def _audit_paragraph(audit: Audit) -> Markup:
    counts = f" by {sum(audit.votes)} of {len(audit.votes)} votes" if audit.votes else ""
    text = f"audit of the goal: {'confirmed' if audit.confirmed else 'denied'}{counts}"
    reason = [] if audit.confirmed else [tag("span", audit.reason, class_="reason")]
    return tag("p", text, tag("span", f"after step {audit.step}", class_="when"), *reason, class_="replan")


def _attempt_details(moment: PlanAttempt, row: PredicateRow) -> Markup:
    attempt, verdict = moment.attempt, moment.attempt.verdict
    other = [] if attempt.target == row.predicate else [_labelled_paragraph("aimed at", attempt.target.text)]
    evidence = (
        [_labelled_paragraph("evidence", shorten_text(verdict.evidence, MAX_ANSWER_CHARACTERS))]
        if verdict.evidence
        else []
    )
    finding = [finding_block(verdict.finding)] if verdict.finding else []
    answer = (
        [_labelled_paragraph("the world answered", shorten_text(moment.answer, MAX_ANSWER_CHARACTERS))]
        if moment.answer
        else []
    )
    reason = tag("span", _rejection_reason(moment), class_="reason")
    step = tag("span", f"step {moment.step}", class_="when")
    summary = tag("summary", tag("span", attempt.action.text, class_="action"), step, reason)
    return tag("details", summary, *other, *finding, *evidence, *answer, class_="try")


def _rejection_reason(moment: PlanAttempt) -> str:
    # A verdict that the target holds gives no reason why the attempt was not certified.
    if moment.attempt.verdict.depth:
        return "judged to hold, but not certified"
    return moment.attempt.verdict.reason or "the target does not hold"


def _labelled_paragraph(name: str, text: str) -> Markup:
    return tag("p", tag("b", name), text, class_="part")


# The drawing of progress over world steps: rises are certificates, falls are returns.

WIDTH, HEIGHT = 400, 170
LEFT, RIGHT, TOP, BOTTOM = 26, 6, 12, 30


def progress_drawing(story: PlanTable) -> Markup:
    """Draw the number of certified predicates by world step as SVG; a notice if no step was taken."""
    if not story.plan.logged:
        return tag("p", "No step was taken in the world.", class_="quiet")
    scale = _ProgressScale(story)
    line, wide, high = scale.path(story.plan.curve), scale.x(story.plan.logged), scale.y(0)
    area = f"{line} L{wide:.1f} {high:.1f} L{scale.x(0):.1f} {high:.1f} Z"
    drawing = tag(
        "svg",
        tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=high, y2=high, class_="axis"),
        tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=scale.y(scale.top), y2=scale.y(scale.top), class_="whole"),
        tag("path", d=area, class_="area"),
        tag("path", d=line, class_="progress"),
        *_tick_marks(story, scale),
        *_axis_labels(story, scale),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"{story.count('certified')} predicates certified in {story.plan.logged} world steps",
    )
    return join_markup(drawing, _drawing_key(story))


class _ProgressScale:
    def __init__(self, story: PlanTable) -> None:
        self.steps = story.plan.logged
        waiting = story.count("forced", "failed", "target", "waiting")
        self.top = max([story.count("certified") + waiting, *(count for _, count in story.plan.curve)])

    def x(self, step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / self.steps

    def y(self, count: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * count / max(self.top, 1)

    def path(self, curve: list[tuple[int, int]]) -> str:
        points = [(0, 0), *curve, (self.steps, curve[-1][1] if curve else 0)]
        turns = [f"H{self.x(step):.1f} V{self.y(count):.1f}" for _, (step, count) in pairwise(points)]
        return f"M{self.x(0):.1f} {self.y(0):.1f} {' '.join(turns)}"


def _tick_marks(story: PlanTable, scale: _ProgressScale) -> list[Markup]:
    base = scale.y(0)
    return [
        *(
            tag("line", x1=x, x2=x, y1=base + 3, y2=base + 9, class_="miss")
            for x in map(scale.x, _uncertified_steps(story))
        ),
        *(tag("circle", cx=x, cy=base, r=3, class_="turn") for x in map(scale.x, _replan_steps(story))),
        *(tag("circle", cx=x, cy=base, r=4, class_="pass") for x in map(scale.x, _forced_steps(story))),
    ]


def _drawing_key(story: PlanTable) -> Markup:
    line, dot, disc = (tag("i", class_=f"{name}-key") for name in ("miss", "turn", "pass"))
    shown = [tag("span", line, "attempt without a certificate")] if _uncertified_steps(story) else []
    shown += [tag("span", dot, "replan")] if _replan_steps(story) else []
    shown += [tag("span", disc, PASSED_LABEL)] if _forced_steps(story) else []
    return tag("p", *shown, class_="key") if shown else join_markup()


def _uncertified_steps(story: PlanTable) -> list[int]:
    return sorted({m.step for m in story.plan.moments if isinstance(m, PlanAttempt) and not m.discharged})


def _replan_steps(story: PlanTable) -> list[int]:
    return sorted({m.step for m in story.plan.moments if isinstance(m, PlanReplan) and not m.extends})


def _forced_steps(story: PlanTable) -> list[int]:
    return sorted({m.step for m in story.plan.moments if isinstance(m, PlanAttempt) and m.attempt.verdict.forced})


def _axis_labels(story: PlanTable, scale: _ProgressScale) -> list[Markup]:
    return [
        tag("text", str(scale.top), x=LEFT - 8, y=scale.y(scale.top) + 4, text_anchor="end"),
        tag("text", "0", x=LEFT - 8, y=scale.y(0) + 4, text_anchor="end"),
        tag("text", f"{story.plan.logged} world steps", x=WIDTH - RIGHT, y=HEIGHT - 5, text_anchor="end"),
    ]
