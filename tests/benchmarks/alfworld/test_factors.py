"""ALFWorld's text as factored states, in the wordings of both releases."""

import pytest

from certigraph.benchmarks.alfworld.factors import AlfworldFactors, AlfworldGoal, parse_goal
from certigraph.state.rewards import FactoredState

Steps = tuple[tuple[str, str], ...]

FACTORS = AlfworldFactors()

HEATING = (
    ("go to cabinet 1", "You arrive at loc 3. The cabinet 1 is closed."),
    ("go to garbagecan 1", "You arrive at loc 31. On the garbagecan 1, you see a apple 2, a apple 1, and a egg 2."),
    ("take apple 2 from garbagecan 1", "You pick up the apple 2 from the garbagecan 1."),
    ("go to microwave 1", "You arrive at loc 17. The microwave 1 is closed."),
    ("heat apple 2 with microwave 1", "You heat the apple 2 using the microwave 1."),
    ("go to fridge 1", "You arrive at loc 30. The fridge 1 is closed."),
    ("open fridge 1", "You open the fridge 1. The fridge 1 is open. In it, you see a bread 3, and a tomato 1."),
    ("put apple 2 in/on fridge 1", "You put the apple 2 in/on the fridge 1."),
)
PUBLISHED = (
    ("go to dresser 1", "You arrive at dresser 1. On the dresser 1, you see a bowl 1, a cd 2, and a pen 1."),
    ("take cd 2 from dresser 1", "You pick up the cd 2 from the dresser 1."),
    ("go to safe 1", "You arrive at safe 1. The safe 1 is closed."),
    ("open safe 1", "You open the safe 1. The safe 1 is open. In it, you see nothing."),
    ("move cd 2 to safe 1", "You move the cd 2 to the safe 1."),
)
LIT = (
    ("go to bed 1", "You arrive at loc 13. On the bed 1, you see a book 1, and a laptop 1."),
    ("take book 1 from bed 1", "You pick up the book 1 from the bed 1."),
    ("go to desk 1", "You arrive at loc 14. On the desk 1, you see a desklamp 1, and a keychain 2."),
    ("use desklamp 1", "You turn on the desklamp 1."),
)


def followed(goal: str, steps: Steps) -> list[tuple[FactoredState, FactoredState]]:
    states, state, wanted = [], FactoredState(), FactoredState()
    for action, observation in steps:
        state = FACTORS.extract(state, goal, action, observation)
        wanted = FACTORS.interpret(goal, state, wanted)
        states.append((state, wanted))
    return states


def fulfilled(state: FactoredState, wanted: FactoredState) -> int:
    """How many of the attributes that are wanted a thing of that name has."""
    found = ((goal.attributes, state.get(goal.identity)) for goal in wanted.entities)
    return sum(
        has.attributes.get(name) == value for attributes, has in found if has for name, value in attributes.items()
    )


@pytest.mark.parametrize(
    ("goal", "steps", "counts"),
    [
        ("heat some apple and put it in fridge", HEATING, [0, 1, 2, 3, 4, 5, 6, 7]),
        ("put some cd on safe.", PUBLISHED, [1, 2, 3, 4, 5]),
        ("look at book under the desklamp", LIT, [1, 2, 3, 4]),
    ],
)
def test_every_step_of_an_expert_fulfils_one_thing_more(
    goal: str, steps: tuple[tuple[str, str], ...], counts: list[int]
):
    states = followed(goal, steps)
    assert [fulfilled(state, wanted) for state, wanted in states] == counts
    assert counts[-1] == sum(len(entity.attributes) for entity in states[-1][1].entities)


def test_what_is_not_described_is_remembered_and_what_is_no_longer_there_is_unknown():
    state, _ = followed("put a egg in fridge", HEATING)[-1]
    seen = {entity.identity: entity.attributes for entity in state.entities}
    assert seen["agent"] == {"location": "fridge 1", "holding": "nothing"}
    assert seen["apple 2"] == {"location": "fridge 1", "temperature": "hot"}
    assert (seen["cabinet 1"], seen["fridge 1"]) == ({"door": "shut"}, {"door": "open"})
    assert seen["egg 2"]["location"] == "garbagecan 1"
    back = FACTORS.extract(
        state, "", "go to garbagecan 1", "You arrive at loc 31. On the garbagecan 1, you see nothing."
    )
    gone = back.get("egg 2")
    assert gone and gone.attributes["location"] == "unknown"


def test_a_thing_put_down_elsewhere_or_untreated_is_not_delivered():
    goal = "put a hot apple in fridge"
    steps = (*HEATING[1:3], *HEATING[5:])
    assert [fulfilled(state, wanted) for state, wanted in followed(goal, steps)] == [1, 2, 2, 2, 1]


def test_the_goal_is_anchored_to_the_things_that_came_furthest():
    states = followed("heat some apple and put it in fridge", HEATING)
    assert [wanted.entities[0].identity for _, wanted in states[:4]] == ["apple", "apple 2", "apple 2", "apple 2"]
    two = followed("find two cd and put them in safe", PUBLISHED)
    assert [entity.identity for entity in two[-1][1].entities] == ["cd 2", "second cd"]


@pytest.mark.parametrize(
    ("goal", "identity"), [("put a hot apple in fridge", "apple"), ("Hold the clock.", "Hold the clock.")]
)
def test_where_nothing_is_known_the_kind_or_the_text_is_what_is_wanted(goal: str, identity: str):
    wanted = FACTORS.interpret(goal, FactoredState(), FactoredState())
    assert [entity.identity for entity in wanted.entities] == [identity]


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("put some alarmclock on desk.", AlfworldGoal("alarmclock", place="desk")),
        ("examine the cd with the desklamp", AlfworldGoal("cd", lamp="desklamp")),
        ("look at cd under the desklamp.", AlfworldGoal("cd", lamp="desklamp")),
        ("put a clean egg in garbagecan.", AlfworldGoal("egg", treatment="clean", place="garbagecan")),
        ("cool some cup and put it in cabinet.", AlfworldGoal("cup", treatment="cool", place="cabinet")),
        ("put a hot cup in shelf.", AlfworldGoal("cup", treatment="heat", place="shelf")),
        ("put two book in desk.", AlfworldGoal("book", 2, place="desk")),
        ("find two box and put them in coffeetable.", AlfworldGoal("box", 2, place="coffeetable")),
        ("Hold the clock and turn on the lamp.", None),
    ],
)
def test_goals_are_read_from_their_templates(text: str, goal: AlfworldGoal | None):
    assert parse_goal(text) == goal
