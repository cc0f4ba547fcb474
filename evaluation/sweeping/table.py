"""A sweep's table as text, for the terminal and for a page: a line a method, a column a benchmark."""

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.table import Table

from certigraph.evaluation.comparing.plan import AND
from certigraph.evaluation.comparing.summary import Summary
from certigraph.evaluation.comparing.table import DIFFERENCES, answering, difference_cells
from certigraph.evaluation.faults import share_text
from certigraph.evaluation.report.html import counted
from certigraph.evaluation.report.parts import compact
from certigraph.evaluation.sweeping.findings import Effect, Found, SweepFindings
from certigraph.state.endings import GOAL

NONE = "-"
AMOUNTS = ("endings", "faults", "calls", "tokens", "usd")
"""The columns after the benchmarks', over all of them together."""
EFFECTS = ("benchmark", *DIFFERENCES)


def heads(findings: SweepFindings) -> tuple[str, ...]:
    """The columns of the table."""
    return ("method", *map(head, findings.found), *AMOUNTS)


def head(found: Found) -> str:
    """A benchmark and the number of tasks that its figures are over."""
    return f"{found.title}, n={found.comparison.n}"


def lines(findings: SweepFindings) -> Iterator[tuple[str, ...]]:
    """A line a method: scores with their intervals, then what the method cost over all benchmarks."""
    for method in findings.methods:
        summaries = findings.of(method)
        yield method, *map(score, summaries), *amounts(summaries)


def score(summary: Summary) -> str:
    """The mean score, 0 to 100, and its 95 % interval."""
    if not summary.n:
        return NONE
    within = f" ({summary.low:.1f} to {summary.high:.1f})" if summary.low is not None else ""
    return f"{summary.score:.1f}{within}"


def endings_of(summaries: Sequence[Summary]) -> Counter[str]:
    """How runs ended, the most frequent first."""
    found = sum((Counter(summary.endings) for summary in summaries), Counter[str]())
    return Counter(dict(found.most_common()))


def amounts(summaries: Sequence[Summary]) -> tuple[str, ...]:
    """Endings, faults, calls, tokens and dollars of a method's runs, as many on every method's line."""
    confirmed = sum(summary.goals.confirmed for summary in summaries)
    notes = {GOAL: f" ({confirmed} confirmed)"}
    told = ", ".join(f"{ending} {count}{notes.get(ending, '')}" for ending, count in endings_of(summaries).items())
    faults = share_text(sum(summary.faults for summary in summaries), sum(summary.begun for summary in summaries))
    calls = sum(summary.calls for summary in summaries)
    tokens = sum(summary.prompt_tokens + summary.output_tokens for summary in summaries)
    spent = f"{calls:,}", compact(tokens), dollars(sum(summary.usd for summary in summaries))
    return told or NONE, faults, *spent


def dollars(amount: float) -> str:
    """US dollars, cents and less where it is less than one."""
    return "0" if not amount else f"{amount:.4f}" if amount < 1 else f"{amount:,.2f}"


def effect_cells(effect: Effect) -> tuple[str, ...]:
    """An effect as text, in the order of EFFECTS."""
    return effect.benchmark, *difference_cells(effect.difference)


def told(findings: SweepFindings) -> str:
    """What the table is over."""
    runs = sum(found.runs for found in findings.found)
    part = "" if not findings.left else f"; partial: {findings.left} of {counted(runs, 'run')} are still to be run"
    size = f"{counted(len(findings.methods), 'method')} on {counted(len(findings.found), 'benchmark')}"
    return f"{size}, {findings.model}{answering(findings.model.split(AND))}{part}"


def tables(findings: SweepFindings) -> Iterator[Table]:
    """The tables for a terminal."""
    yield _table(heads(findings), lines(findings))
    if findings.effects:
        yield _table(EFFECTS, map(effect_cells, findings.effects))


def _table(names: Sequence[str], rows: Iterator[tuple[str, ...]]) -> Table:
    table = Table(*names, box=None)
    for row in rows:
        table.add_row(*row)
    return table
