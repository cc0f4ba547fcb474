"""Writes a trajectory while its run goes on, from the graph's own stream: no node knows about it."""

import fcntl
import os
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Self

from langgraph.types import Overwrite

from certigraph.adapters.models.billing import Bill
from certigraph.adapters.models.redact import redact
from certigraph.state.endings import Fault
from certigraph.state.reading import parse_line, read_lines
from certigraph.state.records import Record
from certigraph.state.trajectory import Event, Line, Trajectory, assembled

BOOKS = ("usage", "spent")
"""Channels that an event's own `usage` stands for."""

Listener = Callable[[Line], None]


class Recorder:
    """Turns stream chunks into trajectory lines, hands them to a listener, and keeps them on disk.

    Every line is flushed; certificates and the footer are forced to the disk.
    """

    def __init__(self, path: Path, listener: Listener | None = None) -> None:
        self.path = path
        self._file = path.open("a", encoding="utf-8")
        _lock(self._file, path)
        _drop_torn_line(path)
        self._listener = listener
        self._lines = list(read_lines(path))
        self._began = time.monotonic()
        self._bills: defaultdict[tuple[str, str], list[Bill]] = defaultdict(list)
        """What nodes sent whose updates are to follow, by scope and node."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._force()
        self._file.close()

    @property
    def trajectory(self) -> Trajectory:
        """What the file holds, those lines included that were there before."""
        return assembled(self._lines)

    def bill(self, bill: Bill) -> None:
        """What a node spent, whose update follows unless it failed."""
        self._bills[bill.place.scope, bill.usage.node].append(bill)

    def take(self, updates: Mapping[str, Any], scope: str = "") -> None:
        """One chunk of `astream(stream_mode="updates")`, of the graph itself or of an inner one."""
        for node, update in updates.items():
            if waiting := self._bills.get((scope, node)):
                self._event(waiting.pop(0), update)

    def write(self, line: Line) -> None:
        """Append one line."""
        text = line.model_dump_json()
        safe = redact(text)
        self._file.write(safe + "\n")
        self._file.flush()
        self._lines.append(line if safe == text else parse_line(safe))
        if line.type == "footer" or (line.type == "event" and line.update and line.update.get("certificates")):
            self._force()
        if self._listener:
            self._listener(line)

    def write_failed(self) -> None:
        """Record what nodes spent that raised instead of answering."""
        for waiting in self._bills.values():
            for bill in waiting:
                self._event(bill, None)
        self._bills.clear()

    def _event(self, bill: Bill, update: Mapping[str, Any] | None) -> None:
        kept = {k: v for k, v in (update or {}).items() if k not in BOOKS}
        plain = None if update is None else {k: _plain(v) for k, v in kept.items()}
        self.write(
            Event(
                t=round(time.monotonic() - self._began, 6),
                superstep=bill.superstep,
                node=bill.usage.node,
                usage=bill.usage,
                calls=[call.as_json() for call in bill.calls],
                update=plain,
                replaced=sorted(k for k, v in kept.items() if isinstance(v, Overwrite)),
                **bill.place._asdict(),
            )
        )

    def _force(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())


def _plain(value: Any) -> Any:
    if isinstance(value, Overwrite):
        return _plain(value.value)
    if isinstance(value, Record):
        return value.as_json()
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value


def _lock(file: IO[str], path: Path) -> None:
    """One process writes a trajectory; the lock goes with the process, however it ends."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Fault("data", f"{path.parent} is being written by another process: wait for it or stop it") from None


def _drop_torn_line(path: Path) -> None:
    if path.is_file() and not (written := path.read_bytes()).endswith(b"\n"):
        os.truncate(path, written.rfind(b"\n") + 1)
