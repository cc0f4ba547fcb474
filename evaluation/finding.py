"""Finding the runs below a folder: one's own, a comparison's, or a whole collection."""

from collections.abc import Sequence
from pathlib import Path

from certigraph.state.endings import Fault
from certigraph.state.json_text import json_value
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


def read_run_id(path: Path) -> str | None:
    """The run id in the header of a trajectory of any schema; None where the file is missing or has none."""
    if not path.is_file():
        return None
    try:
        header = json_value(first_line(path))
    except ValueError:
        return None
    if not isinstance(header, dict) or header.get("type") != "header" or "graph" not in header:
        return None
    run_id = header.get("run_id")
    return run_id if isinstance(run_id, str) else None
