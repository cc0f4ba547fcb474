"""What a finished index says of itself. A folder with a manifest is a whole index; one without is none."""

import os
import shlex
from pathlib import Path

from pydantic import ValidationError

from certigraph.adapters.retrieval.analyzer import ANALYZER
from certigraph.adapters.retrieval.engine import LAYOUT
from certigraph.adapters.rows import MOST_SETTINGS, file_bytes
from certigraph.state.endings import Fault
from certigraph.state.records import Record

MANIFEST = "manifest.json"


class Manifest(Record):
    """What an index was built from and by. `sha256` is over the passages' ids, titles and texts in order."""

    source: str
    passages: int
    skipped: int = 0
    """Passages left out because they have neither title nor text."""
    sha256: str
    layout: int = LAYOUT
    analyzer: str = ANALYZER
    engine: str


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the index in a folder that this version can search.

    Raises:
        Fault: there is no index, only the beginning of one, or one of another version; with the command that builds it.
    """
    path = folder / MANIFEST
    if not path.is_file():
        own = unfinished_folder(folder).is_dir() or not folder.exists()
        other = folder if own else folder.with_name(f"{folder.name}.index")
        raise Fault("data", f"{_what_is(folder)}: {index_command('CORPUS', other)}")
    try:
        manifest = Manifest.model_validate_json(file_bytes(path, MOST_SETTINGS))
    except ValidationError:
        raise Fault("data", f"{path} is not a manifest of ours: {index_command('CORPUS', folder)}") from None
    if (manifest.layout, manifest.analyzer) != (LAYOUT, ANALYZER):
        made = f"layout {manifest.layout}, analyzer {manifest.analyzer}"
        wanted = f"this version searches layout {LAYOUT}, analyzer {ANALYZER}"
        raise Fault("data", f"{folder} has {made}; {wanted}: {index_command(manifest.source, folder)}")
    return manifest


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """The last file of an index; it is on disk when this returns."""
    with (folder / MANIFEST).open("w", encoding="utf-8") as file:
        file.write(manifest.model_dump_json(indent=1))
        file.flush()
        os.fsync(file.fileno())


def unfinished_folder(folder: Path) -> Path:
    """Where the index of a folder is built, beside it; beside what it links to, so that one rename publishes it."""
    return (real := folder.resolve()).with_name(f".{real.name}.unfinished")


def index_command(source: str, folder: Path) -> str:
    """The command that builds an index, or goes on with one."""
    return f"certigraph index {shlex.quote(source)} --out {shlex.quote(str(folder))}"


def _what_is(folder: Path) -> str:
    if unfinished_folder(folder).is_dir():
        return f"the index {folder} is half built; go on with the corpus that it was begun with"
    return f"{folder} is no index" if folder.exists() else f"there is no index {folder}"
