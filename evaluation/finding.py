"""Finding the runs below a folder: one's own, a comparison's, or a whole collection."""

from collections.abc import Sequence
from pathlib import Path

from certigraph.state.endings import Fault
from certigraph.state.reading import first_line


def trajectory_files(folder: Path) -> Sequence[Path]:
    """The trajectories at any depth below a folder, in the order of their paths. Raises Fault where it is none."""
    if folder.is_file():
        beside = f"`certigraph eval` leaves them beside its log, in {folder.parent}"
        raise Fault("data", f"{folder} is a file: give a folder with runs; {beside}")
    if not folder.is_dir():
        raise Fault("data", f"{folder}: no such folder: give folders that `certigraph run` wrote")
    return sorted(folder.rglob("trajectory.jsonl"))


def has_header(path: Path) -> bool:
    """Whether a trajectory's first line was written whole: a process that died before leaves nothing to go by."""
    return first_line(path).endswith(b"\n")
