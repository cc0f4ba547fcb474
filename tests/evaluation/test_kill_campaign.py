"""A small part of the kill campaign, so that the script keeps working; results/reliability has the large one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "kill_campaign.py"

pytestmark = pytest.mark.slow


def run_campaign(*arguments: str) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2_000:]
    counts: dict[str, int] = json.loads(done.stdout.splitlines()[0])
    return counts


def test_killed_runs_end_like_uninterrupted_ones_though_clocks_step_back(tmp_path: Path) -> None:
    counts = run_campaign("kills", "--trials=10", "--clock-step=-3600", f"--out={tmp_path}")
    assert counts["identical"] == counts["trials"] == 10
    assert counts["kills"] > 0


def test_no_server_gets_more_requests_than_the_budget_has_calls(tmp_path: Path) -> None:
    counts = run_campaign("budgets", "--trials=10", f"--out={tmp_path}")
    assert counts["trials"] == 10
    assert counts["killed"] > 0
