"""Error messages that benchmarks share: data that is not where it was looked for, and ids that no task has."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from certigraph.state.endings import Fault, UnknownName

EXAMPLES = 3
"""Valid ids that a message lists."""


def missing_data(benchmark: str, folder: Path, expected: str) -> Fault:
    """The fault of a data folder without a benchmark's files.

    Args:
        benchmark: its name.
        folder: the folder that was searched.
        expected: the files that it should hold.
    """
    given = folder.parent if folder.name == benchmark else folder
    call = f"--data DIR (or CERTIGRAPH_DATA=DIR) where DIR/{benchmark}/ holds them, or --data with that folder itself"
    return Fault("data", f"no {benchmark} data in {given}: searched {folder} for {expected}; give {call}")


def unknown_task(benchmark: str, task_id: str, pattern: str, known: Iterable[str], more: str = "") -> UnknownName:
    """The error of an id that no task has.

    Args:
        benchmark: its name.
        task_id: the unknown id.
        pattern: what ids look like.
        known: valid ids, of which the first are listed.
        more: what else helps.
    """
    examples = ", ".join(islice(known, EXAMPLES)) or "none"
    hint = f"; {more}" if more else ""
    return UnknownName(f"{benchmark} has no task {task_id!r}; ids are {pattern}, for example {examples}{hint}")
