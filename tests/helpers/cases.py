"""Cases of a parametrised test, of which the fast tests run the first ones."""

from collections.abc import Iterable
from typing import Any

import pytest


def first_fast(cases: Iterable[Any], fast: int = 1) -> list[Any]:
    """The cases, of which all but the first ones are slow: they repeat one rule on other graphs or worlds."""
    listed = [*cases]
    return [*listed[:fast], *(pytest.param(case, marks=pytest.mark.slow) for case in listed[fast:])]
