"""WebShop's goals: combinations of options, bounds of prices, instructions taken apart, splits, and its files."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from real_data import data_folder

from certigraph.adapters.webshop.benchmark import WebShop
from certigraph.adapters.webshop.products import INSTRUCTIONS, PRODUCTS, Catalogue, Product, Wish, goals, price_bound
from certigraph.adapters.webshop.world import proposals, singular, wanted
from certigraph.state.records import Fault, Task, UnknownName

CUP = Product(
    asin="A1",
    title="Tin Cup",
    attributes=("leak proof",),
    options={"color": ("red", "blue"), "size": ("s", "l")},
    prices=(8.0, 10.0),
)


def test_every_combination_of_options_makes_a_goal():
    wish = Wish(asin="A1", text="Find me leak proof cups", attributes=("leak proof",))
    made = goals(Catalogue({"A1": CUP}, (wish,)))
    assert set(made) == {f"A1-{n}" for n in range(4)}
    bound = price_bound(CUP)
    assert made["A1-1"].options == ("red", "l")
    assert made["A1-1"].instruction == (
        f"Find me leak proof cups with color: red, and size: l, and price lower than {bound:.2f} dollars"
    )


@pytest.mark.parametrize(
    ("price", "bounds"), [(7.0, {20, 30, 40}), (10.0, {30, 40, 50}), (975.0, {990}), (980.0, {None})]
)
def test_bounds_are_the_larger_of_two_of_the_next_four_multiples_of_ten(price, bounds):
    drawn = {price_bound(Product(asin=f"P{n}", title="", prices=(price,))) for n in range(60)}
    assert drawn == bounds


def test_a_price_range_is_paid_by_one_price_inside_it():
    assert 8.0 < CUP.price < 10.0 and CUP.price == CUP.model_copy().price
    assert CUP.price_text == "$8.0 to $10.0" and Product(asin="B", title="", prices=(1.0,)).price == 1.0


def test_an_instruction_is_taken_apart():
    asked = wanted(
        "Find me easy carry containers with rose gold with flavor name: a, b, and size: 8.5"
        ", and price lower than 20.00 dollars"
    )
    assert asked.words == ("easy", "carry", "containers", "rose", "gold")
    assert asked.options == {"flavor name": "a, b", "size": "8.5"} and asked.upper == 20.0
    assert wanted("i want red shoes").options == {} and wanted("i want red shoes").upper is None
    assert proposals("Find me cups with color: red")[:2] == ["cups red", "cups"]
    assert singular("Two boxes of berries, glass lenses") == "two box of berry glass lense"


def test_unknown_names_are_told_with_the_known_ones():
    with pytest.raises(UnknownName, match="instructions, test"):
        WebShop().tasks("nightly")
    with pytest.raises(UnknownName, match="need --data DIR"):
        WebShop().task("B00-0")
    with pytest.raises(UnknownName, match="attributes, plain"):
        WebShop(config="loud")
    with pytest.raises(Fault, match="make it with"):
        WebShop().open(Task(benchmark="webshop", id="x", constants={"asin": "A1"}))


ROW: dict[str, Any] = {
    "asin": "A1",
    "Title": "Tin Cup",
    "Description": "",
    "BulletPoints": [],
    "Attributes": ["leak proof"],
    "options": {},
    "pricing": [8.0],
    "query": "cups",
    "product_category": "",
}
WISH = {"A1": {"instruction": "Find me cups", "instruction_attributes": ["leak proof"]}}


def written(folder: Path, rows: list[Any], wishes: Any) -> Path:
    """A folder with WebShop's two files."""
    for name, text in ((PRODUCTS, "\n".join(map(json.dumps, rows))), (INSTRUCTIONS, json.dumps(wishes))):
        (folder / name).write_bytes(gzip.compress(text.encode()))
    return folder


def test_files_are_read_from_the_folder(tmp_path: Path):
    assert [task.id for task in WebShop(written(tmp_path, [ROW], WISH)).tasks()] == ["A1-0"]


@pytest.mark.parametrize("missing", [PRODUCTS, INSTRUCTIONS])
def test_a_missing_file_is_named_in_one_line(missing: str, tmp_path: Path):
    (written(tmp_path, [ROW], WISH) / missing).unlink()
    with pytest.raises(Fault, match=rf"{tmp_path}.*{missing}") as told:
        WebShop(tmp_path).tasks()
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("rows", "wishes", "told"),
    [
        ([ROW, {"asin": "A2"}], WISH, rf"{PRODUCTS}:2: no product of WebShop \(KeyError\('Title'\)\)"),
        ([ROW | {"pricing": []}], WISH, rf"{PRODUCTS}:1: no product of WebShop .* prices Tuple should have at least 1"),
        ([ROW, ["A2"]], WISH, rf"{PRODUCTS}:2: no product of WebShop"),
        ([ROW | {"instructions": [{"asin": "A1"}]}], WISH, rf"{PRODUCTS}:1: no instructions of WebShop"),
        ([ROW], ["A1"], rf"{INSTRUCTIONS}: no instructions of WebShop"),
        ([ROW], {"A1": {"instruction": "Find me cups"}}, r"no instructions of WebShop .*instruction_attributes"),
        ([ROW], {"A9": WISH["A1"]}, rf"{PRODUCTS} lacks A9"),
    ],
)
def test_what_is_not_as_published_is_named(rows: list[Any], wishes: Any, told: str, tmp_path: Path):
    with pytest.raises(Fault, match=told) as fault:
        WebShop(written(tmp_path, rows, wishes)).tasks()
    assert "\n" not in str(fault.value)


@pytest.mark.slow
def test_webshops_files():
    shop = WebShop(data_folder("webshop"))
    assert len(shop.tasks()) == 275 and len(shop.tasks("written")) == 11 and len(shop.tasks("test")) == 500
    assert sum(len(shop.tasks(split)) for split in ("test", "dev", "train")) == 3964
