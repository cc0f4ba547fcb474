"""Tests of `benchmarks.rewardprediction.benchmark`."""

import gzip
import json
from itertools import pairwise
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certigraph.benchmarks.blocksworld.benchmark import BlocksWorld
from certigraph.benchmarks.rewardprediction.benchmark import (
    UNCORRELATED_DISTANCE,
    RewardPrediction,
    epic_distance,
    reward_figures,
)
from certigraph.benchmarks.rewardprediction.dataset import (
    RewardTrajectory,
    read_pairs,
    require_pair,
)
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Task

REWARDS = st.lists(st.integers(-50, 50).map(lambda n: n / 10), min_size=3, max_size=12).filter(
    lambda r: len(set(r)) > 1
)


@pytest.mark.parametrize(
    ("predicted", "true", "distance"),
    [
        ([1, 2, 3], [1, 2, 3], 0.0),
        ([1, 2, 3], [3, 2, 1], 1.0),
        ([1, 2, 3], [2, 2, 2], sqrt(0.5)),
        ([0.5], [1.0], sqrt(0.5)),
        ([0, 0], [0, 0], 0.0),
        ([0, 1, 0, 1], [0, 0, 1, 1], sqrt(0.5)),  # r = 0
        ([1, 2, 4], [1, 2, 3], sqrt((1 - 9 / sqrt(84)) / 2)),  # r = 3 / sqrt(14/3 * 2)
    ],
)
def test_epic_is_the_closed_form(predicted: list[float], true: list[float], distance: float):
    assert epic_distance(predicted, true) == pytest.approx(distance, abs=1e-6)


@pytest.mark.slow
@given(REWARDS, st.floats(0.1, 10), st.floats(-5, 5), st.randoms(use_true_random=False))
def test_epic_knows_no_scale_and_no_offset_and_is_symmetric(true, scale, shift, random):
    predicted = random.sample(true, len(true))
    distance = epic_distance(predicted, true)
    assert 0 <= distance <= 1
    assert epic_distance(true, predicted) == pytest.approx(distance, abs=1e-6)
    assert epic_distance([scale * one + shift for one in predicted], true) == pytest.approx(distance, abs=1e-4)
    assert epic_distance([0.3] * len(true), true) == pytest.approx(UNCORRELATED_DISTANCE)


@pytest.mark.parametrize("n", [2, 57])
def test_two_constants_are_uncorrelated_whatever_their_means_round_to(n: int):
    assert epic_distance([25 / 37] * n, [25 / 31] * n) == UNCORRELATED_DISTANCE


def test_unequal_lengths_are_refused():
    with pytest.raises(ValueError, match="2 predicted rewards for 3"):
        epic_distance([1, 2], [1, 2, 3])


def trajectory(*rewards: float, goal: str = "stack", expert: bool = False) -> dict:
    rows = [
        {"action": f"a{n}", "observation": f"o{n}", "reward": {"raw": 0.0, "shaped": r, "is_expert": expert}}
        for n, r in enumerate(rewards)
    ]
    return {"goal_description": goal, "trajectory": rows}


def test_figures_pool_the_recordings_and_take_them_apart():
    up, flat = (RewardTrajectory.model_validate(trajectory(*rewards)) for rewards in ((0.5, 1.0), (0.0, 0.0)))
    result = reward_figures((up, flat), [[0.5, 1.0], [0.0, 0.0]])
    assert (result["epic"], result["epic_each"]) == (0.0, 0.0)
    assert result["epic_raw"] == pytest.approx(UNCORRELATED_DISTANCE)  # the world's own rewards are all 0
    assert (result["final_positive"], result["final_negative"]) == (1.0, 0.0)
    rising = reward_figures((up, flat), [[0.5, 1.0], [0.5, 1.0]])
    assert rising["epic"] == pytest.approx(sqrt((1 - 0.125 / sqrt(0.25 * 0.6875)) / 2))
    assert rising["epic_each"] == pytest.approx(UNCORRELATED_DISTANCE / 2)


@pytest.mark.slow
def test_a_pair_is_expert_steps_between_random_ones_and_a_random_failure():
    world = BlocksWorld()
    pair = require_pair(world, world.task("5-3"))
    rows = pair.positive.trajectory
    expert = [place for place, row in enumerate(rows) if row.reward.is_expert]
    assert expert == list(range(expert[0], expert[-1] + 1))
    worth = [rows[place].reward.shaped for place in expert]
    assert worth == pytest.approx([(n + 1) / len(expert) for n in range(len(expert))])
    assert all(row.reward.shaped == row.reward.raw for row in rows if not row.reward.is_expert)
    assert rows[expert[-1]].reward.raw == 1.0
    (negative,) = pair.negatives
    assert len(negative.trajectory) == len(rows)
    assert {row.reward.shaped for row in negative.trajectory} == {0.0}
    actions = [row.action for row in rows]
    stretches = {(rows[place].action, rows[place + 1].action) for place in expert[:-1]}
    wandered = [row.action for row in negative.trajectory]
    assert not stretches & set(pairwise(wandered))
    assert actions != wandered


def test_the_same_seed_builds_the_same_pair_and_another_another():
    world = BlocksWorld()
    task = world.task("5-1")
    assert require_pair(world, task, 1) == require_pair(world, task, 1) != require_pair(world, task, 2)


class Lost(BlocksWorld):
    """Its demonstrations lead nowhere."""

    def demonstration(self, task: Task, before=()):
        return super().demonstration(task, before)[:1]


def test_a_demonstration_that_misses_the_goal_is_reported():
    world = Lost()
    with pytest.raises(Fault, match="its demonstration ends at 0 of 1"):
        require_pair(world, world.task("5-1"))


def test_a_demonstration_counts_up_to_the_goal():
    class Chatty(BlocksWorld):
        def demonstration(self, task, before=()):
            done = super().demonstration(task, before)
            return [*done, f"put down {done[-1].split(' ', 1)[1]}"]

    world = Chatty()
    pair = require_pair(world, world.task("5-1"))
    last = [row for row in pair.positive.trajectory if row.reward.is_expert][-1]
    assert (last.reward.raw, last.reward.shaped) == (1.0, 1.0)


def put(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(value, indent=1).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def test_published_folders_are_read_with_several_negatives(tmp_path):
    put(tmp_path / "alfworld" / "pick-1" / "positive.json", trajectory(0.5, 1.0) | {"extra": 1})
    put(tmp_path / "alfworld" / "pick-1" / "negative_0.json", trajectory(0.0, 0.0))
    put(tmp_path / "alfworld" / "pick-1" / "negative_1.json.gz", trajectory(0.0, 0.0))
    put(tmp_path / "alfworld" / "pick-2" / "positive.json", trajectory(0.5, 1.0))
    found = read_pairs(tmp_path)
    assert [(pair.id, len(pair.negatives)) for pair in found.pairs] == [("alfworld/pick-1", 2)]
    assert found.unpaired == {"alfworld": 1}
    assert [pair.id for pair in read_pairs(tmp_path / "alfworld").pairs] == ["alfworld/pick-1"]


def test_rows_named_by_id_are_read(tmp_path):
    rows = [trajectory(1.0) | {"id": "t7_positive"}, trajectory(0.0) | {"id": "t7_negative_3"}]
    (tmp_path / "webshop.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [pair.id for pair in read_pairs(tmp_path).pairs] == ["webshop/t7"]


def test_what_is_built_is_read_again_with_its_expert(tmp_path):
    world = BlocksWorld()
    pair = require_pair(world, world.task("4-0"))
    (tmp_path / "blocksworld.jsonl").write_text(pair.model_dump_json() + "\n")
    benchmark = RewardPrediction(tmp_path)
    task = benchmark.task("blocksworld/4-0")
    assert benchmark.pairs[task.id] == pair
    assert task.constants["domain"] == "blocksworld"
    assert "reward" not in json.dumps(task.constants)
    shown = [row.action for row in pair.positive.trajectory]
    last = max(n for n, row in enumerate(pair.positive.trajectory) if row.reward.is_expert)
    assert [seen.action for seen in benchmark.oracle(task)] == shown[: last + 1]


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ({"goal_description": "g", "trajectory": [{"action": "a", "observation": "o"}]}, "reward"),
        (trajectory(1.0, goal=""), "goal_description"),
        ({"goal_description": "g", "trajectory": []}, "trajectory"),
        ([], "empty"),
    ],
)
def test_bad_files_are_named(tmp_path, value, wrong: str):
    put(tmp_path / "textworld" / "t" / "positive.json", value)
    with pytest.raises(Fault, match=f"(?s)(?=.*{wrong}).*positive.json"):
        read_pairs(tmp_path)


def test_a_cut_off_line_an_only_positive_domain_and_an_empty_folder_are_reported(tmp_path):
    with pytest.raises(Fault, match="rewards build"):
        read_pairs(tmp_path)
    put(tmp_path / "alfworld" / "pick-1" / "positive.json", trajectory(0.5, 1.0))
    with pytest.raises(Fault, match="1 of alfworld"):
        read_pairs(tmp_path)
    (tmp_path / "webshop.jsonl").write_text(json.dumps(trajectory(1.0) | {"id": "t_positive"}) + '\n{"goal_des')
    with pytest.raises(Fault, match=r"webshop.jsonl: its last line is cut off"):
        read_pairs(tmp_path)


def test_a_domain_of_only_positives_next_to_a_whole_one_is_reported_when_it_is_requested(tmp_path):
    for name in ("positive", "negative_0"):
        put(tmp_path / "webshop" / "t" / f"{name}.json", trajectory(0.5, 1.0))
    put(tmp_path / "alfworld" / "pick-1" / "positive.json", trajectory(0.5, 1.0))
    benchmark = RewardPrediction(tmp_path)
    assert [task.id for task in benchmark.tasks()] == ["webshop/t"]
    with pytest.raises(Fault, match=r"no pair of alfworld.*put negative_0.json next to"):
        benchmark.tasks("alfworld")
    with pytest.raises(UnknownName, match="known are webshop"):
        benchmark.tasks("sokoban")
