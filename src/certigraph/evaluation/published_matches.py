"""Published figures that belong to evaluated runs, and what differs between those runs and the paper's.

A figure belongs to runs if benchmark, graph, exchanged operators and metric are the same. It is shown next to ours, and
never enters a difference or a test, because tasks, models and limits of the two are hardly ever the same.
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from certigraph.adapters.benchmarks import find_benchmark
from certigraph.evaluation.published_figures import PublishedFigure, figures_on
from certigraph.runtime.registry import paper_swaps
from certigraph.state.records import Record

UNNAMED_MODELS = ("", "no model")
"""Models of published figures with which no model of ours can be compared: not stated, and none."""


class RunSetting(NamedTuple):
    """What the runs of one method on one benchmark have in common."""

    graph: str
    swaps: Mapping[str, str]
    """Operators that replace the graph's own, by slot."""
    benchmark: str
    """Name of the benchmark, with its configuration."""
    models: Set[str]
    """Names of the models of all roles."""
    tasks: Set[str]
    """Ids of the tasks whose runs count."""
    limited: bool
    """Whether budget or limits are not the benchmark's own."""


class PublishedMatch(Record):
    """A published figure that belongs to runs, and what is different in these runs, in a few words each."""

    figure: PublishedFigure
    here: tuple[str, ...]


def find_matches(setting: RunSetting, metrics: Set[str]) -> tuple[PublishedMatch, ...]:
    """Return the published figures that belong to runs.

    If a paper has a figure on exactly the tasks of the runs, its figure on all tasks is left out.

    Args:
        setting: setting of the runs.
        metrics: names of the metrics that were computed.
    """
    paper = paper_swaps(setting.graph)
    others = {slot: name for slot, name in setting.swaps.items() if paper.get(slot) != name}
    # a wrapper of the paper's operator is written with it, and published figures name the wrapper alone
    other_swaps = {slot: name.replace(f"{slot}={paper.get(slot)},", "") for slot, name in others.items()}
    found = [
        figure
        for figure in figures_on(setting.benchmark)
        if (figure.graph, figure.swaps) == (setting.graph, other_swaps)
        and setting.benchmark in figure.benchmarks
        and figure.metric in metrics
    ]
    exact = {_row_key(figure) for figure in found if figure.task_ids and set(figure.task_ids) == setting.tasks}
    return tuple(
        PublishedMatch(figure=figure, here=tuple(_list_differences(figure, setting)))
        for figure in found
        if (set(figure.task_ids) == setting.tasks if figure.task_ids else _row_key(figure) not in exact)
    )


def _row_key(figure: PublishedFigure) -> tuple[str, ...]:
    return figure.source, figure.method, figure.metric


def _list_differences(figure: PublishedFigure, setting: RunSetting) -> Iterator[str]:
    if setting.benchmark != figure.benchmarks[0]:
        yield "other configuration"
    if figure.model not in UNNAMED_MODELS and {*map(normalise_model, setting.models)} != {figure.model.lower()}:
        yield "other model"
    whole = len(setting.tasks) == figure.tasks and all(re.fullmatch(figure.ids, task) for task in setting.tasks)
    if not figure.task_ids and not whole:
        yield "other tasks" if figure.ids or len(setting.tasks) != figure.tasks else "perhaps other tasks"
    if setting.limited:
        yield "other limits"
    if not _runs_paper_loop(setting):
        yield "cheaper loop"
    yield from figure.differs


def _runs_paper_loop(setting: RunSetting) -> bool:
    """Return whether the loop is that of the paper: its operators, or in their place the benchmark's own or others."""
    benchmark = find_benchmark(setting.benchmark)
    own = benchmark.operators() if benchmark else {}
    return all(slot in setting.swaps or slot in own for slot in paper_swaps(setting.graph))


def normalise_model(model: str) -> str:
    """Return a model's name as papers write it, in lower case: `openai:gpt-4o-2024-08-06?effort=low` -> `gpt-4o`.

    Provider, parameters and the date of a version are left out.
    """
    name = model.partition(":")[2] or model
    return re.sub(r"-(\d{4}-\d\d-\d\d|\d{8})$", "", name.partition("?")[0].rpartition("/")[2].lower())


# The table in which published figures stand next to ours, with a numbered note for each source.


PUBLISHED_TITLE = "published figures in percent"
"""Title of the table."""


FigureRow = tuple[str, str, Sequence[PublishedMatch]]
"""Row of the table: a metric or a method, our figure as a text, and the published figures."""


class PublishedView(NamedTuple):
    """Table of published figures next to ours, and the notes that its numbered columns refer to."""

    heads: tuple[str, ...]
    lines: list[tuple[str, ...]]
    notes: list[str]


def view_matches(rows: Sequence[FigureRow], first_head: str) -> PublishedView | None:
    """Lay out published figures next to ours; None if there are none.

    Args:
        rows: our figures; those without a published one are left out.
        first_head: head of the first column.
    """
    lines, notes = [], dict[str, None]()
    for label, ours, matches in rows:
        values = {_note(label, match): match.figure.percent for match in matches}
        lines += [(label, ours, values)] if values else []
        notes |= dict.fromkeys(values)
    if not notes:
        return None
    cells = [(label, ours, *(values.get(note, "") for note in notes)) for label, ours, values in lines]
    return PublishedView((first_head, "here", *(f"[{n}]" for n in range(1, len(notes) + 1))), cells, list(notes))


def _note(label: str, match: PublishedMatch) -> str:
    figure = match.figure
    about = ", ".join(filter(None, ("" if label.endswith(figure.metric) else figure.metric, figure.label)))
    here = f"; here: {', '.join(match.here)}" if match.here else ""
    return f"{figure.source}{f' ({about})' if about else ''}: {figure.protocol}{here}"
