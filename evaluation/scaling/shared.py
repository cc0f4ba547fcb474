"""Where the runs of an evaluation lie: a folder that every worker sees, or a store of objects named by a URL."""

import hashlib
import shutil
from pathlib import Path
from typing import Any

from certigraph.adapters.caching import cache_folder
from certigraph.adapters.extras import library
from certigraph.adapters.models.redact import remember_address, show_address

TRAJECTORY = "trajectory.jsonl"


def is_url(out: str) -> bool:
    """Whether a place for runs is a URL: `s3://bucket/runs`."""
    return "://" in out


class Shared:
    """The folder of an evaluation; of a URL, the part of it that this machine works on.

    A run is written on this machine and put into the store when it ends. A machine that is lost takes with it what its
    unfinished runs had done: where that must not be, `out` is a folder on a file system that all machines share.

    Args:
        out: a folder, or a URL of a scheme that fsspec knows and has the package for.

    Raises:
        Fault: fsspec, or its package for the URL's scheme, is missing.
    """

    def __init__(self, out: str) -> None:
        self._files: Any = None
        self.here = Path(out)
        if is_url(out):
            remember_address(out)
            self._files, self._at = library("fsspec.core", f"{show_address(out)} needs", "ray").url_to_fs(out)
            self.here = cache_folder() / "runs" / hashlib.sha256(out.encode()).hexdigest()[:16]

    def run(self, name: str) -> Path:
        """The folder of a run, whose files are here if there are any, as far as it has come on any machine."""
        if self._files and self._size(name) > _size(self.here / name):
            shutil.rmtree(self.here / name, ignore_errors=True)
            for file in self._files.find(f"{self._at}/{name}"):
                self._fetch(f"{name}/{file.rpartition('/')[2]}")
        return self.here / name

    def drop(self, name: str) -> None:
        """Forget the copy of a run that was only looked at here; one that has come further than the store's stays."""
        if self._files and self._size(name) >= _size(self.here / name):
            shutil.rmtree(self.here / name, ignore_errors=True)

    def file(self, name: str) -> Path:
        """A file beside the runs, as it is now; it may not exist."""
        if self._files and self._files.exists(f"{self._at}/{name}"):
            self._fetch(name)
        self.here.mkdir(parents=True, exist_ok=True)
        return self.here / name

    def keep(self, name: str) -> None:
        """Put a file, or a run that has ended, where every machine finds it."""
        if not self._files:
            return
        path = self.here / name
        for file in path.iterdir() if path.is_dir() else [path]:
            at = f"{self._at}/{file.relative_to(self.here).as_posix()}"
            self._files.makedirs(at.rpartition("/")[0], exist_ok=True)
            self._files.put_file(str(file), at)
        if path.is_dir():
            shutil.rmtree(path)

    def _size(self, run: str) -> int:
        self._files.invalidate_cache()
        at = f"{self._at}/{run}/{TRAJECTORY}"
        return int(self._files.size(at) or 0) if self._files.exists(at) else 0

    def _fetch(self, name: str) -> None:
        (self.here / name).parent.mkdir(parents=True, exist_ok=True)
        self._files.get_file(f"{self._at}/{name}", str(self.here / name))


def _size(run: Path) -> int:
    """Bytes of a trajectory, which only ever grows: the longer one of a run has come further."""
    trajectory = run / TRAJECTORY
    return trajectory.stat().st_size if trajectory.is_file() else 0
