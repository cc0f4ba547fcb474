"""One target under atheris (libFuzzer): inputs are changed so that they run code of ours that none before them ran."""

import contextlib
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import atheris
from fuzzing.target import Effort

LONGEST = 20_000
"""Bytes of an input; what the time of longer ones is, `repeating` looks at."""

PATIENCE = 10.0
"""How many times slower a watched reader is."""

MEGABYTES = 4_000

BROKEN = "crash-found"
"""The file of an input that broke the reader; libFuzzer's own, of one that took all time or memory, begin likewise."""


def import_watched_targets() -> Sequence[str]:
    """Import all targets with our own modules watched; others' stay as they are, or starting would take minutes."""
    with atheris.instrument_imports(include=["certigraph"], enable_loader_override=False):
        from fuzzing.targets import TARGETS
    return list(TARGETS)


def fuzz(name: str, folder: Path, effort: Effort, corpus: Iterable[bytes] = ()) -> None:
    """Fuzz one target in this process, which ends here: with status 0, or another one where something was found.

    Args:
        name: the target's.
        folder: gets the corpus, the fuzzer's words (`log`) and the input that broke the reader (`crash-...`).
        effort: how long.
        corpus: what to begin with, besides the target's seeds.
    """
    from fuzzing.checks import FindingError, check
    from fuzzing.targets import TARGETS

    target = TARGETS[name]
    for number, data in enumerate([*target.seeds, *corpus]):
        with contextlib.suppress(*target.errors):
            target.read(data)  # what is imported or made once is not slowness of the reader
        (folder / f"seed-{number}").write_bytes(data)
    _speak_into(folder / "log")
    options = {"max_total_time": effort.seconds, "runs": effort.inputs, "max_len": LONGEST, "timeout": 60}
    options |= {"seed": effort.seed}
    options |= {"rss_limit_mb": MEGABYTES, "print_final_stats": 1, "artifact_prefix": f"{folder}/"}
    arguments = [sys.argv[0], *(f"-{key}={value}" for key, value in options.items()), str(folder)]

    def tried(data: bytes) -> None:
        try:
            check(target, data, patience=PATIENCE)
        except FindingError:
            (folder / BROKEN).write_bytes(data)
            raise

    atheris.Setup(arguments, tried)
    atheris.Fuzz()


def _speak_into(path: Path) -> None:
    """Send what this process says, libFuzzer's own words too, into a file."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(handle, stream)
