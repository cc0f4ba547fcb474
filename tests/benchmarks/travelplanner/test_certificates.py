"""The audit of TravelPlanner's validator against the official scorer (`scripts/audits/travelplanner.py`)."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from helpers.files.real_data import data_folder

from certigraph.benchmarks.travelplanner.benchmark import TravelPlanner

ROOT = Path(__file__).parents[3]


def audited(monkeypatch: pytest.MonkeyPatch, perturbed: int) -> list[Any]:
    assert data_folder("travelplanner")
    monkeypatch.syspath_prepend(ROOT / "scripts")
    audits: list[Any] = import_module("audits.travelplanner").audit_task("121", perturbed)
    return audits


@pytest.mark.slow
def test_no_certificate_of_a_hard_query_is_false(monkeypatch: pytest.MonkeyPatch) -> None:
    gold, *perturbed = audited(monkeypatch, 6)
    assert gold.counts["certified"] >= 11
    assert [audit.counts["false"] for audit in (gold, *perturbed)] == [0] * 7
    assert any(audit.counts["certified"] < gold.counts["certified"] for audit in perturbed)


@pytest.mark.slow
def test_the_audit_finds_certificates_that_are_false(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TravelPlanner, "violations", lambda *_: [])
    gold, *perturbed = audited(monkeypatch, 6)
    assert gold.counts["false"] > 0
    assert sum(audit.counts["false"] for audit in perturbed) > 6 * 11


@pytest.mark.long
@pytest.mark.slow
def test_no_certificate_is_false_by_the_official_scorer() -> None:
    data_folder("travelplanner")
    command = [sys.executable, str(ROOT / "scripts/certificate_audit.py"), "travelplanner", "--perturbed", "6"]
    audit = subprocess.run([*command, "--tasks", "2", "40", "134", "178"], capture_output=True, text=True, check=False)
    assert audit.returncode == 0, audit.stderr[:2_000]
    assert "| gold | 4 |" in audit.stdout
