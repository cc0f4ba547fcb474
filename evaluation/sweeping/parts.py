"""The parts of a sweep's page: the tinted table, the bars of endings, links to the benchmarks' own pages."""

from collections.abc import Iterator, Sequence
from urllib.parse import quote

from certigraph.evaluation.comparing.plan import Method
from certigraph.evaluation.comparing.summary import Summary
from certigraph.evaluation.report.html import Markup, counted, joined, tag
from certigraph.evaluation.settings import swaps_of
from certigraph.evaluation.sweeping.findings import Found, SweepFindings
from certigraph.evaluation.sweeping.table import NONE, amounts, endings_of

LOOKS = """
.sweep th, .sweep td { padding: 7px 12px; text-align: right; white-space: nowrap; border-top: 1px solid var(--line); }
.sweep thead th { border-top: none; vertical-align: bottom; }
.sweep thead th:has(a) { text-align: center; }
.sweep thead a { color: var(--blue); font-size: 13.5px; font-weight: 600; text-decoration: none; }
.sweep thead a:hover { text-decoration: underline; }
.sweep small { display: block; color: var(--soft); font-size: 11.5px; font-weight: 400; }
.sweep tbody th { text-align: left; padding-left: 0; color: var(--ink); font-weight: 600; }
.sweep .variant th { padding-left: 16px; font-weight: 400; border-top-style: dotted; white-space: normal;
  overflow-wrap: anywhere; min-width: 13em; }
.sweep .variant td { border-top-style: dotted; }
.sweep .score { font-size: 15px; font-weight: 550; text-align: center; min-width: 8.5em;
  background: color-mix(in srgb, var(--good) calc(var(--share) * .42), transparent); }
.sweep .none { color: var(--faint); font-weight: 400; background: none; }
.endings { display: flex; width: 116px; height: 9px; border-radius: 5px; overflow: hidden; background: var(--line); }
.endings i { flex: var(--runs); background: var(--faint); }
.endings .good, .key .good { background: var(--good); } .endings .warn, .key .warn { background: var(--warn); }
.endings .bad, .key .bad { background: var(--bad); } .endings .idle, .key .idle { background: var(--faint); }
.key .dot { align-self: center; margin-right: -9px; }
.sweep th:has(+ th + th + th + th:last-child), .sweep td:has(.endings) { text-align: left; padding-left: 22px; }
.effects td:nth-child(2), .effects th:nth-child(2) { text-align: left; }
.notice.quiet { border-color: var(--line); color: var(--soft); font-size: 13px; }
"""

KINDS = (("goal", "good"), ("limit:", "warn"), ("gave_up", "bad"), ("error:", "bad"))
"""How endings are tinted, by how they begin; others are idle."""


def tinted(findings: SweepFindings, methods: Sequence[Method]) -> Markup:
    """The table: a score is the darker the higher it is."""
    benchmarks = (tag("th", tag("a", one.title, href=_link(one)), tag("small", _size(one))) for one in findings.found)
    over = (tag("th", name) for name in ("endings", "faults", "calls", "tokens", "usd"))
    head = tag("thead", tag("tr", tag("th", ""), *benchmarks, *over))
    body = tag("tbody", *(_line(findings, method) for method in methods))
    return tag("div", tag("table", head, body, class_="sweep"), class_="wide")


def notices(findings: SweepFindings) -> Markup:
    """Why runs are left, and which combinations there are none of."""
    stopped = [tag("p", reason, class_="notice") for reason in findings.stopped]
    if findings.left and not stopped:
        stopped = [tag("p", f"Partial: {counted(findings.left, 'run')} left.", class_="notice")]
    warnings = (f"{one.title}: {warning}" for one in findings.found for warning in one.comparison.warnings)
    stopped += [tag("p", warning, class_="notice") for warning in warnings]
    left_out = [tag("p", "; ".join(findings.left_out), class_="notice quiet")] if findings.left_out else []
    return joined(*stopped, *left_out)


def endings_key(findings: SweepFindings) -> Markup:
    """What the colours of the bars stand for."""
    seen = endings_of([summary for found in findings.found for summary in found.comparison.methods])
    return joined(*(joined(tag("i", class_=f"dot {_kind(ending)}"), tag("span", ending)) for ending in seen))


def _line(findings: SweepFindings, method: Method) -> Markup:
    summaries = findings.of(method.name)
    own = not swaps_of(method.graph, method.operators)
    name = method.name if own else method.name.removeprefix(f"{method.graph} ")
    _, *costs = amounts(summaries)
    cells = (*map(_score, summaries), tag("td", _bar(summaries)), *(tag("td", cost) for cost in costs))
    return tag("tr", tag("th", name, title=method.name), *cells, **({} if own else {"class_": "variant"}))


def _score(summary: Summary) -> Markup:
    if not summary.n:
        return tag("td", NONE, class_="score none")
    within = f"{summary.low:.1f} to {summary.high:.1f}" if summary.low is not None else "no interval"
    return tag(
        "td", f"{summary.score:.1f}", tag("small", within), class_="score", style=f"--share: {summary.score:.0f}%"
    )


def _bar(summaries: Sequence[Summary]) -> Markup:
    found = endings_of(summaries)
    told = ", ".join(f"{ending} {count}" for ending, count in found.items())
    return tag("div", *_pieces(found), class_="endings", title=told)


def _pieces(found: dict[str, int]) -> Iterator[Markup]:
    ranks = {kind: rank for rank, kind in enumerate(("good", "idle", "warn", "bad"))}
    for ending in sorted(found, key=lambda ending: ranks[_kind(ending)]):
        yield tag("i", class_=_kind(ending), style=f"--runs: {found[ending]}")


def _kind(ending: str) -> str:
    return next((kind for begins, kind in KINDS if ending.startswith(begins)), "idle")


def _size(found: Found) -> str:
    n, planned, trials = found.comparison.n, found.comparison.planned, found.comparison.trials
    tasks = f"{n} of {counted(planned, 'task')}" if n < planned else counted(n, "task")
    return tasks + (f" x {trials} trials" if trials > 1 else "")


def _link(found: Found) -> str:
    return quote(found.page)
