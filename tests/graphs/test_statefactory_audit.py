"""StateFactory's prompted path on fifty steps of each domain: its states and goals are those of the simulator.

An endpoint answers with what the simulator holds after each step, in the layout that is asked for, and logs the
requests. Between its answers and the graph's states lie the forms, the changes, the anchors of the goal and the
routing, so that this tests all of them at the sizes of the real worlds.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers.files.real_data import data_folder
from helpers.sample_runs.audit_listing import READ, list_steps, read_listing
from helpers.servers.logging_endpoint import LoggingEndpoint, logging_endpoint
from helpers.worlds.simulator_states import Episode, Facts, alfworld, blocksworld, scienceworld, textworld, webshop

from certigraph.adapters.protocols import Context, Limits
from certigraph.benchmarks.rewardprediction.benchmark import RewardWorld
from certigraph.benchmarks.scienceworld.recordings import read_recordings
from certigraph.benchmarks.scienceworld.simulator import JavaSimulator
from certigraph.graphs import statefactory
from certigraph.nodes import rewards
from certigraph.nodes.factored_states import prompted_state
from certigraph.state.records import Task
from certigraph.state.rewards import DOMAIN, RECORDINGS, to_mapping

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # loading ALFWorld's games takes minutes on a busy machine

STEPS = 50
"""Minimum number of steps of each domain."""

FULFILLED = 1 - 1e-6
"""Reward above which a goal counts as reached."""


def of_blocksworld() -> Iterator[Episode]:
    for task in ("5-1", "6-0", "6-1", "6-2", "7-0", "7-1"):
        yield blocksworld(task)


def of_textworld() -> Iterator[Episode]:
    pytest.importorskip("textworld")
    for game in ("coin_collector-30-0", "quest-10-0", "quest-10-1"):
        yield textworld(game)


def of_webshop() -> Iterator[Episode]:
    for task in GOALS.split():
        yield webshop(task)


GOALS = """
G039837515-1 G016180278-1 G001630968-0 G020732361-0 G023036150-2 G012292450-1
G027082529-7 G037608447-2 G038900189-2 G018284929-1 G031903942-2
"""


def of_scienceworld() -> Iterator[Episode]:
    recorded = {one.task: one for one in read_recordings(data_folder("scienceworld") / "gold_var0.jsonl.gz")}
    simulator = JavaSimulator()
    try:
        for task in ("power-component", "find-living-thing", "use-thermometer", "chemistry-mix-paint-secondary-color"):
            yield scienceworld(simulator, recorded[task])
    finally:
        simulator.close()


PLANS = """\
- pick_and_place_simple-Mug-None-Desk-308/trial_T20190909_203041_433487
  go to shelf 1, take mug 1 from shelf 1, go to desk 2, put mug 1 in/on desk 2
- pick_and_place_simple-SaltShaker-None-Cabinet-10/trial_T20190906_191445_723170
  go to shelf 1, take saltshaker 1 from shelf 1, go to cabinet 4, put saltshaker 1 in/on cabinet 4
- pick_and_place_simple-Vase-None-Safe-219/trial_T20190908_205221_748352
  go to dresser 1, take vase 1 from dresser 1, go to safe 1, open safe 1, put vase 1 in/on safe 1
- pick_heat_then_place_in_recep-Apple-None-Fridge-10/trial_T20190906_182353_418140
  go to garbagecan 1, take apple 3 from garbagecan 1, go to microwave 1, heat apple 3 with microwave 1, go to fridge
  1, open fridge 1, put apple 3 in/on fridge 1
- pick_heat_then_place_in_recep-Egg-None-GarbageCan-10/trial_T20190908_113523_123938
  go to garbagecan 1, take egg 2 from garbagecan 1, go to microwave 1, heat egg 2 with microwave 1, go to garbagecan
  1, put egg 2 in/on garbagecan 1
- pick_heat_then_place_in_recep-Potato-None-GarbageCan-10/trial_T20190907_161853_945788
  go to countertop 2, take potato 2 from countertop 2, go to microwave 1, heat potato 2 with microwave 1, go to
  garbagecan 1, put potato 2 in/on garbagecan 1
- pick_cool_then_place_in_recep-Bread-None-CounterTop-10/trial_T20190908_091811_414150
  go to countertop 3, take bread 2 from countertop 3, go to fridge 1, cool bread 2 with fridge 1, go to countertop
  2, put bread 2 in/on countertop 2
- pick_cool_then_place_in_recep-Mug-None-CoffeeMachine-10/trial_T20190907_183807_477267
  go to coffeemachine 1, take mug 1 from countertop 1, go to fridge 1, cool mug 1 with fridge 1, go to coffeemachine
  1, put mug 1 in/on coffeemachine 1
- pick_cool_then_place_in_recep-Tomato-None-Microwave-10/trial_T20190909_102644_926781
  go to sinkbasin 1, take tomato 2 from sinkbasin 1, go to fridge 1, cool tomato 2 with fridge 1, go to microwave 1,
  open microwave 1, put tomato 2 in/on microwave 1
- pick_clean_then_place_in_recep-Bowl-None-Cabinet-10/trial_T20190909_061130_844814
  go to countertop 3, take bowl 1 from countertop 3, go to sinkbasin 1, clean bowl 1 with sinkbasin 1, go to cabinet
  4, put bowl 1 in/on cabinet 4
"""
"""Ids of games, each followed by the plan of the simulator's planner, which takes up to a minute for one."""


def of_alfworld() -> Iterator[Episode]:
    pytest.importorskip("alfworld")
    for game in PLANS.split("- ")[1:]:
        task, _, plan = game.partition("\n")
        yield alfworld(data_folder("alfworld"), task, " ".join(plan.split()).split(", "))


DOMAINS: dict[str, Callable[[], Iterator[Episode]]] = {
    "alfworld": of_alfworld,
    "blocksworld": of_blocksworld,
    "scienceworld": of_scienceworld,
    "textworld": of_textworld,
    "webshop": of_webshop,
}


@pytest.fixture(scope="module", params=DOMAINS)
def episodes(request: pytest.FixtureRequest) -> list[Episode]:
    found = list(DOMAINS[request.param]())
    assert sum(len(one.steps) for one in found) >= STEPS
    assert all([step.solved for step in one.steps] == [False] * (len(one.steps) - 1) + [True] for one in found)
    return found


# The expert's answers.


def objects(facts: Facts) -> list[dict[str, Any]]:
    return [
        {"object": name, "attributes": [{"name": key, "value": value} for key, value in has.items()]}
        for name, has in facts.items()
    ]


def whole(states: Sequence[Facts]) -> list[dict[str, Any]]:
    return [{"reasoning": "so", "objects": objects(state)} for state in states]


def changes(states: Sequence[Facts]) -> list[dict[str, Any]]:
    """What differs from the state before, and what of it no longer holds."""
    answers = []
    for before, now in zip([{}, *states], states, strict=False):
        new = {
            name: {key: value for key, value in has.items() if before.get(name, {}).get(key) != value}
            for name, has in now.items()
        }
        gone = [{"object": name, "attribute": ""} for name in before if name not in now]
        gone += [
            {"object": name, "attribute": key}
            for name, has in before.items()
            for key in has
            if name in now and key not in now[name]
        ]
        kept = {name: has for name, has in new.items() if has or name not in before}
        answers.append({"reasoning": "so", "objects": objects(kept), "removed": gone})
    return answers


def edits(episode: Episode) -> list[dict[str, Any]]:
    """An anchor for each thing of the goal that the step's text names first."""
    answers = []
    for before, now in zip(episode.steps, episode.steps[1:], strict=False):
        found = [name for name in episode.kinds if str(name) in str(now.goal) and str(name) not in str(before.goal)]
        anchors = [{"wanted": episode.kinds[name], "found": name} for name in found]
        answers.append({"reasoning": "so", "anchors": anchors, "milestones": {"objects": []}})
    return answers


# The graph against the endpoint.


class Exact:
    """An encoder by which equal texts have similarity 1 and all others 0, so that a reward of 1 is equality."""

    name = "exact"

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def encode(self, texts: Sequence[str]) -> Any:
        vectors = np.zeros((len(texts), WIDTH), dtype=np.float32)
        for row, text in enumerate(texts):
            vectors[row, self.known.setdefault(text, len(self.known))] = 1.0
        return vectors

    encode_once = encode


WIDTH = 4_096
"""Maximum number of different texts."""


class Recorded:
    """The benchmark, whose world takes the rewards without comparing them."""

    name, briefing, limits, instant = "rewardprediction", "", Limits(), True

    def operators(self) -> dict[str, Any]:
        return {}

    def open(self, task: Task) -> RewardWorld:
        return RewardWorld(())


class Read(NamedTuple):
    """States, goals and rewards after each step, and the log of the endpoint."""

    states: list[Facts]
    goals: list[Facts]
    rewards: list[float]
    endpoint: LoggingEndpoint


def read(episode: Episode, update: str) -> Read:
    states, blueprint = [step.state for step in episode.steps], whole([episode.steps[0].goal])
    extractions = {"whole": whole, "changes": changes}[update](states)
    answers = (
        {"Objects": [extractions[0], *blueprint, *extractions[1:]]}
        if update == "whole"
        else {"ChangedObjects": extractions, "Objects": blueprint}
    )
    recording = [{"action": step.action, "observation": step.text} for step in episode.steps]
    constants = {DOMAIN: episode.domain, RECORDINGS: [recording]}
    task = Task(benchmark="rewardprediction", id=episode.task, goal=episode.goal, constants=constants)
    graph = statefactory.build(extract=prompted_state(update=update))
    with logging_endpoint({**answers, "Edits": edits(episode)}) as endpoint, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CERTIGRAPH_BASE_URL", endpoint.url)
        patch.setenv("OPENAI_API_KEY", "none")
        context = Context(benchmark=Recorded(), model="openai:stub")
        updates = list(graph.stream({"task": task}, context=context, stream_mode="updates"))
    found: dict[str, list[Any]] = {"extract": [], "interpret": [], "route": []}
    for one in updates:
        for node, update_of_node in one.items():
            found.setdefault(node, []).append(update_of_node)
    return Read(
        [to_mapping(one["factored"]) for one in found["extract"]],
        [to_mapping(one["goal"]) for one in found["interpret"]],
        [one["rewards"][-1].reward for one in found["route"]],
        endpoint,
    )


def conditions(facts: Facts) -> set[tuple[str, str, str]]:
    return {(name, key, value) for name, has in facts.items() for key, value in has.items()}


@pytest.mark.long
@pytest.mark.parametrize("update", ["whole", "changes"])
def test_states_and_goals_are_those_of_the_simulator(
    episodes: list[Episode], update: str, monkeypatch: pytest.MonkeyPatch
):
    encoder = Exact()
    monkeypatch.setattr(rewards, "load_encoder", lambda name: encoder)
    for episode in episodes:
        found = read(episode, update)
        assert found.states == [step.state for step in episode.steps]
        initial = conditions(episode.steps[0].goal) & conditions(episode.steps[0].state)  # no progress, so not wanted
        wanted = [conditions(step.goal) - initial for step in episode.steps]
        assert [conditions(goal) for goal in found.goals] == wanted
        assert [reward > FULFILLED for reward in found.rewards] == [step.solved for step in episode.steps]
        requests = found.endpoint.received
        assert len(requests) == 2 * len(episode.steps)
        for number, step in enumerate(episode.steps):
            for request in requests[2 * number : 2 * number + 2]:
                assert step.text.strip() in request.text
                assert step.action in request.text


def test_the_steps_that_were_read_by_hand_are_those_of_the_simulator(episodes: list[Episode]):
    listing = Path(__file__).parents[2] / "results" / "statefactory-audit" / f"{episodes[0].domain}.csv"
    assert [{**row, READ: ""} for row in read_listing(listing)] == list_steps(episodes)
