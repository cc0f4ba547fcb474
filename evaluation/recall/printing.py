"""What the command `study retrieval` says."""

from collections.abc import Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table

from certigraph.evaluation.methods import RECALL
from certigraph.evaluation.recall.figures import Recall, RecallStudy
from certigraph.evaluation.recall.scoring import MEASURES
from certigraph.evaluation.report.html import counted
from certigraph.evaluation.statistics import told_apart

WIDTH = 110
"""Columns that a row takes, also where there is no terminal."""


def print_recall(study: RecallStudy) -> None:
    """For each split the recalls and their differences to plain BM25, with 95 % intervals, in points of 100."""
    console = Console(width=WIDTH, highlight=False, soft_wrap=True)
    for corpus in study.corpora:
        mine = [one for one in study.recalls if one.split == corpus.split]
        sizes = [
            counted(corpus.questions, "question"),
            counted(corpus.hops, "hop"),
            counted(corpus.passages, "passage"),
        ]
        console.print(f"{corpus.split}: {', '.join(sizes)}", style="bold")
        console.print(_table(mine, corpus.questions))
    console.print(
        "second line: difference to bm25 asked the question once; bold where told apart (p of Holm within 5 %)"
    )
    console.print(f"intervals: {RECALL['low, high']}; of differences {RECALL['difference_low, difference_high']}")


def _table(recalls: Sequence[Recall], questions: int) -> Table:
    table = Table("", *MEASURES, box=None)
    for queries, asked in groupby(recalls, key=lambda one: one.queries):
        table.add_row(queries, style="italic")
        for method, group in groupby(asked, key=lambda one: one.method):
            cells = list(group)
            table.add_row(method, *map(_mean, cells))
            if cells[0].difference is not None:
                table.add_row("", *(_difference(one, questions) for one in cells), style="dim")
    return table


def _mean(one: Recall) -> str:
    return f"{100 * one.mean:.1f}{_interval(one.low, one.high, '.1f')}"


def _difference(one: Recall, questions: int) -> str:
    if one.difference is None:
        return ""
    low, high = one.difference_low, one.difference_high
    shown = f"{100 * one.difference:+.1f}{_interval(low, high, '+.1f')}"
    apart = told_apart(None if low is None or high is None else (low, high), questions, one.p_holm)
    return f"[bold not dim]{shown}[/]" if apart else shown


def _interval(low: float | None, high: float | None, form: str) -> str:
    return "" if low is None or high is None else f" ({100 * low:{form}} to {100 * high:{form}})"
