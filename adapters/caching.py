"""The folder of what can be built again, and files that appear in it complete or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from certigraph.state.endings import Fault


def expanded(given: str | Path) -> Path:
    """A path as it was given, `~` and `~user` replaced by their homes. Raises Fault where there is no such user."""
    try:
        return Path(given).expanduser()
    except RuntimeError:
        raise Fault("data", f"{given}: nobody of that name has a home here: write the path out") from None


def cache_folder() -> Path:
    """certigraph in the user's cache folder (XDG_CACHE_HOME, else ~/.cache); it may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "certigraph"


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A file to write in place of `path`, which it becomes when the block ends without an error.

    Threads and processes may write the same path at once: each has a file of its own, and the last one stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".unfinished")
    os.close(handle)
    try:
        yield Path(name)
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)
