"""What the command `export` says."""

from collections.abc import Sequence
from pathlib import Path

from certigraph.adapters.rows import read_rows

MOST = 10
"""Files that are named one by one."""


def exported(files: Sequence[Path]) -> str:
    """The files, one a line; of more than MOST how many there are, and in which folder."""
    if len(files) > MOST:
        return f"{len(files):,} files in {files[0].parent}"
    return "\n".join(map(str, files))


def submitted(path: Path) -> str:
    """How many tasks a submission has, and how many of them no answer."""
    answers = [row.value["answer"] for row in read_rows(path)]
    return f"{path.name}: {len(answers)} tasks, {answers.count('')} of them without an answer"
