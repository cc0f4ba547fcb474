"""Figure 4 of the TDP paper in TravelPlanner's tool world: no return flight, and only the flights are planned anew."""

from pathlib import Path
from typing import Any

from decoupled import Cast, decoupled, outcomes

from certigraph.adapters.travelplanner.benchmark import TravelPlanner
from certigraph.runtime.result import Result

TRIP = {"cities": (), "flights": ("cities",), "stay": ("cities",), "plan": ("flights", "stay")}
"""The cities, flights and a place to stay side by side, the plan from both."""


def test_only_the_subtask_whose_return_flight_is_missing_is_planned_anew(tmp_path: Path):
    flying, there_and_back = _trip(tmp_path / "flying", back="2022-03-09")
    stranded, missing = _trip(tmp_path / "stranded", back="2022-03-08")
    replanned = [[e.subtask for e in run.trajectory.events if e.node == "replan"] for run in (flying, stranded)]
    assert replanned == [[], ["flights"]]
    for id_ in ("cities", "stay"):
        assert [a for a in missing.asked if a.subtask == id_] == [a for a in there_and_back.asked if a.subtask == id_]
        assert outcomes(stranded)[id_] == outcomes(flying)[id_]
    assert "There is no flight from Quarriford" in missing.prompts("replan")[0]
    assert stranded.ending == flying.ending == "goal"


def _trip(out: Path, back: str) -> tuple[Result, Cast]:
    """The trip of the first generated query, whose world has flights back on the third day and none on the second."""
    world = TravelPlanner(None, "tools")
    ways = ["FlightSearch[Selmoness, Quarriford, 2022-03-07]", f"FlightSearch[Quarriford, Selmoness, {back}]"]
    actions = {
        "cities": ["CitySearch[Ostrashire]"],
        "flights": [*ways, "GoogleDistanceMatrix[Quarriford, Selmoness, self-driving]"],
        "stay": ["AccommodationSearch[Quarriford]"],
        "plan": ["MakePlan[the trip]"],
    }
    cast = Cast(actions, TRIP, {**dict.fromkeys(TRIP, _noticing), "plan": _planning})
    return decoupled(cast, world, out), cast


def _noticing(prompt: str, fields: frozenset[str], answer: dict[str, Any]) -> Any:
    """The Supervisor calls off what the latest answer speaks against, and nothing else."""
    if "status" not in fields:
        return answer
    latest = prompt.partition("\n\nThe world now:")[0].splitlines()[-2]
    return {**answer, "off_plan": latest.startswith("There is no flight")}


def _planning(prompt: str, fields: frozenset[str], answer: Any) -> Any:
    return '[{"current_city": "Quarriford"}]' if fields == {"text"} else answer
