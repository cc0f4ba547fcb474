"""What a shop sells and what its customers want: the records, and WebShop's files of them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from pydantic import Field, ValidationError

from certigraph.adapters.hints import missing_data
from certigraph.adapters.rows import Row, read_json, read_rows
from certigraph.state.endings import Fault
from certigraph.state.records import Record

PRODUCTS, INSTRUCTIONS = "products_1000.jsonl.gz", "items_ins_v2_1000.json.gz"

BELOW = "\u203a"
"""The angle quotation mark that levels of a category have between them."""


class Product(Record):
    """One listing. `prices` is one price in dollars, or the lowest and the highest of a range."""

    asin: str = Field(min_length=1)
    title: str
    description: str = ""
    features: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    """What it is said to be, on none of its pages unless the shop shows attributes."""
    options: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    prices: tuple[float, ...] = Field(min_length=1, max_length=2)
    query: str = ""
    """The search that Amazon listed it under."""
    category: str = ""
    """Its levels, broad to narrow, with BELOW between them."""

    @property
    def price_text(self) -> str:
        """As pages show it: `$7.99`, `$19.99 to $27.99`."""
        return " to ".join(f"${price}" for price in self.prices)

    @property
    def price(self) -> float:
        """What a buyer pays; of a range, a price drawn evenly from it, the same every time."""
        return Random(f"price:{self.asin}").uniform(self.prices[0], self.prices[-1])

    @property
    def values(self) -> list[str]:
        """The values of all options."""
        return [value for values in self.options.values() for value in values]


class Wish(Record):
    """An instruction without options and price: what is wanted in words, and the attributes it is judged by."""

    asin: str
    text: str = Field(min_length=1)
    attributes: tuple[str, ...] = Field(min_length=1)
    options: tuple[str, ...] | None = None
    """The values that a crowd worker's own words ask for; None where every combination makes a goal."""


class Catalogue(NamedTuple):
    """All of a shop."""

    products: Mapping[str, Product]
    """By asin."""
    wishes: tuple[Wish, ...]


def read_catalogue(folder: Path) -> Catalogue:
    """The shop of 1,000 products and its 275 templated and 11 written instructions.

    Raises:
        Fault: ("data") a file is missing or not as WebShop writes it; the message names file and field.
    """
    if not (folder / PRODUCTS).is_file():
        raise missing_data("webshop", folder, f"{PRODUCTS} and {INSTRUCTIONS}")
    rows = list(read_rows(folder / PRODUCTS))
    products = {product.asin: product for product in map(_product, rows)}
    wishes = (*_templated(folder / INSTRUCTIONS), *(wish for row in rows for wish in _written(row)))
    if strange := sorted({wish.asin for wish in wishes} - products.keys()):
        raise Fault("data", f"{folder / PRODUCTS} lacks {strange[0]}, which instructions name: put the published there")
    return Catalogue(products, wishes)


@contextmanager
def _as_published(where: str, what: str) -> Iterator[None]:
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValidationError) as error:
        told = " ".join(str(error).split()) if isinstance(error, ValidationError) else repr(error)
        raise Fault("data", f"{where}: no {what} of WebShop ({told}): put the published file there") from error


def _product(row: Row) -> Product:
    value = row.value
    with _as_published(row.where, "product"):
        return Product(
            asin=value["asin"],
            title=value["Title"],
            description=value["Description"],
            features=value["BulletPoints"],
            attributes=value["Attributes"],
            options=value["options"],
            prices=value["pricing"],
            query=value["query"],
            category=value["product_category"],
        )


def _templated(path: Path) -> list[Wish]:
    found: Mapping[str, Any] = read_json(path)
    with _as_published(str(path), "instructions"):
        told = [(asin, row) for asin, row in found.items() if row.get("instruction")]
        return [Wish(asin=a, text=row["instruction"], attributes=row["instruction_attributes"]) for a, row in told]


def _written(row: Row) -> list[Wish]:
    with _as_published(row.where, "instructions"):
        return [
            Wish(
                asin=one["asin"],
                text=one["instruction"].strip().rstrip("."),
                attributes=one["instruction_attributes"],
                options=one["instruction_options"],
            )
            for one in row.value.get("instructions", ())
        ]
