"""TextWorld's texts as factored states: objectives, observations, cookbooks, and the published wordings."""

import pytest

from certigraph.benchmarks.textworld.factors import QuestStep, TextWorldFactors, parse_objective, parse_recipe
from certigraph.state.rewards import FactoredState

QUEST = (
    "Welcome to TextWorld! First of all, pick up the type T keycard from the floor of the cellar. After that, check "
    "that the cuboid chest within the cellar is unlocked with the type T keycard. Once you have unlocked the cuboid "
    "chest, make sure that the cuboid chest is wide open. Then, take the knife from the cuboid chest. Okay, and then, "
    "put the knife on the board inside the cellar. Got that? Good!"
)
STEPS = [
    ("take type T keycard", "You pick up the type T keycard from the ground."),
    (
        "unlock cuboid chest with type T keycard",
        "(the cuboid chest with the type T keycard)\nYou unlock the cuboid chest.",
    ),
    ("open cuboid chest", "You open the cuboid chest, revealing a potato and a knife."),
    ("take knife from cuboid chest", "(the cuboid chest)\nYou take the knife from the cuboid chest."),
    ("put knife on board", "You put the knife on the board.\n\n*** The End ***"),
]
COOK = "You are hungry! Let's cook a delicious meal. Check the cookbook in the kitchen for the recipe."
RECIPE = (
    "Recipe #1\n---------\nGather all.\n\nIngredients:\nred apple\n\n"
    "Directions:\nslice the red apple\n  fry the red apple\n  prepare meal\n"
)


def reached(goal: str, steps: list[tuple[str, str]]) -> list[int]:
    """After each step, how many entities of the goal are in the state as the goal wants them."""
    reading, state, wanted = TextWorldFactors(), FactoredState(), FactoredState()
    counts = []
    for action, observation in steps:
        state = reading.extract(state, goal, action, observation)
        wanted = reading.interpret(goal, state, wanted)
        counts.append(sum(state.get(entity.identity) == entity for entity in wanted.entities))
    return counts


def test_an_objective_is_read_instruction_by_instruction():
    assert parse_objective(QUEST) == (
        QuestStep("take", "type t keycard", "floor of the cellar"),
        QuestStep("unlock", "cuboid chest", "type t keycard"),
        QuestStep("open", "cuboid chest"),
        QuestStep("take", "knife", "cuboid chest"),
        QuestStep("put", "knife", "board"),
    )


@pytest.mark.parametrize(
    ("text", "wishes"),
    [
        ("Retrieve the shoe from the safe and place it on the table.", [("take", "shoe"), ("put", "shoe")]),
        ("Then, insert the key into the box inside the pantry's lock to unlock it.", [("unlock", "box")]),
        ("First, venture north. And then, take a trip north. That done, lift the coin from the floor.",
         [("go", "north"), ("go", "north"), ("take", "coin")]),
        ("After that, drop the glove on the floor of the cellar.", [("drop", "glove")]),
        ("You are playing a profound game of TextWorld!", []),
    ],
)  # fmt: skip
def test_wordings_of_instructions(text: str, wishes: list[tuple[str, str]]):
    assert [(wish.kind, wish.thing) for wish in parse_objective(text)] == wishes


def test_each_step_of_the_quest_brings_one_thing_about():
    assert reached(QUEST, STEPS) == [1, 2, 3, 4, 5]


def test_what_does_not_serve_the_goal_brings_nothing_about():
    idle = [
        ("examine board", "The board is stable."),
        ("inventory", "You are carrying: a mop."),
        ("put mop on board", "You put the mop on the board."),
    ]
    assert reached(QUEST, idle) == [0, 0, 0]


def test_things_are_known_by_place_and_state():
    reading, state = TextWorldFactors(), FactoredState()
    for action, observation in STEPS[:3]:
        state = reading.extract(state, QUEST, action, observation)
    potato, chest = state.get("potato"), state.get("cuboid chest")
    assert potato and potato.attributes["location"] == "in the cuboid chest"
    assert chest and chest.attributes["lock"] == "unlocked"


def test_a_way_is_followed_and_a_wrong_turn_is_not_progress():
    goal = "First, go east. And then, head north. Then, take the coin from the floor of the attic."
    way = [
        ("go west", "-= Hall =-\nYou are in a hall."),
        ("go east", "-= Attic =-\nYou are back."),
        ("go east", "-= Bar =-\nA bar."),
        ("go north", "-= Office =-\nAn office."),
        ("take coin", "You pick up the coin from the ground."),
    ]
    assert reached(goal, way) == [0, 0, 1, 2, 3]
    assert reached(goal, [("go east", "You can't go that way.")]) == [0]


def test_a_way_back_counts_once_its_errand_is_done():
    goal = "First, go south. And then, take the key from the bowl. Then, go north. Then, open the box."
    way = [
        ("look", "-= Hall =-\nA hall."),
        ("go south", "-= Bar =-\nA bar."),
        ("take key from bowl", "You take the key from the bowl."),
        ("go north", "-= Hall =-\nA hall."),
        ("open box", "You open the box."),
    ]
    assert reached(goal, way) == [0, 1, 2, 3, 4]


def test_a_dish_is_known_once_the_cookbook_is_read():
    reading, state = TextWorldFactors(), FactoredState()
    before = reading.interpret(COOK, state, state)
    assert before.get("take red apple") is None and before.get("eat meal")
    state = reading.extract(state, COOK, "examine cookbook", RECIPE)
    after = reading.interpret(COOK, state, before)
    assert after.get("take red apple") and after.get("fry red apple")
    assert parse_recipe(RECIPE)[2:4] == (QuestStep("slice", "red apple"), QuestStep("fry", "red apple"))


def test_cooking_goes_on_to_the_meal():
    steps = [
        ("examine cookbook", RECIPE),
        ("open fridge", "You open the fridge, revealing a sliced red apple and some milk."),
        ("take red apple from fridge", "You take the red apple from the fridge."),
        ("cook red apple with stove", "You fried the red apple."),
        ("prepare meal", "Adding the meal to your inventory."),
        ("eat meal", "You eat the meal. Not bad."),
    ]
    counts = reached(COOK, steps)
    assert counts == sorted(counts) and counts[-1] == 6 and counts[0] == 1
