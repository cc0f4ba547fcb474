"""Fixtures of the tests of graphs."""

from pathlib import Path

import pytest
from helpers.worlds.support_database import SupportDatabase


@pytest.fixture
def database(tmp_path: Path) -> SupportDatabase:
    return SupportDatabase(tmp_path / "desk.sqlite")
