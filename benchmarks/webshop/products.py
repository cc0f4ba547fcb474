"""WebShop's products, instructions and goals, an invented shop, and the reward of a purchase."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import product as combinations
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from pydantic import Field, ValidationError

from certigraph.adapters.files import JsonRow, missing_data_fault, read_json, read_rows
from certigraph.adapters.retrieval.bm25 import STOPWORDS
from certigraph.state.endings import Fault
from certigraph.state.records import Record

# Records of products and instructions, and reading WebShop's files.

PRODUCTS, INSTRUCTIONS = "products_1000.jsonl.gz", "items_ins_v2_1000.json.gz"

LEVEL_SEPARATOR = "\u203a"
"""Separator of the levels of a category: an angle quotation mark."""


class Product(Record):
    """Product of the shop; `asin` is Amazon's product id.

    `prices` has one price in dollars, or the lowest and the highest price of a range.
    """

    asin: str = Field(min_length=1)
    title: str
    description: str = ""
    features: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    """Attributes such as "easy clean"; pages show them only in the configuration "attributes"."""
    options: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    prices: tuple[float, ...] = Field(min_length=1, max_length=2)
    query: str = ""
    """Search query under which Amazon listed the product."""
    category: str = ""
    """Category levels, broad to narrow, separated by `LEVEL_SEPARATOR`."""

    @property
    def price_text(self) -> str:
        """Price as pages show it: `$7.99`, `$19.99 to $27.99`."""
        return " to ".join(f"${price}" for price in self.prices)

    @property
    def price(self) -> float:
        """Price that a buyer pays; from a range, a uniform random draw that is the same every time."""
        return Random(f"price:{self.asin}").uniform(self.prices[0], self.prices[-1])

    @property
    def values(self) -> list[str]:
        """Values of all options."""
        return [value for values in self.options.values() for value in values]


class ShopInstruction(Record):
    """Instruction before options and price are added: its text, and the attributes that a purchase is judged by."""

    asin: str
    text: str = Field(min_length=1)
    attributes: tuple[str, ...] = Field(min_length=1)
    options: tuple[str, ...] | None = None
    """Values requested in a crowd worker's text; None for a template, where every combination of options is a goal."""


class ShopCatalogue(NamedTuple):
    """Products and instructions of a shop."""

    products: Mapping[str, Product]
    """Products by asin."""
    instructions: tuple[ShopInstruction, ...]


def read_catalogue(folder: Path) -> ShopCatalogue:
    """Read WebShop's small shop from a folder: 1,000 products with 275 templated and 11 written instructions.

    Raises:
        Fault: ("data") a file is missing or malformed; the message names file and field.
    """
    if not (folder / PRODUCTS).is_file():
        raise missing_data_fault("webshop", folder, f"{PRODUCTS} and {INSTRUCTIONS}")
    rows = list(read_rows(folder / PRODUCTS))
    products = {product.asin: product for product in map(_parse_product, rows)}
    wishes = (*_read_templated(folder / INSTRUCTIONS), *(wish for row in rows for wish in _read_written(row)))
    if unknown := sorted({wish.asin for wish in wishes} - products.keys()):
        raise Fault(
            "data", f"{folder / PRODUCTS} lacks {unknown[0]}, which instructions name: copy the published file there"
        )
    return ShopCatalogue(products, wishes)


@contextmanager
def _errors_as_faults(where: str, kind: str) -> Iterator[None]:
    try:
        yield
    except (AttributeError, KeyError, TypeError, ValidationError) as error:
        reason = " ".join(str(error).split()) if isinstance(error, ValidationError) else repr(error)
        raise Fault("data", f"{where}: invalid {kind} of WebShop ({reason}): copy the published file there") from error


def _parse_product(row: JsonRow) -> Product:
    value = row.value
    with _errors_as_faults(row.where, "product"):
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


def _read_templated(path: Path) -> list[ShopInstruction]:
    data: Mapping[str, Any] = read_json(path)
    with _errors_as_faults(str(path), "instructions"):
        rows = [(asin, row) for asin, row in data.items() if row.get("instruction")]
        return [
            ShopInstruction(asin=a, text=row["instruction"], attributes=row["instruction_attributes"])
            for a, row in rows
        ]


def _read_written(row: JsonRow) -> list[ShopInstruction]:
    with _errors_as_faults(row.where, "instructions"):
        return [
            ShopInstruction(
                asin=instruction["asin"],
                text=instruction["instruction"].strip().rstrip("."),
                attributes=instruction["instruction_attributes"],
                options=instruction["instruction_options"],
            )
            for instruction in row.value.get("instructions", ())
        ]


# An invented shop, used if no data is given: forty products of ten kinds, each with an instruction.

SAMPLE = Path(__file__).with_name("sample.json")


def sample_catalogue() -> ShopCatalogue:
    """Return the invented shop."""
    sample = read_json(SAMPLE)
    products = map(Product.model_validate, sample["products"])
    instructions = map(ShopInstruction.model_validate, sample["instructions"])
    return ShopCatalogue({product.asin: product for product in products}, tuple(instructions))


# Goals: an instruction with options and a price bound, one for each combination of a product's options.

SHUFFLE_SEED = 233
"""WebShop's seed for the order of goals; the order still differs, because prices are drawn differently."""

MAX_BOUND = 990
"""Maximum price bound in dollars; more expensive products have no bound."""

BOUND_CHOICES = 4
"""Number of multiples of ten dollars, the next ones above a price, from which its bound is drawn."""


class ShopGoal(Record):
    """Goal of an episode: the instruction, and what a purchase is judged by."""

    asin: str
    instruction: str = Field(min_length=1)
    attributes: tuple[str, ...] = Field(min_length=1)
    options: dict[str, str] | tuple[str, ...] = Field(default_factory=dict)
    """Wanted values, each of a different option: by option in a templated goal, without options in a written one.

    The two are judged by different rules (`wanted_texts`).
    """
    upper: float | None = None
    """Maximum price in dollars; None: any."""

    @property
    def values(self) -> list[str]:
        """Wanted values."""
        return list(self.options.values() if isinstance(self.options, dict) else self.options)


def build_goals(catalogue: ShopCatalogue) -> dict[str, ShopGoal]:
    """Return all templated goals by id, `ASIN-n` for combination n of the product's options, in shuffled order."""
    pairs = [
        pair
        for wish in catalogue.instructions
        if wish.options is None
        for pair in _combine_options(wish, catalogue.products[wish.asin])
    ]
    Random(SHUFFLE_SEED).shuffle(pairs)
    return dict(pairs)


def build_written_goals(catalogue: ShopCatalogue) -> dict[str, ShopGoal]:
    """Return the goals written by crowd workers, by id `ASIN-written`."""
    return {
        f"{wish.asin}-written": _build_goal(wish, catalogue.products[wish.asin], wish.options, wish.text)
        for wish in catalogue.instructions
        if wish.options is not None
    }


def draw_price_bound(product: Product) -> float | None:
    """Draw the price bound of goals for a product; None if it costs 980 dollars or more.

    Two of the next four multiples of ten dollars above the price are drawn; the larger one is the bound.
    """
    price = product.price
    above = [float(bound) for bound in range(10, MAX_BOUND + 1, 10) if bound > price][:BOUND_CHOICES]
    return max(Random(f"bound:{product.asin}").sample(above, 2)) if len(above) > 1 else None


def _combine_options(wish: ShopInstruction, product: Product) -> Iterator[tuple[str, ShopGoal]]:
    names = sorted(product.options)
    for number, values in enumerate(combinations(*(product.options[name] for name in names))):
        options = dict(zip(names, values, strict=True))
        requested = ", and ".join(f"{name}: {value}" for name, value in options.items())
        text = f"{wish.text} with {requested}" if requested else wish.text
        yield f"{product.asin}-{number}", _build_goal(wish, product, options, text)


def _build_goal(
    wish: ShopInstruction, product: Product, options: dict[str, str] | tuple[str, ...], text: str
) -> ShopGoal:
    upper = draw_price_bound(product)
    bound = "" if upper is None else f", and price lower than {upper:.2f} dollars"
    return ShopGoal(
        asin=product.asin, instruction=text + bound, attributes=wish.attributes, options=options, upper=upper
    )


# Nouns of product titles, which WebShop's reward compares.
#
# WebShop uses the nouns and proper nouns of spaCy's en_core_web_sm, a model that PyPI lacks under its name. Titles are
# mostly nouns, so removing everything else is a close substitute: function words, numbers, and adjectives by list or
# ending. Only a reward's factor for the type depends on nouns. It can differ from WebShop's only where the two ways to
# find nouns put the share of common ones on different sides of 0, 0.1 or 0.2.

_WORD = re.compile(r"[a-z]+")

_QUALITIES = """
big large small medium mini long short wide narrow thin thick tall slim heavy light deep high low soft hard strong
new old young fresh clean dry wet hot cold warm cool dark bright clear pure raw rich smooth rough sharp flat round
square black white red blue green yellow brown grey gray pink purple beige golden wooden woolen upholstered easy
free full empty fast quick slow great good best better nice cute sexy casual formal modern classic vintage natural
organic artificial synthetic genuine premium professional personal electric electronic digital wireless automatic
manual double single multi non extra ultra super compatible universal original official perfect ideal
vegan healthy daily outdoor indoor right left upper lower inner outer front back
"""
_OTHERS = "w include includes including come comes make makes made use used get buy fit fits one two"
_ENDINGS = ("able", "ible", "ful", "less", "ous", "ive", "ish", "proof", "resistant", "ly")
_THINGS = "cable table vegetable sleeve olive adhesive jewelry family belly jelly supply assembly fly"

NON_NOUNS = STOPWORDS.union(_QUALITIES.split(), _OTHERS.split())
NOUNS = frozenset(_THINGS.split())
"""Nouns with endings of adjectives."""


def nouns_in(title: str) -> list[str]:
    """Return the nouns of a title, lower-cased, in order, with repetitions."""
    return [word for word in _WORD.findall(title.lower()) if _is_noun(word)]


def _is_noun(word: str) -> bool:
    if word in NON_NOUNS or len(word) == 1:
        return False
    return word in NOUNS or not word.endswith(_ENDINGS)


# WebShop's reward for a purchase (Yao et al., section 3.1 and appendix A).
#
# reward = type x (attributes matched + options matched + [price within the bound]) / (attributes + options + 1)
#
# For the same goal and the same price it equals the reward of WebShop's code (web_agent_site/engine/goal.py at commit
# 64fa2a5, with thefuzz 0.19.0), except that nouns are found in another way. thefuzz measures with python-Levenshtein,
# as rapidfuzz does, or without it with difflib; on the options and attributes of WebShop's goals both decide the same.

MIN_RATIO = 85
"""Token set ratio above which two phrases count as equal."""

SAME_TYPE_SHARE, OTHER_TYPE_SHARE = 0.2, 0.1
"""Shares of the wanted title's nouns: above the first, the type is the same; below the second, it is different."""

MIN_SHARED_LEVELS = 2
"""Minimum number of category levels that two products of one type share."""

# The colours of WebShop's web_agent_site/engine/normalize.py (MIT).
_COLOURS = """
alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel camo
caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry cream crystal
dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey heather indigo ivory
ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor mushroom
mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal rust sand sapphire
seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise violet walnut wheat white
wine yellow
"""

COLOURS = tuple(sorted(_COLOURS.split()))
"""Colours that options are reduced to; if a value contains several, the alphabetically first one counts."""


class PurchaseReward(NamedTuple):
    """Reward of a purchase and its parts, all in [0, 1]; `options` is None if the goal has no options."""

    reward: float
    type: float
    attributes: float
    options: float | None
    price: float


def compute_reward(goal: ShopGoal, wanted: Product, bought: Product, chosen: Sequence[str]) -> PurchaseReward:
    """Compute the reward for buying `bought` with the chosen option values if `wanted` is the goal's product."""
    attributes = sum(has_attribute(bought, attribute) for attribute in goal.attributes)
    colours = [normalise_value(value) for value in chosen]
    options = sum(any(is_alike(colour, text) for colour in colours) for text in wanted_texts(goal))
    price = goal.upper is None or bought.price <= goal.upper
    kind = type_reward(wanted, bought)
    parts = len(goal.attributes) + len(goal.options) + 1
    return PurchaseReward(
        reward=kind * (attributes + options + price) / parts,
        type=kind,
        attributes=attributes / len(goal.attributes),
        options=options / len(goal.options) if goal.options else None,
        price=float(price),
    )


def type_reward(wanted: Product, bought: Product) -> float:
    """Return the factor of the reward for the type of the bought product.

    It is 1 for the wanted type, 0.5 if nothing indicates that both types are the same, 0.1 if the titles share few
    nouns, and 0 if they share none.
    """
    share = title_share(wanted.title, bought.title)
    if share < OTHER_TYPE_SHARE:
        return 0.1 if share else 0.0
    levels = set(_levels_of(wanted)) & set(_levels_of(bought))
    same = wanted.query == bought.query or len(levels) >= MIN_SHARED_LEVELS or share > SAME_TYPE_SHARE
    return 1.0 if same else 0.5


def title_share(wanted: str, bought: str) -> float:
    """Divide the number of distinct shared nouns by the number of nouns of the wanted title; 0.2 if it has none."""
    wanted_nouns = nouns_in(wanted)
    return len(set(wanted_nouns) & set(nouns_in(bought))) / len(wanted_nouns) if wanted_nouns else SAME_TYPE_SHARE


def has_attribute(product: Product, attribute: str) -> bool:
    """Return whether a product has an attribute, or one with nearly the same words (`is_alike`).

    It also has the attribute if its title, features or description contain the attribute's exact words.
    """
    texts = (product.title, " ".join(product.features), product.description)
    return any(is_alike(product_attribute, attribute) for product_attribute in product.attributes) or any(
        attribute in t.lower() for t in texts
    )


def wanted_texts(goal: ShopGoal) -> list[str]:
    """Return for each wanted option the text that chosen values are compared with.

    In a written goal it is the normalised value. In a templated one it is option and value as a pair, such as
    "('size', 'xx-large')", because WebShop compares the pair as Python prints it; if option or value is exactly a
    colour, it is this colour. Thus "x-large" does not count where "xx-large" is wanted. Neither does "blue137" count
    where it is wanted, because a chosen value is reduced to the colour that it contains, and a pair is not.
    """
    if isinstance(goal.options, dict):
        return [next((colour for colour in COLOURS if colour in pair), str(pair)) for pair in goal.options.items()]
    return [normalise_value(value) for value in goal.options]


def normalise_value(value: str) -> str:
    """Reduce the value of an option to the colour that it contains, if it contains one."""
    return next((colour for colour in COLOURS if colour in value), value)


def is_alike(left: str, right: str) -> bool:
    """Return whether two phrases have nearly the same words: a token set ratio (fuzzy string match) above 85.

    Raises:
        Fault: ("data") rapidfuzz is not installed; the message has the command that installs it.
    """
    try:
        fuzz = import_module("rapidfuzz.fuzz")
    except ModuleNotFoundError as error:
        fix = "pip install 'certigraph[webshop]'"
        raise Fault("data", f"WebShop's reward needs the package rapidfuzz: {fix}") from error
    return bool(round(fuzz.token_set_ratio(left, right, processor=_process_like_thefuzz)) > MIN_RATIO)


_NON_WORD = re.compile(r"\W")
_LATIN_1 = dict.fromkeys(range(128, 256))


def _process_like_thefuzz(text: str) -> str:
    # rapidfuzz's own processor keeps Latin-1 letters and splits at no-break spaces and underscores; thefuzz does not.
    return _NON_WORD.sub(" ", text.translate(_LATIN_1)).lower()


def _levels_of(product: Product) -> list[str]:
    return [level.strip() for level in product.category.split(LEVEL_SEPARATOR)]
