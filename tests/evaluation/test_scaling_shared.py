"""Runs in a folder or in a store named by a URL: whichever machine looks finds a run as far as any has come."""

from collections.abc import Callable
from pathlib import Path

import pytest

from certigraph.evaluation.workers import Shared


@pytest.mark.parametrize("place", [str, Path.as_uri])
def test_a_run_is_found_again_in_a_folder_and_in_a_store(
    place: Callable[[Path], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if place is not str:
        pytest.importorskip("fsspec", reason="pip install 'certigraph[ray]'")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    out = tmp_path / "out"
    out.mkdir()
    shared = Shared(place(out))
    shared.run("r").mkdir(parents=True)
    (shared.run("r") / "trajectory.jsonl").write_text("{}\n")
    shared.file("journal.jsonl").write_text("noted")
    for name in ("r", "journal.jsonl"):
        shared.keep(name)
    assert (out / "r" / "trajectory.jsonl").read_text() == "{}\n"
    again = Shared(place(out))
    assert (again.run("r") / "trajectory.jsonl").read_text() == "{}\n"
    assert again.file("journal.jsonl").read_text() == "noted"
    assert not again.file("other.jsonl").exists()


@pytest.fixture
def store(tmp_path: Path) -> Shared:
    pytest.importorskip("fsspec", reason="pip install 'certigraph[ray]'")
    (tmp_path / "store" / "r").mkdir(parents=True)
    return Shared((tmp_path / "store").as_uri())


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def lines(folder: Path, count: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "trajectory.jsonl").write_text("{}\n" * count)
    return folder


def length(folder: Path) -> int:
    return (folder / "trajectory.jsonl").read_text().count("\n")


@pytest.mark.parametrize(("here", "there", "found"), [(3, 5, 5), (5, 3, 5), (4, 4, 4)])
def test_a_run_is_taken_where_it_has_come_furthest(here: int, there: int, found: int, store: Shared, tmp_path: Path):
    lines(tmp_path / "store" / "r", there)
    (lines(store.here / "r", here) / "checkpoints.sqlite").touch()
    assert length(store.run("r")) == found
    assert (store.run("r") / "checkpoints.sqlite").exists() == (here >= there)  # they belong to their trajectory


@pytest.mark.parametrize(("here", "there", "kept"), [(5, 5, False), (3, 5, False), (5, 3, True), (5, 0, True)])
def test_only_what_the_store_has_is_forgotten(here: int, there: int, kept: bool, store: Shared, tmp_path: Path):
    lines(tmp_path / "store" / "r", there)
    folder = lines(store.here / "r", here)
    store.drop("r")
    assert folder.exists() == kept


def test_a_folder_is_no_copy_and_is_kept(tmp_path: Path):
    folder = lines(tmp_path / "r", 2)
    Shared(str(tmp_path)).drop("r")
    assert length(folder) == 2
