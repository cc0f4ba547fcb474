"""Calls are never more than granted, and none is missing from the record, on any endpoint and after any kill."""

import itertools
import random
from pathlib import Path

import pytest
from killed_runs import Case, carry, carry_until_killed, recorded_calls, run_folder
from misbehaving_endpoint import MIXED, expert, least, misbehaving_endpoint

from certigraph.runtime.result import Result

pytestmark = pytest.mark.slow

ORDERLY = (("sdp", "blocksworld", "4-0"), ("react", "blocksworld", "4-0"), ("step", "blocksworld", "4-0"))
"""Graphs that send one request at a time."""

PARALLEL = (
    ("tdp", "blocksworld", "4-0"),
    ("hypotheses", "hotpotqa", ""),
    ("pbai", "hotpotqa", ""),
)
KINDS = ("healthy", "refuses_schema", "refuses_all", "fails_first", "reset", "no_usage", MIXED)
AT_ONCE = 8
"""Requests that these graphs have in flight, at most."""


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("orderly", [True, False], ids=["one at a time", "at once"])
@pytest.mark.filterwarnings("ignore")
def test_an_endpoint_never_gets_more_requests_than_granted_whatever_kills_the_run(
    orderly: bool, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)
    draw = random.Random(f"{orderly}:{seed}")
    case = Case(*draw.choice(ORDERLY if orderly else PARALLEL), calls=draw.randint(1, 12))
    answer = expert if case.benchmark == "blocksworld" else least
    kills = 0
    with misbehaving_endpoint(draw.choice(KINDS), answer, delay=0.03) as server:
        for _ in range(2):
            # the request has arrived and its answer waits: what is in flight is known to the endpoint
            kills += carry_until_killed(case, server, tmp_path, server.count + draw.randint(1, 4))
            assert server.count <= case.calls
            assert server.count <= recorded_calls(tmp_path) <= server.count + (0 if orderly else AT_ONCE * kills)
        for _ in range(3):
            carry_if_resumable(case, server.url, tmp_path)
        assert server.count <= case.calls
        assert server.count <= recorded_calls(tmp_path) <= server.count + (0 if orderly else AT_ONCE * kills)
        folder = run_folder(tmp_path)
        assert folder
        if Result(folder).ending == "limit:calls":
            before = server.count
            carry(case, server.url, tmp_path)
            assert (server.count, Result(folder).ending) == (before, "limit:calls")


def carry_if_resumable(case: Case, url: str, out: Path) -> None:
    folder = run_folder(out)
    if folder is None or Result(folder).ending.startswith(("error:", "interrupted")):
        carry(case, url, out)


def test_kills_alone_use_up_a_budget_and_a_loop_of_resumes_ends(tmp_path: Path) -> None:
    case = Case("sdp", "blocksworld", "4-0", calls=4)
    with misbehaving_endpoint(delay=0.03) as server:
        for kill in itertools.count(1):
            if not carry_until_killed(case, server, tmp_path, server.count + 1):
                break
            assert kill <= case.calls
        folder = run_folder(tmp_path)
        assert folder and Result(folder).ending == "limit:calls"
        assert server.count == recorded_calls(tmp_path) == case.calls
