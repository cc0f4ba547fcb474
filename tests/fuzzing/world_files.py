"""Readers of the files that worlds are made of: games, problems, shops, tables, recordings, archives."""

import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

from fuzzing.target import BETWEEN, Read, Target, of_file, of_folder, of_text

from certigraph.adapters.retrieval.sources import read_passages
from certigraph.benchmarks.alfworld.benchmark import _extract_archive, read_goal
from certigraph.benchmarks.blocksworld.benchmark import read_problem, read_problems
from certigraph.benchmarks.scienceworld.recordings import read_recordings
from certigraph.benchmarks.textworld.world import GameLibrary
from certigraph.benchmarks.travelplanner.plans import read_plans
from certigraph.benchmarks.travelplanner.queries import read_queries
from certigraph.benchmarks.travelplanner.sandbox import TableSources, read_tables
from certigraph.benchmarks.webshop.products import (
    INSTRUCTIONS,
    PRODUCTS,
    build_goals,
    build_written_goals,
    read_catalogue,
)
from certigraph.state.endings import Fault

PROBLEM = (
    b"(define (problem p) (:domain blocks) (:objects a b) (:init (handempty) (ontable a) (ontable b) (clear a)"
    b" (clear b)) (:goal (and (on a b))))"
)
RECORDED: dict[str, Any] = {
    **{"task": "boil", "var": 0, "simp": "", "desc": "boil it", "gold": ["look around"], "obs": ["a", "b"]},
    **{"scores": [100], "firstdone": 1, "moves": 1},
}
QUERY: dict[str, Any] = {
    **{"idx": 1, "org": "A", "dest": "B", "days": 1, "visiting_city_number": 1, "date": ["2022-03-15"]},
    **{"people_number": 1, "budget": 100, "query": "a trip", "level": "easy"},
    "local_constraint": {"house rule": None, "cuisine": None, "room type": None, "transportation": None},
    "reference_information": [{"Description": "Flights", "Content": "none"}],
}
CSV = (
    b"org,dest,days,visiting_city_number,date,people_number,local_constraint,budget,query,level,"
    b"reference_information\nA,B,1,1,['2022-03-15'],1,{'cuisine': None},100,a trip,easy,"
    b"\"[{'Description': 'a', 'Content': 'b'}]\"\n"
)
PRODUCT: dict[str, Any] = {
    **{"asin": "B1", "Title": "red shoes", "Description": "", "BulletPoints": [], "Attributes": ["red"]},
    **{"options": {"size": ["1", "2"]}, "pricing": [9.5], "query": "shoes", "product_category": "a"},
    "instructions": [
        {"asin": "B1", "instruction": "red.", "instruction_attributes": ["red"], "instruction_options": ["1"]}
    ],
}
WISHED = b'{"B1": {"instruction": "find red shoes", "instruction_attributes": ["red"]}}'
TABLES = (
    b"Name,City,Cuisines,Average Cost,Aggregate Rating\nA,B,Tea,10,4.5\n",
    b"NAME,city,room type,price,minimum nights,review rate number,house_rules,maximum occupancy\nA,B,x,1,1,1,No,2\n",
    b"Name,City\nA,B\n",
    b"Flight Number,Price,DepTime,ArrTime,ActualElapsedTime,FlightDate,OriginCityName,DestCityName,Distance\n"
    b"F1,10,1,2,3,2022-03-15,A,B,100\n",
    b'origin,destination,duration,distance\nA,B,1 hour,"1,372 km"\n',
    b"A\tOhio\n",
)
"""Restaurants, accommodations, attractions, flights, distances, cities."""


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _packed(read: Any, name: str) -> Read:
    plain = of_file(read, name)
    return lambda data: plain(gzip.compress(data, 1))


def _archive(name: str, content: bytes, mode: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:  # type: ignore[call-overload]
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def _tables(path: Path) -> object:
    """Six tables after one another in one file, so that a fuzzer may change each."""
    paths = [path.with_name(f"{name}.csv") for name in TableSources._fields]
    parts = path.read_bytes().split(BETWEEN)
    for place, table in enumerate(paths):
        table.write_bytes(parts[place] if place < len(parts) else TABLES[place])
    return [list(rows) for rows in read_tables(TableSources(*paths))]


def _shop(path: Path) -> object:
    products, _, instructions = path.read_bytes().partition(BETWEEN)
    (path.parent / PRODUCTS).write_bytes(gzip.compress(products, 1))
    (path.parent / INSTRUCTIONS).write_bytes(gzip.compress(instructions, 1))
    catalogue = read_catalogue(path.parent)
    return build_goals(catalogue), build_written_goals(catalogue)


def _game(folder: Path) -> object:
    return GameLibrary(folder).game("coin_collector-1-0")


def _unpacked(path: Path) -> None:
    _extract_archive(path, path.parent)


TARGETS = (
    Target("world.pddl", of_text(read_problem), (Fault,), (PROBLEM,)),
    Target("world.problems", of_file(read_problems, "p.pddl"), (Fault,), (PROBLEM,)),
    Target("world.problem_archive", of_file(read_problems, "p.tar"), (Fault,), (_archive("a.pddl", PROBLEM, "w"),)),
    Target("world.games", of_file(_unpacked, "a.tar.xz"), (Fault,), (_archive("a/game.tw-pddl", b"{}", "w:xz"),)),
    Target(
        "world.alfworld", of_file(read_goal, "game.tw-pddl"), (Fault,), (b'{"grammar": "Your task is to: go.\\"" }',)
    ),
    Target(
        "world.textworld",
        of_folder(_game, "coin_collector-1-0/game.json"),
        (Fault,),
        (b'{"objective": "o", "metadata": {"walkthrough": ["go"]}}',),
    ),
    Target(
        "world.recordings",
        _packed(read_recordings, "gold.jsonl.gz"),
        (Fault,),
        (_json(RECORDED),),
    ),
    Target("world.queries", of_file(read_queries, "q.jsonl"), (Fault,), (_json(QUERY),)),
    Target("world.query_table", of_file(read_queries, "q.csv"), (Fault,), (CSV,)),
    Target("world.tables", of_file(_tables, "tables"), (Fault,), (BETWEEN.join(TABLES),)),
    Target("world.plans", of_file(read_plans, "p.jsonl"), (Fault,), (b'{"idx": 1, "plan": [{"days": 1}]}',)),
    Target("world.shop", of_file(_shop, "shop"), (Fault,), (_json(PRODUCT) + BETWEEN + WISHED,)),
    Target(
        "corpus.archive",
        of_file(lambda p: list(read_passages(p)), "c.tar"),
        (Fault,),
        (_archive("a.jsonl", b'{"text": "a"}', "w"),),
    ),
)
