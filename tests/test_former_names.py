"""Former import names: they lead to the modules of today and warn."""

import importlib
import sys

import pytest

from certigraph.former_names import FORMER_NAMES, find_present_name


@pytest.mark.parametrize(("former", "present"), FORMER_NAMES.items())
def test_every_former_name_is_the_module_of_today(former: str, present: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, f"certigraph.{former}", raising=False)
    today = importlib.import_module(f"certigraph.{present}")
    spec = today.__spec__
    with pytest.warns(DeprecationWarning, match=f"certigraph.{former} is now certigraph.{present}"):
        assert importlib.import_module(f"certigraph.{former}") is today
    assert today.__spec__ is spec


def test_classes_are_the_same_by_either_name():
    with pytest.warns(DeprecationWarning):
        from certigraph.adapters.travelplanner.benchmark import TravelPlanner as Former  # type: ignore[import-not-found]
    from certigraph.benchmarks.travelplanner.benchmark import TravelPlanner

    assert Former is TravelPlanner


def test_other_names_are_not_found():
    assert find_present_name("certigraph.adapters.models.plansmith") is None
    with pytest.raises(ModuleNotFoundError, match=r"adapters\.nothing"):
        importlib.import_module("certigraph.adapters.nothing")
