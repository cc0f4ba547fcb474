"""Tests of reading the simulator's state, and the audit of the rules against it in the simulator itself."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers.worlds.recorded_benchmark import gold_recordings
from helpers.worlds.recorded_worlds import create_replay_world, recorded_setting

from certigraph.benchmarks.scienceworld.conditions import parse_condition
from certigraph.benchmarks.scienceworld.objects import (
    MAX_ACTIONS,
    WorldObject,
    WorldState,
    parse_focus,
    read_world,
    select_states,
)
from certigraph.benchmarks.scienceworld.world import ScienceWorld
from certigraph.state.records import Action

ROOT = Path(__file__).parents[3]


def thing(name: str, *contents: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return {"name": name, "contents": {part["name"]: part for part in contents}, **properties}


CLOSED = {"propContainer": {"isOpen": False}}
GLASS = {"propMaterial": {"substanceName": "glass"}}
WORLD = read_world(
    thing(
        "universe",
        thing(
            "kitchen",
            thing("cupboard", thing("tin cup"), **CLOSED),
            thing("glass jar", thing("salt"), **CLOSED, **GLASS),
            thing("table", thing("bowl", thing("orange"))),
            thing("soap", isDeleted=True),
            thing("agent", thing("inventory", thing("metal pot", thing("water")))),
        ),
        thing("hallway", thing("picture")),
    ),
    "orange",
)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("The agent is in the kitchen.", True),
        ("The agent is in the hallway.", False),
        ("The agent is in the spacecraft.", None),
        ("The orange is in focus.", True),
        ("The bowl is in focus.", False),
        ("The inventory contains the metal pot.", True),
        ("The inventory contains the water.", True),
        ("The inventory contains the orange.", False),
        ("The orange is in the bowl.", True),
        ("The orange is on the table.", True),
        ("The orange is in the kitchen.", True),
        ("The orange is in the cupboard.", False),
        ("The location of the salt is known.", True),
        ("The location of the tin cup is known.", False),
        ("The location of the picture is known.", False),
        ("The location of the soap is known.", False),
        ("The location of the living thing is known.", None),
        ("The water has been made.", True),
        ("The picture has been made.", False),
    ],
)
def test_a_condition_is_judged_by_what_there_is(condition: str, holds: bool | None):
    worded = parse_condition(condition)
    assert worded is not None
    assert WORLD.holds(worded) is holds


def device(name: str, on: bool) -> dict[str, Any]:
    return thing(name, propDevice={"isActivated": on})


def end(uuid: str, *others: str) -> dict[str, Any]:
    return thing(f"terminal {uuid}", uuid=uuid, propElectricalConnection={"connectedTo": [*others]})


def of(temperature: float, matter: str) -> dict[str, Any]:
    return {"propMaterial": {"substanceName": "water", "temperatureC": temperature, "stateOfMatter": matter}}


WORKSHOP = read_world(
    thing(
        "universe",
        thing(
            "workshop",
            thing("agent", thing("inventory")),
            device("sink", True),
            thing("drawer", propContainer={"isOpen": True, "isClosable": True}),
            thing("box", propContainer={"isOpen": True, "isClosable": False}),
            thing("battery", end("1", "2")),
            thing("red wire", end("2", "1"), end("3")),
            thing("blue wire", end("4")),
            thing("cup", thing("water", **of(37.5, "liquid"))),
        ),
        thing("kitchen", device("sink", False), device("stove", False), thing("ice", **of(-4, "solid"))),
    ),
    moves=12,
)


@pytest.mark.parametrize(
    ("condition", "holds", "shown"),
    [
        ("The sink is activated.", True, "sink in workshop, activated"),
        ("The sink is deactivated.", False, "sink in workshop, activated"),
        ("The stove is deactivated.", True, "stove in kitchen, deactivated"),
        ("The drawer is open.", True, "drawer in workshop, open"),
        ("the drawer is closed", False, "drawer in workshop, open"),
        ("The box is open.", False, "box in workshop"),
        ("The red wire is connected to the battery.", True, "red wire in workshop, connected to the battery"),
        ("The battery is connected to the red wire.", True, "battery in workshop, connected to the red wire"),
        ("The blue wire is connected to the battery.", False, "blue wire in workshop"),
        ("The water is a liquid.", True, "water in cup, liquid, 38 degrees"),
        ("The water is a gas.", False, "water in cup, liquid, 38 degrees"),
        ("The temperature of the water is above 37 degrees Celsius.", True, "water in cup, liquid, 38 degrees"),
        ("The temperature of the water is above 38 degrees Celsius.", False, "water in cup, liquid, 38 degrees"),
        ("The temperature of the ice is below -3 degrees Celsius.", True, "ice in kitchen, solid, -4 degrees"),
        ("The temperature of the drawer is below 100 degrees Celsius.", False, "drawer in workshop, open"),
        ("The temperature of the lamp is below 100 degrees Celsius.", False, "there is no lamp"),
        ("At least 12 moves have been made.", True, "moves: 12"),
        ("At least 13 moves have been made.", False, "moves: 12"),
        ("The agent is in the workshop.", True, "the agent is in the workshop"),
        ("The cup is in focus.", False, "in focus: nothing"),
        ("The water is in the cup.", True, "water in cup, liquid, 38 degrees"),
    ],
)
def test_the_state_decides_a_condition_and_says_what_it_shows(condition: str, holds: bool, shown: str):
    assert WORKSHOP.check(condition) == (holds, shown)


def made_of(name: str, substance: str, *contents: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return thing(name, *contents, propMaterial={"substanceName": substance, **properties})


def plant(name: str, kind: str, *contents: dict[str, Any]) -> dict[str, Any]:
    return thing(name, *contents, type="plant", propLife={"lifeformType": kind})


def parts(name: str, *contents: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "contents": list(contents)}


OPEN = {"propContainer": {"isOpen": True, "isClosable": True}}
HOUSE = read_world(
    parts(
        "universe",
        parts(
            "art studio",
            parts("agent", parts("inventory", thing("jug"), thing("orange"))),
            thing("large cupboard", thing("wood cup", thing("yellow paint")), **OPEN),
            parts("wood cup", thing("red paint"), thing("yellow paint")),
            thing("drawer", thing("fork"), **OPEN),
            parts("seed jar", plant("pea seed", "pea", thing("axe")), plant("pea seed", "pea")),
            parts("flower pot 1", plant("pea", "pea")),
            parts("flower pot 2", plant("pea plant", "pea", thing("flower"))),
            made_of("bowl", "wood"),
            thing("bee 0", propLife={"lifeformType": "bee"}),
            thing("butterfly", propLife={"lifeformType": "butterfly"}),
            thing("sink", propDevice={"isActivated": False, "isBroken": True}),
        ),
        parts(
            "kitchen",
            parts("metal pot", made_of("liquid chocolate", "chocolate")),
            parts("bowl", thing("orange")),
            parts("sink", thing("jug")),
            device("red light bulb", False)
            | parts("red light bulb", end("1", "2") | {"name": "anode"}, end("3") | {"name": "cathode"}),
            parts("black wire", end("2", "1") | {"name": "terminal 1"}, end("4", "5") | {"name": "terminal 2"}),
            parts("battery", end("5", "4") | {"name": "cathode"}),
            made_of("block", "steel"),
        ),
    ),
    focus="adult wolf",
)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        # names as somebody writes them
        ("the BOWL is in the Art Studio", True),
        ("wooden bowl is in art studio", None),
        ("The wood bowl is in the art studio.", True),
        ("The steel block is in the kitchen.", True),
        ("The wood block is in the kitchen.", None),
        ("The chocolate is in the metal pot.", True),
        ("The bee is in view.", True),
        ("The adult bee is in view.", None),
        ("The caterpillar is in view.", None),
        ("The adult wolf is in focus.", True),
        ("The wolf is in focus.", None),
        ("The orange is in focus.", False),
        # what says which thing is meant
        ("The wood cup containing red paint is in the art studio.", True),
        ("The wood cup containing red paint is in the large cupboard.", False),
        ("The wood cup containing yellow paint in the large cupboard is in view.", True),
        ("The wood cup (containing a red paint and a yellow paint) is in the art studio.", True),
        ("The yellow paint in the wood cup is in the large cupboard.", True),
        ("The yellow paint is in the wood cup containing red paint.", True),
        ("The jug in the inventory is in view", True),
        # plurals, and joined conditions
        ("The pea seeds are in the seed jar.", True),
        ("The pea seeds are in flower pot 2.", None),
        ("The wood cups are in the large cupboard.", None),
        ("The inventory contains the oranges.", None),
        ("The inventory contains the orange and the jug.", True),
        ("The inventory contains the orange and the wood cup.", False),
        ("The agent is in the art studio and the jug is in view.", True),
        ("The agent is in the art studio and the living thing is in view.", None),
        # plants, whose names change later than what the world shows
        ("The pea seed is in flower pot 1.", None),
        ("The pea plant is in flower pot 2.", True),
        # what the agent sees is meant
        ("The orange is in the bowl.", False),
        ("The jug is in the sink.", False),
        ("The sink is broken.", True),
        ("The red light bulb is broken.", False),
        ("The large cupboard is open.", True),
        ("The large cupboard is closed.", False),
        # what the world's descriptions leave out
        ("The location of the fork is known.", False),
        ("The location of the axe is known.", False),
        ("The location of the flower is known.", True),
        ("The door to the kitchen is open.", None),
        # terminals
        ("The black wire is connected to the red light bulb.", True),
        ("The black wire is connected to the anode in light.", True),
        ("Terminal 1 of the black wire is connected to the anode in red light bulb.", True),
        ("The black wire terminal 1 is connected to the red light bulb anode.", True),
        ("The black wire terminal 2 is connected to the red light bulb anode.", False),
        ("The black wire terminal 2 is connected to the battery cathode.", True),
        ("The red light bulb cathode is connected to the black wire.", False),
    ],
)
def test_the_state_understands_names_as_the_rules_do(condition: str, holds: bool | None):
    check = HOUSE.check(condition)
    assert (check and check.holds) is holds


def test_a_check_of_joined_conditions_shows_what_the_state_has_of_each():
    check = HOUSE.check("The inventory contains the orange and the wood cup.")
    assert check == (False, "orange in inventory; wood cup in large cupboard; wood cup in art studio")


@pytest.mark.parametrize("text", ["The water is nearly hot.", "The substance is a gas.", "", "x" * 2_000])
def test_the_state_does_not_decide_what_it_cannot_read(text: str):
    assert WORKSHOP.check(text) is None


def test_the_thing_in_focus_is_read_from_the_reply():
    assert parse_focus("You focus on the unknown substance B.") == "unknown substance b"
    assert parse_focus("You move to the kitchen.") == ""


def pot(place: str, room: str = "kitchen", temperature: float = 10) -> WorldObject:
    return WorldObject("pot", room, () if place == room else (place,), True, (), temperature)


def stove(on: bool) -> WorldObject:
    return WorldObject("stove", "kitchen", (), True, ("activated" if on else "deactivated",))


def test_a_path_is_divided_at_what_it_changes_for_good():
    actions = ["open door to kitchen", "go to kitchen", "look around", "pick up pot", "move pot to stove"]
    actions += ["activate stove", *["examine pot"] * 7, "focus on pot", "go to hallway"]
    fly = WorldObject("fly", "kitchen", (), True)
    states = [WorldState("hallway", (pot("kitchen"), stove(False)), moves=0)] * 2
    states += [WorldState("kitchen", (pot("kitchen"), stove(False), fly), moves=2)] * 2
    states += [WorldState("kitchen", (pot("inventory"), stove(False)), moves=3)]
    states += [WorldState("kitchen", (pot("stove"), stove(False)), moves=4)]
    states += [WorldState("kitchen", (pot("stove", temperature=20 * n), stove(True)), moves=4 + n) for n in range(1, 9)]
    states += [states[-1]._replace(focus="pot"), states[-1]._replace(focus="pot", room="hallway")]
    found = select_states(actions, states)
    assert [(state.text, state.after) for state in found] == [
        ("The agent is in the kitchen.", 2),
        ("The inventory contains the pot.", 4),
        ("The pot is in the stove.", 5),
        ("The stove is activated.", 6),
        ("The temperature of the pot is above 110 degrees Celsius.", 11),
        ("The pot is in focus.", 14),
    ]
    assert found[0].held == tuple(range(2, 15)) and found[1].held == (4,)


def test_waiting_is_divided_by_the_moves_made_and_what_held_before_is_not_a_division():
    lamp = WorldObject("lamp", "hallway", (), True, ("activated",))
    states = [WorldState("hallway", (lamp,), moves=2 * n) for n in range(13)]
    found = select_states(["wait1"] * 12, states)
    assert [(state.text, state.after) for state in found] == [
        ("At least 10 moves have been made.", 5),
        ("At least 20 moves have been made.", 10),
    ]
    assert MAX_ACTIONS == 5
    assert select_states(["look"] * 12, [states[0]] * 13) == ()


def test_a_replayed_world_checks_the_recorded_states_only():
    gold = next(one for one in gold_recordings() if one.task == "boil")
    world = create_replay_world(gold)
    world.reset()
    first = gold.states[0]
    for number, action in enumerate(gold.actions[: first.after + 1], 1):
        world.step(Action(text=action))
        check = world.check_state(first.text)
        assert check and check.holds == (number in first.held)
    assert world.check_state("The orange is in the bowl.") is None
    world.close()


@pytest.mark.slow
@pytest.mark.parametrize("task", ["boil", "find-plant", "power-component"])
def test_the_simulator_holds_each_recorded_state_when_the_recording_says_so(task: str):
    gold = next(one for one in gold_recordings() if one.task == task)
    world = ScienceWorld(recorded_setting(gold))
    world.reset()

    def holding() -> list[str]:
        return [state.text for state in gold.states if (check := world.check_state(state.text)) and check.holds]

    seen = [holding()]
    for action in gold.actions:
        world.step(Action(text=action))
        seen.append(holding())
    assert seen == [[one.text for one in gold.states if number in one.held] for number in range(len(seen))]
    assert world.check_state("The metal pot is rather shiny.") is None
    world.close()


@pytest.mark.long
@pytest.mark.slow
def test_no_rule_certifies_what_the_simulator_does_not_have():
    command = [sys.executable, str(ROOT / "scripts/certificate_audit.py"), "scienceworld", "--perturbed", "4"]
    tasks = ["--tasks", "chemistry-mix", "use-thermometer"]
    audit = subprocess.run([*command, *tasks], capture_output=True, text=True, check=False)
    assert audit.returncode == 0, audit.stderr[:2_000]
    assert "| gold | 2 |" in audit.stdout
