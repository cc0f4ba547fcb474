"""Tests of the rules that decide ScienceWorld's conditions: never wrongly, else not at all."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certigraph.benchmarks.scienceworld.conditions import decide_condition, parse_condition
from certigraph.state.records import Observation

WORDED = {
    "The agent is in the kitchen.": ("be", "", "kitchen"),
    "The location of the plant is known.": ("found", "plant", ""),
    "The plant is in focus.": ("focus", "plant", ""),
    "The inventory contains the orange.": ("have", "orange", ""),
    "The orange is in the red box.": ("placed", "orange", "red box"),
    "The green paint has been made.": ("made", "green paint", ""),
    "The stove is turned on.": ("on", "stove", ""),
    "The sink is deactivated": ("off", "sink", ""),
}
ROOM = "This room is called the kitchen. In it, you see: \n\t{}\nYou also see:\n\tA door to the hallway"
MOVED = "You move the {} to the {}."


def seen(text: str = "You wonder.", **data: Any) -> Observation:
    return Observation(text=text, data={"score": 8, "result": "accepted", **data})


def test_each_wording_is_read_as_its_own_kind():
    assert {text: parse_condition(text) for text in WORDED} == WORDED
    assert parse_condition("The score is 100, and all is well.") is None


@given(st.text(max_size=200))
def test_any_text_is_decided_or_left_open(text: str):
    assert decide_condition(text, seen()) is None


@pytest.mark.parametrize(
    ("condition", "observation", "holds"),
    [
        ("The agent is in the kitchen.", seen(room="kitchen"), True),
        ("The agent is in the kitchen.", seen(room="hallway"), False),
        ("The agent is at the Living  Room", seen(room="living room"), True),
        ("The orange is in focus.", seen("You focus on the orange."), True),
        ("The inventory contains the orange.", seen(MOVED.format("orange", "inventory")), True),
        ("The orange is in the red box.", seen(MOVED.format("orange", "red box")), True),
        ("The location of the thermometer is known.", seen(look=ROOM.format("a thermometer, reading 10")), True),
        ("The location of the water is known.", seen(ROOM.format("a cup (containing a substance called water)")), True),
        ("The location of the tin cup is known.", seen(ROOM.format("a table. On the table is: a tin cup.")), True),
    ],
)
def test_what_is_named_in_the_worlds_own_words_is_decided_with_the_words(
    condition: str, observation: Observation, holds: bool
):
    decision = decide_condition(condition, observation)
    assert decision is not None
    assert decision.holds is holds
    shown = f"{observation.text} {observation.data.get('look', '')} the agent is in the {observation.data.get('room')}"
    assert decision.quote in " ".join(shown.split())


@pytest.mark.parametrize(
    ("condition", "observation"),
    [
        # what the review of word overlap found
        ("The salt water has been made.", seen("You teleport to the kitchen.", look=ROOM.format("a recipe"))),
        ("The salt water has been made.", seen("The recipe reads: to make salt water, you need to mix salt, water.")),
        ("The salt water is in focus.", seen("You focus on the thermometer.")),
        ("The location of the metal pot is known.", seen("I don't see a metal pot.")),
        ("The chocolate is in focus.", seen("You focus on the thermometer.")),
        ("The blue box or the orange box is in focus.", seen("You focus on the thermometer.")),
        ("The green-blue paint has been made.", seen("The paints mix to produce green paint.")),
        # a part of a name, a kind, or more than one condition
        ("The location of the pot is known.", seen(look=ROOM.format("a metal pot (containing nothing)"))),
        ("The location of the wood is known.", seen(look=ROOM.format("a wood cup (containing nothing)"))),
        ("The location of the plant is known.", seen(new_room=True, look=ROOM.format("a peach tree"))),
        ("The inventory contains the plant.", seen(MOVED.format("peach tree", "inventory"))),
        ("The inventory contains the box.", seen(MOVED.format("red box", "inventory"))),
        ("The inventory contains the metal pot with boiling water.", seen(MOVED.format("metal pot", "inventory"))),
        ("The agent is in the kitchen and the stove is on.", seen(room="kitchen")),
        ("The orange is in the red box or the green box.", seen(MOVED.format("orange", "green box"))),
        # what held before the action may still hold
        ("The orange is in focus.", seen("You look at the orange.")),
        ("The inventory contains the orange.", seen(MOVED.format("lighter", "inventory"))),
        ("The inventory contains the orange.", seen("It's not clear how to do that.", result="failed")),
        ("The orange is in the red box.", seen(MOVED.format("orange", "fridge"))),
        ("The world is at peace with itself.", seen(room="kitchen", new_room=True)),
    ],
)
def test_all_else_is_left_to_a_model(condition: str, observation: Observation):
    assert decide_condition(condition, observation) is None


VIEW = """\
This room is called the kitchen. In it, you see:
a cupboard. The cupboard door is closed.
a fridge. The fridge door is open. In the fridge is: a wood cup (containing a red apple, a bag (containing a nut)).
a glass cup (containing a substance called lead)
a light bulb, which is on
a light bulb, which is off
unknown substance B
a oven, which is turned off. The oven door is closed.
a stove, which is turned on. On the stove is: a metal pot (containing a substance called water), a tin cup.
In your inventory, you see:
a ceramic cup (containing a substance called soap)
an orange
unknown substance A
Rooms seen: kitchen
"""


@pytest.mark.parametrize(
    ("condition", "holds", "quote"),
    [
        ("The location of the lead is known.", True, "a substance called lead"),
        ("The location of the orange is known.", True, "an orange"),
        ("The inventory contains an orange.", True, "an orange"),
        ("The inventory contains unknown substance A.", True, "unknown substance A"),
        ("The location of unknown substance B is known.", True, "unknown substance B"),
        ("The tin cup is on the stove.", True, "On the stove is:"),
        ("The water is in the metal pot.", True, "a metal pot (containing a substance called water)"),
        ("The wood cup is in the fridge.", True, "In the fridge is:"),
        ("The stove is turned on.", True, "a stove, which is turned on"),
        ("The oven is switched on.", False, "a oven, which is turned off"),
        ("The oven is turned off.", True, "a oven, which is turned off"),
    ],
)
def test_what_the_view_lists_is_decided_with_its_words(condition: str, holds: bool, quote: str):
    decision = decide_condition(condition, seen(), VIEW)
    assert decision is not None
    assert decision.holds is holds
    assert quote in decision.quote
    assert decision.quote.removeprefix("In your inventory, you see: ") in VIEW


@pytest.mark.parametrize(
    "condition",
    [
        "The inventory contains the soap.",  # its cup is carried
        "The inventory contains the lead.",
        "The inventory contains the cup.",
        "The lead is in the metal pot.",
        "The lead is in the tin cup.",
        "The tin cup is in the fridge.",
        "The water is on the stove.",  # its pot is; whether that is meant is not a matter of words
        "The nut is in the fridge.",
        "The bag is in the fridge.",
        "The apple is in the wood cup.",
        "The fork is in the cupboard.",  # closed
        "The light bulb is on.",  # which of the two?
        "The freezer is turned on.",
        "The location of the fork is known.",
        "The location of the unknown substance is known.",
        "The inventory contains unknown substance B.",
    ],
)
def test_what_the_view_does_not_list_under_that_name_is_left_to_a_model(condition: str):
    assert decide_condition(condition, seen(), VIEW) is None
