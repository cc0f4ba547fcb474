"""The question by which a model chooses an option: what labels say, what was tried, what stands around the options."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from helpers.files.real_data import data_folder
from helpers.worlds.travelplanner_sandbox import (
    DEAR_CUISINES,
    TinyTravelPlanner,
    flight,
    lodging,
    query,
    restaurant,
    sandbox,
)

from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context
from certigraph.benchmarks.travelplanner.benchmark import TravelPlanner
from certigraph.benchmarks.travelplanner.options import list_restaurants, list_stays
from certigraph.graphs import sdp
from certigraph.state.records import Task

Responder = Callable[[str, dict[str, Any]], dict[str, str]]

CUISINES = ("American", "Chinese", "French", "Indian", "Italian", "Mediterranean", "Mexican")


def first(prompt: str, form: dict[str, Any]) -> dict[str, str]:
    return {"thought": "", "choice": form["properties"]["choice"]["enum"][0]}


class LabelReader:
    """Takes the first option whose label names a cuisine that the request names and no earlier choice did."""

    def __init__(self, request: str) -> None:
        self.wanted = {cuisine for cuisine in CUISINES if cuisine in request}

    def __call__(self, prompt: str, form: dict[str, Any]) -> dict[str, str]:
        labels = form["properties"]["choice"]["enum"]
        choice = next((label for label in labels if self.served(label)), labels[0])
        self.wanted -= self.served(choice)
        return {"thought": "", "choice": choice}

    def served(self, label: str) -> set[str]:
        return {cuisine for cuisine in self.wanted if cuisine in label.rpartition("($")[2]}


def played(benchmark: TravelPlanner, task: Task, responder: Responder, window: int = 0) -> dict[str, Any]:
    context = Context(benchmark=benchmark, chat=ScriptedChat(responder=responder), window=window)
    return dict(sdp.build().invoke({"task": task}, context=context))


def endings(benchmark: TravelPlanner, tasks: Sequence[Task], make: Callable[[str], Responder]) -> list[str]:
    """The ending of each task's run, with the kind and reason of the last refusal where it is not the goal."""
    found = []
    for task in tasks:
        state = played(benchmark, task, make(task.goal))
        last = state["attempts"][-1]
        ending = sdp.ending(state)
        found.append(ending if ending == "goal" else f"{last.target.kind}: {last.verdict.reason}")
    return found


# --- labels


def test_labels_say_what_the_constraints_of_a_request_are_about() -> None:
    inn = lodging("Inn\nOut", "A", 30, minimum_nights=2.0, house_rules="No pets & No smoking", maximum_occupancy=3)
    tables = sandbox(accommodations=[inn], restaurants=[restaurant("Gavroche " * 9, "A", 7, "French, Tea")])
    [stay], [meal] = list_stays("A", 4, 2, tables), list_restaurants("A", 4, tables)
    assert all(text in stay.label for text in ("$120", "Private room", "2 nights", "3 people", "No pets & No smoking"))
    assert "\n" not in stay.label
    assert all(text in meal.label for text in ("Gavroche " * 9, "$28")) and meal.cuisines == "French, Tea"


CUISINES_WANTED = query(text="Plan a trip with French and Indian food.", cuisine=("French", "Indian")), DEAR_CUISINES


@pytest.mark.slow
def test_who_reads_the_cuisines_in_the_labels_serves_them() -> None:
    benchmark = TinyTravelPlanner(*CUISINES_WANTED, "paper")
    tasks = [benchmark.task()]
    assert endings(benchmark, tasks, lambda request: first) == ["budget: cuisines not served: ['French', 'Indian']"]
    assert endings(benchmark, tasks, LabelReader) == ["goal"]


@pytest.mark.long
@pytest.mark.slow
def test_who_reads_labels_solves_more_of_the_real_cuisine_queries_and_misses_no_cuisine() -> None:
    real = TravelPlanner(data_folder("travelplanner"), "paper")
    tasks = [task for task in real.tasks() if real.query(task).local_constraint.cuisine]
    blind, reading = endings(real, tasks, lambda request: first), endings(real, tasks, LabelReader)
    assert (len(tasks), blind.count("goal")) == (34, 22)
    assert sum("cuisines not served" in ending for ending in blind) == 7
    assert reading.count("goal") >= 27
    assert not any("cuisines not served" in ending for ending in reading)


# --- what was tried, and what is already decided


def dearest(prompt: str, form: dict[str, Any]) -> dict[str, str]:
    return {"thought": "", "choice": form["properties"]["choice"]["enum"][-1]}


def dearest_untried(prompt: str, form: dict[str, Any]) -> dict[str, str]:
    """Take the dearest option that the prompt does not name a second time; else the cheapest."""
    labels = form["properties"]["choice"]["enum"]
    return {"thought": "", "choice": next((label for label in reversed(labels) if prompt.count(label) == 1), labels[0])}


def dear_meals() -> TinyTravelPlanner:
    """Two meals in palaces leave nothing for the third of the day; the flights cost four dollars."""
    diners = [restaurant(f"Diner {n}", "A", 1) for n in range(8)]
    palaces = [restaurant(f"Palace {n}", "A", 21) for n in range(2)]
    flights = [flight("F1", "O", "A", "2022-03-01", 2), flight("F2", "A", "O", "2022-03-03", 2)]
    return TinyTravelPlanner(
        query(budget=46), sandbox(restaurants=[*diners, *palaces], flights=flights, distances=[]), "paper"
    )


@pytest.mark.slow
def test_who_avoids_what_was_tried_gets_on_where_repeating_it_gives_up() -> None:
    benchmark = dear_meals()
    stuck = played(benchmark, benchmark.task(), dearest)
    state = played(benchmark, benchmark.task(), dearest_untried)
    assert sdp.ending(stuck) == "gave_up"
    assert state["head"] > stuck["head"]
