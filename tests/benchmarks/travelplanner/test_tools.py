"""Tests of `benchmarks.travelplanner.tools`."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from helpers.files.real_data import data_folder
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.runtime import Runtime

from certigraph.adapters.benchmarks import usual_limits
from certigraph.adapters.models.profiles import estimate_tokens
from certigraph.adapters.models.scripts import TEXT_SCHEMA, ScriptedChat, Situation, use_situation
from certigraph.adapters.models.usage import Meter, metering
from certigraph.adapters.protocols import Budget, Context
from certigraph.benchmarks.travelplanner.benchmark import TravelPlanner, average_rate
from certigraph.benchmarks.travelplanner.expert import (
    GoldSubtask,
    ToolUse,
    build_gold_itinerary,
    gold_subtasks,
    remaining_calls,
)
from certigraph.benchmarks.travelplanner.generator import generate_world
from certigraph.benchmarks.travelplanner.queries import QuerySplits
from certigraph.benchmarks.travelplanner.tools import (
    FORMS,
    MAKE_PLAN,
    MODES,
    TOOLS,
    WRITE,
    create_tool_action,
)
from certigraph.benchmarks.travelplanner.written_plans import COST, DELIVER
from certigraph.runtime.result import Result
from certigraph.runtime.run import run
from certigraph.state.endings import UnknownName
from certigraph.state.records import Action, Observation, Step, Usage
from certigraph.state.run import Belief, DecideView, Evidence, Turn
from certigraph.state.trajectory import Footer

# TravelPlanner's tool world: what each tool answers and refuses, in any order, and how a delivered plan is scored.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    made = tmp_path_factory.mktemp("travelplanner")
    generate_world(made, seed=7, cities=16, tasks=12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(made / "cache"))
        yield made


@pytest.fixture(scope="module")
def generated(folder: Path) -> TravelPlanner:
    return TravelPlanner(folder, "tools")


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> TravelPlanner:
    """A generated world whose flight table has no more than the legs that its queries list."""
    made = tmp_path_factory.mktemp("cut")
    generate_world(made, seed=7, cities=16, tasks=12)
    table = made / "database" / "flights" / "clean_Flights_2022.csv"
    listed = {leg[:3] for leg in QuerySplits(made).legs()}
    head, *rows = table.read_text(encoding="utf-8").splitlines()
    kept = [row for row in rows if (cells := row.split(","))[6:8] and (*cells[6:8], cells[5]) in listed]
    table.unlink()
    table.with_name("clean_Flights_2022.subset.csv").write_text("\n".join([head, *kept]) + "\n", encoding="utf-8")
    return TravelPlanner(made, "tools")


@pytest.fixture(scope="module")
def real() -> TravelPlanner:
    """The tools over the real data, whose gold itineraries are computed once for all graphs."""
    return TravelPlanner(data_folder("travelplanner"), "tools")


@pytest.fixture(scope="module", params=["generated", "real"])
def world(request: pytest.FixtureRequest) -> TravelPlanner:
    """The tools over generated data, then over the real data where they are."""
    if request.param == "generated":
        return request.getfixturevalue("generated")
    return request.getfixturevalue("real")


def observations_of(benchmark: TravelPlanner, *calls: str | Action) -> list[Observation]:
    """What a fresh world answers to calls."""
    fresh = benchmark.open(benchmark.tasks()[0])
    fresh.reset()
    return [fresh.step(call if isinstance(call, Action) else Action(text=call)) for call in calls]


def rows(seen: Observation) -> list[str]:
    return [line.removeprefix("- ") for line in seen.text.splitlines() if line.startswith("- ")]


def prices(seen: Observation) -> list[float]:
    return [float(row.split(" | $")[1].split()[0]) for row in rows(seen)]


def legs(benchmark: TravelPlanner, *, flown: bool) -> list[tuple[str, str, str]]:
    """Legs of the validation queries' reference information."""
    shown = [leg for leg in QuerySplits(benchmark.folder).legs() if leg.has_flights == flown]
    return [leg[:3] for leg in shown][:20]


# --- what the tools answer


@pytest.mark.slow
def test_a_city_is_described_from_the_database_and_the_cheapest_come_first(world: TravelPlanner):
    data = world.sandbox
    for city in data.cities()[:20]:
        stays, eating, sights = observations_of(
            world, f"AccommodationSearch[{city}]", f"RestaurantSearch[{city}]", f"AttractionSearch[{city}]"
        )
        assert [seen.data["rows"] for seen in (stays, eating, sights)] == [
            len(found(city)) for found in (data.accommodations, data.restaurants, data.attractions)
        ]
        assert prices(stays) == sorted(row.price for row in data.accommodations(city))
        assert prices(eating) == sorted(float(row.cost) for row in data.restaurants(city))
        assert [row.name for row in data.attractions(city)] == rows(sights)
        assert all(seen.accepted and not seen.done for seen in (stays, eating, sights))


def test_the_answer_for_the_largest_city_is_whole(real: TravelPlanner):
    city = max(real.sandbox.cities(), key=lambda city: len(real.sandbox.restaurants(city)))
    [seen] = observations_of(real, f"RestaurantSearch[{city}]")
    assert len(rows(seen)) == len(real.sandbox.restaurants(city)) == 65


@pytest.mark.slow
def test_the_flights_of_a_leg_can_be_copied_into_a_plan(world: TravelPlanner):
    for leg in legs(world, flown=True):
        [seen] = observations_of(world, f"FlightSearch[{', '.join(leg)}]")
        flights = world.sandbox.flights(*leg)
        assert {row.split(",")[0] for row in rows(seen)} <= {f"Flight Number: {flight.number}" for flight in flights}
        assert prices(seen) == sorted(flight.price for flight in flights)
        assert all(row.endswith(" a person") and f"from {leg[0]} to {leg[1]}" in row for row in rows(seen))


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "car"), [("self-driving", "a car of 5"), ("taxi", "a car of 4")])
def test_a_road_is_described_with_its_price(world: TravelPlanner, mode: str, car: str):
    known = 0
    for origin, destination, _ in legs(world, flown=True):
        [seen] = observations_of(world, f"GoogleDistanceMatrix[{origin}, {destination}, {mode}]")
        road = world.sandbox.distance(origin, destination)
        passable = bool(road and road.distance and "day" not in road.duration)
        assert (seen.accepted, seen.data["rows"]) == (True, int(passable))
        if passable:
            assert road and road.distance in seen.text and seen.text.endswith(car)
        known += passable
    assert known


def test_a_state_is_described_by_its_cities(world: TravelPlanner):
    for state in sorted({str(world.sandbox.state_of(city)) for city in world.sandbox.cities()}):
        [seen] = observations_of(world, f"CitySearch[{state}]")
        assert rows(seen) == [city for city in world.sandbox.cities() if world.sandbox.state_of(city) == state]


def test_tools_and_places_are_known_in_any_case_and_typed_or_written(world: TravelPlanner):
    city = world.sandbox.cities()[0]
    typed = Action(text="look", kind="RestaurantSearch", args={"query": f' "{city.upper()}" '})
    written = [f"RestaurantSearch[{city}]", f" restaurantsearch[ {city.lower()} ] "]
    assert len({seen.text for seen in observations_of(world, typed, *written)}) == 1


# --- legs without rows


@pytest.mark.slow
def test_a_leg_that_is_listed_without_flights_has_none(world: TravelPlanner, cut: TravelPlanner):
    for benchmark in (world, cut):
        for leg in legs(benchmark, flown=False):
            [seen] = observations_of(benchmark, f"FlightSearch[{', '.join(leg)}]")
            assert seen.text == f"There is no flight from {leg[0]} to {leg[1]} on {leg[2]}."
            assert seen.accepted


def test_a_leg_that_a_cut_table_does_not_hold_is_not_in_the_data(cut: TravelPlanner):
    known = {leg[:3] for leg in QuerySplits(cut.folder).legs()}
    (origin, destination, date), other = sorted(known)[0], "2022-04-30"
    elsewhere = next(city for city in cut.sandbox.cities() if (origin, city, date) not in known)
    late, astray = observations_of(
        cut, f"FlightSearch[{origin}, {destination}, {other}]", f"FlightSearch[{origin}, {elsewhere}, {date}]"
    )
    for seen in (late, astray):
        assert seen.text.startswith("Not in the data: ")
        assert "no flight" not in seen.text.lower()
        assert seen.data == {"tool": "FlightSearch", "rows": 0, "known": False}
    assert f"{date} (" in late.text
    assert f"{destination} (" in astray.text


def test_of_a_whole_table_absence_is_an_answer(generated: TravelPlanner):
    origin, destination = generated.sandbox.cities()[:2]
    [seen] = observations_of(generated, f"FlightSearch[{origin}, {destination}, 2022-04-30]")
    assert seen.text == f"There is no flight from {origin} to {destination} on 2022-04-30."


def test_the_real_table_is_cut_and_every_listed_leg_is_described_as_listed(real: TravelPlanner):
    listed = QuerySplits(real.folder).legs()
    seen = observations_of(real, *(f"FlightSearch[{', '.join(leg[:3])}]" for leg in listed))
    assert len(listed) == 498
    assert [bool(rows(s)) for s in seen] == [leg.has_flights for leg in listed]
    assert all(s.text.startswith("There is no flight ") for s in seen if not rows(s))
    [cut_off] = observations_of(real, "FlightSearch[Tucson, Oakland, 2022-03-16]")
    assert cut_off.text.endswith("Known of Tucson to Oakland: 2022-03-17 (none).")


@pytest.mark.slow
def test_a_road_is_long_or_not_in_the_data_and_never_the_one_for_the_other(world: TravelPlanner):
    data, known_cities = world.sandbox, set[str]()
    for origin, destination in list(permutations(data.cities(), 2))[:600]:
        road = data.distance(origin, destination)
        if road and road.distance and "day" not in road.duration:
            continue
        long = bool(road and "day" in road.duration)
        [seen] = observations_of(world, f"GoogleDistanceMatrix[{origin}, {destination}, taxi]")
        says = f"No taxi goes from {origin} to {destination} within a day."
        assert seen.text == (says if long else f"Not in the data: the road from {origin} to {destination}.")
        assert seen.data.get("known", True) is long
        known_cities.add(seen.text.partition(" ")[0])
    assert known_cities


# --- what is refused


@pytest.mark.parametrize(
    ("call", "form"),
    [
        ("FlightSearch[{0}, {1}]", "FlightSearch[City, City, Date]"),
        ("FlightSearch[{0}, {1}, March 15th, 2022]", "FlightSearch[City, City, Date]"),
        ("CitySearch[]", "CitySearch[State]"),
        ("AccommodationSearch[{0}, {1}]", "AccommodationSearch[City]"),
        ("GoogleDistanceMatrix[{0}, , taxi]", "GoogleDistanceMatrix[City, City, Mode]"),
        ("NotebookWrite[  ]", "NotebookWrite[Content]"),
        ("FlightSearch[{0}, {1}, March 15th]", "'March 15th'"),
        ("FlightSearch[{0}, {1}, 2022-02-30]", "'2022-02-30'"),
        ("GoogleDistanceMatrix[{0}, {1}, train]", "'train'"),
        ("HotelSearch[{0}]", "'HotelSearch[{0}]'"),
        ("MakePlan[a nice trip]", "deliver[PLAN]"),
        ("look around", "'look around'"),
    ],
)
def test_a_wrong_call_is_refused_with_the_right_form(generated: TravelPlanner, call: str, form: str):
    cities = generated.sandbox.cities()
    fresh = generated.open(generated.tasks()[0])
    before = (fresh.reset(), fresh.view())
    seen = fresh.step(Action(text=call.format(*cities)))
    assert (seen.accepted, seen.done) == (False, False)
    assert form.format(*cities) in seen.text
    assert fresh.view() == before[1]


@pytest.mark.parametrize("tool", [tool for tool, values in FORMS.items() if values != ("Content",)])
def test_an_unknown_place_is_refused_with_names_near_it(world: TravelPlanner, tool: str):
    city = world.sandbox.cities()[0]
    name = str(world.sandbox.state_of(city)) if FORMS[tool] == ("State",) else city
    rest = [city, "taxi" if FORMS[tool][-1] == "Mode" else "2022-03-01"][: len(FORMS[tool]) - 1]
    near, far = observations_of(world, *(f"{tool}[{', '.join([text, *rest])}]" for text in (f"{name}x", "Qqqqq")))
    assert not near.accepted and not far.accepted
    assert f"near it are {name}" in near.text
    assert "are known, for example" in far.text


def test_a_state_is_not_a_city_and_a_city_no_state(real: TravelPlanner):
    calls = ("RestaurantSearch[Arizona]", "CitySearch[tucson]", "CitySearch[New York]")
    assert [seen.accepted for seen in observations_of(real, *calls)] == [False, False, True]


def test_submissions_of_the_other_configurations_are_not_accepted_here(generated: TravelPlanner):
    seen = observations_of(generated, Action(text=COST, kind=COST, args={"plan": "[]"}), Action(text="a", kind="book"))
    assert not any(s.accepted for s in seen)


# --- the notebook, and orders


def test_the_notebook_is_numbered_and_emptied_by_a_reset(generated: TravelPlanner):
    fresh = generated.open(generated.tasks()[0])
    fresh.reset()
    answers = [fresh.step(Action(text=f"{WRITE}[{note}]")) for note in ("day 1: a, b", "day 2:\nc]")]
    assert fresh.view() == "1. day 1: a, b\n2. day 2:\nc]"
    assert len({answer.digest() for answer in answers}) == 1, "an answer must not tell what was noted before"
    fresh.reset()
    assert fresh.view() == "(none)"


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_copies_of_the_world_give_the_same_answers_in_any_order(generated: TravelPlanner, data: st.DataObject):
    cities = generated.sandbox.cities()
    one, other = data.draw(st.sampled_from(cities)), data.draw(st.sampled_from(cities))
    calls = [
        *(f"FlightSearch[{one}, {other}, 2022-03-{day:02}]" for day in (5, 6)),
        *(f"GoogleDistanceMatrix[{one}, {other}, {mode}]" for mode in MODES),
        *(f"{tool}[{city}]" for tool in ("AccommodationSearch", "RestaurantSearch") for city in (one, other)),
        f"CitySearch[{generated.sandbox.state_of(one)}]",
        "CitySearch[nowhere]",
        *(f"{WRITE}[{city}]" for city in (one, other)),
    ]
    mixed = data.draw(st.permutations(calls))
    straight = dict(zip(calls, observations_of(generated, *calls), strict=True)) if one != other else {}
    if straight:
        assert straight == dict(zip(mixed, observations_of(generated, *mixed), strict=True))


# --- delivering


def gold(benchmark: TravelPlanner, **change: str) -> str:
    found = build_gold_itinerary(benchmark, benchmark.query(benchmark.tasks()[0]))
    plan = found.draft.plan(found.trip)
    return json.dumps([{**plan[0], **change}, *plan[1:]])


def test_a_delivered_plan_ends_the_episode_and_is_scored_officially(world: TravelPlanner):
    for action in (
        Action(text=DELIVER, kind=DELIVER, args={"plan": gold(world)}),
        Action(text=f"deliver[{gold(world)}]"),
    ):
        fresh = world.open(world.tasks()[0])
        fresh.reset()
        assert fresh.score().answer is None
        seen = fresh.step(action)
        assert (seen.accepted, seen.done, seen.solved) == (True, True, True)
        assert (fresh.score().value, fresh.score().parts["malformed"]) == (1.0, 0.0)


def test_a_plan_that_breaks_a_rule_does_not_pass(generated: TravelPlanner):
    fresh = generated.open(generated.tasks()[0])
    fresh.reset()
    wrong = gold(generated, transportation="Self-driving, from Nowhere to Elsewhere")
    seen = fresh.step(Action(text=DELIVER, kind=DELIVER, args={"plan": wrong}))
    assert (seen.done, seen.solved, fresh.score().value) == (True, False, 0.0)
    fresh.reset()
    seen = fresh.step(Action(text=DELIVER, kind=DELIVER, args={}))
    assert (seen.done, seen.accepted, fresh.score().answer) == (True, False, None)


# --- the configuration, and its figures


@pytest.mark.slow
def test_the_configuration_says_what_it_is(generated: TravelPlanner, folder: Path):
    assert generated.limits is usual_limits("travelplanner:tools")
    assert (generated.limits.steps, generated.tools, generated.delivers) == (50, TOOLS, True)
    assert all(f"{tool}" in generated.briefing for tool in TOOLS)
    assert generated.open(generated.tasks()[0]).concurrent
    plain = TravelPlanner(folder)
    assert (plain.delivers, plain.briefing, plain.open(plain.tasks()[0]).concurrent) == (False, "", False)
    with pytest.raises(UnknownName, match=r"known: paper, .*tools"):
        TravelPlanner(folder, "tool")


RATES = ("delivery", "commonsense_micro", "commonsense_macro", "hard_micro", "hard_macro", "final_pass")

PUBLISHED: list[tuple[tuple[float, ...], int]] = [
    ((100, 60.52, 0.83, 15, 2.50, 0), 30),
    ((91, 61.12, 1.67, 10, 3.33, 0.83), 28),
    ((82.50, 55.18, 0.83, 10, 3.33, 0.83), 25),
    ((96.67, 60.12, 0.83, 32.50, 10.83, 0.83), 34),
    ((95.83, 53.80, 0, 15, 5, 0), 28),
    ((75.83, 58.24, 1.67, 10, 3.33, 1.67), 25),
    ((59.17, 62.32, 4.17, 20, 6.67, 2.50), 26),
    ((94.17, 59.29, 0, 20, 6.67, 0), 30),
]
"""The six rates and Avg of every row of TDP's table 1, in percent."""


@pytest.mark.parametrize(("rates", "published"), PUBLISHED)
def test_the_average_is_the_papers(rates: tuple[float, ...], published: int):
    assert round(average_rate({"n": 120, **dict(zip(RATES, rates, strict=True))})) == published


@pytest.mark.parametrize("config", ["", "tools"])
def test_the_average_is_given_in_every_configuration(folder: Path, config: str):
    benchmark: Any = TravelPlanner(folder, config)
    fresh = benchmark.open(benchmark.tasks()[0])
    fresh.reset()
    fresh.step(Action(text=DELIVER, kind=DELIVER, args={"plan": gold(benchmark)}))
    delivered = Footer(ending="goal", scores=fresh.score(), usage=Usage(node="all"))
    lost = Footer(ending="limit:steps", usage=Usage(node="all"))
    figures = benchmark.figures([(benchmark.tasks()[0].id, delivered), (benchmark.tasks()[1].id, lost)])
    assert figures["average"] == pytest.approx(sum(figures[rate] for rate in RATES) / 6)
    assert 0.4 < figures["average"] < 0.6


# Agents with TravelPlanner's tools: what prompts hold, MakePlan's one more call, the expert in every graph.

GRAPHS = ("react", "cot", "plan_and_act", "tdp")
"""Of three, five and seven days; easy, medium and hard; 178 takes the most calls."""

FORMS_AGENTS = {
    "nodes": {"nodes": {}},
    "steps": {"steps": {}},
    "status": {"reason": {}, "status": {}, "off_plan": {}, "guidance": {}, "result": {}},
    "change": {"reason": {}, "change": {}, "add": {}, "remove": {}},
    "tool": {"thought": {}, "tool": {}, "text": {}},
}


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TravelPlanner]:
    made = tmp_path_factory.mktemp("travelplanner")
    generate_world(made, seed=3, cities=16, tasks=6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(made / "cache"))
        yield TravelPlanner(made, "tools")


class ScriptedModel:
    """Answers with a move and, asked for prose, with a plan; keeps the prompts."""

    def __init__(self, tool: str = MAKE_PLAN, text: str = "my request") -> None:
        self.move = {"thought": "so be it", "tool": tool, "text": text}
        self.plan = "[a plan]"
        self.prompts: list[str] = []

    def __call__(self, prompt: str, form: dict[str, Any]) -> Any:
        self.prompts.append(prompt)
        return self.plan if form == TEXT_SCHEMA else self.move


def decided(
    benchmark: TravelPlanner,
    scripted_model: ScriptedModel,
    *,
    slot: str = "decide",
    window: int = 0,
    **given: Any,
) -> dict[str, Any]:
    """What an operator returns to a view; `given` changes parts of the view, `window` is that of the model."""
    view: DecideView = {
        "task": benchmark.tasks()[0],
        "assignment": "the assignment",
        "steps": 3,
        "turns": (),
        "evidence": Evidence(view="1. a note"),
        "advice": (),
        "belief": Belief(),
    }
    chat = ScriptedChat(responder=scripted_model, profile={"max_input_tokens": window} if window else None)
    runtime = Runtime(context=Context(benchmark=benchmark, chat=chat))
    return asyncio.run(benchmark.operators()[slot]({**view, **given}, runtime))


def turns(count: int, size: int = 5) -> list[Turn]:
    return [Turn(thought=f"thought {n}", action=f"look {n}", observation=f"CANARY{n} " * size) for n in range(count)]


# --- the operators


@pytest.mark.parametrize("slot", ["decide", "execute"])
@pytest.mark.parametrize("tool", [tool for tool in TOOLS if tool != MAKE_PLAN])
def test_a_tool_is_called_as_the_model_says(benchmark: TravelPlanner, tool: str, slot: str):
    scripted_model = ScriptedModel(tool, " first line\nsecond </world> line ")
    update = decided(benchmark, scripted_model, slot=slot)
    assert update["thought"] == "so be it"
    assert update["action"].kind == tool
    assert update["action"].args == {"query": "first line\nsecond   line"}
    assert update["action"].text == f"{tool}[first line second line]"
    assert len(scripted_model.prompts) == 1


@pytest.mark.parametrize("tool", [WRITE, MAKE_PLAN])
def test_what_a_model_writes_is_kept_whole(benchmark: TravelPlanner, tool: str):
    scripted_model = ScriptedModel(tool, "x" * 5_000)
    scripted_model.move["thought"] = "y" * 500
    scripted_model.plan = "z" * 9_000
    update = decided(benchmark, scripted_model)
    written = "x" * 5_000 if tool == WRITE else "z" * 9_000
    assert update["thought"] == "y" * 500
    assert list(update["action"].args.values()) == [written]
    assert written in update["action"].text
    assert tool == WRITE or "x" * 5_000 in scripted_model.prompts[1]


def test_make_plan_asks_once_more_and_hands_in_what_comes_back(benchmark: TravelPlanner):
    scripted_model = ScriptedModel()
    update = decided(
        benchmark, scripted_model, turns=turns(3), advice=["the advice"], belief=Belief(notes=("the belief",))
    )
    assert (update["action"].kind, update["action"].args) == (DELIVER, {"plan": "[a plan]"})
    first, second = scripted_model.prompts
    shown = ("the advice", "the belief", "1. a note", "the assignment", "CANARY0", "CANARY2", "look 1", "thought 1")
    assert all(text in first for text in shown)
    query = benchmark.query(benchmark.tasks()[0]).query
    assert all(text in second for text in (*shown, "my request", '"current_city"', query))


@pytest.mark.parametrize("tool", ["CitySearch", MAKE_PLAN])
def test_what_does_not_fit_into_the_window_is_left_out_oldest_first(benchmark: TravelPlanner, tool: str):
    scripted_model = ScriptedModel(tool, "Texas")
    with metering(Meter("decide", Budget())) as meter:
        decided(benchmark, scripted_model, turns=turns(60, size=200), window=20_000)
    for prompt in scripted_model.prompts:
        assert estimate_tokens(prompt) <= 15_000
        assert "CANARY59" in prompt and "CANARY0 " not in prompt
    assert len(meter.records) == len(scripted_model.prompts)
    assert all("oldest" in call.cut[0] for call in meter.records)


@pytest.mark.parametrize("tool", ["CitySearch", MAKE_PLAN])
def test_prompts_fit_a_small_window_however_long_the_notebook_is(benchmark: TravelPlanner, tool: str):
    scripted_model = ScriptedModel(tool, "Texas")
    given: Any = {
        "turns": turns(40, size=100),
        "evidence": Evidence(view="first note " + "word " * 4_000 + "last note"),
    }
    decided(benchmark, scripted_model, window=4_096, **given)
    for prompt in scripted_model.prompts:
        assert estimate_tokens(prompt) <= 3_100
        assert "last note" in prompt or "CANARY39" in prompt


def test_the_last_advice_is_shown_in_a_small_window_however_much_there_is(benchmark: TravelPlanner):
    scripted_model = ScriptedModel("CitySearch", "Texas")
    decided(benchmark, scripted_model, window=4_096, advice=[*["outcome " * 50] * 9, "Now: write it down"])
    assert "Now: write it down" in scripted_model.prompts[0]


# --- the expert's answers


def made(benchmark: TravelPlanner, task_id: str) -> list[GoldSubtask]:
    return gold_subtasks(build_gold_itinerary(benchmark, benchmark.query(benchmark.task(task_id))))


def answered(
    benchmark: TravelPlanner, form: str, *, goal: str = "", history: Sequence[Step] = (), task: str = "3"
) -> Any:
    """The expert's answer in a run of a query, or of the sub-task that `goal` specifies."""
    found = benchmark.task(task)
    state = {"task": found.model_copy(update={"goal": goal or found.goal}), "history": history}
    with use_situation(Situation("any", 1, state)):
        expert = benchmark.expert()
        assert expert
        return expert("?", {"type": "object", "properties": FORMS_AGENTS[form]})


def steps(calls: Sequence[ToolUse]) -> list[Step]:
    return [Step(action=create_tool_action(*call), digest="") for call in calls]


@pytest.mark.slow
def test_the_expert_decomposes_into_a_graph_with_one_end(benchmark: TravelPlanner):
    for task in benchmark.tasks():
        nodes = answered(benchmark, "nodes", task=task.id)["nodes"]
        several = len(benchmark.trip(benchmark.query(task)).cities) > 1
        inner = ["transport", "stay", "meals", "sights"]
        assert [node["id"] for node in nodes] == [*["cities"][: int(several)], *inner, "plan"]
        assert all(node["needs"] == ["cities"][: int(several)] for node in nodes if node["id"] in inner)
        assert set(nodes[-1]["needs"]) == {node["id"] for node in nodes[:-1]}
        assert all(len(node["task"]) <= 300 for node in nodes)
        query = benchmark.query(task)
        party = "one person" if query.people_number == 1 else f"{query.people_number} people"
        assert party in nodes[-5]["task"] and all(date in nodes[-5]["task"] for date in (query.date[0], query.date[-1]))


@pytest.mark.slow
def test_a_subtask_is_known_by_its_specification_and_worked_off_after_its_predecessors(benchmark: TravelPlanner):
    before: list[Step] = []
    for node, errand in zip(answered(benchmark, "nodes")["nodes"], made(benchmark, "3"), strict=True):
        for number, call in enumerate(errand.calls):
            history = [*before, *steps(errand.calls[:number])]
            here: dict[str, Any] = {"goal": f"{node['task']} A fact was added.", "history": history}
            move, judged = answered(benchmark, "tool", **here), answered(benchmark, "status", **here)
            assert (move["tool"], move["text"]) == call
            assert judged["status"] == "needs_more_steps"
            assert len(answered(benchmark, "steps", **here)["steps"]) == len(errand.calls) - number
        before += steps(errand.calls)
        judged = answered(benchmark, "status", goal=node["task"], history=before)
        assert (judged["status"], judged["off_plan"]) == ("completed", False)
        assert bool(judged["result"]) == (errand.id != "plan")
    assert answered(benchmark, "change") == answered(benchmark, "change") | {"change": [], "add": [], "remove": []}


@pytest.mark.slow
def test_the_experts_plan_has_what_is_noted_and_no_more(benchmark: TravelPlanner):
    gold = build_gold_itinerary(benchmark, benchmark.query(benchmark.task("3")))
    days = gold.draft.plan(gold.trip)
    expert, notes = benchmark.expert(), " ".join(str(value) for value in days[0].values())
    with use_situation(Situation("any", 1, {"task": benchmark.task("3"), "history": ()}, {"notes": notes})):
        assert expert
        first, *others = json.loads(expert("", TEXT_SCHEMA))
    assert first == days[0]
    assert all(day[meal] == "-" for day in others for meal in ("breakfast", "lunch", "dinner"))
    assert [day["current_city"] for day in others] == [day["current_city"] for day in days[1:]]


def test_what_is_not_of_the_errand_throws_nobody_off():
    calls = (ToolUse("CitySearch", "Texas"), ToolUse(WRITE, "a"))
    other = Step(action=Action(text="look around"), digest="")
    assert remaining_calls(calls, [other, *steps(calls[1:]), *steps(calls[:1]), other]) == calls[1:]
    assert remaining_calls(calls, [*steps(calls), *steps(calls)]) == ()


# --- the expert in the graphs


def ran(graph: str, benchmark: TravelPlanner, task_id: str, out: Path) -> Result:
    return run(graph, benchmark, task_id, context=Context(model="scripted:expert"), out=out)


def notebook(result: Result) -> str:
    written = [step.action.args["query"] for step in result.state["history"] if step.action.kind == WRITE]
    return "\n".join(map(str, written))


@pytest.mark.slow
def test_react_delivers_a_plan_that_passes_and_stands_in_its_notebook(benchmark: TravelPlanner, tmp_path: Path):
    for task in benchmark.tasks():
        result = ran("react", benchmark, task.id, tmp_path)
        assert (result.ending, result.scores and result.scores.value) == ("goal", 1.0)
        assert len(result.state["history"]) <= benchmark.limits.steps
        days = json.loads(result.state["action"].args["plan"])
        entries = {day[key] for day in days for key in ("transportation", "dinner", "attraction", "accommodation")}
        assert all(entry.replace("\n", "\\n") in notebook(result) for entry in entries - {"-"})


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["react", "plan_and_act", "tdp"])
def test_the_plan_is_written_with_every_answer_in_sight(benchmark: TravelPlanner, tmp_path: Path, graph: str):
    """In TDP other sub-tasks looked things up, whose turns the agent that makes the plan does not see."""
    expert, requests = benchmark.expert(), list[str]()

    def recording(prompt: str, form: dict[str, Any]) -> Any:
        requests.extend([prompt] if form == TEXT_SCHEMA else [])
        assert expert
        return expert(prompt, form)

    task = benchmark.tasks()[0]
    result = run(graph, benchmark, task, context=Context(chat=ScriptedChat(responder=recording)), out=tmp_path)
    assert (result.ending, result.scores and result.scores.value) == ("goal", 1.0)
    [request] = requests
    query = benchmark.query(task)
    for city in benchmark.trip(query).cities:
        places = [*benchmark.sandbox.restaurants(city), *benchmark.sandbox.accommodations(city)]
        assert all(place.name.replace("\n", "\\n") in request for place in places)
    assert query.query in request


def test_the_records_have_no_text_that_an_agent_could_read(generated: TravelPlanner):
    assert "tool records" not in generated.briefing
    assert "tool records" not in [tool.lower() for tool in TOOLS]
    seen = observations_of(
        generated, f"CitySearch[{generated.sandbox.state_of(generated.sandbox.cities()[0])}]", "tool records"
    )
    assert seen[1].text == ""
    assert list(seen[1].data["tool records"].values()) == [seen[0].text]  # type: ignore[union-attr]


def test_where_nothing_is_affordable_something_is_delivered_all_the_same(benchmark: TravelPlanner):
    query = benchmark.query(benchmark.tasks()[0]).model_copy(update={"budget": 60})
    found = build_gold_itinerary(benchmark, query)
    assert len(found.draft.plan(found.trip)) == query.days
    assert gold_subtasks(found)[-1].calls[0].tool == MAKE_PLAN


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("graph", GRAPHS)
def test_all_real_queries_are_planned_with_tools(tmp_path: Path, graph: str, real: TravelPlanner):
    share = real.tasks()[list(GRAPHS).index(graph) :: len(GRAPHS)]  # each query by one of the graphs
    results = [ran(graph, real, task.id, tmp_path) for task in share]
    assert len(real.tasks()) == 120
    assert {result.scores and result.scores.value for result in results} == {1.0}
    assert max(len(result.state["history"]) for result in results) <= 30
