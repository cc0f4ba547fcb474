"""The parts that every report has: the figures, the scores, the cost of each node, and the answer."""

import json
from collections.abc import Iterable, Mapping, Sequence

from pydantic import JsonValue

from certigraph.evaluation.report.html import Markup, counted, joined, shortened, tag
from certigraph.evaluation.report.words import answer_texts
from certigraph.state.records import Scores, Usage
from certigraph.state.trajectory import Event, Trajectory, total

FIGURES = frozenset(
    {
        "cost",
        "forced",
        "abstained",
        "malformed",
        "raw",
        "last_non_negative",
        "last_positive",
        "moves",
        "calls",
        "exact_string",
    }
)
"""Parts of a score that are amounts or tell what happened, no verdicts: 0 is no failure there."""

LONGEST_ANSWER = 20_000


def figures(trajectory: Trajectory, *own: Markup) -> Markup:
    """The totals in one row: a page's own figures, then what the run cost."""
    usage = trajectory.usage
    return tag(
        "dl",
        *own,
        figure("model calls", f"{usage.calls:,}", _node_runs(trajectory)),
        figure("tokens", compact(usage.input_tokens + usage.output_tokens), f"{compact(usage.cached_tokens)} cached"),
        figure("model cost", f"${usage.usd:,.4f}" if 0 < usage.usd < 1 else f"${usage.usd:,.2f}", "US dollars"),
        figure("time", clock(usage.seconds), "inside nodes"),
        class_="figures",
    )


def figure(name: str, value: str, note: str) -> Markup:
    """One total with its name above and a note below."""
    return tag("div", tag("dt", name), tag("dd", value, tag("small", note)))


def score_chips(scores: Scores) -> Markup:
    """The parts of a score: passed, failed, not asked, or an amount."""
    return tag("ul", *(_chip(name, part) for name, part in scores.parts.items()), class_="chips")


def node_table(events: Iterable[Event]) -> Markup:
    """Runs, calls, tokens and seconds of every node; the bars compare nodes within a column."""
    by_node: dict[str, list[Usage]] = {}
    for event in events:
        by_node.setdefault(event.node, []).append(event.usage)
    return cost_table(("node", "runs"), [(len(usages), total(usages, node)) for node, usages in by_node.items()])


def cost_table(heads: tuple[str, str], rows: Sequence[tuple[int, Usage]]) -> Markup:
    """Each row's name (its usage's `node`), count, calls, tokens and seconds, under the heads of the first two."""
    most_tokens = max((_tokens(usage) for _, usage in rows), default=0)
    most_seconds = max((usage.seconds for _, usage in rows), default=0.0)
    head = tag("tr", *(tag("th", name) for name in (*heads, "calls", "tokens", "time")))
    lines = [
        tag(
            "tr",
            tag("th", usage.node),
            tag("td", f"{count:,}"),
            tag("td", f"{usage.calls:,}"),
            _bar(compact(_tokens(usage)), _tokens(usage), most_tokens),
            _bar(clock(usage.seconds), usage.seconds, most_seconds),
        )
        for count, usage in rows
    ]
    return tag("table", tag("thead", head), tag("tbody", *lines), class_="nodes")


def answer_block(answer: JsonValue) -> Markup:
    """What was delivered: a list of alike dicts as a table (an itinerary), text as text, else JSON."""
    rows = [row for row in answer if isinstance(row, dict)] if isinstance(answer, list) else []
    if rows and isinstance(answer, list) and len(rows) == len(answer):
        return tag("div", _records(rows), class_="wide")
    listed = isinstance(answer, str)
    text = "\n".join(answer_texts(answer)) if listed else json.dumps(answer, indent=2, ensure_ascii=False)
    return tag("pre", shortened(text, LONGEST_ANSWER))


def compact(count: float) -> str:
    """1234567 as 1.23M."""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return f"{count:g}"


def clock(seconds: float) -> str:
    """Seconds in words short enough for a table."""
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def _node_runs(trajectory: Trajectory) -> str:
    redone = len(trajectory.superseded)
    return counted(len(trajectory.events), "node run") + (f", {redone:,} redone" if redone else "")


def _chip(name: str, part: float | None) -> Markup:
    if part is not None and (name in FIGURES or part not in (0.0, 1.0)):
        return tag("li", f"{name} ", tag("b", f"{part:,.4g}" if part < 1000 else f"{part:,.0f}"), class_="amount")
    kind, mark = {None: ("unasked", "·"), 0.0: ("fail", "✕"), 1.0: ("pass", "✓")}[part]
    return tag("li", tag("b", mark), f" {name}", class_=kind)


def _bar(shown: str, value: float, most: float) -> Markup:
    share = 100 * value / most if most else 0
    return tag("td", shown, tag("i", style=f"width:{share:.1f}%"), class_="bar")


def _records(rows: list[dict[str, JsonValue]]) -> Markup:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    head = tag("tr", *(tag("th", column.replace("_", " ")) for column in columns))
    body = [tag("tr", *(tag("td", _cell(row, column)) for column in columns)) for row in rows]
    return tag("table", tag("thead", head), tag("tbody", *body), class_="records")


def _cell(row: Mapping[str, JsonValue], column: str) -> str:
    value = row.get(column)
    if value in (None, "", "-"):
        return tag("span", "·", class_="quiet")
    if isinstance(value, str):
        return joined(*(tag("div", entry) for part in value.split(";") if (entry := part.strip())))
    return json.dumps(value, ensure_ascii=False)


def _tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens
