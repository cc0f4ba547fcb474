"""Tests of the rules that decide ScienceWorld's conditions, yes or no: never wrongly, else not at all."""

import re
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certigraph.benchmarks.scienceworld.conditions import decide_condition, parse_condition
from certigraph.benchmarks.scienceworld.prompts import WORDINGS
from certigraph.state.records import Observation

WORDED = {
    "The agent is in the kitchen.": ("be", "", "kitchen"),
    "The agent is outside": ("be", "", "outside"),
    "The location of the plant is known.": ("found", "plant", ""),
    "The locations of the pea seeds are known.": ("found", "pea seeds", ""),
    "A wolf is in view": ("found", "wolf", ""),
    "The plant is in focus.": ("focus", "plant", ""),
    "The inventory contains the orange.": ("have", "orange", ""),
    "The agent holds an orange.": ("have", "orange", ""),
    "The orange is in the inventory": ("have", "orange", ""),
    "The orange is in the red box.": ("placed", "orange", "red box"),
    "The metal pot contains some water.": ("placed", "water", "metal pot"),
    "The green paint has been made.": ("made", "green paint", ""),
    "The stove is turned on.": ("on", "stove", ""),
    "The sink is deactivated": ("off", "sink", ""),
    "The fridge is open.": ("open", "fridge", ""),
    "The fridge is closed.": ("closed", "fridge", ""),
    "The stove is broken.": ("broken", "stove", ""),
    "The temperature of the water was measured.": ("measured", "water", ""),
    "The measured temperature of the water is above -5 degrees Celsius.": ("warmer", "water", "-5"),
    "The measured temperature of water is below 7": ("cooler", "water", "7"),
    "The stove is on and the agent is in the kitchen.": ("all", "stove", ""),
}
ROOM = "This room is called the kitchen. In it, you see: \n\t{}\nYou also see:\n\tA door to the hallway"
MOVED = "You move the {} to the {}."


def seen(text: str = "You wonder.", **data: Any) -> Observation:
    return Observation(text=text, done=bool(data.pop("done", False)), data={"score": 8, "result": "accepted", **data})


def decided(condition: str, observation: Observation | None = None, view: str = "") -> bool | None:
    decision = decide_condition(condition, observation or seen(), view)
    return decision and decision.holds


def kitchen(*things: str, carried: tuple[str, ...] = ("nothing",)) -> str:
    lines = ["This room is called the kitchen. In it, you see:", *things, "In your inventory, you see:", *carried]
    return "\n".join([*lines, "Rooms seen: hallway, kitchen", "Score: 8 of 100."])


# Wordings.


def test_each_wording_is_read_as_its_own_kind():
    read = {text: parse_condition(text) for text in WORDED}
    assert {text: condition and condition[:3] for text, condition in read.items()} == WORDED
    assert parse_condition("The score is 100, and all is well.") is None


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_is_decided_or_left_open(text: str, view: str):
    assert decide_condition(text, seen()) is None
    decide_condition("The orange is in the sink.", seen(view, look=view), f"This room is called the sea. {view}")


class Outcomes(NamedTuple):
    """A condition in a wording, a view (or a reply) by which it holds, and one by which it does not."""

    condition: str
    holds: str | Observation
    fails: str | Observation


OUTCOMES = {
    "The agent is in ROOM.": Outcomes("The agent is in the kitchen.", kitchen(), seen(room="hallway")),
    "The location of THING is known.": Outcomes(
        "The location of the water is known.", kitchen("a metal pot (containing a substance called water)"), kitchen()
    ),
    "THING is in focus.": Outcomes(
        "The thermometer is in focus.", seen(room="kitchen", focus="thermometer"), seen(room="kitchen", focus="orange")
    ),
    "The inventory contains THING.": Outcomes(
        "The inventory contains the orange.", kitchen(carried=("an orange",)), kitchen("an orange")
    ),
    "THING is in ROOM.": Outcomes(
        "The stove is in the kitchen.", kitchen("a stove, which is turned off."), "This room is called the foundry.\n"
        "In your inventory, you see:\na stove",
    ),
    "THING is in THING.": Outcomes(
        "The soil is in flower pot 1.",
        kitchen("a flower pot 1 (containing a apple seed, soil, a substance called water)"),
        kitchen("a flower pot 1 (containing a substance called water)", carried=("soil",)),
    ),
    "THING is on THING.": Outcomes(
        "The metal pot is on the stove.",
        kitchen("a stove, which is turned on. On the stove is: a metal pot (containing a substance called water)."),
        kitchen("a stove, which is turned on.", carried=("a metal pot",)),
    ),
    "THING contains THING.": Outcomes(
        "The red box contains the orange.", kitchen("a red box (containing an orange)"), kitchen("a red box")
    ),
    "THING is on.": Outcomes(
        "The red light bulb is on.", kitchen("a red light bulb, which is on"), kitchen("a red light bulb, which is off")
    ),
    "THING is off.": Outcomes(
        "The stove is off.", kitchen("a stove, which is turned off."), kitchen("a stove, which is turned on.")
    ),
    "THING is open.": Outcomes(
        "The fridge is open.",
        kitchen("a fridge. The fridge door is open. In the fridge is: nothing."),
        kitchen("a fridge. The fridge door is closed."),
    ),
    "THING is closed.": Outcomes(
        "The door to the hallway is closed.", kitchen("A door to the hallway (that is closed)"),
        kitchen("A door to the hallway"),
    ),
    "THING is broken.": Outcomes(
        "The stove is broken.", seen("The stove appears broken, and can't be activated or deactivated."),
        seen("The stove is now activated."),
    ),
    "The temperature of THING was measured.": Outcomes(
        "The temperature of the water was measured.", seen(room="kitchen", measured={"water": 8.0}),
        seen(room="kitchen", measured={"orange": 8.0}),
    ),
    "The measured temperature of THING is above (or below) NUMBER.": Outcomes(
        "The measured temperature of the lead is above 8 degrees.", seen(room="kitchen", measured={"lead": 8.5}),
        seen(room="kitchen", measured={"lead": 8.0}),
    ),
}  # fmt: skip
"""Each wording that the prompts recommend -> a condition with both outcomes."""


def test_the_prompts_recommend_exactly_the_wordings_that_are_decided_either_way():
    assert re.findall(r"\b[A-Z][^.]*\b(?:ROOM|THING)\b[^.]*\.|\bTHING [^.]*\.", WORDINGS) == [*OUTCOMES]


@pytest.mark.parametrize("wording", OUTCOMES)
def test_each_recommended_wording_is_decided_either_way_with_the_worlds_words(wording: str):
    condition, *shown = OUTCOMES[wording]
    for given_, holds in zip(shown, (True, False), strict=True):
        observation, view = (seen(), given_) if isinstance(given_, str) else (given_, "")
        decision = decide_condition(condition, observation, view)
        assert decision is not None
        assert decision.holds is holds
        facts = f"the agent is in the {observation.data.get('room') or 'kitchen'}; the {observation.data.get('focus')}"
        words = f"{observation.text} {view} {facts} is in focus; no measured temperature of the water; the thermometer "
        words += f"measures a temperature of {observation.data.get('measured', {}).get('lead', 8):g} degrees celsius"
        assert decision.quote in " ".join(words.split())


# Replies, without a view.


@pytest.mark.parametrize(
    ("condition", "observation", "holds"),
    [
        ("The agent is in the kitchen.", seen(room="kitchen"), True),
        ("The agent is in the kitchen.", seen(room="hallway"), False),
        ("The agent is at the Living  Room", seen(room="living room"), True),
        ("The orange is in focus.", seen("You focus on the orange."), True),
        ("The solid unknown substance F is in focus.", seen("You focus on the solid unknown substance F."), True),
        ("The inclined plane C is in focus.", seen("You focus on the inclined plane B."), False),
        ("The pea seeds are in focus.", seen(focus="pea seed"), True),
        ("The adult wolf is in focus.", seen(focus="baby wolf"), False),
        ("The wolf is in focus.", seen(focus="baby wolf"), True),
        ("The salt water is in focus.", seen("You focus on the thermometer."), False),
        ("The orange is in focus.", seen(room="kitchen"), False),
        ("The inventory contains the orange.", seen(MOVED.format("orange", "inventory")), True),
        ("The orange is in the red box.", seen(MOVED.format("orange", "red box")), True),
        ("The location of the thermometer is known.", seen(look=ROOM.format("a thermometer, reading 10")), True),
        ("The location of the water is known.", seen(ROOM.format("a cup (containing a substance called water)")), True),
        ("The location of the tin cup is known.", seen(ROOM.format("a table. On the table is: a tin cup.")), True),
        (
            "The orange in the bowl is in focus.",
            seen(room="kitchen", focus="orange", focused_as="orange in bowl"),
            True,
        ),
        ("The drawer is open.", seen("The drawer is already open."), True),
        ("The drawer is closed.", seen("The drawer is now open."), False),
        ("The sink is on.", seen("The sink is now deactivated."), False),
    ],
)
def test_what_is_named_in_the_worlds_own_words_is_decided_with_the_words(
    condition: str, observation: Observation, holds: bool
):
    decision = decide_condition(condition, observation)
    assert decision is not None
    assert decision.holds is holds
    shown = f"{observation.text} {observation.data.get('look', '')} the agent is in the {observation.data.get('room')}"
    shown += f" the {observation.data.get('focus')} is in focus; nothing is in focus"
    assert decision.quote in " ".join(shown.split())


@pytest.mark.parametrize(
    ("condition", "observation"),
    [
        # what the review of word overlap found
        ("The salt water has been made.", seen("You teleport to the kitchen.", look=ROOM.format("a recipe"))),
        ("The salt water has been made.", seen("The recipe reads: to make salt water, you need to mix salt, water.")),
        ("The location of the metal pot is known.", seen("I don't see a metal pot.")),
        ("The blue box or the orange box is in focus.", seen("You focus on the thermometer.")),
        ("The green-blue paint has been made.", seen("The paints mix to produce green paint.")),
        # a part of a name, a kind, or a name that the world does not have
        ("The location of the pot is known.", seen(look=ROOM.format("a metal pot (containing nothing)"))),
        ("The location of the wood is known.", seen(look=ROOM.format("a wood cup (containing nothing)"))),
        ("The location of the plant is known.", seen(new_room=True, look=ROOM.format("a peach tree"))),
        ("The inventory contains the plant.", seen(MOVED.format("peach tree", "inventory"))),
        ("The inventory contains the box.", seen(MOVED.format("red box", "inventory"))),
        ("The inventory contains the metal pot with boiling water.", seen(MOVED.format("metal pot", "inventory"))),
        ("The orange is in the red box or the green box.", seen(MOVED.format("orange", "green box"))),
        ("The living thing is in focus.", seen(focus="orange")),
        ("The animal with the longest life span is in focus.", seen(focus="giant tortoise")),
        ("The box is in focus.", seen(focus="red box")),
        ("The red apple is in focus.", seen(focus="apple")),
        ("The orange in the bowl is in focus.", seen(focus="orange")),
        ("The temperature of the substance was measured.", seen(room="kitchen", measured={"lead": 8.0})),
        ("The temperature of the pot was measured.", seen(room="kitchen", measured={"metal pot": 8.0})),
        ("The temperature of the water was measured.", seen()),
        # what held before the action may still hold
        ("The orange is in focus.", seen("You look at the orange.")),
        ("The orange is in focus.", seen("The episode is over.", room="kitchen", done=True)),
        ("The inventory contains the orange.", seen(MOVED.format("lighter", "inventory"))),
        ("The inventory contains the orange.", seen("It's not clear how to do that.", result="failed")),
        ("The orange is in the red box.", seen(MOVED.format("orange", "fridge"))),
        ("The stove is broken.", seen("The stove is not something that can be activated.")),
        ("The world is at peace with itself.", seen(room="kitchen", new_room=True)),
        # nothing is known without a view
        ("The location of the water is known.", seen(room="kitchen")),
        ("The inventory contains the water.", seen(room="kitchen")),
        ("The stove is on.", seen(room="kitchen")),
    ],
)
def test_all_else_is_left_to_a_model(condition: str, observation: Observation):
    assert decide_condition(condition, observation) is None


# Views.

VIEW = """\
This room is called the kitchen. In it, you see:
a counter. On the counter is: a bowl (containing a red apple, a banana), a drawer.
a cupboard. The cupboard door is closed.
a fridge. The fridge door is open. In the fridge is: a wood cup (containing an orange, a tin cup (containing soil)).
a freezer, which is turned off. The freezer door is closed.
a glass cup (containing a substance called lead)
a light bulb, which is on
a light bulb, which is off
unknown substance B
a oven, which is turned off. The oven door is closed.
a stove, which is turned on. On the stove is: a metal pot (containing a substance called water), a ceramic cup.
a wood cup (containing red paint)
a seed jar (containing a round orange pea seed, a wrinkly green pea seed)
a flower pot 1 (containing a pea plant in the adult stage. On the pea plant you see: a purple flower. , soil)
a flower pot 3 (containing a apple tree in the seedling stage with a tall height, a apple tree in the adult stage, soil)
a bed. On the bed is: a mattress. On the mattress is: a white pillow., an axe.
an inclined plane B, with: a wood block approximately 17% down the plane
a adult wolf
a black wire. its terminal 1 is connected to: nothing. its terminal 2 is connected to: nothing.
A door to the hallway
A door to the outside (that is closed)
A recipe titled instructions to make salt water
In your inventory, you see:
a jug (containing blue paint, liquid soap)
an orange
a thermometer, currently reading a temperature of 10 degrees celsius
unknown substance A
Rooms seen: kitchen
"""
IN_INVENTORY = "In your inventory, you see: "


@pytest.mark.parametrize(
    ("condition", "quote"),
    [
        ("The location of the lead is known.", "a substance called lead"),
        ("The location of the orange is known.", "an orange"),
        ("The location of unknown substance B is known.", "unknown substance B"),
        ("The inventory contains an orange.", "an orange"),
        ("The inventory contains unknown substance A.", "unknown substance A"),
        ("The inventory contains the blue paint.", "a jug (containing blue paint"),  # in what is carried
        ("The ceramic cup is on the stove.", "On the stove is:"),
        ("The water is in the metal pot.", "a metal pot (containing a substance called water)"),
        ("The water is on the stove.", "On the stove is:"),  # in its pot
        ("The soil is in the fridge.", "In the fridge is:"),
        ("The axe is on the bed.", "an axe"),
        ("The pillow is on the mattress.", "a white pillow"),
        ("The wood block is on inclined plane B.", "an inclined plane B"),
        ("The flower is in flower pot 1.", "a purple flower"),
        ("The orange is in the kitchen.", "In the fridge is:"),
        ("The thermometer is in the kitchen.", "a thermometer"),
        ("The stove is turned on.", "a stove, which is turned on"),
        ("The oven is turned off.", "a oven, which is turned off"),
        ("The fridge is on.", "a fridge."),  # it would say if it were off
        ("The freezer is off.", "a freezer, which is turned off"),
        ("The oven is closed.", "The oven door is closed"),
        ("The door to the hallway is open.", "A door to the hallway"),
        # names: capitals, articles, plurals, descriptions, states and stages
        ("unknown SUBSTANCE b is in view", "unknown substance B"),
        ("the Metal Pot contains Water", "a metal pot"),
        ("Some lead is in a glass cup", "a glass cup"),
        ("The location of the pea seeds is known.", "pea seed"),
        ("The pea seeds are in the seed jar.", "a seed jar"),
        ("The round orange pea seed is in the seed jar.", "a seed jar"),
        ("The apple is in the bowl.", "a red apple"),
        ("The soap is in the jug.", "liquid soap"),
        ("The location of the adult pea plant is known.", "a pea plant in the adult stage"),
        ("The pea plant in the adult stage is in flower pot 1.", "a pea plant in the adult stage"),
        ("The apple trees are in flower pot 3.", "a apple tree in the seedling stage"),
        ("The wolf is in view.", "a adult wolf"),
        ("The recipe is visible.", "A recipe"),
        # what says which thing is meant
        ("The wood cup containing red paint is in the kitchen.", "a wood cup (containing red paint)"),
        ("The orange in the wood cup is in the fridge.", "In the fridge is:"),
        ("The tin cup is in the wood cup in the fridge.", "In the fridge is:"),
        ("The inventory contains a jug (containing liquid soap and blue paint).", "a jug"),
    ],
)
def test_what_the_view_lists_is_confirmed_with_its_words(condition: str, quote: str):
    decision = decide_condition(condition, seen(), VIEW)
    assert decision is not None
    assert decision.holds
    assert quote in decision.quote
    assert decision.quote.removeprefix(IN_INVENTORY) in VIEW


@pytest.mark.parametrize(
    "condition",
    [
        "The location of the toilet is known.",
        "The location of the baby wolf is known.",
        "The location of the reproducing apple tree is known.",
        "The red box is in view",
        "The inventory contains the lead.",
        "The inventory contains unknown substance B.",
        "The agent has the axe.",
        "The oven is switched on.",
        "The stove is off.",
        "The fridge is closed.",
        "The door to the outside is open.",
        "The thermometer is on the stove.",  # there is one, and it is carried
        "The wood block is in the workshop.",
        "The axe is in the cupboard.",
        "The unknown substance B is on the stove.",
        "The lead is on inclined plane B.",
        "The wood cup containing green paint is in sight.",
        "The agent is in the hallway.",
        "The wood is in the fridge.",  # a wood cup is
        "The seed jar contains the purple pea seed.",
    ],
)
def test_what_the_view_excludes_is_denied_with_its_words(condition: str):
    decision = decide_condition(condition, seen(), VIEW)
    assert decision is not None
    assert not decision.holds
    assert decision.quote.removeprefix("the agent is in the ") in " ".join(VIEW.split())


@pytest.mark.parametrize(
    "condition",
    [
        "The inventory contains the cup.",
        "The fork is in the cupboard.",  # closed
        "The tin cup is in the cupboard.",  # there may be another one
        "The light bulb is on.",  # which of the two?
        "The red light bulb is on.",
        "The freezer is broken.",
        "The drawer is open.",
        "The seed jar is open.",
        "The pea seed is in the drawer.",
        "The location of the fork is known.",  # not a full name
        "The location of the unknown substance is known.",
        "The location of the cup is known.",
        "The pea is in sight.",  # one that is ripe is shown as a pea seed
        "The location of the animal is known.",
        "The inventory contains the substance.",
        "The location of the salt water is known.",  # the recipe is about it, but it is not its name
        "The heat source is in the kitchen.",
        "The metal is in the glass cup.",
        "The thermometer is in use.",
        "The thermometer is in the best place.",
        "The wood cup containing something is in the fridge.",
        "The inventory contains the oranges.",  # one is no plural
        "The soil is in flower pot 2.",  # not in view
        "The orange is in the hallway.",
        "The stove is in the room.",
        "The pea seed is in flower pot 1.",  # is its plant still one?
        "The reproducing apple tree is in flower pot 3 in the red box.",
        "The green paint has been made.",
    ],
)
def test_what_the_view_does_not_settle_is_left_to_a_model(condition: str):
    assert decided(condition, view=VIEW) is None


@pytest.mark.parametrize(
    "condition",
    [
        "The stove is not on.",
        "The agent is not in the hallway.",
        "The stove is no longer on.",
        "It is not true that the stove is on.",
        "The stove is on or the agent is in the hallway.",
        "Either the stove or the oven is on.",
        "Neither the stove nor the oven is on.",
        "The stove is on if the oven is on.",
        "The stove is on and hot.",
        "The stove is on, and everything is well.",
        "The agent is in the kitchen and not in the hallway.",
        "The agent is in the kitchen and holds a fork.",
        "The agent is in the kitchen or the hallway and the stove is on.",
        "The water was in the metal pot.",
        "The water is almost in the metal pot.",
        "The water is in the metal pot again.",
        "Nothing is in the fridge.",
        "The fridge contains nothing.",
        "No water is in the metal pot.",
        "All pea seeds are in the seed jar.",
        "At least three pea seeds are in the seed jar.",
        "Only the water is in the metal pot.",
        "The agent has read the recipe.",
        "The agent has the axe no longer.",
    ],
)
def test_a_sentence_that_says_more_than_a_wording_is_left_to_a_model(condition: str):
    assert decided(condition, view=VIEW) is None


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("The location of the lead and of the axe is known.", True),
        ("The inventory contains the orange and the thermometer.", True),
        ("The inventory contains the jug, the orange, and unknown substance A.", True),
        ("The red paint and the blue paint are in the kitchen.", True),
        ("The agent is in the kitchen and the stove is on.", True),
        ("The metal pot contains water, and the metal pot is on the stove.", True),
        ("The inventory contains the orange and the axe.", False),
        ("The agent is in the kitchen and the oven is on.", False),
        ("The agent is in the hallway and the light bulb is on.", False),
        ("The agent is in the kitchen and the light bulb is on.", None),
        ("The inventory contains the orange and the cup.", None),
    ],
)
def test_joined_conditions_hold_if_each_does_and_fail_if_one_does(condition: str, holds: bool | None):
    assert decided(condition, view=VIEW) is holds


def test_the_quote_of_joined_conditions_has_the_words_for_each():
    decision = decide_condition("The inventory contains the orange and the stove is on.", seen(), VIEW)
    assert decision and decision.quote.startswith(f"{IN_INVENTORY}an orange; a stove, which is turned on.")


@pytest.mark.parametrize(
    ("condition", "view", "holds"),
    [
        # the same name twice
        ("The light bulb is on.", kitchen("a light bulb, which is on", "a light bulb, which is on"), True),
        ("The sink contains the jug.", kitchen("a sink, which is turned on. In the sink is: nothing.", "a jug"), False),
        ("The sink contains the jug.", kitchen("a sink, which is turned on. In the sink is: nothing."), None),
        ("The orange is in the bowl.", kitchen("a bowl", "an orange"), False),
        ("The orange is in the bowl.", kitchen("a bowl"), None),
        ("The orange is in the bowl.", kitchen("a bowl", "an orange", "a oven. The oven door is closed."), None),
        ("The pea seeds are in flower pot 1.", kitchen("a flower pot 1 (containing a pea seed, a pea seed)"), True),
        ("The pea seeds are in flower pot 1.", kitchen("a flower pot 1 (containing a pea seed)"), None),
        ("The pea seeds are in flower pot 1.", kitchen("a flower pot 1 (containing soil)"), False),
        # ice and steam are water
        ("The location of the water is known.", kitchen("a metal pot (containing a substance called ice)"), None),
        ("The location of the ice is known.", kitchen("a metal pot (containing a substance called water)"), False),
        ("The location of the butterfly is known.", kitchen("a caterpillar"), None),
        # closed things, and drawers, may contain anything
        ("The inventory contains the axe.", kitchen(carried=("a fridge. The fridge door is closed.",)), None),
        ("The axe is in the cupboard.", kitchen("a cupboard. The cupboard door is open. In the cupboard is: a drawer."),
         None),
        # a table that is carried is shown with its things on lines of their own, like other carried things
        ("The axe is on the table.", kitchen(carried=("a table. On the table is:", "an axe")), None),
        ("The inventory contains the axe.", kitchen(carried=("a table. On the table is:", "an axe")), True),
        ("The axe is on the bed.", kitchen("a bed.", carried=("a table. On the table is:", "an axe")), False),
        # fire, and full stops of things in lists
        ("The orange is on the chair.", kitchen("a chair (on fire). On the chair (on fire) is: an orange."), True),
        ("The axe is in the jug.", kitchen("a jug (containing a fridge. The fridge door is closed. , an axe)"), True),
        ("The axe is on the desk.", kitchen("a desk. On the desk is: a chair., an axe."), True),
    ],
)  # fmt: skip
def test_views_are_read_as_the_world_means_them(condition: str, view: str, holds: bool | None):
    assert decided(condition, view=view) is holds


def test_what_an_answer_mentions_is_not_denied():
    assert decided("The location of the water is known.", view=kitchen()) is False
    assert decided("The location of the water is known.", seen("The water drains away."), kitchen()) is None


def test_the_view_is_newer_than_the_reply():
    moved, elsewhere = seen(MOVED.format("orange", "inventory")), kitchen("an orange")
    assert decided("The inventory contains the orange.", moved) is True
    assert decided("The inventory contains the orange.", moved, elsewhere) is None
    assert decided("The inventory contains the orange.", view=elsewhere) is False


@pytest.mark.parametrize("view", ["", "Rooms seen: kitchen", "This room is called the kitchen. In it, you see:"])
def test_an_inventory_that_is_not_shown_is_not_empty(view: str):
    assert decided("The inventory contains the orange.", seen(room="kitchen", done=True), view) is None


def test_nothing_is_denied_by_a_view_that_shows_nothing():
    for condition in ("The location of the orange is known.", "The orange is in the red box.", "The stove is on."):
        assert decided(condition, seen("The episode is over.", room="kitchen", done=True), "") is None


@pytest.mark.parametrize(
    ("condition", "hive", "holds"),
    [
        ("The red apple is in the greenhouse.", "open", False),
        ("The red apple is in the greenhouse.", "closed", None),  # it may be in there
        ("The jug is in the greenhouse.", "closed", True),
        ("The orange is in the greenhouse.", "closed", True),  # the agent carries it
        ("The red apple is in the kitchen.", "open", None),
        ("The location of the flower is known.", "open", False),  # a flower pot is no flower
        ("Flower pot 1 contains an adult pea plant.", "closed", False),
        ("Flower pot 1 contains a round orange pea seed.", "closed", True),
    ],
)
def test_what_an_open_room_does_not_show_is_not_there(condition: str, hive: str, holds: bool | None):
    view = f"""This room is called the greenhouse. In it, you see:
a bee hive. The bee hive door is {hive}. {"In the bee hive is: nothing." if hive == "open" else ""}
a flower pot 1 (containing a round orange pea seed, soil)
a jug
In your inventory, you see:
an orange
Rooms seen: greenhouse
"""
    assert decided(condition, view=view) is holds
