"""A sweep's file, read and checked: every mistake is told with its line, its key and what would do."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from certigraph.evaluation.sweeping.asked import Case, Most, Sweep
from certigraph.evaluation.sweeping.yaml_text import Text, read_yaml
from certigraph.state.endings import Fault
from certigraph.state.records import Record

TOLD = 5
"""Mistakes that are told at once."""

INNER: Mapping[str, type[Record]] = {"benchmarks": Case, "most": Most}
"""The records inside a sweep's, by their key."""


def read_sweep(file: Path) -> Sweep:
    """The sweep that a YAML file describes.

    Raises:
        Fault: the file is missing or unusable; the message has line, key, value and what is known.
    """
    text = read_yaml(file)
    try:
        sweep = Sweep.model_validate(text.value)
    except ValidationError as error:
        found = error.errors()
        more = f"; and {len(found) - TOLD} more" if len(found) > TOLD else ""
        raise Fault("data", f"{file}, {'; '.join(_told(one, text) for one in found[:TOLD])}{more}") from error
    _apart(sweep, file)
    return sweep


def folder_name(case: Case) -> str:
    """The name of the folder in which a benchmark's comparison is kept."""
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in case.title)[:80].strip("-") or "benchmark"


def _apart(sweep: Sweep, file: Path) -> None:
    """Refuse what is there twice: benchmarks of one name, graphs, variants."""
    cases = [case.title for case in sweep.benchmarks]
    if twice := _twice([folder_name(case).lower() for case in sweep.benchmarks]):
        raise Fault("data", f"{file}: benchmarks has {cases[twice]!r} twice: give one of them another `label`")
    if twice := _twice(sweep.graphs):
        raise Fault("data", f"{file}: graphs has {sweep.graphs[twice]!r} twice: keep one of them")
    if twice := _twice([sorted(variant.items()) for variant in sweep.operators]):
        raise Fault("data", f"{file}: operators has {sweep.operators[twice]} twice: keep one of them")


def _twice(names: Sequence[Any]) -> int:
    """The place of the first one that was there before; 0 for none."""
    return next((place for place, name in enumerate(names) if name in names[:place]), 0)


def _told(error: Any, text: Text) -> str:
    path = tuple(error["loc"])
    line = next((text.lines[path[:n]] for n in range(len(path), -1, -1) if path[:n] in text.lines), 1)
    where = ".".join(str(part + 1) if isinstance(part, int) else str(part) for part in path)
    if error["type"] == "extra_forbidden":
        return f"line {line}: no key {where!r}; known: {', '.join(_known(path))}"
    if error["type"] == "missing":
        return f"line {line}: {where!r} is missing"
    given = f", not {_short(error['input'])}" if not isinstance(error["input"], Sweep) else ""
    return f"line {line}: {where or 'the file'}: {error['msg']}{given}"


def _known(path: Iterable[str | int]) -> list[str]:
    first, *rest = path
    kind = INNER[str(first)] if rest else Sweep
    return sorted(kind.model_fields)


def _short(value: Any) -> str:
    told = repr(value)
    return told if len(told) <= 60 else f"{told[:59]}…"
