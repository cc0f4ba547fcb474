"""The tables of a comparison as text, for the terminal and for a page."""

from collections.abc import Iterator, Mapping, Sequence

from rich.table import Table

from certigraph.adapters.models.chat import is_scripted
from certigraph.adapters.models.simulated import SIMULATED
from certigraph.evaluation.ablating.estimates import Estimate
from certigraph.evaluation.comparing.cost_table import need_table
from certigraph.evaluation.comparing.plan import AND
from certigraph.evaluation.comparing.rows import Prompted
from certigraph.evaluation.comparing.summary import Comparison, Difference, Summary
from certigraph.evaluation.faults import share_text
from certigraph.evaluation.report.html import counted
from certigraph.evaluation.report.parts import clock, compact

MOST = 100
"""The greatest difference that there can be."""

METHODS = (
    "method",
    "n",
    "score",
    "95 % interval",
    "successes",
    "goal precision",
    "faults",
    "calls",
    "prompt",
    "cached",
    "output",
    "steps",
    "time",
    "cached by role",
)
CACHED = ("cached", "cached by role")
DIFFERENCES = ("method", "n", "difference", "95 % interval", "p", "p (Holm)", "detectable", "in words")
ESTIMATES = (
    "variant",
    "rule",
    "n",
    "full",
    "re-executed",
    "replayed",
    "replayed - re-executed",
    "95 % interval",
    "in words",
)


def method_cells(summary: Summary) -> tuple[str, ...]:
    """A method's figures as text, in the order of METHODS."""
    return (
        summary.method,
        str(summary.n),
        f"{summary.score:.1f}" if summary.n else "-",
        _between(summary.low, summary.high, ".1f"),
        _successes(summary),
        str(summary.goals),
        share_text(summary.faults, summary.begun),
        f"{summary.calls:,}",
        compact(summary.prompt_tokens),
        compact(summary.cached_tokens),
        compact(summary.output_tokens),
        f"{summary.steps:,}",
        clock(summary.seconds),
        _shares(summary.roles),
    )


def method_table(summaries: Sequence[Summary]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Heads and lines; without the columns about the model's cache where it cached nothing."""
    lines = [method_cells(summary) for summary in summaries]
    used = [n for n, head in enumerate(METHODS) if head not in CACHED or any(line[n] not in "0-" for line in lines)]
    return tuple(METHODS[n] for n in used), [tuple(line[n] for n in used) for line in lines]


def difference_cells(found: Difference) -> tuple[str, ...]:
    """A paired difference as text, in the order of DIFFERENCES."""
    interval = _between(found.low, found.high, "+.1f")
    detectable = "-" if found.detectable is None else f"{found.detectable:.1f}" if found.detectable < MOST else "> 100"
    name, n = f"{found.method} - {found.against}", str(found.n)
    mean = f"{found.mean:+.1f}" if found.n else "-"
    return name, n, mean, interval, _p(found.p), _p(found.p_adjusted), detectable, found.words


def estimate_cells(estimate: Estimate) -> tuple[str, ...]:
    """A replayed ablation beside the re-executed one as text, in the order of ESTIMATES."""
    found = estimate.optimism
    scores = (f"{score:.1f}" for score in (estimate.full, estimate.measured, estimate.replayed))
    interval = _between(found.low, found.high, "+.1f")
    return estimate.method, estimate.rule, str(found.n), *scores, f"{found.mean:+.1f}", interval, estimate.words


def tables(comparison: Comparison, estimates: Sequence[Estimate] = ()) -> Iterator[Table]:
    """The tables for a terminal."""
    yield _table(*method_table(comparison.methods))
    if comparison.differences:
        yield _table(DIFFERENCES, [difference_cells(found) for found in comparison.differences])
        yield _table(*need_table(comparison.needs))
    if estimates:
        yield _table(ESTIMATES, [estimate_cells(estimate) for estimate in estimates])


def told(comparison: Comparison) -> str:
    """What the table is over."""
    missing = comparison.planned - comparison.n
    unfinished = missing - comparison.faults
    lacking = f"; {unfinished} of {comparison.planned} tasks are not finished by every method and left out"
    lacking = lacking if unfinished else ""
    lacking += f"; {counted(comparison.faults, 'task')} with a fault left out" if comparison.faults else ""
    told = f"{lacking}{answering(comparison.model.split(AND))}"
    trials = f" x {comparison.trials} trials" if comparison.trials > 1 else ""
    return f"{comparison.benchmark}, {comparison.model}, n={comparison.n}{trials}{told}"


def answering(models: Sequence[str]) -> str:
    """What must be known of figures that no language model's answers made; nothing where one made all of them."""
    scripted = [model for model in models if is_scripted(model)]
    if not scripted:
        return ""
    part = "" if len(scripted) == len(models) else f" ({', '.join(scripted)})"
    if any(model.startswith(SIMULATED) for model in scripted):
        return f"; a simulated agent answers{part}: the figures are about mechanisms, not about a language model"
    return f"; a script answers for the model{part}: nothing here is about the methods' quality"


def _shares(roles: Mapping[str, Prompted]) -> str:
    cached = (f"{role} {tokens.share:.0%}" for role, tokens in sorted(roles.items()) if tokens.cached_tokens)
    return ", ".join(cached) or "-"


def _between(low: float | None, high: float | None, form: str) -> str:
    return "-" if low is None or high is None else f"{low:{form}} to {high:{form}}"


def _successes(summary: Summary) -> str:
    share = f"{summary.successes}/{summary.runs}"
    return share if summary.pass_all is None else f"{share}, every trial {summary.pass_all:.0f} %"


def _p(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value >= 0.001 else "< 0.001"


def _table(heads: tuple[str, ...], lines: list[tuple[str, ...]]) -> Table:
    table = Table(*heads, box=None)
    for line in lines:
        table.add_row(*line)
    return table
