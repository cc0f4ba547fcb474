"""TravelPlanner's plan-as-text baselines: what counts as a plan, answers to submissions, rates as put in."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from helpers.files.real_data import data_folder
from helpers.models.long_answers import long_answer

import certigraph
from certigraph.adapters.models.scripts import ScriptedChat
from certigraph.adapters.protocols import Context, Limits
from certigraph.benchmarks.travelplanner.benchmark import TravelPlanner
from certigraph.benchmarks.travelplanner.expert import SimulatedPlanner
from certigraph.benchmarks.travelplanner.generator import generate_world
from certigraph.benchmarks.travelplanner.world import TravelWorld
from certigraph.benchmarks.travelplanner.written_plans import (
    CHECKED,
    COST,
    DELIVER,
    SINGLE_PASS,
    MalformedPlanError,
    WrittenTurn,
    format_reference,
    read_plan,
    read_turn,
    select_cheapest,
)
from certigraph.graphs import plan_and_solve, react, reflexion
from certigraph.runtime.run import run
from certigraph.state.records import Action, Observation, Task, Usage
from certigraph.state.trajectory import Footer

pytestmark = pytest.mark.slow  # whole runs of the one-shot baselines

TASKS = 30
GRAPHS = ("react", "plan_and_solve", "reflexion")
DAY = {"days": 1, "current_city": "from A to B", "breakfast": "-"}


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TravelPlanner]:
    made = tmp_path_factory.mktemp("travelplanner")
    generate_world(made, seed=5, cities=16, tasks=TASKS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(made / "cache"))
        yield TravelPlanner(made)


def invoked(graph: str, benchmark: TravelPlanner, task: Task, planner: Any = None, **context: Any) -> dict[str, Any]:
    """The final state of one run; `planner` answers every question."""
    if planner is not None:
        context["chat"] = ScriptedChat(responder=planner)
    built = {"react": react, "plan_and_solve": plan_and_solve, "reflexion": reflexion}[graph].build()
    return dict(built.invoke({"task": task}, context=Context(benchmark=benchmark, **context)))


def greedy(benchmark: TravelPlanner, task: Task) -> str:
    """The text of the simulated planner's plan."""
    return str(invoked("plan_and_solve", benchmark, task, SimulatedPlanner())["action"].args["plan"])


def delivered(benchmark: TravelPlanner, task: Task, text: str) -> tuple[Observation, TravelWorld]:
    world = benchmark.open(task)
    world.reset()
    return world.step(Action(text="deliver", kind=DELIVER, args={"plan": text})), world


def changed(text: str, change: Mapping[str, str], day: int = 0) -> str:
    plan = json.loads(text)
    plan[day] |= change
    return json.dumps(plan)


def footers(benchmark: TravelPlanner, graph: str, planner: SimulatedPlanner) -> list[tuple[str, Footer]]:
    return [(task.id, _footer(benchmark, graph, task, planner)) for task in benchmark.tasks()]


def _footer(benchmark: TravelPlanner, graph: str, task: Task, planner: SimulatedPlanner) -> Footer:
    text = invoked(graph, benchmark, task, planner)["action"].args["plan"]
    _, world = delivered(benchmark, task, text)
    return Footer(ending="world_ended", scores=world.score(), usage=Usage(node="all"))


def ran(benchmark: TravelPlanner, graph: str, task: Task, out: Path, **context: Any) -> tuple[str, Footer]:
    result = run(graph, benchmark, task, context=Context(**context), out=out)
    assert result.trajectory.footer
    return task.id, result.trajectory.footer


# --- what counts as a plan


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([DAY]),
        f"Here it is [as asked]:\n```json\n{json.dumps([DAY], indent=2)}\n```\nHave a nice trip.",
        json.dumps({"plan": [DAY]}),
        json.dumps([DAY | {"mood": ["good"], "days": "1"}]),
    ],
)
def test_a_plan_is_found_whatever_stands_around_it(text: str):
    assert read_plan(text) == [DAY]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", ""),
        ("Day 1: fly to B.", ""),
        ("[]", ""),
        (json.dumps([DAY, DAY])[:-4], "JSON"),
        (json.dumps([DAY])[:-1] + ",]", "JSON"),
        (str([DAY]), "JSON"),
        ('[{"a":' * 5000, "JSON"),
        (json.dumps([DAY | {"lunch": "\ud800"}]), "JSON"),
        (json.dumps([DAY, {"days": 2}]), "day 2: current_city"),
        (json.dumps([DAY | {"attraction": ["Zoo", "Park"]}]), "day 1: attraction"),
        (json.dumps([DAY | {"lunch": None}]), "day 1: lunch"),
        (json.dumps([DAY, "day two"]), "day 2"),
    ],
)
def test_what_is_not_a_plan_is_malformed_with_a_reason(text: str, why: str):
    with pytest.raises(MalformedPlanError, match=why):
        read_plan(text)


@pytest.mark.parametrize(
    ("text", "turn"),
    [
        ("Thought: cheap\n first.\nAction: cost\n[{}]", WrittenTurn("cheap first.", COST, "[{}]")),
        ("<think>Action: cost</think>\n**Action:** Deliver\n[{}]", WrittenTurn("", DELIVER, "[{}]")),
        ("[{}] that is all", WrittenTurn("", DELIVER, "[{}] that is all")),
        ("Thought: no action: costly\n[{}]", WrittenTurn("", DELIVER, "Thought: no action: costly\n[{}]")),
    ],
)
def test_a_turn_is_split_at_its_action_and_without_one_is_a_delivery(text: str, turn: WrittenTurn):
    assert read_turn(text) == turn


# --- submissions


def test_asking_for_the_cost_ends_nothing_and_delivers_nothing(benchmark: TravelPlanner):
    task = benchmark.tasks()[0]
    world, text = benchmark.open(task), greedy(benchmark, task)
    world.reset()
    part = json.dumps(json.loads(text)[:1])
    seen = [world.step(Action(text=COST, kind=COST, args={"plan": plan})) for plan in (part, text, "nonsense")]
    assert [(s.done, s.accepted) for s in seen] == [(False, True), (False, True), (False, False)]
    assert 0 < seen[0].data["cost"] < seen[1].data["cost"]  # type: ignore[operator]
    assert seen[0].text.startswith(f"Cost ${seen[0].data['cost']:g} of ${benchmark.query(task).budget}: only 1 of ")
    assert world.score().answer is None
    assert "malformed" not in world.score().parts


def test_a_delivered_plan_is_scored_officially_and_a_malformed_one_is_none(benchmark: TravelPlanner):
    task = benchmark.tasks()[0]
    text = greedy(benchmark, task)
    seen, world = delivered(benchmark, task, text)
    assert (seen.done, seen.accepted, seen.data["malformed"]) == (True, True, False)
    assert world.score().answer == json.loads(text)
    assert world.score().parts["malformed"] == 0
    assert world.score().parts["cost"] == seen.data["cost"]
    seen, world = delivered(benchmark, task, text[:-9])
    assert (seen.done, seen.accepted, seen.solved, seen.data) == (True, False, False, {"malformed": True})
    assert world.score().answer is None
    assert world.score().parts["malformed"] == 1
    world.reset()
    assert "malformed" not in world.score().parts


def test_the_hidden_verdict_is_not_shown(benchmark: TravelPlanner):
    """Plans that pass and that fail officially for what a booking service cannot see get one and the same answer."""
    messages = set()
    for task in benchmark.tasks():
        text = greedy(benchmark, task)
        dinner = {"dinner": json.loads(text)[1]["lunch"]}  # the lunch again, which the official rules forbid
        for plan in (text, changed(text, dinner, day=1)):
            seen, world = delivered(benchmark, task, plan)
            assert seen.solved
            messages.add((seen.text, world.score().value))
    assert messages == {(f"Delivered: {CHECKED}.", value) for value in (0.0, 1.0)}


def test_what_the_check_of_a_submission_rejects_has_failed_officially(benchmark: TravelPlanner):
    """So an agent that may try again after a fault learns nothing of the verdict by being let."""
    planner = SimulatedPlanner(malformed=0.3, expensive=0.4, seed=2)
    faulted = 0
    for task in benchmark.tasks():
        text = invoked("plan_and_solve", benchmark, task, planner)["action"].args["plan"]
        seen, world = delivered(benchmark, task, text)
        faulted += not seen.solved
        assert seen.solved or world.score().value == 0
    assert faulted > TASKS / 3


# --- the graphs


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_least_answers_are_malformed_deliveries(graph: str, benchmark: TravelPlanner):
    state = invoked(graph, benchmark, benchmark.tasks()[0], model="scripted:first", limits=Limits(trials=2))
    assert state["observation"].data == {"malformed": True}
    assert [turn.action for turn in state["turns"]] == ["deliver "]
    assert len(state.get("trials", ["", ""])) == 2


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_expert_delivers_from_what_the_prompt_says(graph: str, benchmark: TravelPlanner):
    for task in benchmark.tasks()[:6]:
        state = invoked(graph, benchmark, task, model="scripted:expert")
        assert state["observation"].solved
        assert state["observation"].data["days"] == benchmark.query(task).days


def test_plan_and_solve_delivers_in_one_pass_whatever_action_is_written(benchmark: TravelPlanner):
    def hesitant(prompt: str, schema: dict[str, Any]) -> Any:
        return f"Action: cost\n{json.dumps([DAY])}" if SINGLE_PASS in prompt else "Day 1: go.\n\nDay 2: stay."

    state = invoked("plan_and_solve", benchmark, benchmark.tasks()[0], hesitant)
    assert state["outline"] == (SINGLE_PASS, "Day 1: go.", "Day 2: stay.")
    assert [turn.action.split()[0] for turn in state["turns"]] == [DELIVER]
    assert state["observation"].done


def test_reflexion_tries_again_only_after_a_rejected_submission(benchmark: TravelPlanner):
    planner = SimulatedPlanner(malformed=0.3, expensive=0.3, seed=3)
    trials = [invoked("reflexion", benchmark, task, planner)["trials"] for task in benchmark.tasks()]
    assert {len(episodes) for episodes in trials} > {1, 2}
    assert all(episode.ending == "world_ended" for episodes in trials for episode in episodes[:-1])
    assert all(episodes[-1].ending == "goal" or len(episodes) == benchmark.limits.trials for episodes in trials)


# --- the figures


def test_rates_are_exact_where_everything_is_spoiled(benchmark: TravelPlanner):
    broken = benchmark.figures(footers(benchmark, "react", SimulatedPlanner(malformed=1)))
    dear = benchmark.figures(footers(benchmark, "react", SimulatedPlanner(expensive=1)))
    assert (broken["malformed"], broken["over_budget"], broken["delivery"]) == (1, 0, 0)
    assert (dear["malformed"], dear["over_budget"], dear["delivery"], dear["hard_macro"]) == (0, 1, 1, 0)


def test_methods_that_write_no_text_have_the_six_official_rates_alone(benchmark: TravelPlanner, tmp_path: Path):
    figures = benchmark.figures([ran(benchmark, "sdp", benchmark.tasks()[0], tmp_path, model="scripted:first")])
    assert not {"malformed", "over_budget"} & set(figures)
    assert figures["delivery"] == 1


# --- the reference information


def test_longer_lists_keep_their_cheapest_in_the_datas_order():
    assert select_cheapest([5, 1, 4, 1, 3], float, 3) == [1, 1, 3]
    assert select_cheapest([5, 1], float, 3) == [5, 1]


def test_the_reference_fits_a_small_context_and_still_pays_for_a_trip(benchmark: TravelPlanner):
    task = benchmark.tasks()[0]
    query = benchmark.query(task)
    trip = benchmark.trip(query)
    texts = [format_reference(query, trip, benchmark.sandbox, most) for most in (6, 30)]
    assert len(texts[0]) < len(texts[1])
    assert texts[0].count("\n- ") <= 6 * (len(trip.legs) + 3 * len(trip.cities))
    state = invoked("plan_and_solve", benchmark, task, SimulatedPlanner(), limits=Limits(options=9))
    assert state["observation"].solved


@pytest.mark.long
@pytest.mark.slow
def test_all_real_tasks_are_planned_from_their_reference(tmp_path: Path):
    real = TravelPlanner(data_folder("travelplanner"))
    runs = [ran(real, "plan_and_solve", task, tmp_path, model="scripted:expert") for task in real.tasks()]
    figures = real.figures(runs)
    assert figures == figures | {"n": 120, "delivery": 1, "malformed": 0, "over_budget": 2 / 120}


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["tdp", "step", "mcts", "react_reward"])
def test_agents_that_would_have_to_guess_how_actions_are_written_end_before_the_first(graph: str, tmp_path: Path):
    context = Context(chat=ScriptedChat(responder=lambda prompt, schema: long_answer(schema, 40)))
    with pytest.warns(certigraph.RunFailedWarning, match="travelplanner:tools"):
        result = run(graph, "travelplanner", context=context, out=tmp_path)
    assert result.ending == "error:data"
    assert not [event for event in result.trajectory.events if event.node == "act"]
    assert result.usage.calls <= 3
