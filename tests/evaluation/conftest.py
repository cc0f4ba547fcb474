"""The Postgres server of the tests that need one: it is started once, and again where a test killed it."""

from collections.abc import Iterator

import pytest
from postgres_server import VARIABLE, Server, running


@pytest.fixture(scope="session")
def _cluster() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.fixture
def server(_cluster: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server that runs, and that no variable names."""
    monkeypatch.delenv(VARIABLE, raising=False)
    if not _cluster.alive:
        _cluster.start()
    return _cluster


@pytest.fixture
def used(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The server, as the one that this machine names."""
    monkeypatch.setenv(VARIABLE, server.url)
    return server
