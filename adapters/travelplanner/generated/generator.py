"""A seeded TravelPlanner world of any size in the official layout, with feasible queries of known cheapest cost."""

import csv
import json
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from certigraph.adapters.travelplanner.data.store import Store, fill, write_store
from certigraph.adapters.travelplanner.generated.tasks import GeneratedTask, draw_tasks
from certigraph.adapters.travelplanner.generated.world import World, draw_world

_FLIGHTS_PER_PAIR = 30


def generate_world(folder: Path, seed: int = 0, cities: int = 24, tasks: int = 36) -> None:
    """Write a world: `database/` (official tables), `validation.jsonl` (queries) and `cheapest.json`.

    cheapest.json maps a query's idx to the exact cheapest costs of its reference route, in dollars: `every_day` with
    three meals on every day (the budget is this times a slack, which is 1 for every fourth query), `stay_days` with
    meals left out on travel days. Equal arguments give equal bytes.

    Raises:
        ValueError: fewer than 8 cities, or too many for the stock of names.
    """
    world = draw_world(seed, cities, flights=_FLIGHTS_PER_PAIR * cities * (cities - 1))
    world = world._replace(flights=list(world.flights))
    _write_database(folder / "database", world)
    _write_tasks(folder, _draw_tasks(seed, world, tasks))


def generate_store(path: Path, seed: int = 0, cities: int = 300, flights: int = 3_800_000) -> None:
    """Write a world without queries straight into an SQLite file for `load_store`."""
    write_store(path, draw_world(seed, cities, flights).tables())


def _draw_tasks(seed: int, world: World, count: int) -> list[GeneratedTask]:
    sights = {city: list(rows) for city, rows in groupby(world.sights, attrgetter("city"))}
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        fill(connection, world.tables())
        return list(draw_tasks(seed, Store(connection), sights, count))


def _write_tasks(folder: Path, tasks: Sequence[GeneratedTask]) -> None:
    lines = (json.dumps(task.query) + "\n" for task in tasks)
    (folder / "validation.jsonl").write_text("".join(lines), encoding="utf-8")
    costs = {task.query["idx"]: {"every_day": task.every_day, "stay_days": task.stay_days} for task in tasks}
    (folder / "cheapest.json").write_text(json.dumps(costs, indent=1) + "\n", encoding="utf-8")


def _write_database(folder: Path, world: World) -> None:
    _write_csv(
        folder / "restaurants" / "clean_restaurant_2022.csv",
        "/Name/City/Cuisines/Average Cost/Aggregate Rating",
        ((number, *row) for number, row in enumerate(world.restaurants)),
    )
    _write_csv(
        folder / "accommodations" / "clean_accommodations_2022.csv",
        "/NAME/city/room type/price/minimum nights/review rate number/house_rules/maximum occupancy",
        ((number, *row) for number, row in enumerate(world.accommodations)),
    )
    _write_csv(
        folder / "attractions" / "attractions.csv",
        "Name/Latitude/Longitude/Address/Phone/Website/City",
        world.sights,
    )
    _write_csv(
        folder / "flights" / "clean_Flights_2022.csv",
        "Flight Number/Price/DepTime/ArrTime/ActualElapsedTime/FlightDate/OriginCityName/DestCityName/Distance",
        (row._replace(price=int(row.price)) for row in world.flights),
    )
    _write_csv(
        folder / "googleDistanceMatrix" / "distance.csv",
        "origin/destination/cost/duration/distance",
        ((row.origin, row.destination, "", row.duration, row.distance) for row in world.roads),
    )
    towns = folder / "background" / "citySet_with_states.txt"
    towns.parent.mkdir(parents=True, exist_ok=True)
    towns.write_text("\n".join("\t".join(town) for town in world.towns), encoding="utf-8")


def _write_csv(path: Path, columns: str, rows: Iterable[Iterable[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns.split("/"))
        writer.writerows(rows)
