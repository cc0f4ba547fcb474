"""Plan of a report: findings, predicates with their attempts, and the drawing of progress."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, Literal, NamedTuple

from certigraph.runtime.history import EXTENDING_NODE, predicate_count_of, reached_states, valid_certificates
from certigraph.runtime.html import (
    PASSED_LABEL,
    Markup,
    add_passed_count,
    clip_text,
    format_count,
    join_markup,
    passed_label,
    shorten_text,
    tag,
    total_cell,
)
from certigraph.state.records import GOAL, Attempt, Audit, Certificate, Finding, Invalidation, Predicate
from certigraph.state.run import predicates_in_force
from certigraph.state.trajectory import Event, Trajectory

# Findings.

LINK_PREFIXES = ("http://", "https://")
"""Beginnings of the URLs that become links."""

MAX_FINDING_CHARACTERS, MAX_URL_CHARACTERS = 1_500, 160
"""Maximum number of characters of a finding, and of a URL."""


def finding_block(finding: Finding) -> Markup:
    """Show a finding with its sources and those that contradict it; URLs of the web are links."""
    text = tag("p", shorten_text(finding.text, MAX_FINDING_CHARACTERS))
    by = [tag("p", "by ", _links(finding.sources), class_="sources")] if finding.sources else []
    return tag("div", text, *by, *_contradiction_parts(finding), class_="found")


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


# Rows of the plan, folded from events, with attempts, replans and audits.

PredicateStatus = Literal["certified", "forced", "undone", "restored", "failed", "target", "waiting"]
"""Status of a predicate."""


class PlanAttempt(NamedTuple):
    """An attempt with its world step and the answer of the world.

    `discharged`: it led to a certificate, which may be a forced pass. An attempt whose verdict holds has no certificate
    if an audit denied the goal, or if the run stopped in between.
    """

    attempt: Attempt
    step: int
    answer: str
    discharged: bool = False


class PlanReplan(NamedTuple):
    """A replan at a position of the plan; `tail` is the number of new predicates from there, 0 if it gave up.

    `extends`: it continued a plan that was cut.
    """

    position: int
    step: int
    tail: int
    extends: bool = False


class PlanAudit(NamedTuple):
    """An audit of the goal, made at a position of the plan."""

    position: int
    audit: Audit


PlanEvent = PlanAttempt | PlanReplan | PlanAudit
"""An event at a position of the plan."""


class PredicateRow(NamedTuple):
    """One predicate of the plan with its status, its certificate, and the events at its position in order."""

    position: int
    predicate: Predicate
    status: PredicateStatus
    certificate: Certificate | None
    moments: tuple[PlanEvent, ...]


class PlanHistory(NamedTuple):
    """Plan of a run with all events, as a report shows it."""

    rows: list[PredicateRow]
    moments: list[PlanEvent]
    standing: list[tuple[int, int]]
    """World step and number of certified predicates after every certificate."""
    steps: int

    def count(self, *statuses: PredicateStatus) -> int:
        """Count the predicates of the plan that have one of the statuses."""
        return sum(row.status in statuses for row in self.rows)

    @property
    def replans(self) -> int:
        """Number of replans that led to new predicates."""
        return sum(isinstance(m, PlanReplan) and m.tail > 0 and not m.extends for m in self.moments)

    @property
    def forced(self) -> bool:
        """Whether a policy let the last predicate of the plan, its goal, pass uncertified."""
        return bool(self.rows) and self.rows[-1].status == "forced"


def read_plan_history(trajectory: Trajectory) -> PlanHistory:
    """Fold a trajectory. For a graph without a plan, the rows come from its certificates and attempts."""
    state, moments = trajectory.state(), _plan_events(trajectory.events)
    certificates = state.get("certificates", [])
    return PlanHistory(
        rows=list(_build_rows(state, moments, trajectory.footer.ending if trajectory.footer else "")),
        moments=moments,
        standing=[*zip((c.step for c in certificates), _counts_in_force(certificates, state), strict=True)],
        steps=len(state.get("history", [])),
    )


def _counts_in_force(certificates: Sequence[Certificate], state: Mapping[str, Any]) -> Iterator[int]:
    # The number of predicates in force after every certificate.
    invalidations: Sequence[Invalidation] = state.get("invalidations", ())
    if not invalidations:
        yield from map(predicate_count_of, reached_states(certificates)[1:])
        return
    for number, certificate in enumerate(certificates, 1):
        known = [invalidation for invalidation in invalidations if invalidation.step <= certificate.step]
        yield len(predicates_in_force(certificates[:number], known))


def _build_rows(state: Mapping[str, Any], moments: Sequence[PlanEvent], ending: str) -> Iterator[PredicateRow]:
    certificates, moments_at = state.get("certificates", []), _group_by_position(moments)
    by_position = {c.position + n: i for i, c in enumerate(certificates) for n in range(c.depth)}
    valid, plan = valid_certificates(certificates), _full_plan(state)
    predicates = predicates_in_force(certificates, state.get("invalidations", ()))
    in_force = {certificates[predicate.certificate].position + predicate.target for predicate in predicates}
    head = state.get("head", max(by_position, default=-1) + 1)
    for position, predicate in sorted(plan.items()):
        index = by_position.get(position)
        certificate = None if index is None else certificates[index]
        is_valid = position in in_force or (certificate is not None and bool(certificate.forced) and index in valid)
        status = _status_of(certificate, is_valid, position == head, ending)
        yield PredicateRow(position, predicate, status, certificate, tuple(moments_at[position]))


def _full_plan(state: Mapping[str, Any]) -> dict[int, Predicate]:
    certified = {c.position + n: t for c in state.get("certificates", []) for n, t in enumerate(c.targets)}
    attempted = {a.position: a.target for a in state.get("attempts", [])}
    return {**attempted, **certified, **dict(enumerate(state.get("plan", [])))}


def _status_of(certificate: Certificate | None, is_valid: bool, at_head: bool, ending: str) -> PredicateStatus:
    if certificate and certificate.restores is not None:
        return "restored"
    if certificate:
        return "undone" if not is_valid else "forced" if certificate.forced else "certified"
    if not at_head:
        return "waiting"
    return "target" if not ending or ending == GOAL or ending.startswith(("limit:", "error:")) else "failed"


def _plan_events(events: Sequence[Event]) -> list[PlanEvent]:
    moments: list[PlanEvent] = []
    head, step, answer, latest, before = 0, 0, "", -1, ""
    for event in (event for event in events if not event.scope):
        update: dict[str, Any] = {**(event.update or {})}
        step += len(update.get("history", []))
        answer = update.get("observation", {}).get("text", answer)
        for attempt in update.get("attempts", []):
            latest = len(moments)
            moments.append(PlanAttempt(Attempt.model_validate(attempt), step, answer))
        if update.get("certificates") and latest >= 0:
            moments[latest] = _mark_discharged(moments[latest])
        for audit in update.get("audits", []):
            moments.append(PlanAudit(head, Audit.model_validate(audit)))
        if event.node == "replan":
            tail = max(len(update.get("plan", [])) - head, 0)
            moments.append(PlanReplan(head, step, tail, extends=before == EXTENDING_NODE))
        before = before if event.update is None else event.node
        head = update.get("head", head)
    return moments


def _mark_discharged(moment: PlanEvent) -> PlanEvent:
    return (
        moment._replace(discharged=True) if isinstance(moment, PlanAttempt) and moment.attempt.verdict.depth else moment
    )


def _group_by_position(moments: Sequence[PlanEvent]) -> defaultdict[int, list[PlanEvent]]:
    grouped: defaultdict[int, list[PlanEvent]] = defaultdict(list)
    for moment in moments:
        grouped[moment.attempt.position if isinstance(moment, PlanAttempt) else moment.position].append(moment)
    return grouped


# The column of predicates.

MAX_OPEN_ATTEMPTS = 2
"""Maximum number of rejected attempts that are shown unfolded."""

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
"""Mark of each status."""

STATUS_LABELS: dict[PredicateStatus, str] = {
    "certified": "certified",
    "forced": PASSED_LABEL,
    "undone": "certified, then undone or taken back",
    "restored": "returned to an earlier state",
    "failed": "failed here",
    "target": "target when the run stopped",
    "waiting": "never reached",
}


def plan_figures(story: PlanHistory) -> list[Markup]:
    """Build the totals of the plan."""
    total = story.count("certified", "forced", "failed", "target", "waiting")
    note = add_passed_count("predicates", story.count("forced"))
    return [
        total_cell("certified", f"{story.count('certified')}/{total}", note),
        total_cell("world steps", f"{story.steps:,}", format_count(story.replans, "replan")),
    ]


def plan_column(story: PlanHistory) -> Markup:
    """Show all predicates with a legend; a text if there is no plan."""
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


def progress_drawing(story: PlanHistory) -> Markup:
    """Draw the number of certified predicates by world step as SVG; a text if there was no step."""
    if not story.steps:
        return tag("p", "No step was taken in the world.", class_="quiet")
    scale = _ProgressScale(story)
    line, wide, high = scale.path(story.standing), scale.x(story.steps), scale.y(0)
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
        aria_label=f"{story.count('certified')} predicates certified in {story.steps} world steps",
    )
    return join_markup(drawing, _drawing_key(story))


class _ProgressScale:
    def __init__(self, story: PlanHistory) -> None:
        self.steps = story.steps
        waiting = story.count("forced", "failed", "target", "waiting")
        self.top = max([story.count("certified") + waiting, *(count for _, count in story.standing)])

    def x(self, step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / self.steps

    def y(self, count: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * count / max(self.top, 1)

    def path(self, standing: list[tuple[int, int]]) -> str:
        points = [(0, 0), *standing, (self.steps, standing[-1][1] if standing else 0)]
        turns = [f"H{self.x(step):.1f} V{self.y(count):.1f}" for _, (step, count) in pairwise(points)]
        return f"M{self.x(0):.1f} {self.y(0):.1f} {' '.join(turns)}"


def _tick_marks(story: PlanHistory, scale: _ProgressScale) -> list[Markup]:
    base = scale.y(0)
    return [
        *(
            tag("line", x1=x, x2=x, y1=base + 3, y2=base + 9, class_="miss")
            for x in map(scale.x, _uncertified_steps(story))
        ),
        *(tag("circle", cx=x, cy=base, r=3, class_="turn") for x in map(scale.x, _replan_steps(story))),
        *(tag("circle", cx=x, cy=base, r=4, class_="pass") for x in map(scale.x, _forced_steps(story))),
    ]


def _drawing_key(story: PlanHistory) -> Markup:
    line, dot, disc = (tag("i", class_=f"{name}-key") for name in ("miss", "turn", "pass"))
    shown = [tag("span", line, "attempt without a certificate")] if _uncertified_steps(story) else []
    shown += [tag("span", dot, "replan")] if _replan_steps(story) else []
    shown += [tag("span", disc, PASSED_LABEL)] if _forced_steps(story) else []
    return tag("p", *shown, class_="key") if shown else join_markup()


def _uncertified_steps(story: PlanHistory) -> list[int]:
    return sorted({m.step for m in story.moments if isinstance(m, PlanAttempt) and not m.discharged})


def _replan_steps(story: PlanHistory) -> list[int]:
    return sorted({m.step for m in story.moments if isinstance(m, PlanReplan) and not m.extends})


def _forced_steps(story: PlanHistory) -> list[int]:
    return sorted({m.step for m in story.moments if isinstance(m, PlanAttempt) and m.attempt.verdict.forced})


def _axis_labels(story: PlanHistory, scale: _ProgressScale) -> list[Markup]:
    return [
        tag("text", str(scale.top), x=LEFT - 8, y=scale.y(scale.top) + 4, text_anchor="end"),
        tag("text", "0", x=LEFT - 8, y=scale.y(0) + 4, text_anchor="end"),
        tag("text", f"{story.steps} world steps", x=WIDTH - RIGHT, y=HEIGHT - 5, text_anchor="end"),
    ]
