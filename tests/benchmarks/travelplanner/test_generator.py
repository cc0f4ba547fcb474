"""Generated worlds read back like official ones, and their cheapest costs agree with trying everything."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain, combinations, permutations, product
from pathlib import Path
from typing import Any

import pytest
from helpers.worlds.travelplanner_sandbox import TableSandbox, lodging, restaurant, sandbox
from hypothesis import given, settings
from hypothesis import strategies as st

from certigraph.benchmarks.travelplanner.generator import generate_world
from certigraph.benchmarks.travelplanner.options import Trip, TripCatalog, TripLeg, trip_of
from certigraph.benchmarks.travelplanner.planning import cheapest_cost
from certigraph.benchmarks.travelplanner.queries import LocalConstraint, Transportation, TravelQuery
from certigraph.benchmarks.travelplanner.sandbox import (
    Accommodation,
    Distance,
    Flight,
    Restaurant,
    SandboxStore,
    open_store,
)

World = tuple[SandboxStore, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    folder = tmp_path_factory.mktemp("world")
    generate_world(folder, seed=3, cities=16, tasks=36)
    queries = [json.loads(line) for line in (folder / "validation.jsonl").read_text().splitlines()]
    return open_store(folder / "database", folder / "cache"), queries


def content(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_equal_seeds_give_equal_bytes(tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("again", 1), ("other", 2)):
        generate_world(tmp_path / name, seed=seed, cities=8, tasks=9)
    one, again, other = (content(tmp_path / name) for name in ("one", "again", "other"))
    assert one == again
    assert one.keys() == other.keys()
    assert all(one[path] != other[path] for path in one)
    assert all(text.isascii() for text in one.values())


@pytest.mark.slow
def test_queries_are_stratified_and_in_the_official_schema(world: World) -> None:
    _, queries = world
    assert [query["idx"] for query in queries] == list(range(1, 37))
    assert set(Counter((query["days"], query["level"]) for query in queries).values()) == {4}
    for query in queries:
        wishes = query["local_constraint"]
        assert list(wishes) == ["house rule", "cuisine", "room type", "transportation"]
        assert sum(wish is not None for wish in wishes.values()) == {"easy": 0, "medium": 1, "hard": 3}[query["level"]]
        assert len(query["date"]) == query["days"] == 2 * query["visiting_city_number"] + 1
        assert len(query["reference_information"]) == {3: 9, 5: 15, 7: 21}[query["days"]]
        values = [query["org"], query["dest"], f"${query['budget']:,}", *(wishes["cuisine"] or ())]
        assert all(part in query["query"] for part in values)


def route(query: dict[str, Any]) -> list[str]:
    """The visited cities, as the reference information names them."""
    titles = [item["Description"] for item in query["reference_information"]]
    return [title.removeprefix("Attractions in ") for title in titles if title.startswith("Attractions in ")]


def catalog_of(store: SandboxStore, line: dict[str, Any], cities: Sequence[str] | None = None) -> TripCatalog:
    query = TravelQuery.model_validate(line)
    return TripCatalog(query.people_number, query.local_constraint, trip_of(query, cities), store)


@pytest.mark.slow
def test_every_query_is_affordable_and_every_fourth_just_so(world: World) -> None:
    store, queries = world
    tight = 0
    for query in queries:
        catalog = catalog_of(store, query)
        assert catalog.trip.cities == tuple(route(query))
        every_day, stay_days = (cheapest_cost(catalog, every_meal=every) for every in (True, False))
        assert every_day is not None
        assert stay_days is not None
        assert stay_days <= every_day <= query["budget"]
        tight += query["budget"] == every_day
    assert tight >= len(queries) // 4


@pytest.mark.slow
def test_no_route_in_the_destination_is_cheaper(world: World) -> None:
    store, queries = world
    for query in queries[1:12:3]:
        within = [city for city in store.cities() if store.state_of(city) == query["dest"]]
        routes = permutations(within, 2)
        found = [cheapest_cost(catalog_of(store, query, cities), every_meal=True) for cities in routes]
        cost = cheapest_cost(catalog_of(store, query), every_meal=True)
        assert min(other for other in found if other is not None) == cost


@pytest.mark.slow
def test_the_reference_lists_every_row_of_its_tables(world: World) -> None:
    store, queries = world
    for query in queries:
        text = {item["Description"]: item["Content"] for item in query["reference_information"]}
        for city in route(query):
            for kind in ("attractions", "restaurants", "accommodations"):
                rows, table = getattr(store, kind)(city), text[f"{kind.capitalize()} in {city}"].split("\n")[1:]
                assert len(rows) == len(table)
                assert all(line.startswith(row.name) for row, line in zip(rows, table, strict=True))
        for leg in catalog_of(store, query).trip.legs:
            flights = text[f"Flight from {leg.origin} to {leg.destination} on {leg.date}"]
            rows = store.flights(leg.origin, leg.destination, leg.date)
            assert all(row.number in flights for row in rows)
            assert flights.startswith("There is no flight") == (not rows)


def test_names_can_be_written_in_a_plan_and_matched_again(world: World) -> None:
    store, _ = world
    for city in store.cities():
        assert len(store.attractions(city)) >= 4
        for rows in (store.restaurants(city), store.accommodations(city), store.attractions(city)):
            names = [row.name for row in rows]
            assert not [(a, b) for a, b in permutations(names, 2) if a in b]
            assert not [name for name in names if ";" in name or name != name.strip()]
    assert not set("(),;") & set("".join(store.cities()))


def test_a_world_too_small_or_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cities=8"):
        generate_world(tmp_path, cities=7)
    with pytest.raises(ValueError, match="577 names wanted"):
        generate_world(tmp_path, cities=577)


CUISINES = ("French", "Indian", "Mexican")
ROADS = (Distance("2 hours", "61 km"), Distance("5 hours", "1,009 km"), Distance("1 hour", "99.9 km"))
NO_ROADS = (None, Distance("", ""), Distance("5 hours", ""), Distance("1 day 2 hours", "2,900 km"))
HOUSE_RULES = ("No pets", "No parties & No smoking", "No visitors")
ROOM_TYPES = {"entire room": "Entire home/apt", "private room": "Private room", "shared room": "Shared room"}
FREE: dict[str, Any] = {
    "restaurants": [restaurant(name, city, 0, "") for city in "AB" for name in "123456789"],
    "accommodations": [lodging("1", city, 0) for city in "AB"],
    "attractions": [],
    "distances": [(*pair, Distance("9 mins", "9 km")) for pair in ("OA", "AB", "BO")],
}
"""Tables with which a trip from O to A and B costs nothing, so that a test can put a price on one part of it."""


parties = st.integers(1, 8)


def finite(cost: float) -> float | None:
    return cost if cost < math.inf else None


@st.composite
def trips(draw: st.DrawFn) -> Trip:
    """Once round O, A and B, with one or two nights in each."""
    second = 1 + draw(st.integers(1, 2))
    third = second + draw(st.integers(1, 2))
    return Trip("O", ("A", "B"), tuple(f"2022-03-0{day + 1}" for day in range(third)), (1, second, third))


def nights(trip: Trip) -> dict[str, int]:
    _, second, third = trip.travel_days
    return {"A": second - 1, "B": third - second}


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(parties, trips(), st.sampled_from((None, "no flight", "no self-driving")), st.data())
def test_the_cheapest_transport_is_that_of_trying_everything(
    people: int, trip: Trip, banned: Transportation | None, data: st.DataObject
) -> None:
    drawn = {(leg.origin, leg.destination): data.draw(st.sampled_from(ROADS * 5 + NO_ROADS)) for leg in trip.legs}
    prices = data.draw(st.lists(st.tuples(st.sampled_from(trip.legs), st.integers(5, 300)), max_size=6))
    flights = [
        Flight(f"F{i}", float(price), "", "", "", leg.date, leg.origin, leg.destination, 1.0)
        for i, (leg, price) in enumerate(prices)
    ]
    roads = [(*pair, road) for pair, road in drawn.items() if road]
    tables = sandbox("AB", **{**FREE, "flights": flights, "distances": roads})
    catalog = TripCatalog(people, LocalConstraint(transportation=banned), trip, tables)
    assert cheapest_cost(catalog, every_meal=True) == finite(try_all_transports(tables, trip, people, banned))


def try_all_transports(tables: TableSandbox, trip: Trip, people: int, banned: str | None) -> float:
    best = math.inf
    for choice in product(*(transports(tables, leg, people) for leg in trip.legs)):
        kinds = {kind for kind, _ in choice}
        if banned not in kinds and not ("no self-driving" in kinds and len(kinds) > 1):
            best = min(best, sum(cost for _, cost in choice))
    return best


def transports(tables: TableSandbox, leg: TripLeg, people: int) -> list[tuple[str, float]]:
    """Each way to travel with its cost, called by the wish that rules it out."""
    found = [("no flight", row.price * people) for row in tables.flights(leg.origin, leg.destination, leg.date)]
    road = tables.distance(leg.origin, leg.destination)
    if road and road.distance and "day" not in road.duration:
        length = float(road.distance.split()[0].replace(",", ""))
        cars, taxis = -(-people // 5), -(-people // 4)
        found += [("no self-driving", int(length * 0.05) * cars), ("no taxi", int(length) * taxis)]
    return found


names = st.text("xy", min_size=1, max_size=2)
rooms = st.builds(
    Accommodation,
    name=names,
    city=st.just("B"),
    room_type=st.sampled_from(list(ROOM_TYPES.values())),
    price=st.integers(50, 99).map(float),
    minimum_nights=st.sampled_from((1.0, 2.0)),
    rating=st.just(4.0),
    house_rules=st.sampled_from(HOUSE_RULES),
    maximum_occupancy=st.integers(1, 5),
)
room_wishes = st.builds(
    LocalConstraint,
    house_rule=st.sampled_from((None, "pets", "smoking")),
    cuisine=st.none(),
    room_type=st.sampled_from((None, "not shared room", *ROOM_TYPES)),
    transportation=st.none(),
)


@pytest.mark.slow
@settings(deadline=None, max_examples=300)
@given(parties, trips(), room_wishes, st.lists(rooms, max_size=5))
def test_the_cheapest_room_is_that_of_trying_everything(
    people: int, trip: Trip, wishes: LocalConstraint, rows: list[Accommodation]
) -> None:
    best = math.inf
    for written in {row.name for row in rows}:
        row = next(row for row in rows if written in row.name)
        refused = wishes.house_rule is not None and f"No {wishes.house_rule}" in row.house_rules
        wrong = wishes.room_type in ROOM_TYPES and ROOM_TYPES[wishes.room_type] != row.room_type
        shared = wishes.room_type == "not shared room" and row.room_type == "Shared room"
        if not (refused or wrong or shared or row.minimum_nights > nights(trip)["B"]):
            best = min(best, nights(trip)["B"] * row.price * -(-people // row.maximum_occupancy))
    listing = lodging("1", "A", 0, room_type=ROOM_TYPES.get(str(wishes.room_type), "Private room"), house_rules="")
    catalog = TripCatalog(people, wishes, trip, sandbox("AB", **{**FREE, "accommodations": [listing, *rows]}))
    assert cheapest_cost(catalog, every_meal=True) == finite(best)


dishes = st.lists(st.sampled_from((*CUISINES, "Tea")), min_size=1, max_size=3).map(", ".join)
meals = st.builds(Restaurant, names, st.just("A"), dishes, st.integers(1, 40), st.just(4.0))
TESTED_CUISINES = ((), CUISINES[:1], CUISINES[1:], CUISINES)


@settings(deadline=None, max_examples=300)
@given(trips(), st.sampled_from(TESTED_CUISINES), st.lists(meals, max_size=8), st.booleans(), st.data())
@pytest.mark.slow
def test_the_cheapest_meals_are_those_of_trying_everything(
    trip: Trip, cuisines: tuple[str, ...], rows: list[Restaurant], every_meal: bool, data: st.DataObject
) -> None:
    people = data.draw(parties)
    others = [Restaurant(f"1{i}", "B", data.draw(dishes), data.draw(st.integers(0, 40)), 4.0) for i in range(9)]
    tables = sandbox("AB", **{**FREE, "restaurants": [*rows, *others]})
    best = math.inf
    for menu in product(menus(rows, nights(trip)["A"], 3, every_meal), menus(others, nights(trip)["B"], 6, every_meal)):
        served = ", ".join(row.cuisines for row in chain(*menu))
        if all(cuisine in served for cuisine in cuisines):
            best = min(best, people * sum(row.cost for row in chain(*menu)))
    catalog = TripCatalog(people, LocalConstraint(cuisine=cuisines), trip, tables)
    assert cheapest_cost(catalog, every_meal=every_meal) == finite(best)


def menus(
    rows: Sequence[Restaurant], nights: int, on_travel_days: int, every_meal: bool
) -> list[tuple[Restaurant, ...]]:
    """Every choice of restaurants for a stay, as they are charged."""
    charged = [next(row for row in rows if name in row.name) for name in {row.name for row in rows}]
    least = 3 * (nights - 1)
    most = least + on_travel_days
    return [menu for size in range(most if every_meal else least, most + 1) for menu in combinations(charged, size)]
