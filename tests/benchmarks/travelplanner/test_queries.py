"""Tests of `benchmarks.travelplanner.queries`."""

import csv
import gzip
import json

import pytest
from helpers.worlds.travelplanner_sandbox import DATA, needs_data

from certigraph.benchmarks.travelplanner.queries import (
    ListedLeg,
    TravelQuery,
    find_split_file,
    legs_of,
    read_queries,
    visited_cities_of,
)
from certigraph.state.endings import Fault

ROW = {
    "idx": 1,
    "org": "Ames",
    "dest": "Oklahoma",
    "days": 5,
    "visiting_city_number": 2,
    "date": ["2022-03-01", "2022-03-02", "2022-03-03", "2022-03-04", "2022-03-05"],
    "people_number": 2,
    "local_constraint": {
        "house rule": "children under 10",
        "cuisine": ["Indian", "French"],
        "room type": "not shared room",
        "transportation": None,
    },
    "budget": 1400,
    "query": 'Five days, "two" cities,\nplease.',
    "level": "medium",
    "reference_information": [
        {"Description": "Attractions in Tulsa", "Content": "Name City\\n Zoo Tulsa"},
        {"Description": "Flight from Ames to Tulsa on 2022-03-01", "Content": "Flight Number Price\n F1 100"},
        {"Description": "Flight from Tulsa to Enid on 2022-03-03", "Content": "There is no flight from Tulsa to Enid."},
        {"Description": "Taxi from Tulsa to Enid", "Content": "No valid information."},
        {"Description": "Flight from Enid to Ames on 2022-03-05", "Content": "Flight Number Price\n F2 100"},
    ],
    "annotated_plan": [{"days": 1, "current_city": "from Ames to Tulsa"}, {"days": 2}, {}],
}
COLUMNS = [name for name in ROW if name != "idx"]


def write_jsonl(path, rows):
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def write_csv(path, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [name for name in COLUMNS if name in rows[0]])
        writer.writeheader()
        for row in rows:
            # str of a list or dict is the literal that the public files hold
            writer.writerow({name: str(value) for name, value in row.items() if name != "idx"})
    return path


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize(("split", "count"), [("validation", 120), ("train", 45)])
def test_both_layouts_hold_the_same_queries(tmp_path, split, count):
    original = find_split_file(DATA, split)
    with gzip.open(original, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    queries = read_queries(original)
    from_csv = read_queries(write_csv(tmp_path / f"{split}.csv", rows))
    assert len(queries) == count
    # the CSV has no idx; a row's position takes its place
    assert [query.model_copy(update={"idx": n}) for n, query in enumerate(queries, start=1)] == from_csv


@needs_data
def test_legs_of_the_public_queries_are_round_trips_through_as_many_cities_as_requested():
    queries = [query for split in ("validation", "train") for query in read_queries(find_split_file(DATA, split))]
    trips = [legs_of(query) for query in queries]
    assert sum(len(trip) for trip in trips) == 498
    assert sum(leg.has_flights for trip in trips for leg in trip) == 247
    for query, trip in zip(queries, trips, strict=True):
        assert len(visited_cities_of(query)) == query.visiting_city_number
        assert (trip[0].date, trip[-1].date) == (query.date[0], query.date[-1])


def test_every_layout_reads_the_same_row(tmp_path):
    paired = ROW | {"annotated_plan": [{"org": "Ames"}, ROW["annotated_plan"]]}
    plain, packed, table, pair = (
        read_queries(path)
        for path in (
            write_jsonl(tmp_path / "a.jsonl", [ROW]),
            write_jsonl(tmp_path / "a.jsonl.gz", [ROW]),
            write_csv(tmp_path / "a.csv", [ROW]),
            write_csv(tmp_path / "b.csv", [paired]),
        )
    )
    assert plain == packed == table == pair
    assert plain[0].local_constraint.cuisine == ("Indian", "French")
    assert plain[0].annotated_plan[0]["current_city"] == "from Ames to Tulsa"
    assert TravelQuery.model_validate(plain[0].as_json()) == plain[0]


def test_legs_and_cities_come_in_the_order_given():
    query = TravelQuery.model_validate(ROW)
    assert legs_of(query) == (
        ListedLeg("Ames", "Tulsa", "2022-03-01", True),
        ListedLeg("Tulsa", "Enid", "2022-03-03", False),
        ListedLeg("Enid", "Ames", "2022-03-05", True),
    )
    assert visited_cities_of(query) == ("Tulsa", "Enid")


@pytest.mark.parametrize("kept", [(), (1,), (1, 4), (2, 4)])
def test_flights_that_do_not_chain_are_refused(kept):
    reference = [ROW["reference_information"][index] for index in kept]
    with pytest.raises(Fault, match=r"query 1: .* is not a round trip from Ames"):
        legs_of(TravelQuery.model_validate(ROW | {"reference_information": reference}))


MALFORMED = [
    ({"days": "many"}, "days"),
    ({"date": ["2022-03-01"]}, "1 dates for 5 days"),
    ({"level": "epic"}, "level"),
    ({"local_constraint": ROW["local_constraint"] | {"room type": "castle"}}, "local_constraint.room type"),
    ({"reference_information": [{"Description": "x"}]}, "reference_information.0.Content"),
]


@pytest.mark.parametrize(("change", "what"), MALFORMED)
@pytest.mark.parametrize("write", [write_jsonl, write_csv])
def test_a_malformed_row_is_named_with_its_line(tmp_path, write, change, what):
    name = {write_jsonl: "a.jsonl", write_csv: "a.csv"}[write]
    good = ROW | {"query": "one line"}
    path = write(tmp_path / name, [good, good | change])
    line = 2 if write is write_jsonl else 3
    with pytest.raises(Fault, match=f"{name}:{line}: .*{what}") as raised:
        read_queries(path)
    assert raised.value.ending == "error:data"


@pytest.mark.parametrize("cell", ["", "[1,", "__import__('os').getcwd()", "[x for x in ()]"])
def test_literals_are_read_but_never_run(tmp_path, cell):
    path = write_csv(tmp_path / "a.csv", [ROW | {"date": cell}])
    with pytest.raises(Fault, match=r"a.csv:\d+: date: not a Python literal"):
        read_queries(path)


def test_a_split_is_found_under_any_known_name(tmp_path):
    with pytest.raises(Fault, match="train"):
        find_split_file(tmp_path, "train")
    table = write_csv(tmp_path / "train.csv", [ROW])
    assert find_split_file(tmp_path, "train") == table
    packed = write_jsonl(tmp_path / "train.jsonl.gz", [ROW])
    assert find_split_file(tmp_path, "train") == packed
