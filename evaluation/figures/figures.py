"""All figures of several runs at once: pictures, and the numbers behind them as CSV."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from certigraph.evaluation.extras import equipped
from certigraph.evaluation.figures.accidents import Accident, accident_of, gold_scores
from certigraph.evaluation.figures.best import best_rows
from certigraph.evaluation.figures.draw_best import draw_best
from certigraph.evaluation.figures.draw_planner import draw_planner
from certigraph.evaluation.figures.draw_rewards import draw_rewards
from certigraph.evaluation.figures.order import tasks_of
from certigraph.evaluation.figures.planner import Change, Pair, changes, pairs
from certigraph.evaluation.figures.rewards import Curve, curves, learning
from certigraph.evaluation.figures.tables import SERIES, curve_lines, row_lines, write_csv
from certigraph.evaluation.figures.traces import Trace, read_traces
from certigraph.state.endings import Fault
from certigraph.state.records import Record


class Drawn(Record):
    """What was written, from how many episodes, the accidental wins among them, and the runs that were left out."""

    files: tuple[Path, ...]
    episodes: int
    accidents: tuple[Accident, ...]
    left_out: tuple[Path, ...]
    changes: tuple[Change, ...]


def draw_figures(
    folders: Iterable[Path], out: Path, *, data: str | None = None, with_accidental: bool = False
) -> Drawn:
    """Write rewards and best, learning where runs have several episodes, planner where STEP ran with and without it.

    Each is a .png, a .svg and a .csv; the scores of the single tasks are in planner_tasks.csv.

    Args:
        folders: searched for runs at any depth.
        out: made where it is missing.
        data: data folder with ScienceWorld's gold paths, to tell accidental wins; else CERTIGRAPH_DATA.
        with_accidental: keep the episodes that were won by accident; accidental.csv lists them in any case.

    Raises:
        Fault: no episode is there to draw, or matplotlib is missing.
    """
    equipped("figures", "matplotlib")
    traces, left_out = read_traces(folders)
    golds = gold_scores(data)
    found = [(trace, accident_of(trace, golds)) for trace in traces]
    accidents = tuple(accident for _, accident in found if accident)
    kept = [trace for trace, accident in found if with_accidental or not accident]
    if not kept:
        raise Fault("data", f"all {len(traces)} episodes were won by accident: add --with-accidental to keep them")
    out.mkdir(parents=True, exist_ok=True)
    write_csv(out / "accidental.csv", list(Accident.model_fields), [accident.model_dump() for accident in accidents])
    paired = pairs(kept)
    files = [
        *_rewards(curves(kept), out / "rewards"),
        *_rewards(learning(kept), out / "learning"),
        *_best(kept, out),
        *_planner(paired, out),
        out / "accidental.csv",
    ]
    return Drawn(
        files=tuple(files),
        episodes=len(traces),
        accidents=accidents,
        left_out=tuple(left_out),
        changes=tuple(changes(paired)),
    )


def _rewards(drawn: Sequence[Curve], path: Path) -> list[Path]:
    if not drawn:
        return []
    draw_rewards(drawn, path)
    write_csv(path.with_suffix(".csv"), [*SERIES, "episodes", "n", "step", "mean", "sd"], list(curve_lines(drawn)))
    return _three(path)


def _best(traces: Sequence[Trace], out: Path) -> list[Path]:
    drawn = best_rows(traces)
    draw_best(drawn, tasks_of(traces), out / "best")
    write_csv(out / "best.csv", [*SERIES, "runs", "step", "score"], list(row_lines(drawn)))
    return _three(out / "best")


def _planner(paired: Sequence[Pair], out: Path) -> list[Path]:
    if not paired:
        return []
    changed = changes(paired)
    draw_planner(paired, changed, out / "planner")
    write_csv(out / "planner.csv", list(Change.model_fields), [change.model_dump() for change in changed])
    write_csv(out / "planner_tasks.csv", list(Pair.model_fields), [pair.model_dump() for pair in paired])
    return [*_three(out / "planner"), out / "planner_tasks.csv"]


def _three(path: Path) -> list[Path]:
    return [path.with_suffix(suffix) for suffix in (".png", ".svg", ".csv")]
