"""Worker processes of this machine, which need no Ray.

`ProcessWorker` starts a process and talks to it over a socket: a line of JSON with a job in one direction, one with its
summary row in the other. The process ends when the socket is closed, also if this process was killed.
"""

import asyncio
import itertools
import json
import signal
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from typing import Any

from certigraph.adapters.own_modules import OwnModules, find_own_modules, own_modules
from certigraph.adapters.redaction import redact_message
from certigraph.evaluation.jobs import RunJob, execute_job
from certigraph.runtime.result import BenchmarkRow

START = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from {module} import serve; serve(*sys.argv[2:])"
"""Program of a worker process. It finds modules where this process does, the user's own operators included."""

MAX_LINE = 64 * 2**20
"""Maximum bytes of a job on the socket."""

READY = 0
"""Number of the message by which a process says that it has started; jobs are numbered from 1."""


class ProcessWorker:
    """Worker process of this machine.

    Args:
        extra: has no meaning here, where a process waits for no processor.
    """

    def __init__(self, *, extra: bool = False) -> None:
        self.lost = False
        self._numbers, self._lock = itertools.count(READY + 1), Lock()
        self._replies: dict[int, Future[dict[str, Any] | None]] = {READY: Future()}
        self._ready = self._replies[READY]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - the process writes to it while it starts
        self._socket, theirs = socket.socketpair()
        with theirs:
            paths = [path or str(Path.cwd()) for path in sys.path]
            arguments = (json.dumps(paths), str(theirs.fileno()), json.dumps(own_modules()))
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", START.format(module=__name__), *arguments],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
            )
        Thread(target=self._read_replies, daemon=True).start()

    async def failure(self) -> str:
        """Wait until the process has started; return the reason if it failed, else an empty string."""
        if await asyncio.wrap_future(self._ready):
            return ""
        with self._errors as errors:
            errors.seek(0)
            last = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
        return redact_message(last or f"it ended with status {self._process.returncode}")

    async def done(self, job: RunJob) -> BenchmarkRow | None:
        """Execute a job in the process and return its summary row; None if the process was lost meanwhile."""
        number, reply = next(self._numbers), Future[dict[str, Any] | None]()
        with self._lock:
            if self.lost:
                return None
            self._replies[number] = reply
        self._send({"job": number, "run": job.model_dump(mode="json")})
        try:
            message = await asyncio.wrap_future(reply)
        except asyncio.CancelledError:
            self._send({"cancel": number})
            raise
        if message is None:
            return None
        error = message.get("error")
        return job.failed_row("error:operator", error) if error else BenchmarkRow.model_validate(message["row"])

    def stop(self) -> None:
        """End the process, even if it no longer responds. Its jobs have no row."""
        with self._lock:
            self.lost = True
            waiting = [*self._replies.values()]
            self._replies.clear()
        self._process.kill()
        self._process.wait()
        for reply in waiting:
            if reply.set_running_or_notify_cancel():
                reply.set_result(None)

    def _send(self, message: dict[str, Any]) -> None:
        with suppress(OSError):  # if the process has ended, the thread that reads its replies notices
            self._socket.sendall(_line(message))

    def _read_replies(self) -> None:
        with self._socket, self._socket.makefile("rb") as lines, suppress(OSError):
            for line in lines:
                message = json.loads(line)
                with self._lock:
                    reply = self._replies.pop(message["job"], None)
                if reply and reply.set_running_or_notify_cancel():
                    reply.set_result(message)
        self.stop()


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False).encode() + b"\n"


# In the worker process.


def serve(descriptor: str, own: str) -> None:
    """Execute the jobs that arrive on a socket, as many at a time as are sent, until it is closed.

    Args:
        descriptor: the file descriptor of the socket.
        own: where to look for the user's modules, as JSON.
    """
    if modules := json.loads(own):
        find_own_modules(OwnModules(*modules))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the process that started this one, which ends it
    with socket.socket(fileno=int(descriptor)) as connection:
        asyncio.run(_serve(connection))


async def _serve(connection: socket.socket) -> None:
    reader, writer = await asyncio.open_unix_connection(sock=connection, limit=MAX_LINE)
    running: dict[int, asyncio.Task[BenchmarkRow]] = {}

    def reply(number: int, task: asyncio.Task[BenchmarkRow]) -> None:
        running.pop(number, None)
        if task.cancelled():
            return
        error = task.exception()
        result = {"error": redact_message(str(error) or repr(error))} if error else {"row": task.result().as_json()}
        writer.write(_line({"job": number, **result}))

    writer.write(_line({"job": READY}))
    while line := await reader.readline():
        message = json.loads(line)
        if (number := message.get("cancel")) is not None:
            if number in running:
                running[number].cancel()
            continue
        number = message["job"]
        running[number] = asyncio.create_task(execute_job(RunJob.model_validate(message["run"])))
        running[number].add_done_callback(partial(reply, number))
