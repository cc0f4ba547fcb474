"""Agents over tools whose process is killed at random moments: every effect happens once."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from helpers.sample_runs.killed_agents import Place, carry_in_child
from helpers.servers.postgres_server import Server, running_server

pytestmark = pytest.mark.slow

KILLS = 2
"""Number of kills of one run."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as server:
        yield server


def check_kills(place: Place, moments: int) -> int:
    """Kill and resume runs of a place; return how many questions were put."""
    whole = place._replace(folder=place.folder / "whole")
    whole.folder.mkdir()
    seconds = carry_in_child(whole)
    assert (whole.folder / "ending").exists()
    questions = 0
    for seed in range(moments):
        one = place._replace(folder=place.folder / str(seed))
        one.folder.mkdir()
        random = Random(f"{place.method}:{seed}")
        for _ in range(random.randint(1, KILLS)):
            carry_in_child(one, random.uniform(0, seconds))
        if not one.count("ended"):
            carry_in_child(one)
        assert one.count("ended"), f"seed {seed} did not end"
        assert (len(one.database.rows("refunds")), len(one.database.rows("mails"))) == (1, 1), f"seed {seed}"
        assert (one.folder / "ending").read_text() == (whole.folder / "ending").read_text(), f"seed {seed}"
        questions += one.count("questions")
    return questions


@pytest.mark.long
@pytest.mark.timeout(600)
def test_killed_sdp_agents_have_one_refund_and_one_mail(tmp_path: Path) -> None:
    assert check_kills(Place("sdp", tmp_path), 40)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("method", "moments"), [("react", 20), ("step", 6), ("tdp", 8), ("plan_and_act", 4)])
def test_killed_agents_of_other_methods_have_one_refund_and_one_mail(method: str, moments: int, tmp_path: Path) -> None:
    check_kills(Place(method, tmp_path), moments)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("method", "moments"), [("sdp", 10), ("react", 4)])
def test_killed_agents_with_checkpoints_on_a_server(method: str, moments: int, tmp_path: Path, server: Server) -> None:
    check_kills(Place(method, tmp_path, server.url), moments)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("method", "moments"), [("sdp", 12), ("react", 6), ("tdp", 6)])
def test_killed_runs_have_one_refund_and_one_mail(method: str, moments: int, tmp_path: Path) -> None:
    check_kills(Place(method, tmp_path, as_run=True), moments)
