"""The current episode of a watched run: its subtask or plan, its latest turns, and the scores before it."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from certigraph.evaluation.live.fold import Watched
from certigraph.evaluation.live.text import clean
from certigraph.evaluation.report.episode import Refused, Taken
from certigraph.evaluation.report.supervision import in_line
from certigraph.state.step import Status

MOST_LINES = 12
"""Lines of turns: a calm picture on a tall terminal too."""

HEADINGS = 3
"""Lines above the turns: the episode, its subtask, an empty one."""

EARLIER = 8
"""Latest scores that are shown of the episodes before."""

MARKS: dict[Status, tuple[str, str]] = {"open": ("▸", "yellow"), "completed": ("✓", "green"), "failed": ("✗", "red")}

Row = tuple[Text, Text, Text]
EMPTY: Row = (Text(), Text(), Text())


def episode_part(run: Watched, room: int) -> Table:
    """The latest turns in about `room` rows; always as many, so that the frame stands still."""
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(width=1)
    table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    table.add_column(justify="right", no_wrap=True)
    most = max(min(room - HEADINGS, MOST_LINES), 1)
    rows = _latest(run, most)
    for row in (_heading(run), _subtask(run), EMPTY, *rows, *[EMPTY] * (most - len(rows) + 1)):
        table.add_row(*row)
    return table


def _latest(run: Watched, most: int) -> list[Row]:
    """As many of the latest turns as fit whole."""
    rows: list[Row] = []
    for entry in reversed(list(run.episodes.now.entries()) if run.episodes.all else []):
        lines = [*_lines(entry), *_gathered(run, entry)]
        if rows and len(rows) + len(lines) > most:
            break
        rows = [*lines, *rows]
    return rows[-most:]


def _heading(run: Watched) -> Row:
    if not run.episodes.all:
        return Text(), Text("no episode yet", style="dim"), Text()
    most = run.limit("trials") if run.episodes.learning else None
    number = f"{run.episodes.now.number} of {most}" if most else f"{run.episodes.now.number}"
    earlier = ", ".join(f"{episode.score:.3g}" for episode in run.episodes.all[:-1][-EARLIER:])
    told = Text(f"earlier scores {earlier}" if earlier else "", style="dim")
    return Text(), Text.assemble(("episode ", "dim"), number), told


def _subtask(run: Watched) -> Row:
    episode = run.episodes.now if run.episodes.all else None
    if episode is None:
        return EMPTY
    if episode.subtask is None:
        plan = episode.supervision.latest
        return (Text("▸", style="yellow"), Text(clean(in_line(plan)), style="bold"), Text()) if plan else EMPTY
    mark, style = MARKS[episode.subtask.status]
    count = f"{episode.count('completed')} completed, {episode.count('failed')} failed"
    return Text(mark, style=style), Text(clean(episode.subtask.text), style="bold"), Text(count, style="dim")


def _lines(entry: Taken | Refused) -> Iterator[Row]:
    if isinstance(entry, Refused):
        yield Text("✗", style="red"), Text(clean(entry.action), style="strike"), Text("refused", style="red")
        yield Text(), Text(clean(entry.reason), style="red"), Text()
        return
    turn = entry.turn
    if turn.thought:
        yield Text(), Text(clean(turn.thought), style="dim italic"), Text()
    style = "default" if turn.accepted else "red"
    yield Text("→", style="dim"), Text(clean(turn.action), style=style), _points(entry)
    yield Text(), Text(clean(entry.answer), style="dim"), Text()


def _gathered(run: Watched, entry: Taken | Refused) -> Iterator[Row]:
    """What was known ahead of a turn, and what memory, gate and Supervisor made of it."""
    if isinstance(entry, Refused):
        return
    gathering, prospects = run.episodes.now.gathering, run.episodes.now.prospects
    for change in [*prospects.lines(entry.number), *gathering.changes(entry.number)]:
        yield Text(), Text(clean(change), style="cyan"), Text()
    if verdict := gathering.verdict(entry.number):
        yield Text(), Text(clean(verdict), style="yellow"), Text()
    for remark in run.episodes.now.supervision.remarks(entry.number):
        yield Text(), Text(clean(remark.text), style="red" if remark.warns else "cyan"), Text()


def _points(entry: Taken) -> Text:
    return Text(f"{entry.points:+.3g}" if entry.scored else "", style="bold green" if entry.points > 0 else "bold red")
