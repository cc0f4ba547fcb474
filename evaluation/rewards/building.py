"""What `certigraph rewards build` does between its options and its table."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from certigraph.evaluation.report.html import clipped, counted
from certigraph.evaluation.rewards.dataset import Asked, build
from certigraph.evaluation.rewards.keeping import Count
from certigraph.evaluation.rewards.telling import telling
from certigraph.state.endings import Interrupted

MOST_REASONS = 2
"""Reasons of a domain that are printed; counts.json has all."""

MOST_LETTERS = 72
"""Of a reason that are printed."""

MOST_KINDS = 8
"""Kinds that are named; ScienceWorld has 28."""


def build_all(asked: Sequence[Asked], folder: Path, *, at_once: int, as_json: bool) -> int:
    """Build domain after domain and print the counts; exit status 1 where a domain has fewer pairs than wanted.

    Raises:
        Interrupted: by Ctrl-C; the message is the command that goes on.
        UnknownName, Fault: as `build` does.
    """
    try:
        counts = [_built(one, folder, at_once=at_once, silent=as_json) for one in asked]
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; go on with: {command_of(asked, folder)}") from None
    if as_json:
        typer.echo(json.dumps([count.model_dump() for count in counts]))
    else:
        print_counts(counts)
    return 1 if any(count.failed or count.built < count.wanted for count in counts) else 0


def command_of(asked: Sequence[Asked], folder: Path) -> str:
    """The command that builds the same: with another seed, split or number of pairs the folder would refuse it."""
    first = asked[0]
    words = ["certigraph", "rewards", "build", str(folder), *(f"--domain={one.domain}" for one in asked)]
    words += [f"--split={split}" for split in first.splits]
    words += [f"--pairs={first.pairs}"] * bool(first.pairs) + [f"--seed={first.seed}"] * bool(first.seed)
    return shlex.join([*words, *([f"--data={first.data}"] if first.data else [])])


def count_cells(count: Count) -> tuple[str, ...]:
    """A line of the table of counts: domain, published, wanted, built, kinds, dropped and why."""
    named = [f"{kind} {n}" for kind, n in count.kinds.items() if kind]
    kinds = ", ".join(named) if len(named) <= MOST_KINDS else f"{len(named)} kinds"
    why = [f"{clipped(reason, MOST_LETTERS)} ({n})" for reason, n in count.dropped.items()]
    more = [f"and {counted(len(why) - MOST_REASONS, 'more reason')}"] if len(why) > MOST_REASONS else []
    told = count.failed or "; ".join([*why[:MOST_REASONS], *more])
    published = "none" if count.published is None else str(count.published)
    return count.domain, published, str(count.wanted), str(count.built), kinds, str(count.out), told


COUNTS = ("domain", "published", "wanted", "built", "by kind", "dropped", "why")


def print_counts(counts: Sequence[Count]) -> None:
    """The counts as a table."""
    table = Table(*COUNTS, box=None)
    for count in counts:
        table.add_row(*map(escape, count_cells(count)))
    Console(highlight=False).print(table, markup=False)


def _built(asked: Asked, folder: Path, *, at_once: int, silent: bool) -> Count:
    with telling(asked.domain, asked.pairs, silent=silent) as teller:

        def told(count: Count) -> None:
            teller.total = count.wanted
            teller(count.built, f"{count.out} dropped")

        return build(asked, folder, at_once=at_once, told=told)
