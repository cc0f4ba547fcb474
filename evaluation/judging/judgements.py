"""Judgements on disk: one JSON line each, appended as they come, so that judging stopped goes on where it was."""

from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from certigraph.adapters.models.redact import redacted
from certigraph.state.endings import Fault
from certigraph.state.lines import drop_torn_line, read_bounded_lines
from certigraph.state.records import Record

_FIX = "restore the file, or name another with --out"


class Judgement(Record):
    """One answer judged. `score` is 0 to 100; `parts` are the rubric's own criteria."""

    run: str
    method: str
    benchmark: str
    task: str
    trial: int
    rubric: str
    judge: str
    """The model's name."""
    answer: str
    score: float
    parts: dict[str, float]
    reason: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What need not be judged again: this answer of this run, by this rubric and model."""
        return self.run, self.rubric, self.judge, self.answer


def read_judgements(path: Path) -> list[Judgement]:
    """The judgements of a file, none where there is no file; a torn last line is dropped from it.

    Raises:
        Fault: ("data") another line is no judgement.
    """
    if not path.is_file():
        return []
    drop_torn_line(path)
    with path.open("rb") as file:
        lines = enumerate(read_bounded_lines(file, str(path), fix=_FIX), 1)
        return [_judgement(line, f"{path}:{number}") for number, line in lines]


def keep(path: Path, judgements: Iterable[Judgement]) -> None:
    """Append judgements, keys of models masked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        for judgement in judgements:
            file.write(redacted(judgement).model_dump_json() + "\n")


def _judgement(line: bytes, where: str) -> Judgement:
    try:
        return Judgement.model_validate_json(line)
    except ValidationError as error:
        told = f"{where}: no judgement ({error.errors()[0]['msg']})"
        raise Fault("data", f"{told}: {_FIX}") from error
