"""The database: rows as the official loader keeps them, faults that name their line, and a size it must bear."""

import csv
import gzip
import os
import random
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from certigraph.benchmarks.travelplanner.generator import draw_world, generate_world
from certigraph.benchmarks.travelplanner.sandbox import (
    Distance,
    SandboxStore,
    find_sources,
    load_store,
    open_store,
    read_tables,
    write_store,
)
from certigraph.state.endings import Fault

DATA = os.environ.get("CERTIGRAPH_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="CERTIGRAPH_DATA does not name the folder with travelplanner/")

RESTAURANTS = "restaurants/clean_restaurant_2022.csv"
ACCOMMODATIONS = "accommodations/clean_accommodations_2022.csv"
FLIGHTS = "flights/clean_Flights_2022.csv"
DISTANCES = "googleDistanceMatrix/distance.csv"
TOWNS = "background/citySet_with_states.txt"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    generate_world(tmp_path, cities=8, tasks=0)
    return tmp_path / "database"


@pytest.fixture(scope="module")
def official(tmp_path_factory: pytest.TempPathFactory) -> SandboxStore:
    return open_store(Path(str(DATA)) / "travelplanner" / "database", tmp_path_factory.mktemp("cache"))


def append(path: Path, text: str) -> int:
    """Adds lines at the end of a table; returns the number of the first."""
    lines = path.read_text().count("\n") + 1
    path.write_text(path.read_text() + text)
    return lines


@pytest.mark.slow
@needs_data
def test_the_official_tables_have_the_known_number_of_usable_rows() -> None:
    tables = read_tables(find_sources(Path(str(DATA)) / "travelplanner" / "database"))
    counts = [sum(1 for _ in rows) for rows in (*tables[:4], tables.cities)]
    assert counts == [9_551, 4_285, 5_302, 1_491, 312]
    assert len({road[:2] for road in tables.distances}) == 16_156


@pytest.mark.slow
@needs_data
def test_the_official_rows_come_typed_and_by_city(official: SandboxStore) -> None:
    museum = official.attractions("Tucson")[0]
    lodging = next(row for row in official.accommodations("Tucson") if row.name.startswith("Cozy place to stay 7"))
    [flight] = [row for row in official.flights("Oakland", "Tucson", "2022-03-15") if row.number == "F4002752"]
    assert museum == ("Pima Air & Space Museum", "Tucson")
    assert lodging[2:] == ("Private room", 912.0, 3.0, 3.0, "No pets", 2)
    assert flight == official.flight("F4002752")
    assert flight[1:5] == (190.0, "15:07", "17:00", "1 hours 53 minutes")
    assert (official.state_of("San Diego"), official.state_of("Bellingham")) == ("California", None)


@pytest.mark.slow
@needs_data
def test_of_duplicate_distances_the_first_row_counts(official: SandboxStore) -> None:
    path = Path(str(DATA)) / "travelplanner" / "database" / "distance.csv.gz"
    first: dict[tuple[str, str], Distance] = {}
    with gzip.open(path, "rt", newline="") as file:
        for row in csv.DictReader(file):
            first.setdefault((row["origin"], row["destination"]), Distance(row["duration"], row["distance"]))
    assert {pair: official.distance(*pair) for pair in first} == first


def test_rows_with_a_gap_are_dropped_but_roads_are_kept(database: Path, tmp_path: Path) -> None:
    append(database / RESTAURANTS, "7,No Rating,Here,Tea,10,\n,No Index,Here,Tea,10,4.0\n")
    append(database / DISTANCES, "Here,There,,,\n")
    store = open_store(database, tmp_path / "cache")
    assert [row.name for row in store.restaurants("Here")] == ["No Index"]
    assert store.distance("Here", "There") == ("", "")
    assert store.distance("There", "Here") is None


def test_file_order_decides_between_duplicates(database: Path, tmp_path: Path) -> None:
    flight = "F1,{},06:00,07:00,1 hours 0 minutes,2022-03-0{},Here,There,99.0\n"
    append(database / FLIGHTS, flight.format(90, 2) + flight.format(50, 1))
    append(database / DISTANCES, "Here,There,,2 hours,150 km\nHere,There,,1 hour 9 mins,99.5 km\n")
    store = open_store(database, tmp_path / "cache")
    first = store.flight("F1")
    assert first is not None
    assert first.price == 90
    assert [row.price for row in store.flights("Here", "There")] == [90, 50]
    assert [row.price for row in store.flights("Here", "There", "2022-03-01")] == [50]
    assert store.distance("Here", "There") == ("2 hours", "150 km")


@pytest.mark.parametrize(
    ("table", "row"),
    [
        (RESTAURANTS, "7,Cheap,Here,Tea,ten,4.0\n"),
        (RESTAURANTS, "7,Cheap,Here,Tea,10\n"),
        (ACCOMMODATIONS, "7,Nobody's,Here,Private room,90,1,4,No pets,0\n"),
        (FLIGHTS, "F1,nan,06:00,07:00,1 hours,2022-03-01,Here,There,99.0\n"),
        (DISTANCES, "Here,There,,2 hours,150 miles\n"),
        (DISTANCES, 'Here,"There,,2 hours,150 km\n'),
        (TOWNS, "\nHere,There\n"),
    ],
)
def test_a_malformed_row_names_its_file_and_line(database: Path, tmp_path: Path, table: str, row: str) -> None:
    line = append(database / table, row) + (table == TOWNS)
    with pytest.raises(Fault, match=re.escape(f"{database / table}:{line}: ")) as fault:
        open_store(database, tmp_path / "cache")
    assert fault.value.ending == "error:data"
    assert not list((tmp_path / "cache").iterdir()), "a failed build leaves nothing behind"


def test_a_row_that_spans_lines_does_not_shift_the_line_of_the_next(database: Path, tmp_path: Path) -> None:
    line = append(database / RESTAURANTS, '7,"Two\nlines",Here,Tea,10,4.0\n8,Cheap,Here,Tea,ten,4.0\n')
    with pytest.raises(Fault, match=f"clean_restaurant_2022.csv:{line + 2}: "):
        open_store(database, tmp_path / "cache")


def test_a_truncated_file_a_lacking_column_and_a_missing_table_are_faults(database: Path, tmp_path: Path) -> None:
    flights = database / FLIGHTS
    packed = gzip.compress(flights.read_bytes())
    flights.unlink()
    flights.with_suffix(".csv.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(Fault, match=r"clean_Flights_2022.csv.gz:\d+: "):
        open_store(database, tmp_path / "cache")
    flights.write_text("Flight Number,Price\n")
    with pytest.raises(Fault, match="'DepTime'"):
        open_store(database, tmp_path / "cache")
    (database / DISTANCES).unlink()
    with pytest.raises(Fault, match=re.escape(DISTANCES)):
        open_store(database, tmp_path / "cache")


def test_the_file_is_built_once_and_again_when_a_table_changes(database: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    open_store(database, cache)
    [built] = cache.iterdir()
    stamp = built.stat().st_mtime_ns
    open_store(database, cache)
    assert [path.stat().st_mtime_ns for path in cache.iterdir()] == [stamp]
    append(database / RESTAURANTS, "7,New,Here,Tea,10,4.0\n")
    assert [row.name for row in open_store(database, cache).restaurants("Here")] == ["New"]


def test_a_flat_folder_of_gzipped_tables_holds_the_same_rows(database: Path, tmp_path: Path) -> None:
    flat = tmp_path / "flat"
    flat.mkdir()
    for path in database.rglob("*.csv"):
        (flat / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    (flat / Path(TOWNS).name).write_bytes((database / TOWNS).read_bytes())
    tree, packed = (open_store(folder, tmp_path / "cache") for folder in (database, flat))
    assert everything(packed) == everything(tree)


@pytest.mark.slow
def test_threads_read_what_one_thread_reads(database: Path, tmp_path: Path) -> None:
    expected = everything(open_store(database, tmp_path / "cache"))
    shared = open_store(database, tmp_path / "cache")
    with ThreadPoolExecutor(8) as pool:
        assert all(rows == expected for rows in pool.map(everything, [shared] * 16))


def everything(store: SandboxStore) -> list[object]:
    cities = store.cities()
    by_city = [(store.restaurants(c), store.accommodations(c), store.attractions(c), store.state_of(c)) for c in cities]
    return by_city + [(store.flights(a, b), store.distance(a, b)) for a in cities for b in cities]


@pytest.mark.long
@pytest.mark.slow
def test_a_world_of_the_official_size_opens_and_answers_at_once(tmp_path: Path) -> None:
    path = tmp_path / "large.sqlite"
    write_store(path, draw_world(0, cities=300, flights=3_800_000).tables())
    started = time.perf_counter()
    store = load_store(path)
    opened = time.perf_counter() - started
    draw = random.Random(0)
    seconds = sorted(query_seconds(store, draw) for _ in range(2_000))
    store.close()
    path.unlink()
    print(f"opening {opened * 1e3:.1f} ms, options p95 {seconds[1_900] * 1e3:.2f} ms, most {seconds[-1] * 1e3:.2f} ms")
    assert opened < 2
    assert seconds[1_900] < 0.005


def query_seconds(store: SandboxStore, draw: random.Random) -> float:
    """All options of a leg and of the city it leads to."""
    origin, destination = draw.sample(store.cities(), 2)
    started = time.perf_counter()
    store.flights(origin, destination, f"2022-03-{draw.randint(1, 31):02}")
    store.distance(origin, destination)
    assert store.restaurants(destination)
    assert store.accommodations(destination)
    assert store.attractions(destination)
    return time.perf_counter() - started
