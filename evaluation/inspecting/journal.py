"""Which run belongs to which sample, so that a retry after a crash finds what had been done."""

import json
from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from certigraph.evaluation.completing import begun, spoilt
from certigraph.evaluation.run import run_name
from certigraph.evaluation.scaling.shared import Shared
from certigraph.state.lines import read_bounded_lines
from certigraph.state.records import Task

_FIX = "delete the file, and the evaluation's runs begin again"


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
        self._shared = Shared(str(out))
        self._name = f"{name}.jsonl" if name else ""
        self._begun = Counter[Cell]()

    def run_of(self, cell: Cell, graph: str, task: Task) -> str:
        """The name of the cell's run: of the one to take or to go on with, else of one to begin."""
        folder = self.begun(cell)
        if folder and not spoilt(folder):
            return folder.name
        if folder:
            self._shared.drop(folder.name)
        name = run_name(graph, task)
        self.note(cell, name)
        return name

    def times(self, cell: Cell) -> int:
        """How many runs were begun for a cell before its latest one."""
        return max(self._begun[cell] - 1, 0)

    def note(self, cell: Cell, run: str) -> None:
        """A run is about to begin for a cell."""
        self._runs[cell] = run
        self._begun[cell] += 1
        if self._name:
            with (self._shared.here / self._name).open("a", encoding="utf-8") as lines:
                # a line of its own, also after one that a crash tore
                lines.write("\n" + json.dumps([*cell, run], ensure_ascii=False))
            self._shared.keep(self._name)

    def begun(self, cell: Cell) -> Path | None:
        """The folder of the cell's latest run; None where there is none, or its folder is gone."""
        folder = self._shared.run(self._runs[cell]) if cell in self._runs else None
        return folder if folder and begun(folder) else None

    @cached_property
    def _runs(self) -> dict[Cell, str]:
        file = self._shared.file(self._name) if self._name else None
        if file is None or not file.is_file():
            return {}
        with file.open("rb") as lines:
            noted = [_entry(line) for line in read_bounded_lines(lines, str(file), fix=_FIX)]
        known = [entry for entry in noted if entry]
        self._begun.update(cell for cell, _ in known)
        return dict(known)


def _entry(line: bytes) -> tuple[Cell, str] | None:
    """One line of the file; None for one that a crash tore, whose run had done nothing yet, or that is none of ours."""
    try:
        task, trial, run = json.loads(line.decode(errors="replace"))
    except (ValueError, TypeError, RecursionError):
        return None
    ours = isinstance(task, str) and isinstance(trial, int) and isinstance(run, str)
    return (Cell(task, trial), run) if ours and _plain(run) else None


def _plain(name: str) -> bool:
    """Whether it names a folder right beside the file, and none elsewhere."""
    return Path(name).name == name and name not in ("", "..")
