"""Deleting a run: its folder, its rows on a Postgres server, its line in journals; and what else may tell of it."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from certigraph.adapters.caching import whole_file
from certigraph.adapters.context import Context
from certigraph.evaluation.keeping import delete_thread
from certigraph.evaluation.naming import refuse_links
from certigraph.evaluation.recorder import locked
from certigraph.evaluation.run import blocking
from certigraph.evaluation.settings import load_local
from certigraph.state.endings import Fault

TRAJECTORY = "trajectory.jsonl"


def delete(folder: Path | str) -> list[str]:
    """Delete a run. Its rows on a server go first: where that is away, nothing is deleted.

    Returns:
        What is not the run's own and may hold data of it all the same, for people to look at.

    Raises:
        Fault: ("data") the folder is a link or holds no run, the run is being written, or its server is away.
    """
    folder = must_be_run(folder)
    with locked(folder / TRAJECTORY):
        context = _context(folder)
        beside = list(_beside(folder, context))
        blocking(delete_thread(folder, context))
        for journal in _journals(folder):
            _strike(journal, folder.name)
        shutil.rmtree(folder)
    return beside


def must_be_run(folder: Path | str) -> Path:
    """The folder of a run. Raises Fault where it is a link, or holds none: nothing else is deleted by mistake."""
    path = Path(folder)
    refuse_links(path, path / TRAJECTORY)
    if not (path / TRAJECTORY).is_file():
        told = f"{path} holds no run: give a folder with a {TRAJECTORY}, as `certigraph run` printed it"
        raise Fault("data", f"{told}; all runs of an evaluation: certigraph delete {path}/*/")
    return path.resolve()


def _context(folder: Path) -> Context:
    """The run's own; the usual one where a process died before it was kept, with nothing on a server yet."""
    return load_local(folder) if (folder / "local.json").is_file() else Context()


def _beside(folder: Path, context: Context) -> Iterator[str]:
    if context.memory:
        yield f"the memory {context.memory!r}, which its runs share, may hold lessons of it"
    if context.cache:
        yield f"the cache {context.cache} holds replies that it was given"
    for log in sorted(folder.parent.glob("*.eval")):
        yield f"{log} is a log of inspect's, with the answers of all its runs"
    if plans := [above for above in folder.parents if (above / "comparison.json").is_file()]:
        yield f"the tables and pages in {plans[0]} count it; the next `certigraph compare` there runs it again"
    yield "pages that it read, if it did, are in the web cache; exports, judgements and drawings lie where you put them"


def _journals(folder: Path) -> Iterator[Path]:
    files = (file for file in folder.parent.glob("journal-*.jsonl") if not file.is_symlink())
    return (file for file in files if any(_names(line, folder.name) for line in _lines(file)))


def _strike(journal: Path, run: str) -> None:
    left = [line for line in _lines(journal) if not _names(line, run)]
    with whole_file(journal) as draft:
        draft.write_text("\n".join(left), encoding="utf-8")


def _lines(journal: Path) -> list[str]:
    return journal.read_text(encoding="utf-8", errors="replace").split("\n")


def _names(line: str, run: str) -> bool:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(entry, list) and entry[-1:] == [run]
