"""The golden set: what the code does is what was recorded. tests/golden/README.md says how to update it."""

import pytest
from golden.cases import FOLDER, Golden, goldens
from real_data import data_folder

GOLDENS = goldens()


def cases() -> list[object]:
    return [pytest.param(one, id=one.name, marks=[pytest.mark.slow] if one.slow else []) for one in GOLDENS]


@pytest.mark.parametrize("golden", cases())
def test_behaviour_is_as_recorded(golden: Golden) -> None:
    if golden.data:
        data_folder(golden.data)
    assert golden.difference() == ""


def test_every_recorded_file_is_compared() -> None:
    recorded = {path for path in FOLDER.rglob("*") if path.suffix in (".json", ".jsonl", ".csv", ".txt")}
    assert recorded == {one.path for one in GOLDENS}
