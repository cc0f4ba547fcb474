"""Building an index of a corpus on disk: in batches, so that a killed build goes on, and seen only when whole."""

import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import chain
from pathlib import Path

from certigraph.adapters.retrieval.building import Build
from certigraph.adapters.retrieval.manifest import (
    MANIFEST,
    Manifest,
    index_command,
    unfinished_folder,
    write_manifest,
)
from certigraph.state.endings import Fault
from certigraph.state.passages import Passage

BATCH = 50_000
"""Passages a commit: what a kill loses, about five seconds."""

STRIDE = 1_000
"""Passages between two reports of progress."""


def build_index(
    passages: Iterable[Passage],
    folder: Path,
    *,
    source: str = "CORPUS",
    progress: Callable[[int], None] = lambda done: None,
    batch: int = BATCH,
) -> Manifest:
    """Index passages in a folder, which appears, or is replaced, when all of them are in.

    Called again after a kill with the same passages it skips those that are in already.

    Args:
        passages: with ids of their own; those with neither title nor text are left out and counted.
        folder: of the index. A folder that is something else is refused.
        source: the corpus as `certigraph index` takes it; commands in messages name it.
        progress: called with the number of passages read, every thousand.
        batch: passages a commit.

    Raises:
        Fault: no passages, an id given twice, other passages than those begun with, or a second build at work.
    """
    _refuse_other(folder)
    rest = iter(passages)
    if (first := next(rest, None)) is None:  # before anything is written
        raise Fault("data", f"{source} has no passages: name another corpus")
    unfinished = unfinished_folder(folder)
    with closing(Build(unfinished, index_command(source, folder), batch)) as build:
        for number, passage in enumerate(chain([first], rest), 1):
            build.add(passage)
            if number % STRIDE == 0:
                progress(number)
        manifest = build.finished(source)
    write_manifest(unfinished, manifest)
    _publish(unfinished, folder.resolve())
    return manifest


def _refuse_other(folder: Path) -> None:
    if folder.exists() and not (folder / MANIFEST).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise Fault("data", f"{folder} is there and is no index: name another with --out")


def _publish(unfinished: Path, folder: Path) -> None:
    aside = folder.with_name(f".{folder.name}.replaced")
    shutil.rmtree(aside, ignore_errors=True)
    if folder.exists():
        folder.rename(aside)
    unfinished.rename(folder)
    handle = os.open(folder.parent, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)
    shutil.rmtree(aside, ignore_errors=True)
