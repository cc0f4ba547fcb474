"""WebShop's reward, rule by rule, on cases worked by hand."""

import tarfile

import pytest
from real_data import data_folder

from certigraph.adapters.files import parsed
from certigraph.adapters.webshop.products import (
    BELOW,
    Goal,
    Product,
    alike,
    has_attribute,
    judged,
    normalised,
    nouns,
    title_share,
    type_reward,
)

LAMP = Product(
    asin="L1",
    title="Brass Desk Lamp",
    description="With a dimmable light.",
    features=("Easy Assembly.",),
    attributes=("energy efficient",),
    prices=(30.0,),
    query="desk lamps",
    category=f"Home {BELOW} Lighting {BELOW} Lamps",
)
GOAL = Goal(
    asin="L1", instruction="x", attributes=("energy efficient", "folding arm"), options=("teal", "large"), upper=30.0
)


def other(**changes):
    return LAMP.model_copy(update={"asin": "L2", **changes})


def test_the_reward_is_type_times_the_share_of_what_matches():
    assert judged(GOAL, LAMP, LAMP, ["teal"]) == (1.0 * (1 + 1 + 1) / (2 + 2 + 1), 1.0, 0.5, 0.5, 1.0)
    assert judged(GOAL, LAMP, LAMP, []).reward == pytest.approx(2 / 5)
    dear = GOAL.model_copy(update={"upper": 29.99})
    assert judged(dear, LAMP, LAMP, ["teal", "large"]).reward == pytest.approx(3 / 5)
    plain = Goal(asin="L1", instruction="x", attributes=("energy efficient",))
    assert judged(plain, LAMP, LAMP, ["teal"]) == (1.0, 1.0, 1.0, None, 1.0)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"query": "", "category": "", "title": "Brass Kettle Stand"}, 1.0),
        ({"title": "Lamp Oil Bottle"}, 1.0),
        ({"query": "oil", "title": "Wick of a Lamp"}, 1.0),
        ({"title": "Oil Bottle"}, 0.0),
    ],
)
def test_types_agree_by_query_by_category_or_by_title(changes, kind):
    assert type_reward(LAMP, other(**changes)) == kind


@pytest.mark.parametrize(("words", "kind"), [(3, 1.0), (2, 0.5), (1, 0.5), (0, 0.0)])
def test_types_by_the_title_alone_go_by_its_share(words, kind):
    """Of ten nouns three are above 0.2, two and one are not above it and not below 0.1."""
    things = ["arm", "bulb", "cord", "dock", "edge", "frame", "grip", "hook", "iron", "jack"]
    wished = other(title=" ".join(things), query="a", category=f"Home {BELOW} Lighting")
    offered = other(title=" ".join(["zebra", *things[:words]]), query="b", category=f"Home {BELOW} Oil")
    assert type_reward(wished, offered) == kind


def test_a_share_below_a_tenth_makes_another_type_even_in_the_same_query():
    things = ["arm", "bulb", "cord", "dock", "edge", "frame", "grip", "hook", "iron", "jack", "kettle"]
    assert type_reward(other(title=" ".join(things)), other(title="arm")) == 0.1


def test_title_shares_count_repeated_nouns_below_the_line_and_once_above():
    assert title_share("Lamp and Lamp Shade", "lamp shade") == pytest.approx(2 / 3)
    assert title_share("Easy 12", "lamp") == 0.2


def test_nouns_leave_out_what_tells_how_things_are():
    assert nouns("Waterproof Portable 3-Pack of Sleeve Cables, Black") == ["pack", "sleeve", "cables"]


@pytest.mark.parametrize(
    ("attribute", "has"),
    [("energy efficient", True), ("Efficient energy!", True), ("dimmable light", True), ("easy assembly", True),
     ("brass desk", True), ("desk easy", False), ("energy", True), ("folding arm", False)],
)  # fmt: skip
def test_attributes_match_nearly_or_word_for_word_in_the_texts(attribute, has):
    assert has_attribute(LAMP, attribute) is has


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [("x-large", "x large", True), ("large", "x-large", True), ("8.5", "9.5", False), ("navy", "teal", False),
     ("16 ounce (pack of 1)", "16 ounce (pack of 2)", True)],
)  # fmt: skip
def test_phrases_are_alike_above_a_token_set_ratio_of_85(left, right, same):
    assert alike(left, right) is same


def test_options_are_compared_by_their_first_colour():
    assert normalised("z2-pink leopard") == "pink" and normalised("rl56") == "rl56"
    wish = Goal(asin="L1", instruction="x", attributes=("energy efficient",), options=("light blue stripes",))
    assert judged(wish, LAMP, LAMP, ["01-blue"]).options == 1.0
    assert judged(wish, LAMP, LAMP, ["01-red"]).options == 0.0


def test_the_formula_gives_the_rewards_of_recorded_visitors():
    """Nine people's purchases: the published parts add up to the published reward."""
    with tarfile.open(data_folder("webshop") / "human_trajs_sample.tar.gz") as archive:
        files = [file.read().decode() for member in archive if (file := archive.extractfile(member))]
    ends = [parsed(text.strip().splitlines()[-1], "human_trajs_sample") for text in files]
    assert len(ends) == 9
    for end in ends:
        goal, told = end["goal"], end["reward_info"]
        attributes, options = len(goal["attributes"]), len(goal["goal_options"])
        held = told["r_att"] * attributes + told.get("r_option", 0) * options + told["r_price"]
        assert told["r_type"] * held / (attributes + options + 1) == pytest.approx(end["reward"])
        if goal["asin"] == end["content"]["asin"]:
            ours = title_share(goal["name"], goal["name"])
            assert ours == pytest.approx(told["title_score"], abs=0.1), "repeats count below the line"
