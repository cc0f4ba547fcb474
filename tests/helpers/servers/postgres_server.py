"""A Postgres server of the test's own: it can be killed with all its children and started again on the same data."""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

VARIABLE = "CERTIGRAPH_POSTGRES"
INSTALL = "apt-get install -y postgresql"
LOG = "server.log"
PEOPLE = ("postgres", "nobody")
"""Whom the server runs as where the tests are root's: it refuses root."""


class Server:
    """A cluster in a folder of its own, on loopback, with a password."""

    def __init__(self, folder: Path, binaries: Path) -> None:
        self.folder, self.binaries = folder, binaries
        self.password = secrets.token_urlsafe(24)
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://tester:{self.password}@127.0.0.1:{self.port}/postgres"

    @property
    def alive(self) -> bool:
        return self._process is not None

    def lay_out(self) -> None:
        secret = self.folder / "password"
        secret.write_text(self.password)
        _give(secret)
        command = [self.binaries / "initdb", "-D", self.folder / "data", "-U", "tester", "-A", "scram-sha-256"]
        self._run([*command, f"--pwfile={secret}", "-E", "UTF8", "--no-locale", "--no-sync"])
        secret.unlink()

    def start(self) -> None:
        settings = {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": self.folder}
        options = [f"-c{name}={value}" for name, value in settings.items()]
        with (self.folder / LOG).open("ab") as log:
            command = [self.binaries / "postgres", "-D", self.folder / "data", *options]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, **_as_nobody())
        self._await_ready()

    def kill(self) -> None:
        """As a power cut would: the postmaster and every child at once."""
        assert self._process
        self._process.send_signal(signal.SIGSTOP)  # so that no child is born meanwhile
        family = [self._process.pid, *_children(self._process.pid)]
        for pid in family:
            os.kill(pid, signal.SIGKILL)
        self._process.wait()
        _await_gone(family)
        self._process = None

    def stop(self) -> None:
        if self._process:
            self._process.send_signal(signal.SIGQUIT)
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()

    def sql(self, statement: str, *arguments: object) -> list[tuple[Any, ...]]:
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement, arguments or None)
            return cursor.fetchall() if cursor.description else []

    def _await_ready(self) -> None:
        import psycopg

        for _ in range(600):
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                assert self._process and self._process.poll() is None, (self.folder / LOG).read_text()
                time.sleep(0.05)
        raise AssertionError((self.folder / LOG).read_text())

    def _run(self, command: list[Any]) -> None:
        done = subprocess.run(command, capture_output=True, check=False, **_as_nobody())
        assert done.returncode == 0, done.stderr.decode()


@contextmanager
def running_server() -> Iterator[Server]:
    """A server that is stopped, and whose data is gone, when the block ends."""
    folder = Path(tempfile.mkdtemp(prefix="certigraph-postgres-"))
    _give(folder)
    server = Server(folder, _binaries())
    try:
        server.lay_out()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _binaries() -> Path:
    """The folder of the newest server here; a test without one is skipped, but in CI it fails."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if not found:
        say = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        say(f"no Postgres server here: {INSTALL}")
    return found[-1].parent


def _as_nobody() -> dict[str, Any]:
    if os.geteuid():
        return {}
    person = _person()
    return {"user": person.pw_uid, "group": person.pw_gid, "extra_groups": [], "cwd": "/"}


def _give(path: Path) -> None:
    if not os.geteuid():
        person = _person()
        os.chown(path, person.pw_uid, person.pw_gid)


def _person() -> pwd.struct_passwd:
    known = {person.pw_name: person for person in pwd.getpwall()}
    return next(known[name] for name in PEOPLE if name in known)


def _children(parent: int) -> list[int]:
    stats = Path("/proc").glob("[0-9]*/stat")
    return [int(path.parent.name) for path in stats if _parent(path) == parent]


def _parent(stat: Path) -> int:
    try:
        return int(stat.read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _await_gone(family: list[int]) -> None:
    for _ in range(400):
        if not any(Path(f"/proc/{pid}/status").exists() and not _zombie(pid) for pid in family):
            return
        time.sleep(0.01)
    raise AssertionError(f"still there: {family}")


def _zombie(pid: int) -> bool:
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
