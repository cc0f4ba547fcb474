"""Runs found below folders, one after the other, under names that tell their methods apart."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from certigraph.evaluation.anatomy.rows import Recorded
from certigraph.evaluation.figures.traces import method_of
from certigraph.evaluation.finding import trajectory_files
from certigraph.evaluation.report.graded import is_own
from certigraph.state.endings import Fault
from certigraph.state.reading import first_line, parse_line, read_trajectory
from certigraph.state.trajectory import Header


class Found(NamedTuple):
    """Trajectory files with their headers, and those whose run stopped before its header was written."""

    runs: Sequence[tuple[Path, Header]]
    unbegun: tuple[Path, ...]


def find_runs(folders: Iterable[Path]) -> Found:
    """The runs below folders, at any depth; only their first lines are read.

    Raises:
        Fault: a folder is missing, no run is below them, or a run is of another schema.
    """
    folders = list(folders)
    paths = list(dict.fromkeys(path for folder in folders for path in trajectory_files(folder)))
    headers = {path: _header(path) for path in paths}
    begun = [(path, header) for path, header in headers.items() if header]
    if not begun:
        named = " ".join(map(str, folders))
        fix = "make some with `certigraph run` or `certigraph compare`, and give the folder that they wrote"
        raise Fault("data", f"no run below {named}: {fix}")
    return Found(begun, tuple(path for path, header in headers.items() if header is None))


def scored(found: Found) -> Found:
    """Without questions of one's own, which nobody scores. Raises Fault where nothing else is there."""
    runs = [(path, header) for path, header in found.runs if not is_own(header)]
    if not runs:
        message = "nobody scores questions of your own, so that there is nothing to analyse"
        raise Fault("data", f"{message}: look at one by certigraph report {found.runs[0][0].parent}")
    return found._replace(runs=runs)


def recorded_runs(found: Found) -> Iterator[Recorded]:
    """The runs one at a time. A method is its graph with what is swapped, and what else differs: model, benchmark.

    Raises:
        Fault: a line other than the last of a trajectory cannot be read.
    """
    names = _names([header for _, header in found.runs])
    for path, header in found.runs:
        yield Recorded(names[_parts(header)], header.task.id, _trial(header), read_trajectory(path))


def _header(path: Path) -> Header | None:
    first = first_line(path)
    if not first.endswith(b"\n"):
        return None
    try:
        line = parse_line(first)
    except Fault as error:
        raise Fault(error.boundary, f"{path}: {error}") from None
    except ValueError:
        line = None
    if not isinstance(line, Header):
        raise Fault("data", f"{path}:1: no header of a trajectory: {first[:80]!r}; restore the file or leave it out")
    return line


def _parts(header: Header) -> tuple[str, str, str]:
    method = method_of(header)
    return str(method), method.model, header.task.benchmark


def _names(headers: Sequence[Header]) -> dict[tuple[str, str, str], str]:
    """The method always, model and benchmark where several are there."""
    known = list(dict.fromkeys(map(_parts, headers)))
    differ = [place == 0 or len({parts[place] for parts in known}) > 1 for place in range(3)]
    return {parts: ", ".join(part for part, told in zip(parts, differ, strict=True) if told) for parts in known}


def _trial(header: Header) -> int:
    trial = header.context.get("trial", 0)
    return trial if isinstance(trial, int) else 0
