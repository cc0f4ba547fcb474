"""ScienceWorld without Java: replies, questions, limits, scores, splits, names, recordings and the twin."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest
from helpers.files.real_data import data_folder
from helpers.worlds.recorded_worlds import create_replay_world, recorded_task

from certigraph.adapters.benchmarks import load_benchmark
from certigraph.benchmarks.scienceworld import pool as descriptions
from certigraph.benchmarks.scienceworld import simulator
from certigraph.benchmarks.scienceworld.benchmark import ScienceWorldBenchmark
from certigraph.benchmarks.scienceworld.pool import SimulatorPool
from certigraph.benchmarks.scienceworld.recordings import (
    GoldRecording,
    read_recordings,
    write_recordings,
)
from certigraph.benchmarks.scienceworld.splits import (
    FAMILIES,
    SPLITS,
    STEP_LONG,
    STEP_SHORT,
    EpisodeSetting,
    EpisodeTally,
    compute_figures,
    list_ids,
    setting_of,
)
from certigraph.benchmarks.scienceworld.world import (
    CANCELLED_REPLY,
    ScienceWorld,
    choose_option,
    classify_reply,
    is_exception,
    parse_options,
    parse_room,
    simplify_view,
)
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Action, Observation, Scores
from certigraph.state.trajectory import Footer

QUESTION = "Ambiguous request: Please enter the number for the action you intended (or blank to cancel):\n"
ORANGES = ("pick up orange (in bowl, in counter, in kitchen)", "pick up orange (in inventory, in agent, in kitchen)")
AMBIGUOUS_REPLY = QUESTION + "".join(f"{number}:\t{text}\n" for number, text in enumerate(ORANGES))
KITCHEN = "This room is called the kitchen. In it, you see: \n\tan orange"
VIEW = "This room is called the kitchen. In it, you see:\nan orange"


class Fake:
    """A simulator that gives scripted answers, and remembers what it was asked."""

    def __init__(self, replies: dict[str, str] | None = None, scores: dict[str, int] | None = None) -> None:
        self.replies, self.scores = replies or {}, scores or {}
        self.requests: list[str] = []
        self.looked = self.listed = self.points = self.loads = self.closed = 0
        self.alive = True

    def load(self, task: str, variation: int, simplification: str) -> str:
        self.loads += 1
        self.requests, self.points = [], 0
        return KITCHEN

    def step(self, text: str) -> str:
        self.requests.append(text)
        self.points = self.scores.get(text, self.points)
        return self.replies.get(text, "You wonder.")

    def score(self) -> int:
        return self.points

    def moves(self) -> int:
        return sum(11 if text == "wait" else 1 for text in self.requests)

    def look(self) -> str:
        self.looked += 1
        return KITCHEN

    def inventory(self) -> str:
        return "In your inventory, you see:\n\tan orange\n"

    def valid_actions(self) -> list[str]:
        self.listed += 1
        return ["wait", "reset task", "pick up orange"]

    def description(self) -> str:
        return "Your task is to wonder."

    def close(self) -> None:
        self.closed += 1


def world_of(fake: Fake, **changes: object) -> ScienceWorld:
    setting = SPLITS["variation-0"].setting("boil", 0).model_copy(update=changes)
    world = ScienceWorld(setting, SimulatorPool(lambda: fake, max_free=1))
    world.reset()
    return world


def step(world: ScienceWorld, text: str) -> Observation:
    return world.step(Action(text=text))


@pytest.mark.parametrize(
    ("reply", "result"),
    [
        ("You move the orange to the inventory.", "accepted"),
        ("The door is now open.", "accepted"),
        ("(disconnecting aluminum foil)You move the aluminum foil to the inventory.", "accepted"),
        ("You decide to wait for 10 iterations.", "accepted"),
        (f"{KITCHEN}\n\ta fridge. The fridge door is closed.\n\ta cup that is not open.", "accepted"),
        ("No known action matches that input.", "rejected"),
        (AMBIGUOUS_REPLY, "ambiguous"),
        ("Ambiguous request: Multiple different possible actions were matched to this input (3).", "rejected"),
        (CANCELLED_REPLY, "cancelled"),
        ("The door is not open.", "failed"),
        ("The door is already open.", "failed"),
        ("The sink is already activated.", "failed"),
        ("It's not clear how to get there from here.", "failed"),
        ("The picture is not openable.", "failed"),
        ("The air is not edible.", "failed"),
        ("The picture is not something that can be activated.", "failed"),
        ("The agent is not moveable.", "failed"),
        ("That can't be moved there, because the picture isn't open.", "failed"),
        ("There is only one thing (glass cup)", "failed"),
        ("You can't move something into itself.", "failed"),
        ("That container is empty, so there are no items to mix.", "failed"),
    ],
)
def test_a_reply_is_recognised_by_its_text(reply: str, result: str):
    assert classify_reply(reply) == result


def test_rooms_are_read_from_what_says_where_one_is():
    assert parse_room(KITCHEN) == "kitchen"
    assert parse_room("This outside location is called the outside. Here you see: ") == "outside"
    assert parse_room("You move to the art studio.") == parse_room("You teleport to the art studio.") == "art studio"
    assert parse_room("You move through the door to the hallway.") == "hallway"
    assert parse_room("You move the orange to the inventory.") == parse_room("The door is now open.") == ""


def test_an_exception_of_the_simulator_is_not_taken_for_a_reply():
    assert is_exception("java.lang.NullPointerException: Cannot invoke")
    assert is_exception("scala.MatchError: null")
    assert is_exception("ERROR: Interface is not initialized -- call reset() before beginning.")
    assert not is_exception("No known action matches that input.")


def test_options_are_chosen_by_text_or_number_and_equal_ones_by_the_first():
    same = ("move seed to pot 2", "move seed to pot 2", "move seed to pot 21")
    assert parse_options(AMBIGUOUS_REPLY) == ORANGES
    assert choose_option("  PICK UP orange (in inventory, in  agent, in kitchen)", ORANGES) == 1
    assert choose_option("I mean: pick up orange (in bowl, in counter, in kitchen).", ORANGES) == 0
    assert choose_option("1", ORANGES) == 1
    assert [choose_option(text, ORANGES) for text in ("2", "-1", "", "pick up orange", "look around")] == [None] * 5
    assert choose_option("move seed to pot 2", same) == 0
    assert choose_option("the option move seed to pot 21", same) == 2


def test_a_pending_question_lets_only_its_answers_through():
    fake = Fake({"take orange": AMBIGUOUS_REPLY})
    world = world_of(fake)
    question = step(world, "take orange")
    assert (question.accepted, question.data["result"], question.data["options"]) == (False, "ambiguous", list(ORANGES))
    assert world.admissible() == [*ORANGES, "cancel"]
    assert all(text in world.view() for text in ("kitchen", "inventory", *ORANGES))
    refused = step(world, "go to hallway")
    assert (refused.accepted, refused.data["result"], fake.requests) == (False, "rejected", ["take orange"])
    assert all(option in refused.text for option in ORANGES) and "cancel" in refused.text
    assert refused.data["calls"] == 2 and refused.data["sent"] is None and "sent" not in question.data
    taken = step(world, ORANGES[1].upper())
    assert (taken.accepted, taken.data["chosen"], fake.requests) == (True, ORANGES[1], ["take orange", "1"])
    assert "options" not in taken.data and taken.data["sent"] == "1"
    assert ORANGES[0] not in world.view()


def test_cancel_drops_the_question_and_only_then():
    fake = Fake({"take orange": AMBIGUOUS_REPLY, "": CANCELLED_REPLY})
    world = world_of(fake)
    step(world, "cancel")
    step(world, "take orange")
    dropped = step(world, " Cancel ")
    assert fake.requests == ["cancel", "take orange", ""]
    assert (dropped.data["result"], dropped.data["sent"], world.options) == ("cancelled", "", ())


def test_views_and_lists_are_made_when_requested_and_once_between_steps():
    fake = Fake()
    world = world_of(fake)
    step(world, "wait")
    assert (fake.looked, fake.listed) == (1, 0)
    assert world.admissible() == world.admissible() == ["wait", "pick up orange"]
    shown = f"{VIEW}\nIn your inventory, you see:\nan orange\nRooms seen: kitchen"
    assert world.view() == world.view() == f"{shown}\nScore: 0 of 100.\nActions used: 1, 499 left."
    assert (fake.looked, fake.listed) == (2, 1)
    step(world, "wait")
    world.view()
    assert fake.looked == 3


def test_a_room_is_shown_when_it_is_entered_for_the_first_time():
    fake = Fake({"go out": "You move to the outside.", "go in": "You move to the kitchen."})
    world = world_of(fake)
    out, back = step(world, "go out"), step(world, "go in")
    assert (out.data["room"], out.data["new_room"], out.data["look"]) == ("outside", True, KITCHEN)
    assert (back.data["room"], "new_room" in back.data) == ("kitchen", False)
    assert "Rooms seen: kitchen, outside" in world.view()


@pytest.mark.parametrize(
    ("changes", "lines", "ended"),
    [
        ({"calls": 2}, ["look", "look"], "calls"),
        ({"unit": "moves", "limit": 11}, ["wait", "look"], "moves"),
        ({}, ["look", "win"], "goal"),
        ({}, ["look", "lose"], "failed"),
    ],
)
def test_an_episode_ends_at_its_limits_and_at_its_ends(changes: dict[str, object], lines: list[str], ended: str):
    world = world_of(Fake(scores={"win": 100, "lose": -100}), **changes)
    *before, last = [step(world, line) for line in lines]
    assert not any(observation.done for observation in before)
    assert (last.done, last.data["ended"], last.solved) == (True, ended, ended == "goal")
    over = step(world, "look")
    assert (over.accepted, over.done, over.data["calls"]) == (False, True, 2)


def test_refused_answers_count_as_calls_too():
    world = world_of(Fake({"take orange": AMBIGUOUS_REPLY}), calls=3)
    assert [step(world, text).done for text in ("take orange", "no", "no")] == [False, False, True]


def test_a_reset_starts_again():
    fake = Fake({"take orange": AMBIGUOUS_REPLY}, {"good": 40})
    world = world_of(fake)
    step(world, "good")
    step(world, "take orange")
    first = world.reset()
    assert (first.text, first.data["score"], first.data["calls"], world.options) == (KITCHEN, 0, 0, ())
    assert (fake.loads, world.score().value) == (2, 0.0)


def test_rewards_add_up_to_the_score_and_a_fatal_mistake_keeps_what_was_earned():
    world = world_of(Fake(scores={"good": 42, "worse": 30, "fatal": -100}))
    rewards = [step(world, text).reward for text in ("good", "worse", "fatal")]
    assert rewards == pytest.approx([0.42, -0.12, -1.3])
    parts = {"raw": -100, "last_non_negative": 30, "last_positive": 30, "moves": 3, "calls": 3}
    assert world.score() == Scores(value=0.3, parts=parts)


def test_the_rules_differ_where_a_score_fell_to_nothing():
    scores = {
        rule: EpisodeTally(EpisodeSetting(**{**SETTING, "rule": rule}))
        for rule in ("last_non_negative", "last_positive")
    }
    for tally in scores.values():
        for score in (8, 0, -100):
            tally.record(score, 1)
    assert {rule: tally.scores().value for rule, tally in scores.items()} == {
        "last_non_negative": 0.0,
        "last_positive": 0.08,
    }


SETTING = SPLITS["variation-0"].setting("boil", 0).model_dump()


def test_a_broken_simulator_is_a_fault_of_the_world_not_a_mistake_of_the_agent():
    world = world_of(Fake({"mix": "java.util.NoSuchElementException: None.get"}, {"mix": -100}))
    with pytest.raises(Fault, match=r"simulator failed in boil:0: java\.util") as fault:
        step(world, "mix")
    assert fault.value.ending == "error:environment"


def test_a_pool_lends_again_what_comes_back_alive_and_closes_the_rest():
    made: list[Fake] = []

    def start() -> Fake:
        made.append(Fake())
        return made[-1]

    pool = SimulatorPool(start, max_free=1)
    first, second = pool.borrow(), pool.borrow()
    pool.give_back(first)
    pool.give_back(second)
    assert [fake.closed for fake in made] == [0, 1]
    assert pool.borrow() is first
    first.alive = False
    pool.give_back(first)
    assert first.closed == 1
    assert pool.borrow() is made[2]
    pool.give_back(made[2])
    made[2].alive = False
    assert pool.borrow() is made[3]
    pool.give_back(made[3])
    pool.close()
    assert [fake.closed for fake in made] == [1, 1, 1, 1]


def test_a_world_whose_simulator_died_gets_another_at_the_next_reset():
    fakes = [Fake(), Fake()]
    world = ScienceWorld(EpisodeSetting(**SETTING), SimulatorPool(iter(fakes).__next__, max_free=1))
    world.reset()
    fakes[0].alive = False
    world.reset()
    assert [fake.loads for fake in fakes] == [1, 1]
    world.close()
    world.close()
    with pytest.raises(Fault, match=r"call reset\(\) first"):
        world.view()


def test_the_splits_are_the_published_ones():
    sizes = {name: len(list_ids(name)) for name in SPLITS}
    expected = {"variation-0": 30, "gold": 30, "short": 3, "swiftsage-90": 90, "swiftsage-271": 271}
    assert sizes == {**expected, "step-18": 18, "tdp-100": 100, "small-20": 20}
    assert Counter(family.group for family in FAMILIES.values()) == {"short": 10, "medium": 8, "long": 12}
    assert sum(len(family.variations) for family in FAMILIES.values()) == 7207
    assert sum(len(family.test_variations) for family in FAMILIES.values()) == 1819
    assert SPLITS["swiftsage-271"].variations["boil"] == tuple(range(21, 30))
    assert SPLITS["swiftsage-271"].variations["find-plant"] == tuple(range(225, 235))
    assert set(list_ids("swiftsage-90")) == {
        id_.replace("271", "90") for id_ in list_ids("swiftsage-271") if _position(id_) < 3
    }


def _position(task_id: str) -> int:
    setting = setting_of(task_id)[1]
    return setting.variation - FAMILIES[setting.task].test_variations[0]


def test_the_hundred_of_tdp_are_test_variations_spread_over_all_tasks_and_never_change():
    chosen = SPLITS["tdp-100"].variations
    assert Counter(map(len, chosen.values())) == {3: 20, 4: 10}
    assert all(set(numbers) <= set(FAMILIES[task].test_variations) for task, numbers in chosen.items())
    assert [chosen[task] for task in ("boil", "find-plant", "use-thermometer")] == TDP_SAMPLE


def test_tdps_configuration_means_its_hundred_and_its_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("certigraph.benchmarks.scienceworld.benchmark.load_goal", lambda *setting: "a goal")
    tdp = load_benchmark("scienceworld:tdp")
    assert [task.id for task in tdp.tasks()] == list_ids("tdp-100")
    assert {task.benchmark for task in tdp.tasks("short")} == {"scienceworld:tdp"}
    assert (tdp.limits.steps, load_benchmark("scienceworld").limits.steps) == (60, 500)
    assert len(load_benchmark("scienceworld").tasks()) == 30
    assert tdp.operators().keys() == load_benchmark("scienceworld").operators().keys()


TDP_SAMPLE = [(21, 23, 24), (229, 276, 284, 291), (416, 424, 436)]


def test_limits_are_each_protocols_own():
    def limits(task_id: str) -> tuple[object, ...]:
        setting = setting_of(task_id)[1]
        return setting.unit, setting.limit, setting.calls, setting.rule, setting.simplification

    assert limits("step-18/use-thermometer:1") == ("moves", 37, 500, "last_positive", "easy")
    assert limits("step-18/boil:1") == ("moves", 70, 500, "last_positive", "easy")
    assert limits("swiftsage-90/boil:21") == ("moves", 100, 200, "last_non_negative", "easy")
    assert limits("swiftsage-271/boil:29") == ("moves", 300, 600, "last_non_negative", "easy")
    assert limits(list_ids("tdp-100")[0]) == ("calls", 60, 60, "last_non_negative", "easy")
    assert limits("boil:7") == ("calls", 500, 500, "last_non_negative", "easy")
    assert limits("gold/boil:0") == ("calls", None, None, "last_non_negative", "")
    assert (len(STEP_SHORT), len(STEP_LONG), SPLITS["step-18"].episodes) == (9, 9, 5)


def test_ids_of_the_paper_and_of_the_usual_split_mean_the_same_task():
    assert setting_of("4-2:0") == setting_of("find-non-living-thing:0") == setting_of("variation-0/4-2:0")
    assert setting_of("step-18/1-1:1")[0] == "step-18/boil:1"
    assert all(setting_of(task_id)[0] == task_id for split in SPLITS for task_id in list_ids(split))


@pytest.mark.parametrize(
    ("task_id", "unknown"),
    [
        ("bake:0", "'bake'"),
        ("boil:30", "'30'"),
        ("boil:-1", "'-1'"),
        ("boil", "boil"),
        ("step-19/boil:1", "'step-19'"),
        ("step-18/boil:2", "variation 2"),
        ("step-18/melt:1", "melt"),
    ],
)
def test_unknown_names_are_refused_and_start_no_java(task_id: str, unknown: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(simulator, "launch_jvm", lambda: pytest.fail("Java was started"))
    with pytest.raises(UnknownName, match=unknown):
        ScienceWorldBenchmark().task(task_id)


def test_a_goal_is_requested_once_and_a_task_opens_from_its_constants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    fake = Fake()
    pool = SimulatorPool(lambda: fake, max_free=1)
    values = [descriptions.load_goal("boil", 0, "easy", pool) for _ in range(2)]
    assert (values, fake.loads) == (["Your task is to wonder."] * 2, 1)
    descriptions.load_goal("boil", 0, "", pool)
    assert fake.loads == 2
    task = ScienceWorldBenchmark().task("boil:0")
    assert task.goal == "Your task is to wonder."
    assert ScienceWorldBenchmark().open(task).setting == setting_of("boil:0")[1]
    with pytest.raises(Fault, match=r"make it with ScienceWorldBenchmark\(\)\.task"):
        ScienceWorldBenchmark().open(task.model_copy(update={"constants": {}}))


def test_figures_weigh_every_task_the_same():
    runs = [("boil:0", 0.2), ("boil:1", 0.4), ("find-plant:0", 1.0), ("step-18/find-plant:1", None)]
    found = compute_figures([(task_id, _footer(value)) for task_id, value in runs])
    assert found == pytest.approx(
        {"n": 4, "score": 0.4, "score_stderr": 0.21602469, "solved": 0.25, "overall": 0.4, "short": 0.5, "long": 0.3}
    )
    assert compute_figures([]) == {"n": 0, "score": 0.0, "score_stderr": 0.0, "solved": 0, "overall": 0.0}


def _footer(value: float | None) -> Footer:
    scores = None if value is None else Scores(value=value)
    return Footer.model_validate({"ending": "goal", "usage": {"node": ""}, "scores": scores and scores.model_dump()})


ROW = {
    "task": "boil",
    "var": 0,
    "simp": "",
    "desc": "Your task is to take the orange.",
    "gold": ["go to kitchen", "look around", "take orange", "1", "wait1"],
    "obs": [
        "This room is called the hallway. In it: ",
        "You move to the kitchen.",
        KITCHEN,
        AMBIGUOUS_REPLY,
        "You move it.",
        "-",
    ],
    "scores": [10, 10, 10, 100, 100],
    "firstdone": 4,
    "moves": 4,
    "valid_max": 3,
}


def test_a_recording_names_the_options_that_its_numbers_chose():
    recording = GoldRecording.model_validate(ROW)
    assert recording.actions == ("go to kitchen", "look around", "take orange", ORANGES[1])
    assert recorded_task(recording).id == "gold/boil:0"
    assert recorded_task(recording).constants == setting_of("gold/boil:0")[1].model_dump()


def test_a_path_that_drops_a_question_says_so_and_its_twin_follows():
    gold, obs = (
        ["take orange", "dance", "wait"],
        [KITCHEN, AMBIGUOUS_REPLY, CANCELLED_REPLY, "You decide to wait for 10 iterations."],
    )
    recording = GoldRecording.model_validate({**ROW, "gold": gold, "obs": obs, "scores": [0, 0, 100], "firstdone": 3})
    assert recording.actions == ("take orange", "cancel", "wait")
    world = create_replay_world(recording)
    world.reset()
    seen = [step(world, action) for action in recording.actions]
    assert [observation.text for observation in seen] == obs[1:]
    assert (seen[-1].solved, seen[-1].data["moves"]) == (True, 12)


def test_recordings_are_stored_to_the_byte_and_changed_ones_are_found_out(tmp_path: Path):
    recordings = (GoldRecording.model_validate(ROW),)
    first, second = tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl.gz"
    for path in (first, second):
        write_recordings(path, recordings)
    assert (read_recordings(first), first.read_bytes()) == (recordings, second.read_bytes())
    row = json.loads(gzip.decompress(first.read_bytes()))
    first.write_bytes(gzip.compress(json.dumps({**row, "scores": [0, *row["scores"][1:]]}).encode()))
    with pytest.raises(Fault, match=r"(?s)a\.jsonl\.gz:1 is not a valid recording.*record it again"):
        read_recordings(first)
    with pytest.raises(Fault, match=r"none\.gz"):
        read_recordings(tmp_path / "none.gz")


def test_the_twin_walks_the_recorded_path_looks_left_out_or_not():
    world = create_replay_world(GoldRecording.model_validate(ROW))
    assert world.reset().text == ROW["obs"][0]
    assert step(world, "take orange").data["result"] == "rejected"
    assert step(world, "look around").text == ROW["obs"][0]
    assert step(world, "Go to kitchen").data["room"] == "kitchen"
    assert step(world, "take orange").data["result"] == "ambiguous"
    assert step(world, "cancel").data["result"] == "cancelled"
    assert world.view() == f"{VIEW}\nRooms seen: hallway, kitchen\nScore: 10 of 100."
    assert step(world, "take orange").data["options"] == list(ORANGES)
    solved = step(world, ORANGES[1])
    assert (solved.text, solved.solved, solved.reward, solved.data["moves"]) == ("You move it.", True, 0.9, 3)
    world.close()


def test_the_twin_reaches_100_on_every_recorded_task_by_texts_alone():
    recordings = read_recordings(data_folder("scienceworld") / "gold_var0.jsonl.gz")
    assert {recorded_task(recording).id for recording in recordings} == set(list_ids("gold"))
    for recording in recordings:
        world = create_replay_world(recording)
        world.reset()
        seen = [step(world, action) for action in recording.actions]
        assert [observation.text for observation in seen] == list(recording.obs[1 : recording.firstdone + 1])
        assert (world.score().value, seen[-1].data["ended"]) == (1.0, "goal")


def test_substances_are_known_by_the_names_that_a_view_shows():
    view = """a sink, which is turned on. In the sink is: a metal pot (containing a substance called water).
a glass jar (containing a substance called sodium chloride, a banana)
a wood cup (containing red paint)"""
    assert ScienceWorldBenchmark().shown_names(view) == {
        "substance in metal pot": "water",
        "substance in glass jar": "sodium chloride",
    }


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("focus on unknown substance B", "focus on unknown substance B"),
        ("pick up the seed jar", "pick up the seed jar"),
        ("use thermometer on seed jar", "use thermometer on seed jar"),
        ("use thermometer on water", None),
        ("focus on seed", None),
        ("focus on substance B", None),
        ("use thermometer on lead", "use thermometer on lead"),
        ("use thermometer on tin", None),
        ("pick up iron pot containing lead", "pick up iron pot containing lead"),
        ("pick up iron pot containing tin", None),
        ("focus on apple in bowl", None),
        ("focus on pea seed in seed box", "focus on pea seed in seed box"),
        ("focus on seed in seed box", None),
        ("pick up apple in bowl", "pick up apple in bowl"),
        ("take seed jar", "pick up seed jar"),
        (
            "move apple seed in inventory to thermometer in kitchen",
            "move apple seed in inventory to thermometer in kitchen",
        ),
        ("move seed jar in inventory to thermometer in kitchen", None),
        ("move apple seed in inventory to thermometer in hallway", None),
        ("pick up cup", "pick up cup (in kitchen)"),
        ("pick up pot", None),
        ("focus on pot", None),
        ("pick up box", "pick up seed box"),
        ("take the box", "pick up seed box"),
        ("pick up jar", "pick up seed jar"),
        ("pick up bowl", "pick up bowl"),
        ("focus on box", None),
        ("use thermometer on box", None),
        ("connect cathode in battery to orange wire terminal 2", "connect battery cathode to orange wire terminal 2"),
        ("connect orange wire terminal 2 to cathode on battery", "connect battery cathode to orange wire terminal 2"),
        ("connect terminal 1 in orange wire to cathode in battery", None),
        ("connect anode on battery to terminal 2 in orange wire", "connect battery anode to orange wire terminal 2"),
        ("pick up water in pot", None),
    ],
)
def test_an_action_is_sent_as_the_view_names_its_things_or_as_the_one_that_is_listed(written: str, sent: str | None):
    view = """This room is called the kitchen. In it, you see:
an unknown substance B
a seed jar (containing nothing)
a thermometer, currently reading a temperature of 10 degrees celsius
a table. On the table is: a bowl (containing a red apple, a apple).
a iron pot (containing a substance called lead)
a glass cup (containing a substance called liquid tin)
a seed box (containing a pea seed, a pea seed, soil)
In your inventory, you see:
an apple seed"""
    listed = [
        "pick up seed jar",
        "pick up cup (in kitchen)",
        "pick up metal pot",
        "pick up iron pot",
        "pick up seed box",
        "pick up glass bowl",
        "focus on pot (1)",
        "focus on seed box",
        "connect battery cathode to orange",
        "connect battery cathode to orange wire terminal 2",
        "connect battery anode to orange wire terminal 2",
        "connect orange wire terminal 2 to battery anode",
        "pick up pot in water",
    ]
    assert ScienceWorldBenchmark().find_action(written, listed, view) == sent


STUDIO = """In it, you see:
a large cupboard. The large cupboard door is closed.
a small chest. The small chest door is open. In the small chest is: a tin cup (containing red paint).
a table. On the table is: a bowl (containing a red apple, a wood cup (containing green paint)).
a wood cup (containing blue paint, A blank paper)
a wood cup (containing yellow paint)
a wood cup (containing yellow paint)
A door to the hallway"""
STUDIO_LIST = [
    "mix cup containing blue paint",
    "mix cup containing blue paint and paper",
    "mix blue paint in cup containing blue paint and paper",
    "mix cup containing red paint in chest",
    "mix cup containing red paint in cupboard",
    "mix cup containing green paint",
    "mix cup containing yellow paint in art studio",
    "mix cup containing yellow paint in table",
    "pick up paper",
    "move paper to cup containing blue paint and paper",
    "move paper to cup containing red paint in chest",
    "move paper to cup containing red paint in cupboard",
    "focus on paper",
    "look in cupboard",
]


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("mix wood cup containing blue paint", "mix cup containing blue paint and paper"),
        ("mix wood cup containing blue paint and blank paper", "mix cup containing blue paint and paper"),
        ("mix wood cup containing blue paint, A blank paper", "mix cup containing blue paint and paper"),
        ("mix cup containing red paint", "mix cup containing red paint"),
        ("mix wood cup containing red paint", None),
        ("mix wood cup containing yellow paint and paper", None),
        ("pick up blank paper", "pick up paper"),
        ("pick up the blank paper", "pick up the paper"),
        ("focus on blank paper", None),
        ("focus on paper", "focus on paper"),
        ("move blank paper to wood cup containing blue paint", "move paper to cup containing blue paint and paper"),
        ("move blank paper to tin cup containing red paint", "move paper to tin cup containing red paint"),
    ],
)
def test_a_thing_is_known_by_what_it_holds_and_by_its_name_behind_a_description(written: str, sent: str | None):
    assert ScienceWorldBenchmark().find_action(written, STUDIO_LIST, STUDIO) == sent


def test_what_is_out_of_sight_is_not_offered():
    hidden = {"mix cup containing blue paint", *(action for action in STUDIO_LIST if action.endswith(" in cupboard"))}
    visible = ScienceWorldBenchmark().select_visible(STUDIO_LIST, STUDIO)
    assert set(STUDIO_LIST) - set(visible) == hidden - {"look in cupboard"}


def test_the_parts_of_a_wire_are_separated_from_its_name():
    shown = simplify_view("a black wireits terminal 1 is connected to: x")
    assert shown == "a black wire. its terminal 1 is connected to: x"
