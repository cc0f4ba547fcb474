"""HTML of reports, built by function calls: elements, tables, the page and the parts that every report has.

Text is escaped unless it is a `Markup`, so that nothing a model or a world wrote can become part of the page.
"""

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence

from pydantic import JsonValue

from certigraph.runtime.texts import (
    format_compact,
    format_count,
    format_cut_prompts,
    format_duration,
    format_left_out,
    format_usd,
    shorten_text,
    split_answer,
)
from certigraph.state.records import Scores, Usage
from certigraph.state.trajectory import CutPrompt, Event, Trajectory, total_usage

# Elements.

CONTROL_CHARACTERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Pattern of control characters and of characters that change the direction of text."""


class Markup(str):
    """Text that is HTML already. Any other string is escaped when it is put into an element."""

    __slots__ = ()


def tag(name: str, *inside: str, **attributes: object) -> Markup:
    """Build an HTML element.

    Args:
        name: name of the element.
        inside: content; text is escaped, markup is not.
        attributes: attributes of the element. In their names, trailing underscores are dropped (`class_`), and other
            underscores become hyphens.
    """
    shown = "".join(f' {_attribute_name(key)}="{escape_text(str(value))}"' for key, value in attributes.items())
    return Markup(f"<{name}{shown}>{join_markup(*inside)}</{name}>")


def html_table(heads: Iterable[str], lines: Iterable[Iterable[str]], *below: str, looks: str = "comparison") -> Markup:
    """Build a table that scrolls sideways on a narrow page.

    Args:
        heads: heads of the columns.
        lines: cells of each row.
        below: parts that follow the table.
        looks: CSS class of the table.
    """
    head = tag("thead", tag("tr", *(tag("th", name) for name in heads)))
    body = tag("tbody", *(tag("tr", *(tag("td", text) for text in line)) for line in lines))
    return tag("div", tag("table", head, body, class_=looks), *below, class_="wide")


def join_markup(*inside: str) -> Markup:
    """Concatenate parts of HTML. Text is escaped, markup is not."""
    return Markup("".join(map(escape_text, inside)))


def escape_text(text: str) -> Markup:
    """Escape a text for HTML, also inside a quoted attribute. Markup is returned unchanged.

    Control characters and characters that change the direction of text become U+FFFD.
    """
    return text if isinstance(text, Markup) else Markup(html.escape(CONTROL_CHARACTERS.sub("\ufffd", text)))


def _attribute_name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


# The page of a report and its style sheet, light and dark.

PAGE_TEMPLATE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
$style</style>
</head>
<body>
<main>$body</main>
</body>
</html>
"""

PAGE_STYLE = """\
:root {
  color-scheme: light dark;
  --page: #f7f6f3; --card: #ffffff; --ink: #23252a; --soft: #6d7078; --faint: #a9abb0; --line: #e6e4de;
  --good: #2c7a57; --good-soft: #e3f1ea; --bad: #b0432f; --bad-soft: #f9e8e3;
  --warn: #97691a; --warn-soft: #f7eeda; --blue: #3f6591; --blue-soft: #e6edf5;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #15171a; --card: #1d2023; --ink: #e4e4e1; --soft: #9a9da4; --faint: #666a71; --line: #2e3236;
    --good: #74c69d; --good-soft: #1e352a; --bad: #e8917d; --bad-soft: #3c2420;
    --warn: #dcb36a; --warn-soft: #382e1b; --blue: #8fb4dd; --blue-soft: #202d3b;
  }
}
* { box-sizing: border-box; margin: 0; padding: 0; }
body { background: var(--page); color: var(--ink); overflow-wrap: anywhere;
  font: 15px/1.5 system-ui, Inter, "Segoe UI", Helvetica, Arial, sans-serif; font-variant-numeric: tabular-nums; }
main { max-width: 1180px; margin: 0 auto; padding: 44px 28px 72px; }
.overline { color: var(--soft); font-size: 13px; letter-spacing: .04em; }
h1 { font-size: 20px; line-height: 1.5; font-weight: 500; margin: 6px 0 18px; max-width: 62em; text-wrap: pretty; }
h2 { font-size: 13px; font-weight: 600; color: var(--soft); margin-bottom: 14px; }
.quiet { color: var(--faint); }
.badges { display: flex; flex-wrap: wrap; gap: 8px; }
.badge { padding: 4px 13px; border-radius: 99px; font-size: 14px; font-weight: 550; }
.badge.good { background: var(--good-soft); color: var(--good); }
.badge.bad { background: var(--bad-soft); color: var(--bad); }
.badge.idle { background: var(--warn-soft); color: var(--warn); }
.badge.plain { border: 1px solid var(--line); color: var(--soft); font-weight: 400; }
.badge.plain b { color: var(--ink); font-weight: 600; }
.message { margin-top: 10px; color: var(--warn); font-size: 14px; }
.facts { display: flex; flex-wrap: wrap; gap: 2px 26px; margin-top: 16px; color: var(--soft); font-size: 13px; }
.facts b { font-weight: 400; color: var(--faint); margin-right: 3px; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(132px, 1fr)); gap: 1px; margin: 28px 0 18px;
  background: var(--line); border: 1px solid var(--line); border-radius: 12px; overflow: hidden; }
.figures > div { background: var(--card); padding: 14px 16px 12px; }
.figures dt { color: var(--soft); font-size: 12.5px; }
.figures dd { font-size: 22px; font-weight: 550; line-height: 1.3; white-space: nowrap; }
.figures small { display: block; white-space: normal; color: var(--faint); font-size: 12px; font-weight: 400; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 18px 22px 20px;
  margin-bottom: 18px; }
.columns { display: grid; grid-template-columns: minmax(0, 1.55fr) minmax(0, 1fr); gap: 18px; align-items: start; }
aside { position: sticky; top: 18px; }
@media (max-width: 860px) { .columns { grid-template-columns: minmax(0, 1fr); } aside { position: static; }
  main { padding: 24px 14px; } }

.legend { display: flex; flex-wrap: wrap; gap: 3px 18px; margin: -4px 0 16px; font-size: 13px; color: var(--soft); }
.dot { display: inline-block; width: 8px; height: 8px; border-radius: 9px; margin-right: 7px; background: var(--mark); }
.dot.waiting { background: none; border: 1.5px solid var(--faint); }
.certified { --mark: var(--good); --tint: var(--good-soft); }
.failed { --mark: var(--bad); --tint: var(--bad-soft); }
.target, .undone { --mark: var(--warn); --tint: var(--warn-soft); }
.restored { --mark: var(--blue); --tint: var(--blue-soft); }
.plan { list-style: none; }
.row { position: relative; padding: 0 0 15px 38px; }
.row::before { content: ""; position: absolute; left: 10.5px; top: 22px; bottom: 0; width: 1px;
  background: var(--line); }
.row.certified:has(+ .certified)::before { background: var(--good); opacity: .4; }
.row:has(+ .joined)::before { width: 3px; left: 9.5px; }
.row:last-child::before { display: none; }
.mark { position: absolute; left: 0; top: 1px; width: 22px; height: 22px; border-radius: 22px; text-align: center;
  font-size: 12px; line-height: 22px; font-weight: 700; color: var(--mark); background: var(--tint); }
.waiting .mark { left: 5px; top: 6px; width: 12px; height: 12px; border: 1.5px solid var(--faint); opacity: .7; }
.joined .mark { left: 4px; top: 5px; width: 14px; height: 14px; font-size: 9px; line-height: 14px; }
.line { display: flex; gap: 9px; align-items: baseline; }
.number { color: var(--faint); font-size: 12px; min-width: 1.5em; text-align: right; }
.condition { flex: 1; }
.failed .condition, .target .condition { font-weight: 600; }
.waiting .condition { color: var(--soft); }
.undone .condition { color: var(--soft); text-decoration: line-through; text-decoration-color: var(--faint); }
.when { color: var(--faint); font-size: 12.5px; white-space: nowrap; }
.failed > .line .when, .target > .line .when { color: var(--mark); }
.pill { background: var(--blue-soft); color: var(--blue); border-radius: 99px; padding: 0 9px; font-size: 12px; }
.how, .replan, .row > details { margin-left: 27px; font-size: 13.5px; }
.how { color: var(--soft); }
.how.back { color: var(--blue); }
.replan { color: var(--blue); display: flex; justify-content: space-between; gap: 12px; margin-top: 5px; }
summary { cursor: pointer; list-style-position: outside; }
details.many { margin-top: 3px; }
.many > summary { color: var(--soft); }
.many > summary .reason { display: block; }
.many .try { margin-left: 14px; }
.reason { color: var(--bad); }
.try { margin-top: 5px; }
.try summary { display: grid; grid-template-columns: 1fr auto; gap: 0 12px; border-left: 2px solid var(--bad);
  padding-left: 11px; }
.try .action { color: var(--soft); }
.try .reason { grid-column: 1 / -1; }
.part { margin: 4px 0 2px 13px; color: var(--soft); white-space: pre-wrap; }
.part b { color: var(--faint); font-weight: 400; display: block; font-size: 12px; }

svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--faint); font-size: 12px; }
.axis { stroke: var(--line); }
.whole { stroke: var(--faint); stroke-dasharray: 2 5; opacity: .7; }
.area { fill: var(--good); opacity: .1; }
.progress { fill: none; stroke: var(--good); stroke-width: 2; stroke-linejoin: round; }
.miss { stroke: var(--bad); stroke-width: 2; opacity: .75; }
.turn { fill: var(--card); stroke: var(--blue); stroke-width: 2; }
.miss-key, .turn-key { display: inline-block; margin-right: 7px; }
.miss-key { width: 2px; height: 8px; background: var(--bad); opacity: .75; }
.turn-key { width: 8px; height: 8px; border: 2px solid var(--blue); border-radius: 8px; }
.key { display: flex; flex-wrap: wrap; gap: 2px 16px; margin-top: 8px; font-size: 12.5px; color: var(--soft); }
.chips { list-style: none; display: flex; flex-wrap: wrap; gap: 6px; }
.chips li { font-size: 13px; padding: 2px 11px; border-radius: 99px; }
.chips .pass { color: var(--good); background: var(--good-soft); }
.chips .fail { color: var(--bad); background: var(--bad-soft); }
.chips .unasked { color: var(--faint); border: 1px solid var(--line); }
.chips .amount { color: var(--blue); background: var(--blue-soft); }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th { font-weight: 400; text-align: left; color: var(--soft); }
thead th { color: var(--faint); font-size: 12.5px; padding-bottom: 6px; }
.nodes td, .nodes th:not(:first-child) { text-align: right; }
.nodes td, .nodes tbody th { vertical-align: top; padding: 5px 0 5px 8px; border-top: 1px solid var(--line); }
.nodes tbody th { padding-left: 0; color: var(--ink); }
.nodes thead th { white-space: nowrap; }
.cuts { margin-top: 8px; font-size: 13px; color: var(--soft); }
.cuts ul { margin-top: 6px; padding-left: 18px; max-height: 320px; overflow: auto; }
.bar { width: 27%; white-space: nowrap; }
.bar i { display: block; height: 3px; margin: 1px 0 0 auto; border-radius: 3px; background: var(--blue); opacity: .55; }
.wide { overflow-x: auto; }
.records { min-width: 860px; overflow-wrap: break-word; }
.records td, .records thead th { vertical-align: top; padding: 9px 14px 9px 0; }
.records td { border-top: 1px solid var(--line); }
.records thead th { padding-top: 0; }
.records td:first-child { color: var(--soft); }
pre { white-space: pre-wrap; font: 13px/1.55 ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
"""


# Parts that every report has: totals, scores, cost of each node, and the answer.

AMOUNT_PARTS = frozenset(
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
"""Parts of a score that are amounts, not yes or no: 0 is not shown as a failure."""

MAX_CUT_PROMPTS = 1_000
"""Maximum number of calls in the list of those whose prompts were cut."""

MAX_ANSWER_CHARACTERS = 20_000
"""Maximum number of characters of an answer."""


def totals_row(trajectory: Trajectory, *own: Markup) -> Markup:
    """Build the row of totals at the top of a report.

    Args:
        trajectory: the run, whose cost is shown last.
        own: totals that depend on the kind of run, shown first.
    """
    usage = trajectory.usage
    return tag(
        "dl",
        *own,
        total_cell("model calls", f"{usage.calls:,}", _format_executions(trajectory)),
        total_cell(
            "tokens",
            format_compact(usage.input_tokens + usage.output_tokens),
            f"{format_compact(usage.cached_tokens)} cached",
        ),
        total_cell("model cost", format_usd(usage.usd, trajectory.unpriced_calls), "US dollars"),
        total_cell("time", format_duration(usage.seconds), "inside nodes"),
        class_="figures",
    )


def total_cell(name: str, value: str, note: str) -> Markup:
    """Build one cell of the row of totals: its name above the value, and a note below."""
    return tag("div", tag("dt", name), tag("dd", value, tag("small", note)))


def score_chips(scores: Scores) -> Markup:
    """List the parts of a score, each marked as passed, failed, not evaluated, or an amount."""
    return tag("ul", *(_score_chip(name, part) for name, part in scores.parts.items()), class_="chips")


def node_table(events: Iterable[Event]) -> Markup:
    """Build the table of executions, model calls, tokens and seconds of every graph node.

    Bars compare the nodes within a column.
    """
    by_node: dict[str, list[Usage]] = {}
    for event in events:
        by_node.setdefault(event.node, []).append(event.usage)
    return cost_table(("node", "runs"), [(len(usages), total_usage(usages, node)) for node, usages in by_node.items()])


def cost_table(heads: tuple[str, str], rows: Sequence[tuple[int, Usage]]) -> Markup:
    """Build a table of usage with the columns name (the usage's `node`), count, calls, tokens and seconds.

    Args:
        heads: heads of the columns for name and count.
        rows: count and usage for each row.
    """
    most_tokens = max((_token_count(usage) for _, usage in rows), default=0)
    most_seconds = max((usage.seconds for _, usage in rows), default=0.0)
    head = tag("tr", *(tag("th", name) for name in (*heads, "calls", "tokens", "time")))
    lines = [
        tag(
            "tr",
            tag("th", usage.node),
            tag("td", f"{count:,}"),
            tag("td", f"{usage.calls:,}"),
            _bar_cell(format_compact(_token_count(usage)), _token_count(usage), most_tokens),
            _bar_cell(format_duration(usage.seconds), usage.seconds, most_seconds),
        )
        for count, usage in rows
    ]
    return tag("table", tag("thead", head), tag("tbody", *lines), class_="nodes")


def cut_prompts_list(trajectory: Trajectory) -> Markup:
    """List the model calls whose prompts were cut to the model's context window, below a summary of them."""
    cuts = trajectory.cut_prompts
    summary = tag("p", f"{format_cut_prompts(cuts, trajectory.usage.calls)}.")
    shown = [tag("li", _format_cut(cut)) for cut in cuts[:MAX_CUT_PROMPTS]]
    if len(cuts) > MAX_CUT_PROMPTS:
        shown.append(tag("li", f"and {len(cuts) - MAX_CUT_PROMPTS:,} more: see the trajectory"))
    return join_markup(summary, tag("details", tag("summary", "each request"), tag("ul", *shown), class_="cuts"))


def _format_cut(cut: CutPrompt) -> str:
    place = f"{cut.subtask}: " if cut.subtask else ""
    return f"{place}superstep {cut.superstep}, {cut.node} ({cut.role}): without {format_left_out(cut)}"


def answer_block(answer: JsonValue) -> Markup:
    """Show an answer: a list of dicts (an itinerary) as a table, text as text, anything else as JSON."""
    rows = [row for row in answer if isinstance(row, dict)] if isinstance(answer, list) else []
    if rows and isinstance(answer, list) and len(rows) == len(answer):
        return tag("div", _records_table(rows), class_="wide")
    listed = isinstance(answer, str)
    text = "\n".join(split_answer(answer)) if listed else json.dumps(answer, indent=2, ensure_ascii=False)
    return tag("pre", shorten_text(text, MAX_ANSWER_CHARACTERS))


def _format_executions(trajectory: Trajectory) -> str:
    redone = len(trajectory.superseded)
    return format_count(len(trajectory.events), "node run") + (f", {redone:,} redone" if redone else "")


def _score_chip(name: str, part: float | None) -> Markup:
    if part is not None and (name in AMOUNT_PARTS or part not in (0.0, 1.0)):
        return tag("li", f"{name} ", tag("b", f"{part:,.4g}" if part < 1000 else f"{part:,.0f}"), class_="amount")
    kind, mark = {None: ("unasked", "·"), 0.0: ("fail", "✕"), 1.0: ("pass", "✓")}[part]
    return tag("li", tag("b", mark), f" {name}", class_=kind)


def _bar_cell(shown: str, value: float, most: float) -> Markup:
    share = 100 * value / most if most else 0
    return tag("td", shown, tag("i", style=f"width:{share:.1f}%"), class_="bar")


def _records_table(rows: list[dict[str, JsonValue]]) -> Markup:
    columns = list(dict.fromkeys(key for row in rows for key in row))
    head = tag("tr", *(tag("th", column.replace("_", " ")) for column in columns))
    body = [tag("tr", *(tag("td", _record_cell(row, column)) for column in columns)) for row in rows]
    return tag("table", tag("thead", head), tag("tbody", *body), class_="records")


def _record_cell(row: Mapping[str, JsonValue], column: str) -> str:
    value = row.get(column)
    if value in (None, "", "-"):
        return tag("span", "·", class_="quiet")
    if isinstance(value, str):
        return join_markup(*(tag("div", entry) for part in value.split(";") if (entry := part.strip())))
    return json.dumps(value, ensure_ascii=False)


def _token_count(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens
