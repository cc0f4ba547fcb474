"""ScienceWorld's demonstrations, on recorded gold paths; no simulator runs."""

from types import SimpleNamespace
from typing import Any

import pytest
from real_data import data_folder
from twins import Twins

from certigraph.adapters.scienceworld import benchmark, recordings
from certigraph.adapters.scienceworld.recordings import Recording, read_recordings
from certigraph.state.records import Action, Fault

TASKS = ("boil", "find-plant", "use-thermometer")
"""A change, a search, a measurement whose answers are numbers of options."""


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> dict[str, Recording]:
    """The gold paths by task, which demonstrations are read from."""
    found = read_recordings(data_folder("scienceworld") / "gold_var0.jsonl.gz")
    paths = {(one.task, one.variation, one.simplification): one for one in found}
    monkeypatch.setattr(benchmark, "gold_recording", lambda *key: paths[key])
    return {one.task: one for one in found}


@pytest.mark.parametrize("name", TASKS)
def test_a_demonstration_reaches_the_goal_and_is_the_same_from_anywhere(name: str, recorded: dict[str, Recording]):
    world = Twins([recorded[name]])
    task = world.task(recorded[name].id)
    way = world.demonstration(task)
    assert world.demonstration(task, way[:2]) == way
    live = world.open(task)
    live.reset()
    scores = [live.step(Action(text=action)).data["score"] for action in way]
    assert scores[recorded[name].firstdone - 1] == 100 and live.score().value == 1.0


def test_a_way_that_ends_below_100_is_no_demonstration():
    told: dict[str, Any] = {"gold_actions": ["wait"], "description": "Grow it."}
    calls = {name: lambda value=value: value for name, value in told.items()}
    simulator = SimpleNamespace(load=lambda *a, **k: "A room.", step=lambda a: "You wait.", score=lambda: 50, **calls)
    with pytest.raises(Fault, match=r"the gold path of grow-plant:7 \(''\) ends at \[50\]"):
        recordings.record_gold(simulator, "grow-plant", 7)  # type: ignore[arg-type]
