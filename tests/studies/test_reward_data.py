"""Tests of `studies.reward_data`."""

import json
import time
from collections import Counter
from multiprocessing import active_children
from pathlib import Path

import pandas as pd
import pytest

from certigraph.benchmarks.rewardprediction.dataset import RewardDomain
from certigraph.state.endings import Fault, UnknownName
from certigraph.state.records import Task
from certigraph.studies import reward_data
from certigraph.studies.reward_data import (
    COUNTS_FILE,
    DROPPED_FILE,
    BuildRequest,
    DroppedTask,
    build_datasets,
    build_domain,
    build_pairs,
    create_queues,
    map_in_processes,
    read_counts,
    select_domains,
    take_balanced,
)
from certigraph.studies.rewards import (
    EPIC_FIGURE,
    OVERALL,
    RatedPair,
    granularity_of,
    has_known_goal,
    parse_predictors,
    predictor_table,
)
from certigraph.studies.rewards_report import describe_findings


@pytest.fixture(autouse=True)
def generated(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CERTIGRAPH_DATA", raising=False)


def tasks(*ids: str) -> list[Task]:
    return [Task(benchmark="b", id=id_) for id_ in ids]


def test_kinds_are_drawn_evenly_and_left_out_by_name():
    domain = RewardDomain(4, kind="(.*?)-", without=frozenset({"grow"}))
    drawn = create_queues(
        tasks("boil-1", "boil-2", "boil-3", "boil-4", "mix-1", "find-1", "find-2", "grow-1"), domain, 0
    )
    assert set(drawn) == {"boil", "mix", "find"}
    taken = take_balanced(drawn, {"boil": 1}, 5)
    assert Counter(task.id.partition("-")[0] for task in taken) == {"boil": 2, "find": 2, "mix": 1}


def test_the_draw_is_the_seed_s():
    many = tasks(*(f"t{n}" for n in range(30)))
    first, again, other = (list(create_queues(many, RewardDomain(0), seed)[""]) for seed in (0, 0, 1))
    assert first == again != other


def test_a_build_goes_on_and_comes_out_the_same(tmp_path: Path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    count = build_domain(BuildRequest("blocksworld", pairs=6), whole)
    assert (count.built, count.wanted, count.published) == (6, 6, 250)
    build_domain(BuildRequest("blocksworld", pairs=6), cut)
    lines = (cut / "blocksworld.jsonl").read_text().splitlines(keepends=True)
    (cut / "blocksworld.jsonl").write_text("".join(lines[3:5]) + lines[0][:50])  # as a kill leaves it
    build_domain(BuildRequest("blocksworld", pairs=6), cut)
    assert (cut / "blocksworld.jsonl").read_bytes() == (whole / "blocksworld.jsonl").read_bytes()
    assert read_counts(whole)["blocksworld"] == count


def test_another_seed_in_the_same_folder_is_refused(tmp_path: Path):
    build_domain(BuildRequest("blocksworld", pairs=2), tmp_path)
    with pytest.raises(Fault, match="holds blocksworld with seed 0, not 1"):
        build_domain(BuildRequest("blocksworld", pairs=2, seed=1), tmp_path)


def test_broken_tasks_are_counted_with_their_reason_and_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def breaking(benchmark, data, seed, given, at_once=1):
        for task in given:
            if task.id.startswith("4-"):
                yield DroppedTask(domain=benchmark, task=task.id, reason="it broke")
            else:
                yield from build_pairs(benchmark, data, seed, [task])

    monkeypatch.setattr(reward_data, "build_pairs", breaking)
    count = build_domain(BuildRequest("blocksworld", pairs=12), tmp_path)
    assert count.built == 12
    assert count.dropped["it broke"] == 5
    assert (tmp_path / DROPPED_FILE).read_text().count("it broke") == 5
    assert json.loads((tmp_path / COUNTS_FILE).read_text())[0]["dropped"]["it broke"] == 5


def test_an_exception_in_a_world_costs_one_pair():
    broken = Task(benchmark="blocksworld", id="x", constants={"init": "nonsense"})
    (outcome,) = build_pairs("blocksworld", None, 0, [broken])
    assert isinstance(outcome, DroppedTask)
    assert outcome.reason.startswith("task x")


def test_a_benchmark_without_demonstrations_is_named(tmp_path: Path):
    with pytest.raises(UnknownName, match="hotpotqa has no demonstrations"):
        build_domain(BuildRequest("hotpotqa"), tmp_path)
    assert set(select_domains(())) == {"alfworld", "blocksworld", "scienceworld", "textworld", "webshop"}


def test_a_domain_without_its_data_is_reported_in_a_line_and_the_others_are_built(tmp_path: Path):
    (tmp_path / "no games").mkdir()
    requests = [BuildRequest("alfworld", data=str(tmp_path / "no games")), BuildRequest("blocksworld", pairs=2)]
    lost, built = build_datasets(requests, tmp_path / "out", at_once=1, silent=True)
    assert "no games" in lost.failed and "\n" not in lost.failed
    assert (lost.built, built.built) == (0, 2)


@pytest.mark.slow
def test_no_process_goes_on_once_its_outcome_is_not_waited_for():
    began = time.monotonic()
    for _, outcome in map_in_processes(time.sleep, [0.01, 30.0, 30.0], 2):
        assert outcome is None
        break
    while active_children() and time.monotonic() - began < 20:
        time.sleep(0.05)
    assert not active_children()


@pytest.mark.slow
def test_a_process_that_dies_costs_its_own_piece():
    dying = "__import__('os')._exit(1)"
    assert dict(map_in_processes(eval, ["1 + 1", dying, "3"], 2)) == {"1 + 1": 2, dying: None, "3": 3}


def test_predictors_are_named_with_their_operators():
    made = parse_predictors(["raw=statefactory:route=route:granularity=raw", "statefactory", "monotonic:rate=constant"])
    assert [method.name for method in made] == ["raw", "statefactory", "monotonic:rate=constant"]
    assert [granularity_of(method) for method in made] == ["raw", "attribute", None]
    (offline,) = parse_predictors(["statefactory:interpret=offline_goal"])
    assert has_known_goal(offline) and granularity_of(offline) is None
    assert parse_predictors(["monotonic"], ["all-MiniLM-L6-v2"])[1].name == "all-MiniLM-L6-v2"
    assert parse_predictors(["monotonic"], ["1"])[1].operators["route"]["args"] == {"encoder": "1"}
    with pytest.raises(UnknownName, match="sdp predicts no rewards"):
        parse_predictors(["sdp"])
    with pytest.raises(UnknownName, match="two predictors are called monotonic"):
        parse_predictors(["monotonic", "monotonic"])


def row(predictor: str, pair: str, epic: float, **more: float) -> RatedPair:
    names = ("epic", "epic_each", "epic_raw", "epic_each_raw", "final_positive", "final_negative")
    figures = {**dict.fromkeys(names, epic), "final_negative": 0.1, **more}
    domain = pair.partition("/")[0]
    return RatedPair(
        predictor=predictor, pair=pair, domain=domain, rewards=((epic,),), figures=figures, seconds=0.1, digest=pair
    )


def test_overall_is_the_mean_of_domains_and_differences_are_paired():
    first = [row("a", "x/1", 0.2), row("a", "x/2", 0.4), row("a", "x/3", 0.3), row("a", "y/1", 0.9)]
    other = [row("b", one.pair, one.figures["epic"] + 0.1) for one in first]
    lines = predictor_table([*first, *other], ["a", "b"]).set_index(["predictor", "domain"])
    overall = lines.loc[("a", OVERALL)]
    assert overall[EPIC_FIGURE] == pytest.approx(0.6)
    assert overall["epic_low"] < 0.6 < overall["epic_high"]
    gap = lines.loc[("b", OVERALL), ["difference", "difference_low", "difference_high"]]
    assert list(gap) == pytest.approx([0.1, 0.1, 0.1])
    assert pd.isna(lines.loc[("a", "x"), "difference"])


@pytest.mark.slow
def test_equal_domains_are_resampled_apart():
    rows = [row("a", f"d{domain}/{pair}", float(pair % 2)) for domain in range(4) for pair in range(40)]
    one = predictor_table([r for r in rows if r.domain in ("d0", "d1")], ["a"])["epic_low"].iloc[-1]
    two = predictor_table(rows, ["a"])["epic_low"].iloc[-1]
    assert two - 0.5 == pytest.approx((one - 0.5) / 2**0.5, abs=0.03)


def test_findings_say_whether_the_papers_order_holds():
    methods = parse_predictors(["statefactory", "raw=statefactory:route=route:granularity=raw"])
    rows = [row("statefactory", "x/1", 0.3), row("raw", "x/1", 0.8)]
    text = describe_findings(methods, predictor_table(rows, ["statefactory", "raw"]), rows)
    assert "raw 0.800 > attribute 0.300; the paper's order" in text[0]
    assert "in every domain" in text[-1]
    worse = [row("statefactory", "x/1", 0.9, final_positive=0.0), row("raw", "x/1", 0.8)]
    text = describe_findings(methods, predictor_table(worse, ["statefactory", "raw"]), worse)
    assert "not the paper's order" in text[0] and "not in x" in text[-1]
