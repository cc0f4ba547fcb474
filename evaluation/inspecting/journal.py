"""Which run belongs to which sample, so that a retry after a crash finds what had been done."""

import json
from functools import cached_property
from pathlib import Path
from typing import NamedTuple


class Cell(NamedTuple):
    """A task's id and which repetition of it."""

    task: str
    trial: int


class Journal:
    """An append-only file beside the runs of one evaluation and of its retries; without a name nothing is kept.

    inspect writes finished samples in batches. The runs' own folders are complete at any moment, and with this file
    they are found again, whatever inspect had not yet written.
    """

    def __init__(self, out: Path | str, name: str) -> None:
        self._out = Path(out)
        self._file = self._out / f"{name}.jsonl" if name else None

    def note(self, cell: Cell, run: str) -> None:
        """A run has begun for a cell."""
        self._runs[cell] = run
        if self._file:
            with self._file.open("a", encoding="utf-8") as lines:
                # a line of its own, also after one that a crash tore
                lines.write("\n" + json.dumps([*cell, run], ensure_ascii=False))

    def begun(self, cell: Cell) -> Path | None:
        """The folder of the cell's latest run; None where there is none, or its folder is gone."""
        folder = self._out / self._runs[cell] if cell in self._runs else None
        return folder if folder and (folder / "trajectory.jsonl").is_file() else None

    @cached_property
    def _runs(self) -> dict[Cell, str]:
        if self._file is None or not self._file.is_file():
            return {}
        noted = (_entry(line) for line in self._file.read_text(encoding="utf-8", errors="replace").split("\n"))
        return dict(filter(None, noted))


def _entry(line: str) -> tuple[Cell, str] | None:
    """One line of the file; None for one that a crash tore, whose run had done nothing yet."""
    try:
        task, trial, run = json.loads(line)
    except ValueError:
        return None
    return Cell(task, trial), run
