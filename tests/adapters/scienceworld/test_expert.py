"""Tests of `adapters.scienceworld.expert`."""

from collections import Counter
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, Field
from real_data import data_folder
from twins import Twins

from certigraph.adapters.models.predicates import Conditions, Holds, NextAction
from certigraph.adapters.models.schemas import schema_of
from certigraph.adapters.models.scripts import IMPOSSIBLE_PREFIX, INVALID_ACTION, Situation, use_situation
from certigraph.adapters.protocols import Context
from certigraph.adapters.scienceworld import benchmark, recordings
from certigraph.adapters.scienceworld.benchmark import ScienceWorldBenchmark
from certigraph.adapters.scienceworld.expert import (
    IDLE_ACTION,
    Milestone,
    count_done,
    create_expert,
    join_milestones,
    milestones_of,
)
from certigraph.adapters.scienceworld.recordings import GoldRecording, read_recordings
from certigraph.graphs import sdp
from certigraph.nodes.plans import SupervisorJudgement, steps_form
from certigraph.nodes.sdp import always_pass, capped, give_up
from certigraph.runtime.result import Result
from certigraph.runtime.run import run
from certigraph.state.records import (
    Action,
    Fault,
    Observation,
    Predicate,
    Step,
    Task,
)

# ScienceWorld's expert: where it stands on the gold path, and that errors of any kind do not throw it off for good.

FAMILIES = ("boil", "find-plant", "identify-life-stages-2", "inclined-plane-determine-angle", "use-thermometer")
"""Heat and waiting, search, stages, an experiment with questions, a measurement."""

SWAPS = {
    "none": {},
    "always_pass": {"validate": always_pass},
    "give_up": {"replan": give_up},
    "capped": {"validate": capped(depth=1)},
}


@cache
def recordings_expert() -> dict[str, GoldRecording]:
    return {r.task: r for r in read_recordings(data_folder("scienceworld") / "gold_var0.jsonl.gz")}


def told(action: str, **args: Any) -> Step:
    return Step(action=Action(text=action, args=args), digest="-")


def answer(gold: GoldRecording, form: Any, history: list[Step], score: int, **state: Any) -> Any:
    """What the expert answers where a run stands so."""
    seen = Observation(text="", data={"score": score})
    shown = {"task": gold.as_task(), "history": history, "observation": seen, **state}
    with use_situation(Situation("realize", 1, shown)):
        return create_expert(lambda *key: gold)("", schema_of(form))


def test_what_is_done_is_found_in_the_history_in_order_with_anything_between():
    path = ["look", "open door", "look", "go"]
    assert count_done(path, []) == 0
    assert count_done(path, [told("open door"), told("go")]) == 0
    assert count_done(path, [told("LOOK"), told(INVALID_ACTION), told("go"), told("open  door")]) == 2
    assert count_done(path, [told("look"), told("open the door", written="open door")]) == 2
    assert count_done(path, [told(action) for action in [*path, *path]]) == 4


def test_the_next_action_is_the_paths_next_one_whatever_the_target():
    gold = recordings_expert()["boil"]
    for done in (0, 1, 5):
        history = [
            step
            for action in gold.actions[:done]
            for step in (told(INVALID_ACTION), told(action), told(INVALID_ACTION))
        ]
        assert answer(gold, NextAction, history, 0, plan=[Predicate(text="anything")])["action"] == gold.actions[done]


def test_a_plan_names_the_milestones_ahead_and_none_of_those_reached():
    gold = recordings_expert()["boil"]
    rises = milestones_of(gold)
    assert answer(gold, Conditions, [], gold.start)["conditions"] == [rise.text() for rise in rises]
    assert answer(gold, Conditions, [], rises[1].score)["conditions"] == [rise.text() for rise in rises[2:]]


def test_a_verdict_counts_the_milestones_reached_up_to_the_first_condition_that_it_does_not_know():
    gold = recordings_expert()["boil"]
    rises = milestones_of(gold)

    def held(*texts: str, score: int) -> int:
        plan = [Predicate(text="already certified"), *(Predicate(text=text) for text in texts)]
        return int(answer(gold, Holds, [], score, plan=plan, head=1)["holds"])

    texts = [rise.text() for rise in rises[:3]]
    assert [held(*texts, score=score) for score in (0, rises[0].score, rises[2].score)] == [0, 1, 3]
    assert held(texts[0], f"{IMPOSSIBLE_PREFIX} (2).", texts[2], score=100) == 1


class Graph(BaseModel):
    """What is asked of who decomposes: the nodes, at most eight."""

    nodes: list[dict[str, Any]] = Field(json_schema_extra={"maxItems": 8})


def sub_task(gold: GoldRecording, goal: str) -> Task:
    return gold.as_task().model_copy(update={"goal": goal})


def test_a_task_graph_is_a_chain_of_the_milestones_ahead_neighbours_joined_where_there_are_many():
    gold = recordings_expert()["mendelian-genetics-known-plant"]
    rises = milestones_of(gold)
    chain = answer(gold, Graph, [], rises[0].score)["nodes"]
    assert len(rises) > 8 >= len(chain)
    assert [node["needs"] for node in chain] == [[], *([node["id"]] for node in chain[:-1])]
    assert chain[0]["task"].startswith(
        f"Milestone {join_milestones(rises[1:], 8)[0].number}: actions {rises[1].first} to"
    )
    assert chain[-1]["task"].endswith(f"to {rises[-1].last} of the gold path, score 100.")


def test_joined_milestones_lead_the_same_way():
    rises = [Milestone(n, 2 * n - 1, 2 * n, 10 * n) for n in range(1, 11)]
    assert join_milestones(rises, 10) == rises
    assert join_milestones(rises, 4) == [
        Milestone(3, 1, 6, 30),
        Milestone(6, 7, 12, 60),
        Milestone(9, 13, 18, 90),
        rises[9],
    ]
    assert join_milestones(rises, 1) == [Milestone(10, 1, 20, 100)]
    assert join_milestones([], 3) == []


def test_a_plan_of_steps_ends_where_the_sub_task_does():
    gold = recordings_expert()["boil"]
    second = milestones_of(gold)[1]
    steps = answer(gold, steps_form(8), [], 0, task=sub_task(gold, second.text()))["steps"]
    assert steps == list(gold.actions[: min(second.last, 8)])
    assert answer(gold, steps_form(8), [], 0)["steps"] == list(gold.actions[:8])
    walk = [told(action) for action in gold.actions]
    assert answer(gold, steps_form(8), walk, 100)["steps"]


def test_a_sub_task_is_completed_by_its_score_or_its_actions_and_the_last_one_by_its_score_alone():
    gold = recordings_expert()["boil"]
    rises = milestones_of(gold)

    def status(rise: Milestone, done: int, score: int) -> str:
        history = [told(action) for action in gold.actions[:done]]
        judged = answer(
            gold, SupervisorJudgement, history, score, task=sub_task(gold, f"{rise.text()}\nIt settles more.")
        )
        assert judged["off_plan"] is False
        return str(judged["status"])

    first, last = rises[0], rises[-1]
    assert status(first, first.last - 1, first.score - 1) == "needs_more_steps"
    assert status(first, first.last, first.score - 1) == status(first, 0, first.score) == "completed"
    assert status(last, last.last, 99) == "needs_more_steps"
    assert status(last, 0, 100) == "completed"


def simulated(family: str, out: Path, swap: str, config: str = "") -> Result:
    twins = Twins(tuple(recordings_expert().values()), config)
    context = Context(model="simulated:propose=0.1,act=0.3,accept=0.1,reject=0.1,seed=2")
    return run(sdp.build(**SWAPS[swap]), twins, f"gold/{family}:0", context=context, out=out)  # type: ignore[arg-type]


@pytest.mark.parametrize("family", FAMILIES)
def test_errors_of_every_kind_delay_the_expert_and_do_not_stop_it(family: str, tmp_path: Path):
    result = simulated(family, tmp_path, "none")
    assert result.scores and result.scores.value == 1.0, result.ending
    taken = [step.action.text for step in result.state["history"]]
    gold = recordings_expert()[family].actions
    assert taken.count(INVALID_ACTION) > 0
    assert set(Counter(taken) - Counter(gold)) <= {INVALID_ACTION, IDLE_ACTION}
    along = iter(taken)
    assert all(action in along for action in gold), "the gold path, in its order"


@pytest.mark.parametrize("swap", SWAPS)
@pytest.mark.parametrize("config", ["", "paper"])
def test_every_ablation_runs_to_an_ending_of_its_own(swap: str, config: str, tmp_path: Path):
    result = simulated("find-plant", tmp_path, swap, config)
    assert result.ending in ("goal", "world_ended", "gave_up"), result.message
    if swap == "always_pass":
        assert result.ending == "goal"
        assert result.scores and result.scores.value < 1.0, "certified is not reached"


@pytest.mark.slow
def test_the_real_simulator_refuses_a_slip_and_stays_as_it_was():
    benchmark = ScienceWorldBenchmark()
    world = benchmark.open(benchmark.task("gold/use-thermometer:0"))
    world.reset()
    before, seen = world.view(), world.step(Action(text=INVALID_ACTION))
    assert (seen.accepted, seen.data["moves"], world.view()) == (False, 0, before)
    world.close()


@pytest.mark.slow
@pytest.mark.parametrize("swap", SWAPS)
def test_every_ablation_runs_to_an_ending_on_the_real_simulator(swap: str, tmp_path: Path):
    context = Context(model="simulated:propose=0.1,act=0.3,accept=0.1,reject=0.1")
    for task in ("gold/use-thermometer:0", "short/find-non-living-thing:0"):
        result = run(sdp.build(**SWAPS[swap]), "scienceworld", task, context=context, out=tmp_path)  # type: ignore[arg-type]
        assert result.ending in ("goal", "world_ended", "gave_up"), result.message
        assert swap != "none" or (result.scores and result.scores.value == 1.0)


# ScienceWorld's demonstrations, on recorded gold paths; no simulator runs.

TASKS = ("boil", "find-plant", "use-thermometer")
"""A change, a search, a measurement whose answers are numbers of options."""


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> dict[str, GoldRecording]:
    """The gold paths by task, which demonstrations are read from."""
    found = read_recordings(data_folder("scienceworld") / "gold_var0.jsonl.gz")
    paths = {(one.task, one.variation, one.simplification): one for one in found}
    monkeypatch.setattr(benchmark, "load_gold_recording", lambda *key: paths[key])
    return {one.task: one for one in found}


@pytest.mark.parametrize("name", TASKS)
def test_a_demonstration_reaches_the_goal_and_is_the_same_from_anywhere(name: str, recorded: dict[str, GoldRecording]):
    world = Twins([recorded[name]])
    task = world.task(recorded[name].id)
    way = world.demonstration(task)
    assert world.demonstration(task, way[:2]) == way
    live = world.open(task)
    live.reset()
    scores = [live.step(Action(text=action)).data["score"] for action in way]
    assert scores[recorded[name].firstdone - 1] == 100 and live.score().value == 1.0


def test_a_way_that_ends_below_100_is_no_demonstration():
    told: dict[str, Any] = {"gold_actions": ["wait"], "description": "Grow it."}
    calls = {name: lambda value=value: value for name, value in told.items()}
    simulator = SimpleNamespace(load=lambda *a, **k: "A room.", step=lambda a: "You wait.", score=lambda: 50, **calls)
    with pytest.raises(Fault, match=r"the gold path of grow-plant:7 \(''\) ends at \[50\]"):
        recordings.record_gold(simulator, "grow-plant", 7)  # type: ignore[arg-type]
