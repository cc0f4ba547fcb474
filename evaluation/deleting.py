"""Deleting a run: its files, its rows on a Postgres server, its line in journals; and what else may tell of it."""

import json
from collections.abc import Iterator
from pathlib import Path

from certigraph.adapters.caching import whole_file
from certigraph.adapters.context import Context
from certigraph.evaluation.finding import read_run_id
from certigraph.evaluation.keeping import delete_thread
from certigraph.evaluation.naming import SETTINGS, TRAJECTORY, is_run_file, refuse_links
from certigraph.evaluation.recorder import locked
from certigraph.evaluation.run import blocking
from certigraph.evaluation.settings import load_local
from certigraph.state.endings import Fault
from certigraph.state.lines import read_bounded_lines


def delete(folder: Path | str) -> list[str]:
    """Delete a run: the files that certigraph wrote, and the folder unless it holds others.

    Its rows on a server go first: where that is away, nothing is deleted.

    Returns:
        What is left and may hold data of the run, for people to look at: other files of the folder, shared stores.

    Raises:
        Fault: ("data") the path is a link or not the folder of a run, the run is being written, or its server is away.
    """
    folder = must_be_run(folder)
    with locked(folder / TRAJECTORY):
        context = _context(folder)
        beside = list(_beside(folder, context))
        blocking(delete_thread(folder, context))
        for journal in find_journals(folder):
            _strike(journal, folder.name)
        left = _delete_files(folder)
    return [*left, *beside]


def must_be_run(folder: Path | str) -> Path:
    """The resolved folder of a run, which is one whose trajectory has a header with the folder's name as run id.

    Raises:
        Fault: ("data") it is a link or no such folder.
    """
    path = Path(folder)
    refuse_links(path, path / TRAJECTORY)
    where = path.resolve()
    run_id = read_run_id(where / TRAJECTORY)
    if run_id is None:
        told = f"{path} holds no run: give a folder whose {TRAJECTORY} begins with the header of a run"
        if any(where.glob(f"*/{TRAJECTORY}")):
            told += f"; all runs in this folder: certigraph delete {path}/*/"
        raise Fault("data", told)
    if run_id != where.name:
        fix = "rename the folder to that, or remove it with the tools of your system"
        raise Fault("data", f"{path} is not the folder of the run in it, which is named {run_id!r:.100}: {fix}")
    return where


def _delete_files(folder: Path) -> list[str]:
    """Delete a run's files, the trajectory last, so that a deletion that was cut off can be repeated."""
    for path in sorted(folder.iterdir(), key=lambda path: path.name == TRAJECTORY):
        if is_run_file(path):
            path.unlink()
    if left := sorted(path.name for path in folder.iterdir()):
        return [f"{folder} stays, for it holds files that certigraph did not write: {', '.join(left)}"]
    folder.rmdir()
    return []


def _context(folder: Path) -> Context:
    """The run's own; the usual one where a process died before it was kept, with nothing on a server yet."""
    return load_local(folder) if (folder / SETTINGS).is_file() else Context()


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


def find_journals(folder: Path) -> Iterator[Path]:
    """The journals of evaluations, next to a run's folder, that have a line of the run."""
    files = (file for file in folder.parent.glob("journal-*.jsonl") if not file.is_symlink())
    return (file for file in files if any(_names(line, folder.name) for line in _read_journal(file)))


def _strike(journal: Path, run: str) -> None:
    with whole_file(journal) as draft, draft.open("wb") as kept:
        kept.writelines(line for line in _read_journal(journal) if not _names(line, run))


def _read_journal(journal: Path) -> Iterator[bytes]:
    with journal.open("rb") as file:
        yield from read_bounded_lines(file, str(journal), fix="repair that journal, then delete the run")


def _names(line: bytes, run: str) -> bool:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(entry, list) and entry[-1:] == [run]
