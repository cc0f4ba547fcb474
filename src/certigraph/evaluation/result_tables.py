"""Tables of evaluations, comparisons, ablations and sweeps, for the terminal and for pages, and the printer of them.

The columns of a table stand in the order of their importance, since a narrow terminal leaves out the last ones.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from certigraph.adapters.models.chat_models import is_scripted, is_simulated
from certigraph.evaluation.comparison import MODEL_SEPARATOR
from certigraph.evaluation.comparison_summary import (
    AMOUNT_LABELS,
    AmountNeed,
    Comparison,
    Difference,
    FigureEstimate,
    MethodSummary,
)
from certigraph.evaluation.measures import MISSING_VALUE, RoleUsage
from certigraph.evaluation.published_matches import PUBLISHED_TITLE, PublishedView, view_matches
from certigraph.evaluation.replays import ReplayEstimate
from certigraph.evaluation.tables import FittedTable, TableCells, format_interval, table_console, table_of
from certigraph.runtime.texts import format_compact, format_count, format_duration, name_empty
from certigraph.state.trajectory import EmptyCalls

# Methods: score, successes, goal precision, faults and costs.


def _format_successes(summary: MethodSummary) -> str:
    share = f"{summary.successes}/{summary.runs}"
    return share if summary.pass_all is None else f"{share}, every trial {summary.pass_all:.0f} %"


def _format_cached_shares(roles: Mapping[str, RoleUsage]) -> str:
    cached = (f"{role} {tokens.share:.0%}" for role, tokens in sorted(roles.items()) if tokens.cached_tokens)
    return ", ".join(cached) or MISSING_VALUE


METHOD_COLUMNS: Mapping[str, Callable[[MethodSummary], str]] = {
    "method": lambda one: one.method,
    "score": lambda one: f"{one.score:.1f}" if one.n else MISSING_VALUE,
    "95 % interval": lambda one: format_interval(one.low, one.high),
    "goal precision": lambda one: str(one.goals),
    "n": lambda one: str(one.n),
    "faults": lambda one: f"{one.faults}/{one.begun}",
    "calls": lambda one: f"{one.calls:,} ({one.empty_calls:,} empty)" if one.empty_calls else f"{one.calls:,}",
    "time": lambda one: format_duration(one.seconds),
    "successes": _format_successes,
    "steps": lambda one: f"{one.steps:,}",
    "prompt": lambda one: format_compact(one.prompt_tokens),
    "output": lambda one: format_compact(one.output_tokens),
}
"""The columns of the table of methods."""

CACHE_COLUMNS: Mapping[str, Callable[[MethodSummary], str]] = {
    "cached": lambda one: format_compact(one.cached_tokens),
    "cached by role": lambda one: _format_cached_shares(one.roles),
}
"""The columns that follow if a model had cached a prompt."""


def method_table(summaries: Sequence[MethodSummary]) -> TableCells:
    """Return the headings and rows of the table of methods."""
    cached = any(summary.cached_tokens for summary in summaries)
    columns = {**METHOD_COLUMNS, **(CACHE_COLUMNS if cached else {})}
    if labels := list(dict.fromkeys(label for summary in summaries for label in summary.shown)):
        columns = _replace_score(columns, labels)
    return table_of(columns, summaries)


def _replace_score(
    columns: Mapping[str, Callable[[MethodSummary], str]], labels: Sequence[str]
) -> dict[str, Callable[[MethodSummary], str]]:
    """Return the columns with the parts that a benchmark shows in place of the score.

    The first part is the one that the score stands for, so that the interval of the score is its own.
    """
    parts = {label: partial(_format_part, label=label) for label in labels}
    first, *others = labels
    replaced: dict[str, Callable[[MethodSummary], str]] = {}
    for name, column in columns.items():
        replaced[first if name == "score" else name] = parts[first] if name == "score" else column
        if name == "95 % interval":
            replaced |= {label: parts[label] for label in others}
    return replaced


def _format_part(summary: MethodSummary, label: str) -> str:
    return f"{100 * summary.shown[label]:.1f}" if label in summary.shown else MISSING_VALUE


# Model calls by role, and those that brought no information by reason.


def call_table(summaries: Sequence[MethodSummary]) -> TableCells:
    """Return the headings and rows of the table of model calls: a run's calls by role, and shares of empty calls.

    Methods of whose calls the roles are not known are left out.
    """
    known, roles = _list_roles(summaries)
    reasons = [reason for reason in EmptyCalls._fields if any(one.empty.get(reason) for one in known)]
    shown = next((label for one in known for label in one.shown), "")
    columns: dict[str, Callable[[MethodSummary], str]] = {
        "method": lambda one: one.method,
        shown or "score": partial(_format_part, label=shown) if shown else lambda one: f"{one.score:.1f}",
        "calls a run": lambda one: _format_mean(one.calls, one.runs),
        **{role: partial(_format_role, role=role) for role in roles},
        "empty": lambda one: f"{(one.empty_calls or 0) / max(one.calls, 1):.0%}",
        **{reason: partial(_format_reason, reason=reason) for reason in reasons},
    }
    return table_of(columns, known)


def _list_roles(summaries: Sequence[MethodSummary]) -> tuple[list[MethodSummary], list[str]]:
    """Return the methods of whose calls the roles are known, and these roles in the order of their first calls."""
    known = [one for one in summaries if one.roles and one.runs]
    return known, list(dict.fromkeys(role for one in known for role in one.roles))


def _format_mean(amount: float, runs: int) -> str:
    return format_compact(round(amount / runs, 1))


def _format_role(summary: MethodSummary, role: str) -> str:
    used = summary.roles.get(role)
    return _format_mean(used.calls, summary.runs) if used else MISSING_VALUE


def _format_reason(summary: MethodSummary, reason: str) -> str:
    return f"{summary.empty_shares.get(reason, 0):.0%}"


class CallBars(NamedTuple):
    """The calls of a method as bars on a page: parts with CSS classes, mean number of calls a run, and text.

    `roles` are all of them by role, `empty` those that brought no information by reason.
    """

    method: str
    roles: Sequence[tuple[str, float, str]]
    empty: Sequence[tuple[str, float, str]]

    @property
    def length(self) -> float:
        """Length of the bar of roles."""
        return sum(amount for _, amount, _ in self.roles)


def call_bars(summaries: Sequence[MethodSummary]) -> list[CallBars]:
    """Lay out the calls of the methods that have a row in `call_table`."""
    (known, roles), bars = _list_roles(summaries), []
    for one in known:
        used = [
            (f"ink{index % 6}", one.roles[role].calls / one.runs, f"{role} {_format_role(one, role)}")
            for index, role in enumerate(roles)
            if role in one.roles
        ]
        empty = [
            (f"gap gap{index}", one.empty[reason] / one.runs, f"{name_empty(reason)} {_format_reason(one, reason)}")
            for index, reason in enumerate(EmptyCalls._fields)
            if one.empty.get(reason)
        ]
        bars.append(CallBars(one.method, used, empty))
    return bars


# Official figures of the benchmark.

FIGURE_COLUMNS: Mapping[str, Callable[[FigureEstimate], str]] = {
    "figure": lambda one: one.figure,
    "method": lambda one: one.method,
    "value": lambda one: MISSING_VALUE if one.value is None else f"{one.value:.1%}",
    "95 % interval": lambda one: format_interval(one.low, one.high, ".1%"),
}


def figure_table(figures: Sequence[FigureEstimate]) -> TableCells:
    """Return the headings and rows of the table of official figures, the methods of a figure together."""
    names = list(dict.fromkeys(one.figure for one in figures))
    return table_of(FIGURE_COLUMNS, sorted(figures, key=lambda one: names.index(one.figure)))


def published_view(comparison: Comparison) -> PublishedView | None:
    """Lay out the published figures of the methods next to theirs; None if there are none."""
    alone, rows = len(comparison.methods) == 1, []
    for figure in comparison.figures:
        matches = [one for one in comparison.published.get(figure.method, ()) if one.figure.metric == figure.figure]
        label = figure.figure if alone else f"{figure.method}, {figure.figure}"
        rows.append((label, MISSING_VALUE if figure.value is None else f"{100 * figure.value:.1f}", matches))
    return view_matches(rows, "figure")


# Paired differences of scores, and of what runs take.

MAX_DIFFERENCE = 100
"""The largest possible difference of scores."""


def _format_p(value: float | None) -> str:
    return MISSING_VALUE if value is None else f"{value:.3f}" if value >= 0.001 else "< 0.001"


def _format_detectable(least: float | None) -> str:
    return MISSING_VALUE if least is None else f"{least:.1f}" if least < MAX_DIFFERENCE else "> 100"


DIFFERENCE_COLUMNS: Mapping[str, Callable[[Difference], str]] = {
    "method": lambda one: f"{one.method} - {one.against}",
    "difference": lambda one: f"{one.mean:+.1f}" if one.n else MISSING_VALUE,
    "95 % interval": lambda one: format_interval(one.low, one.high, "+.1f"),
    "p (Holm)": lambda one: _format_p(one.p_adjusted),
    "n": lambda one: str(one.n),
    "p": lambda one: _format_p(one.p),
    "detectable": lambda one: _format_detectable(one.detectable),
    "in words": lambda one: one.words,
}


def need_table(needs: Sequence[AmountNeed]) -> TableCells:
    """Return the headings and rows of the table of tokens, calls and steps that a run takes.

    A difference is the mean amount of the row's method minus that of the first method.
    """
    first = needs[0].against if needs else "the first"
    heads = ("a run", "method", "mean", f"change from {first}", "95 % interval", f"difference from {first}")
    lines = []
    for need in needs:
        percents = format_interval(need.percent_low, need.percent_high, _format_percent, missing="")
        lines.append(
            (
                AMOUNT_LABELS[need.amount],
                need.method,
                format_compact(round(need.mean, 1)) if need.n else MISSING_VALUE,
                MISSING_VALUE if need.percent is None else f"{_format_percent(need.percent)} %",
                f"{percents} %" if percents else MISSING_VALUE,
                MISSING_VALUE if need.difference is None else _format_signed(need.difference),
                format_interval(need.low, need.high, _format_signed),
            )
        )
    return (*heads, "95 % interval"), lines


def _format_percent(percent: float) -> str:
    return f"{round(percent):+d}" if round(percent) else "0"


def _format_signed(amount: float) -> str:
    return f"{'-' if round(amount, 1) < 0 else '+'}{format_compact(round(abs(amount), 1))}"


# Ablations that were replayed and re-executed.

ESTIMATE_COLUMNS: Mapping[str, Callable[[ReplayEstimate], str]] = {
    "variant": lambda one: one.method,
    "rule": lambda one: one.rule,
    "n": lambda one: str(one.optimism.n),
    "full": lambda one: f"{one.full:.1f}",
    "re-executed": lambda one: f"{one.measured:.1f}",
    "replayed": lambda one: f"{one.replayed:.1f}",
    "replayed - re-executed": lambda one: f"{one.optimism.mean:+.1f}",
    "95 % interval": lambda one: format_interval(one.optimism.low, one.optimism.high, "+.1f"),
    "in words": lambda one: one.words,
}


# The scope and the finding in a line each.

MAX_NAMED_METHODS = 6
"""Maximum number of methods in a title, and of those named together in a finding."""


def comparison_line(comparison: Comparison) -> str:
    """Format the line above the tables: benchmark, models, number of tasks and trials, and tasks that are left out."""
    missing = comparison.planned - comparison.n
    unfinished = missing - comparison.faults
    lacking = f"; {unfinished} of {comparison.planned} tasks are not finished by every method and left out"
    lacking = lacking if unfinished else ""
    lacking += f"; {format_count(comparison.faults, 'task')} with a fault left out" if comparison.faults else ""
    notes = f"{lacking}{format_model_note(comparison.model.split(MODEL_SEPARATOR))}"
    trials = f" x {comparison.trials} trials" if comparison.trials > 1 else ""
    return f"{comparison.benchmark}, {comparison.model}, n={comparison.n}{trials}{notes}"


def format_model_note(models: Sequence[str]) -> str:
    """Format a note about models that are not language models; empty if all are."""
    scripted = [model for model in models if is_scripted(model)]
    if not scripted:
        return ""
    part = "" if len(scripted) == len(models) else f" ({', '.join(scripted)})"
    if any(map(is_simulated, scripted)):
        return f"; a simulated agent answers{part}: the figures are about mechanisms, not about a language model"
    return f"; a script answers for the model{part}: nothing here is about the methods' quality"


def format_verdict(comparison: Comparison) -> str:
    """Format in one sentence what a comparison found: the scores, and what the differences from the first one mean."""
    first = comparison.methods[0]
    if not first.n:
        return "No task is finished by every method."
    scores = {one.method: f"{one.method} {_format_scores(one)}" for one in comparison.methods if one.n}
    by_words: dict[str, list[str]] = {}
    for difference in comparison.differences:
        by_words.setdefault(difference.words, []).append(scores.get(difference.method, difference.method))
    found = []
    for words, names in by_words.items():
        more = len(names) - MAX_NAMED_METHODS
        found.append(f"{', '.join([*names[:MAX_NAMED_METHODS], *([f'{more} more'] if more > 0 else [])])}: {words}")
    return "; ".join([f"{scores[first.method]} of 100 over {format_count(first.n, 'task')}", *found]) + "."


def _format_scores(summary: MethodSummary) -> str:
    parts = (f"{label} {100 * value:.1f}" for label, value in summary.shown.items())
    return ", ".join(parts) or f"{summary.score:.1f}"


# The printer.


def terminal_tables(comparison: Comparison, estimates: Sequence[ReplayEstimate] = ()) -> Iterator[FittedTable | str]:
    """Yield the tables of a comparison for a terminal, with what explains them."""
    yield FittedTable(*method_table(comparison.methods))
    if (calls := call_table(comparison.methods))[1]:
        yield FittedTable(*calls)
    if comparison.variants:
        yield "\n".join(f" {name}: {text}" for name, text in comparison.variants.items())
    if comparison.figures:
        yield FittedTable(*figure_table(comparison.figures))
    if comparison.differences:
        yield FittedTable(*table_of(DIFFERENCE_COLUMNS, comparison.differences))
        yield FittedTable(*need_table(comparison.needs))
    if estimates:
        first = comparison.methods[0].method
        yield f" The page also estimates the variants from the runs of {first} alone (SDP paper, appendix C)."


def print_comparison(comparison: Comparison, estimates: Sequence[ReplayEstimate] = ()) -> None:
    """Print an evaluation, comparison, ablation, or one benchmark of a sweep.

    The finding comes last, since long tables would push it off a screen if it were first.
    """
    console = table_console()
    console.print(comparison_line(comparison), markup=False)
    for table in terminal_tables(comparison, estimates):
        console.print("", table, sep="\n", markup=False)
    if view := published_view(comparison):
        console.print(f"\n{PUBLISHED_TITLE}:")
        console.print(FittedTable(view.heads, view.lines))
        for number, note in zip(view.heads[2:], view.notes, strict=True):
            console.print(f" {number} {note}", markup=False)
    console.print()
    for summary in comparison.methods:
        endings = Counter(row.ending for row in comparison.rows if row.method == summary.method)
        ended = ", ".join(f"{count} {ending}" for ending, count in endings.most_common())
        console.print(f"{summary.method} ended: {ended or 'no run'}", markup=False)
    for warning in comparison.warnings:
        console.print(f"\nwarning: {warning}", markup=False, soft_wrap=True)
    console.print(f"\n{format_verdict(comparison)}", markup=False)
