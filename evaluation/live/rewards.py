"""A watched reward predictor: its latest steps with their rewards, as a picture and as plain lines."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from certigraph.evaluation.live.fold import Watched
from certigraph.evaluation.live.text import clean

BAR = 20
"""Cells of a bar of reward 1."""


def reward_part(run: Watched, room: int) -> Table:
    """The latest rated steps in `room` rows; always as many, so that the frame stands still."""
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(width=4, justify="right")
    table.add_column(width=BAR, no_wrap=True)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    latest = run.rating.rated[-room:]
    for rated in latest:
        bar = Text("━" * round(BAR * rated.reward), style="green")
        table.add_row(Text(f"{rated.reward:.2f}"), bar, Text(clean(rated.step.action) or "(looked)"))
    for _ in range(room - len(latest)):
        table.add_row(Text(), Text(), Text())
    return table


def reward_lines(run: Watched) -> Iterator[str]:
    """The step that was just rated."""
    done, rated = len(run.rating.rated), run.rating.rated[-1]
    here = f"recording {rated.step.recording + 1}, step {done} of {len(run.rating.steps)}"
    yield f"{here}: reward {rated.reward:.2f}: {rated.step.action or '(looked)'}"
