"""Fixtures of all tests: short pauses, a Postgres server, and an evaluation to compare others with."""

import gc
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from helpers.models.call_checkers import allow_checked_calls
from helpers.servers.postgres_server import VARIABLE, Server, running_server
from hypothesis import settings

from certigraph.adapters import redaction
from certigraph.adapters.models import calls, chat_models

if TYPE_CHECKING:
    from certigraph.evaluation.evaluation_results import Evaluation

# pytest's rewriting of assertions takes half of the collection: it is kept also where PYTHONDONTWRITEBYTECODE is set.
sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", type=int, help="of each slow test, run at most so many of its cases, spread evenly")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the cases of slow tests beyond `--cases`, the same ones in every process."""
    if (most := config.getoption("cases")) is None:
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("slow"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    spread = {test: {len(found) * n // most for n in range(most)} for test, found in cases.items()}
    surplus = {item for test, found in cases.items() for n, item in enumerate(found) if n not in spread[test]}
    config.hook.pytest_deselected(items=[*surplus])
    items[:] = [item for item in items if item not in surplus]


settings.register_profile("fast", deadline=None, max_examples=30)
settings.register_profile("slow", deadline=None)


def pytest_configure(config: pytest.Config) -> None:
    """Draw fewer examples of each property where the fast tests run alone."""
    settings.load_profile("fast" if config.getoption("markexpr") == "not slow" else "slow")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Leave what all tests share out of garbage collection: each evaluation would go through all of it again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "RETRY_PAUSES", (0.001, 0.001))
    monkeypatch.setattr(chat_models, "_REFUSED", {})  # a port may be another stub's by now


@pytest.fixture(autouse=True)
def _no_addresses_of_earlier_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_REMEMBERED_ADDRESSES", {})
    redaction._compile_patterns.cache_clear()  # what it warned about once, it does not warn about again


@pytest.fixture(autouse=True)
def _scripts_allow_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    allow_checked_calls(monkeypatch)


@pytest.fixture(scope="session")
def _cluster() -> Iterator[Server]:
    with running_server() as server:
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


@pytest.fixture(scope="session")
def scaled_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of operators for evaluations whose workers are killed."""
    from helpers.sample_runs.worker_evaluations import OPERATORS

    folder = tmp_path_factory.mktemp("site")
    (folder / "scaling_operators.py").write_text(OPERATORS)
    (folder / "pids").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield folder


@pytest.fixture(scope="session")
def undisturbed(scaled_site: Path, tmp_path_factory: pytest.TempPathFactory) -> "Evaluation":
    """What nobody disturbed came to, in one process."""
    from helpers.sample_runs.worker_evaluations import OURS, evaluate_with_workers

    with pytest.MonkeyPatch.context() as patch:
        for name in OURS:
            patch.delenv(name, raising=False)
        return evaluate_with_workers(tmp_path_factory.mktemp("undisturbed"))


@pytest.fixture
def site(scaled_site: Path, undisturbed: "Evaluation", monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of operators, in which no process has left its number yet."""
    from helpers.sample_runs.worker_evaluations import OURS

    for name in OURS:
        monkeypatch.delenv(name, raising=False)
    for path in (scaled_site / "pids").iterdir():
        path.unlink()
    (scaled_site / "harmless").unlink(missing_ok=True)
    return scaled_site
