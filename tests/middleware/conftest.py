"""Scripted validators of these tests answer every check themselves."""

import pytest


@pytest.fixture(autouse=True)
def _scripts_allow_calls() -> None:
    """Take the place of the fixture by which scripts that do not know the check allow every call."""
