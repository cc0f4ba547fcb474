"""An invented shop, for where no data is given: forty products of ten kinds, each with an instruction."""

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from certigraph.adapters.webshop.products import BELOW, Catalogue, Product, Wish


class Kind(NamedTuple):
    """What products are of, and what distinguishes them."""

    name: str
    category: str
    traits: tuple[str, ...]
    options: tuple[str, ...] = ()
    dollars: int = 30
    """About what one costs."""


KINDS = (
    Kind("desk lamps", "Home > Lighting > Lamps", ("dimmable light", "easy assembly", "folding arm", "usb port")),
    Kind("water bottles", "Sports > Hydration > Bottles", ("leak proof", "bpa free"), ("color", "size"), 18),
    Kind("running shoes", "Clothing > Shoes > Athletic", ("arch support", "rubber sole"), ("size",), 75),
    Kind("hair brushes", "Beauty > Hair Care > Brushes", ("easy clean", "soft bristles"), ("color",), 12),
    Kind("trail mixes", "Grocery > Snacks > Mixes", ("gluten free", "low sugar", "plant based"), ("flavor",), 9),
    Kind("phone cases", "Electronics > Phones > Cases", ("drop protection", "slim fit"), ("color",), 16),
    Kind("rain jackets", "Clothing > Outerwear > Jackets", ("quick drying", "machine wash"), ("color", "size"), 60),
    Kind("floor rugs", "Home > Decor > Rugs", ("non slip", "stain resistant", "hand woven"), ("color",), 110),
    Kind("herbal teas", "Grocery > Beverages > Tea", ("caffeine free", "certified organic"), ("flavor", "size"), 11),
    Kind("speakers", "Electronics > Audio > Speakers", ("long battery", "stereo sound", "water proof"), ("color",), 45),
)

VALUES = {
    "color": ("black", "teal", "coral", "ivory", "plum"),
    "size": ("small", "medium", "large", "x-large"),
    "flavor": ("ginger lime", "cocoa", "wild berry", "honey almond"),
}

MAKERS = ("Arvid", "Belmora", "Castwell", "Dunfell", "Elverum", "Fenwick", "Galdor", "Hollis")

EACH = 4
"""Products of a kind."""


def generated_catalogue() -> Catalogue:
    """The shop; the same every time."""
    made = list(_made(Random("webshop")))
    return Catalogue({product.asin: product for product, _ in made}, tuple(wish for _, wish in made))


def _made(random: Random) -> Iterator[tuple[Product, Wish]]:
    for number in range(EACH * len(KINDS)):
        kind = KINDS[number // EACH]
        product = _product(kind, f"G{number:03}{random.randint(0, 999_999):06}", random)
        yield product, _wish(kind, product)


def _product(kind: Kind, asin: str, random: Random) -> Product:
    traits = tuple(sorted(random.sample(kind.traits, 2)))
    maker = random.choice(MAKERS)
    price = round(kind.dollars * random.uniform(0.7, 1.4), 2)
    return Product(
        asin=asin,
        title=f"{maker} {kind.name.title()}, {traits[0].title()}, Model {asin[-3:]}",
        description=f"{maker} makes these {kind.name} with care: {' and '.join(traits)}.",
        features=tuple(f"{trait.capitalize()}, tested by {maker}." for trait in traits),
        attributes=traits,
        options={name: tuple(random.sample(VALUES[name], 3)) for name in kind.options},
        prices=(price, round(price * 1.2, 2)) if random.random() < 0.25 else (price,),
        query=kind.name,
        category=kind.category.replace(">", BELOW),
    )


def _wish(kind: Kind, product: Product) -> Wish:
    text = f"Find me {', '.join(product.attributes)} {kind.name}"
    return Wish(asin=product.asin, text=text, attributes=product.attributes)
