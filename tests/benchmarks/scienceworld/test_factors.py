"""ScienceWorld's answers read into factored states, and its tasks into what they want; no simulator runs."""

import gzip
import json

import pytest
from helpers.files.real_data import data_folder

from certigraph.benchmarks.scienceworld.factors import ScienceWorldFactors, animal_in, is_kind
from certigraph.state.rewards import FactoredState, to_mapping

READING = ScienceWorldFactors()
FIND = "Your task is to find a(n) animal. First, focus on the thing. Then, move it to the red box in the kitchen."
LIFE = "Your task is to find the animal with the longest life span.  The animals are in the 'outside' location."
CIRCUIT = "Your task is to turn on the red light bulb by powering it using a {} power source. First, focus on it."
HEAT = (
    "Your task is to measure the temperature of tin, which is located around the kitchen. First, focus on the "
    "thermometer. Next, focus on the tin. If the tin temperature is above 50.0 degrees celsius, place it in the red "
    "box. If the tin temperature is below 50.0 degrees celsius, place it in the green box."
)
OUTSIDE = (
    "This outside location is called the outside. Here you see: \n\tthe agent\n\ta baby wolf\nYou also see:\n"
    "\tA door to the kitchen (that is open)\n"
)


def played(goal: str, *steps: tuple[str, str]) -> tuple[dict, dict]:
    """What is known after the steps, and what is wanted then."""
    state = wanted = FactoredState()
    for action, observation in steps:
        state = READING.extract(state, goal, action, observation)
        wanted = READING.interpret(goal, state, wanted)
    return to_mapping(state), to_mapping(wanted)


def fulfilled(goal: str, *steps: tuple[str, str]) -> float:
    """The share of what is wanted that is so, to the word; each thing counts alike."""
    known, wanted = played(goal, *steps)
    shares = [sum(known.get(n, {}).get(k) == v for k, v in has.items()) / len(has) for n, has in wanted.items()]
    return sum(shares) / len(shares)


FOUND = (
    ("open door to outside", "The door is now open."),
    ("go to outside", "You move to the outside."),
    ("look around", OUTSIDE),
    ("focus on baby baby wolf", "You focus on the baby wolf."),
    ("pick up baby baby wolf", "You move the wolf to the inventory."),
    ("go to kitchen", "You move to the kitchen."),
    ("move baby baby wolf in inventory to red box", "You move the wolf to the red box."),
)


def test_an_animal_found_and_moved_fulfils_its_task_step_by_step():
    shares = [fulfilled(FIND, *FOUND[:n]) for n in range(1, len(FOUND) + 1)]
    assert shares == sorted(shares) and shares[0] < 0.2 and shares[-1] == 1.0


def test_what_is_carried_is_where_the_agent_is():
    known, wanted = played(FIND, *FOUND[:-1])
    assert known["wolf"]["room"] == known["agent"]["location"] == "kitchen"
    assert wanted["wolf"] == {"hand": "taken", "room": "kitchen", "place": "red box"}


def test_a_thing_of_another_kind_is_not_what_is_wanted():
    wrong = (*FOUND[:3], ("focus on axe", "You focus on the axe."))
    assert fulfilled(FIND, *wrong) == fulfilled(FIND, *FOUND[:3])


def test_what_tells_nothing_changes_nothing():
    assert played(FIND, *FOUND, ("mix orange", "The episode is over.")) == played(FIND, *FOUND)


@pytest.mark.parametrize(
    ("thing", "kind", "is_one"),
    [
        ("baby wolf", "animal", True),
        ("dove egg", "animal", True),
        ("banana tree", "plant", True),
        ("banana tree", "living thing", True),
        ("pillow", "non-living thing", True),
        ("baby wolf", "non-living thing", False),
        ("pillow", "living thing", False),
        ("painting", "plant", False),
        ("painting", "animal", False),
    ],
)
def test_kinds(thing, kind, is_one):
    assert is_kind(thing, kind) is is_one


def test_the_name_of_an_animal_is_the_longest_that_fits():
    assert animal_in("hatchling giant tortoise") == "giant tortoise"


def test_the_animal_that_lives_longest_is_one_of_those_met():
    went = (("go to outside", "You move to the outside."), ("focus on wolf", "You focus on the baby wolf."))
    assert fulfilled(LIFE, *went) == 1.0
    met = (("pick up crocodile", "You move the crocodile egg to the inventory."), *went)
    assert fulfilled(LIFE, *met) < 1.0


def test_the_box_is_the_one_for_what_was_measured():
    warm = ("use thermometer in inventory on tin", "the thermometer measures a temperature of 80 degrees celsius")
    cold = ("use thermometer in inventory on tin", "the thermometer measures a temperature of -7 degrees celsius")
    boxes = [played(HEAT, step)[1]["tin"]["place"] for step in (warm, cold, ("look around", OUTSIDE))]
    assert boxes == ["red box", "green box", "answer box"]


@pytest.mark.parametrize(("kind", "source"), [("renewable", "solar panel"), ("nonrenewable", "gas generator")])
def test_power_comes_from_what_was_requested(kind, source):
    wire = ("connect a", "anode on battery is now connected to terminal 1 on black wire")
    wanted = played(CIRCUIT.format(kind), wire)[1]
    assert source in wanted and "battery" not in wanted


def test_an_end_that_leads_to_no_wire_is_not_what_is_wanted():
    known, wanted = played(
        CIRCUIT.format("renewable"), ("x", "anode on solar panel is now connected to anode on agent")
    )
    assert known["solar panel"]["anode"] == "agent" and wanted["solar panel"]["anode"] == "wire"


def test_a_task_in_other_words_wants_nothing():
    assert played("Your task is to sing.", *FOUND)[1] == {}


def test_gold_paths_fulfil_more_and_more_of_every_task():
    with gzip.open(data_folder("scienceworld") / "gold_var0.jsonl.gz", "rt") as lines:
        golds = [json.loads(line) for line in lines]
    for gold in golds:
        steps = list(zip(gold["gold"], gold["obs"][1:], strict=True))[: gold["firstdone"]]
        begun, done = fulfilled(gold["desc"], *steps[:1]), fulfilled(gold["desc"], *steps)
        assert done > begun and done > 0.6, gold["task"]
