"""Plan of a report: findings, predicates with their attempts, and the drawing of progress."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, Literal, NamedTuple

from certigraph.runtime.history import EXTENDED, held, reached, standing
from certigraph.runtime.html import (
    PASSED,
    Markup,
    clipped,
    counted,
    figure,
    joined,
    passed_by,
    shortened,
    tag,
    with_passed,
)
from certigraph.state.records import GOAL, Attempt, Audit, Certificate, Finding, Invalidation, Predicate
from certigraph.state.run import predicates_in_force
from certigraph.state.trajectory import Event, Trajectory

# Findings.

LINKED = ("http://", "https://")
"""Beginnings of the URLs that become links."""

LONGEST_FINDING, LONGEST_URL = 1_500, 160
"""Maximum number of characters of a finding, and of a URL."""


def finding_block(finding: Finding) -> Markup:
    """Show a finding with its sources and those that contradict it; URLs of the web are links."""
    text = tag("p", shortened(finding.text, LONGEST_FINDING))
    by = [tag("p", "by ", _links(finding.sources), class_="sources")] if finding.sources else []
    return tag("div", text, *by, *_against(finding), class_="found")


def _against(finding: Finding) -> list[Markup]:
    if not finding.against and not finding.dispute:
        return []
    named = joined("contradicted by ", _links(finding.against)) if finding.against else Markup("disputed")
    dispute = f": {shortened(finding.dispute, LONGEST_FINDING)}" if finding.dispute else ""
    return [tag("p", named, dispute, class_="against")]


def _links(urls: Sequence[str]) -> Markup:
    links = [_link(url) for url in urls]
    return joined(*(joined(", ", link) if number else link for number, link in enumerate(links)))


def _link(url: str) -> Markup:
    # Only web addresses become links: a page that was read may contain a URL that runs a script.
    shown = clipped(url, LONGEST_URL)
    if not url.lower().startswith(LINKED) or not url.isprintable():
        return joined(shown)
    return tag("a", shown, href=url, rel="noopener noreferrer nofollow")


# Rows of the plan, folded from events, with attempts, replans and audits.

Status = Literal["certified", "forced", "undone", "restored", "failed", "target", "waiting"]
"""Status of a predicate."""


class Try(NamedTuple):
    """An attempt with its world step and the answer of the world.

    `discharged`: it led to a certificate, which may be a forced pass. An attempt whose verdict holds has no certificate
    if an audit denied the goal, or if the run stopped in between.
    """

    attempt: Attempt
    step: int
    answer: str
    discharged: bool = False


class Replanned(NamedTuple):
    """A replan at a position of the plan; `tail` is the number of new predicates from there, 0 if it gave up.

    `extends`: it continued a plan that was cut.
    """

    position: int
    step: int
    tail: int
    extends: bool = False


class Audited(NamedTuple):
    """An audit of the goal, made at a position of the plan."""

    position: int
    audit: Audit


Moment = Try | Replanned | Audited
"""An event at a position of the plan."""


class Row(NamedTuple):
    """One predicate of the plan with its status, its certificate, and the events at its position in order."""

    position: int
    predicate: Predicate
    status: Status
    certificate: Certificate | None
    moments: tuple[Moment, ...]


class Story(NamedTuple):
    """Plan of a run with all events, as a report shows it."""

    rows: list[Row]
    moments: list[Moment]
    standing: list[tuple[int, int]]
    """World step and number of certified predicates after every certificate."""
    steps: int

    def count(self, *statuses: Status) -> int:
        """Count the predicates of the plan that have one of the statuses."""
        return sum(row.status in statuses for row in self.rows)

    @property
    def replans(self) -> int:
        """Number of replans that led to new predicates."""
        return sum(isinstance(m, Replanned) and m.tail > 0 and not m.extends for m in self.moments)

    @property
    def forced(self) -> bool:
        """Whether a policy let the last predicate of the plan, its goal, pass uncertified."""
        return bool(self.rows) and self.rows[-1].status == "forced"


def read_story(trajectory: Trajectory) -> Story:
    """Fold a trajectory. For a graph without a plan, the rows come from its certificates and attempts."""
    state, moments = trajectory.state(), _moments(trajectory.events)
    certificates = state.get("certificates", [])
    return Story(
        rows=list(_rows(state, moments, trajectory.footer.ending if trajectory.footer else "")),
        moments=moments,
        standing=[*zip((c.step for c in certificates), _held(certificates, state), strict=True)],
        steps=len(state.get("history", [])),
    )


def _held(certificates: Sequence[Certificate], state: Mapping[str, Any]) -> Iterator[int]:
    # The number of predicates in force after every certificate.
    invalidations: Sequence[Invalidation] = state.get("invalidations", ())
    if not invalidations:
        yield from map(held, reached(certificates)[1:])
        return
    for number, certificate in enumerate(certificates, 1):
        known = [invalidation for invalidation in invalidations if invalidation.step <= certificate.step]
        yield len(predicates_in_force(certificates[:number], known))


def _rows(state: Mapping[str, Any], moments: Sequence[Moment], ending: str) -> Iterator[Row]:
    certificates, moments_at = state.get("certificates", []), _by_position(moments)
    by_position = {c.position + n: i for i, c in enumerate(certificates) for n in range(c.depth)}
    valid, plan = standing(certificates), _plan(state)
    predicates = predicates_in_force(certificates, state.get("invalidations", ()))
    in_force = {certificates[predicate.certificate].position + predicate.target for predicate in predicates}
    head = state.get("head", max(by_position, default=-1) + 1)
    for position, predicate in sorted(plan.items()):
        index = by_position.get(position)
        certificate = None if index is None else certificates[index]
        is_valid = position in in_force or (certificate is not None and bool(certificate.forced) and index in valid)
        status = _status(certificate, is_valid, position == head, ending)
        yield Row(position, predicate, status, certificate, tuple(moments_at[position]))


def _plan(state: Mapping[str, Any]) -> dict[int, Predicate]:
    certified = {c.position + n: t for c in state.get("certificates", []) for n, t in enumerate(c.targets)}
    attempted = {a.position: a.target for a in state.get("attempts", [])}
    return {**attempted, **certified, **dict(enumerate(state.get("plan", [])))}


def _status(certificate: Certificate | None, is_valid: bool, at_head: bool, ending: str) -> Status:
    if certificate and certificate.restores is not None:
        return "restored"
    if certificate:
        return "undone" if not is_valid else "forced" if certificate.forced else "certified"
    if not at_head:
        return "waiting"
    return "target" if not ending or ending == GOAL or ending.startswith(("limit:", "error:")) else "failed"


def _moments(events: Sequence[Event]) -> list[Moment]:
    moments: list[Moment] = []
    head, step, answer, latest, before = 0, 0, "", -1, ""
    for event in (event for event in events if not event.scope):
        update: dict[str, Any] = {**(event.update or {})}
        step += len(update.get("history", []))
        answer = update.get("observation", {}).get("text", answer)
        for attempt in update.get("attempts", []):
            latest = len(moments)
            moments.append(Try(Attempt.model_validate(attempt), step, answer))
        if update.get("certificates") and latest >= 0:
            moments[latest] = _discharged(moments[latest])
        for audit in update.get("audits", []):
            moments.append(Audited(head, Audit.model_validate(audit)))
        if event.node == "replan":
            tail = max(len(update.get("plan", [])) - head, 0)
            moments.append(Replanned(head, step, tail, extends=before == EXTENDED))
        before = before if event.update is None else event.node
        head = update.get("head", head)
    return moments


def _discharged(moment: Moment) -> Moment:
    return moment._replace(discharged=True) if isinstance(moment, Try) and moment.attempt.verdict.depth else moment


def _by_position(moments: Sequence[Moment]) -> defaultdict[int, list[Moment]]:
    grouped: defaultdict[int, list[Moment]] = defaultdict(list)
    for moment in moments:
        grouped[moment.attempt.position if isinstance(moment, Try) else moment.position].append(moment)
    return grouped


# The column of predicates.

OPEN_UP_TO = 2
"""Maximum number of rejected attempts that are shown unfolded."""

LONGEST_ANSWER = 1_500
"""Maximum number of characters of an observation."""

MARKS: dict[Status, str] = {
    "certified": "✓",
    "forced": "!",
    "undone": "↶",
    "restored": "↩",
    "failed": "✕",
    "target": "▸",
    "waiting": "",
}
"""Mark of each status."""

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
    """Build the totals of the plan."""
    total = story.count("certified", "forced", "failed", "target", "waiting")
    note = with_passed("predicates", story.count("forced"))
    return [
        figure("certified", f"{story.count('certified')}/{total}", note),
        figure("world steps", f"{story.steps:,}", counted(story.replans, "replan")),
    ]


def plan_column(story: Story) -> Markup:
    """Show all predicates with a legend; a text if there is no plan."""
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
    finding = [finding_block(certificate.finding)] if certificate.finding else []
    passed = [_passed(row, certificate.forced)] if certificate.forced else []
    return [*passed, tag("p", certificate.action.text, class_="how"), *finding]


def _passed(row: Row, policy: str) -> Markup:
    # The label of the forced pass, with the reason for which the predicate was not certified.
    verdicts = [m.attempt.verdict for m in row.moments if isinstance(m, Try)]
    reason = next((v.reason for v in reversed(verdicts) if v.forced and v.reason), "")
    return tag("p", ": ".join(filter(None, [passed_by(policy), reason])), class_="passed")


def _told(row: Row) -> list[Markup]:
    # All events at a row, in order, except the attempt that its certificate shows.
    shown_moments = [m for m in row.moments if not isinstance(m, Try) or not m.discharged]
    shown: list[Markup] = []
    for _, run in groupby(shown_moments, key=type):
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
    finding = [finding_block(verdict.finding)] if verdict.finding else []
    answer = [_part("the world answered", shortened(moment.answer, LONGEST_ANSWER))] if moment.answer else []
    reason = tag("span", _reason(moment), class_="reason")
    step = tag("span", f"step {moment.step}", class_="when")
    summary = tag("summary", tag("span", attempt.action.text, class_="action"), step, reason)
    return tag("details", summary, *other, *finding, *evidence, *answer, class_="try")


def _reason(moment: Try) -> str:
    # A verdict that the target holds gives no reason why the attempt was not certified.
    if moment.attempt.verdict.depth:
        return "judged to hold, but not certified"
    return moment.attempt.verdict.reason or "the target does not hold"


def _part(name: str, text: str) -> Markup:
    return tag("p", tag("b", name), text, class_="part")


# The drawing of progress over world steps: rises are certificates, falls are returns.

WIDTH, HEIGHT = 400, 170
LEFT, RIGHT, TOP, BOTTOM = 26, 6, 12, 30


def progress_drawing(story: Story) -> Markup:
    """Draw the number of certified predicates by world step as SVG; a text if there was no step."""
    if not story.steps:
        return tag("p", "No step was taken in the world.", class_="quiet")
    scale = _Scale(story)
    line, wide, high = scale.path(story.standing), scale.x(story.steps), scale.y(0)
    area = f"{line} L{wide:.1f} {high:.1f} L{scale.x(0):.1f} {high:.1f} Z"
    drawing = tag(
        "svg",
        tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=high, y2=high, class_="axis"),
        tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=scale.y(scale.top), y2=scale.y(scale.top), class_="whole"),
        tag("path", d=area, class_="area"),
        tag("path", d=line, class_="progress"),
        *_ticks(story, scale),
        *_labels(story, scale),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"{story.count('certified')} predicates certified in {story.steps} world steps",
    )
    return joined(drawing, _key(story))


class _Scale:
    def __init__(self, story: Story) -> None:
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


def _ticks(story: Story, scale: _Scale) -> list[Markup]:
    base = scale.y(0)
    return [
        *(tag("line", x1=x, x2=x, y1=base + 3, y2=base + 9, class_="miss") for x in map(scale.x, _uncertified(story))),
        *(tag("circle", cx=x, cy=base, r=3, class_="turn") for x in map(scale.x, _replan_marks(story))),
        *(tag("circle", cx=x, cy=base, r=4, class_="pass") for x in map(scale.x, _forced(story))),
    ]


def _key(story: Story) -> Markup:
    line, dot, disc = (tag("i", class_=f"{name}-key") for name in ("miss", "turn", "pass"))
    shown = [tag("span", line, "attempt without a certificate")] if _uncertified(story) else []
    shown += [tag("span", dot, "replan")] if _replan_marks(story) else []
    shown += [tag("span", disc, PASSED)] if _forced(story) else []
    return tag("p", *shown, class_="key") if shown else joined()


def _uncertified(story: Story) -> list[int]:
    return sorted({m.step for m in story.moments if isinstance(m, Try) and not m.discharged})


def _replan_marks(story: Story) -> list[int]:
    return sorted({m.step for m in story.moments if isinstance(m, Replanned) and not m.extends})


def _forced(story: Story) -> list[int]:
    return sorted({m.step for m in story.moments if isinstance(m, Try) and m.attempt.verdict.forced})


def _labels(story: Story, scale: _Scale) -> list[Markup]:
    return [
        tag("text", str(scale.top), x=LEFT - 8, y=scale.y(scale.top) + 4, text_anchor="end"),
        tag("text", "0", x=LEFT - 8, y=scale.y(0) + 4, text_anchor="end"),
        tag("text", f"{story.steps} world steps", x=WIDTH - RIGHT, y=HEIGHT - 5, text_anchor="end"),
    ]
