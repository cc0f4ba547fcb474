"""The Java processes that a process started, found in /proc."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def java_processes(of: int | None = None) -> list[int]:
    """Ids of the living Java processes among the descendants of a process, this one where none is named."""
    parents = dict(filter(None, map(_parent, Path("/proc").glob("[0-9]*"))))
    root = of or os.getpid()
    return [pid for pid, (name, _) in parents.items() if name == "java" and _descends(pid, root, parents)]


def _parent(folder: Path) -> tuple[int, tuple[str, int]] | None:
    try:
        text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # gone meanwhile
        return None
    name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
    return None if rest[0] == "Z" else (int(folder.name), (name, int(rest[1])))


def _descends(pid: int, root: int, parents: dict[int, tuple[str, int]]) -> bool:
    while pid in parents and pid != root:
        pid = parents[pid][1]
    return pid == root


@contextmanager
def watch_java_processes(of: int | None = None) -> Iterator[list[int]]:
    """A list to which the number of JVMs, as `java_processes` finds them, is added every 50 ms inside the block."""
    seen, over = list[int](), threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            seen.append(len(java_processes(of)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()


def wait_until(true: Callable[[], bool], within: float = 5.0) -> bool:
    """Whether something becomes true in time."""
    deadline = time.monotonic() + within
    while not true() and time.monotonic() < deadline:
        time.sleep(0.05)
    return true()
