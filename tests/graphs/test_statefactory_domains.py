"""StateFactory by a model on the five domains of its paper: what a model that logs its requests is asked, and answers.

The model answers by the world's rules, in the layout that it is asked for. It stands for a model that reads well.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from certigraph.adapters.models.scripts import ScriptedChat, current_situation
from certigraph.adapters.protocols import Context, Limits
from certigraph.adapters.rewards import require_factors
from certigraph.benchmarks.rewardprediction.benchmark import RewardPrediction, RewardWorld
from certigraph.graphs import statefactory
from certigraph.nodes.factored_states import goal_by_rules, state_by_rules
from certigraph.state.records import Task
from certigraph.state.rewards import DOMAIN, RECORDINGS, FactoredState, FactorView, to_mapping
from certigraph.studies.reward_data import BuildRequest, build_domain

pytestmark = pytest.mark.slow

DOMAINS = ("alfworld", "blocksworld", "scienceworld", "textworld", "webshop")
MOST_STEPS = 12
"""Number of first steps of each recording that are read; ScienceWorld's have a hundred."""


class Request(NamedTuple):
    """A request that the model got: who asked, what it was shown, the names of the answer's fields, and the view."""

    node: str
    prompt: str
    fields: tuple[str, ...]
    view: FactorView


class Reader:
    """A model that reads states and goals by the rules of the world, and keeps every request."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def __call__(self, prompt: str, schema: dict[str, Any]) -> dict[str, Any]:
        situation = current_situation()
        assert situation
        view: Any = situation.view
        self.requests.append(Request(situation.node, prompt, tuple(schema["properties"]), view))
        rules, goal, step = require_factors(view["task"]), view["task"].goal, view["step"]
        if situation.node == "extract":
            return written(rules.extract(view["factored"], goal, step.action, step.observation))
        wanted = rules.interpret(goal, view["factored"], view["goal"])
        if "anchors" not in schema["properties"]:
            return written(wanted)
        return {"reasoning": "so", "anchors": [], "milestones": {"objects": written(wanted)["objects"]}}


def written(state: FactoredState) -> dict[str, Any]:
    objects = [
        {"object": name, "attributes": [{"name": key, "value": value} for key, value in has.items()]}
        for name, has in to_mapping(state).items()
    ]
    return {"reasoning": "so", "objects": objects}


class Recorded:
    """The benchmark, whose world takes the rewards without comparing them."""

    name, briefing, limits, instant = "rewardprediction", "", Limits(), True

    def operators(self) -> dict[str, Any]:
        return {}

    def open(self, task: Task) -> RewardWorld:
        return RewardWorld(())


ALFWORLD_GOAL = "put some soapbar in cabinet."
ALFWORLD_RECORDINGS = (
    (
        ("", "You are in the middle of a room. Looking quickly around you, you see a cabinet 1, and a countertop 1."),
        ("go to countertop 1", "You arrive at countertop 1. On the countertop 1, you see a mug 1, and a soapbar 2."),
        ("take soapbar 2 from countertop 1", "You pick up the soapbar 2 from the countertop 1."),
        ("go to cabinet 1", "You arrive at cabinet 1. The cabinet 1 is closed."),
        ("open cabinet 1", "You open the cabinet 1. The cabinet 1 is open. In it, you see nothing."),
        ("move soapbar 2 to cabinet 1", "You move the soapbar 2 to the cabinet 1."),
    ),
    (
        ("", "You are in the middle of a room. Looking quickly around you, you see a cabinet 1, and a countertop 1."),
        ("go to cabinet 1", "You arrive at cabinet 1. The cabinet 1 is closed."),
        ("look", "You are facing the cabinet 1. Next to it, you see nothing."),
    ),
)
"""A game in ALFWorld's wording: its games cannot be generated."""


@pytest.fixture(scope="module", params=DOMAINS)
def task(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Task:
    """One pair of recordings, made in the world itself with generated tasks, and cut to its first steps."""
    if request.param == "alfworld":
        written_steps = [[{"action": a, "observation": o} for a, o in steps] for steps in ALFWORLD_RECORDINGS]
        constants = {DOMAIN: request.param, RECORDINGS: written_steps}
        return Task(benchmark="rewardprediction", id="alfworld/1", goal=ALFWORLD_GOAL, constants=constants)
    place = tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CERTIGRAPH_DATA", raising=False)
        build_domain(BuildRequest(request.param, pairs=1), place)
    [built] = RewardPrediction(place).tasks()
    recordings: Any = built.constants[RECORDINGS]
    cut = [steps[:MOST_STEPS] for steps in recordings]
    return built.model_copy(update={"constants": {**built.constants, RECORDINGS: cut}})


def ran(task: Task, reader: Reader | None, **operators: Any) -> Any:
    model: dict[str, Any] = {"chat": ScriptedChat(responder=reader)} if reader else {"model": "scripted:first"}
    context = Context(benchmark=Recorded(), **model)
    return statefactory.build(**operators).invoke({"task": task}, context=context)


def steps_of(task: Task) -> Sequence[Sequence[dict[str, str]]]:
    recordings: Any = task.constants[RECORDINGS]
    return recordings


def test_each_step_is_two_requests_with_what_the_paper_gives_them(task: Task):
    reader = Reader()
    final = ran(task, reader)
    shown = [step for recording in steps_of(task) for step in recording]
    request_counts = Counter(request.node for request in reader.requests)
    assert request_counts == {"extract": len(shown), "interpret": len(shown)}
    assert final["spent"].calls == 2 * len(shown)
    assert {final["factored"].read_by, final["goal"].read_by} == {"model"}
    for request in reader.requests:
        step = request.view["step"]
        assert request.fields[0] == "reasoning"
        assert all(part in request.prompt for part in (task.goal, step.action, step.observation))
        assert all(action in request.prompt for action in request.view["actions"])
        held = request.view["factored"]
        assert all(entity.identity in request.prompt for entity in (*held.entities, *request.view["goal"].entities))
    interpretations = [request for request in reader.requests if request.node == "interpret"]
    blueprints = [request for request in interpretations if "anchors" not in request.fields]
    assert len(blueprints) == len(steps_of(task))  # one for each recording, before its goal is known
    assert all(not request.view["goal"].entities for request in blueprints)


def test_states_and_rewards_are_those_of_the_reader(task: Task):
    """Nothing is lost or added between a model's answer and the state: the graph by rules comes to the same states."""
    reader = Reader()
    by_model = ran(task, reader, interpret=goal_by_rules)
    by_rules = ran(task, None, extract=state_by_rules, interpret=goal_by_rules)
    assert to_mapping(by_model["factored"]) == to_mapping(by_rules["factored"])
    assert [one.reward for one in by_model["rewards"]] == pytest.approx([one.reward for one in by_rules["rewards"]])
    assert by_rules["spent"].calls == 0
    assert by_rules["factored"].read_by == "rules"


def test_only_the_rules_say_that_no_model_was_asked(task: Task):
    assert ran(task, None)["goal"].read_by == "rules"
