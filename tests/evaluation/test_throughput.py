"""Runs that share a process keep to themselves: how many go on at once changes no result."""

from pathlib import Path
from typing import Any

import pytest

from certigraph.evaluation.evaluate import evaluate

pytestmark = pytest.mark.slow

IDS = [f"{3 + number % 4}-{number}" for number in range(60)]


def rows(out: Path, at_once: int) -> list[dict[str, Any]]:
    """What every run came to, without names and times."""
    done = evaluate("sdp", "blocksworld", model="simulated", ids=IDS, out=out, max_samples=at_once, quiet=True)
    kept = [row.model_dump(exclude={"run": True, "footer": {"usage": {"seconds"}}}) for row in done.rows]
    return sorted(kept, key=lambda row: str(row["id"]))


def test_sixteen_runs_at_once_come_to_what_they_come_to_one_by_one(tmp_path: Path):
    alone, together = rows(tmp_path / "alone", 1), rows(tmp_path / "together", 16)
    assert [row["id"] for row in alone] == sorted(IDS)
    assert together == alone
    assert len({row["footer"]["ending"] for row in alone}) > 1, "a test of equality needs runs that differ"
