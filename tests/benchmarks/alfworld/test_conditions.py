"""Tests of the rules that decide ALFWorld's conditions: never wrongly, else not at all."""

from collections.abc import Iterator
from random import Random

import pytest
from helpers.files.real_data import data_folder
from helpers.worlds.decisions import held, sentences_of
from hypothesis import given
from hypothesis import strategies as st

from certigraph.adapters.protocols import Decision
from certigraph.benchmarks.alfworld.benchmark import ALFWorld, AlfworldEnvironment, PddlFact
from certigraph.benchmarks.alfworld.conditions import THINGS, WORDINGS, decide_condition, read_sight
from certigraph.state.records import Action, Observation

PLACES = "Places in the room: a cabinet 2, a cabinet 1, a countertop 1, a desk 1, a fridge 1, and a sinkbasin 1."
SURFACE = "On the desk 1, you see a alarmclock 1, a butterknife 1, a mug 2, and a mug 3."
CABINET = "The cabinet 1 is open. In it, you see nothing."
FRIDGE = "The fridge 1 is closed."
NOTHING, MUG = "You are not carrying anything.", "You are carrying: a mug 1."

AT_SURFACE = "\n".join((PLACES, SURFACE, NOTHING))
AT_SURFACE_WITH_MUG = "\n".join((PLACES, SURFACE, MUG))
AT_CABINET = "\n".join((PLACES, CABINET, MUG))
AT_FRIDGE = "\n".join((PLACES, FRIDGE, MUG))
AT_START = "\n".join((PLACES, NOTHING))


def decided(condition: str, view: str, reply: str = "You arrive at loc 1.") -> bool | None:
    return held(decide_condition(condition, Observation(text=reply), view), view, reply)


EXAMPLES = {
    "The agent is at PLACE.": ("The agent is at the desk 1.", AT_SURFACE, AT_FRIDGE),
    "The inventory contains THING.": ("The inventory contains mug 1.", AT_FRIDGE, AT_SURFACE),
    "The inventory is empty.": ("The inventory is empty.", AT_SURFACE, AT_FRIDGE),
    "THING is in/on PLACE.": ("Mug 2 is in/on desk 1.", AT_SURFACE, AT_SURFACE.replace("mug 2", "mug 4")),
    "PLACE is open.": ("Cabinet 1 is open.", AT_CABINET, "\n".join((PLACES, "The cabinet 1 is closed.", MUG))),
    "PLACE is closed.": (
        "The fridge 1 is closed.",
        AT_FRIDGE,
        AT_FRIDGE.replace("closed", "open. In it, you see nothing"),
    ),
    "THING is shown.": ("The alarmclock 1 is shown.", AT_SURFACE, AT_FRIDGE),
}
"""Wording -> a condition in it, a view in which it holds, and one in which it does not."""


@pytest.mark.parametrize("wording", EXAMPLES)
def test_each_recommended_wording_is_decided_either_way(wording: str):
    condition, holds, fails = EXAMPLES[wording]
    assert wording in " ".join(WORDINGS.split())
    assert (decided(condition, holds), decided(condition, fails)) == (True, False)


def test_every_recommended_wording_has_an_example():
    assert sentences_of(WORDINGS, until=" Name things") == [*EXAMPLES]
    assert ALFWorld.wordings == WORDINGS


@pytest.mark.parametrize(
    ("condition", "view", "holds"),
    [
        ("the agent is at a desk", AT_SURFACE, True),
        ("The agent is at a Cabinet.", AT_SURFACE, False),
        ("The agent is at the sink basin 1", AT_SURFACE, False),
        ("The agent is at desk 1", AT_START, False),
        ("A mug is shown", AT_SURFACE, True),
        ("mug 1 is shown", AT_SURFACE, False),
        ("the alarm clock is in sight", AT_SURFACE, True),
        ("A tomato is shown.", AT_SURFACE, False),
        ("Two mugs are shown.", AT_SURFACE, True),
        ("Two alarmclocks are in/on desk 1.", AT_SURFACE, False),
        ("The cabinet 2 is shown.", AT_SURFACE, True),
        ("The locations of mug 2 and of mug 3 are known.", AT_SURFACE, True),
        ("The mug 2 has been found.", AT_SURFACE, True),
        ("The agent holds a mug.", AT_FRIDGE, True),
        ("The agent is carrying nothing", AT_FRIDGE, False),
        ("Mug 1 is in the inventory.", AT_FRIDGE, True),
        ("A mug is on the desk.", AT_SURFACE, True),
        ("A tomato is on the desk.", AT_SURFACE, False),
        ("Mug 1 is in/on cabinet 1.", AT_CABINET, False),
        ("The cabinet is open", AT_CABINET, True),
        ("The fridge is open", AT_FRIDGE, False),
        ("Mug 2 and mug 3 are on desk 1.", AT_SURFACE, True),
        ("Mug 2 and mug 1 are on desk 1.", AT_SURFACE, False),
        ("The agent is at desk 1 and the inventory contains mug 1.", AT_SURFACE_WITH_MUG, True),
        ("The agent is at desk 1, and mug 2 is in the fridge, and the inventory is empty.", AT_SURFACE_WITH_MUG, False),
    ],
)
def test_names_articles_numbers_and_conjunctions(condition: str, view: str, holds: bool):
    assert decided(condition, view) is holds


@pytest.mark.parametrize(
    ("condition", "view"),
    [
        ("Mug 1 is in/on the fridge 1.", AT_FRIDGE),  # the simulator has things in two receptacles
        ("Mug 1 is in/on the desk 1.", AT_FRIDGE),
        ("A tomato is in a cabinet.", AT_CABINET),
        ("The cabinet is closed.", AT_CABINET),  # another one may be
        ("The cabinet 1 is open.", AT_SURFACE),
        ("The desk 1 is closed.", AT_SURFACE),
        ("The location of the tomato 1 is known.", AT_SURFACE),
        ("The agent is at the fridge 2.", AT_SURFACE),
        ("The agent is at the alarmclock 1.", AT_SURFACE),
        ("A knife is shown.", AT_SURFACE),  # a butterknife may be meant
        ("The lamp is shown.", AT_SURFACE),
        ("The inventory contains a clean mug.", AT_FRIDGE),
        ("The inventory contains the fruit.", AT_SURFACE),
        ("Both mugs are on desk 1.", AT_SURFACE),
        ("The agent is at desk 1 and the inventory contains the fruit.", AT_SURFACE),
        ("The mug 1 is clean.", AT_FRIDGE),
        ("The fridge 1 is closed.", ""),
        ("The inventory is empty.", ""),
        ("The inventory is empty.", PLACES),
        ("A tomato is shown.", f"{PLACES}\nOn the desk 1, you see a mug 2, a ...\n{NOTHING}"),
    ],
)
def test_what_is_out_of_sight_or_in_other_words_stays_undecided(condition: str, view: str):
    assert decided(condition, view) is None


@pytest.mark.parametrize(
    "hedge",
    [
        "It is not true that {}",
        "Either {} or the inventory is empty",
        "{} or desk 1 is shown",
        "{} unless it was taken",
        "{}, or it was",
        "If {}, desk 1 is shown",
        "{} and all is well",
        "{} again",
        "No {}",
    ],
)
@pytest.mark.parametrize("condition", ["mug 2 is on desk 1", "the agent is at the fridge 1", "a tomato is shown"])
def test_a_condition_that_claims_more_stays_undecided(hedge: str, condition: str):
    assert decided(hedge.format(condition), AT_SURFACE) is None
    assert decided(condition.replace(" is ", " is not ").replace(" is ", " is no longer "), AT_SURFACE) is None


@pytest.mark.parametrize(
    ("condition", "reply", "holds"),
    [
        ("Mug 1 is clean.", "You clean the mug 1 using the sinkbasin 1.", True),
        ("The mug has been heated.", "You heat the mug 1 using the microwave 1.", True),
        ("Mug 1 is hot.", "You cool the mug 1 using the fridge 1.", False),
        ("Mug 1 has been heated.", "You cool the mug 1 using the fridge 1.", None),
        ("Mug 2 is clean.", "You clean the mug 1 using the sinkbasin 1.", None),
        ("Mug 1 is hot", "You clean the mug 1 using the sinkbasin 1.", None),
        ("Apple 1 is cool.", "This is a cold apple 1.", True),
        ("Apple 1 is clean.", "This is a hot and clean apple 1.", True),
        ("Apple 1 is clean.", "There's nothing special about apple 1.", False),
        ("An apple is clean.", "There's nothing special about apple 1.", None),
        ("The desklamp 1 is turned on.", "You turn on the desklamp 1.", True),
        ("The desk lamp is on", "This desklamp 1 is on.", True),
        ("The desklamp 1 is on", "This desklamp 1 is off.", False),
    ],
)
def test_treatments_and_lamps_are_decided_by_the_reply(condition: str, reply: str, holds: bool | None):
    assert decided(condition, AT_SURFACE, reply) is holds


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_is_decided_or_left_open(condition: str, view: str):
    assert decided(condition, AT_SURFACE) is None
    assert read_sight(view) is None


# Every decision on the way through games, compared with the simulator's own facts.

Truths = Iterator[tuple[str, bool | None]]


def truths(facts: frozenset[PddlFact], draw: Random) -> Truths:
    """Conditions with their truth; None where the world has no answer."""
    by_name: dict[str, set[tuple[str, ...]]] = {}
    for name, *arguments in facts:
        by_name.setdefault(name, set()).add(tuple(arguments))
    location = {place for _, place in by_name["atlocation"]}
    places = {place for place, _ in by_name["receptacleatlocation"]}
    faced = {place for place, at in by_name["receptacleatlocation"] if at in location}
    doors, opened = ({place for (place,) in by_name.get(name, ())} for name in ("openable", "opened"))
    inside, held = by_name["inreceptacle"], {thing for _, thing in by_name.get("holds", ())}
    shown = (
        held | places | {thing for thing, place in inside if place in faced and (place not in doors or place in opened)}
    )
    yield "The inventory is empty.", not held
    for place in sorted(places):
        yield f"The agent is at {place}.", place in faced
        yield f"{place.capitalize()} is open.", place in opened if place in doors else None
        yield f"The {place} is closed.", place not in opened if place in doors else None
        yield f"The agent is at a {kind(place)}.", kind(place) in map(kind, faced)
    for thing in sorted({thing for thing, _ in inside} | held):
        yield f"The inventory contains {thing}.", thing in held
        yield f"{thing.capitalize()} is shown.", thing in shown
        for place in {*faced, *draw.sample(sorted(places), 3)}:
            yield f"{thing} is in/on {place}", (thing, place) in inside
        for word, name in (("hot", "ishot"), ("cool", "iscool"), ("clean", "isclean"), ("on", "istoggled")):
            yield f"{thing} is {word}", (thing,) in by_name.get(name, ())
    for wanted in sorted(THINGS):
        yield f"The agent holds a {wanted}", wanted in map(kind, held)
        yield f"A {wanted} is shown", wanted in map(kind, shown)
        for place in draw.sample(sorted(set(map(kind, places))), 2):
            yield f"A {wanted} is on the {place}", (wanted, place) in {(kind(a), kind(b)) for a, b in inside}


def kind(name: str) -> str:
    return name.partition(" ")[0]


def find_contradictions(world: AlfworldEnvironment, seen: Observation, draw: Random) -> Iterator[tuple[str, Decision]]:
    reply, view = world._last_reply(), world.view()
    for condition, holds in truths(reply.facts, draw):
        decision = ALFWorld().decide(condition, seen, view)
        quoted = decision is None or all(part in view or part in seen.text for part in decision.quote.split("; "))
        if decision and (decision.holds is not holds or not quoted):
            yield condition, decision


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 60, 100])
def test_no_decision_contradicts_the_simulator(number: int):
    benchmark = ALFWorld(data_folder("alfworld"))
    task, draw = benchmark.tasks()[number], Random(number)
    world = benchmark.open(task)
    seen = world.reset()
    assert [*find_contradictions(world, seen, draw)] == []
    for action in benchmark.demonstration(task):
        for taken in (draw.choice(world.admissible()), draw.choice(world.admissible()), action):
            seen = world.step(Action(text=taken))
            assert [*find_contradictions(world, seen, draw)] == []
    world.close()
