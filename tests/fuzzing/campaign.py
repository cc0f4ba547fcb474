"""Targets fuzzed one after another, each in a process of its own that has everything imported already."""

import os
import re
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fuzzing.target import MEMORY, Effort

KINDS = ("crash", "timeout", "oom", "leak")
"""How the files of inputs that broke a reader begin."""


class Outcome(NamedTuple):
    """What became of one target: inputs that were tried, and, where one broke the reader, what was printed of it."""

    name: str
    tried: int
    finding: str = ""
    data: bytes = b""


def campaign(beginnings: Sequence[str], effort: Effort) -> Iterator[Outcome]:
    """Fuzz the targets whose names begin so, or all where nothing is named, for so long each."""
    from fuzzing.fuzzer import import_watched_targets
    from fuzzing.samples import samples

    for name in [name for name in import_watched_targets() if name.startswith(tuple(beginnings) or ("",))]:
        with tempfile.TemporaryDirectory(prefix="fuzzing-", dir=MEMORY if MEMORY.is_dir() else None) as place:
            yield _fuzzed(name, Path(place), effort, list(samples(name)))


def _fuzzed(name: str, place: Path, effort: Effort, corpus: list[bytes]) -> Outcome:
    from fuzzing.fuzzer import fuzz

    folder, own = place / "corpus", place / "scratch"
    folder.mkdir()
    own.mkdir()
    child = os.fork()
    if child == 0:
        tempfile.tempdir = str(own)  # this process ends without tidying up
        try:
            fuzz(name, folder, effort, corpus)
        except Exception:  # noqa: BLE001 - whatever it is, the parent tells it
            (folder / "log").write_text(traceback.format_exc())
        finally:
            os._exit(99)  # libFuzzer has ended the process before, unless it could not begin
    _, status = os.waitpid(child, 0)
    log = (folder / "log").read_text(errors="replace") if (folder / "log").is_file() else ""
    return _outcome(name, os.waitstatus_to_exitcode(status), log, folder)


def _outcome(name: str, status: int, log: str, folder: Path) -> Outcome:
    counted = re.findall(r"number_of_executed_units: (\d+)", log)
    tried = int(counted[-1]) if counted else 0
    if status == 0:
        return Outcome(name, tried)
    broken = next((path.read_bytes() for kind in KINDS for path in sorted(folder.glob(f"{kind}-*"))), b"")
    error = re.search(r"^.*FindingError: .*$|^.*ERROR: libFuzzer: .*$", log, re.MULTILINE)
    return Outcome(name, tried, error[0] if error else f"ended with {status}: {log[-2_000:]}", broken)
