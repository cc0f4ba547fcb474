"""Names of files: those of a run's folder, and those made of texts from outside, which are short and lead nowhere."""

import hashlib
import re
from pathlib import Path

from certigraph.state.endings import Fault

TRAJECTORY = "trajectory.jsonl"
SETTINGS = "local.json"
CHECKPOINTS = "checkpoints.sqlite"
MEMORY = "memory.sqlite"
REPORT = "report.html"

_SQLITE = r"(-journal|-wal|-shm)?"
_RUN_FILE = re.compile(
    rf"{re.escape(TRAJECTORY)}|{re.escape(SETTINGS)}|{re.escape(REPORT)}"
    rf"|({re.escape(CHECKPOINTS)}|{re.escape(MEMORY)}){_SQLITE}"
)


def is_run_file(path: Path) -> bool:
    """Whether a path in a run's folder is a file that certigraph writes there; links and folders are not."""
    return bool(_RUN_FILE.fullmatch(path.name)) and path.is_file() and not path.is_symlink()


def check_out(out: Path | str) -> None:
    """Make sure that a folder is one for runs and their tables to lie in.

    Raises:
        Fault: ("data") it is the root of the file system, which is what an empty variable in `--out $OUT/` leads to, or
            the folder of a run, whose own files would be mixed with those of others.
    """
    path = Path(out).resolve()
    told = "the root of the file system" if path == Path(path.anchor) else ""
    if (path / TRAJECTORY).is_file():
        told = "the folder of a run"
    if told:
        raise Fault("data", f"{out} is {told}: name a folder of its own for what is written, as in --out runs")


def slug(text: str, most: int, *, kept: str = "") -> str:
    """Letters and digits of a text, hyphens for all else but `kept`; at most so many bytes.

    Bytes, for a file's name has 255 at most, and a path that SQLite opens 512 with all its folders.
    """
    plain = "".join(c if c.isalnum() or c in kept else "-" for c in text)
    return plain.encode()[:most].decode(errors="ignore")


def own_slug(text: str, most: int) -> str:
    """As `slug`, with a hash where the text says more than its slug, so that two texts never share a file."""
    short = slug(text, most, kept="_")
    return short if short == text else f"{short}-{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:8]}"


def refuse_links(*paths: Path) -> None:
    """Make sure that what is written or deleted at some paths is there and not elsewhere.

    Raises:
        Fault: ("data") one of them is a link.
    """
    for path in paths:
        if path.is_symlink():
            told = f"{path} is a link to {path.readlink()}, and runs write and delete nothing outside their own folder"
            raise Fault("data", f"{told}: put the file itself there")
