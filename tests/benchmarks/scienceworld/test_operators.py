"""SDP's operators for ScienceWorld, without Java: drafts, what words settle, what is offered, shortcuts, prompts."""

import asyncio
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
from helpers.files.real_data import data_folder
from hypothesis import given
from hypothesis import strategies as st
from langgraph.runtime import Runtime

from certigraph.adapters.matching import NONE_OF_THESE
from certigraph.adapters.models.schemas import minimal_instance
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context
from certigraph.benchmarks.scienceworld import operators as acting
from certigraph.benchmarks.scienceworld import operators as offering
from certigraph.benchmarks.scienceworld.benchmark import ScienceWorldBenchmark
from certigraph.benchmarks.scienceworld.conditions import ROOMS, parse_condition
from certigraph.benchmarks.scienceworld.operators import GOAL, draft_conditions, select_target_actions
from certigraph.benchmarks.scienceworld.prompts import WORDINGS
from certigraph.benchmarks.scienceworld.recordings import GoldRecording, read_recordings
from certigraph.nodes import sdp
from certigraph.nodes.chains import advance_chain
from certigraph.state.certified_states import CertifiedState
from certigraph.state.records import (
    CHECK,
    Action,
    Attempt,
    Audit,
    Invalidation,
    Observation,
    Predicate,
    Sighting,
    Task,
    Verdict,
)
from certigraph.state.run import Belief, Evidence, Turn

TASK = Task(benchmark="scienceworld", id="find-plant:0", goal="Your task is to find a(n) plant. First, focus on it.")
VIEW = "This room is called the kitchen. In it, you see:\nan orange\na seed jar\nRooms seen: kitchen, hallway"
ACTIONS = (
    "focus on air",
    "focus on orange",
    "focus on peach tree",
    "go to hallway",
    "go to outside",
    "look around",
    "move orange to blue box",
    "move orange to red box",
    "pick up orange",
    "pick up thermometer",
    "teleport to art studio",
    "teleport to greenhouse",
    "teleport to hallway",
    "teleport to kitchen",
)
WORDED = (
    "The agent is in the kitchen.",
    "The location of the plant is known.",
    "The plant is in focus.",
    "The inventory contains the orange.",
    "The orange is in the red box.",
    "The green paint has been made.",
)


@pytest.fixture(autouse=True)
def _words_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No sentence vectors: what is tested here does not depend on them, and torch takes seconds to load."""
    monkeypatch.setattr(offering, "find_encoder", lambda name: None)
    monkeypatch.setattr(acting, "find_encoder", lambda name: None)


@cache
def recordings() -> tuple[GoldRecording, ...]:
    return read_recordings(data_folder("scienceworld") / "gold_var0.jsonl.gz")


def goal_of(task: str) -> str:
    return next(recording.desc for recording in recordings() if recording.task == task)


class ScriptedModel:
    """Answers with the given fields, where a question asks for them; keeps the prompts."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.prompts: list[str] = []
        self.options: list[list[str]] = []

    def __call__(self, prompt: str, schema: dict[str, Any]) -> Any:
        self.prompts.append(prompt)
        parts = schema["properties"]
        self.options.append(parts.get("choice", {}).get("enum", []))
        return {**minimal_instance(schema), **{name: answer for name, answer in self.answers.items() if name in parts}}


def answered(
    operator: str, state: Any, scripted_model: Any = None, *, config: str = "", actions: Sequence[str] = ACTIONS
) -> Any:
    """What an operator of the benchmark makes of a view; by default without a question to any model."""
    benchmark = ScienceWorldBenchmark(config=config)
    chat = ScriptedChat(responder=scripted_model or _unasked)
    runtime = Runtime(context=Context(benchmark=benchmark, chat=chat, admissible=lambda: list(actions)))
    generic = {"realize": sdp.realize(), "validate": sdp.validate}
    call: Callable[..., Any] = benchmark.operators().get(operator) or generic[operator]
    return asyncio.run(call(state, runtime))


def _unasked(prompt: str, schema: Any) -> Any:
    raise AssertionError(f"a model was asked: {prompt[-300:]}")


def predicates(*texts: str) -> tuple[Predicate, ...]:
    return (*(Predicate(text=text) for text in texts), GOAL)


def seen(text: str = "You wonder.", **data: Any) -> Observation:
    fields = {name: data.pop(name) for name in ("accepted", "solved", "reward") if name in data}
    return Observation(text=text, data={"score": 8, "result": "accepted", **data}, **fields)


def attempt(action: str, target: str = "x", reason: str = "no", evidence: str = "") -> Attempt:
    verdict = Verdict(depth=0, reason=reason, evidence=evidence)
    return Attempt(position=0, target=Predicate(text=target), action=Action(text=action), digest="-", verdict=verdict)


def test_every_task_text_has_a_draft_in_known_wordings_that_names_real_rooms_only():
    for recording in recordings():
        lines = draft_conditions(recording.desc)
        conditions = [parse_condition(line) for line in lines]
        assert lines and None not in conditions, recording.task
        assert {c.place for c in conditions if c and c.kind == "be"} <= set(ROOMS), recording.task
        assert len(set(lines)) == len(lines)


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("boil", "The location of the water is known. The water is in focus."),
        ("lifespan-longest-lived-then-shortest-lived",
         "The agent is in the outside. The animal with the longest life span is in focus. "
         "The animal with the shortest life span is in focus."),
        ("use-thermometer",
         "The location of the thermometer is known. The thermometer is in focus. The agent is in the living room. "
         "The unknown substance B is in focus. The inventory contains the unknown substance B. "
         "The agent is in the bathroom. The unknown substance B is in the red box or the green box."),
        ("chemistry-mix-paint-secondary-color",
         "The green paint has been made. The location of the green paint is known. The green paint is in focus."),
    ],
)  # fmt: skip
def test_a_draft_is_what_the_sentences_order_in_their_order(task: str, expected: str):
    assert " ".join(draft_conditions(goal_of(task))) == expected


@given(st.text(max_size=200))
def test_any_text_has_a_draft_in_known_wordings(text: str):
    assert all(parse_condition(line) for line in draft_conditions(f"Your task is to find a(n) {text}."))


def test_a_known_kind_of_target_gets_the_actions_of_its_kind():
    assert select_target_actions("The agent is in the kitchen.", ACTIONS, VIEW) == ["teleport to kitchen"]
    assert select_target_actions("The agent is in the hallway.", ("go to hallway", "go to outside"), VIEW) == [
        "go to hallway"
    ]
    assert select_target_actions("The inventory contains the orange.", ACTIONS, VIEW) == ["pick up orange"]
    assert select_target_actions("The orange is in the red box.", ACTIONS, VIEW)[0] == "move orange to red box"
    assert select_target_actions("The orange is in focus.", ACTIONS, VIEW) == ["focus on orange"]
    assert set(select_target_actions("The plant is in focus.", ACTIONS, VIEW)) == {
        "focus on orange",
        "focus on peach tree",
    }


def test_what_was_focused_on_is_what_a_kind_of_thing_means_from_then_on():
    found = select_target_actions("The inventory contains the plant.", ACTIONS, VIEW, focused="orange")
    assert found == ["pick up orange"]
    assert len(select_target_actions("The inventory contains the plant.", ACTIONS, VIEW)) == 2


def test_to_find_a_thing_only_rooms_are_offered_that_were_not_seen():
    found = select_target_actions("The location of the plant is known.", ACTIONS, VIEW)
    assert found == ["teleport to art studio", "teleport to greenhouse"]
    assert select_target_actions("The location of the plant is known.", ACTIONS, VIEW, few=1) == found[:1]
    assert len(select_target_actions("All is well.", ACTIONS, VIEW, most=4, few=1)) == 4


class Greenhouses:
    """Vectors by which only greenhouses are like living things."""

    name = "greenhouses"

    def encode(self, texts: Sequence[str]) -> Any:
        import numpy as np

        return np.array([[1.0, 0.0] if re.search("plant|green", text) else [0.0, 1.0] for text in texts])


def test_with_sentence_vectors_the_room_that_is_nearest_in_meaning_comes_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(offering, "find_encoder", lambda name: Greenhouses())
    for thing in ("plant", "living thing"):
        assert select_target_actions(f"The location of the {thing} is known.", ACTIONS, VIEW, few=1) == [
            "teleport to greenhouse"
        ]


targets = st.sampled_from([*WORDED, "All is well.", GOAL.text]) | st.text(max_size=60)


@pytest.mark.slow
@given(targets, st.lists(st.sampled_from(ACTIONS), unique=True))
def test_a_focus_is_offered_only_for_a_target_that_speaks_of_focus(target: str, actions: list[str]):
    found = select_target_actions(target, actions, VIEW)
    assert set(found) <= set(actions)
    assert "focus" in target.lower() or not [action for action in found if action.startswith("focus")]


def realize_state(target: str, tried: Sequence[str] = (), goal: str = TASK.goal) -> dict[str, Any]:
    return {
        "task": TASK.model_copy(update={"goal": goal}),
        "certified": CertifiedState(),
        "target": Predicate(text=target),
        "ahead": (),
        "evidence": Evidence(view=VIEW),
        "turns": (),
        "facts": (),
        "observation": seen(),
        "upcoming": (),
        "untaken": (),
        "belief": Belief(),
        "advice": (),
        "attempts": [attempt(action, target) for action in tried],
    }


@pytest.mark.parametrize("target", [*WORDED, "All is well.", GOAL.text])
def test_no_action_is_taken_twice_for_one_target_and_none_focuses_unasked(target: str):
    tried: list[str] = []
    for _ in range(len(ACTIONS) - 3):
        taken = answered("realize", realize_state(target, tried), ScriptedModel(), config="drafted")["action"].text
        assert taken not in tried
        assert "focus" in target or not taken.startswith("focus")
        tried.append(taken)


def test_one_action_left_is_taken_without_asking_and_none_left_is_written_by_the_model():
    taken = answered("realize", realize_state("The agent is in the kitchen."), config="drafted")
    assert taken["action"].text == "teleport to kitchen"
    scripted_model = ScriptedModel(action="sing a song")
    everything = answered(
        "realize", realize_state("The agent is in the kitchen.", ACTIONS), scripted_model, config="drafted"
    )
    assert everything["action"].text == "sing a song"


def test_the_choice_is_among_what_is_offered_and_the_goal_and_the_tries_are_shown():
    scripted_model = ScriptedModel()
    answered(
        "realize",
        realize_state("The plant is in focus.", ["focus on orange"]),
        scripted_model,
        config="drafted",
        actions=[*ACTIONS, "focus on egg"],
    )
    assert scripted_model.options == [["focus on peach tree", "focus on egg"]]
    assert all(text in scripted_model.prompts[0] for text in (TASK.goal, "focus on orange: no", "an orange"))


def test_a_small_model_chooses_among_few_rooms():
    rooms = [f"teleport to {room}" for room in ROOMS if room not in ("kitchen", "hallway")]
    scripted_model = ScriptedModel()
    answered(
        "realize", realize_state("The location of the plant is known."), scripted_model, config="drafted", actions=rooms
    )
    assert len(scripted_model.options[0]) == 2


CUPS = (
    "move wood cup to table",
    "mix wood cup (in art studio)",
    "mix wood cup (in paint jar)",
    "focus on wood cup",
    "use thermometer on thermometer",
    "use thermometer on paint in wood cup",
    "pick up seed plant on seed jar",
)


def written(action: str, **fields: Any) -> ScriptedModel:
    return ScriptedModel(target="open", action=action, **fields)


@pytest.mark.parametrize(
    "action",
    [
        "pick up orange",
        "take the orange",
        "put down orange",
        "put orange in the red box",
        "mix wood cup containing blue paint in large cupboard",
        "connect black wire terminal 1 to red light bulb anode",
        "move steel block to inclined plane B",
        "focus on anything",
    ],
)
def test_an_action_is_sent_as_it_is_written_first_or_later_in_a_chain(action: str):
    state, listed = realize_state("All is well."), [*ACTIONS, *CUPS]
    assert answered("realize", state, written(action), actions=listed)["action"] == Action(text=action)
    if not action.startswith("focus"):
        following = {**state, "upcoming": (Action(text=action), Action(text="wait"))}
        taken = answered("realize", following, actions=listed)
        assert (taken["action"].text, [one.text for one in taken["upcoming"]]) == (action, ["wait"])


def refused_state(action: str, *upcoming: str, reply: str = "No known action matches that input.") -> dict[str, Any]:
    """A state after the world refused an action."""
    turn = Turn(action=action, observation=reply, accepted=False)
    chain = tuple(Action(text=text) for text in upcoming)
    refused = seen(reply, accepted=False, result="rejected")
    return {**realize_state("All is well."), "turns": (turn,), "observation": refused, "upcoming": chain}


@pytest.mark.parametrize(
    ("refused", "meant", "options"),
    [
        ("pick up seed jar", "pick up seed plant on seed jar", 0),  # the only thing of that name
        ("grab orange", "pick up orange", 0),  # a verb that the world does not know
        ("mix wood cup", "mix wood cup (in paint jar)", 3),  # two things
        ("use the thermometer on paint", "use thermometer on paint in wood cup", 0),
        ("pick up chair", "look around", 0),  # nothing like it: another action is asked for
        ("focus on wood cup with paint", "look around", 0),  # a focus is never guessed
    ],
)
def test_what_a_refused_name_means_is_found_or_asked_and_the_chain_goes_on(refused: str, meant: str, options: int):
    choice = CUPS[2] if refused.startswith("mix") else NONE_OF_THESE
    scripted_model = written("look around", choice=choice)
    state = refused_state(refused, "wait")
    taken = answered("realize", state, scripted_model, actions=[*ACTIONS, *CUPS])
    assert taken["action"].text == meant
    assert [len(offered) for offered in scripted_model.options if offered] == ([options] if options else [])
    is_repaired = meant != "look around"
    assert [one.text for one in taken.get("upcoming", ())] == (["wait"] if is_repaired else [])
    assert taken["action"].written == (refused if is_repaired else "")


def test_what_was_meant_by_a_refused_name_is_asked_once():
    state = refused_state("pick up seed plant on seed jar")
    state["turns"] = (state["turns"][0].model_copy(update={"written": "pick up seed jar"}),)
    scripted_model = written("wait")
    assert answered("realize", state, scripted_model, actions=[*ACTIONS, *CUPS])["action"].text == "wait"
    assert len(scripted_model.prompts) == 1


def asking_state(action: str, *options: str) -> dict[str, Any]:
    """A state in which the world asks which of several things is meant."""
    state = refused_state(action, "wait", reply="Ambiguous request: ...")
    question = seen("Ambiguous request: ...", accepted=False, result="ambiguous", options=[*options])
    return {**state, "observation": question}


SOIL = ("pick up soil (in outside)", "pick up soil (in inventory, in agent, in outside)")


@pytest.mark.parametrize(
    ("action", "options", "questions"),
    [
        ("pick up apple seed", ["pick up apple seed (in seed jar)"] * 3, 0),  # all alike
        ("pick up soil", [*SOIL, *SOIL], 0),  # what is carried cannot be picked up
        ("move soil to pot", [one.replace("pick up", "move") for one in SOIL[::-1]], 0),  # what is carried is meant
        ("focus on soil", [one.replace("pick up", "focus on") for one in SOIL[::-1]], 0),
        ("pick up cup", ["pick up cup (in kitchen)", "pick up cup (in sink, in kitchen)"], 1),
    ],
)
def test_a_question_with_one_answer_is_not_asked_and_the_chain_goes_on(action: str, options: list[str], questions: int):
    scripted_model = ScriptedModel(choice=options[0])
    taken = answered("realize", asking_state(action, *options), scripted_model)
    assert (taken["action"].text, [one.text for one in taken["upcoming"]]) == (options[0], ["wait"])
    assert len(scripted_model.prompts) == questions
    verdict = validate(predicates("All is well."), asking_state(action, *options)["observation"])
    assert verdict.pending, "a question is not a try"


NAMED_CUPS = tuple(
    action.format(kind=kind)
    for kind in ("wood", "tin")
    for action in ("pick up {kind} cup", "move {kind} cup to table", "focus on {kind} cup")
)


def test_a_corrected_name_is_corrected_in_the_rest_of_the_chain_but_in_no_focus():
    chain = ["move the cup to table", "focus on cup", "pick up orange"]
    scripted_model = ScriptedModel(choice="pick up tin cup")
    state = refused_state("pick up cup", *chain)
    taken = answered("realize", state, scripted_model, actions=[*ACTIONS, *NAMED_CUPS])
    assert taken["action"].text == "pick up tin cup"
    assert [one.text for one in taken["upcoming"]] == ["move the tin cup to table", *chain[1:]]
    assert [one.written for one in taken["upcoming"]] == [chain[0], "", ""]


def test_a_connection_corrects_no_name_in_other_actions():
    chain = ["connect terminal 1 in blue wire to anode", "disconnect terminal 1", "look at anode"]
    meant = "connect black wire terminal 1 to battery anode"
    state = refused_state("connect terminal 1 in black wire to the anode", *chain)
    taken = answered("realize", state, ScriptedModel(choice=meant), actions=[*ACTIONS, meant])
    assert taken["action"].text == meant
    assert [one.text for one in taken["upcoming"]] == chain


WATER = """This room is called the kitchen. In it, you see:
an orange
a seed jar
a metal pot (containing a substance called water)
A aluminum foil
a flower pot 5 (containing soil)
a flower pot 6 (containing a apple tree in the adult stage, soil)
In your inventory, you see:
a thermometer, currently reading a temperature of 10 degrees celsius
Rooms seen: kitchen, hallway"""


@pytest.mark.parametrize(
    ("action", "is_taken"),
    [
        ("focus on orange", True),
        ("focus on pear", False),
        ("focus on seed", False),  # a seed jar is shown
        ("focus on aluminum foil", True),  # shown as "A aluminum foil", by its name
        ("focus on water", True),
        ("focus on substance in metal pot", True),
        ("focus on thermometer in inventory", True),
        ("focus on orange in inventory", False),
        ("focus on apple tree in the adult stage in flower pot 6", True),
        ("focus on apple tree in the seedling stage in flower pot 6", False),
        ("focus on apple tree in the adult stage in flower pot 5", False),
        ("pick up pear", True),
    ],
)
def test_a_focus_in_a_chain_is_taken_only_on_what_the_world_shows(action: str, is_taken: bool):
    benchmark, chain = ScienceWorldBenchmark(), (Action(text=action), Action(text="wait"))
    rest = advance_chain(chain, Action(text="look around"), seen(), WATER, benchmark)
    assert (rest.upcoming, rest.untaken) == ((chain, ()) if is_taken else ((), chain))


def test_an_action_without_effect_ends_a_chain_and_a_refused_one_does_not():
    chain = (Action(text="wait"),)
    failed = seen("The stove appears broken, and can't be activated or deactivated.", result="failed")
    refused = seen("No known action.", result="rejected", accepted=False)
    rests = [advance_chain(chain, Action(text="x"), one, VIEW, ScienceWorldBenchmark()) for one in (failed, refused)]
    assert [(rest.upcoming, rest.untaken) for rest in rests] == [((), chain), (chain, ())]


def test_what_rules_saw_on_the_way_is_certified_with_the_goal_and_the_rest_is_passed():
    tail = predicates("The orange is in focus.", "The agent wonders.", "The agent is in the hallway.")
    sightings = ((1, Sighting(text=tail[0].text, quote="You focus on the orange.")),)
    sightings += ((2, Sighting(text=tail[2].text, quote="in the hallway")),)
    verdict = validate(tail, seen(solved=True), sightings=sightings)
    assert (verdict.depth, verdict.skipped, verdict.since) == (4, (1,), (1, 1, 2, 0))


def test_a_target_in_sight_is_checked_without_asking():
    taken = answered("realize", realize_state("The location of the orange is known."))
    assert taken["action"].kind == CHECK


def validate(
    tail: tuple[Predicate, ...],
    observation: Observation,
    scripted_model: Any = None,
    config: str = "",
    turns: tuple[Turn, ...] = (),
    sightings: tuple[tuple[int, Sighting], ...] = (),
    view: str = VIEW,
) -> Verdict:
    """The verdict on an action that was to bring about the first condition."""
    turns = turns or (Turn(action="wait", observation=observation.text),)
    state = {"task": TASK, "tail": tail, "action": Action(text="wait"), "observation": observation, "turns": turns}
    state |= {"upcoming": (), "evidence": Evidence(view=view), "facts": (), "trace": turns, "sightings": sightings}
    state |= {"since": 0, "announced": (tail[0].text,)}
    return answered("validate", state, scripted_model, config=config)["verdict"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("config", ["", "drafted", "paper"])
def test_three_shortcuts_ask_no_model(config: str):
    tail = predicates("All is well.", "All is better.")
    assert validate(tail, seen(solved=True), config=config).depth == 3
    refused = validate(tail, seen("No known action.", accepted=False, result="rejected"), config=config)
    assert (refused.depth, refused.reason) == (0, "No known action.")
    unreached = validate((GOAL,), seen(), config=config)
    assert unreached.depth == 0


@pytest.mark.parametrize("count", range(6))
def test_no_count_crosses_into_the_goal(count: int):
    tail = predicates("All is well.", "All is better.")
    assert validate(tail, seen(), ScriptedModel(holds=count, reason="so")).depth == min(count, 2)


@pytest.mark.slow
@given(st.lists(st.sampled_from([*WORDED, "All is well."]), min_size=1, max_size=7), st.integers(0, 5))
def test_nothing_but_a_solved_world_certifies_the_goal(texts: list[str], count: int):
    tail = predicates(*texts)
    observation = seen("You focus on the orange.", room="kitchen", new_room=True)
    assert validate(tail, observation, ScriptedModel(holds=count)).depth < len(tail)


def test_what_rules_decide_is_certified_in_a_cascade_and_the_model_is_asked_for_the_rest():
    arrived = seen(room="kitchen", new_room=True, look="In it, you see:\n\ta peach tree")
    both = predicates("The agent is in the kitchen.", "The location of the peach tree is known.", "All is well.")
    ruled = validate(both, arrived)
    assert (ruled.depth, ruled.decided_by) == (2, "code")
    assert ruled.evidence == "the agent is in the kitchen; a peach tree"
    verdict = validate(both[2:], seen(room="kitchen"), ScriptedModel(holds=1))
    assert (verdict.depth, verdict.decided_by) == (1, "model")
    assert validate(both, arrived, ScriptedModel(holds=0), config="paper").decided_by == "model", (
        "the paper asks the model"
    )
    worded = (both[0], Predicate(text=both[1].text, kind="goal"))
    assert validate(worded, arrived).depth == 1, "a goal is never decided by words"


DRAFTED = [
    ("The location of the animal is known.", {"look": "In it, you see:\n\ta blue jay"}, 1),
    ("The location of the animal is known.", {"look": "In it, you see:\n\ta painting"}, 0),
    ("The location of the plant is known.", {}, 1),
    ("The animal is in focus.", {"text": "You focus on the blue jay.", "reward": 0.5}, 1),
    ("The animal is in focus.", {"text": "You focus on the pillow.", "reward": 0.0}, 0),
    (
        "The inventory contains the animal.",
        {"view": VIEW.replace("Rooms", "In your inventory, you see:\na blue jay\nRooms"), "focus": "blue jay"},
        1,
    ),
    ("The inventory contains the animal.", {"text": "You move the orange to the inventory.", "focus": "blue jay"}, 0),
    ("The green paint has been made.", {}, 0),
]


@pytest.mark.parametrize(("text", "shown", "depth"), DRAFTED)
def test_a_draft_is_judged_without_a_model(text: str, shown: dict[str, Any], depth: int):
    shown = {**shown}
    text_shown, view = shown.pop("text", "You wonder."), shown.pop("view", VIEW)
    verdict = validate(predicates(text), seen(text_shown, **shown), config="drafted", view=view)
    assert (verdict.depth, verdict.decided_by) == (depth, "code")


def test_words_of_a_model_in_a_draft_are_judged_by_a_model():
    assert validate(predicates("All is well."), seen(), ScriptedModel(holds=1), config="drafted").decided_by == "model"


def propose(scripted_model: Any = None, config: str = "", goal: str = "") -> list[str]:
    task = TASK.model_copy(update={"goal": goal or goal_of("find-plant")})
    plan = answered("propose", {"task": task, "certified": CertifiedState()}, scripted_model, config=config)["plan"]
    return [predicate.text for predicate in plan]


def test_the_plan_of_small_models_is_a_draft_from_the_words_of_the_task():
    assert propose(ScriptedModel(conditions=["a", "a", "b", "a"])) == ["a", "b", "a", GOAL.text]
    assert propose(ScriptedModel(conditions=["a"]), "paper") == ["a", GOAL.text]
    assert propose(config="drafted") == [*draft_conditions(goal_of("find-plant")), GOAL.text]
    assert propose(ScriptedModel(conditions=["a"]), "drafted", "Wonder.") == ["a", GOAL.text]
    assert propose(ScriptedModel(conditions=[])) == []


def replan_state(attempts: Sequence[Attempt], *left: str) -> dict[str, Any]:
    return {
        "task": TASK,
        "certified": CertifiedState(predicates=(Predicate(text="It has begun."),)),
        "plan": (Predicate(text="It has begun."), *predicates(*left)),
        "head": 1,
        "certificates": (),
        "attempts": attempts,
        "turns": (),
        "facts": (),
        "evidence": Evidence(view=VIEW),
        "replans": 0,
        "audits": (),
        "invalidations": (),
        "denied": None,
        "undone": (),
    }


def test_a_replan_is_shown_all_that_the_world_ever_refused_once_and_nothing_else():
    refused = [Turn(action=f"dance {n % 9}", observation="unknown", accepted=False) for n in range(12)]
    question = Turn(action="pick up orange", observation="Ambiguous request: ...", accepted=False)
    scripted_model, state = ScriptedModel(conditions=["c"]), replan_state([], "All is well.", "Later.")
    state["turns"] = (*refused, question, Turn(action="look around", observation="You see."))
    plan = answered("replan", state, scripted_model)["plan"]
    assert [predicate.text for predicate in plan] == ["c", GOAL.text]
    notes = scripted_model.prompts[0].partition("find a(n) plant")[2]
    assert [line for line in notes.splitlines() if line.startswith("- ")] == [f"- dance {n}" for n in range(9)]
    assert "1. It has begun." in scripted_model.prompts[0]


def test_the_paper_s_configuration_adds_nothing_to_the_paper_s_inputs_and_answers():
    scripted_model = ScriptedModel(conditions=["a"], holds=1, action="sing")
    propose(scripted_model, "paper")
    assert WORDINGS not in scripted_model.prompts[0]
    fields = {}

    def judge(prompt: str, schema: dict[str, Any]) -> Any:
        fields.update(schema["properties"])
        return scripted_model(prompt, schema)

    turns = (Turn(action="EARLIER", observation="x", accepted=False), Turn(action="wait", observation="You wonder."))
    validate(predicates("All is well."), seen(), judge, "paper", turns)
    assert set(fields) == {"reason", "holds"}
    assert "EARLIER" not in scripted_model.prompts[1]


def test_a_replan_of_small_models_drops_the_condition_that_is_stuck():
    plan = answered("replan", replan_state([], "All is well.", "Later."), config="drafted")["plan"]
    assert [predicate.text for predicate in plan] == ["Later.", GOAL.text]
    scripted_model = ScriptedModel(conditions=["c"])
    assert answered("replan", replan_state([], "All is well."), scripted_model, config="drafted")["plan"][0].text == "c"


def undone_state() -> dict[str, Any]:
    lost = Invalidation(certificate=0, target=0, predicate=Predicate(text="A cup is held."), step=3, reason="it fell")
    return {**replan_state([], "All is well.", "Later."), "invalidations": (lost,), "undone": (lost,)}


def test_a_replan_after_a_revalidation_plans_what_was_undone_and_keeps_the_untried_rest():
    plan = answered("replan", undone_state(), config="drafted")["plan"]
    assert [predicate.text for predicate in plan] == ["A cup is held.", "All is well.", "Later.", GOAL.text]


def test_a_planner_is_shown_what_was_undone_and_why():
    scripted_model = ScriptedModel(conditions=["c"])
    answered("replan", undone_state(), scripted_model)
    assert "A cup is held." in scripted_model.prompts[0] and "it fell" in scripted_model.prompts[0]


def test_a_replan_after_a_denied_audit_keeps_the_untried_rest():
    denied = Audit(confirmed=False, reason="the door is shut", step=3)
    state = {**replan_state([], "All is well.", "Later."), "denied": denied}
    plan = answered("replan", state, config="drafted")["plan"]
    assert [predicate.text for predicate in plan] == ["All is well.", "Later.", GOAL.text]


@pytest.mark.parametrize(("config", "target"), [("paper", WORDED[0]), ("", "All is well.")])
def test_the_model_writes_freely_as_in_the_paper_and_for_what_it_worded_itself(config: str, target: str):
    scripted_model = ScriptedModel(action="waltz with the orange")
    state = realize_state(target, ["sing"])
    taken = answered("realize", state, scripted_model, config=config, actions=[*ACTIONS, *CUPS])
    assert taken["action"].text == "waltz with the orange"
    assert scripted_model.options == [[]]
    assert "sing: no" in scripted_model.prompts[0]
