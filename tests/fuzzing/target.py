"""What is fuzzed: readers of texts, as functions of bytes, each with the errors that its documentation names."""

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

Read = Callable[[bytes], object]

BETWEEN = b"\x1e"
"""Between the texts of a reader that takes several."""

MEMORY = Path("/dev/shm")


class Effort(NamedTuple):
    """How long a target is fuzzed, whichever comes first; -1 inputs: as many as there is time for."""

    seconds: int
    inputs: int = -1
    seed: int = 0
    """The same seed tries the same inputs; 0: others each time."""


class Target(NamedTuple):
    """A reader. Whatever bytes it is given, it returns, or raises one of `errors`."""

    name: str
    read: Read
    errors: tuple[type[Exception], ...] = ()
    seeds: tuple[bytes, ...] = ()
    """What it reads without an error: without these a fuzzer would hardly get past the first check."""


def by_name(targets: Iterable[Target]) -> dict[str, Target]:
    """The targets by their names, which have to differ."""
    listed = list(targets)
    found = {target.name: target for target in listed}
    assert len(found) == len(listed), "two targets of one name"
    return found


def of_text(read: Callable[[str], object]) -> Read:
    """A reader of one text; bytes that are not UTF-8 become half surrogates, which JSON can bring as well."""
    return lambda data: read(_text(data))


def of_texts(read: Callable[..., object], count: int, *, errors: str = "surrogateescape") -> Read:
    """A reader of several texts; those that are missing are empty. `errors`: how bytes that are not UTF-8 are taken."""

    def apart(data: bytes) -> object:
        parts = [part.decode("utf-8", errors) for part in data.split(BETWEEN, count - 1)]
        return read(*parts, *[""] * (count - len(parts)))

    return apart


def of_file(read: Callable[[Path], object], name: str) -> Read:
    """A reader of a file of that name."""
    return lambda data: read(_written(name, data))


def of_folder(read: Callable[[Path], object], name: str) -> Read:
    """A reader of a folder with a file of that name."""
    return lambda data: read(_written(name, data).parents[name.count("/")])


def join_texts(*texts: str) -> bytes:
    """A seed of a reader of several texts."""
    return BETWEEN.join(text.encode() for text in texts)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _written(name: str, data: bytes) -> Path:
    path = _folder(name) / name
    path.write_bytes(data)
    return path


def scratch() -> Path:
    """A new folder, in memory where that can be, gone with the process, or with what a campaign made it in."""
    folder = Path(tempfile.mkdtemp(prefix="fuzzing-", dir=tempfile.tempdir or (MEMORY if MEMORY.is_dir() else None)))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _folder(name: str) -> Path:
    folder = scratch()
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    return folder
