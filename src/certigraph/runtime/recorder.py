"""Recorder of a run: writes its trajectory, and its prompts and replies where it keeps them.

Each is a file of JSON lines that only one process may write.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self

from langgraph.types import Overwrite

from certigraph.adapters.file_locks import try_lock
from certigraph.adapters.json_lines import drop_incomplete_line, read_bounded_lines
from certigraph.adapters.models.exchanges import KeptExchange
from certigraph.adapters.models.usage import UsageReport
from certigraph.adapters.redaction import redact_to_json
from certigraph.adapters.trajectories import MAX_TRAJECTORY_LINE, add_line_number, read_lines
from certigraph.runtime.files import PROMPTS_FILE, check_no_links, disk_full_fault, is_disk_full
from certigraph.state.endings import Fault, LimitReached
from certigraph.state.records import Record
from certigraph.state.trajectory import (
    CallStarted,
    Event,
    Trajectory,
    TrajectoryLine,
    assemble_trajectory,
    recorded_call_ids,
)

ACCOUNTING_KEYS = ("usage", "spent")
"""State keys left out of an event's update, because the event's own `usage` replaces them."""

Listener = Callable[[TrajectoryLine], None]
"""Callback that receives every line of a trajectory as it is written."""


class LineFile:
    """File of JSON lines to which only one process may append. Opening it cuts off an incomplete last line.

    Raises:
        Fault: ("data") another process is writing it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("ab", buffering=0)
        _lock_file(self._file, path)
        drop_incomplete_line(path)
        self._end = os.fstat(self._file.fileno()).st_size

    def append(self, text: str) -> None:
        """Append a line at once, so that it survives the death of the process.

        Raises:
            Fault: ("data") the line is too long, or the disk is full. The file then ends with the previous line.
        """
        line = f"{text}\n".encode()
        if len(line) > MAX_TRAJECTORY_LINE:
            raise Fault(
                "data",
                f"a step of the run made a line of {len(line):,} bytes in {self.path.name}, and at most "
                f"{MAX_TRAJECTORY_LINE:,} can be read again: shorten the answers of the world or tools",
            )
        left = memoryview(line)
        try:
            while left:
                left = left[self._file.write(left) :]
            self._end += len(line)
        except OSError as error:
            self._file.truncate(self._end)
            if is_disk_full(error):
                raise disk_full_fault(self.path.parent) from error
            raise

    def force(self) -> None:
        """Wait until all lines are on the disk. Raises as `append` does."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            if is_disk_full(error):
                raise disk_full_fault(self.path.parent) from error
            raise

    def close(self) -> None:
        """Close the file, which other processes may then write."""
        self._file.close()


class PromptRecorder(LineFile):
    """Writer of the requests to models and their replies. The lines of a run that is resumed follow the earlier ones.

    A line is written before the event that names its number; a killed process leaves at most lines that none names.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with path.open("rb") as file:
            self._count = sum(1 for _ in read_bounded_lines(file, str(path), MAX_TRAJECTORY_LINE))
        self._writing = threading.Lock()

    def keep(self, exchange: KeptExchange) -> int:
        """Append an exchange with its secrets masked, and return the number of its line. Thread-safe."""
        with self._writing:
            number = self._count + 1
            self.append(redact_to_json(exchange.model_copy(update={"number": number}))[1])
            self._count = number
            return number


class Recorder:
    """Writer of a trajectory. It turns usage reports of nodes into lines, saves them, and passes them to a listener.

    Every line is written at once, so that it survives the death of the process. Certificates and the footer are synced
    to disk, so that a power cut loses at most the lines after them.
    """

    def __init__(self, path: Path, listener: Listener | None = None, *, keep_prompts: bool = False) -> None:
        self.path = path
        check_no_links(path.parent, *path.parent.iterdir())
        self._file = LineFile(path)
        prompts = path.parent / PROMPTS_FILE
        self.prompts = PromptRecorder(prompts) if keep_prompts or prompts.is_file() else None
        """Writer of prompts and replies; None if the run does not keep them. A resumed run goes on keeping them."""
        self._listener = listener
        self._lines = list(read_lines(path))
        self._began = time.monotonic()
        self._calls = sum(map(_count_calls, self._lines))
        self._ids = max((line.id for line in self._lines if isinstance(line, CallStarted)), default=0)
        self._writing = threading.RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.prompts:
            self.prompts.close()
        self._file.force()
        self._file.close()

    @property
    def trajectory(self) -> Trajectory:
        """The trajectory in the file, including the lines that were there before the run was resumed."""
        return assemble_trajectory(self._lines)

    def record_usage(self, report: UsageReport) -> None:
        """Write the line for one execution of a graph node.

        The line is written before the checkpoint that holds the result of the execution.
        """
        update = report.update
        values = {k: v for k, v in (update or {}).items() if k not in ACCOUNTING_KEYS}
        replaced, repeated = sorted(k for k, v in values.items() if isinstance(v, Overwrite)), 0
        if report.place.scope and "history" in replaced:  # the log of a sub-task begins with the steps before it
            values["history"], repeated = [], len(values["history"].value)
        plain = None if update is None else {k: _to_json(v) for k, v in values.items()}
        self.write(
            Event(
                t=round(time.monotonic() - self._began, 6),
                superstep=report.superstep,
                node=report.usage.node,
                usage=report.usage,
                calls=[call.as_json() for call in report.calls],
                update=plain,
                replaced=replaced,
                repeated=repeated,
                **report.place._asdict(),
            )
        )

    def begin_call(self, call: CallStarted, max_calls: int) -> int:
        """Write the line of a model call that is about to be sent, and return the id of the call. Thread-safe.

        Raises:
            LimitReached: the run has started `max_calls` calls, including those lost in a crash.
        """
        with self._writing:
            if self._calls >= max_calls:
                raise LimitReached("calls", max_calls, self._calls)
            self._ids += 1
            elapsed = round(time.monotonic() - self._began, 6)
            self.write(call.model_copy(update={"id": self._ids, "t": elapsed}))
            return self._ids

    def write(self, line: TrajectoryLine) -> None:
        """Append one line with its secrets masked, and pass it to the listener.

        Raises:
            Fault: ("data") the disk is full. The file then ends with the previous line.
        """
        line, text = redact_to_json(line)
        with self._writing:
            self._file.append(add_line_number(text, len(self._lines) + 1))
            self._lines.append(line)
            self._calls += _count_calls(line)
        if line.type == "footer" or (line.type == "event" and line.update and line.update.get("certificates")):
            self._file.force()
        if self._listener:
            self._listener(line)


def _count_calls(line: TrajectoryLine) -> int:
    """Count the model calls that a trajectory line adds to the run.

    Calls that were announced by a line of their own are not counted again in their event.
    """
    match line:
        case CallStarted():
            return 1
        case Event():
            return line.usage.calls - len(recorded_call_ids(line))
        case _:
            return 0


def _to_json(value: Any) -> Any:
    if isinstance(value, Overwrite):
        return _to_json(value.value)
    if isinstance(value, Record):
        return value.as_json()
    return [_to_json(v) for v in value] if isinstance(value, (list, tuple)) else value


@contextmanager
def lock_trajectory(path: Path) -> Iterator[None]:
    """Context manager that keeps other processes from writing a trajectory.

    Raises:
        Fault: ("data") another process is writing it already.
    """
    with path.open("a", encoding="utf-8") as file:
        _lock_file(file, path)
        yield


def _lock_file(file: IO[Any], path: Path) -> None:
    if not try_lock(file):
        raise Fault("data", f"another process is writing {path.parent}: wait until it ends, or stop it")
